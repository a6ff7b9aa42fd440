"""ONNX: one input with the values of the selected features, their names in the metadata."""

from __future__ import annotations

from typing import Any

import numpy as np

from .document import document
from .graph import OPSET, Graph
from .literals import json_text
from .scorer import NONE, ExportError, Scorer


def to_onnx(scorer: Scorer, double: bool = False) -> bytes:
    """Return a graph as bytes; ``double`` computes in 64 bits, otherwise in 32.

    The input is X, (rows, selected features).  Outputs are ``scores``, and ``label`` and ``probabilities`` of a
    classifier or ``prediction`` of a regression.
    """
    onnx = _imported()
    graph, outputs = Graph(scorer, np.float64 if double else np.float32), ["scores"]
    graph.scores("X", "scores")
    if scorer.classes is None:
        graph.prediction("scores", "prediction")
        outputs.append("prediction")
    else:
        graph.label("scores", "label")
        outputs.append("label")
        if scorer.link != NONE:
            graph.probabilities("scores", "probabilities")
            outputs.append("probabilities")
    return _model(onnx, graph, outputs).SerializeToString()


def _imported() -> Any:
    try:
        import onnx
    except ImportError:
        raise ExportError("the format onnx needs the package onnx: pip install 'sparsco[onnx]'.") from None
    return onnx


def _model(onnx: Any, graph: Graph, outputs: list[str]) -> Any:
    helper, scorer = onnx.helper, graph.scorer
    number = onnx.TensorProto.DOUBLE if graph.kind == np.float64 else onnx.TensorProto.FLOAT
    m, k, is_text = len(scorer.intercepts), len(scorer.classes or ()), isinstance((scorer.classes or (0,))[0], str)
    shapes = {
        "scores": (number, ["rows", m]),
        "prediction": (number, ["rows", m]),
        "probabilities": (number, ["rows", k]),
        "label": (onnx.TensorProto.STRING if is_text else onnx.TensorProto.INT64, ["rows"]),
    }
    nodes = [helper.make_node(each.kind, each.inputs, [each.output], **each.attributes) for each in graph.operations]
    whole = helper.make_graph(
        nodes,
        "sparsco",
        [helper.make_tensor_value_info("X", number, ["rows", len(scorer.names)])],
        [helper.make_tensor_value_info(name, *shapes[name]) for name in outputs],
        [onnx.numpy_helper.from_array(value, name) for name, value in graph.constants.items()],
    )
    model = helper.make_model(whole, opset_imports=[helper.make_opsetid("", OPSET)], producer_name="sparsco")
    model.ir_version = 8
    record = {"sparsco": document(scorer), "features": list(scorer.names), "columns": list(scorer.columns)}
    helper.set_model_props(model, {name: json_text(value) for name, value in record.items()})
    onnx.checker.check_model(model)
    return model
