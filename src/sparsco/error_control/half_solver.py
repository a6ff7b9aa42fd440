"""L1 solutions on many halves of the rows at once.

The halves share the columns of all rows, and one pass over them gives the gradients of all halves.  A half copies only
the columns that take part in its steps, for its own rows.
"""

from __future__ import annotations

import numpy as np

from ..losses import derivative
from ..solver.columns import ByColumn, copied_columns, sum_by_column
from ..solver.elastic_net import Accuracy, ElasticNetSolver, Examples
from ..util.blas import one_blas_thread

_DENSE = 0.25
"""The share of nonzeros from which all columns are one dense array."""
_NEAR, _COPIED = 0.9, 0.85
"""A column with a gradient of so many times its penalty takes part in a step, or is copied when others are."""


class Design:
    """The columns of all rows, as a sparse or a dense array.

    Gradients only decide which columns take part in a step, so float32 is enough for those of a dense array.
    """

    def __init__(self, X: ByColumn, units: np.ndarray) -> None:
        self.X, self.units = X, units
        is_dense = len(X.x) > _DENSE * X.n * X.d
        self.dense = np.ascontiguousarray(X.dense(), np.float32) if is_dense else None

    def gradients(self, c: np.ndarray) -> np.ndarray:
        """Return sum_i c_ik x_i for each column k of c (rows, lanes), as (lanes, columns)."""
        if self.dense is not None:
            with one_blas_thread():
                return (c.T.astype(np.float32) @ self.dense).astype(np.float64)
        found = np.empty((self.X.d, c.shape[1]))
        sum_by_column(self.X.first, self.X.rows, self.X.x, c, found)
        return np.ascontiguousarray(found.T)


class HalfSolver(ElasticNetSolver):
    """The solutions of one model on a half of the rows, on the columns that it has copied so far."""

    def __init__(self, design: Design, rows: np.ndarray, examples: Examples, intercept: bool) -> None:
        self.design, self.half = design, rows
        self.place = np.full(design.X.n, -1, np.int32)
        self.place[rows] = np.arange(len(rows), dtype=np.int32)
        self.columns = np.zeros(0, np.int64)
        """The columns that are copied, in the order of their copies."""
        self.at = np.full(design.X.d, -1, np.int32)
        """The number of each column among them."""
        self.slopes = np.zeros(design.X.d)
        """The gradient of all columns, written by ``differentiate``."""
        self.room_rows, self.room_x = np.zeros(0, np.uint32), np.zeros(0)
        """The rows and values of the copies, with room for more."""
        nothing = ByColumn(np.zeros(1, np.int64), self.room_rows, self.room_x, len(rows))
        super().__init__(nothing, examples, np.zeros(0), intercept)

    def derivatives(self) -> np.ndarray:
        """Return the derivatives of the mean loss in the margins of the rows."""
        y, weights, loss, _ = self.examples
        return weights * derivative(loss, self.p, y) / self.n

    def near(self, lam: float) -> np.ndarray:
        """Return the columns that take part in the first step to a strength."""
        is_near = np.abs(self.slopes) > _NEAR * lam * self.design.units
        is_near[self.columns[self.w != 0.0]] = True
        return np.flatnonzero(is_near)

    def wrong(self, lam: float, accuracy: Accuracy, left: np.ndarray) -> np.ndarray:
        """Return the columns of a further step, if one was left out wrongly; else none."""
        is_wrong = np.abs(self.slopes) > (1.0 + accuracy.violation) * lam * self.design.units
        is_wrong[self.columns[left]] = False
        if not is_wrong.any():
            return np.zeros(0, np.int64)
        is_wrong[self.columns[left]] = True
        return np.flatnonzero(is_wrong)

    def steps(self, columns: np.ndarray, lam: float, accuracy: Accuracy) -> np.ndarray:
        """Take steps to a strength in some columns; return the copies that take part in the last step."""
        if (self.at[columns] < 0).any():
            ahead = np.abs(self.slopes) > _COPIED * lam * self.design.units
            ahead[columns] = True
            self._copy(np.flatnonzero(ahead & (self.at < 0)))
        chosen = self.at[columns].astype(np.int64)
        return self._newton(lam * self.units[chosen], np.zeros(len(chosen)), chosen, accuracy)

    def _copy(self, new: np.ndarray) -> None:
        """Copy further columns for the rows of this half."""
        design, used = self.design.X, len(self.X.x)
        ends, rows, x = copied_columns(design.first, design.rows, design.x, new, self.place)
        stop = used + len(x)
        if stop > len(self.room_x):
            to_rows, to_x = np.empty(2 * stop, np.uint32), np.empty(2 * stop)
            to_rows[:used], to_x[:used] = self.X.rows, self.X.x
            self.room_rows, self.room_x = to_rows, to_x
        self.room_rows[used:stop], self.room_x[used:stop] = rows, x
        first = np.concatenate([self.X.first, used + ends[1:]])
        self.X = ByColumn(first, self.room_rows[:stop], self.room_x[:stop], self.X.n)
        self.at[new] = len(self.columns) + np.arange(len(new), dtype=np.int32)
        self.columns = np.concatenate([self.columns, new])
        self.w, self.units = np.concatenate([self.w, np.zeros(len(new))]), self.design.units[self.columns]
        self.tilt = self.tilt._replace(w=np.zeros(len(self.columns)))

    @property
    def selected(self) -> np.ndarray:
        """Return the columns that have a weight."""
        return self.columns[self.w != 0.0]


def differentiate(design: Design, solvers: list[HalfSolver]) -> None:
    """Compute the gradients of some halves in one pass over the columns."""
    c = np.zeros((design.X.n, len(solvers)))
    for k, solver in enumerate(solvers):
        c[solver.half, k] = solver.derivatives()
    for solver, slopes in zip(solvers, design.gradients(c), strict=True):
        solver.slopes = slopes


def strength_of_nothing(solvers: list[HalfSolver]) -> float:
    """Return the smallest strength at which no half selects a column; their gradients must be at no features."""
    return max(float((np.abs(each.slopes) / each.design.units).max(initial=0.0)) for each in solvers)


def solve(design: Design, solvers: list[HalfSolver], lam: float, accuracy: Accuracy) -> None:
    """Let all halves go on to a strength, from the solutions before."""
    going = [(solver, solver.near(lam)) for solver in solvers]
    for _ in range(accuracy.rounds):
        left = [(solver, solver.steps(columns, lam, accuracy)) for solver, columns in going]
        differentiate(design, [solver for solver, _ in going])
        further = [(solver, solver.wrong(lam, accuracy, copies)) for solver, copies in left]
        going = [(solver, columns) for solver, columns in further if columns.size]
        if not going:
            break
