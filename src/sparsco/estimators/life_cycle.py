"""The phases of a fit, and how a state goes back to what it was before an error."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any

from ..util.attributes import attributes, replace_attributes

NOT_CONVERTED = "not converted yet"


class Phase(Enum):
    """The phase of a fit in its life cycle."""

    EMPTY = "empty"
    """The phase before anything is learned."""
    BATCH = "batch"
    """The phase after ``fit``, which had all rows; a copy keeps the model only, unless ``warm_start`` is set."""
    STREAM = "stream"
    """The phase of a stream, whose rows come in pieces; a copy keeps all that learning needs to go on."""
    FINISHED = "finished"
    """The phase of a model without a training state."""


class LifeCycle:
    """The phase of a fit and its converted model; an estimator owns it."""

    def __init__(self, phase: Phase = Phase.EMPTY) -> None:
        """Start in a phase, without a model."""
        self._phase = phase.value  # a plain value, which files can hold
        self.model: Any = None
        """The converted model; None if learning has gone on since, or has not begun."""
        self.ended = ""
        """The reason why a finished fit cannot go on."""

    @property
    def phase(self) -> Phase:
        """Return the phase of the fit."""
        return Phase(self._phase)

    def enter(self, phase: Phase) -> None:
        """Change to another phase."""
        self._phase = phase.value

    @property
    def is_fitted(self) -> bool:
        """Return whether anything was learned."""
        return self.phase is not Phase.EMPTY

    @property
    def is_training(self) -> bool:
        """Return whether there is a training state."""
        return self.phase in (Phase.BATCH, Phase.STREAM)

    def report(self, examples: int) -> dict[str, Any]:
        """Return the report of the model, or a note that there is no model yet; nothing is computed."""
        if self.model is None:
            return {"state": NOT_CONVERTED, "examples": examples}
        return self.model.report

    def snapshot(self) -> Callable[[], None]:
        """Return a function that restores this state as it is now."""
        before = attributes(self)

        def restore() -> None:
            replace_attributes(self, before)

        return restore


def snapshot_of(estimator: Any) -> Callable[[], None]:
    """Return a function that restores an estimator and its states as they are now."""
    before = attributes(estimator)
    states = [part.snapshot() for part in before.values() if isinstance(part, LifeCycle)]

    def restore() -> None:
        replace_attributes(estimator, before)
        for each in states:
            each()

    return restore


@contextlib.contextmanager
def unchanged_on_error(estimator: Any) -> Iterator[None]:
    """Restore an estimator as it was before the block, if an error leaves the block."""
    restore = snapshot_of(estimator)
    try:
        yield
    except BaseException:
        restore()
        raise
