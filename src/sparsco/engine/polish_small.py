"""The polish of one model on few rows in memory, as long as it is far from its optimum.

A start is found on a sample of the rows.  After each pass over all rows another sample is drawn, and its minimum is
corrected by the gradient of the pass (``solver.corrected``).  One such step comes from far as near as several steps by
second derivatives, which do not see how the loss bends on the way.
"""

from __future__ import annotations

import numpy as np

from ..data.rows import Matrix
from ..losses import SMOOTH_LOSSES
from ..penalties import ElasticNet, WeightedElasticNet
from ..penalties.auto import AutoElasticNet
from ..problem.state import Problem
from ..solver.block_descent import curvatures
from ..solver.columns import gradient, some_by_column
from ..solver.corrected import LEAST_CURVATURE, corrected_minimum
from ..util.progress import step
from .polish_model import Model
from .polish_passes import certify, drawn, look
from .polish_rows import RowsInMemory

_SMALL = 1 << 20
"""The nonzeros up to which a start is found here; on more rows a pass of an optimizer finds a better one."""
_WHOLE = 1 << 16
"""The nonzeros up to which the first sample has all rows: a further pass over them would take longer than that."""
_LEAST, _FIRST_SHARE, _SHARE, _PER_WEIGHT = 1000, 16, 10, 24
"""The rows of a sample: at least so many; one in so many, of the first and of others; so many for each weight that
moves."""
_WORTH = 4
"""A sample has all rows if it would have one in so many: all of them lead to the optimum without further samples."""
_SCREEN = 0.5
"""After a pass a sample has the columns with a weight, or with a slope of at least this share of their L1 weight."""
_EVEN = 0.1
"""The share of the importance of a row that does not depend on its loss."""
_WHOLE_STEPS = 2
"""The most steps on all rows after the start: near the optimum steps by second derivatives take less time."""
_FAST = 0.1
"""The share of the expected fall of the step before, up to which another step by a corrected sample follows."""


def has_own_start(matrix: Matrix, problem: Problem) -> bool:
    """Return whether models are started here: few rows, single weights without bounds, a loss with a kernel."""
    if len(matrix.data) > _SMALL or problem.lams is not None or type(problem.loss) not in SMOOTH_LOSSES:
        return False
    return isinstance(problem.penalty, ElasticNet | WeightedElasticNet | AutoElasticNet)


def come_near(rows: RowsInMemory, model: Model, tol: float, passes: int) -> int:
    """Move a model from zero towards its optimum, as long as steps are fast; return the number of passes.

    It ends at a point that a pass has certified, or at one that no pass has seen, unless all passes are done.
    """
    if model.by_gap:
        return 0
    sample, last, done, whole = _start(rows, model), np.inf, 0, 0
    while True:
        step(f"polishing: pass {done + 1} over the rows")
        look(rows, [model])
        done += 1
        if model.is_solved(tol):
            certify(rows, [model])
            return done
        if not model.is_confirmed:
            model.go_back()
        if not model.is_confirmed or done == passes:
            return done
        if not (sample.is_whole and sample.has(model.candidates(1.0))):
            sample = _Sample(rows, model, model.candidates(_SCREEN), *_by_slopes(model))
        expected, whole = sample.step(model), whole + sample.is_whole
        if not expected < _FAST * last or whole == _WHOLE_STEPS:
            model.gap = np.inf
            return done
        last = expected


def _start(rows: RowsInMemory, model: Model) -> _Sample:
    """Move a model to about the minimum over a sample; return the sample.

    If more weights are found than few rows can decide, a larger sample follows.
    """
    model.W, model.b = np.zeros_like(model.W), np.zeros_like(model.b)
    n = len(rows.matrix)
    count = n if len(rows.matrix.data) <= _WHOLE else _sample_size(max(_LEAST, n // _FIRST_SHARE), n)
    while True:
        some = _by_class(rows.targets[:, model.lanes.start], count, model.loss.classifies)
        sample = _Sample(rows, model, np.arange(rows.matrix.d), *some)
        sample.step(model)
        wanted = _PER_WEIGHT * int(np.count_nonzero(model.W))
        if sample.is_whole or wanted <= 2 * len(sample.y):
            return sample
        count = _sample_size(wanted, n)


def _sample_size(wanted: int, n: int) -> int:
    """Return how many of n rows a sample has.

    >>> _sample_size(1000, 4001), _sample_size(1000, 4000)
    (1000, 4000)
    """
    return n if _WORTH * wanted >= n else wanted


def _by_class(y: np.ndarray, count: int, classifies: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return the numbers of about ``count`` rows, evenly spaced, and the factors by which they stand for others.

    Half of them are of either class; all rows of a class that has not so many, and then more of the other.

    >>> _by_class(np.array([1.0, -1.0, -1.0, -1.0, -1.0, -1.0, -1.0]), 4, True)
    (array([0, 1, 3, 5]), array([1., 2., 2., 2.]))
    """
    if count >= len(y):
        return np.arange(len(y)), np.ones(len(y))
    parts = [np.flatnonzero(y > 0.0), np.flatnonzero(y <= 0.0)] if classifies else [np.arange(len(y))]
    taken, factors = list[np.ndarray](), list[np.ndarray]()
    for left, part in zip(range(len(parts), 0, -1), sorted(parts, key=len), strict=True):
        wanted = max((count - sum(map(len, taken))) // left, 1)
        taken.append(part[:: max(len(part) // wanted, 1)])
        factors.append(np.full(len(taken[-1]), len(part) / max(len(taken[-1]), 1)))
    return np.concatenate(taken), np.concatenate(factors)


def _by_slopes(model: Model) -> tuple[np.ndarray, np.ndarray]:
    """Return the numbers of some rows, drawn by the slopes of their losses, and the factors of each."""
    n, moving = len(model.P), int(np.count_nonzero(model.violations))
    size = np.abs(model.shares() * model.slopes)[:, 0]
    importance = _EVEN + (1.0 - _EVEN) * size / max(float(size.mean()), 1e-300)
    return drawn(importance, _sample_size(max(_LEAST, n // _SHARE, _PER_WEIGHT * moving), n))


class _Sample:
    """Some columns of some rows of a model."""

    def __init__(
        self, rows: RowsInMemory, model: Model, columns: np.ndarray, numbers: np.ndarray, factors: np.ndarray
    ) -> None:
        """Take these columns of the rows with these numbers, and the factors by which they stand for others."""
        X, lane = rows.matrix, model.lanes.start
        self.columns, self.numbers, self.factors, self.is_whole = columns, numbers, factors, len(numbers) == len(X)
        self.stored = some_by_column(*X[:3], numbers, columns, X.d)[:3]
        weights = rows.weights[:, lane]
        self.y, self.share = rows.targets[numbers, lane], weights[numbers] * factors / np.count_nonzero(weights)

    def has(self, columns: np.ndarray) -> bool:
        """Return whether the sample has all of these columns."""
        return bool(np.isin(columns, self.columns, assume_unique=True).all())

    def step(self, model: Model) -> float:
        """Move a model to about the minimum over the sample; return the fall that is expected of the first step.

        The minimum is corrected by the last pass over all rows, if there was one.
        """
        psi, loss, w = model.psi, model.loss, model.W[self.columns, 0]
        tilt, tilt_b, ridge = np.zeros(len(w)), 0.0, np.full(len(w), psi.rho)
        if model.term is not None and not self.is_whole:
            c = self.share * model.slopes[self.numbers, 0]
            gradient(*self.stored, c, tilt)
            lacks = self._lacks(model)
            tilt, tilt_b = model.G[self.columns, 0] - tilt - lacks * w, float(model.slopes_b[0]) - float(c.sum())
            ridge += lacks
        l1, point = psi.l1[self.columns], (tilt, tilt_b, w, float(model.b[0]))
        args = self.y, self.share, loss, l1, ridge, *point, model.intercept, LEAST_CURVATURE * loss.smoothness
        b, expected = corrected_minimum(*self.stored, *args)
        model.move_to(w, b, self.columns)
        return expected

    def _lacks(self, model: Model) -> np.ndarray:
        """Return by how much the second derivatives of each weight are larger over all rows than over the sample.

        Columns with few entries may have none in the sample, and would move without a bound.
        """
        assert model.term is not None
        h, curves = model.term.bends(model.P).h[:, 0], model.sampling.curves
        if curves is None:
            return np.zeros(len(self.columns))
        own = curvatures(*self.stored, (h[self.numbers] * self.factors)[:, None])[:, 0]
        return np.maximum(curves[self.columns, 0] * float(h.sum()) - own, 0.0)
