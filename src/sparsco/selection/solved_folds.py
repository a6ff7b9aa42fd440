"""Folds that are solved: each goes down the strengths, every solution started at the one before."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..choice.fitting import Strength
from ..choice.problem import Task
from ..choice.scale import Scale
from ..conversions.choose import Choose
from ..data.randomness import seed_of
from ..data.rows import Matrix
from ..engine.polish import BY_MODEL, polish
from ..engine.polish_rows import RowsInMemory
from ..engine.run import PILOT_ROWS
from ..estimators.converted import Converted, described
from ..estimators.life_cycle import Phase
from ..estimators.parameters import LEAST_RATIO, check_parameters, ratio_of, tolerance
from ..estimators.part_names import named
from ..estimators.passes import counted_rows
from ..losses import value
from ..offsets import numbers_of
from ..penalties import RATIOS, ElasticNet, WeightedElasticNet
from ..problem.pilot import best_constants
from ..solver.columns import ByColumn, add_columns
from ..solver.elastic_net import Accuracy, is_dense, solver_of
from ..solver.lanes import Lanes, LaneSolver
from ..solver.smoothing import smooth
from ..solver.units import Units
from ..util.blas import one_blas_thread
from ..util.progress import step
from ..util.threads import Pool
from ..util.validation import is_auto, is_number, is_true
from .judging import Judged
from .lane_folds import Found
from .learning import Folds, choose_units

FOLDS, CHOSEN = Accuracy(5e-3, 8, 3, 0.3), Accuracy(1e-5, 40, 6)
"""How accurately the models of folds are solved, which are only judged, and the chosen model."""

_LANES = 32
"""The number of lanes that are solved side by side, of dense columns."""
_OWN_GRAM = 256
"""The number of dense columns up to which every lane has a Gram matrix of its own."""
_MARGINS = 1 << 24
"""The most margins in memory of lanes that are solved side by side."""


class Model(NamedTuple):
    """The models of a strength: weights (models, features) and intercepts."""

    coef: sp.csr_array
    b: np.ndarray


class Strengths(NamedTuple):
    """L1 and L2 weights, largest first."""

    lams: np.ndarray
    rhos: np.ndarray

    def __len__(self) -> int:
        return len(self.lams)

    def each(self) -> Iterator[tuple[float, float]]:
        """Yield the strength of both terms together and the share of the L1 term."""
        for lam, rho in zip(self.lams.tolist(), self.rhos.tolist(), strict=True):
            total = lam + rho
            yield total, lam / total if total > 0.0 else 1.0


class Job(NamedTuple):
    """What the folds share: the rows, their own weights and targets, the folds, and the estimator's shell."""

    task: Task
    own: np.ndarray
    y: np.ndarray
    folds: Folds
    shell: Any

    def kept(self, k: int) -> np.ndarray:
        """Return the rows that fold k learns; all rows for -1."""
        counts = self.own > 0.0
        return np.flatnonzero(counts if k < 0 else counts & self.folds.learned[k])


def is_solved(template: Any, mixtures: list[float] | None) -> bool:
    """Return whether folds are solved: nothing names an online method, and there is a solver for loss and penalty."""
    if template.preset is not None or not all(
        is_auto(getattr(template, name)) for name in ("optimizer", "conversion", "step_size")
    ):
        return False
    penalty = template.penalty
    if not (type(penalty) is ElasticNet or penalty in ("elasticnet", *RATIOS)):
        return False
    has_l2 = l2_weight(template) > 0.0 if mixtures is None else min(mixtures) < 1.0
    if template.feature_weights is not None and has_l2:  # weights of the L1 norm alone
        return False
    loss = named("loss", template.loss, template.known_losses)
    return not loss.couples and smooth(loss) is not None


def mixtures_of(given: Any, template: Any) -> list[float] | None:
    """Return the shares of the L1 term; None if the strengths are L1 weights beside an L2 weight that all share.

    That is so if the estimator has a strength, which sets the L2 weight.
    """
    if given is None:
        is_open = not isinstance(template.penalty, tuple) and is_auto(template.alpha)
        return [max(ratio_of(template), LEAST_RATIO)] if is_open and ratio_of(template) < 1.0 else None
    found = np.atleast_1d(np.asarray(given, dtype=object))
    if found.ndim != 1 or not found.size or not all(is_number(each, 0.0, 1.0) and each > 0.0 for each in found):
        raise ValueError(f"l1_ratio={given!r}: it must be a number above 0 and up to 1, or a list of them.")
    return [float(each) for each in found]


def l2_weight(template: Any) -> float:
    """Return the L2 weight that all strengths share: that of the estimator's strength, if it has one."""
    if isinstance(template.penalty, ElasticNet):
        return float(template.penalty.rho)
    return 0.0 if is_auto(template.alpha) else float(template.alpha) * (1.0 - ratio_of(template))


def learner_to_solve(template: Any, strengths: Any, random_state: Any) -> Any:
    """Return a new estimator with the same parameters, whose strength is open; a bad parameter is refused."""
    learner = type(template)(**template.settings())
    check_parameters(learner)
    choose_units(learner, strengths)
    if not isinstance(learner.penalty, tuple) and learner.penalty in RATIOS:
        learner.l1_ratio = 1.0
    learner.alpha, learner.penalty = "auto", "elasticnet"
    if random_state is not None:
        learner.random_state = random_state
    if not isinstance(learner.random_state, numbers.Integral):
        learner.random_state = seed_of(learner.random_state)  # one seed for all folds
    learner.early_stopping = learner.warm_start = False
    return learner


class SolvedFolds:
    """The folds of some rows, and the rows as a whole, to be solved along strengths."""

    def __init__(
        self, learner: Any, rows: tuple[Any, ...], folds: Callable[[np.ndarray, int], Folds], pool: Pool
    ) -> None:
        """Check the rows, and deal them into folds; the first rows fix the scale of the loss."""
        matrix, y, weights = learner.check_rows(*rows, reset=True)
        placed, codes, weights = learner.begin_rows(matrix, y, weights, phase=Phase.STREAM)
        own = np.ones(len(y)) if weights is None else weights
        state = learner.fit_state
        counted = counted_rows(len(y), weights)
        state.feed(placed, codes, own, counted[:PILOT_ROWS], False, learner.n_jobs)
        self.runs, self.learner, self.pool = state.begun(), learner, pool
        self.standardize = is_true(learner.standardize)
        found = folds(numbers_of(codes) if learner.classifies else np.zeros(len(y)), self.runs[0].seed)
        self.units = Units.of(placed, placed.d, weights).at() if self.standardize else np.ones(placed.d)
        task = _task(placed, codes, own, self.runs, self.units)
        self.rows, self.n_folds = (placed, codes, own), len(found.judged)
        self.job = Job(task, own, y if learner.classifies else codes, found, learner.shell())
        self.held = pool.hold(self.job)
        self.is_dense = is_dense(task.by_column(self.job.kept(-1))[0])

    def largest(self) -> float:
        """Return the smallest L1 weight that selects nothing."""
        task, rows = self.job.task, self.job.kept(-1)
        X, columns = task.by_column(rows)
        solver, found = solver_of(X, task.examples(rows, 0), task.units[columns], task.intercept), 0.0
        for q in range(task.m):
            if q:
                solver.take(task.examples(rows, q))
            found = max(found, solver.strength_of_nothing())
        return found * task.scale.of_l1 * (1.0 + 1e-4) or 1.0  # the digits of the folds

    def judged(self, strengths: Strengths, starts: list[Model | None]) -> tuple[list[list[Model]], np.ndarray]:
        """Return the models of all rows and of every fold, from a start for each, and the figures of the folds.

        The figures are (folds, 4, strengths).
        """
        folds = list(range(-1, self.n_folds))
        with one_blas_thread():
            models = self._solved(folds, strengths, starts)
            items = [(k, models[k + 1]) for k in folds[1:]]
            figures = self.pool.map("sparsco-judged-fold", _figures, items, self.held)
        return models, np.array(figures)

    def _solved(
        self, folds: list[int], strengths: Strengths, starts: list[Model | None], accuracy: Accuracy = FOLDS
    ) -> list[list[Model]]:
        """Return the models of some folds; -1 has all rows."""
        if not self.is_dense:
            items = [(k, strengths, start, accuracy) for k, start in zip(folds, starts, strict=True)]
            return self.pool.map("sparsco-fold", _fold, items, self.held)
        m = self.job.task.m
        size = max(1, min(_LANES, _MARGINS // max(self.job.task.n, 1)) // len(folds))
        size = -(-m // -(-m // size))  # blocks of about the same size
        blocks = [(range(q, min(q + size, m)), folds, strengths, starts, accuracy) for q in range(0, m, size)]
        found = self.pool.map("sparsco-fold", _dense_folds, blocks, self.held)
        return [[_beside(parts) for parts in zip(*each, strict=True)] for each in zip(*found, strict=True)]

    def solved(self, strengths: Strengths, models: list[Model]) -> list[Converted]:
        """Return the models of all rows with their reports; with ``polish`` they become certified optima."""
        n, certificates = len(self.job.kept(-1)), list[dict[str, Any]]()
        if tolerance(self.learner):
            models, certificates = self._polished(strengths, models)
        out = []
        for k, model in enumerate(models):
            report = self._report(float(strengths.lams[k]), float(strengths.rhos[k]))
            if certificates:
                report["converted"][0] |= {"polish": certificates[k]}
            out.append(Converted(model.coef, model.b, n, [], report))
        return out

    def refined(self, model: Converted) -> Converted:
        """Return a model of all rows that is solved to the end."""
        if tolerance(self.learner):
            return model
        strengths = Strengths(*(np.array([model.report[name]]) for name in ("lam", "rho")))
        with one_blas_thread():
            found = self._solved([-1], strengths, [Model(model.coef, model.intercept)], CHOSEN)[0][0]
        return model._replace(coef=found.coef, intercept=found.b)

    def _report(self, lam: float, rho: float) -> dict[str, Any]:
        """Return the report of a model."""
        total = lam + rho
        given = Strength(total, lam / total if total > 0.0 else 1.0, False)
        n = len(self.job.kept(-1))
        choice = {"alpha": given.lam, "l1_ratio": given.l1_ratio, "relaxed": False}
        choice |= {"standardize": self.standardize, "rows": n}
        return described(self.runs, ElasticNet(lam, rho)) | {
            "conversion": Choose(mixtures=(given.l1_ratio,), standardize=self.standardize, given=given, relaxes=False),
            "examples": n,
            "converted": [{"choice": choice}],
        }

    def _polished(self, strengths: Strengths, models: list[Model]) -> tuple[list[Model], list[dict[str, Any]]]:
        """Return the certified optima of all strengths, started at the solution of the largest, and certificates."""
        task, kept, tol, units = self.job.task, self.job.kept(-1), tolerance(self.learner), self.units
        targets = np.concatenate(
            [run.lanes_of(*(each[kept] for each in self.rows[1:]))[0] for run in self.runs], axis=1
        )
        rows = RowsInMemory(self.rows[0].take(kept), targets, task.weights[kept]).in_units(units)
        start = np.hstack([model.coef.toarray().T for model in models]) * units[:, None]
        found = polish(
            rows,
            start,
            np.concatenate([model.b for model in models]),
            loss=self.runs[0].problem.loss,
            penalty=_penalty(1.0, 0.0, self.runs[0].problem.penalty.pen),
            lams=np.repeat(strengths.lams, task.m),
            rhos=np.repeat(strengths.rhos, task.m),
            intercept=task.intercept,
            tol=tol,
            chains=task.m,
        )
        if (shortfall := found.shortfall(tol)) is not None:
            self.runs[0].warn(shortfall)
        out, certificates = [], []
        for k in range(len(models)):
            own = slice(k * task.m, (k + 1) * task.m)
            out.append(Model(sp.csr_array((found.w[:, own] / units[:, None]).T), found.b[own]))
            certificate: dict[str, Any] = {"tolerance": tol, "passes": found.passes}
            for name in BY_MODEL:
                each = getattr(found, name)[own]
                certificate[name] = each.tolist() if isinstance(each, np.ndarray) else each
            certificates.append(certificate)
        return out, certificates

    def found(self, strengths: Strengths, models: list[list[Model]], figures: np.ndarray, ratio: float | None) -> Found:
        """Return the outcome: the models of all rows beside the figures of the folds."""
        self.learner.n_iter_ = 1
        whole, *folds = models
        selected = [[model.coef for model in each] for each in folds]
        return Found(self.learner.shell(), self.solved(strengths, whole), figures, selected, ratio, self.refined)


def _penalty(lam: float, rho: float, pen: np.ndarray | None) -> Any:
    return ElasticNet(lam, rho) if pen is None else WeightedElasticNet(lam, rho, pen)


def _task(placed: Matrix, codes: np.ndarray, own: np.ndarray, runs: list[Any], units: np.ndarray) -> Task:
    """Return the rows with the targets and weights of all models; weights of features are those for y as it is."""
    lanes = [run.lanes_of(codes, own) for run in runs]
    targets, weights = (np.concatenate([each[k] for each in lanes], axis=1) for k in (0, 1))
    problem, n = runs[0].problem, len(own)
    if problem.penalty.pen is not None:
        units = units * problem.penalty.pen
    scale = Scale.of(problem.loss, targets, weights, problem.intercept)
    loss, csr = problem.loss.in_units_of(scale.unit), (placed.indptr, placed.indices, placed.data)
    losses = loss, smooth(loss)
    return Task(*csr, scale.inside(targets), weights, np.arange(n), units, *losses, problem.intercept, scale=scale)


def _fold(k: int, strengths: Strengths, start: Model | None, accuracy: Accuracy, job: Job) -> list[Model]:
    """Return the models of a fold along the strengths; k = -1 has all rows."""
    task, rows = job.task, job.kept(k)
    X, columns = task.by_column(rows)
    solver = solver_of(X, task.examples(rows, 0), task.units[columns], task.intercept)
    b, parts = np.empty((len(strengths), task.m)), list[list[tuple[np.ndarray, np.ndarray]]]()
    for q in range(task.m):
        scale = task.scale.of_models([q])
        if start is not None:
            w, first = scale.of_outside(start.coef[[q]].toarray()[0][columns], start.b[[q]])
            solver.start_at(task.examples(rows, q), w, float(first[0]))
        elif q:
            solver.take(task.examples(rows, q))
        parts.append([])
        for s, (total, ratio) in enumerate(strengths.each()):
            which = "all rows" if k < 0 else f"fold {k + 1} of {len(job.folds.judged)}"
            step(f"{which}: model {q + 1} of {task.m}, strength {s + 1} of {len(strengths)}")
            w, found = solver.solve(*scale.strength_inside(total, ratio), accuracy)
            used = np.flatnonzero(w)
            w, b[s, [q]] = scale.outside(w[used], np.array([found]))
            parts[q].append((columns[used], w))
    return [Model(_stacked([part[s] for part in parts], task.d), b[s]) for s in range(len(strengths))]


def _stacked(rows: list[tuple[np.ndarray, np.ndarray]], d: int) -> sp.csr_array:
    """Return sparse rows, given by columns and numbers, as one array."""
    indptr = np.append(0, np.cumsum([len(columns) for columns, _ in rows]))
    indices, data = (np.concatenate([row[k] for row in rows]) for k in (0, 1))
    return sp.csr_array((data, indices, indptr), shape=(len(rows), d))


def _dense_folds(
    block: range, folds: list[int], strengths: Strengths, starts: list[Model | None], accuracy: Accuracy, job: Job
) -> list[list[Model]]:
    """Return the models of some classes, for every fold, along the strengths: lanes of one dense problem."""
    task, rows = job.task, job.kept(-1)
    X, columns = task.by_column(rows)
    own, classes = rows[:, None], np.array(block)
    kept = np.stack([np.ones(len(rows), bool) if k < 0 else job.folds.learned[k, rows] for k in folds], 1)
    weights = task.weights[own, classes][:, None] * (kept / kept.sum(0))[:, :, None]
    y, shape = np.tile(task.targets[own, classes], len(folds)), (len(rows), len(folds) * len(block))
    lanes = Lanes(
        np.asfortranarray(y),
        np.asfortranarray(weights.reshape(shape)),
        task.smooth_loss,
        np.tile(classes, len(folds)) if len(columns) > _OWN_GRAM else np.arange(shape[1]),
    )
    solver, mean, spread = _lane_solver(X, lanes, task.units[columns], task.intercept, accuracy)
    given, scale = [start for start in starts if start is not None], task.scale.of_models(classes)
    if given:
        inside = [scale.of_outside(start.coef[classes].toarray()[:, columns], start.b[classes]) for start in given]
        w, b = np.concatenate([w for w, _ in inside]).T, np.concatenate([b for _, b in inside])
        solver.start_at(w * spread[:, None], b + mean @ w)
    out: list[list[Model]] = [[] for _ in folds]
    for s, (total, ratio) in enumerate(strengths.each()):
        what = f"models {block.start + 1} to {block.stop} of {task.m}, strength {s + 1} of {len(strengths)}"
        step(f"{len(folds) - 1} folds and all rows: {what}")
        with one_blas_thread():  # also on other machines
            solver.solve(*scale.strength_inside(total, ratio), accuracy)
        w = solver.w / spread[:, None]
        b = solver.b - mean @ w
        for k, models in enumerate(out):
            part = slice(k * len(block), (k + 1) * len(block))
            coef, own_b = scale.outside(w[:, part].T, b[part])
            coef = sp.csr_array(coef)
            wide = sp.csr_array((coef.data, columns[coef.indices], coef.indptr), shape=(len(block), task.d))
            models.append(Model(wide, own_b))
    return out


def _lane_solver(
    X: ByColumn, lanes: Lanes, units: np.ndarray, intercept: bool, accuracy: Accuracy
) -> tuple[LaneSolver, np.ndarray, np.ndarray]:
    """Return the solver of centred columns, in single precision for folds, with the means and spreads they had."""
    D, mean, spread = _centred(X.dense(), intercept)
    D = D.astype(np.float32) if accuracy == FOLDS else D
    return LaneSolver(D, lanes, units / spread, intercept), mean, spread


def _centred(D: np.ndarray, centres: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return columns of mean 0, or as they are, and spread 1, with the means and spreads they had."""
    mean = D.mean(0) if centres else np.zeros(D.shape[1])
    D -= mean
    spread = np.sqrt(np.square(D).mean(0))
    spread[spread <= 1e-12 * np.abs(mean)] = 1.0
    D /= spread
    return D, mean, spread


def _beside(parts: tuple[Model, ...]) -> Model:
    """Return the models of several blocks of classes as one."""
    if len(parts) == 1:
        return parts[0]
    return Model(sp.csr_array(sp.vstack([part.coef for part in parts])), np.concatenate([part.b for part in parts]))


def _figures(k: int, models: list[Model], job: Job) -> np.ndarray:
    """Return the figures of the models of a fold on its own rows, and those of constants, by strength."""
    task, held = job.task, np.flatnonzero(job.folds.judged[k])
    X, columns = task.by_column(held)
    own, targets, weights = job.own[held], task.targets[held], task.weights[held]
    parts = []
    for model in models:
        data, b = task.scale.of_outside(model.coef.data, model.b)
        p = np.empty((len(held), task.m), order="F")
        for q in range(task.m):
            p[:, q] = b[q]
            wide = np.zeros(task.d)
            part = slice(model.coef.indptr[q], model.coef.indptr[q + 1])
            wide[model.coef.indices[part]] = data[part]
            add_columns(X.first, X.rows, X.x, wide[columns], p[:, q])
        with np.errstate(over="ignore", invalid="ignore"):
            losses = task.as_given((weights * value(task.loss, p, targets)).sum(1), held, np.arange(task.m))
        wrong = job.shell.mistakes(job.shell.arranged(task.scale.outside(p, p)[1].T).T, job.y[held])
        mistakes = ((wrong if wrong.ndim == 1 else wrong.mean(1)) * own).sum()
        parts.append((losses.sum(), np.square(losses).sum(), mistakes))
    loss, squares, mistakes = np.array(parts).T
    nothing = np.full(len(models), _loss_of_constants(k, held, job))
    return np.array(Judged(float(own.sum()), int(np.count_nonzero(own)), loss, squares, mistakes, nothing).summary())


def _loss_of_constants(k: int, held: np.ndarray, job: Job) -> float:
    """Return the loss of the rows of a fold by the best constants of some of the rows that it learns."""
    task, rows = job.task, job.kept(k)
    rows = rows[:: max(len(rows) // PILOT_ROWS, 1)]
    b = best_constants(task.loss, task.targets[rows], task.weights[rows], task.intercept)
    losses = task.weights[held] * value(task.loss, np.tile(b, (len(held), 1)), task.targets[held])
    return float(task.as_given(losses.sum(1), held, np.arange(task.m)).sum())
