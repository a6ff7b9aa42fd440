"""Times of solvers to some gaps, on problems that are solved by several packages.

Each solver goes from loose to strict settings, until one takes half a minute; a fit of another package is interrupted
after a minute.  The cheapest setting that reaches a level is timed again in interleaved rounds; a line has the minimum
of CPU time, in ms.  The optimum is the least objective of all fits; the gap of a path is the largest of its strengths.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from typing import Any

import numpy as np

from ... import datasets
from .. import measure
from ..kept import OURS, Kept
from . import others, ours
from .definitions import PROBLEMS
from .record import Makers, Solver, Task

LEVELS = (1e-2, 1e-3, 1e-6)
LIMIT = 30.0
"""The CPU seconds of a fit after which no stricter setting is tried."""
INTERRUPTED = 60.0
"""The CPU seconds after which a fit of another package is interrupted."""

Say = Callable[[str], None]
Line = dict[str, Any]


def lines_of(
    name: str, place: str, packages: Collection[str], rounds: int, kept: Kept, say: Say, left_out: dict[str, str]
) -> list[Line]:
    """Return the lines of a problem on a set; what is left out is added to ``left_out``, with its reason."""
    found = list[Line]()
    try:
        for task in PROBLEMS[name](place):
            lines = measured(task, makers_of(task.form, packages), rounds, kept, say, left_out)
            found += ({"part": name} | line for line in lines)
    except datasets.MissingDataError:
        left_out[place] = f"the files of {place} are missing"
        say(f"left out: {left_out[place]}")
    return found


def makers_of(form: str, packages: Collection[str]) -> Makers:
    """Return the makers of our solvers of a form of problem, and of those of some packages."""
    makers = ours.MAKERS[form] | others.MAKERS[form]
    return {key: make for key, make in makers.items() if key[0] in (OURS, *packages)}


def measured(task: Task, makers: Makers, rounds: int, kept: Kept, say: Say, left_out: dict[str, str]) -> list[Line]:
    """Return the line of each solver: ms to each level, None where it was not reached, and the least gap."""
    solvers, tried, package_of = dict[str, Solver](), dict[str, list[Line]](), dict[str, str]()
    for (package, name), make in makers.items():
        try:
            solvers[name], package_of[name] = make(task), package
        except ValueError as error:
            left_out[f"{name} on {task.title}"] = f"{name} on {task.title} ({error})"
            say(f"left out: {error}")
            continue
        say(f"{task.title}: {name}")
        once = partial(explored, solvers[name], task, np.inf if package == OURS else INTERRUPTED)
        tried[name] = kept.once(package, ["problem", task.title, name], once)
    least = np.min([each["objectives"] for found in tried.values() for each in found], axis=0)
    chosen = {(name, level): cheapest(tried[name], least, level) for name in solvers for level in LEVELS}
    jobs = sorted({(name, setting) for (name, _), setting in chosen.items() if setting is not None})

    def once_more(name: str, setting: float, number: int) -> float:
        again = partial(measure.taken, partial(solvers[name].fit, setting))
        return float(kept.once(package_of[name], ["problem", task.title, name, setting, number], again)[0])

    times: dict[tuple[str, float], list[float]] = {job: [] for job in jobs}
    rng = np.random.default_rng(0)
    for number in range(rounds):
        for k in rng.permutation(len(jobs)):
            name, setting = jobs[k]
            times[jobs[k]].append(once_more(name, setting, number))
    lines = list[Line]()
    for name in solvers:
        reached = {level: chosen[name, level] for level in LEVELS}
        ms = {str(each): None if at is None else 1e3 * min(times[name, at]) for each, at in reached.items()}
        gaps = [gap(each["objectives"], least) for each in tried[name]]
        line = {"problem": task.title, "place": task.place, "solver": name, "package": package_of[name]}
        lines.append(line | {"ms": ms, "gap": min(gaps, default=None)})
    return lines


def explored(solver: Solver, task: Task, limit: float) -> list[Line]:
    """Return seconds and objectives of each setting, from loose to strict, until a fit takes too long."""
    tried = list[Line]()
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


def cheapest(tried: list[Line], least: np.ndarray, level: float) -> float | None:
    """Return the setting of the quickest fit that reached a level; None if none did."""
    good = [each for each in tried if gap(each["objectives"], least) <= level]
    return min(good, key=lambda each: each["cpu"])["setting"] if good else None
