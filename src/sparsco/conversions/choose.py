"""The automatic conversion: strength, mixture and refit are chosen on a sample of the stream, and solved there.

Phase one keeps a uniform sample of the rows, and an iterate that predicts while the stream goes on.  Phase two chooses
among candidates by their losses on held-out rows of the sample (``choice``), and solves for the chosen one on all of
the sample.  While the sample holds the whole stream, that is the model of all rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..choice.candidates import DEEPEST, EMPTY, Candidate, Judged, judge
from ..choice.fitting import Fit, Strength, fit, fit_nothing
from ..choice.out_of_fold import ENOUGH_OF_CLASS, ENOUGH_ROWS, out_of_fold
from ..choice.problem import Task, task_of
from ..choice.rule import RULES, choose, choose_size
from ..choice.sizes import fit_sizes, judge_sizes, sizes_up_to
from ..choice.splits import FEW_ROWS, JUDGED, ByRow, first_splits, splits_of
from ..parts.contracts import Conversion, part
from ..penalties import ElasticNet, elastic_net
from ..problem.state import Nothing
from .averaging import Answer
from .reservoir import SampleRows

MIXTURES = (1.0, 0.2)
"""The shares of the L1 term among which the automatic choice is made."""
MORE_MIXTURES = ((2000, 0.05), (FEW_ROWS, 0.01))
"""Numbers of rows below which a further share is tried: few rows often need more of the L2 term."""
ROWS_IN_MEMORY = 4_000_000
"""The nonzeros of the sample; a stream that has no more is kept whole."""
LARGEST_SIZE = 1000
WORSE = "{}: on rows that were not learned its model was no better than a constant; {}."
"""The warning for all choices; what was chosen, and what to do, are filled in."""
MORE_FEATURES = "allow more features"


class SizedModel(NamedTuple):
    """A model with at most ``size`` features, and its loss on held-out rows with the standard error of that loss."""

    size: int
    loss: float
    error: float
    coef: sp.csr_array
    intercept: np.ndarray

    def arranged(self, arranged: Callable[[Any], Any]) -> SizedModel:
        """Return the model with its weights in another order of the models of a run."""
        return self._replace(coef=sp.csr_array(arranged(self.coef)), intercept=arranged(self.intercept))


class LeftOut(NamedTuple):
    """Rows that a model has not learned: margins of all models (rows, models), targets, and weights."""

    p: np.ndarray
    y: np.ndarray
    weights: np.ndarray


@part(
    Conversion,
    rule='"balanced", "min", "1-se", or the largest number of features',
    mixtures="the shares of the L1 term to choose from",
    standardize="whether columns are penalised in units of their spread",
    given="a Strength that is given; None: it is chosen",
    relaxes="whether the selected features may be learned again without the L1 term",
    folds="the number of folds that are held out; None: as the number of rows allows",
    by_row="the ByRow of one fit: splits and groups of its rows; None: there are none",
    calibrates="whether margins of rows that were not learned are computed",
)
class Choose(NamedTuple):
    """A choice of strength and mixture on held-out rows of a sample, solved on that sample.

    Parameters
    ----------
    rule : str or int
        "balanced": the fewest features within half a standard error of the least loss, with 99% of the gain.  "min":
        the least loss.  "1-se": the fewest features within one standard error.  A number: the most features.
    mixtures : tuple of float
        The shares of the L1 term.
    standardize : bool
        Whether columns are penalised in units of their spread.
    given : Strength or None
        A strength that is given, in place of a choice.
    relaxes : bool
        Whether the selected features may be learned again without the L1 term.
    folds : int or None
        The number of folds, which are all held out in turn.  None: a held-out sample or up to five folds, as the number
        of rows allows.
    by_row : ByRow or None
        The splits and groups that were given for the rows of one fit.
    calibrates : bool
        Whether margins of rows that were not learned are computed, by which probabilities are calibrated.
    """

    rule: str | int = "balanced"
    mixtures: tuple[float, ...] = MIXTURES
    standardize: bool = True
    given: Strength | None = None
    relaxes: bool = True
    folds: int | None = None
    by_row: ByRow | None = None
    calibrates: bool = False

    forgets = True
    needs_sample = True
    sample_nonzeros = ROWS_IN_MEMORY
    joins_runs = True

    def check(self) -> None:
        if isinstance(self.rule, str) and self.rule not in RULES:
            raise ValueError(f"choose={self.rule!r}: it must be one of {', '.join(RULES)}, or a number of features.")

    def watch(self, loss: Any) -> Any:
        return Nothing()

    def finish(self, run: Any) -> Answer:
        return self.finish_runs([run])[0]

    def penalty(self, answer: Answer) -> ElasticNet:
        """Return the penalty of an answer, in the units of the columns."""
        choice = answer.report["choice"]
        return elastic_net(choice["alpha"], choice["l1_ratio"], None)

    def units(self, run: Any) -> np.ndarray:
        """Return the unit of each feature of a run; 1 for one that is not in its sample."""
        rows, units = run.sample().R, np.ones(run.d)
        task, columns = task_of(rows, rows.targets, rows.weights, run.problem._replace(d=run.d), self.standardize)
        units[columns] = task.units
        return units

    def finish_runs(self, runs: list[Any]) -> list[Answer]:
        """Return the answers of all runs of a model, of which the first run has the sample."""
        sampled = self.sampled(runs)
        outcome = self.solved(sampled.task, self.judged(sampled.task, runs[0].seed), runs[0].seed)
        first, *others = sampled.answers(runs, outcome)
        return [first._replace(unlearned=self.unlearned(runs[0], sampled, outcome)), *others]

    def sized(self, runs: list[Any]) -> list[SizedModel]:
        """Return models of fewer features of all runs, learned from the sample, with their losses on held-out rows."""
        sampled = self.sampled(runs)
        return sampled.sized(self._sizes(sampled.task, runs[0].seed))

    def unlearned(self, run: Any, sampled: Sampled, outcome: Outcome) -> LeftOut | None:
        """Return rows of the sample, each at the model of other folds, by which probabilities are calibrated."""
        if not self.calibrates or sampled.task.n < 2:
            return None
        enough = ENOUGH_ROWS, ENOUGH_OF_CLASS
        return self._left_out(run, sampled, outcome.report, not len(outcome.found.columns), enough)

    def left_out(self, runs: list[Any], report: Mapping[str, Any], is_empty: bool) -> LeftOut | None:
        """Return the same of a choice with this report, by which its model is judged: of as many rows as judge it.

        ``is_empty`` is True for a model without features.
        """
        sampled = self.sampled(runs)
        return None if sampled.task.n < 2 else self._left_out(runs[0], sampled, report, is_empty, (JUDGED, 0))

    def _left_out(
        self, run: Any, sampled: Sampled, report: Mapping[str, Any], is_empty: bool, enough: tuple[int, int]
    ) -> LeftOut:
        groups, given = self._groups_and_splits(sampled.task)
        learn = self._learner(sampled.task.n, report, is_empty)
        rows, p = out_of_fold(sampled.task, run.seed, learn, self.folds, groups, given, enough)
        sample = run.sample().R
        return LeftOut(sampled.wide_margins(p), sample.y[rows], sample.weights[rows, 0])

    def _learner(self, n: int, report: Mapping[str, Any], is_empty: bool) -> Callable[[Task], Fit]:
        """Return a function that learns the chosen model from other rows, of which there are fewer than n."""
        if is_empty:
            return fit_nothing
        if report["alpha"] is None:
            size = int(report["size"])
            return lambda task: dict(fit_sizes(task, [size], self.mixtures[:2])).get(size) or fit_nothing(task)
        lam, l1_ratio, relaxed = report["alpha"], report["l1_ratio"], report["relaxed"]
        shrinks = 1.0 if self.given is None else 0.0  # as a chosen strength falls with the number of rows
        return lambda task: fit(task, Strength(lam * (n / task.n) ** (0.5 * shrinks), l1_ratio, relaxed))

    def _groups_and_splits(self, task: Task) -> tuple[np.ndarray | None, Any]:
        """Return the groups of the rows of a task, and the splits that were given."""
        given, groups = ((), None) if self.by_row is None else self.by_row
        return None if groups is None else groups[task.numbers], given

    def sampled(self, runs: list[Any], rows: SampleRows | None = None) -> Sampled:
        """Return the rows of the sample, or some of them, with the targets of all runs."""
        first = runs[0]
        rows = first.sample().R if rows is None else rows
        lanes = [run.lanes_of(rows.y, rows.weights[:, 0]) for run in runs]
        targets, weights = (np.concatenate([each[k] for each in lanes], axis=1) for k in (0, 1))
        is_mirrored = first.problem.loss.classifies and _are_mirrored(targets)
        if is_mirrored:
            targets, weights = targets[:, :1], weights[:, :1]
        task, columns = task_of(rows, targets, weights, first.problem._replace(d=first.d), self.standardize)
        return Sampled(task, columns, is_mirrored, first.problem.loss.couples, first.d)

    @property
    def budget(self) -> int | None:
        """Return the largest number of features; None where there is no limit."""
        return None if isinstance(self.rule, str) else int(self.rule)

    @property
    def rule_of_losses(self) -> str:
        """Return the rule by which strengths are compared."""
        return self.rule if isinstance(self.rule, str) else RULES[0]

    def judged(self, task: Task, seed: int) -> Judged | None:
        """Return the candidates with their losses on held-out rows; None where the strength is given."""
        if self.given is not None:
            return None
        groups, given = self._groups_and_splits(task)
        splits = splits_of(task, seed, self.folds, groups, given)
        enough = JUDGED if self.folds is None and not given else None
        return judge(task, splits, seed, self._mixtures_of(task), self.relaxes, groups, enough)

    def _sizes(self, task: Task, seed: int) -> list[tuple[int, float, float, Fit]]:
        """Return models of fewer features, with their losses on held-out rows and the errors of these losses."""
        wanted = sizes_up_to(LARGEST_SIZE if self.budget is None else min(self.budget, LARGEST_SIZE))
        groups, given = self._groups_and_splits(task)
        splits, mixtures = splits_of(task, seed, self.folds, groups, given), self._mixtures_of(task)[:2]
        if self.folds is None and not given:
            splits = first_splits(splits, JUDGED)
        judged = judge_sizes(task, splits, seed, mixtures, wanted, groups)
        return [(size, *mean_and_error(judged[size]), each) for size, each in fit_sizes(task, sorted(judged), mixtures)]

    def _mixtures_of(self, task: Task) -> tuple[float, ...]:
        more = MORE_MIXTURES if self.mixtures == MIXTURES else ()
        return (*self.mixtures, *(share for rows, share in more if task.n < rows))

    def solved(self, task: Task, judged: Judged | None, seed: int) -> Outcome:
        """Return the chosen model with its report, learned from the rows of the task."""
        if self.given is not None or judged is None:
            assert self.given is not None
            return Outcome(fit(task, self.given), self._report(task, self.given, None, None), [], [])
        candidate = choose(judged, self.rule_of_losses)
        lam, l1_ratio = judged.strength(candidate)
        strength = Strength(lam * float(np.sqrt(judged.learned_rows / max(task.n, 1))), l1_ratio, candidate.relaxed)
        found = fit_nothing(task) if candidate == EMPTY else fit(task, strength)
        report, kept = self._report(task, strength, judged, candidate), None
        warnings = _warnings(task, judged, candidate)
        if self.budget is not None and len(found.columns) > self.budget:
            kept = self._sizes(task, seed)
            size = choose_size(judged, {own: loss for own, loss, _, _ in kept}, self.budget)
            by_size = {own: each for own, _, _, each in kept}
            found = by_size[size] if size in by_size else fit_nothing(task)
            if not size:
                warnings.append(f"no feature was selected: {WORSE.format(f'budget={self.budget}', MORE_FEATURES)}")
            report |= {"alpha": None, "l1_ratio": None, "relaxed": True, "size": size}
        return Outcome(found, report, kept, warnings)

    def _report(
        self, task: Task, strength: Strength, judged: Judged | None, candidate: Candidate | None
    ) -> dict[str, Any]:
        """Return what was chosen, and among what."""
        report: dict[str, Any] = {
            "alpha": float(strength.lam),
            "l1_ratio": float(strength.l1_ratio),
            "relaxed": bool(strength.relaxed),
            "standardize": self.standardize,
            "rows": task.n,
        }
        if judged is None:
            return report
        means, errors = judged.losses.mean(1), judged.losses.std(1) / np.sqrt(judged.losses.shape[1])
        report |= {"rule": self.rule, "held_out_rows": judged.judged_rows, "candidates": []}
        for k, each in enumerate(judged.candidates):
            row: dict[str, Any] = dict(zip(("alpha", "l1_ratio"), judged.strength(each), strict=True))
            row |= {"relaxed": each.relaxed, "features": float(judged.features[k])}
            row |= {"loss": float(means[k]), "error": float(errors[k])}
            report["candidates"].append(row | {"chosen": each == candidate})
        return report


class Outcome(NamedTuple):
    """The chosen model, its report, models by size with losses and errors, and warnings."""

    found: Fit
    report: dict[str, Any]
    sizes: list[tuple[int, float, float, Fit]] | None
    """None: they are learned on demand."""
    warnings: list[str]


class Sampled(NamedTuple):
    """The rows of a sample as a task for all models of several runs, and the columns that occur in them."""

    task: Task
    columns: np.ndarray
    is_mirrored: bool
    """Whether two models are opposite to each other; the task then has the first only."""
    couples: bool
    d: int

    def answers(self, runs: list[Any], outcome: Outcome) -> list[Answer]:
        """Return the answer of each run."""
        for message in outcome.warnings:
            runs[0].warn(message)
        sizes = None if outcome.sizes is None else self.sized(outcome.sizes)
        coef, b = self._wide(outcome.found)
        w, answers, at = coef.T.toarray(), list[Answer](), 0
        for run in runs:
            part = slice(at, at + run.problem.m)
            answers.append(Answer(w[:, part], b[part], {} if at else {"choice": outcome.report}, () if at else sizes))
            at = part.stop
        return answers

    def sized(self, sizes: list[tuple[int, float, float, Fit]]) -> list[SizedModel]:
        """Return models of fewer features with all features and models."""
        return [SizedModel(size, loss, error, *self._wide(found)) for size, loss, error, found in sizes]

    def _wide(self, found: Fit) -> tuple[sp.csr_array, np.ndarray]:
        """Return a fit with all features and models: weights (models, features) and intercepts."""
        w = sp.csr_array(found.w.T)
        columns = self.columns[found.columns[w.indices]]
        w = sp.csr_array((w.data, columns, w.indptr), shape=(self.task.m, self.d))
        if not self.is_mirrored:
            return w, found.b
        return self._half * sp.vstack([w, -w], "csr"), self._half * np.append(found.b, -found.b)

    @property
    def _half(self) -> float:
        """Return the share of each of two opposite models: of the difference of two margins, or either of them."""
        return 0.5 if self.couples else 1.0

    def wide_margins(self, p: np.ndarray) -> np.ndarray:
        """Return the margins of all models, (rows, models), from those of the task."""
        return self._half * np.hstack([p, -p]) if self.is_mirrored else p


def _are_mirrored(targets: np.ndarray) -> bool:
    """Return whether there are two models, one the opposite of the other: +1 and -1, or 1 and 0."""
    return targets.shape[1] == 2 and bool(np.array_equal(targets[:, 0] > 0.0, targets[:, 1] <= 0.0))


def mean_and_error(losses: np.ndarray) -> tuple[float, float]:
    return float(losses.mean()), float(losses.std() / np.sqrt(len(losses)))


def _warnings(task: Task, judged: Judged, candidate: Candidate) -> list[str]:
    """Return what a user should know about a choice."""
    found = []
    if task.n < FEW_ROWS:
        found.append(f"alpha='auto' was chosen on {task.n} rows, which is a guess: give more rows, or pass alpha=.")
    if judged.at_edge and candidate.depth == DEEPEST:
        found.append(
            "alpha='auto': the loss on held-out rows still fell at the smallest strength of the grid; pass a smaller "
            "alpha= to go on from there."
        )
    if candidate == EMPTY:
        found.append("no feature was selected: on held-out rows no model was better than a constant.")
    return found
