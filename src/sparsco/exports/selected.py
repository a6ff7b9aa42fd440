"""The values of the selected features of rows: what a graph of ONNX takes."""

from __future__ import annotations

import importlib
import json
import os
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..data.inspection import sound
from ..streams.tables import is_table, with_roles
from .document import document
from .reading import scorer_of
from .scorer import COLUMNS, NAMES, TABLE, TEXT

_MODULES = {NAMES: "names", TABLE: "tables", TEXT: "text_rows"}


def selected_columns(model: Any, rows: Any) -> np.ndarray:
    """Return the values of the selected features, (rows, features), in the order of the graph's input X.

    Parameters
    ----------
    model : estimator, str, Path or bytes
        A fitted estimator, a model file, or an ONNX graph that ``export`` made, as a file or as bytes.
    rows : array, sparse matrix, data frame, or a list of dicts or texts
        Rows as the model learned them.

    Returns
    -------
    ndarray of float64

    Examples
    --------
    >>> import numpy as np
    >>> from sparsco import SparseRegressor
    >>> from sparsco.exports.selected import selected_columns
    >>> X = np.random.default_rng(0).normal(size=(500, 20))
    >>> model = SparseRegressor(alpha=0.1, random_state=0).fit(X, X[:, 3])
    >>> bool((selected_columns(model, X) == X[:, [3]]).all())
    True
    """
    record = _record(model)
    if record["kind"] == COLUMNS:
        return _of_columns(record, rows)
    if is_table(rows):
        rows = with_roles(rows)[0].to_pylist()
    feature_values = importlib.import_module(f".runtime.{_MODULES[record['kind']]}", __package__).feature_values
    found = [feature_values(record, row) for row in rows]
    return np.array(found, np.float64).reshape(len(found), len(record["features"]))


def _record(model: Any) -> dict[str, Any]:
    """Return the record of a model with dicts in place of pairs."""
    is_file = isinstance(model, str | os.PathLike) and os.fspath(model).endswith(".onnx")
    if not (is_file or isinstance(model, bytes)):
        return document(scorer_of(model), dict)
    import onnx

    graph = onnx.load(model) if is_file else onnx.load_from_string(model)
    props = {each.key: each.value for each in graph.metadata_props}
    if "sparsco" not in props:
        raise ValueError("this ONNX graph was not made by sparsco.export: it has no record of its features.")
    record = json.loads(props["sparsco"])
    for part in [record, *record.get("parts", ())]:
        for name in ("terms", "documents"):
            if name in part:
                part[name] = dict(part[name])
    if record.get("hash"):
        record["hash"]["features"] = dict(record["hash"]["features"])
    return record


def _of_columns(record: dict[str, Any], rows: Any) -> np.ndarray:
    features, first = record["features"], record["first"]
    if is_table(rows):
        table = with_roles(rows)[0]
        found = [np.asarray(table.column(each["name"]), np.float64) for each in features]
        return np.stack(found, 1) if found else np.zeros((table.num_rows, 0))
    columns = [each["column"] - first for each in features]
    if sp.issparse(rows):
        return np.asarray(sp.csc_array(sound(rows))[:, columns].toarray(), np.float64)
    return np.asarray(rows, np.float64)[:, columns]
