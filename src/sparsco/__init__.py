"""sparsco: sparse learning by stochastic composite optimization.

A stream of examples, a stochastic optimizer, an online-to-batch conversion, an exactly sparse linear model.
Names load on first use, so that importing the package costs nothing.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0.dev0"

_HOMES = {
    "SparseClassifier": "estimators",
    "SparseRegressor": "estimators",
    "StableSparseClassifier": "stability.estimators",
    "StableSparseRegressor": "stability.estimators",
    "STS": "stability.sts",
    "Stabilized": "stability.bursts",
    "stability_report": "stability.report",
    "SparseClassifierCV": "cross_validation",
    "SparseRegressorCV": "cross_validation",
    "SparsePath": "paths",
    "kaczmarz": "systems",
    "load": "models",
    "save": "models",
    "sparsify_random": "sparsify",
    "train": "training",
    "Run": "solve",
    "DivergenceError": "solve",
    "Squared": "losses",
    "Logistic": "losses",
    "Hinge": "losses",
    "SquaredHinge": "losses",
    "Huber": "losses",
    "EpsilonInsensitive": "losses",
    "Quantile": "losses",
    "Poisson": "losses",
    "Multinomial": "losses",
    "L1": "regularizers",
    "L2": "regularizers",
    "ElasticNet": "regularizers",
    "WeightedElasticNet": "regularizers",
    "NonNegative": "regularizers",
    "Box": "regularizers",
    "RowGroup": "regularizers",
    "GroupL1": "regularizers",
    "SparseGroup": "regularizers",
    "L1Ball": "regularizers",
    "L2Ball": "regularizers",
    "TraceNorm": "regularizers",
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
    "SCMDI": "individual",
    "OCMDI": "individual",
}
_MODULES = ("datasets", "metrics", "plots", "presets", "projections", "sparsify", "streams", "tomography")

__all__ = sorted([*_HOMES, *_MODULES])


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
    if name in _MODULES:
        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module 'sparsco' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
