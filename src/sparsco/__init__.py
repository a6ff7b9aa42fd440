"""sparsco: sparse learning by stochastic composite optimization.

A stream of examples, a stochastic optimizer, an online-to-batch conversion, an exactly sparse linear model.

Here are the estimators and what is done with them.  Parts are in modules of their own: ``sparsco.losses``,
``sparsco.penalties``, ``sparsco.optimizers``, ``sparsco.conversions``, ``sparsco.steps``, ``sparsco.mirrors``,
``sparsco.presets``.  Names load on first use, so that importing the package costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # what editors and type checkers see; a test compares it with the table below
    from . import (
        conversions,
        datasets,
        distributed,
        losses,
        metrics,
        mirrors,
        optimizers,
        penalties,
        plots,
        presets,
        steps,
        streams,
    )
    from .engine import DivergenceError
    from .estimators.checks import check_part
    from .estimators.kaczmarz import kaczmarz
    from .estimators.sklearn import SparseClassifier, SparseRegressor
    from .estimators.sparse_crosses import SparseCrosses
    from .estimators.sparse_text import SparseText
    from .exports.api import export
    from .selection.cross_validation import SparseClassifierCV, SparseRegressorCV
    from .selection.paths import SparsePath
    from .selection.stable.estimators import StableSparseClassifier, StableSparseRegressor
    from .selection.stable.report import stability_report
    from .streams import StreamError, open_stream
    from .training.archive import ArchiveError
    from .training.descriptions import describe
    from .training.follow import follow
    from .training.model_files import load, save
    from .training.train import train

__version__ = "0.1.0"

_HOMES = {
    "ArchiveError": "training.archive",
    "DivergenceError": "engine",
    "SparseClassifier": "estimators.sklearn",
    "SparseClassifierCV": "selection.cross_validation",
    "SparseCrosses": "estimators.sparse_crosses",
    "SparsePath": "selection.paths",
    "SparseRegressor": "estimators.sklearn",
    "SparseRegressorCV": "selection.cross_validation",
    "SparseText": "estimators.sparse_text",
    "StableSparseClassifier": "selection.stable.estimators",
    "StableSparseRegressor": "selection.stable.estimators",
    "StreamError": "streams",
    "check_part": "estimators.checks",
    "describe": "training.descriptions",
    "export": "exports.api",
    "follow": "training.follow",
    "kaczmarz": "estimators.kaczmarz",
    "load": "training.model_files",
    "open_stream": "streams",
    "save": "training.model_files",
    "stability_report": "selection.stable.report",
    "train": "training.train",
}
_MODULES = (
    "conversions",
    "datasets",
    "distributed",
    "losses",
    "metrics",
    "mirrors",
    "optimizers",
    "penalties",
    "plots",
    "presets",
    "steps",
    "streams",
)

__all__ = [
    "ArchiveError",
    "DivergenceError",
    "SparseClassifier",
    "SparseClassifierCV",
    "SparseCrosses",
    "SparsePath",
    "SparseRegressor",
    "SparseRegressorCV",
    "SparseText",
    "StableSparseClassifier",
    "StableSparseRegressor",
    "StreamError",
    "check_part",
    "conversions",
    "datasets",
    "describe",
    "distributed",
    "export",
    "follow",
    "kaczmarz",
    "load",
    "losses",
    "metrics",
    "mirrors",
    "open_stream",
    "optimizers",
    "penalties",
    "plots",
    "presets",
    "save",
    "stability_report",
    "steps",
    "streams",
    "train",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
    if name in _MODULES:
        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module 'sparsco' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
