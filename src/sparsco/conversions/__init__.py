"""Phase two: online-to-batch conversions, from the iterates of a run to one exactly sparse model.

``averaging`` holds the conversions that sum iterates, ``single_iterate`` those that choose one, ``sparsify`` the
roundings to few features.  ``metric`` (``metric_coupled`` where weights are tied together) builds the map of the
``SL`` conversions on a sample of the rows (``reservoir``).
"""

from .averaging import (
    Answer,
    Average,
    AverageSL,
    Last,
    LastEpoch,
    LastSL,
    OptimalSL,
    RandomIterate,
    Sparsify,
    Suffix,
    Threshold,
    TopK,
)
from .single_iterate import OCMDI, SCMDI

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
