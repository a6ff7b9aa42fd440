"""A selection whose expected number, or share, of false features stays below a target."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from ..choice.candidates import SHARE_OF_RIDGE
from ..choice.fitting import Fit
from ..choice.problem import Task
from ..choice.sizes import MOST_RIDGE
from ..solver.elastic_net import FINE, solver_of
from ..util.progress import step
from ..util.threads import Pool
from .half_paths import Halves, stability_paths
from .judged import (
    Correlated,
    Judged,
    delta_of,
    in_spreads,
    judged_columns,
    narrowed,
    only,
    strongly_correlated,
    with_probes,
)
from .scores import StabilityPaths, Target

ROWS_PER_FEATURE = 4
"""The rows for each selected feature from which these are learned again almost without an L2 term."""


class Probes(NamedTuple):
    """How many probes were judged, and how many of them are as stable as the selected features."""

    judged: int
    selected: int
    promised: float


class Selection(NamedTuple):
    """The selected features, the paths of all features, and what is known of the promise."""

    features: np.ndarray
    paths: StabilityPaths
    judged: Judged
    correlated: list[Correlated]
    probes: Probes | None
    rows: int
    """The number of rows that the selection is made from."""
    followed: int
    """The number of columns that were followed over all of these rows."""


def judged_task(task: Task, seed: int) -> tuple[Task, Judged]:
    """Return the task with the columns that can be judged, in units of their spreads."""
    judged = judged_columns(task, seed)
    return narrowed(task, judged), judged


class Plan(NamedTuple):
    """How a selection is made: the promise, the number of pairs and of strengths, probes or not, and the seed."""

    target: Target
    pairs: int
    strengths: int
    probes: bool
    seed: int


def select(task: Task, columns: np.ndarray, d: int, plan: Plan, pool: Pool) -> Selection:
    """Return the selection of a task by paths on random halves of its rows.

    Column j of the task is feature ``columns[j]`` of d features.
    """
    target, pairs, strengths, probes, seed = plan
    narrow, judged = judged_task(task, seed)
    every, p = judged.placed(columns, d), narrow.d
    judged_too = with_probes(narrow, seed) if probes else narrow
    halves = Halves.of(judged_too, seed, pairs, delta_of(narrow, seed), target)
    paths = stability_paths(halves, strengths, pool)
    found = target.selected(paths)
    own = found[found < p]
    probed = Probes(p, len(found) - len(own), target.promised(len(own))) if probes else None
    features = every.columns[own]
    correlated = correlated_of(narrow, every.columns, features)
    paths = paths.at(np.arange(p))._replace(strengths=paths.strengths * task.scale.of_l1)
    return Selection(features, widened(paths, every, d), every, correlated, probed, task.n, p)


def correlated_of(task: Task, columns: np.ndarray, selected: np.ndarray) -> list[Correlated]:
    """Return the selected features that another column may stand for; column j of the task is feature columns[j]."""
    step("comparing the selected features with the others")
    pairs = strongly_correlated(task, np.searchsorted(columns, selected))
    return [each._replace(column=int(columns[each.column]), other=int(columns[each.other])) for each in pairs]


def widened(paths: StabilityPaths, judged: Judged, d: int) -> StabilityPaths:
    """Return the paths of the judged columns as those of d features; a feature has that of the one it is like."""
    counts = sp.coo_array(paths.counts)
    strengths, columns, data = [counts.row], [judged.columns[counts.col]], [counts.data]
    for first, others in judged.same.items():
        mine = columns[0] == first
        for other in others.tolist():
            strengths.append(strengths[0][mine])
            columns.append(np.full(int(mine.sum()), other))
            data.append(data[0][mine])
    parts = np.concatenate(data), (np.concatenate(strengths), np.concatenate(columns))
    return paths._replace(counts=sp.csr_array(parts, shape=(len(paths.strengths), d)))


def refit(task: Task, features: np.ndarray, lam: float) -> Fit:
    """Return the models of the selected columns alone, learned from all rows, almost without a penalty."""
    narrow, rows = in_spreads(only(task, features)), np.arange(task.n)
    X, columns = narrow.by_column(rows)
    share = SHARE_OF_RIDGE if ROWS_PER_FEATURE * len(columns) < task.n else MOST_RIDGE
    fits = []
    for model in range(task.m):
        step(f"learning the selected features: model {model + 1} of {task.m}")
        solver = solver_of(X, narrow.examples(rows, model), narrow.units[columns], task.intercept)
        fits.append(solver.refit(np.arange(X.d), share * lam / task.scale.of_l1, FINE))
    return Fit.of(fits, features[columns], task.scale)


def doubts_of(selection: Selection, target: Target) -> list[str]:
    """Return why a promise may not hold."""
    found, probes, count = [], selection.probes, len(selection.correlated)
    if count:
        largest = max(each.correlation for each in selection.correlated)
        found.append(
            f"{target} may not hold: {count} of {len(selection.features)} selected features are strongly correlated "
            f"(up to {largest:.2f}) with another column, which may be the one that matters; promise_ has the pairs."
        )
    if probes is not None and probes.selected > np.ceil(probes.promised):
        found.append(
            f"{target} does not hold: {probes.selected} of {probes.judged} probes, which cannot matter, are as stable "
            f"as the selected features, where at most {probes.promised:.3g} were promised."
        )
    return found
