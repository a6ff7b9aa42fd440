"""Penalties: psi(w) = r(w) + (rho / 2) ||w||^2 with a nonsmooth r, and the operations that optimizers need.

The ``kind`` of a record declares how r couples weights, and ``cost`` declares the cost of a prox:

- ``separable``: one weight at a time;
- ``grouped``: given features together, or all outputs of a feature;
- ``global``: all weights together.

Every kind has ``prox_all``, the prox of whole arrays, (d,) or (d, m); the mini-batch optimizers use it.  Where there is
a ``prox`` of one feature's weights, such as v -> argmin_u (u - v)^2 / 2 + s |u|, kernels are lazy.  Applied once with
s = eta * lam it is one step's prox; applied with the total shrinkage of an idle stretch it is that whole stretch.  A
penalty other than the absolute value declares by ``shrink_rate`` how fast its weights shrink to zero.
"""

from .auto import Auto, AutoElasticNet, AutoGroups, rescaled, scaled
from .base import (
    bounds,
    checked,
    feature_weight,
    is_of_fixed_width,
    prox,
    prox_all,
    prox_step,
    prox_with_l2,
    restricted,
    shrink_rate,
    soft,
    strength,
)
from .constraints import Box, L1Ball, L2Ball
from .grouped import GroupL1, RowGroup, SparseGroup, TraceNorm
from .reweighted import MCP, Adaptive, phase_one, with_strength
from .separable import L1, L2, ElasticNet, NonNegative, WeightedElasticNet, elastic_net

PENALTIES = {
    "elasticnet": ElasticNet,
    "l1": ElasticNet,
    "l2": ElasticNet,
    "row-group": RowGroup,
    "group": GroupL1,
    "sparse-group": SparseGroup,
    "trace": TraceNorm,
    "nonnegative": NonNegative,
    "mcp": MCP,
    "adaptive": Adaptive,
}
"""The penalty for each name that an estimator accepts."""

RATIOS = {"l1": 1.0, "l2": 0.0}
"""The share of the L1 term in penalties that are one end of the elastic net."""

__all__ = [
    "Adaptive",
    "Auto",
    "AutoElasticNet",
    "AutoGroups",
    "Box",
    "ElasticNet",
    "GroupL1",
    "L1",
    "L1Ball",
    "L2",
    "L2Ball",
    "MCP",
    "NonNegative",
    "PENALTIES",
    "RATIOS",
    "RowGroup",
    "SparseGroup",
    "TraceNorm",
    "WeightedElasticNet",
    "bounds",
    "checked",
    "elastic_net",
    "shrink_rate",
    "feature_weight",
    "is_of_fixed_width",
    "phase_one",
    "prox",
    "prox_all",
    "prox_with_l2",
    "rescaled",
    "restricted",
    "scaled",
    "soft",
    "prox_step",
    "strength",
    "with_strength",
]
