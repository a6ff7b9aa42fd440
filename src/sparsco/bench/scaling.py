"""The growth of the time of one pass: with rows, with features at the same nonzeros, and with a second thread."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from .. import optimizers
from ..conversions.averaging import Last
from ..estimators.sklearn import SparseClassifier
from ..util.result_store import Store, name_of
from . import measure, sets
from .isolated_fit import WARM_ROWS
from .kernel_only import learning
from .methods import BARE, DEFAULT, FOBOS, METHODS, NFTRL, Method

LAM = 3e-5
GROWTH = 1.3
"""The largest growth of a pass from 10^4 to 10^7 features, relative to that of the bare pass."""
LEARNERS = {FOBOS: optimizers.FOBOS(), NFTRL: optimizers.NFTRL()}
COMPARED = (BARE, FOBOS, NFTRL, DEFAULT, "sklearn sgd")
ROWS = {True: ("rcv1-1k", "rcv1-2k"), False: ("rcv1-2k", "rcv1-20k", "rcv1-200k")}
FEATURES = {
    True: ("rcv1-2kx10k", "rcv1-2kx100k"),
    False: ("rcv1-100kx10k", "rcv1-100kx100k", "rcv1-100kx1m", "rcv1-100kx10m"),
}
FOLD_ROWS = {True: 2_000, False: 20_000}
FASTER = 1.6
"""The least speedup on two threads."""


def measured(
    methods: Sequence[Method], rounds: int, quick: bool, store: Store, say: Callable[[str], None]
) -> Iterator[dict[str, Any]]:
    """Yield curves, and finally the speedup of two threads."""
    names = [name for name in COMPARED if METHODS[name] in methods]
    for axis, places in (("rows", ROWS[quick]), ("features", FEATURES[quick])):
        curve = _curve(axis, places, names, rounds, store, say)
        yield curve
        if axis == "features":
            yield _growth(curve)
    yield _threads(FOLD_ROWS[quick], rounds, store, say)


def _curve(
    axis: str, places: Sequence[str], names: Sequence[str], rounds: int, store: Store, say: Callable[[str], None]
) -> dict[str, Any]:
    """Return CPU seconds of a pass on each set."""
    points = []
    for place in places:
        say(f"scaling with {axis}: {place}")
        problem = sets.Problem(sets.load(place), LAM)
        jobs = _jobs(problem, names)
        times: dict[str, list[float]] = {name: [] for name in jobs}
        rng = np.random.default_rng(0)
        for number in range(rounds):
            for name in map(str, rng.permutation(list(jobs))):
                times[name].append(store.once(name_of("scaling", place, name, number), jobs[name]))
        points.append(
            {
                "set": place,
                "rows": len(problem.data.y),
                "features": problem.data.X.shape[1],
                "nonzeros": problem.nonzeros,
                "cpu": {name: measure.spread(taken) for name, taken in times.items()},
            }
        )
    return {"axis": axis, "points": points, "load": measure.load()}


def _jobs(problem: sets.Problem, names: Sequence[str]) -> dict[str, Callable[[], float]]:
    """Return jobs that measure whole fits, and learning alone."""

    def fits(name: str, problem: sets.Problem) -> Callable[[], float]:
        fit = METHODS[name].make(problem)
        return lambda: measure.taken(lambda: fit({"passes": 1})).cpu

    def alone(name: str, problem: sets.Problem) -> Callable[[], float]:
        return learning(problem.data.X, problem.data.y, LAM, LEARNERS[name], Last())

    jobs = {}
    for label, name, make in [
        *((name, name, fits) for name in names),
        *((f"{name}, learning alone", name, alone) for name in LEARNERS if name in names),
    ]:
        make(name, problem.part(WARM_ROWS))()
        jobs[label] = make(name, problem)
    return jobs


def _growth(curve: dict[str, Any]) -> dict[str, Any]:
    """Return the growth of each method's pass from the fewest features to the most, and relative to the bare pass."""
    first, last = curve["points"][0]["cpu"], curve["points"][-1]["cpu"]
    growth = {name: last[name]["min"] / first[name]["min"] for name in first}
    if BARE not in growth:
        return {"axis": "growth", "growth": growth}
    return {
        "axis": "growth",
        "from": curve["points"][0]["features"],
        "to": curve["points"][-1]["features"],
        "growth": growth,
        "over_bare": {name: each / growth[BARE] for name, each in growth.items() if name != BARE},
        "bar": GROWTH,
    }


def _threads(rows: int, rounds: int, store: Store, say: Callable[[str], None]) -> dict[str, Any]:
    """Return the wall-clock times of five folds with 32 strengths on one thread and on two."""
    from ..selection.cross_validation import SparseClassifierCV

    say("scaling with threads: five folds, 32 strengths")
    name = f"rcv1-{rows // 1000}k"
    data = sets.load(name)
    model = SparseClassifierCV(
        SparseClassifier(optimizer="fobos", conversion="last", shuffle=False, random_state=0),
        alphas=LAM * np.geomspace(10.0, 0.1, 32),
    )
    model.fit(data.X[:WARM_ROWS], data.y[:WARM_ROWS])
    times: dict[int, list[float]] = {1: [], 2: []}
    for number in range(rounds):
        for threads, taken in times.items():
            model.set_params(n_jobs=threads)
            one = partial(measure.taken, partial(model.fit, data.X, data.y))
            taken.append(measure.Taken(*store.once(name_of("threads", name, threads, number), one)).wall)
    faster = min(times[1]) / min(times[2])
    return {
        "axis": "threads",
        "set": name,
        "wall": {str(k): measure.spread(taken) for k, taken in times.items()},
        "faster": faster,
        "bar": FASTER,
        "load": measure.load(),
    }
