"""The optimum without a penalty in some columns, by Newton steps on rows in memory.

    f(theta) = 1/n sum_i a_i loss(<theta, z_i>, y_i) + <tilt, theta>

z_i has the entries of a row in these columns, and a 1 for the intercept if there is one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..losses import curvature, derivative, value

_DENSE = 0.1
"""The share of nonzeros from which columns are kept dense."""
_STEPS = 100
_SETTLED, _ROUNDING, _VANISHED = 1e-9, 1e-13, 1e-9
"""A step that can lower the sum of the losses by at most the first share of their mean is the last one.  A step that
raises the objective by at most the second share is not refused.  A loss of the third share of that of no weights is
zero."""
_LEAST_DAMPING, _FIRST_REFUSAL, _MORE = 1e-12, 1e-4, 30.0


class Design(NamedTuple):
    """Rows in the columns that are to get intervals, with the targets and weights of one model."""

    Z: Any
    """The entries (n, k), dense or CSR; the last column is the intercept's, if there is one."""
    y: np.ndarray
    weights: np.ndarray
    loss: Any

    @classmethod
    def of(cls, rows: Any, columns: np.ndarray, d: int, intercept: bool, y: Any, weights: Any, loss: Any) -> Design:
        """Return the design of CSR rows with d columns, in some of these columns."""
        Z = sp.csr_array((rows.data, rows.indices.astype(np.int64), rows.indptr), shape=(len(y), d))[:, columns]
        if intercept:
            Z = sp.hstack([Z, np.ones((len(y), 1))], "csr")
        is_dense = Z.nnz >= _DENSE * Z.shape[0] * Z.shape[1]
        return cls(Z.toarray() if is_dense else sp.csr_array(Z), y, weights, loss)

    @property
    def n(self) -> int:
        """Return the number of rows."""
        return len(self.y)

    def losses(self, p: np.ndarray) -> np.ndarray:
        """Return the loss of each row at margins p, times its weight."""
        return self.weights * value(self.loss, p, self.y)

    def slopes(self, p: np.ndarray) -> np.ndarray:
        """Return the derivative of each row's loss at margins p, times its weight."""
        return self.weights * derivative(self.loss, p, self.y)

    def curvatures(self, p: np.ndarray) -> np.ndarray:
        """Return the second derivative of each row's loss at margins p, times its weight."""
        return self.weights * curvature(self.loss, p, self.y)

    def mean(self, c: np.ndarray) -> np.ndarray:
        """Return the mean of c_i z_i."""
        return self.Z.T @ c / self.n

    def pairs(self, h: np.ndarray) -> np.ndarray:
        """Return the mean of h_i z_i z_i^T, (k, k)."""
        if isinstance(self.Z, np.ndarray):
            return self.Z.T @ (self.Z * h[:, None]) / self.n
        return (self.Z.T @ self.Z.multiply(h[:, None]).tocsr()).toarray() / self.n

    def scales(self) -> np.ndarray:
        """Return the mean of a_i z_ij^2 times the bound on the loss's curvature, for each column."""
        squares = np.square(self.Z) if isinstance(self.Z, np.ndarray) else self.Z.power(2)
        return self.loss.smoothness * (squares.T @ self.weights) / self.n


def optimum(design: Design, start: np.ndarray, tilt: np.ndarray | float = 0.0) -> np.ndarray:
    """Return the weights that minimise the mean loss plus <tilt, theta>.

    Steps that do not lower the objective are damped.  Directions in which the loss is flat are left as they are; where
    it falls for ever, the weights stop far out, where the second derivatives have vanished.
    """
    theta, damping, scales = start.copy(), _LEAST_DAMPING, design.scales()
    scales = np.where(scales > 0.0, scales, 1.0)
    p = design.Z @ theta
    losses = design.losses(p)
    nothing = float(np.abs(design.losses(np.zeros(design.n))).mean())
    with np.errstate(over="ignore", invalid="ignore"):  # of steps that are refused
        for _ in range(_STEPS):
            size = float(np.abs(losses).mean())
            g, H = design.mean(design.slopes(p)) + tilt, design.pairs(design.curvatures(p))
            H[np.diag_indices_from(H)] += damping * np.maximum(scales, np.diag(H))
            step = np.linalg.solve(H, g)
            p_moved = design.Z @ (theta - step)
            reached = design.losses(p_moved)
            rise = float((reached - losses).mean() - np.sum(tilt * step))
            is_last = float(g @ step) <= _SETTLED / design.n * size or size <= _VANISHED * nothing
            if rise <= _ROUNDING * size:
                theta, p, losses, damping = theta - step, p_moved, reached, max(damping / _MORE, _LEAST_DAMPING)
            else:
                damping = max(_MORE * damping, _FIRST_REFUSAL)
            if is_last:
                return theta
    raise ValueError(
        f"intervals: the weights without a penalty were not found in {_STEPS} steps: scale the columns and the targets."
    )
