"""Reconstruct an image from noisy rays through it: sparse Kaczmarz with several conversions.

    python examples/tomography.py [--size 64] [--out tomography.png]

Draws the true image, the reconstructions, and how their errors and numbers of nonzero pixels fall along the way.
"""

from __future__ import annotations

import argparse

import numpy as np
from matplotlib.figure import Figure

import sparsco
from sparsco.datasets import tomography

CONVERSIONS = {"last iterate": "last", "OCMDI": "ocmdi", "average": "average", "last half": "suffix"}
SHARES = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0)


def main(arguments: list[str] | None = None) -> dict[str, list[tuple[int, float, int]]]:
    """Solve, print, draw; per conversion (rows used, relative error, nonzeros)."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--size", type=int, default=64, help="pixels along a side (default: %(default)s)")
    parser.add_argument("--out", default="tomography.png", help="where the picture goes (default: %(default)s)")
    given = parser.parse_args(arguments)

    truth = tomography.shepp_logan(given.size)
    A = tomography.fan_beam(given.size)
    y = tomography.noisy(A @ truth.ravel(), level=0.05, seed=0)
    start = np.random.default_rng(0).random(truth.size)
    print(f"{A.shape[0]:,} rays, {truth.size:,} pixels, {np.count_nonzero(truth):,} of them not zero")

    curves: dict[str, list[tuple[int, float, int]]] = {name: [] for name in CONVERSIONS}
    images = {}
    for name, conversion in CONVERSIONS.items():
        for share in SHARES:
            rows = int(5 * share * A.shape[0])
            solution = sparsco.kaczmarz(A, y, lam=1.0, conversion=conversion, iterations=rows, start=start)
            error = float(np.linalg.norm(solution.w - truth.ravel()) / np.linalg.norm(truth))
            curves[name].append((rows, error, int(np.count_nonzero(solution.w))))
        images[name] = solution.w.reshape(truth.shape)
        print(f"{name:14} relative error {error:.3f}, {curves[name][-1][2]:,} pixels not zero")

    figure = Figure(figsize=(13, 6))
    grid = figure.subplots(2, 5)
    for axes, (name, picture) in zip(grid[0], {"true image": truth, **images}.items(), strict=True):
        axes.imshow(picture, cmap="gray", vmin=0.0, vmax=1.0)
        axes.set(title=name, xticks=[], yticks=[])
    for axes, field, label in ((grid[1, 0], 1, "relative error"), (grid[1, 2], 2, "nonzero pixels")):
        for name, points in curves.items():
            axes.plot([point[0] for point in points], [point[field] for point in points], ".-", label=name)
        axes.set(xlabel="rays used", ylabel=label, xscale="log")
        axes.grid(alpha=0.3)
    grid[1, 2].axhline(np.count_nonzero(truth), color="black", linewidth=0.8, linestyle=":")
    grid[1, 2].legend(fontsize=8, loc="center left", bbox_to_anchor=(1.05, 0.5))
    for column in (1, 3, 4):
        grid[1, column].set_visible(False)
    figure.savefig(given.out, dpi=110, bbox_inches="tight")
    print(f"picture: {given.out}")
    return curves


if __name__ == "__main__":
    main()
