"""Checks of the fields of a model file: a file that does not fit together is refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..data.cross_rules import Cross
from ..data.crosses import BUCKET, CHILD, Crossed
from ..data.slots import Columns, Names, SeenColumns
from ..error_control.scores import StabilityPaths
from ..estimators.fit_state import FitState
from ..estimators.linear import LinearModel
from ..estimators.parameters import check_parameters
from ..estimators.tasks import LinearClassifier, LinearRegressor
from ..inference.record import Intervals
from ..parts.part import is_record
from ..streams.description import Description
from ..streams.frequencies import check_counts
from ..util.typed import checked

TASKS = {"classification": LinearClassifier, "regression": LinearRegressor}
FEATURES = {"columns": Columns, "seen": SeenColumns, "names": Names, "crossed": Crossed}
_LIMITS = {"columns": 1 << 32, "seen": 1 << 62, "names": 1 << 32, "crossed": 1 << 62}
"""The largest number of features of each kind."""


def check(content: Mapping[str, Any]) -> None:
    """Raise a ValueError, or another built-in error, if the fields of a model do not fit together."""
    _must(type(content) is dict and content["task"] in TASKS, "its task is unknown")
    _must(content["features"] in FEATURES, "the kind of its features is unknown")
    width = content["n_features"]
    _must(type(width) is int and 0 <= width <= _LIMITS[content["features"]], "its number of features is impossible")
    outputs = _check_weights(content["coef"], content["intercept"], width)
    _check_names(content, width)
    _check_crosses(content)
    _check_sizes(content, width, outputs)
    _check_intervals(content, width, outputs)
    _check_figures(content)
    _check_stability(content)
    description = content.get("description")
    if description is not None:
        _must(isinstance(description, Description), "its description of columns is wrong")
        checked(description)
    check_counts(content.get("counts") or {}, description)
    bits = content["extra"].get("reader", {}).get("hash_bits") if description is None else description.hash_bits
    hashed = bits is not None and content["features"] == "columns"
    _must(not hashed or width == 1 << bits, "its number of features is not that of its hash")
    if content["task"] == "classification":
        classes = content["classes"]
        _must(content["outputs"] is None, "it has classes and outputs")
        _must(isinstance(classes, np.ndarray) and classes.ndim == 1, "its classes are not a list")
        labels = classes.tolist()
        _must(len(labels) >= 1 and labels == sorted(set(labels)), "its classes are not distinct and sorted")
        _must(outputs == len(labels) or (outputs == 1 and len(labels) == 2), "it has weights for other classes")
        _check_calibration(content.get("calibration"), outputs, len(labels))
    else:
        own = content["outputs"]
        _must(content.get("calibration") is None, "it has probabilities and is a regression")
        _must(content["classes"] is None, "it has classes and is a regression")
        _must(own is None or type(own) is int, "its number of outputs is not a number")
        _must(outputs == (1 if own is None else own), "it has weights for other outputs")
    model = TASKS[content["task"]](**content["settings"])
    check_parameters(model)
    for loss in (model.loss_record(), content["loss"]):
        _must(is_record(loss) and (model.classifies or not loss.classifies), "its loss is for another task")
    summary, extra = content["summary"], content["extra"]
    for name in ("examples", "passes", "nonzeros"):
        _must(type(summary[name]) is int and 0 <= summary[name] < 1 << 62, f"its number of {name} is impossible")
    _must(type(summary["history"]) is list and type(summary["sparsco"]) is str, "its summary is incomplete")
    _must(type(summary.get("report")) is dict, "its summary is incomplete")
    trimmed = summary["report"].get("trimmed", {"in_use": 0})
    _must(type(trimmed) is dict and type(trimmed.get("in_use")) is int, "its number of features in use is not a number")
    reader = extra.get("reader", {})
    _must(type(extra) is type(reader) is dict and "cache" not in reader, "its options for reading data are wrong")
    _must(all(type(name) is str for name in reader), "its options for reading data are wrong")
    if "training" in content:
        state = content["training"]
        _must(
            isinstance(state["model"], LinearModel) and type(state["environment"]) is dict,
            "its training state is invalid",
        )
        check_learner(state["model"])


def check_learner(model: Any) -> None:
    """Raise a ValueError, or another built-in error, for a model under way whose parts do not fit together."""
    check_parameters(model)
    state = model.fit_state
    _must(isinstance(state, FitState), "it has no training state")
    labels = model.classes_.tolist() if isinstance(model, LinearClassifier) and state.is_open else []
    _must(all(label in state.codes for label in labels), "a label has no code")


def _check_weights(coef: Mapping[str, Any], intercept: Any, width: int) -> int:
    """Raise an error if the weights are out of place; return the number of outputs."""
    data, columns, ends = (coef[name] for name in ("data", "columns", "ends"))
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


def _check_sizes(content: Mapping[str, Any], width: int, outputs: int) -> None:
    """Raise an error if the models of fewer features do not fit; files of before have none."""
    stored, report = content.get("sizes"), content["summary"]["report"]
    if stored is None:
        return
    size, intercept = stored["size"], stored["intercept"]
    _must(isinstance(size, np.ndarray) and size.dtype == np.int64 and size.ndim == 1, "its sizes are not numbers")
    _must(size.size and size[0] > 0 and (np.diff(size) > 0).all(), "its sizes do not grow")
    for name in ("loss", "error"):
        array = stored[name]
        _must(isinstance(array, np.ndarray) and array.dtype == np.float64, "the losses of its sizes are not numbers")
        _must(array.shape == size.shape and np.isfinite(array).all(), "the losses of its sizes do not fit")
    _must(_check_weights(stored, intercept, width) == outputs * len(size), "its sizes have weights for other outputs")
    parts = np.split(stored["columns"], stored["ends"][outputs:-1:outputs])
    _must(all(len(np.unique(part)) <= k for part, k in zip(parts, size, strict=True)), "a size has too many features")
    choice = report["converted"][0]["choice"]
    _must(type(choice) is dict and choice.get("size") in (None, 0, *size.tolist()), "its choice does not fit its sizes")
    chosen = [each for each in choice["candidates"] if each["chosen"] is True]
    is_one = len(chosen) == 1 and all(type(chosen[0][name]) is float for name in ("loss", "error"))
    _must(is_one, "its choice does not fit its sizes")


def _check_calibration(stored: Any, outputs: int, classes: int) -> None:
    """Raise an error if what probabilities need does not fit; files of before have none."""
    if stored is None:
        return
    shapes = {"class_weights": (classes,), "platt": (2, outputs)}
    _must(type(stored) is dict and stored.keys() == shapes.keys(), "its calibration is incomplete")
    for name, shape in shapes.items():
        array = stored[name]
        if array is not None:
            _must(isinstance(array, np.ndarray) and array.dtype == np.float64, "its calibration is not numbers")
            _must(array.shape == shape and np.isfinite(array).all(), "its calibration does not fit its classes")
    weights = stored["class_weights"]
    _must(weights is None or (weights > 0.0).all(), "its class weights are not positive")


def used_columns(content: Mapping[str, Any]) -> np.ndarray:
    """Return the columns that have a weight, in the model or in one of fewer features, or an interval."""
    sizes, intervals = content.get("sizes"), content.get("intervals")
    further = [] if sizes is None else [sizes["columns"]]
    further += [] if intervals is None else [intervals["features"]]
    return np.unique(np.concatenate([content["coef"]["columns"], *further]))


def _check_figures(content: Mapping[str, Any]) -> None:
    """Raise an error if the figures of columns do not fit; files of before have none."""
    figures = content.get("columns")
    if figures is None:
        return
    used = len(used_columns(content))
    for name in ("spread", "share"):
        array = figures[name]
        is_array = isinstance(array, np.ndarray) and array.dtype == np.float64 and array.shape == (used,)
        _must(is_array and np.isfinite(array).all() and (array >= 0.0).all(), f"the {name} of its columns does not fit")


def _check_stability(content: Mapping[str, Any]) -> None:
    """Raise an error if the stability of features does not fit; files of before have none."""
    stored = content.get("stability")
    if stored is None:
        return
    is_whole = type(stored) is dict and set(stored) == set(StabilityPaths._fields)
    _must(is_whole, "the stability of its features is incomplete")
    length, used = len(stored["strengths"]), len(used_columns(content))
    for name, shape in (("strengths", (length,)), ("sizes", (length,)), ("ladder", stored["ladder"].shape[:1])):
        array = stored[name]
        is_array = isinstance(array, np.ndarray) and array.dtype == np.float64 and array.shape == shape
        _must(is_array and np.isfinite(array).all() and (array >= 0.0).all(), f"the {name} of its paths do not fit")
    counts, pairs = stored["counts"], stored["pairs"]
    _must(type(pairs) is int and type(stored["judged"]) is int and pairs > 0, "the stability of its features is wrong")
    is_array = isinstance(counts, np.ndarray) and counts.dtype == np.int64 and counts.shape == (length, used)
    _must(is_array and (counts >= 0).all() and (counts <= 2 * pairs).all(), "the stability of its features is wrong")
    for name in ("delta", "limit"):
        _must(type(stored[name]) is float and 0.0 <= stored[name] <= 1.0, "the stability of its features is wrong")
    promise = content["summary"]["report"]["converted"][0]["promise"]
    _must(type(promise) is dict and type(promise["selected"]) is int, "its promise does not fit its features")


def _check_intervals(content: Mapping[str, Any], width: int, outputs: int) -> None:
    """Raise an error if the intervals do not fit; files of before have none."""
    stored = content.get("intervals")
    if stored is None:
        return
    _must(type(stored) is dict and set(stored) == set(Intervals._fields), "its intervals are incomplete")
    found = Intervals(**stored)
    _must(type(found.level) is float and 0.0 < found.level < 1.0, "the level of its intervals is impossible")
    rows = [0, found.sampled, found.rows, found.seen]
    is_count = all(type(each) is int and each < 1 << 62 for each in rows) and rows == sorted(rows)
    _must(type(found.is_split) is bool and is_count, "the rows of its intervals are impossible")
    kinds = [np.int64, np.int64, np.bool_, np.float64, np.float64, np.float64]
    for array, kind in zip(found[5:], kinds, strict=True):
        is_array = isinstance(array, np.ndarray) and array.dtype == kind and array.shape == (len(found.features),)
        _must(is_array, "its intervals are not numbers")
    for array, most in ((found.outputs, outputs), (found.features, width)):
        _must(((array >= 0) & (array < most)).all(), "it has intervals of features that it does not have")
    decided = ~np.isnan(found.errors)
    for array in (found.weights, found.errors, found.freedom):
        _must(np.isfinite(array[decided]).all() and np.isnan(array[~decided]).all(), "its intervals do not fit")
    _must((found.errors[decided] >= 0.0).all() and (found.freedom[decided] > 0.0).all(), "its intervals do not fit")


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


def _check_crosses(content: Mapping[str, Any]) -> None:
    """Raise an error if the columns that crosses are made of do not fit; only models with crosses have them."""
    stored = content.get("crosses")
    _must((stored is not None) == (content["features"] == "crossed"), "it has crosses, or none, of other features")
    if stored is None:
        return
    _must(isinstance(stored["asked"], Cross) and type(stored["by_name"]) is bool, "its crosses are wrong")
    parents, names, members = stored["parents"], stored["names"], stored["members"]
    for array, kind in ((parents, np.int64), (members, np.uint64), (stored["keys"], np.uint64)):
        is_array = isinstance(array, np.ndarray) and array.dtype == kind and array.shape == (len(names),)
        _must(is_array, "the columns of its crosses do not fit")
    _must(all(name is None or type(name) is str for name in names), "the columns of its crosses do not fit")
    is_ascending = not len(parents) or (parents[0] >= 0 and (np.diff(parents) > 0).all())
    _must(is_ascending and (not len(parents) or parents[-1] < min(stored["columns"], CHILD)), "its crosses are wrong")
    if stored["by_name"]:
        _must(len(set(names)) == len(names) == stored["columns"], "the names of its crossed columns are wrong")
    for array in (stored["buckets"], stored["pairs"]):
        _must(isinstance(array, np.ndarray) and array.dtype == np.int64, "its crosses are wrong")
    _must(stored["buckets"].shape == stored["pairs"].shape, "its crosses are wrong")
    is_new = len(np.unique(stored["buckets"])) == len(stored["buckets"])
    _must(is_new and (stored["buckets"] >= 0).all() and (stored["pairs"] >= CHILD).all(), "its crosses are wrong")
    used, hashed = used_columns(content), stored["buckets"] + BUCKET
    _must(np.isin(used[used >= BUCKET], hashed).all(), "it has crosses without a name")
    _must((hashed < BUCKET + (stored["asked"].bits and 1 << stored["asked"].bits)).all(), "its crosses are wrong")
    needed = crossed_in(content).parents_of(np.append(used, stored["pairs"]))
    _must(np.isin(needed, parents).all(), "it has crosses of columns that it does not have")


def crossed_in(content: Mapping[str, Any]) -> Crossed:
    """Return the features of a model file with crosses; those that have a weight have slots."""
    stored, used = content["crosses"], used_columns(content)
    found = Crossed(stored["asked"])
    found.parents = SeenColumns().of(stored["parents"], stored["columns"])
    found.parent_names, found.by_name = list(stored["names"]), stored["by_name"]
    found.members, found.keys = stored["members"], stored["keys"]
    found.born = np.zeros(len(found.members), np.uint64)
    found.remember(stored["buckets"], stored["pairs"])
    return found.of(used if len(used) else stored["parents"][:1], stored["columns"])


def _must(holds: Any, otherwise: str) -> None:
    if not holds:
        raise ValueError(otherwise)
