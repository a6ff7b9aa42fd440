"""Selections that hold: staged learning on many paths, purging what they do not agree on.

``scaling`` scales rows and columns, ``sts`` is our method, ``bursts`` the paper's, ``row_store`` the rows of a stream,
``estimators`` the scikit-learn side of all of them and ``report`` how stable any estimator's selection is.
"""

from .bursts import Stabilized
from .sts import STS

__all__ = ["STS", "Stabilized"]
