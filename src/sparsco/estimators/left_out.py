"""Rows that a model has not learned, by which it is judged and its probabilities are calibrated."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from ..conversions.choose import LeftOut
from ..conversions.reservoir import SampleRows
from ..engine.long_stream import LEAST_HELD_ROWS
from .converted import Converted


def left_out(model: Any) -> LeftOut | None:
    """Return rows that a model with an automatic choice has not learned; None if there are none.

    Margins are in the order of ``coef_``.  Rows of a long stream were held out from it.  Others have margins at models
    of the same strength, which have learned most of the rows without them.
    """
    solved, state = model.convert(), model.fit_state
    choice = next((each["choice"] for each in solved.report.get("converted", ()) if "choice" in each), None)
    if choice is None or not state.runs:
        return None
    held = None if state.long is None else state.long.held.sample().R
    if held is not None and len(held.numbers) >= LEAST_HELD_ROWS:
        return at_model(held, solved)
    runs = state.begun()
    found = runs[0].conversion.left_out(runs, choice, not solved.coef.nnz)
    return None if found is None else found._replace(p=np.ascontiguousarray(model.arranged(found.p.T).T))


def at_model(rows: SampleRows, model: Converted) -> LeftOut:
    """Return rows that were held out, with their margins at a model."""
    X = sp.csr_array((rows.data, rows.indices, rows.indptr), shape=(len(rows.numbers), model.coef.shape[1]))
    return LeftOut((X @ model.coef.T).toarray() + model.intercept, rows.y, rows.weights[:, 0])
