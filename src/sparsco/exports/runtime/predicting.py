"""Scores, predictions and probabilities of a row."""

from __future__ import annotations

from typing import Any

from .columns import feature_values
from .links import class_probabilities, exponential

MODEL: dict[str, Any] = {}

FEATURES = [feature["name"] for feature in MODEL.get("features", ())]
CLASSES = MODEL.get("classes")


def dense(values: Any) -> list[float]:
    """Return the scores of a row by the values of the selected features, in the order of FEATURES."""
    found = list(MODEL["intercepts"])
    for feature, value in zip(MODEL["features"], values, strict=True):
        for k, weight in enumerate(feature["weights"]):
            found[k] += weight * value
    return found


def scores(x: Any) -> list[float]:
    """Return the scores of a row, one for each output."""
    return dense(feature_values(MODEL, x))


def predict(x: Any) -> Any:
    """Return the label of a row, or the number or numbers that a regression predicts."""
    found = scores(x)
    if CLASSES is None:
        found = [exponential(score) for score in found] if MODEL["link"] == "exp" else found
        return found if MODEL["vector"] else found[0]
    if len(found) == 1:
        return CLASSES[1 if len(CLASSES) == 2 and found[0] > 0.0 else 0]
    return CLASSES[found.index(max(found))]


def probabilities(x: Any) -> list[float]:
    """Return the probability of each class, in the order of CLASSES."""
    if CLASSES is None or MODEL["link"] == "none":
        raise ValueError("this model has no probabilities.")
    return class_probabilities(MODEL, scores(x))
