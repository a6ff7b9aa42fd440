"""Models as files: exactly sparse, checked, readable by any later version, and nothing in them is executed.

>>> import tempfile, pathlib, numpy as np
>>> from sparsco import SparseRegressor, load, save
>>> X = np.random.default_rng(0).normal(size=(500, 20))
>>> model = SparseRegressor(alpha=0.1, random_state=0).fit(X, X[:, 3])
>>> path = pathlib.Path(tempfile.mkdtemp()) / "x3.model"
>>> _ = save(model, path)
>>> np.array_equal(load(path).predict(X), model.predict(X)), path.stat().st_size < 5000
(True, True)

The fields are in docs/models.md.  With ``training=True`` the file also holds all that learning needs to go on; that
part belongs to one version of sparsco.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from . import __version__, archive
from ._linear import LinearModel, Solved
from ._tasks import LinearClassifier, LinearRegressor
from .notices import warn
from .slots import Columns, Names, SeenColumns

_TASKS = {"classification": LinearClassifier, "regression": LinearRegressor}
_FEATURES = {"columns": Columns, "seen": SeenColumns, "names": Names}
_PLAIN = (bool, int, float, str, type(None), np.generic, np.ndarray, list, tuple, dict)


def save(
    model: LinearModel, path: str | Path, *, training: bool = False, names: Mapping[int, str] | None = None,
    by_name: bool = False, extra: dict[str, Any] | None = None,
) -> Path:  # fmt: skip
    """Write a fitted model.

    ``names`` are names of columns, of which those with a weight are kept; ``by_name`` says that the names are the
    features and the columns' numbers mean nothing.  ``extra`` is kept with it: anything made of numbers, strings,
    lists, dicts and arrays.
    """
    content = contents(model, names, by_name) | {"extra": extra or {}}
    if training:
        if getattr(model, "_runs", None) is None or not (model._streaming or model.warm_start):
            raise ValueError(
                "training=True: this model has no training state; it was finalized, loaded without one, or fitted "
                "without warm_start=True."
            )
        content["training"] = {"model": model, "environment": environment()}
    return archive.write(path, "model", content)


def load(path: str | Path, *, training: bool = False) -> Any:
    """The model in a file, ready to predict; with ``training`` ready to go on learning where it stopped."""
    from .estimators import as_estimator

    content = archive.read(path, "model")
    return as_estimator(going_on(content, path) if training else restored(content))


def read(path: str | Path) -> dict[str, Any]:
    """All that a file holds: the fields of the format, the estimator not made."""
    return archive.read(path, "model")


def going_on(content: dict[str, Any], path: str | Path) -> Any:
    """The model with its training state."""
    state = content.get("training")
    if state is None:
        raise ValueError(f"{path} holds no training state: save it with training=True (`train --save-state`) to go on.")
    for sentence in differences(state["environment"]):
        warn(f"{path} was written with {sentence}: what is learned may differ in the last bits.")
    return state["model"]


def contents(
    model: LinearModel, names: Mapping[int, str] | None = None, by_name: bool = False
) -> dict[str, Any]:
    """The fields of the format."""
    if not isinstance(model, LinearModel):
        hint = ": give its model_" if hasattr(model, "path_") else ""
        raise ValueError(f"a {type(model).__name__} cannot be saved, only a SparseClassifier or SparseRegressor{hint}.")
    solved, features = model._solved(), model._features
    coef, columns = solved.coef, features.to_columns(solved.coef.indices)
    used, is_classifier = np.unique(columns), model.classifies
    every: Any = names or {}
    if isinstance(features, Names):
        every = dict(enumerate(features.names))
    elif names is None and hasattr(model, "feature_names_in_"):
        every = dict(enumerate(model.feature_names_in_.tolist()))
    kind, width = next(name for name, kind in _FEATURES.items() if type(features) is kind), int(model.n_features_in_)
    if by_name or kind == "names":
        kind, width, columns = "names", len(used), np.searchsorted(used, columns)
        every, used = {k: every[column] for k, column in enumerate(used.tolist())}, np.arange(len(used))
    return {
        "task": "classification" if is_classifier else "regression",
        "features": kind,
        "n_features": width,
        "coef": {
            "data": coef.data.astype(np.float64), "columns": np.asarray(columns, np.int64),
            "ends": coef.indptr.astype(np.int64),
        },
        "intercept": np.asarray(solved.intercept, np.float64),
        "names": {column: every[column] for column in used.tolist() if column in every},
        "column_names": None if kind == "names" else getattr(model, "feature_names_in_", None),
        "classes": model.classes_ if is_classifier else None,
        "outputs": None if is_classifier else model._outputs,
        "loss": model._loss(),
        "settings": {name: value for name, value in model.settings().items() if name != "random_state"},
        "summary": {
            "examples": int(solved.t), "passes": int(model.n_iter_), "nonzeros": int(coef.count_nonzero()),
            "history": solved.history, "report": _described(solved.report), "sparsco": __version__,
        },
    }  # fmt: skip


def _described(value: Any) -> Any:
    """A report as numbers and words: records by their own text, which stays readable when they change."""
    if isinstance(value, dict):
        return {str(key): _described(item) for key, item in value.items()}
    if isinstance(value, list) or type(value) is tuple:
        return [_described(item) for item in value]
    return value if isinstance(value, _PLAIN) and not hasattr(value, "_fields") else str(value)


def restored(content: Mapping[str, Any]) -> Any:
    """A linear model that predicts what the saved one did."""
    try:
        _check(content)
        return _restored(content)
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise archive.ArchiveError(f"the model has not the fields it should have: {error!r}.") from None


def _check(content: Mapping[str, Any]) -> None:
    """Refuse weights that would be looked up where there are none."""
    data, columns, ends = (np.asarray(content["coef"][name]) for name in ("data", "columns", "ends"))
    width, outputs = int(content["n_features"]), len(content["intercept"])
    counts = np.diff(ends)
    good = len(data) == len(columns) == ends[-1] and ends[0] == 0 and (counts >= 0).all() and len(counts) == outputs
    inside = good and columns.dtype.kind == "i" and ((columns >= 0) & (columns < max(width, 1))).all()
    if not (inside and outputs and np.isfinite(data).all() and np.isfinite(content["intercept"]).all()):
        raise archive.ArchiveError("the model's weights do not fit together: the file was not written by sparsco.")


def _restored(content: Mapping[str, Any]) -> Any:
    model, coef = _TASKS[content["task"]](**content["settings"]), content["coef"]
    features, columns, width = _FEATURES[content["features"]](), coef["columns"], content["n_features"]
    if isinstance(features, Names) or features.seen:  # slots for what has a weight
        used = np.unique(columns)
        columns, features = np.searchsorted(used, columns), features.of(used, width, content["names"])
    else:
        features.width = width
    shape = len(coef["ends"]) - 1, features.room
    summary = content["summary"]
    model._model = Solved(
        sp.csr_array((coef["data"], columns, coef["ends"]), shape=shape), content["intercept"], summary["examples"],
        summary["history"], summary["report"],
    )  # fmt: skip
    model._features, model.n_features_in_, model.n_iter_ = features, features.width, summary["passes"]
    model._layout, model._streaming, model._noting, model._runs = "dense", False, False, None
    model._ended = "the training state was not saved, or not loaded, with this model"
    if content["column_names"] is not None:
        model.feature_names_in_ = content["column_names"]
    if content["task"] == "classification":
        model.classes_, model._open = content["classes"], False
    else:
        model._outputs = content["outputs"]
    return model


def environment() -> dict[str, str]:
    """What the last bits of a result depend on."""
    import numba
    from llvmlite import binding

    from .dispatch import source_hash

    features = binding.get_host_cpu_features()
    return {
        "sparsco": f"{__version__} ({source_hash()})", "numba": numba.__version__, "numpy": np.__version__,
        "python": platform.python_version(), "CPU": f"{binding.get_host_cpu_name()} {features.flatten()}",
    }  # fmt: skip


def differences(then: dict[str, str]) -> list[str]:
    """What of the environment was another: as a list of what it was."""
    now = environment()
    return [
        "a CPU of another kind" if name == "CPU" else f"{name} {then.get(name)}, not {now[name]}"
        for name in now
        if then.get(name) != now[name]
    ]
