"""Model files: exactly sparse, validated, readable by any later version; nothing in them is executed.

>>> import tempfile, pathlib, numpy as np
>>> from sparsco import SparseRegressor, load, save
>>> X = np.random.default_rng(0).normal(size=(500, 20))
>>> model = SparseRegressor(alpha=0.1, random_state=0).fit(X, X[:, 3])
>>> path = pathlib.Path(tempfile.mkdtemp()) / "x3.model"
>>> _ = save(model, path)
>>> np.array_equal(load(path).predict(X), model.predict(X)), path.stat().st_size < 5000
(True, True)

The fields are in docs/models.md.  With ``training=True`` the file also holds all that learning needs to go on; that
part can be read by one version of sparsco only.
"""

from __future__ import annotations

import inspect
import platform
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from .. import __version__
from ..conversions.choose import SizedModel
from ..data.crosses import Crossed
from ..data.slots import Names
from ..error_control.scores import StabilityPaths
from ..estimators.converted import Converted, by_names, with_promise
from ..estimators.held_out import is_by_row
from ..estimators.life_cycle import Phase
from ..estimators.linear import LinearModel
from ..estimators.tasks import LinearClassifier
from ..inference.record import Intervals
from ..parts.part import is_record
from ..text.spec import TFIDF
from ..util.attributes import stored
from ..util.notices import warn
from . import archive
from .model_checks import FEATURES, TASKS, check, crossed_in, used_columns
from .model_fields import description_of, hash_seed_of

_OF_THE_ROWS = ("task", "rows", "passes", "seconds", "features", "notes", "warnings", "table", "classes")
"""The results of a training run that hold for a smaller model, too."""
_PLAIN = (bool, int, float, str, type(None), np.generic, np.ndarray, list, tuple, dict)


def save(
    model: LinearModel,
    path: str | Path,
    *,
    training: bool = False,
    names: Mapping[int, str] | None = None,
    by_name: bool = False,
    extra: dict[str, Any] | None = None,
) -> Path:
    """Write a fitted model to a file, and return the path.

    Parameters
    ----------
    model : SparseClassifier or SparseRegressor
        The fitted model.
    path : str or Path
        The file to write; it is replaced only when the new file is whole.
    training : bool
        If True, the training state of a stream is saved too, so that learning can go on.
    names : dict of int to str, optional
        The names of columns; those of columns with a nonzero weight are kept.
    by_name : bool
        If True, the names are the features, and the numbers of the columns mean nothing.
    extra : dict, optional
        Further data to store: anything made of numbers, strings, lists, dicts and arrays.

    Returns
    -------
    Path
        The path of the file.

    Raises
    ------
    ValueError
        If the model is not fitted, is not a linear model of sparsco, or has no training state to save.

    Examples
    --------
    >>> import tempfile, pathlib, numpy as np
    >>> from sparsco import SparseRegressor, load, save
    >>> X = np.random.default_rng(0).normal(size=(500, 20))
    >>> model = SparseRegressor(alpha=0.1, random_state=0).fit(X, X[:, 3])
    >>> save(model, pathlib.Path(tempfile.mkdtemp()) / "x3.model").name
    'x3.model'
    """
    content = contents(model, names, by_name) | {"extra": extra or {}}
    if training:
        phase = model.fit_state.phase
        if not (phase is Phase.STREAM or (phase is Phase.BATCH and model.warm_start)):
            raise ValueError(
                "training=True: this model has no training state; it was finalized, loaded without one, or fitted "
                "without warm_start=True."
            )
        content["training"] = {"model": model, "environment": environment()}
    return write(path, content)


def write(path: str | Path, content: dict[str, Any]) -> Path:
    """Write the fields of a model to a file, and return its path; every file that is written can be read."""
    try:
        check(content)
    except ValueError as error:
        raise ValueError(f"the model cannot be saved: {error}") from None
    return archive.write(path, "model", content)


def load(path: str | Path, *, training: bool = False) -> Any:
    """Return the model in a file, ready to predict; with ``training`` ready to go on learning where it stopped.

    Parameters
    ----------
    path : str or Path
        A file that :func:`save` wrote.
    training : bool
        If True, the training state is loaded too; the file must hold one.

    Returns
    -------
    SparseClassifier or SparseRegressor
        The model.

    Raises
    ------
    ArchiveError
        If the file is not a model of sparsco, is damaged, or was made by a newer version.
    ValueError
        If ``training`` is True and the file holds no training state.

    Examples
    --------
    >>> import tempfile, pathlib, numpy as np
    >>> from sparsco import SparseRegressor, load, save
    >>> X = np.random.default_rng(0).normal(size=(500, 20))
    >>> model = SparseRegressor(alpha=0.1, random_state=0).fit(X, X[:, 3])
    >>> path = save(model, pathlib.Path(tempfile.mkdtemp()) / "x3.model")
    >>> bool(np.array_equal(load(path).coef_, model.coef_))
    True
    """
    from ..estimators.sklearn import as_estimator

    content = read(path)
    if training:
        return as_estimator(going_on(content, path))
    with archive.refusing(path, "cannot be loaded"):
        return as_estimator(restored(content))


def read(path: str | Path) -> dict[str, Any]:
    """Return the validated fields of a model file, without making the estimator."""
    content = archive.read(path, "model")
    with archive.refusing(path, "is not a model that sparsco wrote"):
        check(content)
    return content


def going_on(content: dict[str, Any], path: str | Path) -> Any:
    """Return the model with its training state."""
    state = content.get("training")
    if state is None:
        raise ValueError(
            f"{path} holds no training state: save it with training=True (`train --save-state`) to continue."
        )
    for sentence in differences(state["environment"]):
        warn(f"{path} was written with {sentence}: what is learned may differ in the last bits.")
    return state["model"]


def contents(model: LinearModel, names: Mapping[int, str] | None = None, by_name: bool = False) -> dict[str, Any]:
    """Return the fields of the file format for a model."""
    _refuse_others(model)
    solved = model.convert_with_columns(sizes=True)
    features, is_classifier = model.fit_state.features, model.classifies
    used = np.unique(features.to_columns(solved.used))
    described = model.fit_state.described
    every, by_name = _names_to_store(model, names, by_name)
    kind, width = next(name for name, kind in FEATURES.items() if type(features) is kind), int(model.n_features_in_)
    places, labels, crosses = used, by_names({} if kind == "names" else every), None
    if isinstance(features, Crossed):
        (places, crosses), width = features.stored(used), 1 << 62
        every = dict(zip(places.tolist(), features.called(used), strict=True))
    elif by_name or kind == "names":
        unnamed = [column for column in used.tolist() if column not in every]
        if unnamed:
            raise ValueError(f"by_name=True: column {unnamed[0]} has a weight and no name in names.")
        kind, width, places = "names", len(used), np.arange(len(used))
        every = {k: every[column] for k, column in enumerate(used.tolist())}

    def as_stored(coef: sp.csr_array) -> dict[str, np.ndarray]:
        columns = places[np.searchsorted(used, features.to_columns(coef.indices))]
        ends = coef.indptr.astype(np.int64)
        return {"data": coef.data.astype(np.float64), "columns": np.asarray(columns, np.int64), "ends": ends}

    return {
        "task": _task(model),
        "features": kind,
        "n_features": width,
        "coef": as_stored(solved.coef),
        "intercept": np.asarray(solved.intercept, np.float64),
        "sizes": _sizes(solved, as_stored),
        "columns": _column_figures(solved, features.to_columns(solved.used)),
        "stability": _stability(solved, features.to_columns(solved.used)),
        "intervals": _intervals(solved, lambda slots: places[np.searchsorted(used, features.to_columns(slots))]),
        "calibration": _calibration(model, solved),
        "names": {column: every[column] for column in places.tolist() if column in every},
        "crosses": crosses,
        "column_names": None if kind in ("names", "crossed") else model.column_names,
        "description": None if described is None else described.description,
        "counts": _counts(described),
        "classes": model.classes_ if isinstance(model, LinearClassifier) else None,
        "outputs": None if is_classifier else model.fit_state.outputs,
        "loss": model.resolved_loss(),
        "settings": _settings(model),
        "summary": {
            "examples": int(solved.t),
            "passes": int(model.n_iter_),
            "nonzeros": int(solved.coef.count_nonzero()),
            "history": solved.history,
            "report": _described((solved if solved.stability is None else with_promise(solved, labels)).report),
            "sparsco": __version__,
        },
    }


def _settings(model: LinearModel) -> dict[str, Any]:
    """Return the parameters, without those that have a meaning for one fit only: random states and splits of rows."""
    left_out = {"random_state", *(["cv"] if is_by_row(model.cv) else [])}
    return {name: value for name, value in model.settings().items() if name not in left_out}


def _sizes(
    solved: Converted, as_stored: Callable[[sp.csr_array], dict[str, np.ndarray]]
) -> dict[str, np.ndarray] | None:
    """Return the models of fewer features, one below the other; None if there are none."""
    if not solved.sizes:
        return None
    sizes, losses, errors, coefs, intercepts = zip(*solved.sizes, strict=True)
    figures = {"size": np.array(sizes, np.int64), "loss": np.array(losses), "error": np.array(errors)}
    return figures | as_stored(sp.csr_array(sp.vstack(coefs))) | {"intercept": np.concatenate(intercepts)}


def _column_figures(solved: Converted, columns: np.ndarray) -> dict[str, np.ndarray] | None:
    """Return spread and share of nonzeros of the columns with a weight, in their order; None if they are not known."""
    if solved.columns is None:
        return None
    spread, share = solved.columns[:, solved.used[np.argsort(columns)]].toarray()
    return {"spread": spread, "share": share}


def _stability(solved: Converted, columns: np.ndarray) -> dict[str, Any] | None:
    """Return the stability of the columns with a weight, in their order; None if the model makes no promise."""
    paths = solved.stability
    if paths is None:
        return None
    counts = paths.counts[:, solved.used[np.argsort(columns)]].toarray().astype(np.int64)
    figures = {"strengths": paths.strengths, "sizes": paths.sizes, "ladder": paths.ladder, "counts": counts}
    figures |= {"pairs": int(paths.pairs), "judged": int(paths.judged)}
    return figures | {"delta": float(paths.delta), "limit": float(paths.limit)}


def _intervals(solved: Converted, columns_of: Callable[[np.ndarray], np.ndarray]) -> dict[str, Any] | None:
    """Return the intervals of the weights by column; None if there are none."""
    if solved.intervals is None:
        return None
    stored = solved.intervals._asdict()
    return stored | {"features": np.asarray(columns_of(stored["features"]), np.int64)}


def _calibration(model: LinearModel, solved: Converted) -> dict[str, np.ndarray | None] | None:
    """Return the class weights and scales by which probabilities are corrected; None if there are none."""
    weights = model.mean_class_weights() if isinstance(model, LinearClassifier) and model.is_balanced else None
    if weights is None and solved.platt is None:
        return None
    return {"class_weights": weights, "platt": solved.platt}


def at_size(content: Mapping[str, Any], k: int) -> dict[str, Any]:
    """Return the fields of the model with at most k features, made from the fields of a model; no rows are needed."""
    model = restored(content).at_size(k)
    small = contents(model, None if content["features"] == "names" else content["names"])
    outcome = {name: value for name, value in content["extra"].get("training", {}).items() if name in _OF_THE_ROWS}
    if outcome:
        choice = model.report_["converted"][0]["choice"]
        outcome |= {"choice": choice, "nonzeros": small["summary"]["nonzeros"], "selected": model.n_selected_}
    extra = {"reader": content["extra"].get("reader", {})} | ({"training": outcome} if outcome else {})
    return small | {"extra": extra}


def _names_to_store(model: LinearModel, names: Mapping[int, str] | None, by_name: bool) -> tuple[Any, bool]:
    """Return the names of columns that are known, and whether they are the features."""
    every, described, features = names or {}, model.fit_state.described, model.fit_state.features
    if names is None and described is not None and described.known_names() is not None:
        every, by_name = described.names_by_column(), True
    if isinstance(features, Names):
        return dict(enumerate(features.names)), by_name
    if names is None and model.column_names is not None:
        return dict(enumerate(model.column_names.tolist())), by_name
    if names is None and not every:
        return model.fit_state.labels, model.fit_state.by_name
    return every, by_name


def _counts(described: Any) -> dict[str, Any] | None:
    """Return the frequencies of texts that predictions need: those of columns with tf-idf; None if there are none."""
    needed = {} if described is None else described.description.counted
    found = {} if described is None else described.known_counts()
    return {name: each for name, each in found.items() if needed[name].weighting == TFIDF} or None


def _refuse_others(model: Any) -> None:
    """Raise a ValueError if the model cannot be saved; the message names what can be saved in its place."""
    kind = "None" if model is None else type(model).__name__
    if not isinstance(model, LinearModel):
        raise ValueError(f"{kind} cannot be saved. {_instead_of(model)}")
    own = set(model.settings()) - set(inspect.signature(TASKS[_task(model)]).parameters)
    if own:
        raise ValueError(
            f"{kind} cannot be saved, because it has additional parameters ({', '.join(sorted(own))}). Pickle it."
        )


def _instead_of(model: Any) -> str:
    """Return what can be saved in place of a model of another kind, as a sentence."""
    from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
    from sklearn.pipeline import Pipeline

    from ..selection.cross_validation import CrossValidated
    from ..selection.linear_path import LinearPath

    if model is None:
        return "Give a fitted SparseClassifier or SparseRegressor."
    if isinstance(model, LinearPath):
        return "Save its model_."
    if isinstance(model, CrossValidated | GridSearchCV | RandomizedSearchCV):
        is_fitted = stored(model, "best_estimator_") is not None
        return "Save its best_estimator_." if is_fitted else "Fit it, and save its best_estimator_."
    if isinstance(model, Pipeline):
        return "Save its last step, pipeline[-1], and give it rows that the others transformed; or pickle it."
    return "Pickle it, or save a SparseClassifier or SparseRegressor."


def _task(model: LinearModel) -> str:
    return "classification" if model.classifies else "regression"


def _described(value: Any) -> Any:
    """Return a report as numbers and words; records are stored as text, which stays readable when they change."""
    if isinstance(value, dict):
        return {str(key): _described(item) for key, item in value.items()}
    if isinstance(value, list) or type(value) is tuple:
        return [_described(item) for item in value]
    return value if isinstance(value, _PLAIN) and not is_record(value) else str(value)


def restored(content: Mapping[str, Any]) -> Any:
    """Return a linear model that predicts as the saved one did; ``content`` is as ``read`` returns it."""
    model = TASKS[content["task"]](**content["settings"])
    used, width, kind = used_columns(content), content["n_features"], FEATURES[content["features"]]
    features, slots = crossed_in(content) if kind is Crossed else kind(), used
    if isinstance(features, Crossed):
        slots = features.slots_of(used)
    elif isinstance(features, Names) or features.seen:  # slots for the features that have a weight
        slots, features = np.arange(len(used)), features.of(used, width, content["names"])
    else:
        features.width = width

    def placed(coef: Mapping[str, Any]) -> sp.csr_array:
        columns = slots[np.searchsorted(used, coef["columns"])]
        return sp.csr_array((coef["data"], columns, coef["ends"]), shape=(len(coef["ends"]) - 1, features.room))

    summary, calibration = content["summary"], content.get("calibration") or {"class_weights": None, "platt": None}
    solved = Converted(
        placed(content["coef"]),
        content["intercept"],
        summary["examples"],
        summary["history"],
        summary["report"] | {"loss": content["loss"]},
        _restored_sizes(content, placed),
        _restored_figures(content, slots, features.room),
        _restored_stability(content, slots, features.room),
        intervals_in(content, lambda columns: slots[np.searchsorted(used, columns)]),
        platt=calibration["platt"],
    )
    why = "the training state was not saved, or not loaded, with this model"
    model.finish_with(solved, why, features, content["outputs"])
    model.n_features_in_, model.n_iter_ = features.width, summary["passes"]
    if content["column_names"] is not None:
        model.feature_names_in_ = content["column_names"]
    if content["task"] == "classification":
        model.classes_ = content["classes"]
        model.take_class_weights(calibration["class_weights"])
    description = description_of(content)
    if description is not None:
        crosses = content.get("crosses")
        names = list(crosses["names"]) if crosses is not None and crosses["by_name"] else None
        model.describe(description, names, content.get("counts"))
    if content["features"] not in ("names", "crossed"):
        model.label_columns(content["names"], hash_seed=hash_seed_of(content))
    return model


def _restored_sizes(
    content: Mapping[str, Any], placed: Callable[[Mapping[str, Any]], sp.csr_array]
) -> tuple[SizedModel, ...]:
    """Return the models of fewer features; files of before have none."""
    stored, outputs = content.get("sizes"), len(content["intercept"])
    if stored is None:
        return ()
    coef, figures = placed(stored), zip(*(stored[name].tolist() for name in ("size", "loss", "error")), strict=True)
    rows = (slice(k * outputs, (k + 1) * outputs) for k in range(len(stored["size"])))
    return tuple(
        SizedModel(*each, sp.csr_array(coef[part]), stored["intercept"][part])
        for each, part in zip(figures, rows, strict=True)
    )


def _restored_figures(content: Mapping[str, Any], slots: np.ndarray, d: int) -> sp.csr_array | None:
    """Return spread and share of nonzeros by slot, (2, d); None if the file has none."""
    figures = content.get("columns")
    if figures is None:
        return None
    both = np.concatenate([figures["spread"], figures["share"]])
    found = sp.csr_array((both, (np.repeat([0, 1], len(slots)), np.tile(slots, 2))), (2, d))
    found.eliminate_zeros()
    return found


def stability_of(content: Mapping[str, Any]) -> StabilityPaths | None:
    """Return the stability of the columns that have a weight; None if the file has none."""
    stored = content.get("stability")
    if stored is None:
        return None
    return StabilityPaths(**stored)._replace(counts=sp.csr_array(stored["counts"].astype(np.int32)))


def _restored_stability(content: Mapping[str, Any], slots: np.ndarray, d: int) -> StabilityPaths | None:
    """Return the stability by slot; None if the file has none."""
    paths = stability_of(content)
    if paths is None:
        return None
    counts = sp.coo_array(paths.counts)
    return paths._replace(counts=sp.csr_array((counts.data, (counts.row, slots[counts.col])), (len(paths.sizes), d)))


def intervals_in(
    content: Mapping[str, Any], slots_of: Callable[[np.ndarray], np.ndarray] = lambda columns: columns
) -> Intervals | None:
    """Return the intervals of a model file, with columns or their slots as features; None if the file has none."""
    stored = content.get("intervals")
    return None if stored is None else Intervals(**(stored | {"features": slots_of(stored["features"])}))


def environment() -> dict[str, str]:
    """Return the versions and the CPU that the last bits of a result depend on."""
    import numba
    from llvmlite import binding

    from ..util.sources import results_hash

    features = binding.get_host_cpu_features()
    return {
        "sparsco": f"{__version__} ({results_hash()})",
        "numba": numba.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "CPU": f"{binding.get_host_cpu_name()} {features.flatten()}",
    }


def differences(then: dict[str, str]) -> list[str]:
    """Return the differences of an earlier environment from the present one, each as a phrase."""
    now = environment()
    return [
        "a CPU of another kind" if name == "CPU" else f"{name} {then.get(name)}, not {now[name]}"
        for name in now
        if then.get(name) != now[name]
    ]
