"""Stable selections of features: staged learning on many paths, and purging of the features they do not agree on.

``scaling`` scales rows and columns, ``sts`` is our method, ``bursts`` the method of the paper, ``row_store`` the rows
of a stream.  ``estimators`` are the scikit-learn estimators, and ``report`` measures the stability of any selection.
"""

from .bursts import Stabilized
from .sts import STS

__all__ = ["STS", "Stabilized"]
