"""Steps of one model by samples of the rows: which weights move, how many rows they take, what the steps have shown."""

from __future__ import annotations

import numpy as np

from ..data import row_sums
from ..data.rows import Matrix
from ..penalties.blocks import Blocks
from ..solver.loss_term import LossTerm
from ..solver.sampled import Movable, Point, Sample

_NEAR, _SOON = 0.95, 0.85
"""A weight that is zero may move in the next step, or in one soon, if its slope is this share of its L1 weight."""
_LEAST_WEIGHTS, _MOST_WEIGHTS = 100, 1200
"""The weights that may move: at least so many, if their slopes are near, and at most."""
_ROWS, _LEAST_ROWS, _MOST_NONZEROS = 32, 4096, 1 << 23
"""The rows of a sample: for each weight that moves, at least, and its nonzeros at most."""
_DENSE, _FEWER = 0.1, 4
"""The share of nonzeros from which a matrix costs more than a pass, and how many times smaller samples are then."""
_FEWEST = 8
"""The rows for each weight that moves, below which a sample does not serve."""
_MORE_ROWS, _SLOW = 4, 0.25
"""A sample grows by this factor after a step that left more than this share of the possible fall."""


class Sampling:
    """The samples of one model, from step to step."""

    def __init__(self, serves: bool) -> None:
        """Begin without a sample; ``serves``: steps by samples are possible."""
        self.serves = serves
        self.curves: np.ndarray | None = None
        """The second derivative of each weight in the first pass, as a share of the sum of curvatures; then 1.

        None: rows are full, and every sample shows it.
        """
        self.wanted_rows = 0
        self._sample: Sample | None = None
        self._drawn, self._rows_per_weight = 0, _ROWS
        self._movable = Movable(np.zeros(0, bool), np.zeros(0, bool))
        self.begin()

    def begin(self, forgets: bool = False) -> None:
        """Begin with another strength: the sample is kept, and what was expected of the next step is dropped.

        ``forgets``: the L2 weight is another one, too, and the matrix is computed again.
        """
        if forgets and self._sample is not None:
            self._sample.forget()
        self._fall = np.inf
        self._left: Point | None = None
        """The point of the last step."""

    # ---- the first pass --------------------------------------------------------------------------------------------

    def add_curves(self, X: Matrix, h: np.ndarray) -> None:
        """Add sum_i h_i x_i^2 to the second derivatives, and the curvatures (n, m) to their sum."""
        curves = self._curves_of(X.d, h)
        for q in range(h.shape[1]):
            row_sums.add_squares(X.indptr, X.indices, X.data, np.ascontiguousarray(h[:, q]), curves[:-1, q])

    def add_first_sums(self, X: Matrix, c: np.ndarray, h: np.ndarray, by_sign: np.ndarray) -> None:
        """Add the gradient by the sign of the slopes c (n, 1), and what ``add_curves`` does, for one output."""
        curves = self._curves_of(X.d, h)
        row_sums.add_first_sums(*X[:3], c.reshape(-1), h.reshape(-1), by_sign, curves[:-1, 0])

    def _curves_of(self, d: int, h: np.ndarray) -> np.ndarray:
        """Return the sums for d weights and the curvatures, to which those of some rows are added."""
        if self.curves is None:
            self.curves = np.zeros((d + 1, h.shape[1]), order="F")
        self.curves[-1] += h.sum(0)
        return self.curves

    def end_first_pass(self) -> None:
        """Divide the second derivatives by the sum of curvatures."""
        if self.curves is not None:
            self.curves /= np.maximum(self.curves[-1], 1e-300)

    # ---- a step ----------------------------------------------------------------------------------------------------

    def plan(self, at: Point, psi: Blocks, violations: np.ndarray, n: int, nonzeros: float) -> bool:
        """Plan the next step; return whether a sample of the n rows, with so many nonzeros each, serves."""
        self.serves = self.serves and self._learn(at, psi.rho, violations, n) and self._choose(at, psi)
        if self.serves:
            size = int(np.count_nonzero(self._movable.soon))
            wanted = max(_LEAST_ROWS, self._rows_per_weight * size)
            if self.curves is not None and nonzeros > _DENSE * len(at.W):
                wanted //= _FEWER
            self.wanted_rows = int(min(n, wanted, _MOST_NONZEROS / nonzeros))
            self.serves = self.wanted_rows >= min(_FEWEST * size, max(_LEAST_ROWS, n))
        return self.serves

    @property
    def rows_to_draw(self) -> int:
        """Return how many rows to draw for the next step; 0 if the sample has enough.

        A sample that grows is at least doubled, so that it does not grow often.
        """
        return max(self.wanted_rows, 2 * self._drawn) if self._drawn < self.wanted_rows else 0

    def take(self, sample: Sample, drawn: int) -> None:
        """Take a sample of rows; some rows may have been drawn several times."""
        self._sample, self._drawn = sample, drawn

    def step(self, at: Point, P: np.ndarray, psi: Blocks, tol: float) -> tuple[np.ndarray, np.ndarray]:
        """Return the weights at the minimum of the model, and the changes of the intercepts."""
        assert self._sample is not None  # it was planned
        self._left = at
        least = None if self.curves is None else self.curves[:-1]
        return self._sample.minimum(at, P, psi, self._movable, least, tol)

    @property
    def n_columns(self) -> int:
        """Return the number of columns with a weight that may move."""
        return int(np.count_nonzero(self._movable.now.any(1)))

    def _learn(self, at: Point, rho: float, violations: np.ndarray, n: int) -> bool:
        """Correct the matrix by the last step, or ask for more rows if it was slow; return False if there are none."""
        before, self._fall = self._fall, self._possible_fall(violations)
        if self._left is None or self._sample is None:
            return True
        if self._fall > _SLOW * before:
            self._rows_per_weight *= _MORE_ROWS
            self._sample.forget()
            return self._drawn < n
        self._sample.correct(self._left, at, rho)
        return True

    def _possible_fall(self, violations: np.ndarray) -> float:
        """Return about how much the objective falls if each weight takes its best value, up to a factor."""
        squares = np.square(violations)
        if self.curves is None:
            return float(squares.sum())
        curves = self.curves[:-1].max(1)
        bent = curves > 1e-150  # where a loss is flat, its curvature does not show how far
        return float(np.divide(squares, curves, out=np.zeros_like(squares), where=bent).sum())

    def _choose(self, at: Point, psi: Blocks) -> bool:
        """Choose the weights that move; return whether a matrix has room for them.

        They are the nonzero ones, and those with the largest slopes beyond their L1 weight, or near it.
        """
        l1, inside = psi.l1[:, None], at.W != 0.0
        beyond, support = np.abs(at.G + psi.rho * at.W) - l1, int(np.count_nonzero(inside))
        others = (beyond > (_SOON - 1.0) * l1) & ~inside
        count, room = int(np.count_nonzero(others)), _MOST_WEIGHTS - support
        if count > room and (room <= 0 or psi.is_smooth):
            return False
        room = min(max(_LEAST_WEIGHTS - support, support), room)
        if count > room and not psi.is_smooth:
            others &= beyond >= np.partition(beyond[others], -room)[-room]
        self._movable = Movable(inside | (others & (beyond > (_NEAR - 1.0) * l1)), inside | others)
        return True


_BY_CURVATURE = 0.8
"""The share of the importance of a row that depends on its curvature."""


def importance(term: LossTerm, P: np.ndarray) -> np.ndarray:
    """Return about how much each row adds to the second derivatives, as a multiple of the mean.

    No row is far below the mean: the curvatures change from step to step.
    """
    h = term.bends(P).h.sum(1)
    return 1.0 - _BY_CURVATURE + _BY_CURVATURE * h / max(float(h.mean()), 1e-300)
