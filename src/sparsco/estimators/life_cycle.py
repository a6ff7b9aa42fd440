"""The phases of a fit, and how a state goes back to what it was before an error."""

from __future__ import annotations

import contextlib
import threading
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


_learning: dict[int, int] = {}
"""The thread that changes each object now, by the object's id."""


def begin_alone(estimator: Any) -> bool:
    """Note that this thread changes an estimator; return whether ``end_alone`` must follow, as it did not before.

    Raise a RuntimeError if another thread changes it: what both learn would be mixed up.
    """
    is_first, me = id(estimator) not in _learning, threading.get_ident()
    if _learning.setdefault(id(estimator), me) != me:
        raise RuntimeError(
            f"this {type(estimator).__name__} is learning in another thread: give each thread a model of its own "
            "(sklearn.base.clone), or let one thread learn at a time (threading.Lock)."
        )
    return is_first


def end_alone(estimator: Any) -> None:
    """Note that an estimator may be changed by any thread again."""
    del _learning[id(estimator)]


@contextlib.contextmanager
def alone(estimator: Any) -> Iterator[None]:
    """Let no other thread change an estimator during the block."""
    is_first = begin_alone(estimator)
    try:
        yield
    finally:
        if is_first:
            end_alone(estimator)


@contextlib.contextmanager
def unchanged_on_error(estimator: Any) -> Iterator[None]:
    """Restore an estimator as it was before the block, if an error leaves the block; no other thread may change it."""
    with alone(estimator):
        restore = snapshot_of(estimator)
        try:
            yield
        except BaseException:
            restore()
            raise
