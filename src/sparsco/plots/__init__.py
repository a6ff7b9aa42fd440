"""Plots of your own data; they need matplotlib (pip install 'sparsco[plots]').

Each function draws on ``axes``, or on a new figure of pyplot, which a notebook shows by itself and a script shows by
``matplotlib.pyplot.show()``.
"""

from ..estimators.weight_bars import weights
from .paths import coefficient_path, error_vs_nonzeros, selection_stability
from .risk import Curves, draw, risk_vs_features, risks
from .selections import selection_frequencies
from .sizes import loss_vs_size

__all__ = [
    "Curves",
    "coefficient_path",
    "draw",
    "error_vs_nonzeros",
    "loss_vs_size",
    "risk_vs_features",
    "risks",
    "selection_frequencies",
    "selection_stability",
    "weights",
]
