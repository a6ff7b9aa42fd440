"""Fits of an estimator on data in partitions."""

from __future__ import annotations

import inspect
import itertools
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ..engine.run import PILOT_ROWS, Run
from ..estimators.converted import convert_runs, sizes_of
from ..estimators.life_cycle import unchanged_on_error
from ..estimators.linear import LinearModel
from ..estimators.parameters import in_units
from ..selection.linear_path import LinearPath
from ..streams.cache import CacheStream
from ..streams.files import changed
from ..training.checkpoints import Checkpoints
from ..training.labelled_rows import LabelledRows, by_name, first_classes, labels, options_of
from ..training.train import Training
from ..util.attributes import stored
from ..util.progress import Bar, steps_shown
from .executors import Here, OnDask, executor
from .messages import refuse_counted_texts, refuse_offsets
from .mixing import STEPS, Mixing, first_rows
from .partitions import Partition, files_in, is_in_memory, partitions_of
from .progress import Kept, Progress
from .strategies import fit_path, fit_stream, fit_whole


class Fitted(NamedTuple):
    """A fitted model, with its partitions, names of features, rows, seconds and notes."""

    model: Any
    partitions: list[Partition]
    names: Mapping[int, str]
    """The names of features, if they have names; for hashed features the names that were requested."""
    rows: int
    seconds: float
    notes: list[str]


@dataclass(frozen=True)
class Head:
    """The first rows of a partition and the properties of its stream."""

    part: LabelledRows | None
    counted: int
    """The number of rows that were counted."""
    reader: dict[str, Any]
    """The options with which the other partitions are read."""
    by_name: bool
    """True if columns are numbers of names."""
    hashed: bool
    """True if columns are hashes of names."""
    kind: str
    columns: list[str] | None
    """The names of the features in order, for a table whose features are all numbers."""
    label_dtype: np.dtype | None
    remarks: list[str]


def head(partition: Partition, most: int, options: Mapping[str, Any], counted: int = 0) -> Head:
    """Return the head of a partition, with at most ``most`` rows; up to ``counted`` rows are counted."""
    partition, found, told, rows = partition.read_with(options), list[LabelledRows](), None, 0
    for number, stream in partition.streams():
        for chunk in partition.chunks(number, stream):
            n = min(chunk.rows, most)
            found += [LabelledRows.of(chunk).cut(0, n)] if n else []
            most, told, rows = most - n, stream if told is None and n else told, rows + chunk.rows
            if not most and rows >= counted:
                break
        if not most and rows >= counted:
            break
    told = stream if told is None else told  # whether examples have names is known only after they are read
    part, reader = LabelledRows.joined(found) if found else None, options_of(told, partition.reader)
    described, columns = told.description, None
    if described is not None:
        if described.is_numeric:  # its names are known before the rows are read, and remain those
            described = described.refusing_holes()
            columns = [each.name for each in described.features]
        reader |= {"description": described}
    named = by_name(told)
    hashed = bool(told.names) and not named
    kind, counted = type(told).__name__, min(rows, counted)
    return Head(part, counted, reader, named, hashed, kind, columns, told.label_dtype, told.remarks())


def names(partition: Partition) -> list[str]:
    """Return the names of all features of a partition, in the order of their appearance."""
    found: dict[str, None] = {}
    for number, stream in partition.streams():
        for _ in partition.chunks(number, stream):
            pass
        found |= dict.fromkeys(stream.names[column] for column in sorted(stream.names))
    return list(found)


def hashed_names(partition: Partition, columns: set[int]) -> dict[int, str]:
    """Return the first name in each of these columns; rows are read until there is one for each."""
    found: dict[int, str] = {}
    for _, stream in partition.streams():
        rest = () if isinstance(stream, CacheStream) else stream  # a cache has all names without a read
        for _ in itertools.chain([None], rest):
            found |= {column: stream.names[column] for column in columns - found.keys() if column in stream.names}
            if len(found) == len(columns):
                return found
    return found


def fit(
    estimator: Any,
    data: Any,
    client: Any = None,
    *,
    reader: Mapping[str, Any] | None = None,
    partitions: int | None = None,
    classes: Any = None,
    passes: int | None = None,
    round_rows: int | None = None,
    progress: bool | None = None,
    checkpoints: Checkpoints | None = None,
    resume: bool = False,
) -> Any:
    """Fit an estimator to data in partitions, and return it.

    Parameters
    ----------
    estimator : an estimator of sparsco
        A :class:`sparsco.SparseClassifier` or :class:`sparsco.SparseRegressor` learns by parameter mixing and an exact
        phase two.  A stable estimator runs its paths on the workers, a :class:`sparsco.SparsePath` its strengths, a
        cross-validated estimator its folds.
    data : list of files, Dask arrays (X, y), Dask bag, Dask dataframe, delayed chunks, or (X, y) in memory
        The rows.
    client : Dask client, str or None
        A client, the address of a scheduler, or "local:4" for four processes.  None computes the same in this process,
        on the estimator's ``n_jobs`` threads.
    reader : dict, optional
        Options of :func:`sparsco.open_stream` for the data.
    partitions : int, optional
        The largest number of partitions, for mixing only.
    classes : list, optional
        All labels; None takes those of the first 1000 rows.
    passes : int, optional
        The number of times that phase one reads the rows, for mixing only.  The default is once; small partitions are
        read until each has made as many steps as there are rows, or 16,384.
    round_rows : int, optional
        The rows of a partition in the first round, for mixing only; each further round has twice as many.  The default
        is a sixteenth of the partition, 64 to 1024.
    progress : bool, optional
        True shows progress on stderr, for mixing only; None shows it at a terminal only.
    checkpoints : Checkpoints, optional
        The files for checkpoints between rounds, and when they are due (:mod:`sparsco.training.checkpoints`), for
        mixing of files or of (X, y) in memory only.
    resume : bool
        If True, the fit resumes from a checkpoint; if there is none it starts anew, with a warning.

    Returns
    -------
    estimator
        The fitted estimator.

    Raises
    ------
    ValueError
        If an argument would have no effect for this estimator, or if the data or a parameter is not valid.
    ResumeError
        If the checkpoint is of a fit with other settings or other data.
    """
    return train(
        estimator,
        data,
        client,
        reader=reader,
        partitions=partitions,
        classes=classes,
        passes=passes,
        round_rows=round_rows,
        progress=progress,
        checkpoints=checkpoints,
        resume=resume,
    ).model


def train(
    estimator: Any,
    data: Any,
    client: Any = None,
    *,
    reader: Mapping[str, Any] | None = None,
    partitions: int | None = None,
    classes: Any = None,
    passes: int | None = None,
    round_rows: int | None = None,
    settings: Mapping[str, Any] | None = None,
    progress: bool | None = None,
    checkpoints: Checkpoints | None = None,
    resume: bool = False,
    name_hashed: bool = False,
    stop: Callable[[], bool] = bool,
) -> Fitted:
    """Fit an estimator as :func:`fit` does, and return the model with the facts of the fit.

    Without an estimator the labels decide, and ``settings`` are its parameters.  ``name_hashed`` finds the names of
    hashed features that have a nonzero weight, for which some rows are read once more.  ``stop`` is called while
    workers are awaited; if it returns True, a StoppedError is raised.
    """
    _check_counts(passes=passes, round_rows=round_rows)
    began, kind = time.monotonic(), _kind_of(estimator)
    threads = None if estimator is None or kind == "path" else estimator.n_jobs
    given = dict[str, Any](passes=passes, round_rows=round_rows, partitions=partitions, progress=progress or None)
    given |= {"checkpoints": checkpoints, "resume": resume or None}
    if _is_whole(estimator, kind, data, given, reader, classes):
        with executor(client, n_jobs=threads) as pool:
            rows = fit_whole(estimator, data, pool)
        return Fitted(estimator, [], {}, rows, time.monotonic() - began, [])
    parts, notes, model = partitions_of(data, reader, partitions), list[str](), estimator
    files, kept, recalled = files_in(parts), Kept(checkpoints), None
    if kind != "stable":
        decided = Training(model, 1, False, dict(reader or {}), classes, dict(settings or {}))
        kept.identify((decided.asked, passes, round_rows), data, parts)
        recalled = kept.recall() if resume else None
    with executor(client, stop, threads) as pool:
        counted = STEPS if kind == "mixing" and round_rows is None else 0
        parts, part, options, told, sizes = _opened(parts, pool, counted)
        if kind == "stable":
            named = None if not model.classifies else first_classes(part.y) if classes is None else classes
            rows = fit_stream(model, parts, options, pool, named)
        else:
            decided.decide(part.y, told.reader.get("description"))
            decided.notes += told.remarks
            model, notes = decided.model, decided.notes
            if kind == "path":
                rows = fit_path(model, parts, options, pool, decided.classes, model.passes)
            else:
                start = recalled or (Progress.start(round_rows or first_rows(sizes), len(parts)), None)
                rows = _fit_mixed(model, decided, part, parts, options, pool, passes, progress, kept, start)
        _keep_names(_shell(model, kind), told, options)
        _keep_labels(_shell(model, kind), told, classes)
        known = options.get("names", {})
        if name_hashed and told.hashed and kind == "mixing":
            known = _names_of_hashed(model, parts, pool)
    if (now := files_in(parts)) != files:
        raise changed(files, now)
    parts = [each.read_with(options) for each in parts]
    return Fitted(model, parts, known, rows, kept.elapsed, notes)


def _is_whole(estimator: Any, kind: str, data: Any, given: Mapping[str, Any], reader: Any, classes: Any) -> bool:
    """Return whether an estimator learns (X, y) as its own fit does; raise a ValueError for arguments of no effect."""
    if kind == "folds" and not is_in_memory(data):
        raise ValueError("cross-validation assigns all rows to folds: give (X, y) in memory.")
    if kind == "folds" or (kind == "stable" and is_in_memory(data)):
        _refuse_idle(estimator, "whole", {**given, "reader": reader, "classes": classes})
        return True
    _refuse_idle(estimator, kind, given)
    if classes is not None and estimator is not None and not estimator.classifies:
        raise ValueError(f"classes= cannot be used with a {type(estimator).__name__}: it learns numbers.")
    return False


def _check_counts(**counts: Any) -> None:
    for name, number in counts.items():
        if number is not None and (not isinstance(number, int | np.integer) or isinstance(number, bool) or number < 1):
            raise ValueError(f"{name}={number!r}: it must be a whole number of at least 1.")


def _refuse_idle(estimator: Any, kind: str, given: Mapping[str, Any]) -> None:
    """Raise a ValueError for arguments that would have no effect."""
    idle = [] if kind == "mixing" else [name for name, value in given.items() if value is not None]
    if idle:
        why = {
            "path": "every task reads all rows, as often as its own passes= says",
            "stable": "its paths share all rows, read once",
            "whole": "it learns (X, y) as its own fit does",
        }[kind]
        named = ", ".join(f"{name}=" for name in idle)
        raise ValueError(f"{named} cannot be used with a {type(estimator).__name__}: {why}.")


def _shell(model: Any, kind: str) -> Any:
    """Return the model that has the labels and features."""
    return model.path_.shell if kind == "path" else model


def _keep_names(model: Any, told: Head, options: Mapping[str, Any]) -> None:
    """Set the names of the features as the data has them.

    Columns get names as those of a dataframe after ``fit``, other features as those of dicts after ``learn_one``.
    """
    if stored(model, "feature_names_in_") is not None:
        del model.feature_names_in_
    if "names" not in options:
        return
    every = list(options["names"].values())
    if told.columns is None and isinstance(model, LinearModel):
        model.name_features(options["names"])
    else:
        model.feature_names_in_ = np.array(every, object)


def _keep_labels(model: Any, told: Head, classes: Any) -> None:
    """Set the type of the classes to that of the labels, or of the given classes, as after ``fit``."""
    dtype = told.label_dtype if classes is None else np.asarray(classes).dtype
    if model.classifies and dtype is not None:
        model.classes_ = model.classes_.astype(str if dtype.kind == "U" else dtype)


def _names_of_hashed(model: Any, parts: list[Partition], pool: Here | OnDask) -> dict[int, str]:
    """Return the name of each hashed feature with a nonzero weight: the first name in the order of the rows."""
    columns, found = set(model.convert().used.tolist()), dict[int, str]()
    for some in (parts[:1], parts[1:]):  # most names occur soon
        if columns - found.keys():
            more = pool.map("sparsco-names", hashed_names, [(part, columns - found.keys()) for part in some])
            for each in reversed(more):
                found |= each
    return found


def _kind_of(estimator: Any) -> str:
    """Return the strategy for an estimator; None is for an estimator that the labels decide on."""
    if estimator is None or isinstance(estimator, LinearModel):
        return "mixing"
    if isinstance(estimator, LinearPath):
        return "path"
    from ..selection.cross_validation import CrossValidated
    from ..selection.stable.linear import StableLinearModel

    if isinstance(estimator, CrossValidated | StableLinearModel):
        return "folds" if isinstance(estimator, CrossValidated) else "stable"
    raise ValueError(
        f"estimator={estimator!r}: it must be a SparseClassifier or SparseRegressor, stable or cross-validated or not, "
        "or a SparsePath."
    )


def _fit_mixed(
    model: Any,
    decided: Training,
    part: LabelledRows,
    parts: list[Partition],
    options: Mapping[str, Any],
    pool: Here | OnDask,
    passes: int | None,
    progress: bool | None,
    kept: Kept,
    start: tuple[Progress, list[int] | None],
) -> int:
    """Run both phases over all partitions from ``start`` on, with seeds where it has some; return the rows."""
    _check(model, passes)
    with unchanged_on_error(model):
        runs, (begun, seeds) = _begun(model, decided, part), start
        for run, seed in zip(runs, seeds or (), strict=seeds is not None):
            run.seed = seed
        seeds = [run.seed for run in runs]
        show = _shown(progress, model.verbose)
        mixing = Mixing(
            model.shell(), runs, parts, options, pool, begun, lambda reached: kept.take(reached, seeds), show
        )
        with kept.on_error():
            mixing.phase_one(passes)
            with steps_shown(type(model).__name__, model.verbose if progress is None else 1 if progress else None):
                answers = mixing.phase_two()
        _take_answers(model, mixing, answers)
    return sum(mixing.progress.rows)


def _opened(
    parts: list[Partition], pool: Here | OnDask, counted: int
) -> tuple[list[Partition], LabelledRows, dict[str, Any], Head, list[int]]:
    """Return what is known before rows are learned.

    It is the partitions with equal readers, the first rows, the options that fix the columns of names, the head of the
    first partition that has rows, and the number of rows of each partition, up to ``counted``.
    """
    asked = [PILOT_ROWS, *[1] * (len(parts) - 1)]  # the first partition most often has all of the first rows
    items: list[tuple] = [(part, most, {}, counted) for part, most in zip(parts, asked, strict=True)]
    heads: list[Head] = pool.map("sparsco-head", head, items)
    told = [(part, each) for part, each in zip(parts, heads, strict=True) if each.part is not None]
    if not told:
        raise ValueError("the data has no rows: there is nothing to learn from.")
    where, first = told[0]
    for part, each in told:
        if (each.by_name, each.kind) != (first.by_name, first.kind):
            raise ValueError(f"{part.name} is not read like {where.name}: give files or blocks of one format.")
    parts, options = [replace(part, reader=first.reader) for part in parts], {}
    if first.by_name and first.kind == CacheStream.__name__:
        raise ValueError(
            f"{where.name} is a cache of named features, whose columns differ between caches: give the "
            "source files, or convert them with hash_bits."
        )
    refuse_counted_texts(first.reader.get("description"))
    if first.by_name:  # columns must mean the same everywhere
        if first.columns is None:
            every: list[list[str]] = pool.map("sparsco-names", names, [(part,) for part in parts])
        else:
            every = [first.columns]
        known = dict(enumerate(dict.fromkeys(name for each in every for name in each)))
        options = {"names": known, "frozen": True}
    rows = list[LabelledRows]()
    for part, begun, most in zip(parts, heads, asked, strict=True):
        left = PILOT_ROWS - sum(each.rows for each in rows)
        if left > 0:
            again = bool(options) or most < left  # otherwise the head has these rows
            more: Head = pool.map("sparsco-head", head, [(part, left, options)])[0] if again else begun
            rows += [] if more.part is None else [more.part]
    return parts, LabelledRows.joined(rows), options, first, [each.counted for each in heads]


def _check(model: Any, passes: int | None) -> None:
    """Raise a ValueError for parameters that are not supported for data in partitions."""
    if model.strengths is not None:
        raise ValueError("several strengths need a SparsePath: give one.")
    default = {name: each.default for name, each in inspect.signature(type(model).__init__).parameters.items()}
    counted = "the rows are read as often as passes= says"
    for name, fine, why in (
        (
            "storage",
            model.storage != "seen",
            "'seen' numbers features by appearance, which differs between partitions: hash",
        ),
        ("max_features", model.max_features is None, "features leave in the order of one stream"),
        ("trim", model.trim is None, "features leave in the order of one stream"),
        (
            "feature_groups",
            not isinstance(model.feature_groups, str | Mapping),
            "a partition does not have the names of all features: give a label for each column",
        ),
        ("standardize", not in_units(model), "partitions have units of their own: scale columns, and set it to False"),
        ("early_stopping", not model.early_stopping, "rows are read once, and none are held out"),
        ("polish", model.polish is False, "it needs all rows on one machine"),
        (
            "class_weight",
            not (model.classifies and model.is_balanced),
            "weights would depend on the order of the partitions; pass a dict",
        ),
        ("calibrate", not model.calibrate, "it holds rows out on one machine"),
        ("half_life", model.half_life in (None, np.inf), "partitions have no order in time"),
        ("warm_start", not model.warm_start, "a model over partitions starts from the beginning"),
        ("max_iter", model.max_iter in (default["max_iter"], passes), counted),
        ("tol", model.tol in (default["tol"], None), counted),
        ("n_iter_no_change", model.n_iter_no_change == default["n_iter_no_change"], counted),
    ):
        if not fine:
            raise ValueError(f"{name}={getattr(model, name)!r} is not for data in partitions: {why}.")


def _begun(model: Any, decided: Training, part: LabelledRows) -> list[Run]:
    """Return runs whose constants and classes are computed from the first rows."""
    classes, y = decided.classes, part.y
    refuse_offsets(part)
    if part.weights is not None and not part.weights.any():
        raise ValueError(
            f"the first {part.rows} rows have weight 0: they decide steps and classes, and need a positive weight."
        )
    if model.classifies:
        y = labels(y)
        if classes is None:
            classes = first_classes(y)
            decided.notes.append(f"{len(classes)} classes in the first {len(y)} rows; another would be refused")
    model.forget()
    model.take_rows(part.matrix, y, part.weights, classes=classes if model.classifies else None)
    return model.fit_state.begun()


def _shown(progress: bool | None, verbose: int) -> Callable[[str, int, int], None] | None:
    """Return a function that draws a bar for each round; None if no progress is shown."""
    bar = Bar("")
    if not ((bar.rewrites or verbose > 0) if progress is None else progress):
        return None

    def show(what: str, done: int, total: int) -> None:
        bar.name = f"{what:>9}"
        bar.show(done, total)
        if done == total:
            bar.close()

    return show


def _take_answers(model: Any, mixing: Mixing, answers: list[Any]) -> None:
    found, reached = convert_runs(mixing.runs, answers), mixing.progress
    found = found._replace(sizes=sizes_of(mixing.runs)) if found.sizes is None else found
    found = found.with_columns_of(mixing.runs[0])
    report = found.report | {
        "examples": reached.learned,
        "distributed": {
            "partitions": list(reached.rows),
            "rounds": list(reached.rounds),
            "phase two": mixing.second,
        },
    }
    model.fit_state.take(found._replace(report=report, t=reached.learned), model.arranged)
    model.widen(found.coef.shape[1])
    model.n_iter_ = reached.passes
    model.drop_training("a fit over partitions keeps no training state")
