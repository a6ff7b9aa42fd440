"""A file to a model: rows from a stream, judged before they are learned, and a run that can be cut off at any time.

    trained = train("data.svm")
    trained.estimator.predict(X), trained.table

Everything that is done depends on the rows' numbers, never on how a reader cuts them or when a checkpoint is taken: a
run that was cut off and resumed gives the same bits as one that was not.
"""

from __future__ import annotations

import contextlib
import hashlib
import numbers
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..data.drift import Drift
from ..data.progressive import JUDGED, next_mark
from ..data.rows import Matrix
from ..engine.run import PILOT_ROWS
from ..estimators.tasks import LinearClassifier, LinearRegressor, as_numbers
from ..streams import Chunk, Stream, StreamError, open_stream
from ..streams.files import changed, files_of
from ..streams.protocol import unlabelled
from ..streams.shuffled import HELD_BYTES, Shuffled
from ..util.notices import warn
from ..util.progress import Live, printable
from . import model_files
from .checkpoints import Checkpoints, ResumeError
from .parts import Part, are_classes, by_name, first_classes, labels

_PIECE = 1 << 15
"""Rows learned between two looks at the clock."""


class StoppedError(Exception):
    """The caller asked to end; a checkpoint was written if there is a place for one."""


class Line(NamedTuple):
    """A line of the table of progressive validation: of rows that had not been learned when they were judged."""

    rows: int
    loss: float
    """The mean loss of the rows judged since the line before."""
    mean_loss: float
    """Of all rows judged so far."""
    mistake: float
    """Since the line before: the share of wrong labels, or the root mean squared error."""
    mean_mistake: float
    nonzeros: int
    """Features that have a weight, in however many models."""


class Trained(NamedTuple):
    """A model and how it came about."""

    model: Any
    stream: Stream
    table: list[Line]
    rows: int
    """Rows of a pass."""
    seconds: float
    notes: list[str]
    """What was chosen where nothing was said."""
    warnings: Sequence[str] = ()
    """What is wrong with the data or the run."""

    @property
    def estimator(self) -> Any:
        """The model as a scikit-learn estimator."""
        from ..estimators.sklearn import as_estimator

        return as_estimator(self.model)


def train(
    source: Any, model: Any = None, *, passes: int = 1, shuffle: bool = True, reader: Mapping[str, Any] | None = None,
    classes: Any = None, settings: Mapping[str, Any] | None = None, names: Mapping[int, str] | None = None,
    checkpoints: Checkpoints | None = None, resume: bool = False, stop: Callable[[], bool] = bool,
    live: Live | None = None, named: bool | None = None,
) -> Trained:  # fmt: skip
    """Learn the rows of a file, a table or anything else that :func:`sparsco.streams.open_stream` takes.

    ``model`` is an estimator, new or with a stream under way; without one the labels of the first rows decide between
    a classifier and a regression, made with ``settings``.  ``classes`` are all there are,
    "any" where they may appear at any time, None where the first rows decide.  ``reader`` are options of
    ``open_stream``, and ``names`` those of features that a stream under way has seen; ``named`` says whether its
    features are names or numbered columns, which those of the source have to be as well.  ``shuffle``: every pass reads
    the rows in a random order of its own, where they fit into memory or are cached (docs/files.md); rows of standard
    input and of iterators keep theirs.  ``stop`` is asked now and then whether to end here.
    ``resume`` goes on from a checkpoint, or begins anew, with a warning, where there is none.
    """
    if not isinstance(passes, numbers.Integral) or passes < 1:
        raise ValueError(f"passes={passes!r}: it must be a whole number of at least 1.")
    run = Training(model, int(passes), bool(shuffle), dict(reader or {}), classes, dict(settings or {}))
    run.checkpoints, run.stop, run.live = checkpoints, stop, live or Live()
    run.stream = open_stream(source, **(run.reader | ({"names": dict(names)} if names else {})))
    if named is not None and named != by_name(run.stream):
        kinds = ("numbered columns", "names")
        raise ValueError(f"the features of the model are {kinds[named]}, those of the source {kinds[not named]}.")
    if resume:
        run.recall()
    return run.whole()


class Training:
    """One call of ``train``: what it was asked for, where it is, what it has seen."""

    checkpoints: Checkpoints | None
    wrap: Callable[[Any], Any] = staticmethod(lambda estimator: estimator)
    """What is learned of the estimator that the labels decide on."""
    stop: Callable[[], bool]
    live: Live
    stream: Stream

    def __init__(
        self, model: Any, passes: int, shuffle: bool, reader: dict[str, Any], classes: Any, settings: dict[str, Any]
    ) -> None:
        self.model, self.passes, self.shuffle, self.reader = model, passes, shuffle, reader
        self.classes, self.settings = classes, settings
        if model is not None:
            settings = model.settings() | {"type": type(model).__name__}
        under_way = [] if model is None else model.fit_state.fingerprint()
        with np.printoptions(threshold=sys.maxsize, floatmode="unique"):
            asked = repr((passes, shuffle, sorted(reader.items()), classes, sorted(settings.items()), under_way))
        self.asked = hashlib.sha256(asked.encode()).hexdigest()
        """To be compared with what a checkpoint's run was asked for."""
        self.seed = settings.get("random_state")
        self.seed = self.seed if isinstance(self.seed, int) else 0
        self.epoch, self.row = 0, 0
        """The pass, from 0, and how many of its rows have been learned."""
        self.behind: tuple[Any, int] = (None, 0)
        """A place to read on from, a chunk's beginning, and the number of the row there."""
        self.judged = np.zeros((2, 3))
        """Weight, losses and mistakes of judged rows: since the last line of the table, and of all."""
        self.drift: Drift | None = None
        """What labels and features have to do with the number of a row."""
        self.order, self.identity = "", None
        """In which order rows are read, and what the source was at the beginning."""
        self.table: list[Line] = []
        self.notes: list[str] = []
        self.warnings: list[str] = []
        self.rows, self.seconds, self.began = 0, 0.0, time.monotonic()
        self.kept = time.monotonic(), 0
        """When the last checkpoint was written, and how many rows had been learned by then."""

    # ---- beginning -------------------------------------------------------------------------------------------------

    def recall(self) -> None:
        """Be where the last checkpoint was written; at the beginning where there is none, as after a run that ended
        before its first."""
        if self.checkpoints is None:
            raise ValueError("resume=True needs checkpoints= to resume from.")
        if not self.stream.repeatable:
            raise ValueError("standard input and iterators cannot be resumed: nobody could tell whether they changed.")
        path = self.checkpoints.path
        if not self.checkpoints.exist():
            warn(f"there is no checkpoint {path} to resume from: training begins anew.")
            return
        content = self.checkpoints.read()
        if content["asked"] != self.asked:
            raise ResumeError(f"{path} belongs to a run with other settings: repeat those, or do not resume.")
        if content["identity"] != self._identity():
            raise ResumeError(f"the data changed since {path} was written: train anew, without resuming.")
        for sentence in model_files.differences(content["environment"]):
            warn(f"{path} was written with {sentence}: the model may differ in the last bits.")
        self.stream.recall(content["names"])
        self.model, self.classes, self.notes = content["model"], content["classes"], content["notes"]
        self.epoch, self.row, self.behind, self.rows = (content[name] for name in ("epoch", "row", "behind", "rows"))
        self.judged, self.seconds, self.drift = content["judged"], content["seconds"], content["drift"]
        self.table = [Line(*line) for line in content["table"]]
        self.kept = time.monotonic(), self._learned()

    def _identity(self) -> Any:
        """What the rows depend on; None where nobody can tell."""
        with contextlib.suppress(ValueError, NotImplementedError):
            return self.stream.identity()
        return None

    def decide(self, y: np.ndarray) -> None:
        """What labels like those of the first rows are for, where nothing was said."""
        found = labels(y[~unlabelled(y)])
        distinct = np.unique(found) if found.dtype.kind != "O" else np.array(sorted(set(found.tolist())))
        if self.model is None:
            is_task = are_classes(distinct)
            self.model = self.wrap((LinearClassifier if is_task else LinearRegressor)(**self.settings))
            plural = "s" if len(distinct) > 1 else ""
            what = f"classification: {len(distinct)} label{plural}" if is_task else "regression: labels are numbers"
            other = "regression takes them for numbers" if is_task else "classification takes them for classes"
            is_clear = distinct.dtype.kind != "i" or len(distinct) <= 2
            self.notes.append(f"{what} in the first {len(y)} rows" + ("" if is_clear else f"; --task {other}"))
        is_new = self.model.classifies and not hasattr(self.model, "classes_")
        if isinstance(self.classes, str):  # "any"
            self.classes = None
        elif is_new and self.classes is None:
            if len(distinct) == 2:  # one model in place of one for each
                self.classes = distinct.tolist()
                one, two = (printable(str(label)) for label in self.classes)
                self.notes.append(f"two classes, {one} and {two}; another would be refused")
            elif self.model.needs_classes:
                self.classes = first_classes(y)
                self.notes.append(f"{len(distinct)} classes in the first {len(y)} rows; another would be refused")

    # ---- the passes ------------------------------------------------------------------------------------------------

    def whole(self) -> Trained:
        """From where the run is to its end."""
        polish = self.settings.get("polish", getattr(self.model, "polish", False))
        if (self.passes > 1 or polish) and not self.stream.repeatable:
            raise ValueError(
                "standard input and iterators can be read once only: set passes to 1 and polish to False, or give a "
                "file."
            )
        while self.epoch < self.passes:
            for part, is_judged in self._awaited(self._parts()):
                self._learn(part, is_judged)
                self._pause()
            self.rows = max(self.rows, self.row)
            if not self.rows:
                raise ValueError("the source has no rows: there is nothing to learn from.")
            if not self.model.t_:
                raise ValueError("every row of the source has the weight 0: there is nothing to learn from.")
            self.epoch, self.row, self.behind = self.epoch + 1, 0, (None, 0)
        self._warn_of_order()
        self.model.n_iter_ = self.passes
        if getattr(self.model, "polish", False):
            self.checkpoint()  # to resume here
            self.model.polish_on_chunks(self._again)
        self._line()
        self.live.close()
        self.model.convert()
        return Trained(self.model, self.stream, self.table, self.rows, self._elapsed(), self.notes, self.warnings)

    def _warn_of_order(self) -> None:
        """A sentence where what the first rows decided, and the figures of judged rows, may be wrong."""
        found = self.drift.sentence() if self.drift is not None and self.rows > PILOT_ROWS else ""
        if not found:
            return
        if self.order == "shuffled in groups":
            advice = "shuffle the lines of the source (shuf) before you convert it"
        elif not self.stream.repeatable:
            advice = "shuffle the rows before they are piped in (shuf), or give a file"
        elif not self.shuffle:
            advice = "leave shuffling on (no --no-shuffle, shuffle=True)"
        else:
            advice = (
                f"the rows take more than {HELD_BYTES >> 20} MB and are learned in their order; shuffle the lines "
                "(shuf), or train on what `sparsco convert` makes of the source, which is read in a random order"
            )
        self.warnings.append(
            f"{found}: the first rows, which decide the settings, are not like the others, and figures of rows judged "
            f"before they were learned mean little; {advice}."
        )
        warn(self.warnings[-1])

    def _awaited(self, parts: Iterator[tuple[Part, bool]]) -> Iterator[tuple[Part, bool]]:
        """The same, none after a request to end: standard input may have been cut in mid-line then."""
        try:
            for part in parts:
                self._end_if_asked()
                yield part
        except StreamError:
            self._end_if_asked()
            raise

    def _parts(self) -> Iterator[tuple[Part, bool]]:
        """The rest of a pass in parts, and whether a part is judged before it is learned: the rows at a mark are, all
        together, wherever the reader cuts."""
        held: list[Part] = []
        position, first = self.behind
        for chunk in self._chunks(position):
            rows, here, position = Part.of(chunk), (position, first), chunk.position
            at = max(self.row - first, 0)
            if not held:
                self.behind = here
            while at < chunk.rows:
                row, mark = first + at, next_mark(self.row) if self.epoch == 0 else 1 << 62
                n = min(chunk.rows - at, (mark if row < mark else mark + JUDGED) - row, _PIECE)
                part = rows.cut(at, at + n)
                at += n
                if row < mark:
                    yield part, False
                    continue
                held.append(part)
                if row + n == mark + JUDGED:
                    yield Part.joined(held), True
                    held, self.behind = [], here
            first += chunk.rows
            self.live.show(chunk.read, self.stream.total, self._learned(), self.epoch, self.passes)
        if held:
            yield Part.joined(held), True

    def _chunks(self, position: Any) -> Iterator[Chunk]:
        """Those of the stream; what the first rows decide is decided before they are handed out."""
        chunks = self._pass(position, self.epoch)
        if position is None and self.epoch == 0:
            first, rows = [], 0
            while rows < PILOT_ROWS and (chunk := next(chunks, None)) is not None:
                first.append(chunk)
                rows += chunk.rows
            self._end_if_asked()
            if rows:
                self.decide(np.concatenate([chunk.y for chunk in first])[:PILOT_ROWS])
            yield from first
        yield from chunks
        if self.epoch == 0:
            self.notes += self.stream.remarks()

    def _pass(self, position: Any, number: int) -> Iterator[Chunk]:
        """The chunks of a pass from a position on, in the order of that number; the source must be what it was."""
        self._check_source()
        if self.shuffle and self.stream.repeatable:
            shuffled = Shuffled(self.stream, self.seed, self._reading)
            for chunk in shuffled.chunks(position, number):
                self.order = shuffled.order
                yield chunk
        else:
            yield from self.stream.chunks(position)
        if self.epoch > 0:
            self._check_source()

    def _check_source(self) -> None:
        """Refuse a source that has changed since the first pass began."""
        now = self._identity()
        self.identity = now if self.identity is None else self.identity
        if now != self.identity:
            raise changed(files_of(self.identity), files_of(now))

    def _reading(self, chunk: Chunk) -> None:
        """Rows are read in advance: show how many, end where that was asked for."""
        self._end_if_asked()
        self.live.show(chunk.read, self.stream.total, chunk.first + chunk.rows, self.epoch, self.passes)

    def _again(self) -> Iterator[tuple[Matrix, np.ndarray, np.ndarray | None]]:
        """All rows once more, in the order of the first pass, with labels that the model knows."""
        for chunk in self._pass(None, 0):
            self._end_if_asked()
            yield chunk.matrix, labels(chunk.y) if self.model.classifies else chunk.y, chunk.weights

    def _learn(self, part: Part, is_judged: bool) -> None:
        matrix, y, weights, _ = part
        if self.epoch == 0:
            self._check(part)
        y = labels(y) if self.model.classifies else as_numbers(y)
        if self.epoch == 0:
            self.drift = Drift(self.model.classifies) if self.drift is None else self.drift
            self.drift.add_labels(self.row, y)
        if is_judged:
            self._judge(matrix, y, weights)
        classes = self.classes if self.row == 0 and self.epoch == 0 else None
        columns = self.stream.hashed_to
        self.model.take_rows(matrix, y, weights, classes=classes, is_repeat_pass=self.epoch > 0, columns=columns)
        self.row += part.rows

    def _check(self, part: Part) -> None:
        """Refuse rows without a label, and labels that are none of the classes."""
        y = part.y
        numbers = self.row + np.arange(part.rows) if part.numbers is None else part.numbers
        missing = unlabelled(y)
        if missing.any():
            hint = self.stream.labels_are or "every row must have one"
            raise ValueError(f"row {numbers[missing].min() + 1} has no label: {hint}.")
        if self.classes is not None:
            unknown = ~np.isin(y, self.classes) if y.dtype.kind == "O" else np.ones(len(y), bool)
            for label in self.classes if y.dtype.kind != "O" else ():
                unknown &= y != label
            if unknown.any():
                at = int(unknown.argmax())
                label = labels(y[at : at + 1]).tolist()[0]
                raise ValueError(
                    f"row {numbers[at] + 1} has the label {label!r}, which is none of the classes {self.classes}: "
                    "name all classes (--classes), or 'any' (--classes any) to let them appear."
                )

    def _judge(self, matrix: Matrix, y: np.ndarray, weights: np.ndarray | None) -> None:
        assert self.drift is not None
        self.drift.add_features(self.row, matrix)
        is_ready = self.model.__sklearn_is_fitted__() and not self.drift.is_sorted
        found = self.model.judge(matrix, y, weights) if is_ready else None
        if found is not None:
            self.judged += [float(len(y) if weights is None else weights.sum()), *found]
        if self.row >= 1024 and self.row & (self.row - 1) == 0:
            self._line()

    def _line(self) -> None:
        """A line of the table: at powers of two, and at the end."""
        if self.judged[0, 0] <= 0.0:
            return
        (recent, *sums), (total, *all_sums) = self.judged.tolist()
        root = (lambda x: x) if self.model.classifies else np.sqrt
        loss, mistake = (x / recent for x in sums)
        mean_loss, mean_mistake = (x / total for x in all_sums)
        nonzeros = len(self.model.fit_state.selected())
        rows = self.row or self.rows
        line = Line(rows, loss, mean_loss, float(root(mistake)), float(root(mean_mistake)), nonzeros)
        self.table.append(line)
        self.judged[0] = 0.0
        self.live.line(line)

    # ---- being cut off ---------------------------------------------------------------------------------------------

    def _pause(self) -> None:
        """Between two parts: write a checkpoint where one is due, end where that was asked for."""
        self._end_if_asked()
        if self.checkpoints is not None:
            when, learned = self.kept
            rows, seconds = self.checkpoints[1:]
            late = seconds is not None and time.monotonic() - when >= seconds
            if late or (rows is not None and self._learned() - learned >= rows):
                self.checkpoint()

    def _end_if_asked(self) -> None:
        if self.stop():
            self.checkpoint()
            is_learned = self.epoch == self.passes
            where = "while polishing" if is_learned else f"behind row {self.row} of pass {self.epoch + 1}"
            raise StoppedError(f"stopped {where}")

    def checkpoint(self) -> None:
        """Write where the run is."""
        if self.checkpoints is None or not self.stream.repeatable:
            return
        self.checkpoints.write({
            "asked": self.asked, "identity": self.identity or self._identity(),
            "environment": model_files.environment(), "names": dict(self.stream.names),
            "model": self.model, "classes": self.classes, "epoch": self.epoch,
            "row": self.row, "rows": self.rows, "behind": self.behind, "judged": self.judged,
            "drift": self.drift, "seconds": self._elapsed(), "table": [tuple(line) for line in self.table],
            "notes": self.notes,
        })  # fmt: skip
        self.kept = time.monotonic(), self._learned()

    def _learned(self) -> int:
        return self.epoch * self.rows + self.row

    def _elapsed(self) -> float:
        return self.seconds + time.monotonic() - self.began
