"""A run: rows through an optimizer and a conversion; the certified optimum."""

from .run import DivergenceError, Run

__all__ = ["DivergenceError", "Run"]
