"""Phase two: online-to-batch conversions, from the iterates of a run to one exactly sparse model.

``averaging`` holds the conversions that sum iterates, ``single_iterate`` those that choose one, ``sparse_learning``
those that map an average to a sparse vector, ``rounding`` those that keep few features.  ``metric`` (``metric_coupled``
where weights are tied together) builds that map on a sample of the rows (``reservoir``).
"""

from .averaging import Answer, Average, Last, LastEpoch, RandomIterate, Suffix
from .rounding import Sparsify, Threshold, TopK
from .single_iterate import OCMDI, SCMDI
from .sparse_learning import AverageSL, LastSL, OptimalSL

CONVERSIONS = {
    "last": Last(),
    "average": Average(),
    "weighted": Average(power=3.0),
    "suffix": Suffix(),
    "random": RandomIterate(),
    "last-epoch": LastEpoch(),
    "optimal-sl": OptimalSL(),
    "last-sl": LastSL(),
    "average-sl": AverageSL(),
    "scmdi": SCMDI(),
    "ocmdi": OCMDI(),
}
"""By the name that an estimator takes."""

__all__ = [
    "CONVERSIONS", "Answer", "Average", "AverageSL", "Last", "LastEpoch", "LastSL", "OCMDI", "OptimalSL",
    "RandomIterate", "SCMDI", "Sparsify", "Suffix", "Threshold", "TopK",
]  # fmt: skip
