"""A growing log to a model that is published again and again: ``sparsco train --follow``.

    follow("clicks.svm", "clicks.model", settings={"alpha": 1e-4}, idle_exit=60.0)

Rows are judged and learned in groups of 256.  All that is learned depends on the rows and their numbers alone, never on
the time at which they arrive, on pauses, on models that are published or on a run that is killed and resumed.
"""

from __future__ import annotations

import contextlib
import errno
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..data.drift import LEVEL, Drift, DriftTest
from ..data.progressive import JUDGED
from ..data.rows import Matrix
from ..engine.run import PILOT_ROWS
from ..jit.memory import padded
from ..streams import open_growing
from ..streams.files import Block
from ..streams.growing import Growing
from ..streams.protocol import Chunk, Position
from ..streams.text import TextStream
from ..util.atomic_files import sole_writer
from ..util.notices import warn
from ..util.progress import Live
from . import model_files
from .checkpoints import Checkpoints
from .crossing import Crossing
from .inspection import summary
from .labelled_rows import LabelledRows, by_name, describe, is_keyed, reader_of
from .results import Report, StoppedError, Trained, heads
from .train import Training

PUBLISH_SECONDS = 60.0
"""The time between two published models by default; it is longer where publishing takes long."""
_SHARE = 0.05
"""The largest share of the time that is spent on publishing, and that on checkpoints, where they are due by time."""
_PAUSE = 0.1
"""The seconds between two looks at a log that does not grow."""
_WARNINGS = 100
"""The number of warnings that are kept."""


def follow(
    source: str | Path,
    path: str | Path,
    model: Any = None,
    *,
    publish_rows: int | None = None,
    publish_seconds: float | None = None,
    idle_exit: float | None = None,
    reader: Mapping[str, Any] | None = None,
    classes: Any = None,
    settings: Mapping[str, Any] | None = None,
    names: Mapping[int, str] | None = None,
    named: bool | None = None,
    checkpoints: Checkpoints | None = None,
    resume: bool = False,
    save_state: bool = False,
    stop: Callable[[], bool] = bool,
    report: Callable[[Report], object] = lambda report: None,
    cross: Any = None,
    birth: Any = None,
    cross_bits: int | None = None,
    **options: Any,
) -> Trained:
    """Learn a text file while it grows, or standard input, and publish the model again and again.

    Rows are learned in their order, once, and are judged before they are learned.  The model file is replaced as a
    whole, so that its readers never see a part of it.  A run that was killed goes on with ``resume=True``, to the same
    bits.  A warning says when the log was truncated or replaced, and when the loss has risen (docs/follow.md).

    Parameters
    ----------
    source : str or Path
        The path of a LIBSVM, VW, CSV, TSV, JSON lines or text file, or "-" for standard input.
    path : str or Path
        The model file.
    model : SparseClassifier or SparseRegressor, optional
        An estimator, new or with a stream under way, as for :func:`sparsco.train`.
    publish_rows : int, optional
        The model is published every so many rows.
    publish_seconds : float, optional
        The model is published every so many seconds, or less often if this would take more than 5% of the time.  The
        default is 60 where ``publish_rows`` is not given.
    idle_exit : float, optional
        The run ends when no row has arrived for so many seconds.  Without it, it ends with standard input, or never.
    reader, classes, settings, names, named : optional
        As for :func:`sparsco.train`.  Options of the reader may also be given by name.
    checkpoints : Checkpoints, optional
        The files for checkpoints; the default is ``path`` with .checkpoint, every 60 seconds.
    resume : bool
        If True, the run resumes from a checkpoint; if there is none it starts at the beginning, with a warning.
    save_state : bool
        If True, the model file holds the training state too.
    stop : callable
        A function that is called now and then; the run ends, with a last model, when it returns True.
    report : callable
        A function that gets a :class:`~sparsco.training.results.Report` after each model.
    cross, birth, cross_bits : optional
        As for :func:`sparsco.train`.  Crosses are born at 1024, 2048, 4096, ... rows.

    Returns
    -------
    Trained
        The last model, as from :func:`sparsco.train`.

    Raises
    ------
    ValueError
        If a parameter or the data is not valid, or if another process writes the same model.
    ResumeError
        If the checkpoint is of a run with other settings or another source.
    StoppedError
        If ``stop`` returned True before any row had arrived.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from sparsco import follow, load
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "log.svm").write_text("1 1:1 3:1\\n-1 2:1 3:1\\n" * 600)
    >>> trained = follow(folder / "log.svm", folder / "log.model", settings={"alpha": 0.01}, idle_exit=0.0)
    >>> trained.rows, load(folder / "log.model").n_selected_
    (1200, 2)
    """
    _check_intervals(publish_rows, publish_seconds, idle_exit)
    path = Path(path)
    reader = {**(reader or {}), **options}
    run = Following(model, reader, classes, dict(settings or {}), Crossing(cross, birth, cross_bits, reader))
    run.path, run.save_state, run.stop, run.idle_exit, run.report = path, save_state, stop, idle_exit, report
    run.live = Live()
    run.checkpoints = checkpoints or Checkpoints(path.with_name(path.name + ".checkpoint"))
    run.keeping = Schedule(run.checkpoints.rows, run.checkpoints.seconds)
    seconds = PUBLISH_SECONDS if publish_rows is None and publish_seconds is None else publish_seconds
    run.publishing = Schedule(publish_rows, seconds)
    with sole_writer(path):
        run.open(str(source), names, named)
        with contextlib.closing(run.files):
            if resume:
                run.recall()
            return run.whole()


def _check_intervals(rows: int | None, seconds: float | None, idle: float | None) -> None:
    if rows is not None and rows < 1:
        raise ValueError(f"publish_rows={rows!r}: it must be at least 1.")
    if seconds is not None and not seconds > 0.0:
        raise ValueError(f"publish_seconds={seconds!r}: it must be positive.")
    if idle is not None and not idle >= 0.0:
        raise ValueError(f"idle_exit={idle!r}: it must be at least 0.")


class Schedule:
    """When something is due again: at multiples of so many rows, and after so many seconds."""

    def __init__(self, rows: int | None, seconds: float | None) -> None:
        self.rows, self.seconds = rows, seconds
        self.row, self.when, self.cost = 0, -np.inf, 0.0
        """The number of rows and the time at which it was last done, and the seconds that it took.

        The first time does not count: kernels are compiled then.
        """

    def is_due(self, row: int) -> bool:
        """Return whether it is due at a row, which is after the last."""
        if row == self.row:
            return False
        if self.rows is not None and row // self.rows > self.row // self.rows:
            return True
        return self.seconds is not None and time.monotonic() - self.when >= max(self.seconds, self.cost / _SHARE)

    @contextlib.contextmanager
    def doing(self, row: int) -> Iterator[None]:
        """Note the row, the time and the cost of what the block does; it is not due again soon if the block fails."""
        began = time.monotonic()
        try:
            yield
        finally:
            is_first, now = self.when == -np.inf, time.monotonic()
            self.row, self.when, self.cost = row, now, 0.0 if is_first else now - began


class Following(Training):
    """A call of ``follow``: its parameters, its position in the log, its figures so far."""

    stream: TextStream
    checkpoints: Checkpoints
    path: Path
    save_state: bool
    idle_exit: float | None
    report: Callable[[Report], object]
    keeping: Schedule
    """When checkpoints are due."""
    publishing: Schedule
    """When models are due."""

    def __init__(
        self, model: Any, reader: dict[str, Any], classes: Any, settings: dict[str, Any], crossing: Crossing
    ) -> None:
        super().__init__(model, 1, False, reader, classes, settings, crossing)
        self.asked = f"follow {self.asked}"
        self.drift, self.models = DriftTest(), 0
        """The test of whether the loss has risen, and the number of classes by then."""
        self.held: list[LabelledRows] = []
        """The rows of a group that is not complete."""
        self.lately = np.zeros(3)
        """The weight, losses and mistakes of the rows that were judged since the last report."""
        self.reported = time.monotonic(), 0
        """The time of the last report, and the number of rows by then."""
        self.idle_since: float | None = None
        """The time since which it waits for rows; None while rows are learned."""
        self.published = 0
        """The number of rows that the last published model has learned."""
        self.is_stopped = False
        self.is_sealed = False
        """Whether no checkpoint may be written: fewer rows than are due decided on the task and the classes."""

    # ---- beginning -------------------------------------------------------------------------------------------------

    def open(self, source: str, names: Mapping[int, str] | None, named: bool | None) -> None:
        """Open the log; its features must be names if ``named`` is True, and numbered columns if it is False."""

        def opened(**more: Any) -> Any:
            return open_growing(source, self._wait, **(self.reader | more))

        self.stream = self.names_in_use.opened(names, opened)
        if named is not None and named != by_name(self.stream):
            kinds = ("numbered columns", "names")
            raise ValueError(f"the features of the model are {kinds[named]}, those of the log {kinds[not named]}.")

    @property
    def files(self) -> Growing:
        """Return the growing file, or standard input."""
        assert isinstance(self.stream.files, Growing)
        return self.stream.files

    def recall(self) -> None:
        content = self.checkpoints.recall(self.asked, self._identity())
        if content is not None:
            self._restore(content)

    def _restore(self, content: dict[str, Any]) -> None:
        source = content["source"]
        is_there = self.files.go_on(source)
        if first := self.files.first:  # what the columns of a table are was decided by these lines
            self.stream.prepare(Block(padded(first), 0, len(first), len(first)))
        super()._restore(content)
        self.drift, self.models, self.warnings = (content[name] for name in ("drift_test", "models", "warnings"))
        if not is_there:
            position = self.behind[0] or {"row": 0, "line": 0, "d": 0}
            self.behind = position | {"place": {"file": source["file"] + 1, "offset": 0}}, self.row
            self._tell(
                f"{self.files.name(0)} was replaced or truncated while it was not followed, and what followed row "
                f"{self.row:,} is not in its folder: rows may be missing; reading goes on at the beginning."
            )
        if self.files.is_input:
            end = source["offset"] + len(source["text"])
            warn(f"standard input was read up to byte {end}: what comes now is taken as what follows.")
        self.keeping.row, self.reported = self.row, (time.monotonic(), self.row)
        self.publishing.row = self.row - JUDGED  # the model of this row may not have been written

    # ---- groups of rows --------------------------------------------------------------------------------------------

    def whole(self) -> Trained:
        """Learn rows as they arrive, until the log ends or the run is asked to end; return the last model."""
        with contextlib.closing(self._groups()) as groups:
            for group in groups:
                self._learn(group, True)
                self._do_what_is_due()
                self.is_stopped = self.is_stopped or self.stop()
                if self.is_stopped:
                    break
        if not self.is_sealed and self.row:
            self.checkpoint()
        if self.held:
            self._learn(LabelledRows.joined(self.held), False)
        self.rows = self.row
        if not self.rows and self.is_stopped:
            raise StoppedError("stopped before any row had arrived")
        if not self.rows:
            raise ValueError(f"{self.files.name(0)} has no rows: there is nothing to learn from.")
        if not self.model.t_:
            raise ValueError("every row so far has the weight 0: there is nothing to learn from.")
        if self.published != self.row:
            self._line()
            self._publish()
        return self._trained()

    def _groups(self) -> Generator[LabelledRows]:
        """Yield the rows from the current position on in groups of the same size; the rest is in ``held``."""
        self.held, missing = [], JUDGED
        position, first = self.behind
        for chunk in self._chunks(position):
            rows, here, position = LabelledRows.of(chunk), (position, first), chunk.position
            at = max(self.row - first, 0)
            while at < chunk.rows:
                n = min(chunk.rows - at, missing)
                self.held.append(self._narrowed(rows.cut(at, at + n)))
                at, missing = at + n, missing - n
                if not missing:
                    self.behind = here if at < chunk.rows else (position, first + chunk.rows)
                    self.files.forget(self._place())
                    group, self.held, missing = LabelledRows.joined(self.held), [], JUDGED
                    yield group
            first += chunk.rows
            self.names_in_use.forget(self.model, self.stream, first, self.row)

    def _narrowed(self, rows: LabelledRows) -> LabelledRows:
        """Return rows with no more columns than have occurred so far: a chunk has those of later rows, too."""
        if self.stream.hashed_to or is_keyed(self.stream):
            return rows
        matrix = rows.matrix
        before = max((part.matrix.d for part in self.held), default=self.model.n_features_in_ if self.row else 1)
        d = max(before, int(matrix.indices.max(initial=0)) + 1)
        return rows._replace(matrix=Matrix(matrix.indptr, matrix.indices, matrix.data, d))

    def _chunks(self, position: Any) -> Iterator[Chunk]:
        """Yield the chunks that arrive; the choices that the first rows decide are made before the first chunk."""
        chunks = self._arriving(position)
        if position is None and not self.row:
            first, rows = [], 0
            while rows < PILOT_ROWS and (chunk := next(chunks, None)) is not None:
                first.append(chunk)
                rows += chunk.rows
            self.is_sealed = rows < PILOT_ROWS
            if self.is_sealed and rows:  # when the run is resumed, more rows will decide
                self.files.first = b""
                self.checkpoint()
            if rows:
                self.decide(np.concatenate([chunk.y for chunk in first])[:PILOT_ROWS], self.stream.description)
                self.notes += self.crossing.settle(self.model, self.stream, first, PILOT_ROWS)
                self.notes += self.stream.remarks()
            yield from first
        yield from chunks

    def _arriving(self, position: Any) -> Iterator[Chunk]:
        for chunk in self.stream.chunks(position):
            self.idle_since = None
            yield chunk

    def _wait(self) -> bool:
        """Do what is due while nothing arrives, and pause; return False if the run should end."""
        now = time.monotonic()
        self.idle_since = now if self.idle_since is None else self.idle_since
        self.is_stopped = self.is_stopped or self.stop()
        if self.is_stopped or (self.idle_exit is not None and now - self.idle_since >= self.idle_exit):
            return False
        self._do_what_is_due()
        time.sleep(_PAUSE)
        return True

    def _watch_order(self, y: np.ndarray) -> None:
        """Do nothing: a log comes in the order of time."""

    def _judge(self, matrix: Matrix, y: np.ndarray, weights: np.ndarray | None) -> None:
        found = None
        if self.model.__sklearn_is_fitted__():
            models = len(self.model.classes_) if self.model.classifies else 1
            if models != self.models:  # the loss of another number of classes cannot be compared
                self.models, self.drift = models, self.drift.anew()
            found = None if self.model.classifies and models < 2 else self.model.judge_rows(matrix, y)
        if found is not None:
            scale = np.ones(len(y)) if weights is None else weights
            sums = np.array([scale.sum(), *((scale * each).sum() for each in found)])
            self.judged += sums
            self.lately += sums
            if (drift := self.drift.add(found[0][scale > 0.0])) is not None:
                self._tell(self._in_words(drift))
        if self.row >= 1024 and self.row & (self.row - 1) == 0:
            self._line()

    def _in_words(self, drift: Drift) -> str:
        """Return what has been found, how sure it is, and what to do, in one sentence."""
        half_life = self.model.settings().get("half_life")
        shorter = max(1000.0, drift.rows_before / 8.0) if half_life in (None, np.inf) else float(half_life) / 4.0
        rounded = f"{float(f'{shorter:.2g}'):.0f}"
        return (
            f"drift by row {self.row + JUDGED:,}: the last {drift.rows:,} rows had a mean loss of {drift.loss:.4g} "
            f"before they were learned, the {drift.rows_before:,} rows before them {drift.loss_before:.4g} (test of "
            f"means, level {LEVEL:.0%} for the whole stream); to forget old rows faster, train with --half-life "
            f"{rounded}."
        )

    def _tell(self, sentence: str) -> None:
        self.warnings = [*self.warnings, sentence][-_WARNINGS:]
        warn(sentence)

    # ---- files -----------------------------------------------------------------------------------------------------

    def _do_what_is_due(self) -> None:
        """Write a checkpoint or the model if it is due; while the disk is full, learning goes on."""
        if self.is_sealed or self.row < PILOT_ROWS:
            return
        for schedule, write in ((self.keeping, self.checkpoint), (self.publishing, self._publish)):
            if not schedule.is_due(self.row):
                continue
            try:
                write()
            except OSError as error:
                if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                    raise
                self._tell(f"{error.filename}: {error.strerror}: row {self.row:,} is not saved; learning goes on.")

    def checkpoint(self) -> None:
        """Write the state of the run as a checkpoint."""
        if self.checkpoints.rows is None and self.checkpoints.seconds is None:
            return
        with self.keeping.doing(self.row):
            self.checkpoints.write(self._content())

    def _content(self) -> dict[str, Any]:
        source = self.files.state(self._place())
        own = {"source": source, "drift_test": self.drift, "models": self.models, "warnings": self.warnings}
        return super()._content() | own

    def _place(self) -> Position:
        """Return the place in the log from which a resumed run reads on."""
        position, _ = self.behind
        return {} if position is None else position["place"]

    def _publish(self) -> None:
        """Write the model, which does not change what is learned next, and report."""
        with self.publishing.doing(self.row):
            self.model.convert()
            describe(self.model, self.stream, int(self.model.n_features_in_))
            trained = self._trained()
            extra: dict[str, Any] = {"reader": reader_of(self.stream, self.reader), "training": summary(trained)}
            if self.save_state:
                extra["names"] = dict(self.stream.names)
            names, is_by_name = self.stream.names, by_name(self.stream)
            model_files.save(
                self.model, self.path, training=self.save_state, names=names, by_name=is_by_name, extra=extra
            )
        now, (when, row) = time.monotonic(), self.reported
        means = [_means(sums, self.model.classifies) for sums in (self.lately, self.judged[1])]
        rate = (self.row - row) / max(now - when, 1e-9)
        self.report(Report(self.row, rate, *means[0], *means[1], int(self.model.n_selected_), heads(self.model)[0]))
        self.reported, self.lately, self.published = (now, self.row), np.zeros(3), self.row

    def _trained(self) -> Trained:
        notes = self.notes + self.crossing.notes_on(self.model)
        return Trained(self.model, self.stream, self.table, self.row, self._elapsed(), notes, self.warnings)


def _means(sums: np.ndarray, classifies: bool) -> tuple[float, float]:
    """Return the mean loss and the mean mistake of judged rows; the latter as a root mean square for a regression."""
    weight, loss, mistake = sums.tolist()
    if weight <= 0.0:
        return np.nan, np.nan
    return loss / weight, mistake / weight if classifies else float(np.sqrt(mistake / weight))
