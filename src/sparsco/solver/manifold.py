"""Newton steps in the weights that are free: neither zero by an L1 or group norm, nor at a bound.

There loss + psi is smooth.  Coordinate descent finds which weights are free, but needs many sweeps where columns are
similar.  These steps need none of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.sparse.linalg import LinearOperator, cg

from ..data.rows import take_columns
from ..penalties.blocks import Blocks
from ..util.blas import one_blas_thread
from .descent import descend_gram
from .row_pairs import blocks_of_rows, pairs_of_rows, put_dense

_DIRECT = 1500
"""The most free weights for which the matrix of second derivatives is made."""
_CELLS = 40_000_000
_PAIR = 11.0
"""The cost of a pair of entries in a sum over rows, beside that of one in a product of dense matrices."""
_ITERATIONS = 300
_RIDGE = 1e-10
_SWEEPS = 200
"""The most sweeps of coordinate descent by the matrix."""


def has_room(size: int, rows: int) -> bool:
    """Return whether the matrix of second derivatives of so many weights can be made."""
    return size <= _DIRECT and size * rows <= _CELLS


class Curved:
    """The second derivatives of loss + psi at a point, in its free weights and the intercepts.

    X (n, k) are the columns.  ``h`` and ``shares`` (n, m) give the second derivatives diag(h_i) - h_i shares_i^T of the
    loss in the margins of row i.  ``shares`` is None where outputs are apart.
    """

    def __init__(
        self,
        X: Any,
        W: np.ndarray,
        psi: Blocks,
        h: np.ndarray,
        shares: np.ndarray | None,
        intercept: bool,
        free: np.ndarray,
    ) -> None:
        """Take the weights (k, m) that move, those of ``free``."""
        self.X, self.W, self.psi, self.h, self.shares, self.intercept = X, W, psi, h, shares, intercept
        self.free = free
        self.m = W.shape[1]
        self.features, self.outputs = np.nonzero(self.free)

    def step(self, gradient: np.ndarray, gradient_b: np.ndarray, ridge: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the Newton step for a gradient in the weights (k, m) and the intercepts (m,).

        ``ridge`` (k + 1,) is added to the second derivatives: of the weights of each column, then of the intercepts.
        """
        r, ridges = -gradient[self.free], self._ridges(ridge)
        if self.intercept:
            r = np.append(r, -gradient_b)
        if not r.size:
            return np.zeros_like(self.W), np.zeros(self.m)
        with one_blas_thread():
            found = (self._direct if self.is_small else self._by_products)(r, ridges)
        dW, db = np.zeros_like(self.W), np.zeros(self.m)
        dW[self.free] = found[: self.features.size]
        if self.intercept:
            db = found[self.features.size :]
        return dW, db

    def _ridges(self, ridge: np.ndarray) -> np.ndarray:
        """Return the ridge of each weight that moves, then of the intercepts."""
        own = ridge[self.features]
        return np.append(own, np.full(self.m, ridge[-1])) if self.intercept else own

    @property
    def is_small(self) -> bool:
        """Return whether the matrix of second derivatives can be made."""
        return has_room(self.features.size + self.m, self.X.shape[0])

    def matrix(self, ridge: np.ndarray) -> np.ndarray:
        """Return the second derivatives of loss + psi in the free weights and the intercepts, plus a ridge."""
        with one_blas_thread():
            A = self._matrix()
        own = np.einsum("ii->i", A)
        own *= 1.0 + _RIDGE  # constant columns, after the intercepts are eliminated
        own += self._ridges(ridge)
        return A

    def minimum(self, A: np.ndarray, G: np.ndarray, slopes_b: np.ndarray, tol: float) -> tuple[np.ndarray, np.ndarray]:
        """Return the weights at the minimum of the quadratic model plus psi, and the changes of the intercepts.

        Penalties are those of single weights.  A is the ``matrix``, and G (k, m) the gradient of the loss.  The
        intercepts are eliminated.  Coordinate descent finds the weights that are zero or at a bound; the others then
        solve a linear system, if that keeps their signs.
        """
        with one_blas_thread():
            return self._minimum(A, G, slopes_b, tol)

    def _minimum(self, A: np.ndarray, G: np.ndarray, slopes_b: np.ndarray, tol: float) -> tuple[np.ndarray, np.ndarray]:
        k, now = self.features.size, self.W[self.free]
        q = G[self.free] + self.psi.rho * now
        S = A[:k, :k]
        if self.intercept:
            solved = np.linalg.solve(A[k:, k:], np.column_stack([A[k:, :k], slopes_b]))
            S = S - A[:k, k:] @ solved[:, :k]
            q = q - A[:k, k:] @ solved[:, k]
        l1, bounds = self.psi.l1[self.features], self.psi.at(self.features).bounds()
        new, at_end = now.copy(), q.copy()
        smallest = tol * tol / max(float(np.einsum("ii->i", S).max(initial=0.0)), 1e-300)
        descend_gram(S, at_end, new, l1, *bounds, 0.0, smallest, _SWEEPS)
        new = _refined(S, q, now, new, l1, *bounds)
        W, db = self.W.copy(), np.zeros(self.m)
        W[self.free] = new
        if self.intercept:
            db = -solved[:, k] - solved[:, :k] @ (new - now)
        return W, db

    def _direct(self, r: np.ndarray, ridge: np.ndarray) -> np.ndarray:
        """Return the step by the matrix of second derivatives."""
        A = self._matrix()
        diagonal = np.einsum("ii->i", A)
        for _ in range(8):
            diagonal += ridge
            try:
                return cho_solve(cho_factor(A, lower=True, check_finite=False), r, check_finite=False)
            except LinAlgError:
                ridge = 100.0 * ridge
        return np.zeros_like(r)

    def _matrix(self) -> np.ndarray:
        """Return the matrix of second derivatives of loss + psi in the free weights and the intercepts."""
        k, size = self.features.size, self.features.size + (self.m if self.intercept else 0)
        if self._is_cheap_by_rows():
            A = self._matrix_by_rows(size)
        else:
            A = self._matrix_by_columns(size)
        at = np.arange(k)
        A[at, at] += self.psi.rho
        if self.psi.groups is not None:
            self._add_groups(A)
        return A

    def _is_cheap_by_rows(self) -> bool:
        """Return whether the pairs of entries in each row are few, compared with a product of dense matrices."""
        if not sp.issparse(self.X):
            return False
        counts = np.bincount(self.X.indices, minlength=self.X.shape[1])
        share = float(counts[self.features].sum()) / max(self.X.shape[0] * self.features.size, 1)
        return _PAIR * share**2 < 1.0

    def _matrix_by_rows(self, size: int) -> np.ndarray:
        """Return the second derivatives of the loss as a sum over rows."""
        X, place = self.X, np.full((self.X.shape[1] + 1, self.m), -1, np.int64)
        place[self.features, self.outputs] = np.arange(self.features.size)
        if self.intercept:
            place[-1] = np.arange(self.features.size, size)
        if self.m == 1:
            return pairs_of_rows(X.indptr, X.indices, X.data, place[:, 0], self.h[:, 0], size)
        shares = np.zeros_like(self.h) if self.shares is None else self.shares
        return blocks_of_rows(X.indptr, X.indices, X.data, place, self.h, shares, size)

    def _matrix_by_columns(self, size: int) -> np.ndarray:
        """Return the second derivatives of the loss by products of dense matrices."""
        A, k = np.zeros((size, size)), self.features.size
        bent = self.h.any(1)
        some = slice(None) if bent.all() else np.flatnonzero(bent)
        h, shares = self.h[some], None if self.shares is None else self.shares[some]
        Z = _dense(self.X, some, self.features)
        for q in range(self.m):
            own = np.flatnonzero(self.outputs == q)
            part = Z if self.m == 1 else Z[:, own]
            rooted = part * np.sqrt(h[:, q : q + 1])
            A[np.ix_(own, own)] = rooted.T @ rooted  # BLAS computes one half
            if self.intercept:
                A[k + q, own] = h[:, q] @ part
                A[k + q, k + q] = h[:, q].sum()
        if shares is not None:
            H, S = Z * h[:, self.outputs], Z * shares[:, self.outputs]
            A[:k, :k] -= H.T @ S
            if self.intercept:
                A[k:, :k] -= shares.T @ H
                A[k:, k:] -= h.T @ shares
        A[:k, k:] = A[k:, :k].T
        return A

    def _add_groups(self, A: np.ndarray) -> None:
        """Add the second derivatives of the norms of groups."""
        groups = self.psi.groups
        assert groups is not None
        own, w = groups[self.features], self.W[self.free]
        ends = np.flatnonzero(np.diff(own, append=-1)) + 1  # groups stand one after the other
        for begin, end in zip(np.append(0, ends)[:-1], ends, strict=True):
            length = float(np.sqrt(np.square(w[begin:end]).sum()))
            pull = self.psi.norms[own[begin]] / length
            at = np.arange(begin, end)
            A[at, at] += pull
            A[begin:end, begin:end] -= (pull / length**2) * np.outer(w[begin:end], w[begin:end])

    def _by_products(self, r: np.ndarray, ridge: np.ndarray) -> np.ndarray:
        """Return the step by conjugate gradients, without the matrix."""
        squares = self.X.multiply(self.X) if sp.issparse(self.X) else np.square(self.X)
        own = np.asarray(squares.T @ self.h)[self.free] + self.psi.rho
        if self.intercept:
            own = np.append(own, self.h.sum(0))
        own = own + ridge

        def product(v: np.ndarray) -> np.ndarray:
            V, b = np.zeros_like(self.W), np.zeros(self.m)
            V[self.free] = v[: self.features.size]
            if self.intercept:
                b = v[self.features.size :]
            E = self.X @ V + b
            if self.shares is not None:
                E = E - (self.shares * E).sum(1, keepdims=True)
            E = self.h * E
            out = (self.X.T @ E + self.psi.bend(self.W, V))[self.free]
            if self.intercept:
                out = np.append(out, E.sum(0))
            return out + ridge * v

        size = r.size
        A = LinearOperator((size, size), matvec=product, dtype=np.float64)
        inverse = LinearOperator((size, size), matvec=lambda v: v / own, dtype=np.float64)
        return cg(A, r, rtol=1e-4, maxiter=_ITERATIONS, M=inverse)[0]


def _refined(
    S: np.ndarray, q: np.ndarray, now: np.ndarray, new: np.ndarray, l1: np.ndarray, low: np.ndarray, high: np.ndarray
) -> np.ndarray:
    """Return the exact minimum over the weights that are free at ``new``, or ``new`` if a sign or a bound forbids it.

    The model is <q, w - now> + (w - now)^T S (w - now) / 2 + sum_j l1_j |w_j|.
    """
    free = np.flatnonzero(((new != 0.0) | (l1 == 0.0)) & (new > low) & (new < high))
    if not free.size:
        return new
    fixed = new - now
    fixed[free] = 0.0
    right = -(q + S @ fixed + l1 * np.sign(new))[free]
    try:
        move = cho_solve(cho_factor(S[np.ix_(free, free)], lower=True, check_finite=False), right, check_finite=False)
    except LinAlgError:
        return new
    found = new.copy()
    found[free] = now[free] + move
    keeps = (np.sign(found) == np.sign(new)) | (l1 == 0.0)
    return found if (keeps & (found >= low) & (found <= high)).all() else new


def _dense(X: Any, rows: Any, columns: np.ndarray) -> np.ndarray:
    """Return some rows and columns as a dense array."""
    if sp.issparse(X):
        order, place = np.arange(X.shape[0])[rows], np.full(X.shape[1], -1, np.int64)
        once, where = np.unique(columns, return_inverse=True)
        place[once] = np.arange(len(once))
        out = np.zeros((len(order), len(once)))
        put_dense(X.indptr, X.indices, X.data, order, place, out)
        return out if len(once) == len(columns) else out[:, where]
    if X.flags.c_contiguous:
        X = X[rows]
        out = np.empty((len(X), len(columns)))
        take_columns(X, columns, out)
        return out
    return X.T[columns][:, rows].T
