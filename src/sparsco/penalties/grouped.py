"""Penalties that couple weights: by groups of features, by the outputs of a feature, or by rank."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..jit.dispatch import inlined
from ..jit.lanes import maximum, sqrt, sum_lanes
from ..parts.contracts import Penalty, part
from .base import beside, half_square, soft
from .blocks import Blocks


@inlined
def _length(v):
    """Return the norm over all lanes, at least 1e-300."""
    return maximum(sqrt(sum_lanes(v * v)), 1e-300)


@part(Penalty)
class RowGroup(NamedTuple):
    """The row-group lasso lam sum_j ||W_j||_2 + (rho / 2) ||W||^2, W_j all outputs of feature j.

    A feature is selected for all outputs or for none.

    Parameters
    ----------
    lam : float
        The weight of the group norms.
    rho : float
        The weight of the L2 term.
    """

    lam: float
    rho: float = 0.0

    kind = "grouped"

    def prox(penalty, v, s):
        return v * maximum(1.0 - s / _length(v), 0.0 * v)

    def shrink_rate(penalty, v):
        return abs(v) / _length(v)

    def prox_all(penalty, W, s):
        return W * _shrunk(_norms(W), s * penalty.lam)

    def strength(penalty, W):
        return penalty.lam * _norms(W).sum() + half_square(penalty, W)

    def coarsened(penalty, M):
        return M.max(1, keepdims=True)

    def blocks(penalty, d: int) -> Blocks:
        strengths = np.full(d, float(penalty.lam))
        return Blocks(np.zeros(d), float(penalty.rho), groups=np.arange(d), strengths=strengths)

    def dual_norm(G):
        """Return the least lam at which W = 0 is optimal for the gradient G there."""
        return float(_norms(G).max(initial=0.0))


@part(
    Penalty,
    groups="each feature's group, a whole number from 0 on",
    sized="whether a group's norm counts times the root of its size",
)
class GroupL1(NamedTuple):
    """The group lasso lam sum_g sqrt(|g|) ||W_g||_2 + (rho / 2) ||W||^2.

    A group is selected with all its features and outputs, or not at all.

    Parameters
    ----------
    lam : float
        The weight of the group norms.
    groups : ndarray
        Each feature's group, a whole number from 0 on.
    rho : float
        The weight of the L2 term.
    sized : bool
        Whether a group's norm has the factor sqrt(|g|), with |g| the number of its features.
    """

    lam: float
    groups: np.ndarray
    rho: float = 0.0
    sized: bool = True

    kind = "grouped"
    form = "groups"
    cost = "O(members of the groups of its features) per example"

    def check(penalty, d):
        groups = np.asarray(penalty.groups)
        if groups.shape != (d,) or groups.dtype.kind not in "iu" or (d and groups.min() < 0):
            raise ValueError(f"groups must be {d} whole numbers from 0 on, the group of each feature.")
        if d and groups.max() >= d:
            raise ValueError(f"groups has the number {groups.max()}: number the groups of {d} features from 0 on.")

    def prox_all(penalty, W, s):
        if np.ndim(s):
            s = _by_group(penalty, np.ravel(s)) / np.maximum(np.bincount(penalty.groups), 1)
        shrunk = _shrunk(_group_norms(penalty, W), s * penalty.lam * _sizes(penalty))
        return W * beside(shrunk[penalty.groups], W)

    def strength(penalty, W):
        norms = _group_norms(penalty, W) @ _sizes(penalty)
        return penalty.lam * norms + half_square(penalty, W)

    def group_sizes(penalty):
        """Return the factor of each group's norm."""
        return _sizes(penalty)

    def dual_norm_at(penalty, G):
        norms, sizes = _group_norms(penalty, G), _sizes(penalty)
        return float(np.max(norms / np.maximum(sizes, 1.0), initial=0.0))

    def coarsened(penalty, M):
        largest = np.zeros(int(penalty.groups.max(initial=-1)) + 1)
        np.maximum.at(largest, penalty.groups, M.max(1))
        return largest[penalty.groups][:, None]

    def blocks(penalty, d: int) -> Blocks:
        strengths = penalty.lam * _sizes(penalty)
        return Blocks(np.zeros(d), float(penalty.rho), groups=np.asarray(penalty.groups), strengths=strengths)


@part(
    Penalty,
    groups="each feature's group, a whole number from 0 on",
    share="the share of the L1 part, from 0 to 1",
    sized="whether a group's norm counts times the root of its size",
)
class SparseGroup(NamedTuple):
    """The sparse group lasso lam (share ||W||_1 + (1 - share) sum_g sqrt(|g|) ||W_g||_2) + (rho / 2) ||W||^2.

    It selects few groups, and few features inside a group.

    Parameters
    ----------
    lam : float
        The weight of the L1 norm and the group norms together.
    groups : ndarray
        Each feature's group, a whole number from 0 on.
    share : float
        The share of the L1 norm, from 0 to 1.
    rho : float
        The weight of the L2 term.
    sized : bool
        Whether a group's norm has the factor sqrt(|g|), with |g| the number of its features.
    """

    lam: float
    groups: np.ndarray
    share: float = 0.5
    rho: float = 0.0
    sized: bool = True

    kind = "grouped"

    def check(penalty, d):
        penalty._group.check(d)
        if not 0.0 <= penalty.share <= 1.0:
            raise ValueError(f"SparseGroup(share={penalty.share!r}): the share of the L1 part lies in [0, 1].")

    @property
    def _group(penalty):
        lam, groups, share, _, sized = penalty
        return GroupL1(lam * (1.0 - share), groups, 0.0, sized)

    def prox_all(penalty, W, s):
        return penalty._group.prox_all(soft(W, s * (penalty.lam * penalty.share)), s)

    def strength(penalty, W):
        l1 = penalty.lam * penalty.share * np.abs(W).sum()
        return l1 + penalty._group.strength(W) + half_square(penalty, W)

    def dual_norm_at(penalty, G):
        low, high = 0.0, float(np.abs(G).sum())  # at the L1 norm of G, W = 0 is optimal
        while high - low > 1e-12 * high:
            middle = 0.5 * (low + high)
            selects = penalty._replace(lam=middle).prox_all(G, 1.0).any()
            low, high = (middle, high) if selects else (low, middle)
        return high

    def coarsened(penalty, M):
        return penalty._group.coarsened(M)

    def blocks(penalty, d: int) -> Blocks:
        group = penalty._group.blocks(d)
        return group._replace(l1=np.full(d, float(penalty.lam * penalty.share)), rho=float(penalty.rho))


@part(Penalty)
class TraceNorm(NamedTuple):
    """The trace norm lam ||W||_* + (rho / 2) ||W||^2, ||W||_* the sum of W's singular values: W gets low rank.

    Parameters
    ----------
    lam : float
        The weight of the trace norm.
    rho : float
        The weight of the L2 term.
    """

    lam: float
    rho: float = 0.0

    kind = "global"
    cost = "one SVD per mini-batch"
    suggested_batch = 64

    def prox_all(penalty, W, s):
        out = np.zeros_like(W)
        rows = np.flatnonzero(W.any(1)) if W.ndim == 2 else np.arange(len(W))
        if rows.size:
            U, sizes, Vt = np.linalg.svd(W[rows].reshape(rows.size, -1), full_matrices=False)
            kept = sizes - s * penalty.lam
            rank = np.count_nonzero(kept > sizes[0] * max(W.shape) * np.finfo(float).eps)  # above rounding error
            out[rows] = ((U[:, :rank] * kept[:rank]) @ Vt[:rank]).reshape(W[rows].shape)
        return out

    def strength(penalty, W):
        sizes = np.linalg.svd(W.reshape(len(W), -1), compute_uv=False)
        return penalty.lam * sizes.sum() + half_square(penalty, W)

    def dual_norm(G):
        """Return the least lam at which W = 0 is optimal for the gradient G there."""
        return float(np.linalg.norm(G, 2)) if G.size else 0.0


def _norms(W: np.ndarray) -> np.ndarray:
    """Return the norm of each row, in a shape that broadcasts with W."""
    return np.abs(W) if W.ndim == 1 else np.sqrt(np.square(W).sum(1, keepdims=True))


def _shrunk(norms: np.ndarray, s: Any) -> np.ndarray:
    """Return the factor max(1 - s / norm, 0) by which a vector of this norm shrinks."""
    return np.maximum(1.0 - np.divide(s, norms, out=np.ones_like(norms), where=norms > s), 0.0)


def _by_group(penalty: Any, values: np.ndarray) -> np.ndarray:
    return np.bincount(penalty.groups, values)


def _group_norms(penalty: Any, W: np.ndarray) -> np.ndarray:
    squares = np.square(W)
    return np.sqrt(_by_group(penalty, squares if W.ndim == 1 else squares.sum(1)))


def _sizes(penalty: Any) -> np.ndarray:
    """Return the factor of each group's norm."""
    counts = np.bincount(penalty.groups)
    return np.sqrt(counts) if penalty.sized else np.ones(len(counts))
