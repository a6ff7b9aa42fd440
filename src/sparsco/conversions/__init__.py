"""Phase two: online-to-batch conversions, from the iterates of a run to one exactly sparse model.

``averaging`` holds the conversions that sum iterates.  ``single_iterate`` holds those that choose one iterate.
``sparse_learning`` holds those that map an average to a sparse vector.  ``rounding`` changes answers.
``metric`` builds the map of ``sparse_learning`` on a sample of the rows (``reservoir``).  ``metric_coupled`` does so
for penalties and losses that couple weights.
"""

from .averaging import Answer, Average, Last, LastEpoch, RandomIterate, Suffix
from .path_stability import PathStability
from .rounding import Reweighted, Sparsify, Threshold, TopK
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
"""The conversion for each name that an estimator accepts."""

__all__ = [
    "CONVERSIONS",
    "Answer",
    "Average",
    "AverageSL",
    "Last",
    "LastEpoch",
    "LastSL",
    "OCMDI",
    "OptimalSL",
    "PathStability",
    "RandomIterate",
    "Reweighted",
    "SCMDI",
    "Sparsify",
    "Suffix",
    "Threshold",
    "TopK",
]
