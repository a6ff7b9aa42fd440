"""Predictions and probabilities from scores."""

from __future__ import annotations

import math
from typing import Any


def exponential(x: float) -> float:
    """Return the exponential of a number; infinity where it overflows."""
    try:
        return math.exp(x)
    except OverflowError:
        return math.inf


def logistic(x: float) -> float:
    """Return 1 / (1 + exp(-x))."""
    return 1.0 / (1.0 + exponential(-x))


def shares(link: str, scores: list[float]) -> list[float]:
    """Return the probability of each class, before any correction."""
    if link == "one":
        return [1.0]
    if link == "logistic":
        return [logistic(-scores[0]), logistic(scores[0])]
    if link == "softmax":
        top = max(scores)
        parts = [exponential(score - top) for score in scores]
    else:
        parts = [logistic(score) for score in scores]
    total = sum(parts)
    return [part / total for part in parts] if total > 0.0 else [1.0 / len(parts)] * len(parts)


def log_odds(scores: list[float]) -> list[float]:
    """Return the logarithm of the odds of each class of a softmax."""
    found = []
    for k, score in enumerate(scores):
        others = scores[:k] + scores[k + 1 :]
        top = max(others)
        found.append(score - top - math.log(sum(exponential(other - top) for other in others)))
    return found


def class_probabilities(model: dict[str, Any], scores: list[float]) -> list[float]:
    """Return the probability of each class, calibrated or corrected to the frequencies of the classes."""
    link, scale, weights = model["link"], model["platt"], model["class_weights"]
    if scale is not None and link != "one":
        each = log_odds(scores) if link == "softmax" else scores
        each = [slope * score + shift for slope, score, shift in zip(scale[0], each, scale[1], strict=True)]
        return shares("logistic" if len(each) == 1 else "one-vs-rest", each)
    found = shares(link, scores)
    if weights is None or link == "one":
        return found
    parts = [share / weight for share, weight in zip(found, weights, strict=True)]
    return [part / sum(parts) for part in parts]
