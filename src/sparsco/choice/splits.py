"""Rows to learn and rows to judge by: at random, in folds, by groups, or as the user gives them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..data.randomness import Purpose, bits
from .problem import Task

LEARNED_NONZEROS, LEARNED_ROWS, ROWS_PER_CLASS, MOST_NONZEROS = 300_000, 2000, 250, 4_000_000
"""The size of the sample that candidates learn."""
JUDGED, MOST_JUDGED, FOLDS = 1000, 4000, 5
FEW_ROWS, REPEATS, REPEATED_NONZEROS = 200, 4, 1_000_000
"""Below so many rows, folds are dealt so many times, or as often as there are these nonzeros in all."""


class Split(NamedTuple):
    """Rows to learn and rows to judge by."""

    learned: np.ndarray
    judged: np.ndarray


class ByRow(NamedTuple):
    """Splits and groups that are given for each row, by its number; they are those of one fit."""

    splits: tuple[Split, ...] = ()
    """The splits, which may have any rows; empty: rows are dealt into folds."""
    groups: np.ndarray | None = None
    """The group of each row; the rows of a group are never in both parts.  None: every row is on its own."""

    def among(self, rows: np.ndarray, n: int) -> ByRow:
        """Return the splits and groups of some of n rows, which get the numbers 0, 1, ..."""
        place = np.full(n, -1, np.int64)
        place[rows] = np.arange(len(rows))
        splits = (Split(*(place[part][place[part] >= 0] for part in split)) for split in self.splits)
        return ByRow(tuple(splits), None if self.groups is None else self.groups[rows])

    def __repr__(self) -> str:
        groups = 0 if self.groups is None else len(np.unique(self.groups))
        return f"ByRow({len(self.splits)} splits, {groups} groups)"


def splits_of(
    task: Task, seed: int, folds: int | None = None, groups: np.ndarray | None = None, given: Sequence[Split] = ()
) -> list[Split]:
    """Return the splits by which candidates are judged.

    Where there are rows enough, one sample is learned and other rows are judged.  Otherwise the rows are dealt into
    five folds, or as many as are given; few rows are dealt several times.  ``groups`` has the group of each row.
    ``given`` are splits of all rows of the stream, of which the task may hold a part.
    """
    if given:
        return _held(task, given)
    n = task.n
    if folds is None:
        if n < 2:
            return [Split(np.arange(n), np.arange(n))]
        split = _one_split(task, seed, groups)
        if split is not None:
            return [split]
    count, what = (n, "row") if groups is None else (len(np.unique(groups)), "group")
    if count < (folds or 2):
        raise ValueError(f"{folds or 2} folds need as many {what}s, and there are fewer: n_{what}s = {count}.")
    repeats = 1
    if folds is None:
        folds = min(FOLDS, count)
        if n < FEW_ROWS:
            repeats = int(np.clip(REPEATED_NONZEROS // max(len(task.data), 1), 1, REPEATS))
    splits = list[Split]()
    for repeat in range(repeats):
        fold = dealt(bits(seed + repeat, Purpose.FOLD, task.numbers), task.strata(), groups, folds)
        splits += [Split(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(folds)]
    return splits


def first_splits(splits: list[Split], rows: int) -> list[Split]:
    """Return the first splits that judge so many rows, or all of them."""
    judged = np.cumsum([len(split.judged) for split in splits])
    return splits[: int(np.searchsorted(judged, rows)) + 1]


def _one_split(task: Task, seed: int, groups: np.ndarray | None) -> Split | None:
    """Return a sample to learn and other rows to judge by; None if there are not rows enough for both."""
    n, nonzeros = task.n, task.row_nonzeros
    per_class = ROWS_PER_CLASS * (task.m + 1) if task.m > 1 else 0
    rows = int(max(LEARNED_NONZEROS / nonzeros, min(max(LEARNED_ROWS, per_class), MOST_NONZEROS / nonzeros), 100.0))
    if n - rows < JUDGED:
        return None
    keys = bits(seed, Purpose.FOLD, task.numbers)
    if groups is None:
        order = np.argsort(keys)
    else:
        _, first, group = np.unique(groups, return_index=True, return_inverse=True)
        order = np.argsort(keys[first][group], kind="stable")
        rows += int(np.count_nonzero(group[order[rows:]] == group[order[rows - 1]]))  # to the end of a group
    return None if n - rows < JUDGED else Split(np.sort(order[:rows]), np.sort(order[rows : rows + MOST_JUDGED]))


def dealt(keys: np.ndarray, strata: Sequence[np.ndarray], groups: np.ndarray | None, folds: int) -> np.ndarray:
    """Return the fold of each row: dealt by random keys within the strata, the rows of a group together.

    Groups are dealt by their shares of the strata, large ones first.
    """
    group = sizes = None
    if groups is not None:
        _, first, group, sizes = np.unique(groups, return_index=True, return_inverse=True, return_counts=True)
        keys, strata = keys[first], [np.bincount(group, each) / sizes for each in strata]
    order = np.lexsort((keys, *strata) if sizes is None else (keys, -sizes, *strata))
    fold = np.empty(len(keys), np.int64)
    fold[order] = np.arange(len(keys)) % folds
    return fold if group is None else fold[group]


def _held(task: Task, given: Sequence[Split]) -> list[Split]:
    """Return the given splits of the rows that a task holds; that of middle size, which fixes the grid, comes first."""
    n = 1 + max(int(rows.max(initial=-1)) for rows in (task.numbers, *(part for split in given for part in split)))
    every = ByRow(tuple(given)).among(task.numbers, n).splits
    splits = [split for split in every if len(split.learned) and len(split.judged)]
    if not splits:
        raise ValueError("no split of cv has rows to learn and rows to judge by: give other splits.")
    middle = sorted(range(len(splits)), key=lambda k: len(splits[k].learned))[len(splits) // 2]
    return [splits.pop(middle), *splits]
