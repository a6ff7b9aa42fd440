"""Predictions and figures of a model on the rows of a stream, in constant memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from ..data.rows import Matrix
from ..data.slots import without
from ..estimators.left_out import left_out
from ..estimators.row_offsets import at_offset
from ..streams import Chunk, Stream, open_stream
from ..streams.cache import is_cache
from ..streams.description import TEXT, Description, offset_column
from ..streams.protocol import no_label, unlabelled
from ..util.progress import printable
from .labelled_rows import IN_DESCRIPTION, by_name, converted_by, labels
from .model_fields import columns_to_read, description_of, feature_names
from .model_files import restored
from .results import is_squared

KINDS = ("label", "score", "probability")
_MOST_SCORES = 1 << 25
"""The number of rows up to which the area under the curve is computed, since all scores are stored for it."""


def opened_for(content: Mapping[str, Any], source: Any, labelled: bool = True, **options: Any) -> tuple[Any, Stream]:
    """Return the model in a file, and a stream whose features are the columns of the model.

    The stream is read with the options of the training.  A table needs only the columns with a nonzero weight, and the
    target if rows must be ``labelled``.
    """
    model, reader = restored(content), read_alike(content, options)
    names, description = feature_names(content), description_of(content)
    source = source[0] if isinstance(source, list) and len(source) == 1 else source
    if isinstance(source, str | os.PathLike) and is_cache(os.fspath(source)):
        stream: Stream = open_stream(source)
        if not _has_columns_of(content, stream) or (names and not stream.names):
            raise ValueError(
                f"{source} holds features of another kind than the model: convert it with the options of the model."
            )
        if names is None and by_name(stream):
            raise ValueError(f"{source} has names of features, and those of the model are numbered columns.")
        _check_prepared(content, names, stream, source)
        return model, stream if names is None else _Renamed(stream, names)
    if names is not None:
        reader |= {"names": names, "frozen": True}
    if description is not None:
        used = None if names is None else [names[k] for k in columns_to_read(content).tolist()]
        reader = _of_table(reader, description, used, labelled, options)
        reader |= {"counts": content["counts"]} if content.get("counts") else {}
        if source == "-":  # a first line identifies neither; of tables, only CSV can come from standard input
            is_lines = "text_options" in content["extra"].get("reader", {})
            reader.setdefault("format", "text" if is_lines else "csv")
    try:
        stream = open_stream(source, **reader)
    except ValueError as error:
        if names is not None and "has no option" in str(error):
            raise ValueError(f"the features of the model are names, and those of {source} numbered columns.") from None
        raise
    if names is None and by_name(stream):
        raise ValueError(f"{source} has names of features, and those of the model are numbered columns.")
    return model, stream


def _has_columns_of(content: Mapping[str, Any], stream: Stream) -> bool:
    """Return whether the options that a cache was made with give the columns of a model."""
    made, description, extra = stream.identity()["options"], description_of(content), content["extra"]
    if description is not None:
        return bool(made.get("hash_bits") == description.hash_bits)
    names = ("hash_bits",) if "reader" not in extra else ("hash_bits", "quadratic", "zero_based")
    own = {"quadratic": [], "zero_based": True} | extra.get("reader", {})
    own["zero_based"] = "shift" in made and own["zero_based"] is not False  # other formats have no indices
    other = {"quadratic": [], "zero_based": "shift" in made} | converted_by(made)
    if isinstance(own["quadratic"], str):
        own["quadratic"] = [own["quadratic"]]
    return all(own.get(name) == other.get(name) for name in names)


def _check_prepared(content: Mapping[str, Any], names: list[str] | None, stream: Stream, source: Any) -> None:
    """Raise a ValueError for a cache whose features have other values than those of its files would have.

    These depend on the first rows of a table, and for frequencies of words on all rows that came before.
    """
    description, cached = description_of(content), stream.description
    if description is None or cached is None:
        return
    if (description.offset, description.logs_offset) != (cached.offset, cached.logs_offset):
        raise ValueError(f"{source} and the model have different offsets: give the files that the cache was made of.")
    used = None if names is None else [names[k] for k in columns_to_read(content).tolist()]
    own = {column.name: column for column in cached.columns}
    for column in description.only(used, labelled=False).columns:
        if column.name in own and not column.reads_alike(own[column.name]):
            raise ValueError(
                f"{source}: the features of column {column.name!r} depend on the rows that the cache was made of, and "
                "are not those of the model: give the files that it was made of."
            )


def read_alike(content: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of the reader: those of the training, and others that do not change the features."""
    own, options = content["extra"].get("reader", {}), dict(options)
    description = description_of(content)
    texts = [] if description is None else [each.name for each in description.columns if each.kind == TEXT]
    if sorted(options.get("text", ())) == sorted(texts):
        options.pop("text", None)  # the model knows how these columns are read
    for name in ("hash_bits", "quadratic", "zero_based", "text", "text_options"):
        if name in options and options[name] != own.get(name):
            was = f"{name}={own[name]!r}" if name in own else f"no {name}"
            raise ValueError(f"{name}={options[name]!r}: the model was trained with {was}; leave it out.")
    return own | options


def _of_table(
    reader: Mapping[str, Any],
    description: Description,
    names: list[str] | None,
    labelled: bool,
    options: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the options for a table of which only the columns that count must be there.

    These are the columns that features with a nonzero weight come from; if names are hashed, all columns that were
    learned.  The target of labelled rows and the columns in ``options`` are added.
    """
    marks = options.get("missing_values")
    roles = {role: options[role] for role in ("target", "weight", "tag") if role in options}
    if "offset" in options:
        known = [column.name for column in description.columns]
        roles["offset"], roles["logs_offset"] = offset_column(options["offset"], known)
    needed = description.only(names, labelled).overridden(
        options.get("schema"), options.get("missing"), None if marks is None else (marks, marks), **roles
    )
    needed = needed if labelled else needed._replace(target=None)
    optional = [role for role in ("weight", "tag") if role not in options]
    rest = {name: option for name, option in reader.items() if name not in IN_DESCRIPTION}
    return rest | {"description": needed, "predicts": True, "optional": optional}


class Watched(Stream):
    """A stream that reports how much of it was read: it calls ``progress(read, total)`` for each chunk."""

    def __init__(self, stream: Stream, progress: Callable[[float, float | None], None]) -> None:
        self.stream, self.total, self.progress = stream, stream.total, progress
        self.labels_are, self.place = stream.labels_are, stream.place

    def chunks(self, start: Any = None) -> Iterator[Chunk]:
        """Yield the chunks of the stream."""
        for chunk in self.stream.chunks(start):
            yield chunk
            self.progress(chunk.read, self.total)


class _Renamed(Stream):
    """A stream of a cache whose columns have names, with its columns mapped to those of a model with named features."""

    def __init__(self, stream: Stream, names: list[str]) -> None:
        self.stream, self.total, self.d, self.place = stream, stream.total, len(names), stream.place
        place = {name: column for column, name in enumerate(names)}
        self.column = np.full(max(stream.names, default=-1) + 1, -1, np.int64)
        for column, name in stream.names.items():
            self.column[column] = place.get(name, -1)

    def chunks(self, start: Any = None) -> Iterator[Chunk]:
        for chunk in self.stream.chunks(start):
            columns = self.column[chunk.indices]
            rows = without(Matrix(chunk.indptr, columns, chunk.data, self.d), columns >= 0, self.d)
            yield chunk._replace(indptr=rows.indptr, indices=rows.indices, data=rows.data, d=self.d)


def predictions(model: Any, stream: Stream, kind: str = "label") -> Iterator[tuple[Chunk, np.ndarray]]:
    """Yield each chunk with its labels (numbers for a regression), scores or probabilities."""
    _check_kind(model, kind)
    for chunk in stream:
        p = model.margins_of(chunk.matrix, chunk.offsets)
        if kind == "probability":
            yield chunk, model.probabilities_of(p)
        elif kind == "score":
            yield chunk, p[:, 0] if p.shape[1] == 1 else p
        else:
            yield chunk, model.labels_of(p) if model.classifies else model.predictions_of(p)


def _check_kind(model: Any, kind: str) -> None:
    if kind not in KINDS:
        raise ValueError(f"{kind!r} is not a kind of prediction: choose {', '.join(KINDS)}.")
    if kind == "probability" and not (model.classifies and model.has_probabilities):
        raise ValueError(
            "this model has no probabilities: it needs a classifier with logistic or multinomial loss, or --calibrate."
        )


def lines(model: Any, stream: Stream, kind: str = "label", digits: int = 6) -> Iterator[str]:
    """Yield predictions as text: a line for each row, with columns separated by tabs and the tag of the row at the end.

    Probabilities and scores have ``digits`` significant digits.  For several classes a first line names them.  The
    numbers that a regression predicts have all digits.
    """
    _check_kind(model, kind)
    several = kind == "probability" or (kind == "score" and len(model.intercept_) > 1)
    if several:
        names = model.classes_.tolist() if model.classifies else range(len(model.intercept_))
        yield "\t".join(printable(str(name)) for name in names) + "\n"
    for chunk, found in predictions(model, stream, kind):
        rows, form = found.tolist(), "" if kind == "label" else f".{digits}g"
        texts = [
            "\t".join(format(x, form) for x in row) if isinstance(row, list) else printable(format(row, form))
            for row in rows
        ]
        if chunk.tags is not None:
            texts = [f"{text}\t{printable(tag)}" if tag else text for text, tag in zip(texts, chunk.tags, strict=True)]
        yield "".join(text + "\n" for text in texts)


def evaluate(model: Any, stream: Stream) -> dict[str, float]:
    """Return the figures of a model on the rows of a stream.

    For a classifier they are the share of wrong labels, the loss (of several classes with probabilities the log loss)
    and, for two classes, the area under the curve.  For a regression they are the root mean squared and the mean
    absolute error, the loss unless it is the squared one, and the share of variance explained.
    """
    total = _Classified(model) if model.classifies else _Measured(model)
    rows = 0
    for chunk in stream:
        missing = unlabelled(chunk.y)
        if missing.any():
            raise no_label(stream, chunk.first + int(missing.argmax()))
        weights = np.ones(chunk.rows) if chunk.weights is None else chunk.weights
        total.add(model.margins_of(chunk.matrix, chunk.offsets), chunk.y, weights, chunk.first)
        rows += chunk.rows
    if not rows:
        raise ValueError("the source has no rows: there is nothing to evaluate on.")
    return {"rows": rows, **total.figures()}


def held_out(model: Any) -> dict[str, float] | None:
    """Return the figures of a model on rows that it has not learned; None if no rows were held out.

    Old rows that fade were held out as any other, and say little about the rows to come.
    """
    found = left_out(model) if model.half_life is None else None
    if found is None or not found.weights.any():
        return None
    (p, y), weights = at_offset(found.p, found.y), found.weights
    if model.classifies:
        places, own = np.argsort(model.code_of_each())[y.astype(np.int64)], model.mean_class_weights()
        y = model.classes_[places]
        y = y.astype(object) if y.dtype.kind == "U" else y
        weights = weights if own is None else weights / np.where(own > 0.0, own, 1.0)[places]
    total = _Classified(model) if model.classifies else _Measured(model)
    total.add(p, y, weights, 0)
    return {"rows": len(p), **total.figures()}


def area(margin: np.ndarray, positive: np.ndarray, weights: np.ndarray) -> float:
    """Return the area under the curve of hits against false alarms.

    It is the chance that a positive row has the larger margin, with ties counted half.

    >>> area(np.array([0.1, 0.4, 0.35, 0.8]), np.array([False, False, True, True]), np.ones(4))
    0.75
    """
    _, rank = np.unique(margin, return_inverse=True)
    hits, alarms = (np.bincount(rank, weights * chosen) for chosen in (positive, ~positive))
    below = np.cumsum(alarms) - 0.5 * alarms
    return float(hits @ below / (hits.sum() * alarms.sum()))


class _Classified:
    """Running figures of a classifier."""

    def __init__(self, model: Any) -> None:
        self.model, self.sums = model, np.zeros(3)
        self.scores: list[Any] | None = [] if len(model.classes_) == 2 else None
        self.rows = 0

    def add(self, p: np.ndarray, y: np.ndarray, weights: np.ndarray, first: int) -> None:
        """Count rows; the first of them has the number ``first``, from 0."""
        model, y, classes = self.model, labels(y), self.model.classes_
        if (y.dtype.kind == "O") != (classes.dtype.kind in "OU"):
            words, other = ("words", "numbers") if y.dtype.kind == "O" else ("numbers", "words")
            raise ValueError(f"the labels of this source are {words}, and the classes of the model {other}.")
        codes = model.places(y)
        if (codes < 0).any():
            at = int((codes < 0).argmax())
            raise ValueError(
                f"row {first + at + 1} has the label {y[at : at + 1].tolist()[0]!r}, which is not a class "
                f"of the model, {classes.tolist()}: write labels as in training, or leave such rows out."
            )
        wrong, self.rows = model.labels_of(p) != y, self.rows + len(y)
        self.sums += [
            (weights * x).sum() for x in (np.ones(len(y)), wrong, model.judged_losses(p, y, model.probabilities_of))
        ]
        if self.rows > _MOST_SCORES:
            self.scores = None
        if self.scores is not None:
            margin = p[:, 0] if p.shape[1] == 1 else p[:, 1] - p[:, 0]
            self.scores.append((margin, codes == 1, weights))

    def figures(self) -> dict[str, float]:
        """Return the figures of the rows counted so far."""
        n, wrong, loss = self.sums.tolist()
        if not n > 0.0:
            raise ValueError("the weights of all rows are zero: there is nothing to evaluate on.")
        found = {"error": wrong / n, "loss": loss / n}
        if self.scores:
            margin, positive, weights = (np.concatenate(parts) for parts in zip(*self.scores, strict=True))
            if (weights * positive).any() and (weights * ~positive).any():
                found["auc"] = area(margin, positive, weights)
        return found


class _Measured:
    """Running figures of a regression."""

    def __init__(self, model: Any) -> None:
        self.model, self.sums = model, np.zeros(4)
        self.mean, self.spread = 0.0, 0.0

    def add(self, p: np.ndarray, y: np.ndarray, weights: np.ndarray, first: int) -> None:
        """Count rows; the first of them has the number ``first``, from 0."""
        if y.dtype.kind == "O":
            raise ValueError("the model is a regression, and the labels of this source are words.")
        gap = self.model.predictions_of(p) - y
        each = self.model.row_losses(p, y)
        n, before = float(weights.sum()), self.sums[0]
        self.sums += [(weights * x).sum() for x in (np.ones(len(y)), gap**2, np.abs(gap), each)]
        if n > 0.0:  # merge the means and the squared distances from them
            mean = float((weights * y).sum()) / n
            self.spread += float((weights * np.square(y - mean)).sum())
            self.spread += (mean - self.mean) ** 2 * before * n / (before + n)
            self.mean += (mean - self.mean) * n / (before + n)

    def figures(self) -> dict[str, float]:
        """Return the figures of the rows counted so far."""
        n, squares, absolute, loss = self.sums.tolist()
        if not n > 0.0:
            raise ValueError("the weights of all rows are zero: there is nothing to evaluate on.")
        found = {"rmse": (squares / n) ** 0.5, "mae": absolute / n}
        found |= {} if is_squared(self.model) else {"loss": loss / n}
        return found | ({"r2": 1.0 - squares / self.spread} if self.spread > 0.0 else {})
