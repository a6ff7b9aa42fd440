"""The measures of the papers: density, support recovery, stability of the selection, objective and its gap.

A *model* here is a weight vector as a dense array, a SciPy sparse array or matrix, or a boolean mask of the selected
features.  A matrix (one row per class) counts as one long vector.

>>> import numpy as np
>>> w, truth = np.array([0.0, 2.0, 1e-9, -1.0]), np.array([0.0, 1.0, 0.0, 1.0])
>>> exact_density(w), truncated_density(w), support_recovery(w, truth)
(0.75, 0.5, 0.8)
"""

from .objectives import objective, objective_gap
from .selection import (
    cohen_kappa,
    exact_density,
    jaccard,
    kappa_of_sizes,
    pairwise,
    support,
    support_recovery,
    truncated_density,
    variance_over_runs,
)

__all__ = [
    "cohen_kappa",
    "exact_density",
    "jaccard",
    "kappa_of_sizes",
    "objective",
    "objective_gap",
    "pairwise",
    "support",
    "support_recovery",
    "truncated_density",
    "variance_over_runs",
]
