"""Phase one: one file per update rule."""

from .fobos import FOBOS
from .ftrl import FTRL
from .nftrl import NFTRL
from .orda import ORDA
from .rda import RDA
from .sgd import SGD
from .ssg import SSG

OPTIMIZERS = {"sgd": SGD, "fobos": FOBOS, "rda": RDA, "ftrl": FTRL, "nftrl": NFTRL, "orda": ORDA, "ssg": SSG}

__all__ = ["FOBOS", "FTRL", "NFTRL", "OPTIMIZERS", "ORDA", "RDA", "SGD", "SSG"]
