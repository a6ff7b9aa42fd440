"""Training of a model on a file, with progressive validation and checkpoints.

    trained = train("data.svm")
    trained.estimator.predict(X), trained.table

Rows are evaluated before they are learned, and a run can be interrupted at any time.  All results depend on the numbers
of the rows, never on the chunks of a reader or the time of a checkpoint.  A run that was interrupted and resumed gives
the same bits as one that was not.
"""

from __future__ import annotations

import contextlib
import numbers
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from ..data.progressive import JUDGED, next_mark
from ..data.row_order import RowOrder
from ..data.rows import Matrix
from ..engine.run import PILOT_ROWS
from ..estimators.row_times import ROWS_COME_ONCE
from ..estimators.tasks import LinearClassifier, LinearRegressor, as_numbers
from ..streams import Chunk, Stream, StreamError, open_stream
from ..streams.files import changed, files_of
from ..streams.protocol import unlabelled
from ..streams.shuffled import Shuffled, order_advice
from ..util.notices import warn
from ..util.progress import AskedToStopError, Live, printable, steps_shown
from . import archive, model_files
from .all_features import AllFeatures, all_features
from .checkpoints import Checkpoints, Saved, hash_of, resumed
from .crossing import Crossing
from .labelled_rows import (
    LabelledRows,
    are_classes,
    by_name,
    check_labels,
    check_words,
    checked_half_life,
    describe,
    first_classes,
    labels,
    own_schema,
    targets_of,
    task_in_words,
)
from .names_in_use import NamesInUse
from .results import Line, StoppedError, Trained, heads

_PIECE = 1 << 15
"""The number of rows learned between two checks of the clock."""


def train(
    source: Any,
    model: Any = None,
    *,
    passes: int = 1,
    shuffle: bool = True,
    reader: Mapping[str, Any] | None = None,
    classes: Any = None,
    settings: Mapping[str, Any] | None = None,
    names: Mapping[int, str] | None = None,
    checkpoints: Checkpoints | None = None,
    resume: bool = False,
    stop: Callable[[], bool] = bool,
    live: Live | None = None,
    named: bool | None = None,
    cross: Any = None,
    birth: Any = None,
    cross_bits: int | None = None,
    **options: Any,
) -> Trained:
    """Train a model on the rows of a file, a table or any other source of :func:`sparsco.open_stream`.

    Parameters
    ----------
    source : str, Path, list, table, array or iterable
        The rows, as :func:`sparsco.open_stream` takes them.
    model : SparseClassifier or SparseRegressor, optional
        An estimator, new or with a stream under way.  Without one the labels of the first rows decide between a
        classifier and a regression.
    passes : int
        The number of passes over the rows.
    shuffle : bool
        If True, every pass reads the rows in a random order of its own, if they fit into memory or are cached
        (docs/files.md).  Standard input, iterators and rows with ``half_life`` keep their order.
    reader : dict, optional
        Options of :func:`sparsco.open_stream`.  They may also be given by name: ``train(frame, target="income")``.
    classes : list, "any" or None
        All classes; "any" if they may appear at any time; None if the first rows decide.
    settings : dict, optional
        The parameters of the estimator that is made if ``model`` is None.
    names : dict of int to str, optional
        The names of features that a stream under way has seen.
    checkpoints : Checkpoints, optional
        The files for checkpoints, and when they are due.
    resume : bool
        If True, the run resumes from a checkpoint; if there is none it starts anew, with a warning.
    stop : callable
        A function that is called now and then; the run ends when it returns True.
    live : Live, optional
        The display of progress.
    named : bool, optional
        True if the features of a stream under way are names, False if they are numbered columns; the source must match.
    cross : "all", or list of "a:b" or pairs of names, optional
        The pairs of features whose products are features, too: crosses (docs/crosses.md).
    birth : bool or int, optional
        If True, a cross exists only once both of its features were selected; a number is the most that are selected.
        By default crosses of all features are born if there are more than 200 features.
    cross_bits : int, optional
        If given, crosses are hashed into 2 ** cross_bits columns.

    Returns
    -------
    Trained
        ``estimator``, ``table``, ``notes`` and ``warnings``, among others.

    Raises
    ------
    ValueError
        If a parameter or the data is not valid.
    ResumeError
        If the checkpoint is of a run with other settings or other data.
    StoppedError
        If ``stop`` returned True.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsco import train
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(3000, 20))
    >>> y = np.where(X[:, 3] > X[:, 7], 1, -1)
    >>> trained = train(X, reader={"y": y}, settings={"alpha": 0.1, "random_state": 0})
    >>> np.flatnonzero(trained.estimator.coef_)
    array([3, 7])
    """
    if not isinstance(passes, numbers.Integral) or passes < 1:
        raise ValueError(f"passes={passes!r}: it must be a whole number of at least 1.")
    reader = {**own_schema(model, settings), **(reader or {}), **options}
    crossed = Crossing(cross, birth, cross_bits, reader)
    run = Training(model, int(passes), bool(shuffle), reader, classes, dict(settings or {}), crossed)
    run.checkpoints, run.stop, run.live = checkpoints, stop, live or Live()
    run.stream = run.names_in_use.opened(names, lambda **more: open_stream(source, **(run.reader | more)))
    if named is not None and named != by_name(run.stream):
        kinds = ("numbered columns", "names")
        raise ValueError(f"the features of the model are {kinds[named]}, those of the source {kinds[not named]}.")
    return resumed(run) if resume else run.whole()


class Training:
    """A call of ``train``: its parameters, its position in the data, its figures so far."""

    checkpoints: Checkpoints | None
    wrap: Callable[[Any], Any] = staticmethod(lambda estimator: estimator)
    """A function that returns the model to learn, for the estimator that the labels decide on."""
    stop: Callable[[], bool]
    live: Live
    stream: Stream

    def __init__(
        self,
        model: Any,
        passes: int,
        shuffle: bool,
        reader: dict[str, Any],
        classes: Any,
        settings: dict[str, Any],
        crossing: Crossing = Crossing(),
    ) -> None:
        self.model, self.passes, self.shuffle, self.reader = model, passes, shuffle, reader
        self.classes, self.settings, self.crossing = classes, settings, crossing
        if model is not None:
            settings = model.settings() | {"type": type(model).__name__}
        self.names_in_use = NamesInUse(settings)
        self.half_life = checked_half_life(settings.get("half_life"), reader)
        under_way = [] if model is None else model.fit_state.fingerprint()
        self.asked = hash_of(settings, (passes, shuffle, sorted(reader.items()), classes), under_way, crossing.asked)
        """A hash of the parameters, to compare with that in a checkpoint."""
        self.seed = seed if isinstance(seed := settings.get("random_state"), int) else 0
        self.epoch, self.row = 0, 0
        """The number of the pass, from 0, and the number of its rows that have been learned."""
        self.behind: tuple[Any, int] = (None, 0)
        """A position to read on from, the beginning of a chunk, and the number of the row there."""
        self.judged = np.zeros((2, 3))
        """The weight, losses and mistakes of evaluated rows: since the last line of the table, and of all."""
        self.row_order: RowOrder | None = None
        """The dependence of labels and features on the number of a row."""
        self.order = ""
        """The order in which rows are read."""
        self.identity: Any = None
        """The identity of the source at the beginning."""
        self.table, self.notes, self.warnings = list[Line](), list[str](), list[str]()
        self.features = AllFeatures()
        """All features of the source, where groups need them."""
        self.rows, self.seconds, self.began = 0, 0.0, time.monotonic()
        self.kept = time.monotonic(), 0
        """The time of the last checkpoint, and the rows learned by then."""

    # ---- beginning -------------------------------------------------------------------------------------------------

    def recall(self) -> None:
        """Resume from the last checkpoint; start at the beginning if there is none."""
        if self.checkpoints is None:
            raise ValueError("resume=True needs checkpoints= to resume from.")
        if not self.stream.repeatable:
            raise ValueError("standard input and iterators cannot be resumed: a change in them cannot be detected.")
        content = self.checkpoints.recall(self.asked, self._identity())
        if content is not None:
            self._restore(content)

    def _restore(self, content: dict[str, Any]) -> None:
        """Continue with the content of a checkpoint."""
        assert self.checkpoints is not None
        with archive.refusing(self.checkpoints.path, "is not a checkpoint of this training"):
            at = Saved.of(content)
            self.model, self.classes, self.epoch, self.row, self.rows, self.behind = at[1:7]
            self.judged, self.row_order, self.seconds, table, self.notes = at[7:]
            self.table = [Line(*line) for line in table]
            self.stream.recall(at.names)
        self.kept = time.monotonic(), self._learned()

    def _identity(self) -> Any:
        """Return the identity of the data that the rows depend on; None if the stream has none."""
        with contextlib.suppress(ValueError, NotImplementedError):
            return self.stream.identity()
        return None

    def decide(self, y: np.ndarray, description: Any) -> None:
        """Choose the task and the classes from the labels of the first rows (of a table), if they were left open."""
        found = labels(y[~unlabelled(y)])
        distinct = np.unique(found) if found.dtype.kind != "O" else np.array(sorted(set(found.tolist())))
        if self.model is None:
            is_task = are_classes(distinct)
            if self.classes is None:
                check_words(distinct, len(y), description)
            self.model = self.wrap((LinearClassifier if is_task else LinearRegressor)(**self.settings))
            self.notes.append(task_in_words(distinct, len(y), is_task))
        is_new = self.model.classifies and not self.model.has_classes
        if isinstance(self.classes, str):  # "any"
            self.classes = None
        elif is_new and self.classes is None:
            if len(distinct) == 2:  # one model in place of one for each class
                self.classes = distinct.tolist()
                one, two = (printable(str(label)) for label in self.classes)
                self.notes.append(f"two classes, {one} and {two}; another would be refused")
            elif self.model.needs_classes:
                self.classes = first_classes(y)
                self.notes.append(f"{len(distinct)} classes in the first {len(y)} rows; another would be refused")

    # ---- the passes ------------------------------------------------------------------------------------------------

    def whole(self) -> Trained:
        """Run from the current position to the end, and return the result."""
        polish = self.settings.get("polish", False if self.model is None else self.model.polish)
        if (self.passes > 1 or polish) and not self.stream.repeatable:
            what = "standard input and iterators can be read once only"
            raise ValueError(f"{what}: set passes to 1 and polish to False, or give a file.")
        calibrate = self.settings.get("calibrate", False) if self.model is None else self.model.calibrate
        if self.passes > 1 and calibrate:
            raise ValueError("calibrate holds rows out in one pass only: set passes to 1.")
        if self.passes > 1 and self.half_life is not None:
            raise ValueError(ROWS_COME_ONCE)
        if self.epoch == self.row == 0:
            settings = self.settings if self.model is None else self.model.settings()
            self.features = all_features(self.stream, settings.get("feature_groups"), self._reading)
        while self.epoch < self.passes:
            for part, is_judged in self._awaited(self._parts()):
                self._learn(part, is_judged)
                self._pause()
            self.rows = max(self.rows, self.row)
            if not self.rows:
                raise ValueError("the source has no rows: there is nothing to learn from.")
            if not self.model.t_:
                raise ValueError("every row of the source has the weight 0: there is nothing to learn from.")
            self.crossing.end_pass(self.model)
            self.epoch, self.row, self.behind = self.epoch + 1, 0, (None, 0)
        self._warn_of_order()
        self.model.n_iter_ = self.passes
        with self._stopped_at_steps():
            if self.model.polish:
                self.checkpoint()  # a run that is interrupted while polishing resumes here
                self.model.polish_on_chunks(self._again)
            self._line()
            self.live.close()
            self.model.convert()
        self.crossing.remark(self.model, self.notes, self.warnings)
        describe(self.model, self.stream)
        return Trained(self.model, self.stream, self.table, self.rows, self._elapsed(), self.notes, self.warnings)

    def _warn_of_order(self) -> None:
        """Warn if rows are not in random order, since the first rows and progressive figures may then mislead."""
        found = self.row_order.sentence() if self.row_order is not None and self.rows > PILOT_ROWS else ""
        if not found or self.half_life is not None:
            return
        advice = order_advice(self.order, self.stream.repeatable, self.shuffle)
        self.warnings.append(
            f"{found}: the first rows, which decide the settings, differ from the others, and progressive "
            f"validation is unreliable; {advice}."
        )
        warn(self.warnings[-1])

    def _awaited(self, parts: Iterator[tuple[LabelledRows, bool]]) -> Iterator[tuple[LabelledRows, bool]]:
        """Yield the parts, but none after a request to end: standard input may have been cut in mid-line then."""
        try:
            for part in parts:
                self._end_if_asked()
                yield part
        except StreamError:
            self._end_if_asked()
            raise

    def _parts(self) -> Iterator[tuple[LabelledRows, bool]]:
        """Yield the rest of a pass in parts, each with whether it is evaluated before it is learned.

        The rows at a mark are evaluated all together, wherever the reader cuts.
        """
        held: list[LabelledRows] = []
        position, first = self.behind
        for chunk in self._chunks(position):
            rows, here, position = LabelledRows.of(chunk), (position, first), chunk.position
            at = max(self.row - first, 0)
            if not held:
                self.behind = here
            while at < chunk.rows:
                row, mark = first + at, next_mark(self.row) if self.epoch == 0 else 1 << 62
                n = min(chunk.rows - at, (mark if row < mark else mark + JUDGED) - row, _PIECE)
                part, at = rows.cut(at, at + n), at + n
                if row < mark:
                    yield part, False
                    continue
                held.append(part)
                if row + n == mark + JUDGED:
                    yield LabelledRows.joined(held), True
                    held, self.behind = [], here
            first += chunk.rows
            self.names_in_use.forget(self.model, self.stream, first, self.row, self.order)
            self.live.show(chunk.read, self.stream.total, self._learned(), self.epoch, self.passes)
        if held:
            yield LabelledRows.joined(held), True

    def _chunks(self, position: Any) -> Iterator[Chunk]:
        """Yield the chunks of a pass; the choices that the first rows decide are made before the first chunk."""
        chunks = self._pass(position, self.epoch)
        if position is None and self.epoch == 0:
            first, rows = [], 0
            while rows < PILOT_ROWS and (chunk := next(chunks, None)) is not None:
                first.append(chunk)
                rows += chunk.rows
            self._end_if_asked()
            if rows:
                self.decide(np.concatenate([chunk.y for chunk in first])[:PILOT_ROWS], self.stream.description)
                self.notes += self.crossing.settle(self.model, self.stream, first, PILOT_ROWS) if self.row == 0 else []
            yield from first
        yield from chunks
        if self.epoch == 0:
            self.notes += self.stream.remarks()

    def _pass(self, position: Any, number: int) -> Iterator[Chunk]:
        """Yield the chunks of a pass from a position on, in the order of pass ``number``.

        The source must not have changed.
        """
        self._check_source()
        if self.shuffle and self.stream.repeatable and self.half_life is None:
            shuffled = Shuffled(self.stream, self.seed, self._reading)
            for chunk in shuffled.chunks(position, number):
                self.order = shuffled.order
                yield chunk
        else:
            yield from self.stream.chunks(position)
        if self.epoch > 0:
            self._check_source()

    def _check_source(self) -> None:
        """Raise an error if the source has changed since the first pass began."""
        now = self._identity()
        self.identity = now if self.identity is None else self.identity
        if now != self.identity:
            raise changed(files_of(self.identity), files_of(now))

    def _reading(self, chunk: Chunk) -> None:
        """Show progress while rows are read in advance, and end the run if ``stop`` returns True."""
        self._end_if_asked()
        self.live.show(chunk.read, self.stream.total, chunk.first + chunk.rows, self.epoch, self.passes)

    def _again(self) -> Iterator[tuple[Matrix, np.ndarray, np.ndarray | None]]:
        """Yield all rows once more, in the order of the first pass, with labels as the model encodes them."""
        for chunk in self._pass(None, 0):
            self._end_if_asked()
            y = labels(chunk.y) if self.model.classifies else chunk.y
            yield chunk.matrix, targets_of(y, chunk.offsets), chunk.weights

    def _learn(self, part: LabelledRows, is_judged: bool) -> None:
        matrix, y, weights = part.matrix, part.y, part.weights
        if self.epoch == 0:
            check_labels(part, self.row, self.classes, self.stream)
        y = labels(y) if self.model.classifies else as_numbers(y)
        if self.epoch == 0:
            self._watch_order(y)
        y = targets_of(y, part.offsets)
        if is_judged:
            self._judge(matrix, y, weights)
        classes = self.classes if self.row == 0 and self.epoch == 0 else None
        more = {"columns": self.stream.hashed_to, "names": self.features.names, "times": part.times}
        more |= self.crossing.options(self.stream, self.model)
        rows = self.features.widened(matrix)
        self.model.take_rows(rows, y, weights, classes=classes, is_repeat_pass=self.epoch > 0, **more)
        self.row += part.rows

    def _watch_order(self, y: np.ndarray) -> None:
        self.row_order = RowOrder(self.model.classifies) if self.row_order is None else self.row_order
        self.row_order.add_labels(self.row, y)

    def _judge(self, matrix: Matrix, y: np.ndarray, weights: np.ndarray | None) -> None:
        assert self.row_order is not None
        self.row_order.add_features(self.row, matrix)
        is_ready = self.model.__sklearn_is_fitted__() and not self.row_order.is_sorted
        found = self.model.judge(matrix, y, weights) if is_ready else None
        if found is not None:
            self.judged += [float(len(y) if weights is None else weights.sum()), *found]
        if self.row >= 1024 and self.row & (self.row - 1) == 0:
            self._line()

    def _line(self) -> None:
        """Append a line to the table, at powers of two and at the end."""
        if self.judged[0, 0] <= 0.0:
            return
        nonzeros = len(self.model.fit_state.selected())
        self.table.append(Line.of(self.row or self.rows, self.judged, nonzeros, self.model.classifies))
        self.judged[0] = 0.0
        self.live.line(self.table[-1], *heads(self.model))

    # ---- being cut off ---------------------------------------------------------------------------------------------

    def _pause(self) -> None:
        """Write a checkpoint if one is due, and end the run if ``stop`` returns True; called between two parts."""
        self._end_if_asked()
        if self.checkpoints is not None:
            when, learned = self.kept
            if self.checkpoints.is_due(time.monotonic() - when, self._learned() - learned):
                self.checkpoint()

    def _end_if_asked(self) -> None:
        if self.stop():
            self.checkpoint()
            is_learned = self.epoch == self.passes
            last = "while polishing" if is_learned and self.model.polish else "behind the last row"
            where = last if is_learned else f"behind row {self.row} of pass {self.epoch + 1}"
            raise StoppedError(f"stopped {where}")

    @contextlib.contextmanager
    def _stopped_at_steps(self) -> Iterator[None]:
        """Show the steps of the block, and end the run at one of them if ``stop`` returns True."""
        try:
            with steps_shown("sparsco train", 0 if self.live.shown else None, self.stop):
                yield
        except AskedToStopError:
            self._end_if_asked()
            raise

    def checkpoint(self) -> None:
        """Write the state of the run as a checkpoint."""
        if self.checkpoints is None or not self.stream.repeatable:
            return
        self.checkpoints.write(self._content())
        self.kept = time.monotonic(), self._learned()

    def _content(self) -> dict[str, Any]:
        """Return the content of a checkpoint."""
        return {
            "asked": self.asked,
            "identity": self.identity or self._identity(),
            "environment": model_files.environment(),
            "names": dict(self.stream.names),
            "model": self.model,
            "classes": self.classes,
            "epoch": self.epoch,
            "row": self.row,
            "rows": self.rows,
            "behind": self.behind,
            "judged": self.judged,
            "drift": self.row_order,  # its name in files of before
            "seconds": self._elapsed(),
            "table": [tuple(line) for line in self.table],
            "notes": self.notes,
        }

    def _learned(self) -> int:
        return self.epoch * self.rows + self.row

    def _elapsed(self) -> float:
        return self.seconds + time.monotonic() - self.began
