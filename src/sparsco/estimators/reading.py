"""Readers of a linear model: weights, counts, history and report.  Readers that need the model convert first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from ..data.crosses import Crossed
from ..data.rows import Matrix, margins
from ..data.slots import SeenColumns, without
from ..error_control.scores import StabilityPaths
from ..problem.state import check_room
from ..streams.features import signs_of
from .base import LinearBase
from .converted import named_promise
from .intervals import intervals_of, table_of
from .row_offsets import shifted
from .summary import Summary, summary_of
from .weight_bars import weights

_MANY_CELLS = 1 << 26
"""The number of weights above which ``margins_of`` builds no dense array of all weights."""


class Readable(LinearBase):
    """A linear model whose weights, counts and report can be read."""

    def _coef(self) -> Any:
        """Return the weights by column, dense or sparse as the user has chosen."""
        coef = self.convert().coef
        if isinstance(self.fit_state.features, SeenColumns) and not self.fit_state.lists_features:
            parts, shape = sp.coo_array(coef), (coef.shape[0], self.n_features_in_)
            coef = sp.csr_array((parts.data, (parts.row, self.fit_state.features.to_columns(parts.col))), shape=shape)
        is_listed = self.storage == "seen" or self.fit_state.trimming is not None
        if self.fit_state.is_sparse or (is_listed and not self.fit_state.has_names):
            return coef
        check_room(coef.shape[0] * coef.shape[1], "a dense coef_", "call sparsify() first")
        return coef.toarray()

    @property
    def coef_(self) -> Any:
        """Return the weights, (models, features); sparse after ``sparsify``, and always with ``storage="seen"``."""
        return self._coef()

    @property
    def intercept_(self) -> np.ndarray:
        """Return the intercepts, one per model."""
        return self.convert().intercept

    @property
    def n_nonzero_(self) -> int:
        """Return the number of nonzero weights over all models."""
        return int(self.convert().coef.count_nonzero())

    @property
    def n_selected_(self) -> int:
        """Return the number of features that have a nonzero weight in at least one model."""
        return len(np.unique(self.convert().coef.indices))

    @property
    def t_(self) -> int:
        """Return the number of examples seen; those of weight zero do not count."""
        self.check_fitted()
        self._flush()
        return self.fit_state.examples

    @property
    def history_(self) -> list[dict[str, float]]:
        """Return the objective on the first 1000 rows and the nonzeros, along the run and at its end.

        Entries along the run are for the iterate, the last entry is for the model.
        """
        return self.convert().history

    @property
    def report_(self) -> dict[str, Any]:
        """Return the choices of the fit: optimizer, step, metric, guard, warnings.

        Before the conversion the report only states that there is no model yet.  Reading it computes nothing: call
        ``convert`` first to have the report of a stream under way.
        """
        self.check_fitted()
        return self.fit_state.report(self.fit_state.examples)

    def _choice(self) -> dict[str, Any]:
        """Return the report of the automatic choice; an empty dict if nothing was chosen."""
        return next((each["choice"] for each in self.convert().report.get("converted", ()) if "choice" in each), {})

    @property
    def alpha_(self) -> float:
        """Return the strength of the penalty, given or chosen; NaN if a number of features was chosen in its place."""
        choice, report = self._choice(), self.convert().report
        if choice:
            return float("nan") if choice["alpha"] is None else choice["alpha"]
        return float(report["lam"] + report["rho"])

    @property
    def l1_ratio_(self) -> float:
        """Return the share of the L1 term, given or chosen; NaN if a number of features was chosen in its place."""
        choice, report = self._choice(), self.convert().report
        if choice:
            return float("nan") if choice["l1_ratio"] is None else choice["l1_ratio"]
        total = report["lam"] + report["rho"]
        return float(report["lam"] / total) if total > 0.0 else 1.0

    @property
    def relaxed_(self) -> bool:
        """Return whether the selected features were learned again without the L1 term."""
        return bool(self._choice().get("relaxed", False))

    @property
    def size_path_(self) -> np.ndarray:
        """Return the trade-off between size and loss of an automatic fit: fields "size", "loss" and "error".

        The loss is the mean over held-out rows, the error its standard error.  ``at_size`` has the models.
        """
        sizes = self.convert_with_sizes().sizes or ()
        kind = [("size", np.int64), ("loss", np.float64), ("error", np.float64)]
        return np.array([(each.size, each.loss, each.error) for each in sizes], kind)

    @property
    def _stability(self) -> StabilityPaths:
        found = self.convert().stability
        if found is None:
            raise AttributeError(
                "this model makes no promise on false features: fit with StableSparseClassifier(fdr=0.1), with "
                "conversion=sparsco.conversions.PathStability(fdr=0.1), or train with --fdr 0.1."
            )
        return found

    def _by_column(self, figures: np.ndarray, missing: float) -> np.ndarray:
        """Return the figures of slots, (..., slots), by column; ``missing`` for columns without a slot."""
        if not isinstance(self.fit_state.features, SeenColumns) or self.fit_state.lists_features:
            return figures
        found = np.full((*figures.shape[:-1], self.n_features_in_), missing)
        found[..., self.fit_state.features.to_columns(np.arange(figures.shape[-1]))] = figures
        return found

    @property
    def efp_scores_(self) -> np.ndarray:
        """Return how many false features are expected among those that are at least as stable as each feature.

        Only for a selection with a promise (``fdr``, ``efp``).  The expectation is bounded by a theorem; see
        docs/promise.md for its assumptions.
        """
        paths = self._stability
        return self._by_column(paths.expected_false_positives(), float(paths.judged))

    @property
    def q_values_(self) -> np.ndarray:
        """Return the estimated share of false features in the smallest good selection that has each feature.

        Only for a selection with a promise (``fdr``, ``efp``).  It is the expected number of false features over the
        number selected, a plug-in estimate.
        """
        return self._by_column(self._stability.q_values(), 1.0)

    @property
    def stability_paths_(self) -> dict[str, np.ndarray]:
        """Return the strengths ("strengths"), and the share of halves that select each feature ("probabilities").

        Probabilities have the shape (strengths, features).  "used" is the number of strengths that scores use.  A model
        that was loaded has the paths of its selected features only.
        """
        paths = self._stability
        shares = paths.counts.toarray() / (2.0 * paths.pairs)
        used = np.array(len(paths.measure))
        return {"strengths": paths.strengths, "probabilities": self._by_column(shares, 0.0), "used": used}

    @property
    def selection_probabilities_(self) -> np.ndarray:
        """Return the largest share of halves that select each feature, over the strengths in use."""
        return self._by_column(self._stability.probabilities(), 0.0)

    @property
    def promise_(self) -> dict[str, Any]:
        """Return what is promised of the selection, from how many rows and columns, and what is known of it.

        Features that are the same as another, or strongly correlated with one, or that never vary, are named.
        """
        _ = self._stability
        names = self.known_names()

        def named(features: list[Any]) -> list[str]:
            numbers = {each for each in features if isinstance(each, int)}
            return [
                str(each) if each not in numbers else f"x{each}" if names is None else str(names[each])
                for each in features
            ]

        return named_promise(self.convert().report["converted"][0]["promise"], named)

    @property
    def gap_(self) -> float:
        """Return the largest violation of an optimality condition over lam after ``polish``; NaN without it.

        It is the duality gap over the objective where the loss has kinks, or the penalty no lam.  It is that of the
        worst model.  ``report_["converted"]`` has more for each run: duality gaps, passes,
        sizes of working sets.
        """
        runs = self.convert().report["converted"]
        return float(np.max([gap for run in runs for gap in run.get("polish", {}).get("gaps", [np.nan])]))

    def known_names(self) -> Any:
        """Return the names of all columns: of the data frame, or of the features of a table; None if there are none."""
        described = self.fit_state.described
        names = None if described is None else described.known_names()
        if isinstance(names, Mapping):
            return names
        return self.column_names if names is None or len(names) < self.n_features_in_ else names

    def names_of_slots(self, slots: np.ndarray, given: Any = None) -> list[str]:
        """Return the names of features by their slots; a column without a name is called by its number.

        ``given`` are names of all columns.
        """
        features = self.fit_state.features
        if isinstance(features, Crossed):
            return features.called(features.to_columns(slots))
        if self.fit_state.has_names:
            every = features.names
            return [str(every[slot]) for slot in slots.tolist()]
        columns, names = features.to_columns(slots).tolist(), self.known_names() if given is None else given
        if names is not None and not isinstance(names, Mapping) and len(names) < self.n_features_in_:
            raise ValueError(f"names has {len(names):,} names: there are {self.n_features_in_:,} columns.")
        labels = self.fit_state.labels
        return [str(labels.get(column, f"x{column}") if names is None else names[column]) for column in columns]

    def signs_of_slots(self, slots: np.ndarray) -> dict[int, float]:
        """Return the sign that hashing gave to the named feature of each slot; 1 without hashing."""
        state, every = self.fit_state, slots.tolist()
        if state.hash_seed is None:
            return dict.fromkeys(every, 1.0)
        names = [state.labels.get(column, "") for column in state.features.to_columns(slots).tolist()]
        signs = np.where([bool(name) for name in names], signs_of(names, state.hash_seed), 1.0)
        return dict(zip(every, signs.tolist(), strict=True))

    def summary(
        self,
        top: int = 20,
        names: Any = None,
        *,
        intervals: float | None = None,
        also: Iterable[Any] = (),
        split: bool = False,
    ) -> Summary:
        """Return the table of the selected features: name, weight, weight times spread, and how often they occur.

        The spread of a column is its standard deviation, so that the strongest features come first whatever their
        scale.  The table prints as text and shows as HTML in notebooks; ``lines`` has all features as records.

        Parameters
        ----------
        top : int
            The number of features that are shown.
        names : sequence of str, optional
            The names of all columns, if the model does not know them: in a pipeline,
            ``pipeline[-1].summary(names=pipeline[:-1].get_feature_names_out())``.
        intervals : float, optional
            The level of confidence intervals, such as 0.95.  They are for the weights without a penalty, with standard
            errors; see docs/intervals.md.  The model stores them.
        also : list of str or int
            Further features that get an interval, by name or column.
        split : bool
            If True, features are selected on one half of the rows, and the intervals come from the other half.

        Returns
        -------
        Summary
        """
        found = None if intervals is None else intervals_of(self, intervals, also, split)
        return summary_of(self, top, found, names)

    def plot(self, *, axes: Any = None, top: int = 20, names: Any = None) -> Any:
        """Draw the strongest features as bars with signs, and return the axes; this needs matplotlib.

        Parameters
        ----------
        axes : matplotlib axes, optional
            The axes to draw on; by default a new figure.
        top : int
            The number of features that are drawn.
        names : sequence of str, optional
            The names of all columns, if the model does not know them, as in :meth:`summary`.
        """
        return weights(self, axes=axes, top=top, names=names)

    def intervals(self, level: float = 0.95, also: Iterable[Any] = (), split: bool = False) -> np.ndarray:
        """Return the intervals of the weights without a penalty, one record for each feature and output.

        Parameters
        ----------
        level, also, split
            As in :meth:`summary`, where the level is called ``intervals``.

        Returns
        -------
        structured array
            Its fields are "feature", "output", "estimate", "error", "low" and "high".
        """
        return table_of(self, intervals_of(self, level, also, split))

    def sparsify(self) -> Self:
        """Change ``coef_`` to a scipy sparse array from now on; learning goes on as before."""
        self.check_fitted()
        self.fit_state.is_sparse = True
        return self

    def densify(self) -> Self:
        """Change ``coef_`` back to a dense array."""
        self.check_fitted()
        self.fit_state.is_sparse = False
        return self

    def margins_of_table(self, X: Any, own_offset: bool = True) -> np.ndarray:
        """Return the margins of a data frame, of dicts or of texts, by the columns that were learned.

        With ``own_offset`` they are those at the offsets in its column, if the table had one.
        """
        described, model = self.fit_state.described, self.convert()
        assert described is not None
        rows = described.rows(X, self.fit_state.features, model, own_offset)
        parts = [self.margins_of(*each) for each in rows]
        return np.concatenate(parts) if parts else np.zeros((0, len(model.intercept)))

    def margins_of_record(self, x: Any) -> np.ndarray:
        """Return the margins of a dict of the columns that were learned, or of a text, as ``predict`` has them."""
        described, model = self.fit_state.described, self.convert()
        assert described is not None
        return self.margins_of(described.row(x, self.fit_state.features, model))[0]

    def margins_of(self, matrix: Matrix, offsets: np.ndarray | None = None) -> np.ndarray:
        """Return the margins of the rows of a reader, (rows, models), at their offsets.

        Features without a slot are left out.
        """
        return self.margins_of_slots(self.fit_state.features.find(matrix), offsets)

    def margins_of_slots(self, rows: Matrix, offsets: np.ndarray | None = None) -> np.ndarray:
        """Return the margins of rows whose columns are slots, (rows, models), at their offsets."""
        model = self.convert()
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
        p = margins(rows.indptr, rows.indices, rows.data, w, np.ascontiguousarray(model.intercept))
        return shifted(p, offsets, self)
