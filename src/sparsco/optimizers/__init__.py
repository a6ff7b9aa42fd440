"""Phase one: one file per update rule."""

from .batch import BatchFOBOS, BatchRDA
from .fobos import FOBOS
from .ftrl import FTRL
from .nftrl import NFTRL
from .rda import RDA
from .sgd import SGD

OPTIMIZERS = {
    "sgd": SGD,
    "fobos": FOBOS,
    "rda": RDA,
    "ftrl": FTRL,
    "nftrl": NFTRL,
    "batch-fobos": BatchFOBOS,
    "batch-rda": BatchRDA,
}

__all__ = ["FOBOS", "BatchFOBOS", "BatchRDA", "FTRL", "NFTRL", "OPTIMIZERS", "RDA", "SGD"]
