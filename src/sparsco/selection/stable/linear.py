"""The base of the stable estimators: rows and targets in, stages or bursts, the model out."""

from __future__ import annotations

import copy
import math
import numbers
from collections.abc import Callable
from typing import Any, NamedTuple, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.feature_selection import SelectorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from ...data.inspection import sound
from ...data.randomness import seed_of
from ...data.rows import Matrix, as_matrix, check_numbers
from ...engine.run import DivergenceError
from ...estimators.life_cycle import LifeCycle, Phase, unchanged_on_error
from ...estimators.part_names import named
from ...estimators.passes import check_some_weight
from ...estimators.row_checks import checked_weights, validated
from ...estimators.views import NOT_FITTED, Shown, Viewed, refuse_in_view, strongest
from ...jit.dispatch import cast
from ...util.attributes import stored
from ...util.notices import warn
from ...util.threads import Pool, pool_of
from ...util.validation import is_auto, is_count, is_number
from .bursts import Bursts, Stabilized
from .paths import Examples
from .promised import Promised, converted_stage, estimator_of, promise_of
from .row_store import Kept, purge_by_stage
from .scaling import KINDS, Preparation
from .sts import STS, Plan, Stage, Validated, choose_size, fit_stages, margins_of, sizes_of_stages

METHODS = {"sts": STS(), "paper": Stabilized()}
FLOOR = 1000
"""The number of features at which a stream with n_features="auto" keeps fewer rows, not fewer features."""


class Answer(NamedTuple):
    """A model on a stable set, with its stages and its validation."""

    model: Stage
    path: list[Stage]
    stages: list[dict[str, Any]]
    probabilities: np.ndarray
    validated: Validated | None


class StableState(LifeCycle):
    """The state of the fit of a stable estimator, which owns it."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        self.model: Answer | None
        self.seed = seed
        self.kept: Kept | None = None
        """The rows of a stream that are kept."""
        self.running: list[Bursts] | None = None
        """The runs of a stream of the paper's method."""
        self.preparation: Any = None
        self.inside: Any = None
        """The estimator that keeps a promise; None if there is no promise."""

    def snapshot(self) -> Callable[[], None]:
        """Return a function that restores this state as it is now, including rows and runs."""
        restore_fields = super().snapshot()
        kept = None if self.kept is None else self.kept.snapshot()
        running = copy.deepcopy(self.running)

        def restore() -> None:
            restore_fields()
            self.kept, self.running = kept, running

        return restore

    def finish(self) -> None:
        """Keep the model and drop the rows."""
        self.kept = self.running = None
        self.enter(Phase.FINISHED)


class StableLinearModel(Promised, Viewed, SelectorMixin, BaseEstimator):
    """The base of the stable classifier and the stable regressor."""

    known_losses: dict[str, Any]
    classifies = False
    _takes_columns = False
    _outputs: int | None = None
    """The number of columns of y; None if y is one-dimensional."""
    _fit: StableState

    def __init__(
        self,
        n_features: Any = "auto",
        *,
        loss: Any = "squared",
        method: Any = "sts",
        prepare: Any = "auto",
        fit_intercept: bool = True,
        n_jobs: int | None = None,
        random_state: Any = None,
        fdr: float | None = None,
        efp: float | None = None,
        probes: bool = False,
    ) -> None:
        self.n_features = n_features
        self.fdr, self.efp, self.probes = fdr, efp, probes
        self.loss = loss
        self.method = method
        self.prepare = prepare
        self.fit_intercept = fit_intercept
        self.n_jobs = n_jobs
        self.random_state = random_state

    # ---- hooks that the classifier and the regressor implement -----------------------------------------------------

    def _coded(self, y: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return y as numbers (rows, columns) and the weights of the rows."""
        raise NotImplementedError

    def _targets(self, y: np.ndarray) -> np.ndarray:
        """Return the targets (models, rows) of coded y."""
        raise NotImplementedError

    # ---- learning --------------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from rows X and targets y, and return the estimator."""
        with unchanged_on_error(self):
            self._begin()
            if self._fit.inside is not None:
                self._fit.inside.fit(X, y, sample_weight)
                self._end_promised(Phase.BATCH)
                self.convert()
                self._fit.inside.finalize()
                self._fit.finish()
                return self
            matrix, y, weights = self._validated(X, y, sample_weight, reset=True)
            self._new_classes(y, None)
            check_some_weight(weights)
            self._add(matrix, *self._coded(y, weights), room=math.inf)
            self._fit.enter(Phase.BATCH)
            self.convert()
            self._fit.finish()
        return self

    def _partial_fit(self, X: Any, y: Any, sample_weight: Any, classes: Any = None) -> Self:
        with unchanged_on_error(self):
            anew = self.fit_state.phase is not Phase.STREAM
            if anew:
                self._begin()
            if self._fit.inside is not None:
                given = {"classes": classes} if self.classifies else {}
                self._fit.inside.partial_fit(X, y, sample_weight=sample_weight, **given)
                self._fit.model = None
                self._end_promised(Phase.STREAM)
                return self
            matrix, y, weights = self._validated(X, y, sample_weight, reset=anew, may_be_zero=True)
            self._new_classes(y, classes, anew)
            rows = matrix, *self._coded(y, weights)
            if isinstance(self._method(), Stabilized):
                self._burst_through(*_counted(*rows))
            else:
                self._add(*rows, room=self._method().memory)
            self._fit.model = None
            self._fit.enter(Phase.STREAM)
        return self

    def _end_promised(self, phase: Phase) -> None:
        """Take over what the estimator inside knows of columns and labels."""
        inside = self._fit.inside
        for name in ("n_features_in_", "feature_names_in_", "classes_"):
            if stored(inside, name) is not None:
                setattr(self, name, getattr(inside, name))
        self._outputs = inside.fit_state.outputs
        self._fit.enter(phase)

    def _begin(self) -> None:
        promise = promise_of(self)
        if promise is not None:
            self.loss_record()
            self._fit = StableState(seed_of(self.random_state))
            self._fit.preparation, self._fit.inside = Preparation(None, 0), estimator_of(self, promise)
            return
        self.loss_record(), self._method().check()
        k, method = self.n_features, self._method()
        is_share = not isinstance(k, numbers.Integral) and is_number(k, 0.0, 1.0) and k > 0.0
        if not (is_count(k) or is_share or is_auto(k)):
            raise ValueError(f"n_features={k!r}: it must be a whole number, a share between 0 and 1, or 'auto'.")
        if isinstance(method, Stabilized) and not isinstance(k, str):
            raise ValueError(f"n_features={k!r} is for method='sts': the paper's method decides by its pi0.")
        if not isinstance(self.fit_intercept, bool | np.bool_):
            raise ValueError(f"fit_intercept={self.fit_intercept!r}: it must be True or False.")
        if not isinstance(self.prepare, str | None) or self.prepare not in KINDS:
            raise ValueError(f"prepare={self.prepare!r}: it must be 'auto', 'rows', 'columns' or None.")
        self._fit = StableState(seed_of(self.random_state))

    def _validated(
        self, X: Any, y: Any, sample_weight: Any, reset: bool, may_be_zero: bool = False
    ) -> tuple[Matrix, np.ndarray, np.ndarray]:
        X, y = validated(self, X, y, reset, self._takes_columns)
        weights = np.ones(len(y))
        if sample_weight is not None:
            weights = checked_weights(sample_weight, X, may_be_zero)
        matrix = as_matrix(X)
        if y.dtype.kind == "f":
            check_numbers(y, "y")
        check_numbers(weights, "sample_weight")
        return matrix, y, weights

    def _new_classes(self, y: np.ndarray, classes: Any, anew: bool = True) -> None:
        """Update the classes from y; a regression has none."""

    def _add(self, matrix: Matrix, y: np.ndarray, weights: np.ndarray, room: float) -> None:
        matrix, y, weights = _counted(matrix, y, weights)
        if self._fit.kept is None:
            self._fit.kept = Kept(self._kind(), room, self._fit.seed)
        self._fit.kept.add(matrix, y, weights, self._least(), self._purge)

    def _burst_through(self, matrix: Matrix, y: np.ndarray, weights: np.ndarray) -> None:
        """Run the paper's method over a chunk: every path learns its rows once, in its own order."""
        if self._fit.running is None:
            self._fit.preparation = Preparation(self._kind(), matrix.d)
            self._fit.running = self._new_bursts(np.arange(matrix.d), self._targets(y), weights)
        if not len(matrix):
            return
        self._fit.preparation.add(matrix)
        examples = Examples(self._fit.preparation.applied(matrix), np.ascontiguousarray(self._targets(y)), weights)
        if len(examples.targets) != len(self._fit.running):
            raise ValueError(
                "y has a new class, which method='paper' cannot add later: give classes= in the first call."
            )
        with pool_of(self) as threads:
            for model, run in enumerate(self._fit.running):
                run.learn(examples, model, 1, threads)

    def _new_bursts(self, columns: np.ndarray, targets: np.ndarray, weights: np.ndarray) -> list[Bursts]:
        plan, method, p = self._plan(targets, weights), self._method(), self.n_features_in_
        seeds = self._fit.seed + np.arange(len(targets))
        return [Bursts(method, plan.loss, columns, p, seed, plan.intercept) for seed in seeds.tolist()]

    def _kind(self) -> str | None:
        """Return the kind of preparation; square roots are neither for regressions nor in the paper."""
        staged = isinstance(self._method(), STS)
        return self.prepare if self.prepare != "auto" or staged and self.loss_record().classifies else "columns"

    def _least(self) -> int:
        return FLOOR if isinstance(self.n_features, str) else self._size(self.n_features_in_)

    def _size(self, most: int) -> int:
        """Return n_features as a number of features."""
        k = self.n_features
        wanted = int(k) if isinstance(k, numbers.Integral) else max(1, round(k * self.n_features_in_))
        return min(wanted, most)

    def _examples(self, kept: Kept) -> Examples:
        return Examples(kept.prepared(), np.ascontiguousarray(self._targets(kept.y)), kept.weights)

    def _purge(self, kept: Kept) -> np.ndarray:
        with pool_of(self) as threads:
            examples = self._examples(kept)
            plan = self._plan(examples.targets, examples.weights)
            return purge_by_stage(examples, kept.columns, self._least(), plan, threads)

    def _plan(self, targets: np.ndarray, weights: np.ndarray) -> Plan:
        """Return how rows with these targets (models, rows) are learned."""
        loss = self.loss_record()
        if loss.shifts and not self.classifies:
            loss = loss.resolve(targets.T, np.broadcast_to(weights[:, None], targets.T.shape))
        return Plan(cast(loss), self._method(), self._fit.seed, bool(self.fit_intercept))

    def _solve(self) -> Answer:
        kept = self._fit.kept
        if self._fit.inside is not None:
            stage, probabilities = converted_stage(self, self._fit.inside)
            return Answer(stage, [stage], [], probabilities, None)
        if kept is None:
            answer = self._burst_answer(self._fit.running or [])
        else:
            kept = kept.settled()
            self._fit.preparation = kept.preparation
            with pool_of(self) as threads:
                answer = (self._staged if isinstance(self._method(), STS) else self._burst)(kept, threads)
        if not (np.all(np.isfinite(answer.model.coef)) and np.all(np.isfinite(answer.model.intercept))):
            raise DivergenceError("training diverged: scale the targets, or choose a loss that is less steep.")
        if not answer.model.coef.any():
            warn("no feature was selected: every feature was purged, or none is informative.")
        return answer

    def _staged(self, kept: Kept, threads: Pool) -> Answer:
        columns = kept.columns
        if not len(columns):
            raise ValueError("X has no nonzero: there is nothing to select.")
        examples = self._examples(kept)
        plan = self._plan(examples.targets, examples.weights)
        validated = None
        if isinstance(self.n_features, str):
            validated = choose_size(examples, columns, plan, threads)
        k = validated.chosen if validated is not None else self._size(len(columns))
        sizes = sizes_of_stages(len(columns), plan.method.keep, k)
        path = fit_stages(examples, columns, sizes, plan, threads)
        probabilities = np.zeros(self.n_features_in_)
        for stage in path[:-1] or path:
            probabilities[stage.features] = stage.chosen
        stages = [
            {
                "size": len(stage.features),
                "step": stage.step,
                "gravity": 0.0,
                "rejection": 1.0 - following / size,
                "kappa": stage.kappa,
            }
            for stage, size, following in zip(path, sizes, [*sizes[1:], sizes[-1]], strict=True)
        ]
        return Answer(path[-1], path, stages, probabilities, validated)

    def _burst(self, kept: Kept, threads: Pool) -> Answer:
        examples = self._examples(kept)
        runs = self._new_bursts(kept.columns, examples.targets, examples.weights)
        for model, run in enumerate(runs):
            run.learn(examples, model, int(self._method().passes), threads)
        return self._burst_answer(runs)

    def _burst_answer(self, runs: list[Bursts]) -> Answer:
        """Return the mean over the paths of each run; every model has its own set of features."""
        w = np.zeros((len(runs), self.n_features_in_))
        for model, run in enumerate(runs):
            w[model, run.columns] = run.weights
        features = np.flatnonzero(w.any(axis=0))
        b = np.array([run.b.mean() for run in runs])
        answer = Stage(features, w[:, features], b, float(self._method().eta), 1.0, np.ones(len(features)))
        probabilities = np.where(w.any(axis=0), np.max([run.probability for run in runs], axis=0), 0.0)
        stages = [stage | {"model": model} for model, run in enumerate(runs) for stage in run.stages]
        return Answer(answer, [answer], stages, probabilities, None)

    def shown(self) -> Shown:
        """Return what the HTML view shows: the size of the stable set, and its strongest features."""
        state = self.fit_state
        if not state.is_fitted:
            return Shown(NOT_FITTED)
        if state.model is None:
            return Shown("a stream under way; convert() makes the model of it")
        if state.inside is not None:
            return state.inside.shown()
        stage = state.model.model
        coef = sp.csr_array(stage.coef)
        outputs = stored(self, "classes_", range(len(stage.coef)))
        outputs = [str(each) for each in outputs] if len(stage.coef) > 1 else [""]
        bars, unit = strongest(coef, None, outputs, self._names_at)
        size = f"{np.count_nonzero(stage.coef.any(axis=0)):,} of {self.n_features_in_:,} features are stable"
        return Shown(size, bars, coef.nnz, f"{unit} of prepared columns")

    def _names_at(self, places: np.ndarray) -> list[str]:
        """Return the names of features by their place in the stable set."""
        names, columns = stored(self, "feature_names_in_"), self.convert().model.features[places].tolist()
        return [f"x{column}" if names is None else str(names[column]) for column in columns]

    # ---- reading the model -----------------------------------------------------------------------------------------

    def loss_record(self) -> Any:
        """Return the loss that is learned, as a record."""
        loss = named("loss", self.loss, self.known_losses)
        loss.check()
        return loss

    def _method(self) -> Any:
        return named("method", self.method, METHODS)

    def __sklearn_is_fitted__(self) -> bool:
        return self.fit_state.is_fitted

    @property
    def fit_state(self) -> StableState:
        """Return the state of the fit; an empty state before the first fit."""
        return stored(self, "_fit") or StableState()

    def convert(self) -> Answer:
        """Learn the model from the rows of a stream, if that is not done yet, and return it.

        Every reader of the model calls this method: ``coef_``, ``predict`` and others.  The stream can go on
        afterwards.
        """
        if not self.__sklearn_is_fitted__():
            raise NotFittedError(f"This {type(self).__name__} is not fitted yet: call fit or partial_fit first.")
        if self._fit.model is None:
            refuse_in_view(self)
            self._fit.model = self._solve()
        return self._fit.model

    @property
    def coef_(self) -> np.ndarray:
        """Return the weights (models, features) of the given columns; with ``prepare="rows"`` of the prepared ones."""
        model = self.convert().model
        w = np.zeros((len(model.coef), self.n_features_in_))
        w[:, model.features] = model.coef
        if self._fit.preparation.kind == "columns":
            w[:, model.features] /= self._fit.preparation.scales[model.features]
        return w

    @property
    def intercept_(self) -> np.ndarray:
        """Return the intercepts, one per model."""
        return self.convert().model.intercept

    @property
    def n_nonzero_(self) -> int:
        """Return the number of features with a nonzero weight."""
        return int(self._get_support_mask().sum())

    @property
    def preparation_(self) -> str | None:
        """Return the preparation of the rows, with ``prepare="auto"`` decided."""
        self.convert()
        return self._fit.preparation.kind

    @property
    def stages_(self) -> list[dict[str, Any]]:
        """Return a dict for each stage: the size of the stable set, the gravity, the rejection rate.

        With STS it also has the step and kappa, the mean agreement of two paths on the next set.
        """
        return self.convert().stages

    @property
    def selection_probabilities_(self) -> np.ndarray:
        """Return for each feature the share of paths that would keep it when it was last judged.

        0 if it never occurred.

        For the paper's method it is the share of bursts that the feature survived.
        """
        return self.convert().probabilities

    @property
    def size_path_(self) -> list[dict[str, Any]]:
        """Return the nested sets, the largest first: size, features, coef (of prepared columns), intercept."""
        return [
            {"size": len(stage.features), "features": stage.features, "coef": stage.coef, "intercept": stage.intercept}
            for stage in self.convert().path
        ]

    @property
    def validation_path_(self) -> dict[str, Any] | None:
        """Return sizes, their cross-validated errors, the standard error and the chosen size; None without "auto".

        They exist only with ``n_features="auto"``.
        """
        validated = self.convert().validated
        return None if validated is None else validated._asdict()

    def at_size(self, k: int) -> Self:
        """Return a copy with the largest set of the path that has at most k features."""
        answer = self.convert()
        fits = [stage for stage in answer.path if len(stage.features) <= k]
        if not fits:
            sizes = [len(stage.features) for stage in answer.path]
            how = "a smaller n_features" if self._fit.inside is None else "a stricter fdr or efp"
            raise ValueError(f"k={k}: the path has the sizes {sizes}; fit with {how}.")
        twin, state = copy.copy(self), StableState(self._fit.seed)
        state.preparation, state.model = copy.deepcopy(self._fit.preparation), answer._replace(model=fits[0])
        state.finish()
        twin._fit = state
        return twin

    def _get_support_mask(self) -> np.ndarray:
        model = self.convert().model
        mask = np.zeros(self.n_features_in_, bool)
        mask[model.features[model.coef.any(axis=0)]] = True
        return mask

    def _margins(self, X: Any, offset: Any = None) -> np.ndarray:
        check_is_fitted(self)
        if offset is not None:
            raise ValueError("a stable selection takes no offset: leave it out, or use SparseClassifier.")
        model = self.convert().model
        X = validate_data(self, sound(X), accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        return margins_of(self._fit.preparation.applied(as_matrix(X)), model)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _counted(matrix: Matrix, y: np.ndarray, weights: np.ndarray) -> tuple[Matrix, np.ndarray, np.ndarray]:
    """Return the rows of positive weight."""
    here = np.flatnonzero(weights)
    return (matrix, y, weights) if len(here) == len(weights) else (matrix.take(here), y[here], weights[here])
