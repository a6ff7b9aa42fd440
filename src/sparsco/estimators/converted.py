"""A converted model: the result of phase two for the runs of a fit, with its report."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..conversions.averaging import Answer
from ..conversions.choose import MORE_FEATURES, WORSE, SizedModel
from ..engine.finishing import finish_runs
from ..engine.run import Run
from ..error_control.scores import StabilityPaths
from ..inference.record import Intervals
from ..penalties import ElasticNet, GroupL1, SparseGroup, with_strength
from ..util.notices import warn


class Converted(NamedTuple):
    """A converted model with its history and its report; a fit state owns it."""

    coef: sp.csr_array
    intercept: np.ndarray
    t: int
    history: list[dict[str, float]]
    report: dict[str, Any]
    sizes: tuple[SizedModel, ...] | None = ()
    """Models with fewer features, of an automatic choice; None: not yet."""
    columns: sp.csr_array | None = None
    """The standard deviation and the share of nonzeros, (2, features), of features with a weight; None: not yet."""
    stability: StabilityPaths | None = None
    """How many halves of the rows selected each feature, of a selection with a promise."""
    intervals: Intervals | None = None
    """The intervals of its weights; None: they were not asked for."""
    platt: np.ndarray | None = None
    """Slopes and intercepts of calibrated probabilities, (2, outputs)."""
    unlearned: Any = None
    """Margins, codes and weights of rows that were not learned, until the model is calibrated."""

    def at(self, features: np.ndarray) -> Converted:
        """Return the model restricted to some features, which include all that have a weight."""
        sizes = self.sizes and tuple(each._replace(coef=sp.csr_array(each.coef[:, features])) for each in self.sizes)
        columns = None if self.columns is None else sp.csr_array(self.columns[:, features])
        stability = None if self.stability is None else self.stability.at(features)
        intervals = None if self.intervals is None else self.intervals.at(features)
        coef = sp.csr_array(self.coef[:, features])
        return self._replace(coef=coef, sizes=sizes, columns=columns, stability=stability, intervals=intervals)

    def at_size(self, k: int) -> Converted:
        """Return the stored model of least loss on held-out rows among those of at most k features."""
        if not self.sizes:
            raise ValueError("at_size needs a fit with an automatic choice: give no alpha, optimizer, conversion.")
        stored = [each for each in self.sizes if each.size <= k]
        if not stored:
            raise ValueError(f"k={k}: the smallest model that is stored has {self.sizes[0].size} features.")
        fewer = min(stored, key=lambda each: (each.loss, each.size))
        first, *others = self.report["converted"]
        nothing = first["choice"]["candidates"][0]
        if fewer.loss > nothing["loss"]:
            warn(WORSE.format(f"at_size({k})", MORE_FEATURES))
        choice = first["choice"] | {"alpha": None, "l1_ratio": None, "relaxed": True, "size": fewer.size}
        report = self.report | {"converted": [first | {"choice": choice}, *others]}
        return self._replace(coef=fewer.coef, intercept=fewer.intercept, report=report, intervals=None, platt=None)

    def arranged(self, arranged: Callable[[Any], Any]) -> Converted:
        """Return the model with all weights in another order of the models, that of ``coef_``."""
        sizes = self.sizes and tuple(each.arranged(arranged) for each in self.sizes)
        return self._replace(coef=arranged(self.coef), intercept=arranged(self.intercept), sizes=sizes)

    def with_columns_of(self, run: Run) -> Converted:
        """Return the model with the spreads of its features in the rows that a run keeps: its sample, or its pilot."""
        (totals, n), used = run.column_sums(), self.used
        counts, sums, squares = (total[used] / max(n, 1) for total in totals)
        spreads = np.sqrt(np.maximum(squares - np.square(sums), 0.0))
        parts = np.concatenate([spreads, counts]), np.tile(used, 2), len(used) * np.arange(3)
        return self._replace(columns=sp.csr_array(parts, shape=(2, run.d)))

    @property
    def used(self) -> np.ndarray:
        """Return the features that have a weight in the model, or in one of fewer features, or an interval."""
        is_used = np.zeros(self.coef.shape[1], bool)
        if self.intervals is not None:
            is_used[self.intervals.features] = True
        for model in (self, *(self.sizes or ())):
            is_used[model.coef.indices] = True
        return np.flatnonzero(is_used)


def named_promise(promise: dict[str, Any], labels: Callable[[list[Any]], list[Any]]) -> dict[str, Any]:
    """Return the report of a promise with other labels for its features; ``labels`` returns those of a list."""
    return promise | {
        "constant_columns": labels(promise["constant_columns"]),
        "identical": [labels(each) for each in promise["identical"]],
        "correlated": [[*labels([a, b]), r] for a, b, r in promise["correlated"]],
    }


def by_names(names: Mapping[int, Any]) -> Callable[[list[Any]], list[Any]]:
    """Return a function from a list of features to their names; features are columns, or have names already."""
    return lambda features: [names.get(each, each) if isinstance(each, int) else each for each in features]


def with_promise(model: Converted, labels: Callable[[list[Any]], list[Any]]) -> Converted:
    """Return the model with other labels for the features in its promise."""
    first, *others = model.report["converted"]
    named = first | {"promise": named_promise(first["promise"], labels)}
    return model._replace(report=model.report | {"converted": [named, *others]})


def sizes_of(runs: list[Run]) -> tuple[SizedModel, ...]:
    """Return the models of fewer features of all runs, learned from the rows that they keep."""
    return tuple(runs[0].conversion.sized(runs))


def convert_runs(runs: list[Run], answers: list[Answer] | None = None) -> Converted:
    """Return the models of all runs as one model.

    The runs must have begun.  ``answers`` replaces the answers of the runs, if given.
    """
    answers = answers or finish_runs(runs)
    first = runs[0]
    w = np.concatenate([answer.w for answer in answers], axis=1)
    choice = answers[0].report.get("choice")
    if first.examples and not w.any() and choice is None and answers[0].stability is None:
        first.warn("no feature was selected: lower alpha, or give more examples.")
    ends = [
        run.history_point(run.for_learned_rows(answer.w), answer.b) for run, answer in zip(runs, answers, strict=True)
    ]
    looks = [*zip(*(run.history for run in runs if not run.late), strict=True), ends]
    return Converted(
        as_sparse(w),
        np.concatenate([answer.b for answer in answers]),
        first.examples,
        [
            {"t": p[0]["t"], "objective": sum(q["objective"] for q in p), "nonzeros": sum(q["nonzeros"] for q in p)}
            for p in looks
        ],
        described(runs, _penalty_of(first, choice))
        | {"converted": [answer.report for answer in answers]}
        | _groups(first.problem.penalty, w),
        None if answers[0].sizes is None else tuple(answers[0].sizes),
        stability=answers[0].stability,
        unlearned=answers[0].unlearned,
    )


def as_sparse(w: np.ndarray) -> sp.csr_array:
    """Return weights (features, models) as a sparse array (models, features); SciPy's own way takes twice as long."""
    kind = np.int32 if max(w.shape) < 1 << 31 else np.int64
    models, features = np.divmod(np.flatnonzero(w.T), len(w))
    ends = np.searchsorted(models, np.arange(w.shape[1] + 1))
    return sp.csr_array((w[features, models], features.astype(kind), ends.astype(kind)), shape=w.shape[::-1])


def _groups(penalty: Any, w: np.ndarray) -> dict[str, Any]:
    """Return how many groups a penalty of groups has, and how many of them the weights w (d, models) select."""
    if not isinstance(penalty, GroupL1 | SparseGroup):
        return {}
    chosen, every = (np.bincount(each) for each in (penalty.groups[w.any(1)], penalty.groups))  # faster than np.unique
    return {"groups": {"selected": int(np.count_nonzero(chosen)), "of": int(np.count_nonzero(every))}}


def _penalty_of(run: Run, choice: dict[str, Any] | None) -> Any:
    """Return the penalty of a model: the one of its run, or the one that was chosen; none if a size was chosen."""
    if choice is None:
        penalty, rounding = run.problem.penalty, run.rounding
        return with_strength(rounding.penalty, penalty) if rounding and rounding.reweights else penalty
    alpha, l1_ratio = choice["alpha"] or 0.0, choice["l1_ratio"] or 0.0
    return ElasticNet(alpha * l1_ratio, alpha * (1.0 - l1_ratio))


def described(runs: list[Run], penalty: Any) -> dict[str, Any]:
    """Return the choices of a fit, for a report: optimizer, penalty, loss, steps, conversion, warnings."""
    first = runs[0]
    assert first.pilot is not None  # a run that has converted has begun
    fades = {} if first.half_life is None else {"half_life": first.half_life}
    return fades | {
        "optimizer": first.optimizer.base,
        "penalty": penalty,
        "loss": first.problem.loss,
        "lam": float(penalty.lam),
        "rho": float(penalty.rho),
        "step_size": first.step if first.optimizer.uses_steps else None,
        "conversion": first.rounding or first.conversion,
        "L_mean": first.pilot.L_mean,
        "pilot_rows": first.pilot.n,
        "examples": first.examples,
        "warnings": list(dict.fromkeys(message for run in runs for message in run.warnings)),
    }
