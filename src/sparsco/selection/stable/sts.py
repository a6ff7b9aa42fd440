"""STS: staged learning on many paths with a target size.

A stage learns every path from zero on the stable set, and averages over iterates and paths.  It keeps the share
``keep`` of features with the largest effect on the margin and the most consistent sign.  Sets are nested; rows are
restricted to them.
"""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ...conversions.choose import WORSE
from ...data.randomness import Purpose, bits
from ...data.rows import Matrix, margins
from ...losses import value
from ...parts.part import part
from ...problem.pilot import best_constants
from ...util.notices import warn
from ...util.threads import Pool
from .method import SelectionMethod
from .paths import Examples, rows_of_paths, run_path, starting_intercepts, step_sizes, sum_squares

_ROWS_OF_CONSTANTS = 1000
FEW_ROWS = 200
"""The number of rows below which cross-validation cannot distinguish sizes."""


@part(
    SelectionMethod,
    keep="the share of features that a stage keeps",
    subsample="the share of rows that a path learns, 0.5 or 1",
    memory="nonzeros that a stream keeps",
)
class STS(NamedTuple):
    """Staged learning on many paths with a target size, with its constants.

    Each of ``paths`` learns a random half of the rows (``subsample`` 1: all rows).  It does so ``passes`` times in a
    stage (None: 2 to 5, by the number of rows).  A stage keeps about the share ``keep`` of its features.  A stream
    keeps ``memory`` nonzeros.
    """

    paths: int = 16
    keep: float = 0.25
    subsample: float = 0.5
    passes: int | None = None
    memory: int = 1_000_000

    def check(self) -> None:
        """Raise a ValueError for a constant out of its range."""
        for name in ("paths", "passes", "memory"):
            count = getattr(self, name)
            if not (count is None and name == "passes" or isinstance(count, numbers.Integral) and int(count) >= 1):
                raise ValueError(f"STS({name}={count!r}): it must be a whole number, at least 1.")
        if not 0.0 < self.keep < 1.0:
            raise ValueError(f"STS(keep={self.keep!r}): the share to keep must lie between 0 and 1, both excluded.")
        if self.subsample not in (0.5, 1.0):
            raise ValueError(f"STS(subsample={self.subsample!r}): it must be 0.5 (halves) or 1 (all rows).")

    def passes_over(self, n: int) -> int:
        """Return the number of passes over n rows in a stage."""
        return min(5, max(2, -(-5000 // max(n, 1)))) if self.passes is None else int(self.passes)


class Stage(NamedTuple):
    """A stable set and the model on it: ``coef`` (models, size) of the columns ``features``."""

    features: np.ndarray
    coef: np.ndarray
    intercept: np.ndarray
    step: float
    kappa: float
    """The agreement of the paths' own choices of the next set, as a mean over pairs of paths."""
    chosen: np.ndarray
    """The share of paths whose own choice has the feature."""


def sizes_of_stages(q: int, keep: float, k: int) -> list[int]:
    """Return the sizes of the stages from q to k, each about the share ``keep`` of the one before.

    The shares are equal, and the number of stages is whole.

    >>> sizes_of_stages(1000, 0.25, 20)
    [1000, 272, 74, 20]
    """
    if k >= q:
        return [q]
    purges = max(1, round(math.log(k / q) / math.log(keep)))
    sizes = [math.ceil(round(q * (k / q) ** (s / purges), 6)) for s in range(purges)]
    return [*dict.fromkeys(size for size in sizes if size > k), k]


class Plan(NamedTuple):
    """The problem and the method of a stage: loss, constants, seed and intercept."""

    loss: Any
    method: STS
    seed: int
    intercept: bool


def fit_stages(examples: Examples, columns: np.ndarray, sizes: list[int], plan: Plan, threads: Pool) -> list[Stage]:
    """Return nested stable sets of these sizes among ``columns``; the arrays of the examples are overwritten."""
    examples, found = examples.only(columns), []
    for s, following in enumerate([*sizes[1:], sizes[-1]]):
        factors = np.ones(len(columns))
        if s == len(sizes) - 1:  # the choice is made: every path may have all rows, and rare features larger steps
            fewer = plan.method._replace(subsample=1.0, paths=(int(plan.method.paths) + 1) // 2)
            plan = plan._replace(method=fewer if plan.method.subsample < 1.0 else plan.method)
            factors = even_out(examples.rows) if plan.loss.classifies else factors
        stage, kept = run_stage(examples, columns, following, s, plan, threads)
        found.append(stage._replace(coef=stage.coef * factors))
        if len(kept) < len(columns):
            columns, examples = columns[kept], examples.only(kept)
    return _without_zeros(found)


def even_out(rows: Matrix) -> np.ndarray:
    """Multiply columns in place by their mean square to the power -1/4, and return the factors.

    The mean norm of the rows stays the same.  SGD then moves a feature as AdaGrad would, by the inverse root of its
    frequency.
    """
    squares = np.zeros(rows.d)
    sum_squares(rows.indices, rows.data, squares)
    factors = np.where(squares > 0.0, squares, 1.0) ** -0.25
    factors *= np.sqrt(squares.sum() / max(np.sqrt(squares).sum(), np.finfo(float).tiny))
    np.multiply(rows.data, factors[rows.indices], out=rows.data)
    return factors


def _without_zeros(found: list[Stage]) -> list[Stage]:
    """Return the stages, with weights of the stage before for chosen features that are zero in the last stage.

    The rows of such a feature never made a step in the last stage.
    """
    last, zero = found[-1], ~found[-1].coef.any(axis=0)
    if len(found) < 2 or not zero.any():
        return found
    before = found[-2].coef[:, np.searchsorted(found[-2].features, last.features)]
    return [*found[:-1], last._replace(coef=np.where(zero, before, last.coef))]


@dataclass(frozen=True)
class _Shared:
    """The data that all paths of a stage share."""

    examples: Examples
    steps: np.ndarray
    loss: Any
    intercept: bool
    passes: int
    seed: int


def _run_path(model: int, order: np.ndarray, b: float, first: int, to: _Shared) -> tuple[np.ndarray, float]:
    return run_path(to.examples, model, order, to.steps, to.loss, b, to.intercept, to.passes, to.seed, first)


def run_stage(
    examples: Examples, columns: np.ndarray, following: int, s: int, plan: Plan, threads: Pool
) -> tuple[Stage, np.ndarray]:
    """Run stage number s on examples that have these columns alone.

    Return the stage and the columns of the following set.
    """
    loss, method, seed, intercept = plan
    n, m, M, q = examples.n, len(examples.targets), int(method.paths), len(columns)
    passes = method.passes_over(n)
    halves = rows_of_paths(n, M, method.subsample, seed)
    start, factor = starting_intercepts(loss, examples.targets)
    if following < q and loss.classifies:  # a stage that chooses: steps half as large, and paths agree more
        factor *= 0.5
    squares = np.zeros(q)
    sum_squares(examples.rows.indices, examples.rows.data, squares)
    steps = step_sizes(examples, squares.sum() / n, loss, factor)
    items = [
        (model, halves[path], float(start[model]) * intercept, (s * M + path) * passes)
        for path in range(M)
        for model in range(m)
    ]
    held = threads.hold(_Shared(examples, steps, loss, intercept, passes, seed))
    found = threads.map("sparsco-path", _run_path, items, held)
    W, B = np.array([w for w, _ in found]).reshape(M, m, q), np.array([b for _, b in found]).reshape(M, m)
    w, b = W.mean(axis=0), B.mean(axis=0)
    scale = np.sqrt(squares / n)
    chosen, kappa = own_choices(W, scale, following)
    kept = best(effect(w * np.abs(np.sign(W).mean(axis=0)), scale), following)
    return Stage(columns, w, b, float(steps.max(initial=0.0)), kappa, chosen), kept


def effect(w: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Return the effect of a feature on the margins.

    It is the norm of its weights over models (..., models, q) times its root mean square.
    """
    return scale * np.sqrt(np.square(w).sum(axis=-2))


def best(score: np.ndarray, k: int) -> np.ndarray:
    """Return the numbers of the k largest scores in ascending order; of equal scores the first ones are taken.

    >>> best(np.array([1.0, 3.0, 2.0, 2.0]), 2).tolist()
    [1, 2]
    """
    if k >= len(score):
        return np.arange(len(score))
    level = np.partition(score, len(score) - k)[len(score) - k]
    above, equal = np.flatnonzero(score > level), np.flatnonzero(score == level)
    return np.sort(np.concatenate([above, equal[: k - len(above)]]))


def own_choices(W: np.ndarray, scale: np.ndarray, k: int) -> tuple[np.ndarray, float]:
    """Return the share of paths that have each feature among their k best, and Cohen's kappa over pairs of paths."""
    M, _, q = W.shape
    if k >= q or M < 2:
        return np.ones(q), 1.0
    masks = np.zeros((M, q), np.float32)
    for mask, w in zip(masks, W, strict=True):
        mask[best(effect(w, scale), k)] = 1.0
    shared = np.array([masks[a] @ masks[b] for a in range(M) for b in range(a)], np.float64)
    agree, chance = 1.0 - 2.0 * (k - shared.mean()) / q, (k / q) ** 2 + (1.0 - k / q) ** 2
    return masks.mean(axis=0), float((agree - chance) / (1.0 - chance))


# ---- how many features ----------------------------------------------------------------------------------------------


class Validated(NamedTuple):
    """The cross-validated loss of every size, its standard error, and the chosen size.

    For classifiers the loss is the error rate.
    """

    sizes: np.ndarray
    errors: np.ndarray
    standard_error: float
    chosen: int


def choose_size(examples: Examples, columns: np.ndarray, plan: Plan, threads: Pool) -> Validated:
    """Return the smallest size whose cross-validated error is within one standard error of the least.

    Folds are repeated if rows are few.  A size that is worse than a constant is a warning.
    """
    n = examples.n
    if n < 2:
        raise ValueError("n_features='auto' needs at least two rows, and there is only one sample: give a number.")
    if n < FEW_ROWS:
        warn(f"n_features='auto' uses cross-validation, and {n} rows are few (fewer than {FEW_ROWS}): give a number.")
    sizes = sizes_of_stages(len(columns), plan.method.keep, 1)
    fewer = plan.method._replace(paths=min(8, int(plan.method.paths)))
    folds = min(5, n)
    total, squares, constant, count = np.zeros(len(sizes)), np.zeros(len(sizes)), 0.0, 0
    for repeat in range(min(8, max(1, -(-3000 // n)))):
        fold = np.argsort(bits(plan.seed, Purpose.FOLD, np.arange(n) + (repeat << 40)), kind="stable") % folds
        for k in range(folds if n <= 20_000 else 2):
            held = np.flatnonzero(fold == k)
            part = examples.take(np.flatnonzero(fold != k))
            fold_plan = plan._replace(method=fewer, seed=plan.seed + 1 + repeat * folds + k)
            stages, out = fit_stages(part, columns, sizes, fold_plan, threads), examples.take(held)
            wrong = np.array([_losses(out, stage, plan.loss) for stage in stages])
            constant += float(_losses(out, _nothing(part, plan), plan.loss).sum())
            total, squares, count = total + wrong.sum(1), squares + np.square(wrong).sum(1), count + len(held)
    errors = total / count
    least = int(np.argmin(errors))
    error = math.sqrt(max(squares[least] / count - errors[least] ** 2, 0.0) / min(count, n))
    size = int(np.flatnonzero(errors <= errors[least] + error).max())
    if errors[size] > constant / count:
        warn(WORSE.format("n_features='auto'", "give more rows or other features"))
    return Validated(np.array(sizes), errors, error, sizes[size])


def _nothing(examples: Examples, plan: Plan) -> Stage:
    """Return the model without features: the best constants of some of the rows."""
    some, m = slice(None, None, max(examples.n // _ROWS_OF_CONSTANTS, 1)), len(examples.targets)
    weights = np.tile(examples.weights[some, None], (1, m))
    b = best_constants(plan.loss, examples.targets[:, some].T, weights, plan.intercept)
    return Stage(np.zeros(0, np.int64), np.zeros((m, 0)), b, 0.0, 1.0, np.zeros(0))


def _losses(held: Examples, stage: Stage, loss: Any) -> np.ndarray:
    """Return for each held-out row whether its class is missed, or the loss of a regression."""
    p = margins_of(held.rows, stage)
    y = held.targets.T
    if not loss.classifies:
        return value(loss, p, y).sum(axis=1)
    missed = p[:, 0] * y[:, 0] <= 0.0 if p.shape[1] == 1 else p.argmax(axis=1) != y.argmax(axis=1)
    return missed.astype(np.float64)


def margins_of(rows: Matrix, stage: Stage) -> np.ndarray:
    """Return the margins of prepared rows, (rows, models)."""
    w = np.zeros((rows.d, len(stage.coef)))
    w[stage.features] = stage.coef.T
    return margins(*rows[:3], w, np.array(stage.intercept))
