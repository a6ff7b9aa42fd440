"""A fitted model, or a model file, as the record that exports are written from; nothing else reads the model."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
from sklearn.pipeline import Pipeline

from .. import losses
from ..estimators.linear import LinearModel
from ..estimators.sparse_text import SparseText
from ..parts.contracts import Loss
from ..selection.cross_validation import CrossValidated
from ..selection.linear_path import LinearPath
from ..selection.stable.linear import StableLinearModel
from ..streams.description import BOOLEAN, CATEGORY, DATE, INDICATOR, POOL, REFUSE, Column, Description
from ..streams.description import TEXT as TEXT_KIND
from ..streams.encoding import WEEKDAYS
from ..streams.features import FINGERPRINT
from ..text.fingerprints import LOW, fingerprints
from ..text.spec import TFIDF, TextSpec, spec_of
from ..training import model_fields, model_files
from ..util.attributes import stored
from .scorer import (
    COLUMNS,
    EXP,
    IDENTITY,
    LOGISTIC,
    NAMES,
    NONE,
    ONE,
    SHARES,
    SOFTMAX,
    TABLE,
    TEXT,
    Category,
    Date,
    ExportError,
    Hash,
    Numbers,
    Scorer,
    Term,
    Text,
)

TermOf = Callable[[str], Term | None]


def scorer_of(model: Any, needs_rows: bool = True) -> Scorer:
    """Return the record of a fitted model, or of the model in a file.

    Raise an ExportError if rows of the model cannot be scored elsewhere, unless ``needs_rows`` is False.
    """
    scorer = _record_of(model)
    if scorer.refusal and needs_rows:
        raise ExportError(scorer.refusal)
    return scorer


def _record_of(model: Any) -> Scorer:
    if isinstance(model, str | os.PathLike):
        return _of_content(model_files.read(os.fspath(model)))
    if isinstance(model, LinearPath):
        model = model.model_
    elif isinstance(model, CrossValidated | GridSearchCV | RandomizedSearchCV):
        model = stored(model, "best_estimator_")
    if isinstance(model, StableLinearModel):
        return _of_stable(model)
    if isinstance(model, Pipeline):
        return _of_pipeline(model)
    if not isinstance(model, LinearModel):
        what = "None" if model is None else f"a {type(model).__name__}"
        raise ExportError(f"model is {what}: give a fitted estimator of sparsco, or the name of a model file.")
    return _of_content(model_files.contents(model) | {"extra": {}})


def _of_pipeline(pipeline: Pipeline) -> Scorer:
    """Return the record of a SparseText with an estimator behind it."""
    steps = [step for _, step in pipeline.steps]
    if len(steps) != 2 or not isinstance(steps[0], SparseText) or not isinstance(steps[1], LinearModel):
        raise ExportError(
            "this Pipeline is not a SparseText with an estimator of sparsco: export its last step, pipeline[-1], for "
            "rows that the others have transformed, or convert it by skl2onnx (docs/export.md)."
        )
    scorer, (spec, seen) = scorer_of(steps[1]), steps[0].vocabulary()
    counts = None
    if spec.weighting == TFIDF:
        n = len(seen.slots) if seen.hashed is None else len(seen.documents)
        keys = seen.slots.to_columns(np.arange(n)) if seen.hashed is None else np.zeros(0, np.int64)
        counts = {"texts": seen.texts, "keys": keys, "documents": seen.documents[:n]}
    if seen.hashed is not None:
        hashed = Hash(seen.hashed.bits, seen.hashed.seed, True, {c: k for k, c in enumerate(scorer.columns)})
        scorer = scorer._replace(hash=hashed)
    else:
        scorer = scorer._replace(names=tuple(seen.names[column] for column in scorer.columns), columns=())
    return scorer._replace(kind=TEXT, parts=(_text("", spec, scorer, counts, steps[0].seed),))


def _of_content(content: Mapping[str, Any]) -> Scorer:
    coef, reader = content["coef"], content["extra"].get("reader", {})
    places = coef["data"] != 0.0
    output = np.repeat(np.arange(len(content["intercept"])), np.diff(coef["ends"]))[places]
    columns, index = np.unique(coef["columns"][places], return_inverse=True)
    weights = np.zeros((len(columns), len(content["intercept"])))
    weights[index, output] = coef["data"][places]
    model, calibration = model_files.restored(content), content.get("calibration") or {}
    classes = content["classes"]
    return _with_input(
        Scorer(
            COLUMNS,
            (),
            tuple(columns.tolist()),
            0,
            False,
            weights,
            content["intercept"],
            _link(model.loss_record(), classes, len(content["intercept"]), calibration.get("platt") is not None),
            None if classes is None else tuple(classes.tolist()),
            content["outputs"] is not None,
            calibration.get("platt"),
            calibration.get("class_weights"),
        ),
        content,
        reader,
    )


def _of_stable(model: StableLinearModel) -> Scorer:
    refusal = ""
    if model.preparation_ == "rows":
        refusal = (
            "this model was fitted with prepare='rows', which divides by the norm of all columns of a row, selected or "
            "not: fit with prepare='columns' to export it, or write its weights as csv."
        )
    coef, intercepts = np.atleast_2d(model.coef_), model.intercept_
    columns = np.flatnonzero(coef.any(axis=0))
    names = stored(model, "feature_names_in_")
    classes = model.classes_ if model.classifies else None
    return Scorer(
        COLUMNS,
        tuple(f"x{column}" if names is None else str(names[column]) for column in columns.tolist()),
        tuple(columns.tolist()),
        0,
        names is not None,
        np.ascontiguousarray(coef[:, columns].T),
        intercepts,
        _link(model.loss_record(), classes, len(intercepts), False),
        None if classes is None else tuple(classes.tolist()),
        not model.classifies and np.ndim(model.coef_) == 2,
        refusal=refusal,
    )


def _link(loss: Any, classes: np.ndarray | None, outputs: int, is_calibrated: bool) -> str:
    """Return the link of a loss; raise an ExportError for one that is not ours and has a link of its own."""
    kind = type(loss)
    if classes is None:
        if kind.predicted is Loss.predicted:
            return IDENTITY
        if kind.__module__.partition(".")[0] == __name__.partition(".")[0]:
            return EXP  # our losses with a link have that of the logarithm
        raise ExportError(f"loss {kind.__name__} predicts by a function of its own, which exports cannot write.")
    if len(classes) == 1:
        return ONE
    is_ours = kind in (losses.Logistic, losses.Multinomial)
    if not (is_ours or is_calibrated or loss.probabilities is None):
        raise ExportError(f"loss {kind.__name__} has probabilities of its own, which exports cannot write.")
    if loss.probabilities is None and not is_calibrated:
        return NONE
    if outputs == 1:
        return LOGISTIC
    return SOFTMAX if loss.couples else SHARES


def _with_input(scorer: Scorer, content: Mapping[str, Any], reader: Mapping[str, Any]) -> Scorer:
    """Return the record with what rows are made of."""
    names, columns = content["names"], scorer.columns
    described = model_fields.description_of(content)
    if reader.get("quadratic") or content["features"] == "crossed":
        refusal = "this model has products of features, which exports do not make: only csv can hold its weights."
        called = tuple(str(names.get(column, f"x{column}")) for column in columns)
        return scorer._replace(names=called, refusal=refusal)
    is_named = content["features"] == "names"
    other = next((name for name in names.values() if not isinstance(name, str)), None)
    if other is not None:
        raise ExportError(f"the feature {other!r} is a {type(other).__name__}: names of features must be texts.")
    first = 1 if reader.get("zero_based") is False else 0  # as the file counts
    scorer = scorer._replace(
        names=tuple(str(names.get(column, f"x{column + first}")) for column in columns),
        has_names=all(column in names for column in columns),
        columns=() if is_named else columns,
    )
    bits = reader.get("hash_bits") if described is None else described.hash_bits
    place: TermOf = {name: (k, 1) for k, name in enumerate(scorer.names)}.get
    if bits is not None:
        options = described._asdict() if described is not None else reader
        hashed = Hash(bits, options.get("seed", 0), options.get("signed", True), {c: k for k, c in enumerate(columns)})
        scorer, place = scorer._replace(hash=hashed), lambda name: _hashed(name, hashed)
    counts = content.get("counts") or {}
    if described is not None:
        return _of_table(scorer, described, place, is_named, counts)
    if "text_options" in reader:
        return scorer._replace(kind=TEXT, parts=(_text("", spec_of(reader["text_options"]), scorer, None),))
    if is_named or bits is not None:
        return scorer._replace(kind=NAMES)
    return scorer._replace(columns=tuple(column + first for column in columns), first=first)


def _hashed(name: str, hashed: Hash) -> Term | None:
    """Return the term of a name by its hash; None if its column has no weight."""
    low = int(fingerprints([name], hashed.seed)[0] & LOW)
    is_positive = low < 1 << 31
    feature = hashed.features.get((low if is_positive else (1 << 32) - low) & ((1 << hashed.bits) - 1))
    return None if feature is None else (feature, 1 if is_positive or not hashed.signed else -1)


def _of_table(
    scorer: Scorer, described: Description, place: TermOf, is_named: bool, counts: Mapping[str, Any]
) -> Scorer:
    needed = described.only(scorer.names if is_named else None, labelled=False)
    only = described.features
    if len(only) == 1 and only[0].text is not None and not only[0].text.prefix:  # lines or files of text, no table
        text = _text(only[0].name, only[0].text, scorer, counts.get(only[0].name))
        return scorer._replace(kind=TEXT, parts=(text,))
    parts = [_part(column, needed, scorer, place, counts) for column in needed.columns]
    scorer = scorer._replace(kind=TABLE, parts=tuple(part for part in parts if _counts(part, scorer)))
    return scorer if described.offset is None else _with_offset(scorer, described.offset, described)


def _with_offset(scorer: Scorer, name: str, described: Description) -> Scorer:
    """Return the record with the offset of rows: a feature of weight 1, which is never missing."""
    logs = described.logs_offset
    part = Numbers(name, False, None, (len(scorer.names), 1), None, described.no_number, logs)
    weights = np.concatenate([scorer.weights, np.ones((1, len(scorer.intercepts)))])
    called = f"offset log({name})" if logs else f"offset {name}"
    return scorer._replace(names=(*scorer.names, called), weights=weights, parts=(*scorer.parts, part))


def _counts(part: Any, scorer: Scorer) -> bool:
    """Return whether a column can change a score, or be refused."""
    hashed = scorer.hash is not None
    if isinstance(part, Text):
        return hashed or bool(part.terms)
    if isinstance(part, Category):
        return part.hashed or bool(part.terms) or part.pool is not None or part.hole is not None
    terms = [part.value, part.hole] + (list(part.months + part.weekdays) if isinstance(part, Date) else [])
    return part.fill is None or any(term is not None for term in terms)


def _part(column: Column, table: Description, scorer: Scorer, place: TermOf, counts: Mapping[str, Any]) -> Any:
    name = column.name
    hole = place(name + "?") if column.missing == INDICATOR else None
    fill = None if column.missing == REFUSE else float(column.stands_for_missing)
    if column.kind == TEXT_KIND:
        assert column.text is not None
        return _text(name, column.text, scorer, counts.get(name))
    if column.kind == CATEGORY:
        return _category(column, table, scorer, place)
    if column.kind == DATE:
        months = tuple(place(f"{name}:month={k}") for k in range(1, 13))
        weekdays = tuple(place(f"{name}:weekday={day}") for day in WEEKDAYS)
        return Date(name, fill, column.origin, place(name), months, weekdays, hole, table.no_number)
    return Numbers(name, column.kind == BOOLEAN, fill, place(name), hole, table.no_number)


def _category(column: Column, table: Description, scorer: Scorer, place: TermOf) -> Category:
    """Return a column of categories.

    A category of the pool is never a feature of its own.  One that the training had not seen belongs to the pool if
    there is one.
    """
    prefix, is_hashed = f"{column.name}=", scorer.hash is not None
    rare, pool = set(column.rare), place(prefix + POOL) if column.rare else None
    texts = [] if is_hashed else [name.removeprefix(prefix) for name in scorer.names if name.startswith(prefix)]
    known = set() if column.seen is None else set(column.seen) - rare
    others = bool(column.rare) and column.seen is not None
    terms = {text: place(prefix + text) for text in texts if text not in rare and (not others or text in known)}
    kept = {text: term for text, term in terms.items() if term is not None}
    pooled = tuple(sorted(known if others else rare)) if pool is not None or is_hashed else ()
    hole = place(column.name + "?") if column.missing == INDICATOR else None
    return Category(column.name, kept, is_hashed, pool, pooled, others and bool(column.rare), hole, table.no_category)


def _text(name: str, spec: TextSpec, scorer: Scorer, counts: Mapping[str, Any] | None, seed: int = 0) -> Text:
    """Return a column of texts; ``counts`` are the frequencies of tf-idf."""
    terms, hashed = {}, scorer.hash
    if hashed is None:
        own = ((k, each) for k, each in enumerate(scorer.names) if each.startswith(spec.prefix))
        terms = {each.removeprefix(spec.prefix): (k, 1) for k, each in own}
    text = Text(name, spec._replace(ngrams=spec.lengths), terms, seed if hashed is None else hashed.seed)
    if counts is None:
        return text
    documents = np.asarray(counts["documents"])
    keys = np.arange(len(documents)) if hashed is not None else np.asarray(counts["keys"])[: len(documents)]
    known = dict(zip(keys.tolist(), documents.tolist(), strict=True))
    if not spec.norm:  # without a norm only features with a weight count
        prints = fingerprints([spec.prefix + token for token in terms], seed) & FINGERPRINT
        used = list(hashed.features) if hashed is not None else prints.tolist()
        known = {key: known.get(key, 0) for key in used}
    return text._replace(texts=int(counts["texts"]), documents={key: n for key, n in known.items() if n})
