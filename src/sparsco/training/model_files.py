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
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from .. import __version__
from ..data.slots import Columns, Names, SeenColumns
from ..estimators.converted import Solved
from ..estimators.fit_state import Phase
from ..estimators.held_out import is_by_row
from ..estimators.linear import LinearModel
from ..estimators.parameters import check_parameters
from ..estimators.tasks import LinearClassifier, LinearRegressor
from ..parts.part import is_record
from ..util.attributes import stored
from ..util.notices import warn
from . import archive

_TASKS = {"classification": LinearClassifier, "regression": LinearRegressor}
_FEATURES = {"columns": Columns, "seen": SeenColumns, "names": Names}
_LIMITS = {"columns": 1 << 32, "seen": 1 << 62, "names": 1 << 32}
"""The largest number of features of each kind."""
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
    try:
        check(content)  # every file that is written can be read
    except ValueError as error:
        raise ValueError(f"the model cannot be saved: {error}") from None
    if training:
        phase = model.fit_state.phase
        if not (phase is Phase.STREAM or (phase is Phase.BATCH and model.warm_start)):
            raise ValueError(
                "training=True: this model has no training state; it was finalized, loaded without one, or fitted "
                "without warm_start=True."
            )
        content["training"] = {"model": model, "environment": environment()}
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
    return as_estimator(going_on(content, path) if training else restored(content))


def read(path: str | Path) -> dict[str, Any]:
    """Return the validated fields of a model file, without making the estimator."""
    content = archive.read(path, "model")
    try:
        check(content)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError) as error:
        what = f"there is no field {error}" if isinstance(error, KeyError) else str(error).rstrip(".")
        raise archive.ArchiveError(f"{path} is not a model that sparsco wrote: {what}.") from None
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
    solved = model.convert()
    features = model.fit_state.features
    coef, columns = solved.coef, features.to_columns(solved.coef.indices)
    used, is_classifier = np.unique(columns), model.classifies
    figures = _column_figures(solved, columns)
    every: Any = names or {}
    if isinstance(features, Names):
        every = dict(enumerate(features.names))
    elif names is None and model.column_names is not None:
        every = dict(enumerate(model.column_names.tolist()))
    kind, width = next(name for name, kind in _FEATURES.items() if type(features) is kind), int(model.n_features_in_)
    if by_name or kind == "names":
        unnamed = [column for column in used.tolist() if column not in every]
        if unnamed:
            raise ValueError(f"by_name=True: column {unnamed[0]} has a weight and no name in names.")
        kind, width, columns = "names", len(used), np.searchsorted(used, columns)
        every, used = {k: every[column] for k, column in enumerate(used.tolist())}, np.arange(len(used))
    return {
        "task": _task(model),
        "features": kind,
        "n_features": width,
        "coef": {
            "data": coef.data.astype(np.float64),
            "columns": np.asarray(columns, np.int64),
            "ends": coef.indptr.astype(np.int64),
        },
        "intercept": np.asarray(solved.intercept, np.float64),
        "columns": figures,
        "names": {column: every[column] for column in used.tolist() if column in every},
        "column_names": None if kind == "names" else model.column_names,
        "classes": model.classes_ if isinstance(model, LinearClassifier) else None,
        "outputs": None if is_classifier else model.fit_state.outputs,
        "loss": model.loss_record(),
        "settings": _settings(model),
        "summary": {
            "examples": int(solved.t),
            "passes": int(model.n_iter_),
            "nonzeros": int(coef.count_nonzero()),
            "history": solved.history,
            "report": _described(solved.report),
            "sparsco": __version__,
        },
    }


def _settings(model: LinearModel) -> dict[str, Any]:
    """Return the parameters, without those that have a meaning for one fit only: random states and splits of rows."""
    left_out = {"random_state", *(["cv"] if is_by_row(model.cv) else [])}
    return {name: value for name, value in model.settings().items() if name not in left_out}


def _column_figures(solved: Solved, columns: np.ndarray) -> dict[str, np.ndarray] | None:
    """Return spread and share of nonzeros of the columns with a weight, in their order; None if they are not known."""
    if solved.columns is None:
        return None
    _, first = np.unique(columns, return_index=True)
    spread, share = solved.columns[:, solved.coef.indices[first]].toarray()
    return {"spread": spread, "share": share}


def _refuse_others(model: Any) -> None:
    """Raise a ValueError if the model cannot be saved; the message names what can be saved in its place."""
    kind = "None" if model is None else type(model).__name__
    if not isinstance(model, LinearModel):
        raise ValueError(f"{kind} cannot be saved. {_instead_of(model)}")
    own = set(model.settings()) - set(inspect.signature(_TASKS[_task(model)]).parameters)
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


def check(content: Mapping[str, Any]) -> None:
    """Raise a ValueError, or another built-in error, if the fields of a model do not fit together."""
    _must(type(content) is dict and content["task"] in _TASKS, "its task is unknown")
    _must(content["features"] in _FEATURES, "the kind of its features is unknown")
    width, outputs = content["n_features"], _check_weights(content)
    _check_names(content, width)
    _check_figures(content)
    if content["task"] == "classification":
        classes = content["classes"]
        _must(content["outputs"] is None, "it has classes and outputs")
        _must(isinstance(classes, np.ndarray) and classes.ndim == 1, "its classes are not a list")
        labels = classes.tolist()
        _must(len(labels) >= 1 and labels == sorted(set(labels)), "its classes are not distinct and sorted")
        _must(outputs == len(labels) or (outputs == 1 and len(labels) == 2), "it has weights for other classes")
    else:
        own = content["outputs"]
        _must(content["classes"] is None, "it has classes and is a regression")
        _must(own is None or type(own) is int, "its number of outputs is not a number")
        _must(outputs == (1 if own is None else own), "it has weights for other outputs")
    model = _TASKS[content["task"]](**content["settings"])
    check_parameters(model)
    for loss in (model.loss_record(), content["loss"]):
        _must(is_record(loss) and (model.classifies or not loss.classifies), "its loss is for another task")
    summary, extra = content["summary"], content["extra"]
    for name in ("examples", "passes", "nonzeros"):
        _must(type(summary[name]) is int and 0 <= summary[name] < 1 << 62, f"its number of {name} is impossible")
    _must(type(summary["history"]) is list and type(summary["sparsco"]) is str, "its summary is incomplete")
    _must("report" in summary, "its summary is incomplete")
    reader = extra.get("reader", {})
    _must(type(extra) is type(reader) is dict and "cache" not in reader, "its options for reading data are wrong")
    _must(all(type(name) is str for name in reader), "its options for reading data are wrong")
    if "training" in content:
        state = content["training"]
        _must(
            isinstance(state["model"], LinearModel) and type(state["environment"]) is dict,
            "its training state is invalid",
        )


def _check_weights(content: Mapping[str, Any]) -> int:
    """Raise an error if the weights are out of place; return the number of outputs."""
    data, columns, ends = (content["coef"][name] for name in ("data", "columns", "ends"))
    width, intercept = content["n_features"], content["intercept"]
    _must(type(width) is int and 0 <= width <= _LIMITS[content["features"]], "its number of features is impossible")
    for array, kind in ((data, np.float64), (columns, np.int64), (ends, np.int64), (intercept, np.float64)):
        _must(isinstance(array, np.ndarray) and array.dtype == kind and array.ndim == 1, "its weights are not numbers")
    outputs = len(intercept)
    _must(outputs >= 1 and len(ends) == outputs + 1, "its weights and intercepts are of different models")
    counts = np.diff(ends)
    _must(ends[0] == 0 and ends[-1] == len(data) == len(columns) and (counts >= 0).all(), "its weights do not fit")
    _must(np.isfinite(data).all() and np.isfinite(intercept).all(), "its weights are not finite")
    _must(((columns >= 0) & (columns < width)).all(), "it has weights of features that it does not have")
    places = np.lexsort((columns, np.repeat(np.arange(outputs), counts)))
    repeated = np.diff(columns[places]) == 0
    repeated &= np.diff(np.repeat(np.arange(outputs), counts)[places]) == 0
    _must(not repeated.any(), "it has two weights for one feature")
    return outputs


def _check_figures(content: Mapping[str, Any]) -> None:
    """Raise an error if the figures of columns do not fit; files of before have none."""
    figures = content.get("columns")
    if figures is None:
        return
    used = len(np.unique(content["coef"]["columns"]))
    for name in ("spread", "share"):
        array = figures[name]
        is_array = isinstance(array, np.ndarray) and array.dtype == np.float64 and array.shape == (used,)
        _must(is_array and np.isfinite(array).all() and (array >= 0.0).all(), f"the {name} of its columns does not fit")


def _check_names(content: Mapping[str, Any], width: int) -> None:
    names, column_names = content["names"], content["column_names"]
    _must(type(names) is dict, "its names are not a dict")
    _must(all(type(key) is int and 0 <= key < width for key in names), "it names features that it does not have")
    if content["features"] == "names":
        _must(len(names) == width == len(set(names.values())), "its feature names are missing or repeated")
        _must(column_names is None, "it has names of features and of columns")
    elif column_names is not None:
        _must(isinstance(column_names, np.ndarray) and column_names.shape == (width,), "its number of names is wrong")
        _must(all(type(name) is str for name in column_names.tolist()), "names of its columns are not strings")


def _must(holds: Any, otherwise: str) -> None:
    if not holds:
        raise ValueError(otherwise)


def restored(content: Mapping[str, Any]) -> Any:
    """Return a linear model that predicts as the saved one did; ``content`` is as ``read`` returns it."""
    model, coef = _TASKS[content["task"]](**content["settings"]), content["coef"]
    features, columns, width = _FEATURES[content["features"]](), coef["columns"], content["n_features"]
    if isinstance(features, Names) or features.seen:  # slots for the features that have a weight
        used = np.unique(columns)
        columns, features = np.searchsorted(used, columns), features.of(used, width, content["names"])
    else:
        features.width = width
    shape = len(coef["ends"]) - 1, features.room
    summary = content["summary"]
    solved = Solved(
        sp.csr_array((coef["data"], columns, coef["ends"]), shape=shape),
        content["intercept"],
        summary["examples"],
        summary["history"],
        summary["report"],
        columns=_restored_figures(content, columns, shape[1]),
    )
    why = "the training state was not saved, or not loaded, with this model"
    model.finish_with(solved, why, features, content["outputs"])
    model.n_features_in_, model.n_iter_ = features.width, summary["passes"]
    if content["column_names"] is not None:
        model.feature_names_in_ = content["column_names"]
    if content["task"] == "classification":
        model.classes_ = content["classes"]
    return model


def _restored_figures(content: Mapping[str, Any], slots: np.ndarray, d: int) -> sp.csr_array | None:
    """Return spread and share of nonzeros by slot, (2, d); None if the file has none."""
    figures = content.get("columns")
    if figures is None:
        return None
    _, first = np.unique(content["coef"]["columns"], return_index=True)
    wide = np.zeros((2, d))
    wide[:, slots[first]] = figures["spread"], figures["share"]
    return sp.csr_array(wide)


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
