"""The life cycle of a fit: what an estimator has learned so far, in one object that starts, learns, converts and ends.

An estimator keeps its parameters and the attributes that scikit-learn names, and one state beside them.  ``fit`` makes
a state of phase BATCH, a stream one of phase STREAM; without training state a model is FINISHED.
"""

from __future__ import annotations

import contextlib
import copy
import zlib
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from ..data.rows import Matrix
from ..data.slots import Columns, Names, SeenColumns
from ..engine.run import Run
from ..util.threads import Threads
from .converted import Solved, solve

FIXED = (
    "loss", "alpha", "l1_ratio", "penalty", "optimizer", "conversion", "step_size", "fit_intercept", "feature_weights",
    "storage", "preset", "budget", "target_excess_risk",
)  # fmt: skip
"""Parameters that cannot change while a stream is under way."""
NOT_CONVERTED = "not converted yet"


class Phase(Enum):
    """Where a fit is in its life cycle."""

    EMPTY = "empty"
    """Nothing has been learned."""
    BATCH = "batch"
    """``fit`` has learned rows that were all there; a copy keeps the model only, unless ``warm_start`` is set."""
    STREAM = "stream"
    """Rows come in pieces; a copy keeps all that learning needs to go on."""
    FINISHED = "finished"
    """There is a model and no training state."""


class LifeCycle:
    """The phase of a fit and its converted model."""

    def __init__(self, phase: Phase = Phase.EMPTY) -> None:
        self._phase = phase.value  # which files can hold
        self.model: Any = None
        """The converted model; None where learning has gone on since, or has not begun."""
        self.ended = ""
        """Why a finished fit cannot go on."""

    @property
    def phase(self) -> Phase:
        """Where the fit is."""
        return Phase(self._phase)

    def enter(self, phase: Phase) -> None:
        """Go on to a phase."""
        self._phase = phase.value

    @property
    def is_fitted(self) -> bool:
        """Whether anything was learned."""
        return self.phase is not Phase.EMPTY

    @property
    def is_training(self) -> bool:
        """Whether there is a training state."""
        return self.phase in (Phase.BATCH, Phase.STREAM)

    def report(self, examples: int) -> dict[str, Any]:
        """Return the model's report, or that there is no model yet; nothing is computed."""
        if self.model is None:
            return {"state": NOT_CONVERTED, "examples": examples}
        return self.model.report

    def snapshot(self) -> Callable[[], None]:
        """Return a function that puts this state back to where it is now."""
        before = dict(vars(self))

        def restore() -> None:
            vars(self).clear()
            vars(self).update(before)

        return restore


def snapshot_of(estimator: Any) -> Callable[[], None]:
    """Return a function that puts an estimator, and the states that it has, back to where they are now."""
    before = dict(vars(estimator))
    states = [part.snapshot() for part in before.values() if isinstance(part, LifeCycle)]

    def restore() -> None:
        vars(estimator).clear()
        vars(estimator).update(before)
        for each in states:
            each()

    return restore


@contextlib.contextmanager
def unchanged_on_error(estimator: Any) -> Iterator[None]:
    """Put an estimator back to where it was when an error leaves the block."""
    restore = snapshot_of(estimator)
    try:
        yield
    except BaseException:
        restore()
        raise


class FitState(LifeCycle):
    """The runs of a linear model, its features and labels, and the model that they were converted into."""

    def __init__(self, features: Any = None, told: list[str] | None = None) -> None:
        super().__init__()
        self.model: Solved | None
        self.runs: list[Run] = []
        self.features: Any = features
        """The slot of each feature: ``Columns``, ``SeenColumns`` or ``Names``."""
        self.told: list[str] = [] if told is None else told
        """The causes of the warnings that were given; all runs share the list."""
        self.settings: dict[str, Any] = {}
        """Fingerprints of the parameters that the runs were made from."""
        self.noted: list[float] | None = None
        """The targets of the examples that ``learn_one`` noted; None where it has not begun."""
        self.is_sparse = False
        """Whether ``coef_`` is a sparse array."""
        self.is_open = False
        """Whether a stream finds its classes itself."""
        self.codes: dict[Any, int] = {}
        """The code of each label, in the order of their appearance, where examples are encoded one at a time."""
        self.outputs: int | None = None
        """The columns of y; None where y is one-dimensional."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._share_warnings()

    def _share_warnings(self) -> None:
        for run in self.runs:
            run.told = self.told

    # ---- learning --------------------------------------------------------------------------------------------------

    def start(self, runs: list[Run], phase: Phase, estimator: Any) -> None:
        """Begin to learn by these runs, which were made from the estimator's parameters."""
        self.runs, self.model = runs, None
        self.enter(phase)
        self.settings = {name: _fingerprint(getattr(estimator, name)) for name in FIXED}
        self._share_warnings()

    def go_on(self, phase: Phase) -> None:
        """Learn further rows, which come as the phase says."""
        self.model = None
        if phase is Phase.BATCH:
            self.noted = None
        self.enter(phase)

    def changed(self, estimator: Any) -> list[str]:
        """Return the names of the parameters that cannot change and did."""
        return [name for name in FIXED if _fingerprint(getattr(estimator, name)) != self.settings[name]]

    def feed(
        self, matrix: Matrix, y: np.ndarray, weights: np.ndarray | None, order: np.ndarray, is_repeat_pass: bool,
        n_jobs: int | None = None,
    ) -> None:  # fmt: skip
        """Learn rows, whose columns are slots, in an order; ``is_repeat_pass`` in a further pass."""
        weights = np.ones(len(matrix)) if weights is None else weights
        self.model = None
        if len(self.runs) == 1:
            self.runs[0].feed(matrix, y, weights, order, is_repeat_pass)
        else:
            runs = [(run,) for run in self.runs]
            Threads(n_jobs).map("learn", lambda run: run.feed(matrix, y, weights, order, is_repeat_pass), runs)

    def grow(self, d: int) -> None:
        """Let there be d features."""
        for run in self.runs:
            run.grow(d)

    def add_run(self, run: Run) -> None:
        """Learn by a further run from here on."""
        self.runs = [*self.runs, run]
        self._share_warnings()

    @property
    def examples(self) -> int:
        """The number of examples taken in so far, those that were only noted included."""
        if not self.runs:
            return 0 if self.model is None else self.model.t
        return self.runs[0].examples + len(self.noted or ())

    @property
    def has_iterates(self) -> bool:
        """Whether every run has begun to learn; before that it collects rows."""
        return bool(self.runs) and all(run.pilot is not None for run in self.runs)

    def begun(self) -> list[Run]:
        """Return the runs; in place of one that still collects rows a twin that has learned them."""
        return [run if run.pilot is not None else run.trained_copy() for run in self.runs]

    def selected(self) -> np.ndarray:
        """Return the slots that have a weight in an iterate."""
        return np.unique(np.concatenate([np.flatnonzero(run.weights()[0].any(1)) for run in self.runs]))

    def fingerprint(self) -> list[int]:
        """Return a checksum of the state of each run that has begun to learn."""
        return [zlib.crc32(run.state.cell) for run in self.runs if run.pilot is not None]

    # ---- one example at a time -------------------------------------------------------------------------------------

    def note(self, x: Any, target: Callable[[Any], float], y: Any) -> None:
        """Take in one example without learning it; ``target`` makes a number of y."""
        self.features.note(x)
        try:
            self.noted.append(target(y))  # type: ignore[union-attr]
        except BaseException:
            self.features.unnote()
            raise

    def unnote(self) -> None:
        """Forget the last example."""
        assert self.noted is not None
        self.features.unnote()
        self.noted.pop()

    def drain(self) -> tuple[Matrix, np.ndarray]:
        """Return the examples noted since the last time, as rows and targets, and forget them."""
        y, matrix = np.array(self.noted), self.features.drain()
        self.noted = []
        return matrix, y

    # ---- the model -------------------------------------------------------------------------------------------------

    def convert(self, arranged: Callable[[Any], Any]) -> None:
        """Convert what the runs learned into the model; ``arranged`` brings models into the order of ``coef_``."""
        if self.model is None:
            self.take(solve(self.begun()), arranged)

    def take(self, model: Solved, arranged: Callable[[Any], Any]) -> None:
        """Let this be the model; its weights are in the order of the runs."""
        self.model = model._replace(coef=arranged(model.coef), intercept=arranged(model.intercept))

    def take_weights(self, coef: Any, intercept: Any, features: Any) -> None:
        """Let a finished model have other weights, of these features."""
        assert self.model is not None
        coef = sp.csr_array(coef if sp.issparse(coef) else np.atleast_2d(coef))
        intercept = np.atleast_1d(np.asarray(intercept, dtype=np.float64))
        self.features, self.model = features, self.model._replace(coef=coef, intercept=intercept)

    def finish_with(self, model: Solved | None, why: str) -> None:
        """Let this be the model and drop the training state; ``why`` says why the fit cannot go on."""
        self.runs, self.model, self.noted = [], model, None
        self.ended = why
        self.enter(Phase.FINISHED)

    def drop_training(self, why: str) -> None:
        """Keep the converted model only, and of the features seen those that have a weight."""
        model, features = self.model, self.features
        assert model is not None
        if features.seen:
            used = np.unique(model.coef.indices)
            if not used.size and isinstance(features, SeenColumns):
                used = np.zeros(1, np.int64)  # there is no model of no features
            self.features, model = features.only(used), model._replace(coef=sp.csr_array(model.coef[:, used]))
        self.finish_with(model, why)

    # ---- copies ----------------------------------------------------------------------------------------------------

    def clone(self, runs: list[Run] | None = None) -> Self:
        """Return a state that shares the features and all the rest, with these runs where they are given."""
        twin = copy.copy(self)
        twin.runs = list(self.runs) if runs is None else runs
        twin._share_warnings()
        return twin

    def shell(self, why: str) -> Self:
        """Return a finished state that has the features and labels and waits for a model."""
        twin = self.clone([])
        twin.finish_with(None, why)
        twin.told = []
        return twin

    def snapshot(self) -> Callable[[], None]:
        """Return a function that puts this state back, runs that still collect pilot rows included."""
        restore_fields, features = super().snapshot(), self.features
        known = features.mark() if isinstance(features, Columns) else None
        collecting = [(run, run.before_pilot()) for run in self.runs if run.pilot is None]

        def restore() -> None:
            restore_fields()
            if isinstance(features, Columns):
                features.back_to(known)
            for run, before in collecting:
                run.go_back(before)

        return restore

    @property
    def has_names(self) -> bool:
        """Whether the features have names in place of columns."""
        return isinstance(self.features, Names)


def _fingerprint(value: Any) -> Any:
    """Return what tells a parameter from another: repr, which leaves out the middle of long arrays, and their bytes."""
    if isinstance(value, np.ndarray):
        return value.shape, str(value.dtype), zlib.crc32(np.ascontiguousarray(value).view(np.uint8))
    return (type(value), *map(_fingerprint, value)) if isinstance(value, tuple) else repr(value)
