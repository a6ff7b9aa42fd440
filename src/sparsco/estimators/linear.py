"""A linear model being learned: rows and targets in, passes over them, the model out.  Nothing here needs scikit-learn,
whose import takes longer than most commands; `estimators` adds its contract."""

from __future__ import annotations

import contextlib
import copy
import inspect
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, Self

import numpy as np
import scipy.sparse as sp

from ..conversions.averaging import Answer
from ..data.randomness import Purpose, uniform
from ..data.rows import Matrix, margins
from ..data.slots import Columns, Names, SeenColumns, without
from ..engine.polish import finish
from ..engine.run import Run
from ..penalties import strength
from ..problem.state import check_room
from ..util.progress import Progress
from ..util.threads import Threads
from .parameters import by_column, check_parameters, most_models, named, new_runs, refuse_polish, tolerance
from .views import refuse_in_view

_CHECKED_ROWS = 20_000
_FIXED = (
    "loss", "alpha", "l1_ratio", "penalty", "optimizer", "conversion", "step_size", "fit_intercept", "feature_weights",
    "storage", "preset", "budget", "target_excess_risk",
)  # fmt: skip
"""Parameters that cannot change while a stream is under way."""
_SLICE = 1 << 16
_MANY_CELLS = 1 << 26
"""Above this, weights are not laid out for every feature to predict from."""
_MANY_COLUMNS = 1 << 20
"""From here on only columns that occur have room, where ``storage="auto"`` and their number is known."""
_NOTED = 1024
"""Examples of ``learn_one`` that are learned at once."""


def _fingerprint(value: Any) -> Any:
    """What tells a parameter from another: repr, which leaves out the middle of long arrays, and their bytes."""
    if isinstance(value, np.ndarray):
        return value.shape, str(value.dtype), zlib.crc32(np.ascontiguousarray(value).view(np.uint8))
    return (type(value), *map(_fingerprint, value)) if isinstance(value, tuple) else repr(value)


class Solved(NamedTuple):
    """A converted model and what there is to say about it."""

    coef: sp.csr_array
    intercept: np.ndarray
    t: int
    history: list[dict[str, float]]
    report: dict[str, Any]


class LinearModel:
    """What the classifier and the regressor share."""

    _losses: dict[str, Any]
    _takes_columns = False
    """Whether y may have several columns."""
    classifies = False
    _lams: Any = None
    """Several strengths of the penalty, where a path is learned."""
    _single = False
    """Whether they are learned in float32."""
    _runs: Any
    _model: Any
    _features: Any

    def __init__(
        self, loss: Any = "squared", *, alpha: Any = "auto", l1_ratio: float = 1.0, penalty: Any = "elasticnet",
        optimizer: Any = "auto",
        conversion: Any = "auto", step_size: Any = "auto", max_iter: int = 5, tol: float | None = 1e-3,
        n_iter_no_change: int = 1, early_stopping: bool = False, validation_fraction: float = 0.1,
        shuffle: bool = True, random_state: Any = None, fit_intercept: bool = True,
        feature_weights: Any = None, storage: str = "auto", preset: Any = None, budget: int | None = None,
        target_excess_risk: tuple[float, float] | None = None, warm_start: bool = False, n_jobs: int | None = None,
        verbose: int = 0, polish: bool | float = False,
    ) -> None:  # fmt: skip
        self.loss = loss
        self.alpha = alpha
        self.l1_ratio = l1_ratio
        self.penalty = penalty
        self.optimizer = optimizer
        self.conversion = conversion
        self.step_size = step_size
        self.max_iter = max_iter
        self.tol = tol
        self.n_iter_no_change = n_iter_no_change
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.shuffle = shuffle
        self.random_state = random_state
        self.fit_intercept = fit_intercept
        self.feature_weights = feature_weights
        self.storage = storage
        self.preset = preset
        self.budget = budget
        self.target_excess_risk = target_excess_risk
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.polish = polish

    def settings(self) -> dict[str, Any]:
        """The parameters of ``__init__``."""
        names = inspect.signature(type(self).__init__).parameters
        return {name: getattr(self, name) for name in names if name != "self"}

    # ---- what the classifier and the regressor say themselves ------------------------------------------------------

    def _all_targets(
        self, y: np.ndarray, weights: np.ndarray | None, goes_on: bool
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Targets as numbers and the rows' weights, where ``fit`` sees all of them."""
        raise NotImplementedError

    def _encoded(
        self, y: np.ndarray, weights: np.ndarray | None, first: bool, classes: Any
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """The same for the next rows of a stream."""
        raise NotImplementedError

    def _models(self) -> list[Any]:
        """The targets of each run."""
        raise NotImplementedError

    def _loss(self) -> Any:
        """The loss that is learned."""
        loss = named("loss", self.loss, self._losses)
        loss.check()
        return loss

    def _blocks(self, models: int) -> list[slice]:
        """The models of each run: as many as it takes, or all where the penalty ties them together."""
        size = most_models(self) or models
        return [slice(first, min(first + size, models)) for first in range(0, models, size)]

    def _target(self, y: Any) -> float:
        """The target of one example as a number."""
        raise NotImplementedError

    def _new_classes(self, y: np.ndarray) -> list[tuple[int, int]]:
        """The codes of classes that first appear in these rows, and the first row of each, in their order."""
        return []

    def _add_class(self, code: int) -> None:
        """A model for a class whose first row comes next."""

    def _arranged(self, models: Any) -> Any:
        """What there is for each model, (models, ...), in the order of ``coef_``."""
        return models

    # ---- learning --------------------------------------------------------------------------------------------------

    def polish_on(self, rows: Callable[[], Iterable[tuple[Matrix, np.ndarray, np.ndarray]]]) -> None:
        """Turn what was learned into the optimum over all rows, given in passes: places, codes and weights."""
        model = solve(self._runs, [finish(run, rows, tolerance(self)) for run in self._runs])
        self._model = model._replace(coef=self._arranged(model.coef), intercept=self._arranged(model.intercept))

    def polish_on_chunks(self, chunks: Callable[[], Iterable[tuple[Matrix, np.ndarray, np.ndarray | None]]]) -> None:
        """The same for rows of a reader, whose passes are those that were learned from."""

        def rows() -> Iterator[tuple[Matrix, np.ndarray, np.ndarray]]:
            for matrix, y, weights in chunks():
                codes, scale = self._encoded(y, weights, False, None)
                yield self._features.find(matrix), codes, np.ones(len(codes)) if scale is None else scale

        self.polish_on(rows)

    def take_rows(
        self, matrix: Matrix, y: np.ndarray, weights: np.ndarray | None = None, *, classes: Any = None,
        order: np.ndarray | None = None, again: bool = False, columns: int = 0,
    ) -> Self:  # fmt: skip
        """``partial_fit`` for rows of a reader, who has checked them, or for some of them in an ``order``; ``again`` in
        a further pass.  ``columns``: how many there will be, where that is known."""
        with self._unchanged_on_error():
            first = self._begins("a stream")
            if first:
                self._features = self._new_features(columns)
            self.n_features_in_ = matrix.d if first else max(matrix.d, self.n_features_in_)
            self._learn_next(matrix, y, weights, first, classes, again, order)
        return self

    def _begins(self, what: str) -> bool:
        """Whether the coming rows are the first of a stream."""
        first = not self._goes_on()
        if first:
            check_parameters(self)
        if self.early_stopping:
            raise ValueError(f"early_stopping=True needs all rows at once, which {what} never sees.")
        self._flush()
        return first

    def _learn_next(
        self, matrix: Matrix, y: np.ndarray, weights: np.ndarray | None, first: bool, classes: Any, again: bool = False,
        order: np.ndarray | None = None,
    ) -> None:  # fmt: skip
        y, weights = self._encoded(y, weights, first, classes)
        matrix = self._placed(matrix)
        if first:
            self._begin_stream(matrix.d)
        self._learn_rows(matrix, y, weights, again, order)

    def _begin_stream(self, d: int, one_by_one: bool = False) -> None:
        runs = self._begin(d, one_by_one=one_by_one)
        for run in runs:
            run.rehearse()
        self._runs, self._model, self.n_iter_, self._layout = runs, None, 1, "dense"

    def _learn_rows(
        self, matrix: Matrix, y: np.ndarray, weights: np.ndarray | None, again: bool = False,
        order: np.ndarray | None = None,
    ) -> None:  # fmt: skip
        """The next rows of the stream, whatever features and classes they bring."""
        for run in self._runs:
            run.grow(matrix.d)
        rows, at = np.arange(len(matrix)) if order is None else order, 0
        for code, first in self._new_classes(y[rows]):
            self._feed(matrix, y, weights, rows[at:first], again)
            self._add_class(code)
            at = first
        self._feed(matrix, y, weights, rows[at:], again)
        self._model, self._streaming = None, True

    def judge(self, matrix: Matrix, y: np.ndarray, weights: np.ndarray | None = None) -> tuple[float, float] | None:
        """The iterate on rows that it has not learned: the sums of the loss and of ``_mistakes`` over the rows; None
        before there is an iterate."""
        if any(run.pilot is None for run in self._runs):
            return None
        rows = self._features.find(matrix)
        features, places = rows.indices.astype(np.int64), np.arange(len(rows.indices))  # each entry its own weight
        iterates = [run.weights_at(features) for run in self._runs]
        parts = [margins(rows.indptr, places, rows.data, w, b) for w, b in iterates]
        p = np.ascontiguousarray(self._arranged(np.concatenate(parts, 1).T).T)
        scale = np.ones(len(matrix)) if weights is None else weights
        return float((scale * self.row_losses(p, y)).sum()), float((scale * self._mistakes(p, y)).sum())

    def row_losses(self, p: np.ndarray, y: np.ndarray) -> np.ndarray:
        """The loss of each row by its margins, which are in the order of ``coef_``; summed over the models."""
        raise NotImplementedError

    def _codes_now(self, y: np.ndarray) -> np.ndarray:
        """Targets as numbers; nothing new is made of what is new."""
        return y

    def _mistakes(self, p: np.ndarray, y: np.ndarray) -> np.ndarray:
        """For each row of margins how wrong it is: 0 or 1 for a label, the squared distance for a number."""
        raise NotImplementedError

    # ---- one example at a time -------------------------------------------------------------------------------------

    def learn_one(self, x: Any, y: Any) -> Self:
        """Learn one example: x is a dict {name: value}, a list of tokens (1 for each), or a tuple (columns, values).

        It is only noted here and learned with a few hundred others, or when something is asked for: a call costs
        microseconds.  Features and, unless a first ``partial_fit`` declared them, classes may be new at any time.  A
        stream that begins here has ``optimizer="auto"`` mean ``NFTRL(births=True)`` and ``conversion="auto"`` the
        iterate itself.
        """
        if not self.__dict__.get("_noting"):
            with self._unchanged_on_error():
                self._begin_noting(x)
                self._note(x, y)
        else:
            self._note(x, y)
            if len(self._noted) >= _NOTED:
                self._flush()
        return self

    def _note(self, x: Any, y: Any) -> None:
        features = self._features
        features.note(x)
        try:
            self._noted.append(self._target(y))
        except BaseException:
            features.unnote()
            raise

    def _begin_noting(self, x: Any) -> None:
        """From here on ``learn_one`` notes examples, for the stream under way or for a new one."""
        anew = not self._goes_on()
        self._begin_labels(anew)
        if anew:
            check_parameters(self)
            refuse_polish(self, "learn_one")
            self._features = self._new_features() if type(x) is tuple else Names()
            self.n_features_in_ = 0
            self._begin_stream(0, one_by_one=True)
        self._noted: list[float] = []
        self._noting = self._streaming = True

    def _begin_labels(self, anew: bool) -> None:
        """Prepare ``_target``."""

    def _class_weights(self, y: np.ndarray) -> np.ndarray | None:
        """The weight of each row by its target."""
        return None

    def _flush(self) -> None:
        """Learn the examples that ``learn_one`` noted."""
        if not self.__dict__.get("_noted"):
            return
        refuse_in_view(self)
        self._goes_on()
        y, matrix = np.array(self._noted), self._features.drain()
        self._noted = []
        self.n_features_in_ = self._features.width
        self._learn_rows(matrix, y, self._class_weights(y))

    def _margins_one(self, x: Any) -> np.ndarray:
        """Margins of one example, one per model: those of the iterate while a stream is under way."""
        self.check_fitted()
        self._flush()
        row = self._features.row(x)
        if not self._streaming:
            model = self._solved()
            return (row.to_scipy() @ model.coef.T).toarray()[0] + model.intercept
        parts = []
        for run in self._runs:
            run = run if run.pilot is not None else run.early()
            w, b = run.weights_at(row.indices.astype(np.int64))
            parts.append(row.data @ w + b)
        return self._arranged(np.concatenate(parts))

    def _feed(
        self, matrix: Matrix, y: np.ndarray, weights: np.ndarray | None, order: np.ndarray, again: bool
    ) -> None:
        weights = np.ones(len(matrix)) if weights is None else weights
        if len(self._runs) == 1:
            self._runs[0].feed(matrix, y, weights, order, again)
        else:
            runs = [(run,) for run in self._runs]
            Threads(self.n_jobs).map("learn", lambda run: run.feed(matrix, y, weights, order, again), runs)

    def _passes(self, matrix: Matrix, y: np.ndarray, weights: np.ndarray | None) -> None:
        seed = self._runs[0].seed
        learned = np.arange(len(matrix)) if weights is None else np.flatnonzero(weights)
        check, passes = None, 1 if tolerance(self) else self.max_iter
        if self.early_stopping:
            held = uniform(seed, Purpose.VALIDATION, np.arange(len(learned))) < self.validation_fraction
            if held.all() or not held.any():
                raise ValueError(
                    f"validation_fraction={self.validation_fraction} of {len(learned)} rows leaves nothing to learn or "
                    "to check: give more rows or set early_stopping=False."
                )
            check, learned = learned[held], learned[~held]
        elif self.tol is not None:
            check = learned[:: max(1, len(learned) // _CHECKED_ROWS)]
        if check is not None and passes > 1:
            looked_at = matrix.take(check), y[check], np.ones(len(check)) if weights is None else weights[check]
        for run in self._runs:
            if run.expect(len(learned) * passes):
                check = None  # a conversion that was told the length of the stream gets all of it
        best, stale = np.inf, 0
        progress = Progress(type(self).__name__, len(learned), passes, self.verbose)
        for epoch in range(1, passes + 1):
            order = learned
            if self.shuffle:
                order = np.random.default_rng([seed, Purpose.SHUFFLE, self.n_iter_]).permutation(learned)
            for first in range(0, len(order), _SLICE):
                self._feed(matrix, y, weights, order[first : first + _SLICE], again=epoch > 1)
                progress.show(epoch, min(first + _SLICE, len(order)))
            self.n_iter_ += 1
            if check is None or epoch == passes:
                continue
            objective = self._objective(*looked_at, penalised=not self.early_stopping)
            stale = stale + 1 if objective > best - (self.tol or 0.0) * abs(objective) else 0
            best = min(best, objective)
            if stale >= self.n_iter_no_change:
                break
        progress.close()

    def _objective(self, matrix: Matrix, y: np.ndarray, weights: np.ndarray, penalised: bool) -> float:
        """Mean loss (and penalty) of the current iterates, summed over models; infinite before learning began."""
        total = 0.0
        for run in self._runs:
            if run.pilot is None:
                return np.inf
            w, b = run.weights()
            total += run.mean_loss(matrix, *run.lanes_of(y, weights), w, b)
            if penalised:
                total += float(np.sum(strength(run.problem.regularizer, w)))
        return total

    def finalize(self) -> Self:
        """Drop the training state and keep the model: small, ready to predict, no longer to be trained further.

        Where storage follows the features seen, those of weight zero are forgotten.
        """
        self._drop_training("finalize() dropped the training state")
        return self

    def with_weights(self, coef: Any, intercept: Any) -> Self:
        """A copy with these weights, in the shapes of ``coef_`` and ``intercept_``; it learns no further."""
        if isinstance(self._features, Names):
            raise ValueError("with_weights has a number for every column, and the features of this model have names.")
        twin = copy.deepcopy(self)
        twin._drop_training("with_weights() left the training state behind")
        twin._features = Columns()
        twin._features.width = self.n_features_in_
        coef = sp.csr_array(coef if sp.issparse(coef) else np.atleast_2d(coef))
        intercept = np.atleast_1d(np.asarray(intercept, dtype=np.float64))
        twin._model = self._solved()._replace(coef=coef, intercept=intercept)
        return twin

    def _drop_training(self, why: str) -> None:
        model = self._solved()
        if self._features.seen:
            used = np.unique(model.coef.indices)
            if not used.size and isinstance(self._features, SeenColumns):
                used = np.zeros(1, np.int64)  # there is no model of no features
            self._features = self._features.only(used)
            self._model = model._replace(coef=sp.csr_array(model.coef[:, used]))
            if isinstance(self._features, Names):
                self.n_features_in_ = len(used)
        self._runs, self._ended, self._noting, self._streaming = None, why, False, False

    def __getstate__(self) -> Any:
        """After ``fit`` without ``warm_start`` the model alone; of a stream all that it needs to go on."""
        self._flush()
        if getattr(self, "_runs", None) is None or self._streaming or self.warm_start:
            return super().__getstate__()
        model = object.__new__(type(self))
        vars(model).update(vars(self))
        model._drop_training(
            "a pickle made after fit holds no training state (warm_start=True before fit would have kept it)"
        )
        return super(LinearModel, model).__getstate__()

    def __deepcopy__(self, memo: dict) -> Self:
        twin = object.__new__(type(self))
        memo[id(self)] = twin
        vars(twin).update(copy.deepcopy(vars(self), memo))
        return twin

    def _goes_on(self) -> bool:
        """Whether a stream is under way."""
        if getattr(self, "_runs", None) is None and getattr(self, "_model", None) is not None:
            raise ValueError(f"{self._ended}: this model cannot go on; fit a clone of it anew.")
        if getattr(self, "_runs", None) is None:
            return False
        changed = [name for name in _FIXED if _fingerprint(getattr(self, name)) != self._began_with[name]]
        if changed:
            raise ValueError(
                f"{', '.join(changed)} changed since this stream began: set it back, or fit a clone of the model anew."
            )
        return True

    def _begin(
        self, d: int, init: tuple[np.ndarray, np.ndarray] | None = None, one_by_one: bool = False
    ) -> list[Run]:
        """New runs, and what they were made from."""
        runs = new_runs(self, d, init, one_by_one)
        self._began_with = {name: _fingerprint(getattr(self, name)) for name in _FIXED}
        return runs

    @contextlib.contextmanager
    def _unchanged_on_error(self) -> Iterator[None]:
        """An error leaves the estimator as it was, runs that are still collecting pilot rows included."""
        before = dict(vars(self))
        features = before.get("_features")
        known = features.mark() if isinstance(features, Columns) else None
        collecting = [(run, run.before_pilot()) for run in before.get("_runs") or [] if run.pilot is None]
        try:
            yield
        except BaseException:
            vars(self).clear()
            vars(self).update(before)
            if isinstance(features, Columns):
                features.back_to(known)
            for run, state in collecting:
                vars(run).clear()
                vars(run).update(state)
            raise

    def _new_features(self, d: int = 0) -> Columns:
        """For a stream of rows with d columns; 0 where nobody knows what will come."""
        many = self.storage == "auto" and d >= _MANY_COLUMNS and not by_column(self)
        return SeenColumns() if many or self.storage == "seen" else Columns()

    def _placed(self, matrix: Matrix) -> Matrix:
        """The rows with the features' slots."""
        if isinstance(self._features, Columns):
            self._features.width = self.n_features_in_
        return self._features.place(matrix)

    # ---- reading the model -----------------------------------------------------------------------------------------

    def __sklearn_is_fitted__(self) -> bool:
        return getattr(self, "_runs", None) is not None or getattr(self, "_model", None) is not None

    def check_fitted(self) -> None:
        """Refuse to answer before anything was learned."""
        if not self.__sklearn_is_fitted__():
            from sklearn.exceptions import NotFittedError

            raise NotFittedError(f"This {type(self).__name__} is not fitted yet: call fit or partial_fit first.")

    def _solved(self) -> Solved:
        """The converted model, computed when first asked for after learning."""
        self.check_fitted()
        self._flush()
        if self._model is None:
            refuse_in_view(self)
            model = solve(self._runs)
            self._model = model._replace(coef=self._arranged(model.coef), intercept=self._arranged(model.intercept))
        return self._model

    def _coef(self) -> Any:
        """Weights by column, dense or sparse as the user wants them."""
        coef = self._solved().coef
        if isinstance(self._features, SeenColumns):
            parts, shape = sp.coo_array(coef), (coef.shape[0], self.n_features_in_)
            coef = sp.csr_array((parts.data, (parts.row, self._features.to_columns(parts.col))), shape=shape)
        if self._layout == "sparse" or (self.storage == "seen" and not isinstance(self._features, Names)):
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
        return self._solved().intercept

    @property
    def n_nonzero_(self) -> int:
        """Nonzero weights over all models."""
        return int(self._solved().coef.count_nonzero())

    @property
    def n_selected_(self) -> int:
        """The number of features that have a weight, in however many models."""
        return len(np.unique(self._solved().coef.indices))

    @property
    def t_(self) -> int:
        """Examples seen; those of weight zero do not count."""
        self._flush()
        if getattr(self, "_runs", None):
            return self._runs[0].examples
        return self._solved().t

    @property
    def history_(self) -> list[dict[str, float]]:
        """Objective on the first 1000 rows and nonzeros, of the iterate along the run and of the model at its end."""
        return self._solved().history

    @property
    def report_(self) -> dict[str, Any]:
        """What was chosen: optimizer, step, metric, guard, warnings."""
        return self._solved().report

    @property
    def gap_(self) -> float:
        """After ``polish``: the largest violation of an optimality condition over lam, the worst model's; NaN without.

        ``report_["converted"]`` says more for each run: duality gaps, passes, sizes of working sets.
        """
        gaps = [gap for part in self.report_["converted"] for gap in part.get("polish", {}).get("gaps", [np.nan])]
        return float(np.max(gaps))

    def sparsify(self) -> Self:
        """``coef_`` as a scipy sparse array from now on; learning goes on as before."""
        self.check_fitted()
        self._layout = "sparse"
        return self

    def densify(self) -> Self:
        """``coef_`` as a dense array again."""
        self.check_fitted()
        self._layout = "dense"
        return self

    def margins_of(self, matrix: Matrix) -> np.ndarray:
        """Margins of rows of a reader, (rows, models); features that the model does not know are left out."""
        model, rows = self._solved(), self._features.find(matrix)
        used, columns = np.unique(model.coef.indices, return_inverse=True)
        if len(self._features) * len(model.intercept) > _MANY_CELLS:  # only those with a weight
            place = np.searchsorted(used, rows.indices)
            place[place == len(used)] = 0
            kept = used[place] == rows.indices if len(used) else np.zeros(len(place), bool)
            rows = without(Matrix(rows.indptr, place, rows.data, len(used)), kept, len(used))
            w = np.zeros((max(len(used), 1), len(model.intercept)))
            w[columns, np.repeat(np.arange(len(model.intercept)), np.diff(model.coef.indptr))] = model.coef.data
        else:
            w = np.ascontiguousarray(model.coef.toarray().T)
        return margins(rows.indptr, rows.indices, rows.data, w, np.ascontiguousarray(model.intercept))

def solve(runs: list[Run], answers: list[Answer] | None = None) -> Solved:
    """The models of all runs as one; ``answers`` where they are not simply what the runs say."""
    answers = answers or [run.finish() for run in runs]
    runs = [answer.report.pop("run", run) for answer, run in zip(answers, runs, strict=True)]
    first = runs[0]
    w = np.concatenate([answer.w for answer in answers], axis=1)
    if first.examples and not w.any():
        first.warn("no feature was selected: lower alpha, or give more examples.")
    ends = [run.look(answer.w, answer.b) for run, answer in zip(runs, answers, strict=True)]
    looks = [*zip(*(run.history for run in runs if not run.late), strict=True), ends]
    return Solved(
        sp.csr_array(w.T),
        np.concatenate([answer.b for answer in answers]),
        first.examples,
        [
            {"t": p[0]["t"], "objective": sum(q["objective"] for q in p), "nonzeros": sum(q["nonzeros"] for q in p)}
            for p in looks
        ],
        described(runs, first.problem.regularizer) | {"converted": [answer.report for answer in answers]},
    )


def described(runs: list[Run], regularizer: Any) -> dict[str, Any]:
    """What was chosen, for a report."""
    first = runs[0]
    return {
        "optimizer": first.optimizer,
        "regularizer": regularizer,
        "loss": first.problem.loss,
        "lam": float(regularizer.lam),
        "rho": float(regularizer.rho),
        "step_size": first.step if first.optimizer.uses_steps else None,
        "conversion": first.rounding or first.conversion,
        "L_mean": first.pilot.L_mean,
        "pilot_rows": first.pilot.n,
        "examples": first.examples,
        "warnings": list(dict.fromkeys(message for run in runs for message in run.warnings)),
    }


def check_some_weight(weights: np.ndarray | None) -> None:
    """Raise an error where all rows have the weight zero."""
    if weights is not None and not weights.any():
        raise ValueError("the weights of all rows are zero: there is nothing to learn from.")
