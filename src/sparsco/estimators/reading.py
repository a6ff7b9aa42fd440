"""Reading a linear model: weights, counts, history and report; what needs the model converts first."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from ..data.rows import Matrix, margins
from ..data.slots import SeenColumns, without
from ..problem.state import check_room
from .base import LinearBase

_MANY_CELLS = 1 << 26
"""Above this, weights are not laid out for every feature to predict from."""


class Readable(LinearBase):
    """A linear model whose weights, counts and report can be read."""

    def _coef(self) -> Any:
        """Weights by column, dense or sparse as the user wants them."""
        coef = self.convert().coef
        if isinstance(self.fit_state.features, SeenColumns):
            parts, shape = sp.coo_array(coef), (coef.shape[0], self.n_features_in_)
            coef = sp.csr_array((parts.data, (parts.row, self.fit_state.features.to_columns(parts.col))), shape=shape)
        if self.fit_state.is_sparse or (self.storage == "seen" and not self.fit_state.has_names):
            return coef
        check_room(coef.shape[0] * coef.shape[1], "a dense coef_", "call sparsify() first")
        return coef.toarray()

    @property
    def coef_(self) -> Any:
        """Weights, (models, features); sparse after ``sparsify``, and always with ``storage="seen"``."""
        return self._coef()

    @property
    def intercept_(self) -> np.ndarray:
        """Intercepts, one per model."""
        return self.convert().intercept

    @property
    def n_nonzero_(self) -> int:
        """Nonzero weights over all models."""
        return int(self.convert().coef.count_nonzero())

    @property
    def n_selected_(self) -> int:
        """The number of features that have a weight, in however many models."""
        return len(np.unique(self.convert().coef.indices))

    @property
    def t_(self) -> int:
        """Examples seen; those of weight zero do not count."""
        self.check_fitted()
        self._flush()
        return self.fit_state.examples

    @property
    def history_(self) -> list[dict[str, float]]:
        """Objective on the first 1000 rows and nonzeros, of the iterate along the run and of the model at its end."""
        return self.convert().history

    @property
    def report_(self) -> dict[str, Any]:
        """What was chosen: optimizer, step, metric, guard, warnings; before the conversion only that it is to come.

        Reading it starts nothing: call ``convert`` first to have the report of a stream under way.
        """
        self.check_fitted()
        return self.fit_state.report(self.fit_state.examples)

    @property
    def gap_(self) -> float:
        """After ``polish``: the largest violation of an optimality condition over lam, the worst model's; NaN without.

        ``report_["converted"]`` says more for each run: duality gaps, passes, sizes of working sets.
        """
        runs = self.convert().report["converted"]
        return float(np.max([gap for run in runs for gap in run.get("polish", {}).get("gaps", [np.nan])]))

    def sparsify(self) -> Self:
        """``coef_`` as a scipy sparse array from now on; learning goes on as before."""
        self.check_fitted()
        self.fit_state.is_sparse = True
        return self

    def densify(self) -> Self:
        """``coef_`` as a dense array again."""
        self.check_fitted()
        self.fit_state.is_sparse = False
        return self

    def margins_of(self, matrix: Matrix) -> np.ndarray:
        """Margins of rows of a reader, (rows, models); features that the model does not know are left out."""
        model, rows = self.convert(), self.fit_state.features.find(matrix)
        used, columns = np.unique(model.coef.indices, return_inverse=True)
        if len(self.fit_state.features) * len(model.intercept) > _MANY_CELLS:  # only those with a weight
            place = np.searchsorted(used, rows.indices)
            place[place == len(used)] = 0
            kept = used[place] == rows.indices if len(used) else np.zeros(len(place), bool)
            rows = without(Matrix(rows.indptr, place, rows.data, len(used)), kept, len(used))
            w = np.zeros((max(len(used), 1), len(model.intercept)))
            w[columns, np.repeat(np.arange(len(model.intercept)), np.diff(model.coef.indptr))] = model.coef.data
        else:
            w = np.ascontiguousarray(model.coef.toarray().T)
        return margins(rows.indptr, rows.indices, rows.data, w, np.ascontiguousarray(model.intercept))
