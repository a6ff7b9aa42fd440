"""
An image from noisy rays
========================

A scanner measures sums of pixels along rays. Most pixels are black, so the solution of this huge linear system is
sparse. :func:`sparsco.kaczmarz` uses one ray at a time. The conversion decides which image is made of its iterates.
"""

# %%
# 64 x 64 pixels, and rays with 5% of noise.
import matplotlib.pyplot as plt
import numpy as np

import sparsco
from sparsco.datasets import tomography

truth = tomography.shepp_logan(64)
A = tomography.fan_beam(64)
y = tomography.noisy(A @ truth.ravel(), level=0.05, seed=0)
print(f"{A.shape[0]:,} rays, {truth.size:,} pixels, {np.count_nonzero(truth):,} of them not black")

# %%
# Five rounds over the rays, in random order, from a random image.
start = np.random.default_rng(0).random(truth.size)
images = {"true image": truth}
for name, conversion in {"last iterate": "last", "average": "average", "average of the last half": "suffix"}.items():
    solution = sparsco.kaczmarz(A, y, lam=1.0, conversion=conversion, iterations=5 * A.shape[0], start=start)
    images[name] = solution.w.reshape(truth.shape)
    error = np.linalg.norm(images[name] - truth) / np.linalg.norm(truth)
    print(f"{name:25} relative error {error:.3f}, {np.count_nonzero(solution.w):,} pixels not black")

# %%
fig, grid = plt.subplots(1, 4, figsize=(11, 3.2), layout="constrained")
for axes, (name, image) in zip(grid, images.items(), strict=True):
    axes.imshow(image, cmap="gray", vmin=0.0, vmax=1.0)
    axes.set(title=name, xticks=[], yticks=[])
