"""The types that skops may make when it loads a model of sparsco."""

from __future__ import annotations

from ..training.names import HOMES

_MORE = (
    "estimators.sparse_text:SparseText",
    "estimators.sparse_text:_Seen",
    "streams.features:Hashed",
    "selection.cross_validation:SparseClassifierCV",
    "selection.cross_validation:SparseRegressorCV",
    "selection.stable.estimators:StableSparseClassifier",
    "selection.stable.estimators:StableSparseRegressor",
    "selection.stable.linear:Answer",
    "selection.stable.linear:StableState",
    "selection.stable.scaling:Preparation",
    "selection.stable.sts:STS",
    "selection.stable.sts:Stage",
    "selection.stable.sts:Validated",
    "selection.stable.bursts:Stabilized",
)
"""Classes that pickles hold, and model files do not."""


def trusted_types() -> list[str]:
    """Return the names of all types that a model of sparsco consists of, for ``skops.io.load(..., trusted=...)``.

    They are records of numbers, and the estimators themselves: making them executes nothing that a file says.

    Examples
    --------
    >>> from sparsco.exports.trusted import trusted_types
    >>> "sparsco.estimators.sklearn.SparseClassifier" in trusted_types()
    True
    """
    homes = {home.replace(":", ".") for home in (*HOMES.values(), *_MORE)}
    package = __name__.partition(".")[0]
    return sorted(["scipy.sparse._csr.csr_array", *(f"{package}.{home}" for home in homes)])
