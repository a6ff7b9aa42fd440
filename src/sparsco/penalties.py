"""Regularizers: psi(w) = r(w) + (rho / 2) ||w||^2 with r not smooth, and the pieces that optimizers need of it.

Every record says by ``kind`` how r ties weights together, and by ``cost`` what a prox takes:

- ``separable``: one weight at a time;
- ``grouped``: given features together, or all outputs of a feature;
- ``global``: all weights together.

``prox_all`` is the prox of whole arrays, (d,) or (d, m), that every kind has; the mini-batch optimizers use it.  Where
there is a ``prox`` of one feature's weights, v -> argmin_u (u - v)^2 / 2 + s |u| or the like, kernels are lazy: applied
once with s = eta * lam it is one step's prox, applied with the total shrinkage of an idle stretch it is that whole
stretch.  What is not the absolute value says by ``falls`` how fast its weights go to zero.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .jit.dispatch import dispatched, inlined, optional
from .jit.lanes import maximum, minimum, sqrt, total, where
from .parts import projections


@dispatched
def prox(regularizer: Any, v: Any, s: Any) -> Any:
    """argmin_u (u - v)^2 / 2 + s r(u), with r the regularizer's non-smooth part at weight one."""
    raise NotImplementedError


@optional
def stepped(regularizer: Any, v: Any, s: Any, g: Any) -> Any:
    """prox(v, s) - g; better with one rounding of v than with two: in float32 a small s by itself would be lost."""
    return prox(regularizer, v, s) - g


@dispatched
def penalty(regularizer: Any, j: Any) -> Any:
    """pen_j: the relative weight of feature j in the non-smooth part."""
    raise NotImplementedError


@optional
def falls(regularizer: Any, v: Any) -> Any:
    """How fast the prox moves v towards zero: |prox(v, s)| = max(|v| - s falls(v), 0).  1 for the absolute value."""
    return 1.0


@dispatched
def strength(regularizer: Any, w: np.ndarray) -> Any:
    """psi(w), summed over features; one number for a vector, one per column for a matrix; of a matrix whose columns the
    regularizer ties together one number for all.  Infinite outside a constraint set."""
    raise NotImplementedError


def restricted(regularizer: Any, features: Any) -> Any:
    """The regularizer of some features, where it treats each by itself."""
    if getattr(regularizer, "pen", None) is None:
        return regularizer
    return regularizer._replace(pen=np.asarray(regularizer.pen)[features])


def prox_all(regularizer: Any, W: np.ndarray, s: Any) -> np.ndarray:
    """argmin_U ||U - W||^2 / 2 + s r(U) over whole arrays, (d,) or (d, m).

    ``s`` is a number; where :func:`coarsened` leaves it as it is, an array.
    """
    if hasattr(regularizer, "prox_all"):
        return type(regularizer).prox_all(regularizer, W, s)
    return prox(regularizer, W, s * (regularizer.lam * _beside(regularizer.penalties(len(W)), W)))


def prox_with_l2(regularizer: Any, W: np.ndarray, s: float) -> np.ndarray:
    """argmin_U ||U - W||^2 / 2 + s psi(U), the L2 term included."""
    decay = 1.0 / (1.0 + s * regularizer.rho)
    return prox_all(regularizer, W * decay, s * decay)


def bounds(regularizer: Any, d: int) -> tuple[np.ndarray, np.ndarray]:
    """The least and the largest value of each weight, where the regularizer treats each by itself: the points of its
    set that are nearest to far away."""
    far = np.full(d, 1e100)
    if kind(regularizer) != "separable":
        return -np.inf * far, np.inf * far
    least, most = prox_all(regularizer, -far, 0.0), prox_all(regularizer, far, 0.0)
    return np.where(least <= -far, -np.inf, least), np.where(most >= far, np.inf, most)


def coarsened(regularizer: Any, M: np.ndarray) -> Any:
    """M (d, m) raised to where the prox in its metric is ``prox_all`` with s = 1 / M: constant over what is tied."""
    if kind(regularizer) == "global":
        return float(M.max(initial=0.0))
    return type(regularizer).coarsened(regularizer, M) if hasattr(regularizer, "coarsened") else M


def kind(regularizer: Any) -> str:
    """How weights are tied together; a record that does not say has a scalar prox."""
    return getattr(regularizer, "kind", "separable")


def is_lazy(regularizer: Any) -> bool:
    """Whether kernels that touch only an example's own features can handle it."""
    return hasattr(regularizer, "prox")


def checked(regularizer: Any, d: int) -> Any:
    """The record with lists made arrays, for d features; refused with one sentence where it makes no sense."""
    if hasattr(regularizer, "at"):  # its strength is not known yet
        return regularizer
    name, lists = type(regularizer).__name__, {}
    for field, value in zip(regularizer._fields, regularizer, strict=True):
        if isinstance(value, list | tuple):
            lists[field] = np.asarray(value)
        if isinstance(value, str) or (value is None and not hasattr(regularizer, "resolve")):
            raise ValueError(f"{name}({field}={value!r}): it must be a number.")
    regularizer = regularizer._replace(**lists)
    for field in ("lam", "rho"):
        if not (np.ndim(getattr(regularizer, field)) == 0 and 0.0 <= getattr(regularizer, field) < np.inf):
            raise ValueError(f"{name}({field}={getattr(regularizer, field)!r}): it must be a number of at least 0.")
    pen = getattr(regularizer, "pen", None)
    if pen is not None and not (pen.shape == (d,) and pen.dtype.kind in "fiu" and np.all((pen >= 0) & (pen < np.inf))):
        raise ValueError(f"{name}(pen=...) must be {d} finite numbers of at least 0, one for each feature.")
    if hasattr(regularizer, "check"):
        regularizer.check(d)
    return regularizer


def is_of_fixed_width(regularizer: Any) -> bool:
    """Whether the record has something for each feature, so that none may come later."""
    return any(isinstance(field, np.ndarray | list | tuple) for field in regularizer)


def is_absolute(regularizer: Any) -> bool:
    """Whether r is a sum of pen_j |w_j|, as most methods know it."""
    return is_lazy(regularizer) and not hasattr(regularizer, "falls")


def _beside(values: np.ndarray, W: np.ndarray) -> np.ndarray:
    """One value per feature, in a shape that goes with W."""
    return values if W.ndim == 1 else values[:, None]


def _ridge(regularizer: Any, w: np.ndarray) -> Any:
    """(rho / 2) ||w||^2; nothing is read where there is no such term."""
    return 0.5 * regularizer.rho * np.square(w).sum(0) if regularizer.rho else 0.0


def soft(v: Any, s: Any) -> Any:
    """S(v, s) = sign(v) max(|v| - s, 0) for arrays."""
    return np.sign(v) * np.maximum(np.abs(v) - s, 0.0)


class ElasticNet(NamedTuple):
    """lam ||w||_1 + (rho / 2) ||w||^2: L1 with ``rho = 0``, L2 with ``lam = 0``."""

    lam: float
    rho: float = 0.0

    kind = "separable"
    cost = "O(nonzeros) per example"

    def prox(regularizer, v, s):  # noqa: N805
        return v - minimum(maximum(v, -s), s)

    def stepped(regularizer, v, s, g):  # noqa: N805
        return v - (minimum(maximum(v, -s), s) + g)

    def penalty(regularizer, j):  # noqa: N805
        return 1.0

    def strength(regularizer, w):  # noqa: N805
        return regularizer.lam * np.abs(w).sum(0) + _ridge(regularizer, w)

    def penalties(regularizer, d: int) -> np.ndarray:  # noqa: N805
        """pen as a vector."""
        return np.ones(d)


class WeightedElasticNet(NamedTuple):
    """lam * sum_j pen_j |w_j| + (rho / 2) ||w||^2, a weight ``pen_j >= 0`` for each feature."""

    lam: float
    rho: float
    pen: np.ndarray

    kind = "separable"
    cost = "O(nonzeros) per example"

    prox, stepped = ElasticNet.prox, ElasticNet.stepped

    def penalty(regularizer, j):  # noqa: N805
        return regularizer.pen[j]

    def strength(regularizer, w):  # noqa: N805
        pen = regularizer.pen if w.ndim == 1 else regularizer.pen[:, None]
        return regularizer.lam * (pen * np.abs(w)).sum(0) + _ridge(regularizer, w)

    def penalties(regularizer, d: int) -> np.ndarray:  # noqa: N805
        """pen as a vector."""
        return np.asarray(regularizer.pen, dtype=np.float64)


_AT_ONCE = 1e300
"""Falls so fast that it is never seen: finite, since it meets zeros."""


class NonNegative(NamedTuple):
    """lam sum_j w_j + (rho / 2) ||w||^2 over w >= 0."""

    lam: float
    rho: float = 0.0

    kind = "separable"
    cost = "O(nonzeros) per example"

    def prox(regularizer, v, s):
        return maximum(v - s, 0.0 * v)

    def falls(regularizer, v):
        return where(v > 0.0, 0.0 * v + 1.0, 0.0 * v + _AT_ONCE)

    penalty, penalties = ElasticNet.penalty, ElasticNet.penalties

    def prox_all(regularizer, W, s):
        return np.maximum(W - s * regularizer.lam, 0.0)

    def strength(regularizer, w):
        value = regularizer.lam * w.sum(0) + 0.5 * regularizer.rho * np.square(w).sum(0)
        return np.where((w >= 0.0).all(0), value, np.inf)

    def dual_norm(G):
        """The least lam at which w = 0 is optimal for the gradient G there."""
        return float((-G).max(initial=0.0))


class Box(NamedTuple):
    """low <= w_j <= high, and (rho / 2) ||w||^2; bounds are numbers or arrays, one for each feature."""

    low: Any
    high: Any
    rho: float = 0.0

    lam = 0.0
    kind = "separable"
    cost = "O(features) per mini-batch"

    def check(regularizer, d):
        if not np.all(np.asarray(regularizer.low) <= np.asarray(regularizer.high)):
            raise ValueError("Box(low, high): no bound low may exceed its bound high.")
        if any(np.shape(bound) not in ((), (d,)) for bound in regularizer[:2]):
            raise ValueError(f"Box(low, high): a bound is one number or one for each of the {d} features.")

    def prox_all(regularizer, W, s):
        return projections.box(W, *regularizer._bounds(W))

    def strength(regularizer, w):
        low, high = regularizer._bounds(w)
        least, most = low - 1e-9 * np.abs(low), high + 1e-9 * np.abs(high)  # means of points on a bound are rounded
        inside = ((w >= least) & (w <= most)).all(0)
        return np.where(inside, 0.5 * regularizer.rho * np.square(w).sum(0), np.inf)

    def _bounds(regularizer, W):
        return (b if np.ndim(b) == 0 else _beside(np.asarray(b), W) for b in regularizer[:2])


@inlined
def _length(v):
    """The norm over all lanes, never 0."""
    return maximum(sqrt(total(v * v)), 1e-300)


class RowGroup(NamedTuple):
    """lam sum_j ||W_j||_2 + (rho / 2) ||W||^2, W_j all outputs of feature j: it is in or out for all of them."""

    lam: float
    rho: float = 0.0

    kind = "grouped"
    cost = "O(nonzeros) per example"

    def prox(regularizer, v, s):
        return v * maximum(1.0 - s / _length(v), 0.0 * v)

    def falls(regularizer, v):
        return abs(v) / _length(v)

    penalty, penalties = ElasticNet.penalty, ElasticNet.penalties

    def prox_all(regularizer, W, s):
        return W * _shrunk(_norms(W), s * regularizer.lam)

    def strength(regularizer, W):
        return regularizer.lam * _norms(W).sum() + _half_square(regularizer, W)

    def coarsened(regularizer, M):
        return M.max(1, keepdims=True)

    def dual_norm(G):
        """The least lam at which W = 0 is optimal for the gradient G there."""
        return float(_norms(G).max(initial=0.0))


class GroupL1(NamedTuple):
    """lam sum_g sqrt(|g|) ||W_g||_2 + (rho / 2) ||W||^2: ``groups`` has each feature's group, a whole number from 0 on.

    A group is in or out with all its features and outputs.  ``sized=False`` leaves out the factor sqrt(|g|), with |g|
    the number of features.
    """

    lam: float
    groups: np.ndarray
    rho: float = 0.0
    sized: bool = True

    kind = "grouped"
    cost = "O(features) per mini-batch"

    def check(regularizer, d):
        groups = np.asarray(regularizer.groups)
        if groups.shape != (d,) or groups.dtype.kind not in "iu" or (d and groups.min() < 0):
            raise ValueError(f"groups must be {d} whole numbers from 0 on, the group of each feature.")
        if d and groups.max() >= d:
            raise ValueError(f"groups has the number {groups.max()}: number the groups of {d} features from 0 on.")

    def prox_all(regularizer, W, s):
        if np.ndim(s):
            s = _by_group(regularizer, np.ravel(s)) / np.maximum(np.bincount(regularizer.groups), 1)
        shrunk = _shrunk(_group_norms(regularizer, W), s * regularizer.lam * _sizes(regularizer))
        return W * _beside(shrunk[regularizer.groups], W)

    def strength(regularizer, W):
        norms = _group_norms(regularizer, W) @ _sizes(regularizer)
        return regularizer.lam * norms + _half_square(regularizer, W)

    def coarsened(regularizer, M):
        largest = np.zeros(int(regularizer.groups.max(initial=-1)) + 1)
        np.maximum.at(largest, regularizer.groups, M.max(1))
        return largest[regularizer.groups][:, None]


class SparseGroup(NamedTuple):
    """lam (share ||W||_1 + (1 - share) sum_g sqrt(|g|) ||W_g||_2) + (rho / 2) ||W||^2: sparse groups, sparse inside."""

    lam: float
    groups: np.ndarray
    share: float = 0.5
    rho: float = 0.0
    sized: bool = True

    kind = "grouped"
    cost = "O(features) per mini-batch"

    def check(regularizer, d):
        regularizer._group.check(d)
        if not 0.0 <= regularizer.share <= 1.0:
            raise ValueError(f"SparseGroup(share={regularizer.share!r}): the share of the L1 part lies in [0, 1].")

    @property
    def _group(regularizer):
        lam, groups, share, _, sized = regularizer
        return GroupL1(lam * (1.0 - share), groups, 0.0, sized)

    def prox_all(regularizer, W, s):
        return regularizer._group.prox_all(soft(W, s * (regularizer.lam * regularizer.share)), s)

    def strength(regularizer, W):
        l1 = regularizer.lam * regularizer.share * np.abs(W).sum()
        return l1 + regularizer._group.strength(W) + _half_square(regularizer, W)

    def coarsened(regularizer, M):
        return regularizer._group.coarsened(M)


class L1Ball(NamedTuple):
    """||W||_1 <= radius over all weights together, and (rho / 2) ||W||^2.

    Where the radius is None it is that of a ridge regression on the pilot rows.
    """

    radius: float | None
    rho: float = 0.0

    lam = 0.0
    kind = "global"
    cost = "O(features) per mini-batch"

    def check(regularizer, d):
        if regularizer.radius is not None:
            _check_radius(regularizer)

    def resolve(regularizer, norm):
        """The record with its radius; ``norm()`` gives the L1 norm of a ridge regression."""
        return regularizer._replace(radius=norm() or 1.0) if regularizer.radius is None else regularizer

    def prox_all(regularizer, W, s):
        return projections.l1_ball(W, regularizer.radius)

    def strength(regularizer, W):
        return _inside(regularizer, W, np.abs(W).sum())


class L2Ball(NamedTuple):
    """||W||_2 <= radius over all weights together, and (rho / 2) ||W||^2."""

    radius: float
    rho: float = 0.0

    lam = 0.0
    kind = "global"
    cost = "O(features) per mini-batch"

    def check(regularizer, d):
        _check_radius(regularizer)

    def prox_all(regularizer, W, s):
        return projections.l2_ball(W, regularizer.radius)

    def strength(regularizer, W):
        return _inside(regularizer, W, np.linalg.norm(W))


class TraceNorm(NamedTuple):
    """lam ||W||_* + (rho / 2) ||W||^2, ||W||_* the sum of W's singular values: W has low rank."""

    lam: float
    rho: float = 0.0

    kind = "global"
    cost = "one SVD per mini-batch"
    batch = 64

    def prox_all(regularizer, W, s):
        out = np.zeros_like(W)
        rows = np.flatnonzero(W.any(1)) if W.ndim == 2 else np.arange(len(W))
        if rows.size:
            U, sizes, Vt = np.linalg.svd(W[rows].reshape(rows.size, -1), full_matrices=False)
            kept = sizes - s * regularizer.lam
            rank = np.count_nonzero(kept > sizes[0] * max(W.shape) * np.finfo(float).eps)  # what can be told from 0
            out[rows] = ((U[:, :rank] * kept[:rank]) @ Vt[:rank]).reshape(W[rows].shape)
        return out

    def strength(regularizer, W):
        sizes = np.linalg.svd(W.reshape(len(W), -1), compute_uv=False)
        return regularizer.lam * sizes.sum() + _half_square(regularizer, W)

    def dual_norm(G):
        """The least lam at which W = 0 is optimal for the gradient G there."""
        return float(np.linalg.norm(G, 2)) if G.size else 0.0


def _half_square(regularizer: Any, W: np.ndarray) -> float:
    return 0.5 * regularizer.rho * float(np.square(W).sum())


def _norms(W: np.ndarray) -> np.ndarray:
    """The norm of each row, in a shape that goes with W."""
    return np.abs(W) if W.ndim == 1 else np.sqrt(np.square(W).sum(1, keepdims=True))


def _shrunk(norms: np.ndarray, s: Any) -> np.ndarray:
    """The factor max(1 - s / norm, 0) by which a vector of this norm shrinks."""
    return np.maximum(1.0 - np.divide(s, norms, out=np.ones_like(norms), where=norms > s), 0.0)


def _by_group(regularizer: Any, values: np.ndarray) -> np.ndarray:
    return np.bincount(regularizer.groups, values)


def _group_norms(regularizer: Any, W: np.ndarray) -> np.ndarray:
    squares = np.square(W)
    return np.sqrt(_by_group(regularizer, squares if W.ndim == 1 else squares.sum(1)))


def _sizes(regularizer: Any) -> np.ndarray:
    """The factor of each group's norm."""
    counts = np.bincount(regularizer.groups)
    return np.sqrt(counts) if regularizer.sized else np.ones(len(counts))


def _check_radius(regularizer: Any) -> None:
    if not 0.0 < regularizer.radius < np.inf:
        raise ValueError(f"{type(regularizer).__name__}(radius={regularizer.radius!r}): it must be a positive number.")


def _inside(regularizer: Any, W: np.ndarray, norm: float) -> float:
    """The L2 term inside the ball, to rounding, and infinity outside."""
    return _half_square(regularizer, W) if norm <= regularizer.radius * (1.0 + 1e-9) else np.inf


class Auto(NamedTuple):
    """A regularizer to be: ``record(lam, rho)`` with lam the ``fraction`` of the least one that selects nothing."""

    fraction: float
    l1_ratio: float
    record: Any

    pen = None

    @property
    def kind(self):
        return self.record.kind

    def at(self, lam_max: float) -> Any:
        """The regularizer for this lam_max."""
        return scaled(self.record, self.fraction * lam_max / (self.l1_ratio or 1.0), self.l1_ratio)


def scaled(record: Any, alpha: float, l1_ratio: float) -> Any:
    """``record`` with lam and rho as scikit-learn counts them."""
    return record(float(alpha) * l1_ratio, float(alpha) * (1.0 - l1_ratio))


class AutoElasticNet(NamedTuple):
    """An elastic net to be: ``fraction`` of lam_max, the smallest L1 weight that selects nothing on the pilot rows."""

    fraction: float
    l1_ratio: float = 1.0
    pen: np.ndarray | None = None

    record = ElasticNet

    def at(self, lam_max: float) -> ElasticNet | WeightedElasticNet:
        """The elastic net for this lam_max: L1 weight ``fraction * lam_max``, the L2 weight that l1_ratio implies."""
        alpha = self.fraction * lam_max / (self.l1_ratio if self.l1_ratio > 0.0 else 1.0)
        return elastic_net(alpha, self.l1_ratio, self.pen)


def elastic_net(alpha: float, l1_ratio: float, pen: np.ndarray | None = None) -> ElasticNet | WeightedElasticNet:
    """alpha (l1_ratio ||w||_1 + (1 - l1_ratio) / 2 ||w||^2), as scikit-learn counts."""
    lam, rho = float(alpha) * l1_ratio, float(alpha) * (1.0 - l1_ratio)
    return ElasticNet(lam, rho) if pen is None else WeightedElasticNet(lam, rho, pen)


def L1(lam: float) -> ElasticNet:  # noqa: N802
    """The L1 norm: an elastic net without the L2 term."""
    return ElasticNet(lam, 0.0)


def L2(rho: float) -> ElasticNet:  # noqa: N802
    """Half the squared Euclidean norm: an elastic net without the L1 term; nothing becomes zero."""
    return ElasticNet(0.0, rho)


PENALTIES = {"elasticnet": ElasticNet, "row-group": RowGroup, "trace": TraceNorm, "nonnegative": NonNegative}
"""By the name that an estimator takes."""
