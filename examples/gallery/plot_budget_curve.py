"""
Ways to have k features, compared
=================================

A model with at most k features can be made in several ways: keep the largest weights, keep the largest and learn them
anew (``budget=k``), draw features at random, or learn in a small L1 ball. :func:`sparsco.plots.risk_vs_features`
draws the error of each against k.
"""

# %%
# A regression whose columns have very different scales, so that the size of a weight misleads.
import matplotlib.pyplot as plt
import numpy as np

from sparsco import plots
from sparsco.datasets.generators import uneven_moments

X, y = uneven_moments(6_000, 400, relevant=0.2, rng=np.random.default_rng(0))
curves = plots.risks(X[:3_000], y[:3_000], X[3_000:], y[3_000:], sizes=(5, 10, 20, 40, 80), trials=5)
for name, points in curves.items():
    print(f"{name:12}", ", ".join(f"{int(features)} features: {risk:.3g}" for features, risk in points))

# %%
# "budget" is the way that ``SparseRegressor(budget=k)`` takes.
fig, axes = plt.subplots(figsize=(7, 4), layout="constrained")
plots.draw(axes, curves)
