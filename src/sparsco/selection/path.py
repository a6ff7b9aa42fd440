"""The models of a path, and the rules that choose one of them."""

from __future__ import annotations

import copy
import numbers
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..conversions.choose import WORSE
from ..estimators.converted import Converted
from ..estimators.linear import LinearModel
from ..penalties import RATIOS
from ..util.notices import warn

RULES = ("min", "1-se")


class Path:
    """The models of many strengths, largest first; it is small and independent of the training.

    ``alphas`` are their L1 weights, ``rhos`` their L2 weights, which are all the same.  For a mixture ``l1_ratio`` the
    alphas are the strengths of both terms together.  ``losses``, ``spreads`` and ``errors`` are
    figures on rows that were not learned, NaN if there were none.  They are the mean loss, its standard error, and the
    share of wrong labels or the mean squared error.  ``constants`` are the mean losses of a model without features on
    the same rows.  ``stability`` is the agreement of the selections of folds (the
    mean of Cohen's kappa over pairs), None without folds.
    """

    def __init__(
        self,
        shell: LinearModel,
        solved: list[Converted],
        judged: tuple[np.ndarray, ...],
        stability: np.ndarray | None = None,
        l1_ratio: float | None = None,
    ) -> None:
        self.shell, self.solved, self.stability = shell, solved, stability
        self.l1_ratio = l1_ratio
        self.rhos = np.array([each.report["rho"] for each in solved])
        self.alphas = np.array([each.report["lam"] for each in solved])
        if l1_ratio is not None:
            self.alphas = self.alphas + self.rhos
        self.losses, self.spreads, self.errors, self.constants = judged

    def __len__(self) -> int:
        return len(self.solved)

    @property
    def coefs(self) -> sp.csc_array:
        """Return the weights, (features, strengths); with several models, those of a strength are side by side."""
        every = sp.coo_array(sp.vstack(self._weights()))
        shape = int(self.shell.n_features_in_), every.shape[0]
        return sp.csc_array((every.data, (self.shell.fit_state.features.to_columns(every.col), every.row)), shape=shape)

    @property
    def intercepts(self) -> np.ndarray:
        """Return the intercepts, (strengths, models)."""
        return np.array([each.intercept for each in self.solved])

    @property
    def gaps(self) -> np.ndarray:
        """Return the largest violation of an optimality condition over alpha, by strength.

        It is NaN without ``polish``.
        """
        runs = [each.report["converted"] for each in self.solved]
        return np.array([max(max(run.get("polish", {"gaps": [np.nan]})["gaps"]) for run in own) for own in runs])

    @property
    def is_judged(self) -> bool:
        """Return whether there are losses on rows that were not learned."""
        return not np.isnan(self.losses).all()

    @property
    def nonzeros(self) -> np.ndarray:
        """Return the number of features that have a nonzero weight, for each strength."""
        return np.array([len(np.unique(c.indices)) if c.shape[0] > 1 else c.nnz for c in self._weights()])

    def _weights(self) -> list[sp.csr_array]:
        return [each.coef for each in self.solved]

    @property
    def feature_names(self) -> np.ndarray | None:
        """Return the names of the columns; None if they have none."""
        return self.shell.column_names

    @classmethod
    def beside(cls, parts: list[Path]) -> Path:
        """Return one path with the strengths of several paths, which were learned from the same rows."""
        figures = zip(*((part.losses, part.spreads, part.errors, part.constants) for part in parts), strict=True)
        return cls(
            parts[0].shell, [each for part in parts for each in part.solved], tuple(map(np.concatenate, figures))
        )

    def model(self, alpha: float) -> Any:
        """Return the model of one of the path's strengths as an estimator, which can predict but not learn further."""
        from ..estimators.sklearn import as_estimator

        if not isinstance(alpha, numbers.Real):
            raise ValueError(
                f"alpha={alpha!r}: it must be one of the path's strengths, alphas, such as choose('min') takes."
            )
        near = np.flatnonzero(np.isclose(self.alphas, float(alpha), rtol=1e-6, atol=0.0))
        if not near.size:
            nearest = float(self.alphas[np.abs(self.alphas - alpha).argmin()])
            raise ValueError(f"alpha={float(alpha)!r} is not one of the path's strengths; the nearest is {nearest!r}.")
        return as_estimator(self._at(int(near[0])))

    def _at(self, k: int) -> LinearModel:
        model, lam, rho = copy.deepcopy(self.shell), float(self.solved[k].report["lam"]), float(self.rhos[k])
        model.finish_with(self.solved[k], "a model of a path holds no training state")
        model.learn_strengths(None)
        if not isinstance(model.penalty, tuple):
            total = lam + rho
            model.penalty = "elasticnet" if model.penalty in RATIOS else model.penalty
            model.alpha, model.l1_ratio = total, lam / total if total > 0.0 else 1.0
        return model

    def choose(self, rule: Any = "min") -> float:
        """Return the strength that a rule takes.

        "min" takes the least loss on rows not learned.  "1-se" takes the largest strength whose loss is within one
        standard error of that.  A number k takes the least loss with at most k features.
        """
        check_rule(rule)
        nonzeros = self.nonzeros
        allowed = np.ones(len(self), bool) if isinstance(rule, str) else nonzeros <= rule
        if not allowed.any():
            raise ValueError(f"choose={rule!r}: the path's smallest model has {nonzeros.min()} features.")
        if not self.is_judged:
            if isinstance(rule, str):
                raise ValueError(
                    f"choose={rule!r} needs validation rows, and there are none: give more rows, hold rows "
                    "out (SparsePath: validation=0.2), or choose a number of features."
                )
            return float(self.alphas[allowed].min())
        return float(self.alphas[self._best(rule, allowed)])

    def _best(self, rule: Any, allowed: np.ndarray) -> int:
        """Return the place of the strength that a rule takes among those that are allowed."""
        losses = np.where(allowed & np.isfinite(self.losses), self.losses, np.inf)
        best = int(losses.argmin())
        if rule == "1-se":
            best = int(np.flatnonzero(losses <= losses[best] + self.spreads[best])[0])
        return best

    def warn_of(self, rule: Any) -> None:
        """Warn if what a rule takes is worse than a constant, or the least loss is at the first or last strength."""
        nonzeros, is_named = self.nonzeros, isinstance(rule, str)
        allowed = np.ones(len(self), bool) if is_named else nonzeros <= rule
        if not self.is_judged or not allowed.any():
            return
        best = self._best(rule, allowed)
        slack = 0.0 if nonzeros[best] else self.spreads[best]  # it is a constant, too, of other rows
        if self.losses[best] > self.constants[best] + slack:
            warn(WORSE.format(f"choose={rule!r}", "pass larger alphas=, or give more rows or other features"))
        elif is_named and len(self) > 1:
            self._warn_at_edge()

    def _warn_at_edge(self) -> None:
        """Warn if the least loss is at the first or last strength, with what to do."""
        best = self._best("min", np.ones(len(self), bool))
        where = f"alpha = {self.alphas[best]:.4g}"
        if best == len(self) - 1:
            warn(f"the least loss is at the smallest strength, {where}: pass smaller alphas= or eps=.")
        elif best == 0 and self.nonzeros[0]:
            warn(f"the least loss is at the largest strength, {where}: pass larger alphas=.")
        elif best == 0:
            warn(
                f"the least loss is at the largest strength, {where}, which selects no feature: give more rows, or "
                "other features."
            )

    def plot(self, *, axes: Any = None, chosen: float | None = None) -> Any:
        """Draw the weights against the strength of the penalty, and return the axes; this needs matplotlib."""
        from ..plots.paths import coefficient_path

        return coefficient_path(self, axes=axes, chosen=chosen)

    def table(self) -> list[dict[str, float]]:
        """Return a dict for each strength: the columns of a table."""
        columns = {
            "alpha": self.alphas,
            "nonzeros": self.nonzeros,
            "loss": self.losses,
            "spread": self.spreads,
            "error": self.errors,
        }
        gaps = self.gaps
        columns |= {} if np.isnan(gaps).all() else {"gap": gaps}
        return [{name: values[k].item() for name, values in columns.items()} for k in range(len(self))]


def check_rule(rule: Any) -> None:
    """Raise a ValueError if a rule is not "min", "1-se" or a number of features."""
    is_count = isinstance(rule, numbers.Integral) and not isinstance(rule, bool) and int(rule) >= 0
    if not (is_count or (isinstance(rule, str) and rule in RULES)):
        raise ValueError(f"choose={rule!r}: it must be 'min', '1-se' or a whole number of features.")
