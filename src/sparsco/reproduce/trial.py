"""One trial: one stream, learned by every method side by side, with each model measured at the required points."""

from __future__ import annotations

import inspect
import time
import warnings
from itertools import product
from typing import Any, Protocol, runtime_checkable

import numpy as np

from ..conversions.thinning import second_moments
from ..engine.run import DivergenceError, Run
from ..estimators.parameters import parts
from ..estimators.sklearn import SparseClassifier, SparseRegressor
from ..estimators.sparsify import keep_largest, refit, sparsify_random
from ..metrics.selection import support
from ..presets import PRESETS, Preset
from . import problems

Result = dict[str, Any]
"""Per metric a number for each point of ``at`` (None: diverged), "time" in seconds and optionally "weights"."""


@runtime_checkable
class MeasuresItself(Protocol):
    """A problem that learns by its own means."""

    def measured(self, methods: dict[str, dict[str, Any]], at: tuple[int, ...], trial: int) -> dict[str, Any]: ...


@runtime_checkable
class HasSteps(Protocol):
    """A problem that has its own parameters for a method."""

    def steps(self, method: dict[str, Any]) -> dict[str, Any]: ...


@runtime_checkable
class HasStart(Protocol):
    """A problem with a first iterate."""

    def initial(self, trial: int) -> tuple[np.ndarray, np.ndarray]: ...


def measure(
    fields: dict[str, Any], methods: dict[str, dict[str, Any]], at: tuple[int, ...], trial: int, keeps_weights: bool
) -> dict[str, Result]:
    """Return the results of each method on the problem of these fields."""
    problem = problems.make(fields)
    if isinstance(problem, MeasuresItself):
        return problem.measured(methods, at, trial)
    learners: dict[Any, _Learner] = {}
    """By composition: methods that do not use the length of the stream give all their models in one run."""
    asked: dict[str, list[list[_Learner]]] = {}
    """For each point the runs that give the models there: one for each draw of a random choice."""
    for name, method in methods.items():
        if _learns(method):
            asked[name] = [[] for _ in at]
            for (T, runs), draw in product(zip(at, asked[name], strict=True), range(method.get("draws", 1))):
                what = _composition(problem, method, T, trial)
                if (repr(what), draw) not in learners:
                    learners[repr(what), draw] = _Learner(_run(problem, what, trial + 1000 * draw, trial))
                learners[repr(what), draw].stops.append(T)
                runs.append(learners[repr(what), draw])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # more passes would help, but the papers fix their number
        _warm_up(problem, fields["name"], methods)
        _learn(problem, list(learners.values()), trial, at[-1])
        models: dict[str, list[np.ndarray | None]] = {}
        for name, method in methods.items():
            if name in asked:
                models[name] = [_models(runs, T) for runs, T in zip(asked[name], at, strict=True)]
            elif "preset" in method:
                constants = {key: constant for key, constant in method.items() if key != "preset"}
                models[name] = [problem.exact(**constants)] * len(at)
    for name, method in methods.items():
        if "round" in method:
            models[name] = [_rounded(problem, method, models, k) for k in range(len(at))]
        if "sparsify" in method:
            models[name] = [_sparsified(problem, method, models[method["sparsify"]][k], trial) for k in range(len(at))]
    results = {name: _measured(problem, each, trial) for name, each in models.items()}
    for name, each in asked.items():
        results[name]["time"] = each[-1][0].seconds
    if keeps_weights and trial == 0:
        for name, (*_, w) in models.items():
            results[name]["weights"] = None if w is None else _sparse(problem.weights(np.atleast_2d(w)[0]))
    return results


def _models(runs: list[_Learner], T: int) -> np.ndarray | None:
    """Return the model of one run, or the stacked models of several; None if one of them diverged."""
    models = [run.models[T] for run in runs if T in run.models]
    if len(models) < len(runs):
        return None
    return models[0] if len(models) == 1 else np.stack(models)


class _Learner:
    """A run that returns its model at some points, with the time that it took."""

    def __init__(self, run: Run) -> None:
        self.run, self.stops, self.seconds, self.seen = run, list[int](), 0.0, 0
        self.models: dict[int, np.ndarray] = {}
        """The models by number of examples; none after training diverged."""
        self.diverged = False

    def take(self, chunk: problems.Chunk) -> None:
        """Learn a chunk, or its rows before the last stop."""
        done = 0
        while done < len(chunk.order) and self.seen < max(self.stops):
            stop = min(T for T in self.stops if T > self.seen)
            part = chunk.order[done : done + stop - self.seen]
            done, self.seen = done + len(part), self.seen + len(part)
            if not self.diverged:
                try:
                    self._timed(self.run.feed, chunk.matrix, chunk.y, order=part, is_repeat_pass=chunk.is_repeat_pass)
                    if self.seen == stop:
                        self.models[stop] = self._answer(stop == max(self.stops))
                except DivergenceError:
                    self.diverged = True

    def _timed(self, work: Any, *arguments: Any, **named: Any) -> Any:
        start = time.perf_counter()
        out = work(*arguments, **named)
        self.seconds += time.perf_counter() - start
        return out

    def _answer(self, is_last: bool) -> np.ndarray:
        """Return the model; only the last one is part of a run's time."""
        return (self._timed(self.run.finish) if is_last else self.run.finish()).w[:, 0]


_WARM = 1500
"""The examples that are enough to compile all code of a method, and to begin its windows."""
_warmed: set[str] = set()


def _warm_up(problem: Any, kind: str, methods: dict[str, dict[str, Any]]) -> None:
    """Compile the code that this process has not used yet, so that no compilation is part of a run's time."""
    fresh = {repr(what): what for what in (_composition(problem, m, _WARM, 0) for m in methods.values() if _learns(m))}
    fresh = {f"{kind} {name}": what for name, what in fresh.items() if f"{kind} {name}" not in _warmed}
    learners = [_Learner(_run(problem, what, 0, 0)) for what in fresh.values()]
    for learner in learners:
        learner.stops = [_WARM]
    if learners:
        _learn(problem, learners, 0, _WARM)
    _warmed.update(fresh)


def _learns(method: dict[str, Any]) -> bool:
    """Return whether a method has its own runs."""
    return method.get("preset", "exact") != "exact"


def _learn(problem: Any, learners: list[_Learner], trial: int, examples: int) -> None:
    for chunk in problem.stream(trial, examples):
        for learner in learners:
            learner.take(chunk)


def _composition(problem: Any, method: dict[str, Any], T: int, trial: int) -> Preset | str:
    """Return the preset of a method, with the length of the stream and numbers of the problem as parameters if used."""
    if method["preset"] == "default":
        return "default"
    make = PRESETS[method["preset"]]
    constants = {name: constant for name, constant in method.items() if name not in ("preset", "draws")}
    wanted = inspect.signature(make).parameters
    if "T" in wanted:
        constants["T"] = T
    if "largest_row" in wanted:
        constants["largest_row"] = problem.largest_row
    if isinstance(problem, HasSteps):
        constants = {name: x for name, x in problem.steps(method).items() if name in wanted} | constants
    if "mu" in wanted:
        constants |= {"mu": problem.mu(trial), "rho": problem.rho, "l2_in": problem.l2_in}
    return make(**constants)


def _run(problem: Any, what: Preset | str, seed: int, trial: int) -> Run:
    initial = problem.initial(trial) if isinstance(problem, HasStart) else None
    if isinstance(what, Preset):
        *method, penalty = what
        penalty = problem.penalty if penalty is None else penalty
        return Run(problem.loss, penalty, *method, d=problem.d, intercept=False, seed=seed, initial=initial)
    kind = SparseClassifier if problem.loss.classifies else SparseRegressor
    model = kind(loss=problem.loss, penalty=problem.penalty)
    _, *chosen = parts(model, problem.penalty)
    return Run(problem.loss, problem.penalty, *chosen, d=problem.d, intercept=False)


def _rounded(problem: Any, method: dict[str, Any], models: dict[str, Any], k: int) -> np.ndarray | None:
    """Return a model with its small weights set to zero: those below a level, or down to another's support size."""
    w = models[method["round"]][k]
    other = models[method["to"]][k] if "to" in method else w
    if w is None or other is None:
        return None
    w = w.copy()
    weights = problem.weights(w)  # a view: the intercept is kept
    if "to" in method:
        kept = int(support(problem.weights(other)).sum())
        weights[np.argsort(-np.abs(weights), kind="stable")[kept:]] = 0.0
    else:
        weights[np.abs(weights) <= method["level"]] = 0.0
    return w


def _sparsified(problem: Any, method: dict[str, Any], w: np.ndarray | None, trial: int) -> np.ndarray | None:
    """Return several random draws of a model's features, stacked; or its largest weights, as they are or refitted."""
    if w is None:
        return None
    X, y = problem.training()
    moments, how, K = second_moments(X), method["how"], int(method["K"])
    if how in ("dd", "mg"):
        seeds = range(1000 * trial, 1000 * trial + int(method.get("draws", 100)))
        return np.stack([sparsify_random(w, K, how, moments, seed=seed) for seed in seeds])
    largest = keep_largest(w, K, moments)
    return largest if how == "top-k" else refit(largest, X, y, intercept=False, seed=trial)


def _measured(problem: Any, models: list[np.ndarray | None], trial: int) -> Result:
    found = [None if w is None else _means(problem, np.atleast_2d(w), trial) for w in models]
    names = next((each for each in found if each is not None), {})
    return {name: [None if each is None else each[name] for each in found] for name in names}


def _means(problem: Any, models: np.ndarray, trial: int) -> dict[str, float]:
    """Return the measures of a model, or their means over several."""
    found = [problem.measures(w, trial) for w in models]
    return {name: float(np.mean([each[name] for each in found])) for name in found[0]}


def _sparse(w: np.ndarray) -> dict[str, Any]:
    """Return a vector as numbers that JSON keeps exactly."""
    where = np.flatnonzero(w)
    return {"size": w.size, "indices": where.tolist(), "values": w[where].tolist()}
