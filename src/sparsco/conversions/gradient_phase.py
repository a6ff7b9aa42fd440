"""The gradient phase of OptimalSL: sums of c x and h x^2 at a point that does not move."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..data.rows import add_rows, add_squared_rows, ask_for_row, margins
from ..jit.dispatch import U, kernel
from ..jit.lanes import load, load_row, store, width
from ..losses import curvature, derivative
from ..offsets import of_kernels
from ..problem.state import Means, Problem, Rows, compacted, padded, widened


class FixedPoint:
    """The sums of c x and h x^2 at a fixed point; a run of OptimalSL owns it during the gradient phase."""

    def __init__(self, w: np.ndarray, b: np.ndarray, problem: Problem) -> None:
        width = problem.width
        self.w, self.b = np.zeros((problem.d, width)), np.zeros(width)
        self.w[: len(w), : problem.m], self.b[: problem.m] = w, b
        self.m, self.n = problem.m, 0
        self.G, self.H = np.zeros_like(self.w), np.zeros_like(self.w)
        self.bias = np.zeros((2, width))

    def grow(self, d: int) -> None:
        self.w, self.G, self.H = (padded(part, d) for part in (self.w, self.G, self.H))

    def keep(self, kept: np.ndarray) -> None:
        self.w, self.G, self.H = (compacted(part, kept) for part in (self.w, self.G, self.H))

    def widen(self, problem: Problem) -> None:
        self.w, self.b, self.G, self.H, self.bias = (
            widened(part[..., : self.m], problem.width) for part in (self.w, self.b, self.G, self.H, self.bias)
        )
        self.m = problem.m

    def learn(self, rows: Rows, order: np.ndarray, problem: Problem) -> None:
        if problem.lanes is None or problem.loss.couples:
            self._learn_whole(rows, order, problem.loss)
        else:
            arrays = (array.reshape(-1) for array in (self.w, self.b, self.G, self.H, self.bias))
            sum_gradients(rows, order, problem.method.loss, problem.lanes, *arrays)
        self.n += len(order)

    def _learn_whole(self, rows: Rows, order: np.ndarray, loss: Any) -> None:
        """Add to the sums with whole arrays: for a loss that couples margins, or for more models than lanes."""
        m, where = self.m, (*rows[:3], order)
        y, weight = (part.reshape(len(order), -1)[:, :m] for part in (of_kernels(rows.targets), rows.weights))
        p = margins(*rows[:3], self.w, self.b[:m], order)
        add_rows(*where, weight * derivative(loss, p, y), self.G, 0, self.bias[0])
        add_squared_rows(*where, weight * curvature(loss, p, y), self.H, 0, self.bias[1])

    def means(self) -> Means:
        m, n = self.m, max(self.n, 1)
        return Means(
            self.w[:, :m].copy(),
            self.b[:m].copy(),
            self.G[:, :m] / n,
            self.bias[0, :m] / n,
            self.H[:, :m] / n,
            self.bias[1, :m] / n,
            self.n,
        )


@kernel
def sum_gradients(rows, order, loss, lanes, w, b, G, H, bias):
    """Add c x and h x^2 at the fixed w for every row and model; arrays are flat, with a feature's lanes adjacent."""
    indptr, indices, data, targets, weights = rows
    m, one = U(width(lanes)), U(1)
    for k in range(order.size):
        ask_for_row(indptr, indices, data, order, k)
        i = U(order[k])
        p = load(lanes, b, U(0))
        for at in range(U(indptr[i]), U(indptr[i + one])):
            p = p + load(lanes, w, U(indices[at]) * m) * data[at]
        y, weight = load_row(lanes, targets, k), load_row(lanes, weights, k)
        c, h = weight * derivative(loss, p, y), weight * curvature(loss, p, y)
        store(lanes, bias, U(0), load(lanes, bias, U(0)) + c)
        store(lanes, bias, m, load(lanes, bias, m) + h)
        for at in range(U(indptr[i]), U(indptr[i + one])):
            j = U(indices[at]) * m
            store(lanes, G, j, load(lanes, G, j) + c * data[at])
            store(lanes, H, j, load(lanes, H, j) + h * (data[at] * data[at]))
