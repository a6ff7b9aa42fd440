"""Methods that select features, ours and others', with one interface for `make bench-selection`.

A method takes rows, responses, the kind of response and a seed, and returns an `Outcome`.  Packages are imported where
they are used: each may be in an environment of its own.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import issparse
from selection_designs import LINEAR

FDR, EFP = (0.05, 0.1, 0.2), (1.0, 5.0)
"""The promises: shares of false ones among the selected, and numbers of false ones."""
PAIRS = 50
"""Pairs of halves, for ours and for others."""
AGREEMENT = 0.75
"""The share of halves that has to select a feature in classical stability selection."""

Masks = dict[float, np.ndarray]


class Outcome(NamedTuple):
    """What a method selects: a rank of features (smaller is better), masks by promise, its own choice, its doubts."""

    rank: np.ndarray
    fdr: Masks = {}
    efp: Masks = {}
    own: np.ndarray | None = None
    warned: list[str] = []
    seconds: float = 0.0


Method = Callable[[Any, np.ndarray, str, int], Outcome]


def measured(name: str, X: Any, y: np.ndarray, response: str, seed: int) -> Outcome:
    """Return the outcome of a method with the seconds of CPU of its fit."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = time.process_time()
        outcome = METHODS[name](X, y, response, seed)
        return outcome._replace(seconds=time.process_time() - start)


def by_scores(q_values: np.ndarray, efp_scores: np.ndarray, warned: list[str]) -> Outcome:
    """Return the outcome for all promises from one fit."""
    chosen = {fdr: q_values <= fdr for fdr in FDR}
    return Outcome(efp_scores, chosen, {efp: efp_scores <= efp for efp in EFP}, None, warned)


# --- ours -------------------------------------------------------------------------------------------------------------


def ours(X: Any, y: np.ndarray, response: str, seed: int) -> Outcome:
    """Select with sparsco's stable estimators; every promise is read from one fit."""
    import sparsco

    kind = sparsco.StableSparseRegressor if response == LINEAR else sparsco.StableSparseClassifier
    model = kind(fdr=0.1, random_state=seed).fit(X, y)
    return by_scores(model.q_values_, model.efp_scores_, list(model.promise_.get("warnings", [])))


# --- others -----------------------------------------------------------------------------------------------------------


def integrated(X: Any, y: np.ndarray, response: str, seed: int) -> Outcome:
    """Select with `ipss`, with as many pairs, its own grid, and no preselection on the same rows."""
    from ipss import main

    np.random.seed(seed)  # it has no seed of its own
    found = main.ipss(dense(X), y, selector="l1", B=PAIRS, preselect=False, n_jobs=1)
    columns = range(X.shape[1])
    return by_scores(*(np.array([found[key][j] for j in columns]) for key in ("q_values", "efp_scores")), [])


def classical(X: Any, y: np.ndarray, response: str, seed: int) -> Outcome:
    """Select with stability selection in complementary pairs of halves.

    Each half selects the first q features of its path.  A feature that the share `AGREEMENT` = tau of all halves
    selects is selected; E(FP) <= q^2 / ((2 tau - 1) p) (Meinshausen and Buehlmann; the pairs are those of Shah and
    Samworth), and q follows from the promise.  The rank is by the mean share over the promises.
    """
    X, n, p = standardised(X), *X.shape
    sizes = {efp: max(1, int(np.sqrt((2.0 * AGREEMENT - 1.0) * p * efp))) for efp in EFP}
    counts = {efp: np.zeros(p) for efp in EFP}
    rng = np.random.default_rng(seed)
    for _ in range(PAIRS):
        order = rng.permutation(n)
        for half in (order[: n // 2], order[n // 2 : 2 * (n // 2)]):
            for efp, first in zip(EFP, first_on_path(X[half], y[half], response, list(sizes.values())), strict=True):
                counts[efp] += first
    shares = {efp: count / (2.0 * PAIRS) for efp, count in counts.items()}
    mean = np.mean(list(shares.values()), axis=0)
    return Outcome(1.0 - mean, {}, {efp: share >= AGREEMENT for efp, share in shares.items()})


def first_on_path(X: np.ndarray, y: np.ndarray, response: str, sizes: list[int]) -> list[np.ndarray]:
    """Return the largest sets on the L1 path with at most so many features, for growing sizes."""
    from sklearn.linear_model import LogisticRegression, lars_path

    if response == LINEAR:
        most = min(max(sizes), *X.shape)
        weights = lars_path(X, y - y.mean(), method="lasso", max_iter=most)[2]
        steps = [each != 0.0 for each in weights.T]
    else:
        strength, steps = 2.0 * np.abs(X.T @ (y - y.mean())).max(), [np.zeros(X.shape[1], dtype=bool)]
        model = LogisticRegression(l1_ratio=1.0, solver="liblinear", tol=1e-3, intercept_scaling=10.0)
        while steps[-1].sum() <= max(sizes) and strength > 1e-4:
            strength *= 0.85
            steps.append(model.set_params(C=1.0 / strength).fit(X, y).coef_[0] != 0.0)
    return [next(step for step in reversed(steps) if step.sum() <= size) for size in sizes]


def cross_validated(X: Any, y: np.ndarray, response: str, seed: int) -> Outcome:
    """Select what scikit-learn's cross-validated L1 models use: no promise at all."""
    from sklearn.linear_model import LassoCV, LogisticRegressionCV

    given = {"l1_ratios": (1.0,), "solver": "liblinear", "scoring": "neg_log_loss", "use_legacy_attributes": False}
    model: Any = LassoCV() if response == LINEAR else LogisticRegressionCV(**given)
    weights = np.ravel(model.fit(standardised(X), y).coef_)
    return Outcome(-np.abs(weights), own=weights != 0.0)


def knockoffs(X: Any, y: np.ndarray, response: str, seed: int) -> Outcome:
    """Select with hidimstat's Gaussian model-X knockoffs and its default, the cross-validated lasso."""
    from hidimstat import ModelXKnockoff

    model = ModelXKnockoff(random_state=seed)
    importance = model.fit_importance(dense(X), y)[0]
    return Outcome(-importance, {fdr: np.asarray(model.fdr_selection(fdr), dtype=bool) for fdr in FDR})


def desparsified(X: Any, y: np.ndarray, response: str, seed: int) -> Outcome:
    """Select by p-values of skein-glm's debiased weights, with Benjamini and Hochberg's procedure."""
    from skein_glm import debiased

    fit = debiased.debiased_lasso if response == LINEAR else debiased.debiased_logistic_lasso
    p_values = np.nan_to_num(np.ravel(fit(standardised(X), y, n_jobs=1).pvalues), nan=1.0)
    return Outcome(p_values, {fdr: benjamini_hochberg(p_values, fdr) for fdr in FDR})


def benjamini_hochberg(p_values: np.ndarray, fdr: float) -> np.ndarray:
    """Return which p-values are below the largest that is at most fdr times its share of all.

    >>> benjamini_hochberg(np.array([0.5, 0.01, 0.06, 0.9]), 0.1).tolist()
    [False, True, False, False]
    """
    ordered = np.sort(p_values)
    below = ordered <= fdr * np.arange(1, len(ordered) + 1) / len(ordered)
    return p_values <= (ordered[below][-1] if below.any() else -1.0)


def dense(X: Any) -> np.ndarray:
    """Return rows as an array."""
    return X.toarray() if issparse(X) else X


def standardised(X: Any) -> np.ndarray:
    """Return rows as an array with columns of mean 0 and variance 1; a constant column is 0."""
    X = dense(X) - np.asarray(X.mean(axis=0)).ravel()
    spread = X.std(axis=0)
    return X / np.where(spread > 0.0, spread, 1.0)


OURS, IPSS, CLASSICAL = "sparsco", "ipss", "stability"
METHODS: dict[str, Method] = {
    OURS: ours,
    IPSS: integrated,
    CLASSICAL: classical,
    "cross-validated": cross_validated,
    "knockoffs": knockoffs,
    "debiased": desparsified,
}
NEEDS = {OURS: ("sparsco",), IPSS: ("ipss",), "knockoffs": ("hidimstat",), "debiased": ("skein_glm",)}
"""Packages without which a method cannot run; the others need scikit-learn alone."""
REPETITIONS = {OURS: 100, IPSS: 20, CLASSICAL: 20, "cross-validated": 20, "knockoffs": 20, "debiased": 20}
"""By default; others are slow."""
