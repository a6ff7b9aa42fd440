"""The operations of an ONNX graph that predicts: for a file of its own, and for the converter of skl2onnx."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .scorer import EXP, LOGISTIC, NONE, ONE, SOFTMAX, ExportError, Scorer

OPSET = 15
"""The version of the operators that are used."""


class Operation(NamedTuple):
    """A node of a graph, with one output."""

    kind: str
    inputs: list[str]
    output: str
    attributes: dict[str, Any]


class Graph:
    """The operations from the values of selected features to scores, labels, probabilities and predictions."""

    def __init__(self, scorer: Scorer, kind: Any, prefix: str = "") -> None:
        self.scorer, self.kind, self.prefix = scorer, np.dtype(kind), prefix
        self.operations: list[Operation] = []
        self.constants: dict[str, np.ndarray] = {}

    def add(self, kind: str, inputs: list[str], output: str = "", **attributes: Any) -> str:
        """Add an operation, and return the name of its output."""
        output = output or f"{self.prefix}n{len(self.operations)}"
        self.operations.append(Operation(kind, inputs, output, attributes))
        return output

    def constant(self, value: Any, kind: Any = None) -> str:
        """Add a constant, and return its name."""
        name = f"{self.prefix}c{len(self.constants)}"
        self.constants[name] = np.asarray(value, kind or self.kind)
        return name

    def scores(self, x: str, to: str = "") -> str:
        """Add the scores of rows by the values of the selected features."""
        product = self.add("MatMul", [x, self.constant(self.scorer.weights)])
        return self.add("Add", [product, self.constant(self.scorer.intercepts[None])], to)

    def label(self, scores: str, to: str) -> None:
        """Add the label of each row."""
        classes = self.scorer.classes or ()
        if len(self.scorer.intercepts) > 1:
            index = self.add("ArgMax", [scores], axis=1, keepdims=0)
        else:
            limit = 0.0 if len(classes) == 2 else np.inf
            above = self.add("Greater", [scores, self.constant([[limit]])])
            index = self.add("Reshape", [self.add("Cast", [above], to=7), self.constant([-1], np.int64)])
        is_text = isinstance(classes[0], str)
        if not is_text and any(label != int(label) for label in classes):
            raise ExportError(f"the labels {list(classes)} are not whole numbers, which skl2onnx and ONNX expect.")
        table = np.array(classes, object) if is_text else np.array([int(label) for label in classes])
        self.add("Gather", [self.constant(table, table.dtype), index], to, axis=0)

    def prediction(self, scores: str, to: str) -> None:
        """Add the numbers that a regression predicts."""
        self.add("Exp" if self.scorer.link == EXP else "Identity", [scores], to)

    def probabilities(self, scores: str, to: str) -> None:
        """Add the probability of each class."""
        scorer, link = self.scorer, self.scorer.link
        if link in (NONE, ONE):
            self.add("Identity" if link == NONE else "Exp", [self._zeros(scores) if link == ONE else scores], to)
            return
        if scorer.platt is not None:
            each = self._log_odds(scores) if link == SOFTMAX else scores
            scaled = self.add("Mul", [each, self.constant(scorer.platt[:1])])
            scores = self.add("Add", [scaled, self.constant(scorer.platt[1:])])
            link = LOGISTIC if len(scorer.intercepts) == 1 else "one-vs-rest"
        weights = scorer.class_weights if scorer.platt is None else None
        if link == LOGISTIC:
            pair = self.add("Concat", [self.add("Neg", [scores]), scores], axis=1)
            shares = self.add("Sigmoid", [pair], to if weights is None else "")
        elif link == SOFTMAX:
            shares = self.add("Softmax", [scores], to if weights is None else "", axis=1)
        else:
            shares = self._to_one(self.add("Sigmoid", [scores]), to if weights is None else "")
        if weights is not None:
            self._to_one(self.add("Div", [shares, self.constant(weights[None])]), to)

    def _zeros(self, scores: str) -> str:
        return self.add("Mul", [scores, self.constant([[0.0]])])

    def _to_one(self, shares: str, to: str) -> str:
        """Scale rows to a sum of one; where the sum is 0, all classes are alike."""
        total = self.add("ReduceSum", [shares, self.constant([1], np.int64)], keepdims=1)
        nothing = self.add("Equal", [total, self.constant([[0.0]])])
        even = self.constant([[1.0 / len(self.scorer.classes or ())]])
        safe = self.add("Where", [nothing, self.constant([[1.0]]), total])
        return self.add("Where", [nothing, even, self.add("Div", [shares, safe])], to)

    def _log_odds(self, scores: str) -> str:
        """Add the logarithm of the odds of each class of a softmax: its score less that of all others together."""
        k, parts = len(self.scorer.intercepts), []
        for own in range(k):
            others = self.add("Gather", [scores, self.constant([j for j in range(k) if j != own], np.int64)], axis=1)
            together = self.add("ReduceLogSumExp", [others], axes=[1], keepdims=1)
            mine = self.add("Gather", [scores, self.constant([own], np.int64)], axis=1)
            parts.append(self.add("Sub", [mine, together]))
        return self.add("Concat", parts, axis=1)
