"""Paths of strengths, groups of features, several classes and least squares beside other packages.

``make bench-peers``

The parts are

- ``path``: L1 logistic regression with an intercept at 32 strengths, from the largest that selects a feature to a
  hundredth of it.  The gap is the largest of all strengths.  Beside it stands one fit at the smallest strength;
- ``group``: logistic regression with a group lasso, groups of five columns, at a tenth of the largest strength.
  skein-glm is left out: its first fit of 20,000 x 1,000 dense rows did not end within two minutes;
- ``classes``: softmax regression with intercepts, with an L1 norm and with a group of each feature's weights.  adelie
  and skein-glm have the groups only, scikit-learn's saga the L1 norm only, the others no softmax with either;
- ``regression``: L1 least squares with an intercept, at a tenth and a fiftieth of the largest strength.

Single strengths are in ``sparsco bench``.  Each solver goes from loose to strict settings, until one takes half a
minute; a fit of another package is interrupted after a minute.  The cheapest setting that reaches a level is timed
again in interleaved rounds; the table has the minimum of CPU time, in ms.  The optimum is the least objective of all
fits.  All measurements are kept, so that a run can be stopped and resumed.  Those of other packages are kept when our
sources change; ``--again sparsco`` measures ours again.  Real sets are found through SPARSCO_DATA.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csc_matrix, csr_matrix, issparse
from scipy.special import logsumexp
from sklearn.linear_model import Lasso
from threadpoolctl import threadpool_limits

from sparsco import SparseClassifier, SparsePath, SparseRegressor, datasets
from sparsco.bench import measure, sets
from sparsco.bench.kept import OURS, Kept, opened, version_of
from sparsco.bench.solvers import adelie_matrix, l1_logistic
from sparsco.util.folders import cache_folder

LEVELS = (1e-2, 1e-3, 1e-6)
STRENGTHS = 32
GROUP = 5
"""The number of columns in a group."""
TOLERANCES = (100.0, 10.0, 3.0, 1.0, 0.3, 0.1, 0.03, 0.01, 1e-3, 1e-4, 1e-6)
"""The tolerances of our optimality conditions, over lam."""
STRICT = (1.0, 0.1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-10, 1e-12)
"""The tolerances of other packages."""
PASSES = (5, 10, 20, 40, 80, 160, 320, 640, 1280, 2560)
ONCE = (0.0,)
LIMIT = 30.0
"""The CPU seconds of a fit after which no stricter setting is tried."""
INTERRUPTED = 60.0
"""The CPU seconds after which a fit of another package is interrupted."""
CLASSES = 5
"""The number of classes of generated rows."""
CLASS_ROWS = 10_000
"""The most rows of a real set of several classes."""
SKEIN_FEATURES = 10_000
"""The most features for a path of skein-glm, which cannot be interrupted: with 47,236 it did not end in two minutes."""
SETS = {
    "path": {True: ("dense-2k", "rcv1-2kx5k"), False: ("dense-100k", "rcv1-100k")},
    "group": {True: ("dense-1kx50", "rcv1-1kx2k"), False: ("dense-20kx1k", "rcv1-20kx10k")},
    "classes": {True: ("dense-1kx20",), False: ("dense-20k", "mnist", "covtype20k", "news20")},
    "regression": {True: ("dense-1kx50", "rcv1-1kx2k"), False: ("dense-100k", "rcv1-20k", "cpusmall", "imdb-rating")},
}

SOURCE = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:12]
"""A hash of this script, which decides what is measured."""

Models = list[tuple[np.ndarray, Any]]
"""Weights and intercept for each strength; a row of weights and an intercept for each of several classes."""


class Solver(NamedTuple):
    """A solver: ``fit`` takes a setting and is timed, ``read`` returns its models."""

    fit: Callable[[float], Any]
    read: Callable[[Any], Models]
    settings: tuple[float, ...]


class Task(NamedTuple):
    """One problem: the objectives of models, and the makers of solvers by package and name."""

    title: str
    place: str
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

    labels = (y > 0.0).astype(float)
    solvers = {
        (OURS, "sparsco path"): partial(ours, ONCE),
        (OURS, "sparsco path, polish"): partial(ours, TOLERANCES),
        ("adelie", "adelie"): partial(adelie, X, "binomial", labels, lams),
        ("skglm", "skglm, warm starts"): skglm,
    }
    if X.shape[1] <= SKEIN_FEATURES:
        solvers["skein-glm", "skein"] = skein
    yield Task(f"{place}, {STRENGTHS} strengths", place, objectives, solvers)

    def single() -> Solver:
        given = {"alpha": lams[-1], "shuffle": False, "random_state": 0}
        return Solver(lambda tol: SparseClassifier(polish=tol, **given).fit(X, y), one, TOLERANCES)

    yield Task(
        f"{place}, the smallest of {STRENGTHS} strengths",
        place,
        lambda models: (logistic(X, y, models) + [lams[-1] * np.abs(w).sum() for w, _ in models]).tolist(),
        {
            (OURS, "sparsco polish"): single,
            ("adelie", "adelie"): partial(adelie, X, "binomial", labels, lams[-1:]),
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
        place,
        objectives,
        {
            (OURS, "sparsco polish"): ours,
            ("adelie", "adelie"): partial(adelie, X, "binomial", labels, np.array([lam]), starts),
        },
    )


def classified(place: str) -> tuple[Any, np.ndarray]:
    """Return rows and their classes, from 0 on; each column of a real set is divided by its largest value."""
    rng = np.random.default_rng(1)
    if place in datasets.REGISTRY:
        X, y = datasets.load(place, "train")
        some = rng.permutation(len(y))[:CLASS_ROWS]
        X = csr_matrix(X[some])
        X = csr_matrix(X.multiply(1.0 / np.maximum(abs(X).max(0).toarray(), 1e-300)))
        return X, np.unique(y[some], return_inverse=True)[1]
    X = sets.load(place).X
    truth = rng.standard_normal((X.shape[1], CLASSES)) * (rng.random((X.shape[1], 1)) < 0.2)
    return X, (X @ truth + rng.gumbel(size=(X.shape[0], CLASSES))).argmax(1)


def class_tasks(place: str) -> Iterator[Task]:
    """Yield softmax regressions of a set at two strengths, with single weights and with groups of them."""
    X, y = classified(place)
    n, Y = len(y), np.eye(y.max() + 1)[y]
    slopes = X.T @ (Y - Y.mean(0)) / n

    def losses(models: Models) -> np.ndarray:
        margins = [X @ w.T + b for w, b in models]
        return np.array([(logsumexp(each, axis=1) - each[np.arange(n), y]).mean() for each in margins])

    def single(w: np.ndarray) -> float:
        return float(np.abs(w).sum())

    def grouped(w: np.ndarray) -> float:
        return float(np.sqrt((w * w).sum(0)).sum())

    for share in sets.SHARES:
        lam = share * float(np.abs(slopes).max())
        yield Task(
            f"{place}, softmax, {share:g} of the largest",
            place,
            lambda models, lam=lam: (losses(models) + [lam * single(w) for w, _ in models]).tolist(),
            {
                (OURS, "sparsco polish"): partial(_our_softmax, X, y, "l1", lam),
                ("scikit-learn", "sklearn saga"): partial(_saga, X, y, lam),
            },
        )
        lam = share * float(np.sqrt((slopes**2).sum(1)).max())
        yield Task(
            f"{place}, softmax with groups, {share:g} of the largest",
            place,
            lambda models, lam=lam: (losses(models) + [lam * grouped(w) for w, _ in models]).tolist(),
            {
                (OURS, "sparsco polish"): partial(_our_softmax, X, y, "row-group", lam),
                ("adelie", "adelie"): partial(_adelie_softmax, X, Y, lam),
                ("skein-glm", "skein"): partial(_skein_softmax, X, y, lam),
            },
        )


def all_classes(model: Any) -> Models:
    """Return the weights and intercepts of all classes."""
    return [(np.asarray(model.coef_), np.asarray(model.intercept_))]


def _our_softmax(X: Any, y: np.ndarray, penalty: str, lam: float) -> Solver:
    given = {"penalty": penalty, "alpha": lam, "shuffle": False, "random_state": 0}
    return Solver(lambda tol: SparseClassifier("multinomial", polish=tol, **given).fit(X, y), all_classes, TOLERANCES)


def _saga(X: Any, y: np.ndarray, lam: float) -> Solver:
    def fit(passes: float) -> Any:
        return l1_logistic("saga", lam, 0.0, len(y), tol=0.0, max_iter=int(passes), random_state=0).fit(X, y)

    return Solver(fit, all_classes, PASSES)


def _adelie_softmax(X: Any, Y: np.ndarray, lam: float) -> Solver:
    """Return adelie's solver, which divides the loss by the number of classes."""
    import adelie

    columns, k = by_columns(X), Y.shape[1]
    matrix, factors = adelie_matrix(columns), np.ones(X.shape[1])

    def fit(tol: float) -> Any:
        given = {"lmda_path": np.array([lam / k]), "penalty": factors, "tol": tol, "irls_tol": tol}
        return columns, adelie.grpnet(matrix, adelie.glm.multinomial(Y), early_exit=False, progress_bar=False, **given)

    def read(found: Any) -> Models:
        state = found[1]
        return [(state.betas[-1].toarray().reshape(-1, k).T, np.ravel(state.intercepts[-1]))]

    return Solver(fit, read, STRICT)


def _skein_softmax(X: Any, y: np.ndarray, lam: float) -> Solver:
    """Return skein's solver, which divides the loss by the number of classes."""
    import skein_glm

    rows, k = by_columns(X) if issparse(X) else X, y.max() + 1

    def fit(tol: float) -> Any:
        given = {"weights": np.ones(X.shape[1]), "tol": tol, "outer_tol": tol, "max_iter": 1000, "max_outer": 1000}
        return skein_glm.MultinomialLassoClassifier(lam / k, **given).fit(rows, y)

    return Solver(fit, all_classes, STRICT[:9])


def measured_numbers(place: str) -> tuple[Any, np.ndarray]:
    """Return rows and numbers; the columns of cpusmall get unit variance."""
    if place in datasets.REGISTRY:
        X, y = datasets.load(place, "train")
        if place == "cpusmall":
            X = X.toarray()
            X = (X - X.mean(0)) / X.std(0)
        return X, y
    X, rng = sets.load(place).X, np.random.default_rng(1)
    truth = np.where(rng.random(X.shape[1]) < 0.1, rng.standard_normal(X.shape[1]), 0.0)
    signal = X @ truth
    return X, signal + signal.std() * rng.standard_normal(len(signal))


def regression_tasks(place: str) -> Iterator[Task]:
    """Yield the least squares of a set at two strengths."""
    X, y = measured_numbers(place)
    largest = float(np.abs(X.T @ (y - y.mean())).max()) / len(y)
    for share in sets.SHARES:
        yield _least_squares(place, share, X, y, share * largest)


def _least_squares(place: str, share: float, X: Any, y: np.ndarray, lam: float) -> Task:
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
        (OURS, "sparsco polish"): ours,
        ("scikit-learn", "sklearn Lasso"): sklearn,
        ("celer", "celer"): celer,
        ("skglm", "skglm"): skglm,
        ("adelie", "adelie"): partial(adelie, X, "gaussian", y, np.array([lam])),
    }
    return Task(f"{place}, least squares, {share:g} of the largest", place, objectives, solvers)


PARTS = {"path": path_tasks, "group": group_tasks, "classes": class_tasks, "regression": regression_tasks}


# --- measurements -----------------------------------------------------------------------------------------------------


def explored(solver: Solver, task: Task, limit: float) -> list[dict[str, Any]]:
    """Return seconds and objectives of each setting, from loose to strict, until a fit takes too long."""
    tried = list[dict[str, Any]]()
    try:
        with measure.limited(limit):
            solver.fit(solver.settings[0])  # what is compiled is not measured
        for setting in solver.settings:
            with measure.limited(limit):
                taken, model = measure.timed(partial(solver.fit, setting))
            tried.append({"setting": setting, "cpu": taken.cpu, "objectives": task.objectives(solver.read(model))})
            if taken.cpu > LIMIT:
                break
    except measure.LimitError:
        pass  # stricter settings take longer
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


def measured(task: Task, rounds: int, kept: Kept, say: Callable[[str], None]) -> list[dict[str, Any]]:
    """Return the line of each solver: ms to each level, None where it was not reached, and the least gap."""
    solvers, tried, package_of = dict[str, Solver](), dict[str, list[dict[str, Any]]](), dict[str, str]()
    for (package, name), make in task.solvers.items():
        if not version_of(package):
            say(f"left out: {package} is not installed")
            continue
        say(f"{task.title}: {name}")
        solvers[name], package_of[name] = make(), package
        once = partial(explored, solvers[name], task, np.inf if package == OURS else INTERRUPTED)
        tried[name] = kept.once(package, ["peers", SOURCE, task.title, name], once)
    least = np.min([each["objectives"] for found in tried.values() for each in found], axis=0)
    chosen = {(name, level): cheapest(tried[name], least, level) for name in solvers for level in LEVELS}
    jobs = sorted({(name, setting) for (name, _), setting in chosen.items() if setting is not None})
    times: dict[Any, list[float]] = {job: [] for job in jobs}
    rng = np.random.default_rng(0)
    for number in range(rounds):
        for k in rng.permutation(len(jobs)):
            name, setting = jobs[k]
            again = partial(measure.taken, partial(solvers[name].fit, setting))
            key = ["peers", SOURCE, task.title, name, setting, number]
            times[jobs[k]].append(kept.once(package_of[name], key, again)[0])
    lines = list[dict[str, Any]]()
    for name in solvers:
        reached = {level: chosen[name, level] for level in LEVELS}
        ms = {each: None if at is None else 1e3 * min(times[name, at]) for each, at in reached.items()}
        gaps = [gap(each["objectives"], least) for each in tried[name]]
        line = {"problem": task.title, "place": task.place, "solver": name, "package": package_of[name]}
        lines.append(line | {"ms": ms, "gap": min(gaps, default=None)})
    return lines


def shown(ms: float | None) -> str:
    """Return a time with three digits or more; a dash for none."""
    return "–" if ms is None else f"{ms:,.0f}" if ms >= 100.0 else f"{ms:.3g}"


def table(lines: list[dict[str, Any]]) -> str:
    """Return the table in Markdown."""
    head = ("problem", "solver", *(f"ms to {level:g}" for level in LEVELS), "least gap")
    rows = [
        (line["problem"], line["solver"], *map(shown, line["ms"].values()), gap_shown(line["gap"])) for line in lines
    ]
    return "\n".join("| " + " | ".join(row) + " |" for row in (head, ("---",) * len(head), *rows))


def gap_shown(least: float | None) -> str:
    """Return a gap in short; a dash if no fit ended."""
    return "–" if least is None else f"{least:.0e}"


def part(name: str, places: Sequence[str], rounds: int, kept: Kept, say: Callable[[str], None]) -> list[dict[str, Any]]:
    """Return the lines of a part on some sets; sets whose files are missing are left out and named."""
    lines = list[dict[str, Any]]()
    for place in places:
        try:
            for task in PARTS[name](place):
                lines += measured(task, rounds, kept, say)
        except datasets.MissingDataError:
            say(f"left out: the files of {place} are missing")
    return lines


def main() -> int:
    """Measure what is missing, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("parts", nargs="*", default=list(PARTS), metavar="PART", help=f"of {', '.join(PARTS)}")
    parser.add_argument("--quick", action="store_true", help="small sets")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--again", nargs="+", default=[], metavar="PACKAGE", help="measure again, such as sparsco")
    parser.add_argument("--json", metavar="FILE", help="write all lines to FILE")
    options = parser.parse_args()
    unknown = [name for name in options.parts if name not in PARTS]
    if unknown:
        parser.error(f"there is no part {unknown[0]!r}: choose of {', '.join(PARTS)}")
    kept = opened(cache_folder("bench"), "peers-quick" if options.quick else "peers", True, options.again)
    warnings.simplefilter("ignore")
    found = list[dict[str, Any]]()
    with threadpool_limits(1):
        for name in options.parts:
            lines = part(
                name, SETS[name][options.quick], options.rounds, kept, lambda line: print(line, file=sys.stderr)
            )
            print(f"## {name}\n\n{table(lines)}\n", flush=True)
            found += [{"part": name} | line for line in lines]
    if options.json:
        Path(options.json).write_text(json.dumps(found, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
