"""The whole benchmark: every set, strength and method; each measurement is written to disk at once."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from .. import metrics
from ..util.result_store import name_of
from . import measure, optimum, scaling, sets
from .isolated_fit import WARM_ROWS
from .kept import Kept
from .methods import BARE, ELASTIC, L1, METHODS, NO_INTERCEPT, POLISH, Method, versions
from .problems import measuring
from .sets import Data, Problem
from .solvers import Fit, Setting, Weights

LEVELS = (1e-2, 1e-3)
"""The relative distances from the optimal objective."""
ENOUGH = 30.0
"""The seconds after which a job is not repeated any more."""
PARTS = ("levels", "memory", "scaling")
KINDS = (L1, NO_INTERCEPT, ELASTIC)
SHORT = 0.2
"""The seconds of a first fit with a setting below which it is made once more: a first one may have to get memory."""
INTERRUPTED = 4.0
"""A fit of a batch solver of others is interrupted after so many times the patience."""

NOTHING: dict[str, Any] = {"gap": None, "nonzeros": None, "f1": None, "test_error": None}
"""The quality of a result that is not a finite model."""

Say = Callable[[str], None]


class Plan(NamedTuple):
    """The measurements to make.

    ``patience``: a method's ladder is abandoned when a fit takes so many times as long as our polish, and at least half
    a second.  ``parts``: measurements besides passes.  ``absent``: sets that are left out because their files are
    missing.  ``shares``: strengths as shares of the largest that selects a feature, in place of each set's own.
    ``others``: the sets of problems besides one logistic regression with single weights, by the problem.
    """

    sets: Sequence[str]
    methods: Sequence[Method]
    rounds: int = 5
    strengths: int = 2
    patience: float = 10.0
    parts: Sequence[str] = PARTS
    quick: bool = False
    absent: Sequence[str] = ()
    shares: Sequence[float] = ()
    kinds: Sequence[str] = KINDS
    others: Mapping[str, Sequence[str]] = MappingProxyType({})


def run(plan: Plan, kept: Kept, say: Say, save: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """Measure what is not kept yet; ``save`` is called with the results so far after each problem."""
    there = [method for method in plan.methods if not method.missing]
    left_out = {method.package: method.missing for method in plan.methods if method.missing}
    left_out |= {name: f"the files of {name} are missing" for name in plan.absent}
    for line in left_out.values():
        say(f"left out: {line}")
    results: dict[str, Any] = {
        "machine": measure.machine() | {"versions": versions()},
        "begun": measure.now(),
        "load_before": measure.load(),
        "left_out": left_out,
        "problems": [],
        "scaling": [],
        "lines": [],
    }
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")  # the effect of more passes is what is measured here
        for name in plan.sets:
            data = sets.load(name)
            data = data.at(plan.shares) if plan.shares else data
            for lam, known in data.strengths[: plan.strengths]:
                parts = plan.parts if lam == data.strengths[0][0] else [part for part in plan.parts if part != "memory"]
                for kind in plan.kinds:
                    problem = _problem(data, lam, kind)
                    methods = [method for method in there if kind in method.problems]
                    if "levels" not in parts:
                        methods = [method for method in methods if method.streams]
                    if kind != L1 and all(method.ours for method in methods):
                        continue  # no other method to compare with
                    say(f"{data.name}, lam {lam:.3g}, {kind}")
                    bench = _Bench(plan._replace(parts=parts), kept, problem, kind, known if kind == L1 else None, say)
                    results["problems"].append(bench.measured(methods))
                    save(_stamped(results))
            del data
        for name, places in plan.others.items():
            for place in places:
                packages = {method.package for method in there}
                lines = measuring.lines_of(name, place, packages, plan.rounds, kept, say, left_out)
                results["lines"] += lines
                save(_stamped(results))
        if "scaling" in plan.parts:
            for figures in scaling.measured(there, plan.rounds, plan.quick, kept.ours, say):
                results["scaling"].append(figures)
                save(_stamped(results))
    return _stamped(results)


def _stamped(results: dict[str, Any]) -> dict[str, Any]:
    return results | {"ended": measure.now(), "load_after": measure.load()}


def _problem(data: Data, lam: float, kind: str) -> Problem:
    return Problem(data, lam, sets.L2_SHARE * lam if kind == ELASTIC else 0.0, kind != NO_INTERCEPT)


def _reaches(figures: dict[str, Any], level: float) -> bool:
    return figures["gap"] is not None and figures["gap"] <= level


class _Bench:
    """The benchmark of one problem: its optimum, then every method on it."""

    def __init__(self, plan: Plan, kept: Kept, problem: Problem, kind: str, known: float | None, say: Say) -> None:
        self.plan, self.kept, self.problem, self.kind, self.say = plan, kept, problem, kind, say
        self.optimum = self.once("", ["optimum"], lambda: optimum.solve(problem, known))
        self.support = np.zeros(problem.data.X.shape[1], bool)
        self.support[self.optimum["support"]] = True
        self.fits: dict[str, Fit] = {}

    def once(self, package: str, what: list[Any], find: Callable[[], Any]) -> Any:
        """Return a measurement of a package on this problem, made once even if the run is interrupted."""
        return self.kept.once(package, [*self.problem.key, *what], find)

    def measured(self, methods: Sequence[Method]) -> dict[str, Any]:
        """Return all figures of all methods."""
        data = self.problem.data
        self.say(f"  first fits of {len(methods)} methods")
        explored: dict[str, list[dict[str, Any]]] = {}
        failed: dict[str, str] = {}
        patience = np.inf
        for method in sorted(methods, key=lambda each: each.name != POLISH):  # it sets the patience for the others
            try:
                explored[method.name] = self.once(
                    method.package,
                    ["explored", method.name, method.ladders, "levels" in self.plan.parts, self.plan.patience],
                    partial(self.explored, method, patience),
                )
            except Exception as error:  # a failure of another package must not stop the rest
                failed[method.name] = f"{type(error).__name__}: {error}".splitlines()[0]
                self.say(f"  {method.name} failed: {failed[method.name]}")
                continue
            if method.name == POLISH:
                patience = max(self.plan.patience * max(each["cpu"] for each in explored[POLISH]), 0.5)
        there = [method for method in methods if method.name in explored]
        chosen = {method.name: self.chosen(method, explored[method.name]) for method in there}
        times = self.rounds(chosen)
        listed = [self.figures(method, explored[method.name], chosen[method.name], times) for method in there]
        return {
            "set": data.name,
            "kind": self.kind,
            "lam": self.problem.lam,
            "rho": self.problem.rho,
            "intercept": self.problem.intercept,
            "rows": len(data.y),
            "features": data.X.shape[1],
            "nonzeros": self.problem.nonzeros,
            "optimum": {**self.optimum, "support": len(self.optimum["support"])},
            "methods": listed,
            "failed": failed,
            "load": measure.load(),
            "rounds": self.plan.rounds,
            "patience": self.plan.patience,
        }

    def fit_of(self, method: Method) -> Fit:
        """Return a method's fit on the problem; before the first, all code is loaded and compiled on a few rows."""
        if method.name not in self.fits:
            problem = self.problem.first(method.rows) if method.rows else self.problem
            warm = method.make(problem.part(WARM_ROWS))
            for ladder in method.ladders:
                warm(ladder[0])
            if method.name == POLISH:
                warm(method.ladders[0][-1])
            self.fits[method.name] = method.make(problem)
        return self.fits[method.name]

    def explored(self, method: Method, patience: float) -> list[dict[str, Any]]:
        """Return results of settings from loose to strict, until the strictest level or a fit that takes too long."""
        tried, fit = [], self.fit_of(method)
        for ladder in method.ladders if "levels" in self.plan.parts else [method.ladders[0][:1]]:
            for setting in ladder:
                try:
                    with measure.limited(np.inf if method.ours or method.streams else INTERRUPTED * patience):
                        taken, model = measure.timed(partial(fit, setting))
                        if taken.cpu < SHORT:
                            taken = min(taken, measure.taken(partial(fit, setting)))
                except measure.LimitError as error:
                    self.say(f"  {method.name}, {setting}: {error}")
                    tried.append({"setting": setting, "cpu": INTERRUPTED * patience, "wall": None, **NOTHING})
                    break
                figures = NOTHING if method.name == BARE else self.quality(method.read(self.problem, model))
                tried.append({"setting": setting, "cpu": taken.cpu, "wall": taken.wall, **figures})
                if _reaches(figures, min(LEVELS)) or taken.cpu > patience:
                    break
        return tried

    def quality(self, weights: Weights) -> dict[str, Any]:
        """Return the quality of a model: distance from the optimum, size, support and errors on other rows."""
        w, b = weights
        if not (np.isfinite(w).all() and np.isfinite(b)):
            return NOTHING
        value = self.problem.objective(w, b)
        return {
            "gap": metrics.objective_gap(value, self.optimum["objective"]),
            "nonzeros": int(np.count_nonzero(w)),
            "f1": metrics.support_recovery(w, self.support),
            "test_error": self.problem.test_error(w, b) if len(self.problem.data.y_test) else None,
        }

    def chosen(self, method: Method, tried: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
        """Return the settings to time: the one pass, and for each level the cheapest setting that reached it."""
        out = {"pass": tried[0]} if method.streams else {}
        for level in LEVELS if "levels" in self.plan.parts else ():
            good = [each for each in tried if _reaches(each, level)]
            if good:
                out[str(level)] = min(good, key=lambda each: each["cpu"])
        return out

    def again(self, method: str, setting: Setting) -> measure.Taken:
        """Make one more fit and return its times."""
        return measure.taken(partial(self.fit_of(METHODS[method]), setting))

    def rounds(self, chosen: dict[str, dict[str, dict[str, Any]]]) -> dict[str, list[measure.Taken]]:
        """Return the times of all jobs, each once per round, in a changing order; long jobs are not repeated."""
        jobs = {
            name_of(method, each["setting"]): (method, each["setting"])
            for method, settings in chosen.items()
            for each in settings.values()
        }
        times: dict[str, list[measure.Taken]] = {job: [] for job in jobs}
        rng = np.random.default_rng(0)
        for number in range(self.plan.rounds):
            self.say(f"  round {number + 1} of {self.plan.rounds}")
            for job in rng.permutation(sorted(jobs)):
                method, setting = jobs[job]
                if sum(taken.wall for taken in times[job]) < ENOUGH:
                    what, again = ["round", number, method, setting], partial(self.again, method, setting)
                    taken = self.once(METHODS[method].package, what, again)
                    times[job].append(measure.Taken(*taken))
        return times

    def figures(
        self,
        method: Method,
        tried: list[dict[str, Any]],
        chosen: dict[str, dict[str, Any]],
        times: dict[str, list[measure.Taken]],
    ) -> dict[str, Any]:
        """Return one line of the table."""
        out: dict[str, Any] = {
            "method": method.name,
            "package": method.package,
            "rows": method.rows,
            "tried": tried,
            "pass": None,
            "levels": {},
        }
        for what, each in chosen.items():
            taken = times[name_of(method.name, each["setting"])]
            found = {
                **each,
                "cpu": measure.spread([t.cpu for t in taken]),
                "wall": measure.spread([t.wall for t in taken]),
            }
            if what == "pass":
                nonzeros = self.problem.nonzeros
                if method.rows:
                    nonzeros = self.problem.first(method.rows).nonzeros
                found["ns_per_nonzero"] = 1e9 * found["cpu"]["min"] / nonzeros
                out["pass"] = found
            else:
                out["levels"][what] = found
        best = chosen.get("pass") or tried[-1]
        out["memory"] = None
        if "memory" in self.plan.parts and best["wall"] is not None:  # it was not interrupted
            task = {"problem": self.problem.key, "method": method.name, "setting": best["setting"]}
            try:
                key = ["memory", method.name, best["setting"]]
                out["memory"] = self.once(method.package, key, lambda: measure.peak_memory(task))
            except RuntimeError as error:
                self.say(f"  {method.name}: no memory figure: {error}")
        return out
