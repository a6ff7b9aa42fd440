"""What a conversion may ask of the run that calls it.

The engine's ``Run`` has more, which is its own.  Conversions of the library keep to this view, and so should yours.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np


class RunView(Protocol):
    """A run as conversions and roundings see it; the parts of the method, numbers of examples, sums and iterates."""

    # ---- the method ------------------------------------------------------------------------------------------------

    problem: Any
    """The Problem: the loss, the penalty, the number of models, what is watched."""
    optimizer: Any
    """The optimizer, resolved."""
    step: Any
    """The step rule, resolved; None where the optimizer takes none."""
    rounding: Any
    """The rounding that changes the answer; None where there is none."""
    is_start: bool
    """Whether the answer is no model, but the start of a polish."""
    pilot: Any
    """The scales of the first rows: a Pilot."""
    seed: int
    """The seed of random draws."""
    initial: tuple[np.ndarray, np.ndarray] | None
    """Weights and intercepts to start from; None: zeros."""

    # ---- where it is -----------------------------------------------------------------------------------------------

    d: int
    """The number of features so far; arrays of the state may have room for more."""
    t: int
    """The number of examples that the optimizer learned."""
    seen: int
    """The number of examples seen, those of gradient phases included."""
    history: list[dict[str, float]]
    """The objective on the pilot rows and the number of nonzero weights, at some numbers of examples."""
    state: Any
    """The optimizer's State; settle it before it is read."""
    block: Any
    """The optimizer's Block."""
    snapshots: Any
    """Iterates that the conversion keeps for itself: (examples, weights, intercepts)."""

    # ---- the iterate -----------------------------------------------------------------------------------------------

    def weights(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the current iterate: weights (d, m) and intercepts (m,)."""

    def weights_before_last(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the iterate before the last example, for a conversion that says ``keeps_before_last``."""

    def epoch_mean(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the mean iterate of the epoch under way, of an optimizer that works in epochs."""

    # ---- windows ---------------------------------------------------------------------------------------------------

    def open_window(self) -> None:
        """Start a window here, with sums of zero; a gradient phase under way ends."""

    def rotate_window(self) -> None:
        """Let the current window be the previous one, and start a new one."""

    def start_gradient_phase(self) -> None:
        """Stop learning: sum the gradients at the mean of the window from here on."""

    @property
    def window_weight(self) -> float:
        """The total weight of the iterates in the current window."""

    def means(self) -> Any:
        """Return the Means over the previous and the current window."""

    def fixed_point(self) -> Any:
        """Return the Means of the gradient phase to answer from; None before there is one."""

    # ---- rows and messages -----------------------------------------------------------------------------------------

    def lanes_of(self, y: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return targets and weights of each of the run's models, (n, m)."""

    def sample(self, enough: int | None = None) -> Any:
        """Return a sample of the rows, for a conversion that says ``needs_sample``; else None.

        Of a sample that is a small share of the rows, no more than ``enough`` rows are returned.
        """

    def warn(self, message: str) -> None:
        """Keep a message for the report, and warn once."""
