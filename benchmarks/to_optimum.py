"""Time to 1% and to 0.1% above the optimal objective, against solvers of the same problem.

L1 logistic regression with an unpenalised intercept, on real data with known optima (reference_optima.json beside this
file or another one of its form; found through SPARSCO_DATA) and on generated RCV1-shaped rows.  Every solver is stopped
by an oracle: of its settings, loose to strict, the cheapest whose result is good enough counts, its whole ``fit``
included.  CPU time, the least over interleaved rounds.  skglm and celer get their CSC matrix for free; celer, which has
no intercept, is compared on the problem without one.  Peers that are not installed are named and left out.

    python benchmarks/to_optimum.py --rounds 5 --json out.json --markdown out.md
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import quality
from bench import rcv1_shaped
from scipy.sparse import csc_matrix
from sklearn.linear_model import LogisticRegression

from sparsco import SparseClassifier

LEVELS = (1e-2, 1e-3)
TOLERANCES = (10.0, 3.0, 1.0, 0.3, 0.1, 0.03, 0.01, 3e-3, 1e-3, 1e-4)
PASSES = (1, 2, 3, 5, 8, 12, 20, 30, 50, 80, 130, 200, 400)
PATIENCE = 10.0
"""A solver's settings are given up when a fit takes so many times as long as ours, and half a second."""
BARS = {"skglm": None, "celer": None, "saga": None, "liblinear": (1.3, 1.1)}


class Task(NamedTuple):
    """A problem and the objective at its optimum."""

    name: str
    X: Any
    csc: Any
    y: np.ndarray
    lam: float
    optimum: float
    intercept: bool

    def gap(self, model: Any) -> float:
        """(objective - optimum) / optimum of a fitted model."""
        w, b = np.ravel(model.coef_), float(np.ravel(model.intercept_)[0]) if self.intercept else 0.0
        problem = quality.Problem(self.name, self.X, self.y, "logistic", self.lam)
        return quality.objective(problem, w, b) / self.optimum - 1.0


Settings = list[list[Callable[[], Any]]]
"""Of a solver: lists of fits, each from loose to strict."""


def ours(task: Task) -> Settings:
    """One pass alone, then with polish."""
    fixed = {"alpha": task.lam, "fit_intercept": task.intercept, "random_state": 0, "shuffle": False}
    alone = SparseClassifier(**fixed, max_iter=1, tol=None, conversion="last")
    models = [alone, *(SparseClassifier(**fixed, polish=tol) for tol in (300.0, 100.0, 30.0, *TOLERANCES))]
    return [[lambda model=model: model.fit(task.X, task.y) for model in models]]


def liblinear(task: Task) -> Settings:
    """The larger intercept_scaling, the less its penalty counts."""
    C = 1.0 / (task.lam * len(task.y))
    scales = (1.0, 10.0, 100.0) if task.intercept else (1.0,)

    def fit(tol: float, scale: float) -> Any:
        return LogisticRegression(
            l1_ratio=1.0, solver="liblinear", C=C, tol=tol, intercept_scaling=scale, max_iter=1000, random_state=0,
            fit_intercept=task.intercept,
        ).fit(task.X, task.y)  # fmt: skip

    return [[lambda tol=tol, scale=scale: fit(tol, scale) for tol in TOLERANCES[2:]] for scale in scales]


def saga(task: Task) -> Settings:
    """By passes."""
    C = 1.0 / (task.lam * len(task.y))

    def fit(passes: int) -> Any:
        return LogisticRegression(
            l1_ratio=1.0, solver="saga", C=C, tol=0.0, max_iter=passes, random_state=0, fit_intercept=task.intercept
        ).fit(task.X, task.y)

    return [[lambda passes=passes: fit(passes) for passes in PASSES]]


def skglm(task: Task) -> Settings:
    """By tolerance and by outer iterations."""
    from skglm import SparseLogisticRegression

    def fit(tol: float, iterations: int) -> Any:
        model = SparseLogisticRegression(alpha=task.lam, tol=tol, max_iter=iterations, fit_intercept=task.intercept)
        return model.fit(task.csc, task.y)

    return [
        [lambda tol=tol: fit(task.lam * tol, 100) for tol in TOLERANCES],
        [lambda passes=passes: fit(1e-9, passes) for passes in PASSES[:8]],
    ]


def celer(task: Task) -> Settings:
    """The same."""
    import celer

    C = 1.0 / (task.lam * len(task.y))

    def fit(tol: float, iterations: int) -> Any:
        return celer.LogisticRegression(C=C, tol=tol, max_iter=iterations).fit(task.csc, task.y)

    return [
        [lambda tol=tol: fit(tol, 100) for tol in (1e-1, 3e-2, 1e-2, 3e-3, 1e-3, 3e-4, 1e-4, 1e-5)],
        [lambda passes=passes: fit(1e-9, passes) for passes in PASSES[:8]],
    ]


PEERS = {"liblinear": liblinear, "saga": saga, "skglm": skglm, "celer": celer}


def timed(fit: Callable[[], Any]) -> tuple[float, Any]:
    """CPU seconds, and what came out."""
    start = time.process_time()
    model = fit()
    return time.process_time() - start, model


def cheapest(task: Task, settings: Settings, patience: float) -> dict[float, Callable[[], Any]]:
    """For each level the setting that reached it first; none where none did within ``patience`` seconds."""
    found: dict[float, tuple[float, Callable[[], Any]]] = {}
    for fits in settings:
        for fit in fits:
            taken, model = timed(fit)
            gap = task.gap(model)
            for level in LEVELS:
                if gap <= level and taken < found.get(level, (np.inf,))[0]:
                    found[level] = taken, fit
            if gap <= min(LEVELS) or taken > patience:
                break
    return {level: fit for level, (_, fit) in found.items()}


def tasks(names: list[str], sizes: list[int], intercept: bool) -> Iterator[Task]:
    """The problems; optima that are not known by ours, certified to 1e-9 lam."""
    for name in names:
        X, y = quality.rows_of(name)
        for known in quality.REFERENCE[name]["optima"]:
            yield _task(name, X, y, known["lam"], known["objective"] if intercept else None, intercept)
    for n in sizes:
        X, y = rcv1_shaped(n)
        y = np.where(y > 0, 1.0, -1.0)
        largest = np.abs(X.T @ (y - y.mean())).max() / (2 * n)
        for share in (0.1, 0.02):
            yield _task(f"rcv1-shaped {n // 1000}k", X, y, share * largest, None, intercept)


def _task(name: str, X: Any, y: np.ndarray, lam: float, optimum: float | None, intercept: bool) -> Task:
    if optimum is None:
        problem = quality.Problem(name, X, y, "logistic", lam, intercept=intercept)
        optimum = quality.objective(problem, *quality.exact(problem))
    return Task(name, X, csc_matrix(X), y, lam, optimum, intercept)


def measured(task: Task, peers: list[str], rounds: int) -> dict[str, Any]:
    """CPU milliseconds of ours and of each peer to each level; None where it was not reached."""
    ours(task)[0][-1]()  # compiles
    fits = {"ours": cheapest(task, ours(task), np.inf)}
    base = max(timed(fit)[0] for fit in fits["ours"].values())
    for name in peers:
        settings = PEERS[name](task)
        settings[0][0]()
        fits[name] = cheapest(task, settings, max(PATIENCE * base, 0.5))
    jobs = [(name, level, fit) for name, levels in fits.items() for level, fit in levels.items()]
    best: dict[tuple[str, float], float] = {}
    rng = np.random.default_rng(0)
    for _ in range(rounds):
        for k in rng.permutation(len(jobs)):
            name, level, fit = jobs[k]
            best[name, level] = min(best.get((name, level), np.inf), timed(fit)[0])
    times = {name: {str(level): 1e3 * best[name, level] if (name, level) in best else None for level in LEVELS}
             for name in fits}  # fmt: skip
    line = "  ".join(f"{name} {'/'.join('-' if t is None else f'{t:.1f}' for t in levels.values())}"
                     for name, levels in times.items())  # fmt: skip
    print(f"{task.name:<18} lam {task.lam:.3g}  {line}", flush=True)
    return {"problem": task.name, "lam": task.lam, "intercept": task.intercept, "ms": times}


def reached(result: dict[str, Any], name: str, level: float) -> float | None:
    """Milliseconds to the level: what reaches a stricter one reaches this one."""
    times = [t for other, t in result["ms"][name].items() if t is not None and float(other) <= level]
    return min(times, default=None)


def ratios(results: list[dict[str, Any]], peer: str, level: float) -> dict[str, float]:
    """The peer's time over ours for each problem; infinite where it gave up."""
    out = {}
    for result in results:
        if peer in result["ms"]:
            theirs, own = reached(result, peer, level), reached(result, "ours", level)
            out[f"{result['problem']}, lam {result['lam']:.3g}"] = np.inf if theirs is None else theirs / own
    return out


def summary(results: list[dict[str, Any]]) -> tuple[str, int]:
    """The bars as a markdown table, and how many are missed."""
    lines = ["| peer | level | problems | won | geometric mean | bar | | lost |", "|---|---|---|---|---|---|---|---|"]
    missed = 0
    for peer, bars in BARS.items():
        for k, level in enumerate(LEVELS):
            found = ratios(results, peer, level)
            if not found:
                continue
            values = np.array(list(found.values()))
            finite = values[np.isfinite(values)]
            mean = float(np.exp(np.log(finite).mean())) if finite.size else np.inf
            won = int((values > 1.0).sum())
            if bars:
                bar, holds = f"mean ≥ {bars[k]}", mean >= bars[k]
            else:
                bar, holds = ("every one", won == len(values)) if k == 0 else ("nine in ten", won >= 0.9 * len(values))
            missed += not holds
            lost = "; ".join(f"{name} ({ratio:.2f})" for name, ratio in found.items() if ratio <= 1.0) or "none"
            gave_up = len(values) - finite.size
            what = f"{mean:.2f}" + (f" ({gave_up} not reached)" if gave_up else "")
            verdict = quality.verdict(holds)
            lines.append(f"| {peer} | {level:g} | {len(values)} | {won} | {what} | {bar} | {verdict} | {lost} |")
    return "\n".join(lines), missed


def table(results: list[dict[str, Any]]) -> str:
    """Every time, as markdown."""
    names = ["ours", *PEERS]
    lines = ["| problem | lam | " + " | ".join(names) + " |", "|---" * (len(names) + 2) + "|"]
    for result in results:
        cells = []
        for name in names:
            times = [reached(result, name, level) for level in LEVELS] if name in result["ms"] else []
            cells.append(" / ".join("–" if t is None else f"{t:.3g}" for t in times))
        name = result["problem"] + ("" if result["intercept"] else ", no intercept")
        lines.append(f"| {name} | {result['lam']:.3g} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> int:
    """The exit status is the number of bars missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--optima", type=Path, help="another reference_optima.json")
    parser.add_argument("--problems", nargs="*", help="names of real data sets (default: all logistic ones)")
    parser.add_argument("--sizes", nargs="*", type=int, default=[20_000, 200_000], help="rows of generated sets")
    parser.add_argument("--peers", nargs="*", choices=PEERS, default=list(PEERS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--markdown", type=Path)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    if given.optima:
        for name, problem in json.loads(given.optima.read_text())["problems"].items():
            quality.REFERENCE[name]["optima"] = problem["optima"]
    names = [name for name, problem in quality.REFERENCE.items() if problem["loss"] == "logistic"]
    names = (names if given.problems is None else given.problems) if quality.REAL_DATA else []
    there = [name for name in given.peers if name in ("liblinear", "saga") or importlib.util.find_spec(name)]
    print("left out, not installed:", ", ".join(set(given.peers) - set(there)) or "none", file=sys.stderr)
    results = []
    for intercept in (True, False):
        peers = [name for name in there if (name == "celer") != intercept]
        for task in tasks(names, given.sizes, intercept) if peers else ():
            results.append(measured(task, peers, given.rounds))
            if given.json:
                given.json.write_text(json.dumps(results, indent=1))
    text, missed = summary(results)
    print(text)
    if given.markdown:
        given.markdown.write_text(f"{text}\n\nMilliseconds to 1% / to 0.1%:\n\n{table(results)}\n")
    return missed


if __name__ == "__main__":
    sys.exit(main())
