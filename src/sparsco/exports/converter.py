"""Our estimators in skl2onnx: a Pipeline that ends in one of them converts."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..estimators.sklearn import SparseClassifier, SparseRegressor
from ..selection.stable.estimators import StableSparseClassifier, StableSparseRegressor
from .graph import OPSET, Graph
from .reading import scorer_of
from .scorer import COLUMNS, ExportError

_CLASSIFIERS, _REGRESSORS = (SparseClassifier, StableSparseClassifier), (SparseRegressor, StableSparseRegressor)


def register() -> None:
    """Tell skl2onnx how to convert the estimators of sparsco; call it once before ``to_onnx``.

    A classifier without probabilities gives its scores in their place.
    """
    try:
        from skl2onnx import update_registered_converter
        from skl2onnx.common.shape_calculator import (
            calculate_linear_classifier_output_shapes,
            calculate_linear_regressor_output_shapes,
        )
    except ImportError:
        raise ExportError("the conversion of pipelines needs the package skl2onnx: pip install skl2onnx.") from None
    options = {"zipmap": [True, False, "columns"], "nocl": [True, False], "raw_scores": [True, False]}
    for kind in (*_CLASSIFIERS, *_REGRESSORS):
        is_classifier = kind in _CLASSIFIERS
        update_registered_converter(
            kind,
            f"Sparsco{kind.__name__}",
            calculate_linear_classifier_output_shapes if is_classifier else calculate_linear_regressor_output_shapes,
            _convert,
            options=options if is_classifier else None,
            overwrite=True,
        )


def _convert(scope: Any, operator: Any, container: Any) -> None:
    """Add the nodes of an estimator to a graph of skl2onnx."""
    from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType, guess_numpy_type

    scorer, given = scorer_of(operator.raw_operator), operator.inputs[0]
    if scorer.kind != COLUMNS:
        raise ExportError("the rows of this model are not numbered columns, which skl2onnx needs.")
    if not isinstance(given.type, FloatTensorType | DoubleTensorType):
        raise ExportError(f"the input of the estimator is {type(given.type).__name__}: give floats.")
    graph = Graph(scorer, guess_numpy_type(given.type), scope.get_unique_variable_name("sparsco"))
    columns = graph.constant(np.array(scorer.columns, np.int64), np.int64)
    scores = graph.scores(graph.add("Gather", [given.full_name, columns], axis=1))
    outputs = [each.full_name for each in operator.outputs]
    if scorer.classes is None:
        graph.prediction(scores, outputs[0])
    else:
        graph.label(scores, outputs[0])
        if container.get_options(operator.raw_operator, {}).get("raw_scores", False):
            graph.add("Identity", [scores], outputs[1])
        else:
            graph.probabilities(scores, outputs[1])
    for name, value in graph.constants.items():
        container.add_initializer(name, _type_of(value), list(value.shape), value.ravel().tolist())
    for number, each in enumerate(graph.operations):
        name = scope.get_unique_operator_name(f"sparsco{number}")
        container.add_node(each.kind, each.inputs, [each.output], op_version=OPSET, name=name, **each.attributes)


def _type_of(value: np.ndarray) -> int:
    """Return ONNX's number of the type of an array."""
    from onnx import TensorProto

    kinds = {"f": TensorProto.FLOAT if value.dtype.itemsize == 4 else TensorProto.DOUBLE, "i": TensorProto.INT64}
    return kinds.get(value.dtype.kind, TensorProto.STRING)
