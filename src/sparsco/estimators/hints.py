"""Errors that translate parameter names of scikit-learn's linear models into ours."""

from __future__ import annotations

import inspect
from typing import Any, Self

from sklearn.base import BaseEstimator

_NAMES_IN_SKLEARN = {
    "C": "alpha = 1 / (C * number of rows)",
    "solver": "optimizer=, or polish=True for the exact optimum",
    "learning_rate": "step_size=",
    "eta0": "step_size=",
    "average": 'conversion="average"',
}
"""The parameters of scikit-learn's linear models that have other names here, and the parameters to pass instead."""


def _hint(kind: type, name: str) -> str:
    return f"{kind.__name__} has no parameter {name}: pass {_NAMES_IN_SKLEARN[name]}."


class Hinted(BaseEstimator):
    """An estimator whose errors translate parameter names of scikit-learn into its own.

    ``help`` and scikit-learn show the signature of ``__init__``.  Early releases of Python 3.11 need it as
    ``__signature__``.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        signature = inspect.signature(cls.__init__)
        cls.__signature__ = signature.replace(parameters=[*signature.parameters.values()][1:])

    def __new__(cls, *args: Any, **params: Any) -> Self:
        """Return an estimator; raise a TypeError with a hint for a parameter that has another name in scikit-learn."""
        for name in params.keys() & _NAMES_IN_SKLEARN.keys():
            raise TypeError(_hint(cls, name))
        return super().__new__(cls)

    def set_params(self, **params: Any) -> Self:
        """Set parameters, as in scikit-learn; raise a ValueError with a hint for a name of scikit-learn's."""
        for name in params.keys() & _NAMES_IN_SKLEARN.keys():
            raise ValueError(_hint(type(self), name))
        return super().set_params(**params)
