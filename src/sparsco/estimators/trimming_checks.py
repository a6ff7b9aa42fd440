"""The parameters of streams whose features may leave."""

from __future__ import annotations

from typing import Any


def trims(model: Any) -> bool:
    """Return whether features may leave the training state of a model."""
    return model.max_features is not None or model.trim is not None


def check_trimming(model: Any, by_column: str, is_polished: bool) -> None:
    """Raise a ValueError for parameters that need all features, where features may leave.

    ``by_column`` is a parameter that has a value for every column, if there is one.
    """
    why = ""
    if model.storage == "all":
        why = "storage='all' has room for every column: leave storage at 'auto'"
    elif by_column:
        why = f"{by_column} has one value per column: leave one of them out"
    elif is_polished:
        why = "polish needs all features of all rows: leave one of them out"
    if why:
        raise ValueError(f"max_features and trim let features leave, but {why}.")


def refuse_trimming(model: Any, method: str) -> None:
    """Raise a ValueError if features may leave, for a method that has all rows at once."""
    if trims(model):
        raise ValueError(
            f"max_features and trim are for streams, whose features come one after the other, and {method} has all "
            "rows at once: use partial_fit, learn_one or train."
        )
