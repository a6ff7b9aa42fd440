"""sparsco: sparse learning by stochastic composite optimization.

A stream of examples, a stochastic optimizer, an online-to-batch conversion, an exactly sparse linear model.
Names load on first use, so that importing the package costs nothing.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0.dev0"

_HOMES = {
    "SparseClassifier": "estimators.sklearn",
    "SparseRegressor": "estimators.sklearn",
    "StableSparseClassifier": "selection.stable.estimators",
    "StableSparseRegressor": "selection.stable.estimators",
    "STS": "selection.stable.sts",
    "Stabilized": "selection.stable.bursts",
    "stability_report": "selection.stable.report",
    "SparseClassifierCV": "selection.cross_validation",
    "SparseRegressorCV": "selection.cross_validation",
    "SparsePath": "selection.paths",
    "kaczmarz": "estimators.kaczmarz",
    "load": "training.model_files",
    "save": "training.model_files",
    "sparsify_random": "estimators.sparsify",
    "train": "training.train",
    "Run": "engine.run",
    "DivergenceError": "engine.run",
    "Squared": "losses",
    "Logistic": "losses",
    "Hinge": "losses",
    "SquaredHinge": "losses",
    "Huber": "losses",
    "EpsilonInsensitive": "losses",
    "Quantile": "losses",
    "Poisson": "losses",
    "Multinomial": "losses",
    "L1": "penalties",
    "L2": "penalties",
    "ElasticNet": "penalties",
    "WeightedElasticNet": "penalties",
    "NonNegative": "penalties",
    "Box": "penalties",
    "RowGroup": "penalties",
    "GroupL1": "penalties",
    "SparseGroup": "penalties",
    "L1Ball": "penalties",
    "L2Ball": "penalties",
    "TraceNorm": "penalties",
    "BatchFOBOS": "optimizers",
    "BatchRDA": "optimizers",
    "FOBOS": "optimizers",
    "RDA": "optimizers",
    "SGD": "optimizers",
    "ORDA": "optimizers",
    "SSG": "optimizers",
    "FTRL": "optimizers",
    "NFTRL": "optimizers",
    "AdaGradFOBOS": "optimizers",
    "AdaGradRDA": "optimizers",
    "TruncatedGradient": "optimizers",
    "EpochGD": "optimizers",
    "EpochSGD": "optimizers",
    "MirrorDescent": "optimizers",
    "Euclidean": "mirrors",
    "PNorm": "mirrors",
    "SparseKaczmarz": "mirrors",
    "StronglyConvex": "steps",
    "Convex": "steps",
    "Constant": "steps",
    "InverseSqrt": "steps",
    "InverseTime": "steps",
    "Halving": "steps",
    "Last": "conversions",
    "Average": "conversions",
    "Suffix": "conversions",
    "RandomIterate": "conversions",
    "LastEpoch": "conversions",
    "Threshold": "conversions",
    "TopK": "conversions",
    "Sparsify": "conversions",
    "OptimalSL": "conversions",
    "LastSL": "conversions",
    "AverageSL": "conversions",
    "SCMDI": "conversions",
    "OCMDI": "conversions",
}
_MODULES = ("datasets", "metrics", "plots", "presets", "streams")

__all__ = sorted([*_HOMES, *_MODULES])


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
    if name in _MODULES:
        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module 'sparsco' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
