"""A point of loss + psi that moves downhill: what the exact solvers share."""

from __future__ import annotations

import numpy as np

from ..penalties.blocks import Blocks
from .loss_term import LossTerm


class MovingPoint:
    """Weights W (k, m) and intercepts b (m,), with their margins P (n, m) and their objective f."""

    W: np.ndarray
    b: np.ndarray
    P: np.ndarray
    f: float

    def __init__(self, psi: Blocks, term: LossTerm, intercept: bool) -> None:
        self.psi, self.term, self.intercept, self.steps = psi, term, intercept, 0

    def place(self, W: np.ndarray, b: np.ndarray, P: np.ndarray) -> None:
        """Go to these weights and intercepts, which have margins P."""
        self.W, self.b, self.P = W, b, P
        self.f = self._objective(P, W)

    def _objective(self, P: np.ndarray, W: np.ndarray) -> float:
        return self.term.value(P) + self.psi.value(W)

    def _violation(self, G: np.ndarray, slopes_b: np.ndarray) -> float:
        """Return the largest violation of an optimality condition, for a gradient of the loss."""
        worst = float(self.psi.violations(G, self.W).max(initial=0.0))
        return max(worst, float(np.abs(slopes_b).max())) if self.intercept else worst

    def _descent(self, G: np.ndarray, slopes_b: np.ndarray, W: np.ndarray, db: np.ndarray) -> float:
        """Return the change of the objective on the way to W, with the loss replaced by its slope here."""
        return float((G * (W - self.W)).sum() + (slopes_b * db).sum()) + self.psi.value(W) - self.psi.value(self.W)

    def _search(self, W: np.ndarray, db: np.ndarray, dP: np.ndarray, descent: float, shortest: float) -> float:
        """Move towards W, less of the way after each failure; return the share of the way, 0 if all have failed.

        The objective must fall by a hundredth of ``descent`` times that share.
        """
        length = 1.0
        while length > shortest:
            at = W if length == 1.0 else self.W + length * (W - self.W)
            b, P = self._settled(self.b + length * db, self.P + length * dP)
            f = self._objective(P, at)
            if f <= self.f + 1e-2 * length * descent + 1e-15 * abs(self.f):
                self.W, self.b, self.P, self.f = at, b, P, f
                return length
            length *= self._shortened(length * descent, f)
        return 0.0

    def _shortened(self, descent: float, f: float) -> float:
        """Return the factor by which a step is made shorter that led to f, where its slope promised ``descent``."""
        return 0.5

    def _settled(self, b: np.ndarray, P: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the intercepts and margins at which weights are tried, from those of a step."""
        return b, P
