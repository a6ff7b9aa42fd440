"""Penalties: psi(w) = r(w) + (rho / 2) ||w||^2 with r not smooth, and the pieces that optimizers need of it.

Every record says by ``kind`` how r ties weights together, and by ``cost`` what a prox takes:

- ``separable``: one weight at a time;
- ``grouped``: given features together, or all outputs of a feature;
- ``global``: all weights together.

``prox_all`` is the prox of whole arrays, (d,) or (d, m), that every kind has; the mini-batch optimizers use it.  Where
there is a ``prox`` of one feature's weights, v -> argmin_u (u - v)^2 / 2 + s |u| or the like, kernels are lazy: applied
once with s = eta * lam it is one step's prox, applied with the total shrinkage of an idle stretch it is that whole
stretch.  What is not the absolute value says by ``falls`` how fast its weights go to zero.
"""

from .auto import Auto, AutoElasticNet, scaled
from .base import (
    bounds,
    checked,
    falls,
    feature_weight,
    is_of_fixed_width,
    prox,
    prox_all,
    prox_with_l2,
    restricted,
    soft,
    stepped,
    strength,
)
from .constraints import Box, L1Ball, L2Ball
from .grouped import GroupL1, RowGroup, SparseGroup, TraceNorm
from .separable import L1, L2, ElasticNet, NonNegative, WeightedElasticNet, elastic_net

PENALTIES = {
    "elasticnet": ElasticNet,
    "l1": ElasticNet,
    "l2": ElasticNet,
    "row-group": RowGroup,
    "trace": TraceNorm,
    "nonnegative": NonNegative,
}
"""By the name that an estimator takes."""

RATIOS = {"l1": 1.0, "l2": 0.0}
"""The share of the L1 term in penalties that are one end of the elastic net."""

__all__ = [
    "Auto", "AutoElasticNet", "Box", "ElasticNet", "GroupL1", "L1", "L1Ball", "L2", "L2Ball", "NonNegative",
    "PENALTIES", "RATIOS", "RowGroup", "SparseGroup", "TraceNorm", "WeightedElasticNet", "bounds", "checked",
    "elastic_net", "falls", "feature_weight", "is_of_fixed_width", "prox", "prox_all",
    "prox_with_l2", "restricted", "scaled", "soft", "stepped", "strength",
]  # fmt: skip
