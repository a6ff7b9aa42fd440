"""Phase one: the optimizers, one file per update rule."""

from .adagrad import AdaGradFOBOS, AdaGradRDA
from .epoch_gd import EpochGD
from .epoch_sgd_l1_ball import EpochSGD
from .fobos import FOBOS
from .ftrl import FTRL
from .minibatch import BatchFOBOS, BatchRDA
from .mirror_descent import MirrorDescent
from .nftrl import NFTRL
from .orda import ORDA
from .rda import RDA
from .sgd import SGD
from .ssg import SSG
from .truncated_gradient import TruncatedGradient

OPTIMIZERS = {
    "sgd": SGD,
    "fobos": FOBOS,
    "rda": RDA,
    "ftrl": FTRL,
    "nftrl": NFTRL,
    "adagrad-fobos": AdaGradFOBOS,
    "adagrad-rda": AdaGradRDA,
    "truncated-gradient": TruncatedGradient,
    "epoch-gd": EpochGD,
    "epoch-sgd": EpochSGD,
    "mirror-descent": MirrorDescent,
    "orda": ORDA,
    "ssg": SSG,
    "batch-fobos": BatchFOBOS,
    "batch-rda": BatchRDA,
}

__all__ = [
    "AdaGradFOBOS",
    "AdaGradRDA",
    "BatchFOBOS",
    "BatchRDA",
    "EpochGD",
    "EpochSGD",
    "FOBOS",
    "FTRL",
    "MirrorDescent",
    "NFTRL",
    "OPTIMIZERS",
    "ORDA",
    "RDA",
    "SGD",
    "SSG",
    "TruncatedGradient",
]
