"""Paths of strengths, groups of features and least squares beside other packages.  ``make bench-peers``

The parts are

- ``path``: L1 logistic regression with an intercept at 32 strengths, from the largest that selects a feature to a
  hundredth of it.  The gap is the largest of all strengths;
- ``group``: logistic regression with a group lasso, groups of five columns, at a tenth of the largest strength.
  skein-glm is left out: its first fit of 20,000 x 1,000 dense rows did not end within two minutes;
- ``regression``: L1 least squares with an intercept, at a tenth and a fiftieth of the largest strength.

Single strengths are in ``sparsco bench``, several classes in ``make bench-optimum``.  Each solver goes from loose to
strict settings, until one takes half a minute.  The cheapest setting that reaches a level is timed again in
interleaved rounds; the table has the minimum of CPU time, in ms.  The optimum is the least objective of all fits.
All measurements are kept, so that a run can be stopped and resumed as long as our sources are the same.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csc_matrix, issparse
from sklearn.linear_model import Lasso
from threadpoolctl import threadpool_limits

from sparsco import SparseClassifier, SparsePath, SparseRegressor
from sparsco.bench import measure, sets
from sparsco.bench.solvers import adelie_matrix
from sparsco.util.folders import cache_folder
from sparsco.util.result_store import Store, Stores, name_of

LEVELS = (1e-2, 1e-3, 1e-6)
STRENGTHS = 32
GROUP = 5
"""The number of columns in a group."""
TOLERANCES = (100.0, 10.0, 3.0, 1.0, 0.3, 0.1, 0.03, 0.01, 1e-3, 1e-4, 1e-6)
"""The tolerances of our optimality conditions, over lam."""
STRICT = (1.0, 0.1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-10, 1e-12)
"""The tolerances of other packages."""
ONCE = (0.0,)
LIMIT = 30.0
"""The CPU seconds of a fit after which no stricter setting is tried."""
SETS = {
    "path": {True: ("dense-2k", "rcv1-2kx5k"), False: ("dense-100k", "rcv1-100k")},
    "group": {True: ("dense-1kx50", "rcv1-1kx2k"), False: ("dense-20kx1k", "rcv1-20kx10k")},
    "regression": {True: ("dense-1kx50", "rcv1-1kx2k"), False: ("dense-100k", "rcv1-20k")},
}

Models = list[tuple[np.ndarray, float]]
"""Weights and intercept for each strength."""


class Solver(NamedTuple):
    """A solver: ``fit`` takes a setting and is timed, ``read`` returns its models."""

    fit: Callable[[float], Any]
    read: Callable[[Any], Models]
    settings: tuple[float, ...]


class Task(NamedTuple):
    """One problem: the objectives of models, and the makers of solvers by package and name."""

    title: str
    objectives: Callable[[Models], list[float]]
    solvers: dict[tuple[str, str], Callable[[], Solver]]


def by_columns(X: Any) -> Any:
    """Return rows as a matrix by columns."""
    return csc_matrix(X) if issparse(X) else np.asfortranarray(X)


def one(model: Any) -> Models:
    """Return weights and intercept of a model with scikit-learn's attributes."""
    return [(np.ravel(model.coef_), float(np.ravel(model.intercept_)[0]))]


def every(state: Any) -> Models:
    """Return the models of a path of adelie."""
    return list(zip(state.betas.toarray(), map(float, state.intercepts), strict=True))


def adelie(X: Any, family: str, y: np.ndarray, lams: np.ndarray, groups: np.ndarray | None = None) -> Solver:
    """Return adelie's solver for strengths; the factor of a group is the root of its size."""
    import adelie

    columns = by_columns(X)
    matrix = adelie_matrix(columns)

    def fit(tol: float) -> Any:
        glm = getattr(adelie.glm, family)(y)
        return columns, adelie.grpnet(
            matrix, glm, groups=groups, lmda_path=lams, tol=tol, irls_tol=tol, early_exit=False, progress_bar=False
        )

    return Solver(fit, lambda found: every(found[1]), STRICT)


def logistic(X: Any, y: np.ndarray, models: Models) -> np.ndarray:
    """Return the mean logistic loss of each model."""
    return np.array([np.logaddexp(0.0, -y * (X @ w + b)).mean() for w, b in models])


# --- the problems -----------------------------------------------------------------------------------------------------


def path_tasks(place: str) -> Iterator[Task]:
    """Yield the path of a set."""
    data = sets.load(place)
    X, y, n = data.X, data.y, len(data.y)
    lams = data.strengths[0][0] / sets.SHARES[0] * np.geomspace(1.0, 0.01, STRENGTHS)

    def objectives(models: Models) -> list[float]:
        penalties = lams * [np.abs(w).sum() for w, _ in models]
        return (logistic(X, y, models) + penalties).tolist()

    def ours(settings: tuple[float, ...]) -> Solver:
        def fit(tol: float) -> Any:
            # polish needs validation rows: one of them, whose absence changes objectives by about 1 / n^2
            given = {"validation": 1.0 / n} if tol else {}
            model = SparseClassifier(shuffle=False, random_state=0, polish=tol or False)
            return SparsePath(model, alphas=lams, choose=X.shape[1], **given).fit(X, y)

        def read(model: Any) -> Models:
            path = model.path_
            return list(zip(path.coefs.T.toarray(), map(float, path.intercepts.ravel()), strict=True))

        return Solver(fit, read, settings)

    def skglm() -> Solver:
        from skglm import SparseLogisticRegression

        columns = by_columns(X)

        def fit(tol: float) -> Models:
            model, found = SparseLogisticRegression(warm_start=True, max_iter=100), list[Any]()
            for lam in lams:
                found += one(model.set_params(alpha=lam, tol=lam * tol).fit(columns, y))
                model.coef_ = model.coef_.copy()
            return found

        return Solver(fit, lambda found: found, TOLERANCES[3:])

    def skein() -> Solver:
        import skein_glm

        columns, labels = by_columns(X) if issparse(X) else X, (y > 0.0).astype(float)

        def fit(tol: float) -> Any:
            given = {"lambdas": lams, "tol": tol, "outer_tol": tol, "max_iter": 1000, "max_outer": 100}
            return skein_glm.LogisticLassoPathRegressor(**given).fit(columns, labels)

        def read(model: Any) -> Models:
            return list(zip(model.coefs_, map(float, model.intercepts_), strict=True))

        return Solver(fit, read, STRICT[:7])

    yield Task(
        f"{place}, {STRENGTHS} strengths",
        objectives,
        {
            ("sparsco", "sparsco path"): partial(ours, ONCE),
            ("sparsco", "sparsco path, polish"): partial(ours, TOLERANCES),
            ("adelie", "adelie"): partial(adelie, X, "binomial", (y > 0.0).astype(float), lams),
            ("skglm", "skglm, warm starts"): skglm,
            ("skein_glm", "skein"): skein,
        },
    )


def group_tasks(place: str) -> Iterator[Task]:
    """Yield the group lasso of a set."""
    data = sets.load(place)
    X, y = data.X, data.y
    d, labels = X.shape[1], (y > 0.0).astype(float)
    groups, root = np.arange(d) // GROUP, np.sqrt(GROUP)
    starts = np.arange(0, d, GROUP)

    def norms(w: np.ndarray) -> np.ndarray:
        return root * np.sqrt(np.add.reduceat(w * w, starts))

    lam = 0.1 * float(norms(X.T @ (labels - labels.mean())).max()) / root**2 / len(y)

    def objectives(models: Models) -> list[float]:
        return (logistic(X, y, models) + [lam * norms(w).sum() for w, _ in models]).tolist()

    def ours() -> Solver:
        def fit(tol: float) -> Any:
            given = {"penalty": "group", "feature_groups": groups, "shuffle": False, "random_state": 0}
            return SparseClassifier(alpha=lam, polish=tol, **given).fit(X, y)

        return Solver(fit, one, TOLERANCES)

    yield Task(
        f"{place}, groups of {GROUP}",
        objectives,
        {
            ("sparsco", "sparsco polish"): ours,
            ("adelie", "adelie"): partial(adelie, X, "binomial", labels, np.array([lam]), starts),
        },
    )


def regression_tasks(place: str) -> Iterator[Task]:
    """Yield the least squares of a set at two strengths."""
    data = sets.load(place)
    X, rng = data.X, np.random.default_rng(1)
    truth = np.where(rng.random(X.shape[1]) < 0.1, rng.standard_normal(X.shape[1]), 0.0)
    signal = X @ truth
    y = signal + signal.std() * rng.standard_normal(len(signal))
    largest = float(np.abs(X.T @ (y - y.mean())).max()) / len(y)
    for share in sets.SHARES:
        yield _least_squares(f"{place}, least squares, {share:g} of the largest", X, y, share * largest)


def _least_squares(title: str, X: Any, y: np.ndarray, lam: float) -> Task:
    def objectives(models: Models) -> list[float]:
        return [float(0.5 * np.mean((y - X @ w - b) ** 2) + lam * np.abs(w).sum()) for w, b in models]

    def ours() -> Solver:
        def fit(tol: float) -> Any:
            return SparseRegressor(alpha=lam, polish=tol, shuffle=False, random_state=0).fit(X, y)

        return Solver(fit, one, TOLERANCES)

    def sklearn() -> Solver:
        columns = by_columns(X)
        return Solver(lambda tol: Lasso(lam, tol=tol, max_iter=10_000).fit(columns, y), one, STRICT[:8])

    def celer() -> Solver:
        import celer

        columns = by_columns(X)
        return Solver(lambda tol: celer.Lasso(lam, tol=tol).fit(columns, y), one, STRICT[:8])

    def skglm() -> Solver:
        from skglm import Lasso

        columns = by_columns(X)
        return Solver(lambda tol: Lasso(lam, tol=lam * tol).fit(columns, y), one, TOLERANCES[3:])

    solvers = {
        ("sparsco", "sparsco polish"): ours,
        ("sklearn", "sklearn Lasso"): sklearn,
        ("celer", "celer"): celer,
        ("skglm", "skglm"): skglm,
        ("adelie", "adelie"): partial(adelie, X, "gaussian", y, np.array([lam])),
    }
    return Task(title, objectives, solvers)


PARTS = {"path": path_tasks, "group": group_tasks, "regression": regression_tasks}


# --- measurements -----------------------------------------------------------------------------------------------------


def explored(solver: Solver, task: Task) -> list[dict[str, Any]]:
    """Return seconds and objectives of each setting, from loose to strict, until a fit takes too long."""
    solver.fit(solver.settings[0])  # what is compiled is not measured
    tried = list[dict[str, Any]]()
    for setting in solver.settings:
        taken, model = measure.timed(partial(solver.fit, setting))
        tried.append({"setting": setting, "cpu": taken.cpu, "objectives": task.objectives(solver.read(model))})
        if taken.cpu > LIMIT:
            break
    return tried


def gap(objectives: list[float], least: np.ndarray) -> float:
    """Return the largest relative distance from the least objectives.

    >>> gap([1.0, 2.2], np.array([1.0, 2.0]))
    0.1
    """
    return round(float(((np.array(objectives) - least) / least).max()), 12)


def cheapest(tried: list[dict[str, Any]], least: np.ndarray, level: float) -> float | None:
    """Return the setting of the quickest fit that reached a level; None if none did."""
    good = [each for each in tried if gap(each["objectives"], least) <= level]
    return min(good, key=lambda each: each["cpu"])["setting"] if good else None


def measured(task: Task, rounds: int, store: Store, say: Callable[[str], None]) -> list[tuple[str, ...]]:
    """Return the rows of the table of a task: solver, ms to each level, least gap."""
    solvers, tried = dict[str, Solver](), dict[str, list[dict[str, Any]]]()
    for (package, name), make in task.solvers.items():
        if importlib.util.find_spec(package) is None:
            say(f"left out: {package} is not installed")
            continue
        say(f"{task.title}: {name}")
        solvers[name] = make()
        tried[name] = store.once(name_of("peers", task.title, name), partial(explored, solvers[name], task))
    least = np.min([each["objectives"] for found in tried.values() for each in found], axis=0)
    chosen = {(name, level): cheapest(tried[name], least, level) for name in solvers for level in LEVELS}
    jobs = sorted({(name, setting) for (name, _), setting in chosen.items() if setting is not None})
    times: dict[Any, list[float]] = {job: [] for job in jobs}
    rng = np.random.default_rng(0)
    for number in range(rounds):
        for k in rng.permutation(len(jobs)):
            name, setting = jobs[k]
            again = partial(measure.taken, partial(solvers[name].fit, setting))
            times[jobs[k]].append(store.once(name_of("peers", task.title, name, setting, number), again)[0])
    rows = list[tuple[str, ...]]()
    for name in solvers:
        reached = [chosen[name, level] for level in LEVELS]
        cells = ["–" if setting is None else shown(1e3 * min(times[name, setting])) for setting in reached]
        rows.append((task.title, name, *cells, f"{min(gap(each['objectives'], least) for each in tried[name]):.0e}"))
    return rows


def shown(ms: float) -> str:
    """Return a time with three digits or more."""
    return f"{ms:,.0f}" if ms >= 100.0 else f"{ms:.3g}"


def table(rows: list[tuple[str, ...]]) -> str:
    """Return the table in Markdown."""
    head = ("problem", "solver", *(f"ms to {level:g}" for level in LEVELS), "least gap")
    return "\n".join("| " + " | ".join(row) + " |" for row in (head, ("---",) * len(head), *rows))


def main() -> int:
    """Measure what is missing, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("parts", nargs="*", default=list(PARTS), metavar="PART", help=f"of {', '.join(PARTS)}")
    parser.add_argument("--quick", action="store_true", help="small sets")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    unknown = [part for part in options.parts if part not in PARTS]
    if unknown:
        parser.error(f"there is no part {unknown[0]!r}: choose of {', '.join(PARTS)}")
    stores = Stores(cache_folder("bench"), True)
    stores.check()
    store = stores.of("peers-quick" if options.quick else "peers")
    warnings.simplefilter("ignore")
    with threadpool_limits(1):
        for part in options.parts:
            rows = list[tuple[str, ...]]()
            for place in SETS[part][options.quick]:
                for task in PARTS[part](place):
                    rows += measured(task, options.rounds, store, lambda line: print(line, file=sys.stderr))
            print(f"## {part}\n\n{table(rows)}\n", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
