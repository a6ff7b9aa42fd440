"""The objective that is minimised, and its gap to an optimum."""

from __future__ import annotations

import math
from typing import Any

import numpy as np


def objective(
    X: Any,  # noqa: N803
    y: Any,
    w: Any,
    b: float = 0.0,
    *,
    loss: Any,
    lam: float = 0.0,
    rho: float = 0.0,
    pen: Any = 1.0,
    sample_weight: Any = None,
) -> float:
    """Return phi(w) = mean(loss(X w + b, y)) + rho/2 ||w||^2 + lam sum_j pen_j |w_j|, for one model.

    ``loss`` is a record, or the name that an estimator takes, such as "squared" or "logistic" (labels are -1 and +1).
    With ``sample_weight`` the mean is that of weight times loss over the rows whose weight is not zero; the optimizers
    minimise that.

    >>> objective([[1.0, 0.0], [0.0, 2.0]], [1.0, 4.0], [1.0, 0.0], loss="squared", lam=0.5, rho=1.0)
    5.0
    """
    record = _loss(loss) if isinstance(loss, str) else loss
    from scipy.sparse import issparse

    from ..data.inspection import sound

    w = np.ravel(w.toarray() if issparse(w) else np.asarray(w, dtype=np.float64))
    X, y = sound(X) if issparse(X) else np.asarray(X, dtype=np.float64), np.asarray(y, dtype=np.float64)  # noqa: N806
    if X.shape != (y.size, w.size) or y.ndim != 1:
        raise ValueError(f"X {X.shape}, y {y.shape} and w {w.shape} have inconsistent shapes.")
    if record.classifies and not np.isin(y, (-1.0, 1.0)).all():
        raise ValueError("The targets of a classification loss must be -1 and +1.")
    losses = record.resolve(y, np.ones(len(y))).value(X @ w + b, y)
    if sample_weight is not None:
        weights = np.asarray(sample_weight, dtype=np.float64)
        losses = (weights * losses)[weights != 0.0]
    return float(np.mean(losses) + 0.5 * rho * (w @ w) + lam * np.sum(pen * np.abs(w)))


def objective_gap(value: float, optimum: float, relative: bool = True) -> float:
    """Return (value - optimum) / |optimum|, or the difference itself if not ``relative``.

    Relative to an optimum of 0 the gap is 0 if the two are equal, else infinite.

    >>> objective_gap(3.0, 2.0), objective_gap(3.0, 2.0, relative=False), objective_gap(3.0, 0.0)
    (0.5, 1.0, inf)
    """
    gap = float(value) - float(optimum)
    if not relative or gap == 0.0:
        return gap
    return gap / abs(float(optimum)) if optimum else math.copysign(math.inf, gap)


def _loss(name: str) -> Any:
    # imported here, so that importing this module does not import the compiler
    from ..losses import CLASSIFIER_LOSSES, REGRESSOR_LOSSES

    tables = CLASSIFIER_LOSSES | REGRESSOR_LOSSES
    known = {key: loss for key, loss in tables.items() if not loss.couples}
    if name not in known:
        raise ValueError(f"Unknown loss {name!r}; known are {', '.join(known)}.")
    return known[name]
