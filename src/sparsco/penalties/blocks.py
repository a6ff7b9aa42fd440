"""Penalties as numbers: the form in which exact solvers and certificates use them.

    psi(W) = sum_j (l1_j |W_j|_1 + rho / 2 ||W_j||^2) + sum_g strength_g ||W_g||,    low_j <= W_j <= high_j

W_j are the weights of feature j in all outputs, W_g those of all features of group g.  Where there are groups, there
are no bounds.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..jit.dispatch import U, kernel
from .base import soft

_BISECTIONS = 60


@kernel
def _write_violations(g, w, pen, rho, out):
    """Write the violation of each weight's condition into ``out``, for one output and single weights without bounds."""
    for j in range(w.size):
        s = g[j] + rho * w[j]
        if w[j] > 0.0:
            out[j] = abs(s + pen[j])
        elif w[j] < 0.0:
            out[j] = abs(s - pen[j])
        else:
            out[j] = max(abs(s) - pen[j], 0.0)


@kernel
def _write_group_violations(g, w, pen, rho, groups, norms, lengths, far, out):
    """Write the violation of each weight's group into ``out``, for one output.

    ``lengths`` and ``far`` are zeros, with a number for each group.
    """
    for j in range(w.size):
        lengths[U(groups[j])] += w[j] * w[j]
    for j in range(w.size):
        a, s = U(groups[j]), g[j] + rho * w[j]
        if w[j] > 0.0:
            s += pen[j]
        elif w[j] < 0.0:
            s -= pen[j]
        else:
            s = max(s - pen[j], 0.0) - max(-s - pen[j], 0.0)
        if lengths[a] > 0.0:
            s += norms[a] / np.sqrt(lengths[a]) * w[j]
        far[a] += s * s
    for a in range(far.size):
        far[a] = np.sqrt(far[a]) if lengths[a] > 0.0 else max(np.sqrt(far[a]) - norms[a], 0.0)
    for j in range(w.size):
        out[j] = far[U(groups[j])]


class Blocks(NamedTuple):
    """The numbers of a penalty: arrays with one number per feature, and the strength of each group's norm."""

    l1: np.ndarray
    rho: float = 0.0
    low: np.ndarray | None = None
    high: np.ndarray | None = None
    groups: np.ndarray | None = None
    """The number of each feature's group.  None: every weight is penalised alone."""
    strengths: np.ndarray | None = None

    @property
    def is_smooth(self) -> bool:
        """Return whether psi has a derivative everywhere: an L2 term only."""
        return self.groups is None and self.low is None and not self.l1.any()

    @property
    def norms(self) -> np.ndarray:
        """Return the strength of each group's norm, for a penalty with groups."""
        assert self.strengths is not None
        return self.strengths

    def of_outputs(self, m: int) -> Blocks:
        """Return the penalty for m outputs: the norm of a single weight is its absolute value."""
        if self.groups is None or m > 1 or np.bincount(self.groups, minlength=1).max() > 1:
            return self
        return Blocks(self.l1 + self.norms[self.groups], self.rho)

    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the least and the largest value of each feature's weights."""
        far = np.full(self.l1.size, np.inf)
        return (-far if self.low is None else self.low), (far if self.high is None else self.high)

    def at(self, columns: np.ndarray) -> Blocks:
        """Return the penalty of some features; they must be whole groups, one group after the other."""
        low, high = (None if bound is None else bound[columns] for bound in (self.low, self.high))
        if self.groups is None:
            return Blocks(self.l1[columns], self.rho, low, high)
        kept, numbers = np.unique(self.groups[columns], return_inverse=True)
        return Blocks(self.l1[columns], self.rho, None, None, numbers, self.norms[kept])

    def value(self, W: np.ndarray) -> float:
        """Return psi(W) for weights inside the bounds."""
        total = (self.l1[:, None] * np.abs(W)).sum()
        if self.rho:
            total += 0.5 * self.rho * np.square(W).sum()
        if self.groups is not None:
            total += (self.norms * self._lengths(W)).sum()
        return float(total)

    def violations(self, G: np.ndarray, W: np.ndarray) -> np.ndarray:
        """Return the violation of each feature's optimality condition, for the gradient G of the loss at W.

        It is the distance of 0 from the subdifferential of loss + psi, in the feature or in its group.
        """
        if W.shape[1] == 1 and self.low is None:
            out, given = np.empty(len(W)), (G[:, 0], W[:, 0], self.l1, self.rho)
            if self.groups is None:
                _write_violations(*given, out)
            else:
                sums = np.zeros((2, len(self.norms)))
                _write_group_violations(*given, self.groups.astype(np.int64, copy=False), self.norms, *sums, out)
            return out
        S = G + self.rho * W
        l1 = self.l1[:, None]
        off = np.where(W != 0.0, S + l1 * np.sign(W), soft(S, l1))
        if self.groups is None:
            if self.low is not None and self.high is not None:
                low, high = self.low[:, None], self.high[:, None]
                down, up = np.where(W > 0.0, l1, -l1), np.where(W < 0.0, -l1, l1)  # slopes of r on either side
                off = np.where(W >= high, np.maximum(S + down, 0.0), off)
                off = np.where(W <= low, np.minimum(S + up, 0.0), off)
                off = np.where(low == high, 0.0, off)
            return np.abs(off).max(1)
        far = self._lengths(off + self._pull(W)[self.groups][:, None] * W)
        far = np.where(self._lengths(W) > 0.0, far, np.maximum(far - self.norms, 0.0))
        return far[self.groups]

    def free(self, W: np.ndarray) -> np.ndarray:
        """Return which weights are neither at a kink of psi nor at a bound."""
        found = (W != 0.0) | (self.l1 == 0.0)[:, None]
        if self.groups is not None:
            found = found & (self._lengths(W) > 0.0)[self.groups][:, None]
        if self.low is not None and self.high is not None:
            found = found & (W > self.low[:, None]) & (W < self.high[:, None])
        return found

    def slope(self, W: np.ndarray) -> np.ndarray:
        """Return the derivative of psi in the weights that are free."""
        total = self.l1[:, None] * np.sign(W) + self.rho * W
        if self.groups is not None:
            total += self._pull(W)[self.groups][:, None] * W
        return total

    def bend(self, W: np.ndarray, V: np.ndarray) -> np.ndarray:
        """Return the product of the second derivatives of psi, at weights W that are free, with V."""
        out = self.rho * V
        if self.groups is not None:
            pull = self._pull(W)[self.groups][:, None]
            square = np.square(self._lengths(W))
            along = np.bincount(self.groups, (W * V).sum(1), len(square))
            along = np.divide(along, square, out=np.zeros_like(along), where=square > 0.0)
            out = out + pull * (V - along[self.groups][:, None] * W)
        return out

    def slack(self, G: np.ndarray, W: np.ndarray) -> float:
        """Return how much the objective could fall in features without any penalty, as an estimate from slopes G.

        Their slopes are zero at the optimum, and no bound holds before.
        """
        if self.rho > 0.0 or self.groups is not None or self.low is not None or self.l1.all():
            return 0.0
        loose = self.l1 == 0.0
        return float((np.abs(G[loose]) * (np.abs(W[loose]) + np.abs(W).max(initial=0.0))).sum())

    def dual(self, V: np.ndarray) -> tuple[float, float]:
        """Return the largest scale s <= 1 for which psi*(s V) is finite, and psi*(s V).

        psi* is the conjugate, psi*(V) = sup_W <V, W> - psi(W).  Features without any penalty do not count here.
        """
        if self.groups is not None:
            return self._dual_of_groups(V)
        l1, size = self.l1[:, None], np.abs(V)
        if self.low is None or self.high is None:
            if self.rho > 0.0:
                return 1.0, float(np.square(np.maximum(size - l1, 0.0)).sum() / (2.0 * self.rho))
            beyond = (size > l1) & (l1 > 0.0)
            return float(np.min(l1 / np.where(beyond, size, 1.0), initial=1.0, where=beyond)), 0.0
        low, high = self.low[:, None], self.high[:, None]
        scale = 1.0
        if self.rho > 0.0:
            W = np.clip(soft(V, l1) / self.rho, low, high)
        else:
            endless = ((V > l1) & (high == np.inf)) | ((V < -l1) & (low == -np.inf))
            scale = float(np.min(l1 / np.where(endless, size, 1.0), initial=1.0, where=endless))
            V = scale * V
            least, most = np.where(low == -np.inf, 0.0, low), np.where(high == np.inf, 0.0, high)
            W = np.clip(np.where(soft(V, l1) > 0.0, most, np.where(soft(V, l1) < 0.0, least, 0.0)), low, high)
        return scale, float((V * W - l1 * np.abs(W) - 0.5 * self.rho * np.square(W)).sum())

    def _dual_of_groups(self, V: np.ndarray) -> tuple[float, float]:
        """Return what ``dual`` returns, where weights are penalised in groups."""
        l1 = self.l1[:, None]
        beyond = self._lengths(soft(V, l1)) - self.norms
        if self.rho > 0.0:
            return 1.0, float(np.square(np.maximum(beyond, 0.0)).sum() / (2.0 * self.rho))
        if beyond.max(initial=0.0) <= 0.0:
            return 1.0, 0.0
        if not self.l1.any():
            outside = beyond > 0.0
            return float((self.norms[outside] / (beyond + self.norms)[outside]).min()), 0.0
        low, high = 0.0, 1.0
        assert self.groups is not None
        columns = np.flatnonzero((beyond > 0.0)[self.groups])
        some, part = self.at(columns), V[columns]
        for _ in range(_BISECTIONS):
            middle = 0.5 * (low + high)
            fits = (some._lengths(soft(middle * part, some.l1[:, None])) <= some.norms).all()
            low, high = (middle, high) if fits else (low, middle)
        return low, 0.0

    def _lengths(self, W: np.ndarray) -> np.ndarray:
        """Return the norm of each group."""
        assert self.groups is not None
        return np.sqrt(np.bincount(self.groups, np.square(W).sum(1), len(self.norms)))

    def _pull(self, W: np.ndarray) -> np.ndarray:
        """Return strength over norm of each group, 0 where the norm is 0."""
        length = self._lengths(W)
        return np.divide(self.norms, length, out=np.zeros_like(length), where=length > 0.0)
