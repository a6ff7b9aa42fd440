"""Optima of many strengths with the same targets, each started at the one before.

Some strengths at a time are solved on the columns that may be selected, which are copied.  One pass over all rows then
gives the gradients of all of them.  Columns that were left out wrongly are added, and the strengths are solved again.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..util.progress import step
from .polish_model import Model
from .polish_passes import EIGHT_MODELS, certify, look, sum_gradients, take_steps
from .polish_rows import RowsInMemory, margins_of

_CLOSEST = 1e-3
"""The least share of the tolerance to which conditions are met for the sake of duality gaps."""
_SCREEN = 0.3
"""A column may be selected soon if its slope is at least this share of its L1 weight."""

_MOST = 0.5
"""The share of the nonzeros in the columns that may be selected, above which no column is left out."""


def solve_chain(rows: RowsInMemory, chain: list[Model], tol: float, passes: int) -> int:
    """Solve models from the largest strength to the smallest; return the number of passes over all rows."""
    if not chain[0].takes_samples:
        for model in _solved_in_turn(rows, chain, tol, passes):
            certify(rows, [model])
        return sum(len(model.working_sets) for model in chain) + 1
    look(rows, chain[:1])
    done, held = 1, _Columns(rows, chain[0].sampling.curves)
    for first in range(0, len(chain), EIGHT_MODELS):
        step(f"polishing: strength {first + 1} of {len(chain)}")
        some = chain[first : first + EIGHT_MODELS]
        if first:
            some[0].start_at(chain[first - 1])
        done += _solve_some(rows, some, held, tol, passes)
    return done


class _Columns:
    """The columns that are held, and the rows in them."""

    def __init__(self, rows: RowsInMemory, curves: np.ndarray | None) -> None:
        """Hold none of the columns at first; ``curves`` are the second derivatives of all weights in a first pass."""
        self.all_rows, self.rows, self.curves = rows, rows, curves
        self.columns = np.empty(0, np.int64)

    def hold(self, columns: np.ndarray) -> None:
        """Copy these columns, unless they are held already; hold all if these have most of the nonzeros."""
        if np.isin(columns, self.columns, assume_unique=True).all():
            return
        self.columns, self.rows = columns, self.all_rows.narrowed(columns)
        if len(self.rows.matrix.data) > _MOST * len(self.all_rows.matrix.data):
            self.columns, self.rows = np.arange(self.all_rows.matrix.d), self.all_rows


def _solve_some(rows: RowsInMemory, models: list[Model], held: _Columns, tol: float, passes: int) -> int:
    """Solve some strengths, of which the first has been started; return the number of passes over all rows.

    Strengths that are not reached are solved again: in more columns, if some were left out wrongly, otherwise more
    closely than the tolerance asks, since the duality gaps need that.
    """
    done, columns, closer, left = 0, models[0].candidates(_SCREEN), 1.0, models
    while done < passes and left and closer >= _CLOSEST:
        held.hold(columns)
        room = np.empty((len(left), 2, len(rows.matrix), 1))  # one large array costs less than many smaller ones
        twins = [model.narrowed(held.columns, held.curves, own) for model, own in zip(left, room, strict=True)]
        for twin, model in zip(_solved_in_turn(held.rows, twins, closer * tol, passes), left, strict=True):
            model.take_optimum(twin, held.columns, tol)
        sum_gradients(rows, left)
        done += 1
        wrong = np.logical_or.reduce([model.violations > tol * model.unit for model in left])
        wrong[held.columns] = False
        columns = np.union1d(held.columns, np.flatnonzero(wrong))
        left = [model for model in left if not model.is_reached(tol)]
        if not wrong.any():
            closer *= 0.1
    return done


def _solved_in_turn(rows: RowsInMemory, chain: list[Model], tol: float, passes: int) -> Iterator[Model]:
    """Solve models on the same rows, each started at the one before, and yield each when it is solved.

    The first step of each needs no pass, and is taken even if the start is within the tolerance.  A model whose own
    start is better needs one.  Models that have seen a pass are near their optima already, and take over samples only.
    """
    for k, model in enumerate(chain):
        if model.term is None:
            own = model.W, model.b
            if k:
                model.start_at(chain[k - 1])
            if not k or (own[0].any() and model.objective_at(margins_of(rows.matrix, *own), own[0]) < model.best.f):
                model.W, model.b = own
                look(rows, [model])
        elif k:
            model.share_sample(chain[k - 1])
        for number in range(passes):
            if number and (model.is_solved(tol) or model.is_stuck):
                break
            if model.is_confirmed:
                take_steps(rows, [model], rows.nonzeros, tol)
            look(rows, [model])
        if not model.is_confirmed:  # the last step was too long, and no pass is left to shorten it
            model.go_back()
            look(rows, [model])
        yield model
