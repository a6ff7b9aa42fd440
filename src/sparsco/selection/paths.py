"""A path: models for many strengths of the L1 term from one read of the data, and which of them to take.

    path = SparsePath(SparseClassifier(), choose="1-se").fit(X, y)
    path.path_.nonzeros, path.path_.losses, path.model_

The models are lanes of one run, each equal to a run of its own.  They share the L2 weight, which the estimator's
``alpha`` and ``l1_ratio`` imply; their own ``lam`` takes the place of its L1 weight.
"""

from __future__ import annotations

import contextlib
import copy
import numbers
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, Self

import numpy as np
import scipy.sparse as sp

from ..conversions.averaging import Answer
from ..data.progressive import JUDGED, next_mark
from ..data.randomness import Purpose, seed_of, uniform
from ..data.rows import Matrix, count_columns, put_columns, stack
from ..data.rows import margins as margins_of
from ..data.slots import numbered
from ..engine.polish import BY_MODEL, finish
from ..engine.polish import slices as rows_of
from ..engine.run import Grid, Run
from ..estimators.linear import LinearModel, Solved, check_some_weight, described
from ..estimators.parameters import refuse_polish, tolerance
from ..estimators.tasks import LinearClassifier
from ..losses import value
from ..util.threads import Threads, aside

HELD_ROWS = 20_000
"""Rows held out at most; later ones are all learned."""
_FEW_ROWS = 10_000
_SHARE = 0.2
"""Of fewer rows than that ``validation="auto"`` holds this share out."""
_SLICE = 1 << 18
_INT32 = np.iinfo(np.int32).max
RULES = ("min", "1-se")
USELESS_PASSES = "polish ends at the same models after one pass: leave passes at 1."


class Judged(NamedTuple):
    """Sums over rows that a model had not learned when it was judged, an entry for each strength; losses are sums over
    the models of a row."""

    weight: float
    rows: int
    loss: np.ndarray
    squares: np.ndarray
    mistakes: np.ndarray

    @classmethod
    def nothing(cls, m: int) -> Judged:
        return cls(0.0, 0, np.zeros(m), np.zeros(m), np.zeros(m))

    def __add__(self, other: Any) -> Judged:
        return Judged(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))

    @classmethod
    def beside(cls, parts: list[Judged]) -> Judged:
        """The same rows judged for some strengths and for others."""
        _, _, *arrays = zip(*parts, strict=True)
        return cls(parts[0].weight, parts[0].rows, *map(np.concatenate, arrays))

    def summary(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Mean losses, their standard errors, mean mistakes; NaN where nothing was judged."""
        n = max(self.rows, 1) if self.rows else np.nan
        scale = self.weight if self.rows else np.nan
        mean = self.loss / n
        spread = np.sqrt(np.maximum(self.squares / n - np.square(mean), 0.0) / n)
        return self.loss / scale, spread * n / scale, self.mistakes / scale


_Rows = tuple[Matrix, np.ndarray, np.ndarray | None]
_Piece = tuple["Unseen | None", np.ndarray]
"""Rows to judge, and then the numbers of those to learn."""


class Path:
    """Models of many strengths, largest first; small, and independent of how they were learned.

    ``lams``: their L1 weights.  ``rho``: the L2 weight of all.  ``losses``, ``spreads``, ``errors``: the mean loss on
    rows not learned, its standard error, and the share of wrong labels or the mean squared error; NaN where no rows
    were judged.  ``stability``: where there were folds, the agreement of their selections (the mean of Cohen's kappa
    over pairs), else None.
    """

    def __init__(
        self, shell: LinearModel, solved: list[Solved], judged: tuple[np.ndarray, np.ndarray, np.ndarray],
        stability: np.ndarray | None = None,
    ) -> None:  # fmt: skip
        self._shell, self._solved, self.stability = shell, solved, stability
        self.lams = np.array([each.report["lam"] for each in solved])
        self.rho = float(solved[0].report["rho"])
        self.losses, self.spreads, self.errors = judged

    def __len__(self) -> int:
        return len(self._solved)

    @property
    def coefs(self) -> sp.csc_array:
        """Weights, (features, strengths); with several models those of a strength side by side."""
        every = sp.coo_array(sp.vstack(self._weights()))
        shape = int(self._shell.n_features_in_), every.shape[0]
        return sp.csc_array((every.data, (self._shell._features.to_columns(every.col), every.row)), shape=shape)

    @property
    def intercepts(self) -> np.ndarray:
        """(strengths, models)."""
        return np.array([each.intercept for each in self._solved])

    @property
    def gaps(self) -> np.ndarray:
        """After ``polish``: the largest violation of an optimality condition over lam, for each strength; else NaN."""
        runs = [each.report["converted"] for each in self._solved]
        return np.array([max(max(run.get("polish", {"gaps": [np.nan]})["gaps"]) for run in own) for own in runs])

    @property
    def is_judged(self) -> bool:
        """Whether there are losses on rows that were not learned."""
        return not np.isnan(self.losses).all()

    @property
    def nonzeros(self) -> np.ndarray:
        """How many features have a weight, for each strength."""
        return np.array([len(np.unique(c.indices)) if c.shape[0] > 1 else c.nnz for c in self._weights()])

    def _weights(self) -> list[sp.csr_array]:
        return [each.coef for each in self._solved]

    def model(self, lam: float) -> Any:
        """The model of one of the path's strengths, as an estimator: ready to predict, not to learn further."""
        from ..estimators.sklearn import as_estimator

        if not isinstance(lam, numbers.Real):
            raise ValueError(f"lam={lam!r}: it must be one of the path's strengths, lams, such as choose('min') takes.")
        near = np.flatnonzero(np.isclose(self.lams, float(lam), rtol=1e-6, atol=0.0))
        if not near.size:
            nearest = float(self.lams[np.abs(self.lams - lam).argmin()])
            raise ValueError(f"lam={float(lam)!r} is none of the path's strengths; the nearest is {nearest!r}.")
        return as_estimator(self._at(int(near[0])))

    def _at(self, k: int) -> LinearModel:
        model, lam = copy.deepcopy(self._shell), float(self.lams[k])
        model._model, model._lams = self._solved[k], None
        if not isinstance(model.penalty, tuple):
            total = lam + self.rho
            model.alpha, model.l1_ratio = total, lam / total if total > 0.0 else 1.0
        return model

    def choose(self, rule: Any = "min") -> float:
        """The strength that a rule takes: "min", the least loss on rows not learned; "1-se", the largest whose loss is
        within one standard error of that; a number k, the least loss with at most k features."""
        check_rule(rule)
        nonzeros = self.nonzeros
        allowed = np.ones(len(self), bool) if isinstance(rule, str) else nonzeros <= rule
        if not allowed.any():
            raise ValueError(f"choose={rule!r}: the path's smallest model has {nonzeros.min()} features.")
        if not self.is_judged:
            if isinstance(rule, str):
                raise ValueError(
                    f"choose={rule!r} needs rows that were not learned, and none were judged: give more rows, or "
                    "choose a number of features; of a SparsePath hold rows out (validation=0.2)."
                )
            return float(self.lams[allowed].min())
        losses = np.where(allowed & np.isfinite(self.losses), self.losses, np.inf)
        best = int(losses.argmin())
        if rule == "1-se":
            best = int(np.flatnonzero(losses <= losses[best] + self.spreads[best])[0])
        return float(self.lams[best])

    def table(self) -> list[dict[str, float]]:
        """A line for each strength."""
        columns = {
            "lam": self.lams, "nonzeros": self.nonzeros, "loss": self.losses, "spread": self.spreads,
            "error": self.errors,
        }  # fmt: skip
        gaps = self.gaps
        columns |= {} if np.isnan(gaps).all() else {"gap": gaps}
        return [{name: values[k].item() for name, values in columns.items()} for k in range(len(self))]


class SparsePath:
    """Models for ``m`` strengths of the L1 term, learned in one read.

    ``estimator``: what to learn, a :class:`SparseClassifier` (default) or :class:`SparseRegressor`; its ``max_iter``,
    ``tol`` and ``early_stopping`` do not count, and its ``n_jobs`` threads share the strengths.  ``lams``: the
    strengths; None for ``m`` of them, from the smallest that selects nothing on the first 1000 rows down to ``ratio``
    times that.  ``choose``: "min", "1-se" or at most how many features; see :meth:`Path.choose`.  ``validation``:
    "progressive", some rows are judged by the iterates before they are learned; a share (20,000 rows at most), which is
    held out and judged by the models; "auto", a fifth held out where ``fit`` gets fewer than 10,000 rows, or where the
    estimator has ``polish``: every model is the optimum over the other rows then, ``path_.gaps`` its certificate.
    ``passes``: how often ``fit``
    reads the rows.  ``dtype``: "float64", or "float32", up to twice as fast with the last iterates
    (``conversion="last"``) of fobos, nftrl and ftrl and equal to about five digits.

    >>> import numpy as np
    >>> from sparsco import SparseClassifier, SparsePath
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(3000, 40))
    >>> y = X[:, 3] - X[:, 7] + 0.5 * rng.logistic(size=3000) > 0
    >>> path = SparsePath(SparseClassifier(random_state=0), m=8, choose=2).fit(X, y)
    >>> path.path_.nonzeros.tolist()[:2], np.flatnonzero(path.model_.coef_).tolist()
    ([1, 2], [3, 7])
    """

    needs_classes = True
    """That ``train`` takes the labels of the first rows for all there are."""
    _learner: Any = None
    _path: Path | None = None
    _part = slice(None)
    """Of the strengths, those that are learned here."""

    def __init__(
        self, estimator: Any = None, *, lams: Any = None, m: int = 32, ratio: float = 1e-3, choose: Any = "min",
        validation: Any = "auto", passes: int = 1, dtype: Any = "float64",
    ) -> None:  # fmt: skip
        self.estimator, self.lams, self.m, self.ratio = estimator, lams, m, ratio
        self.choose, self.validation, self.passes, self.dtype = choose, validation, passes, dtype

    # ---- learning --------------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from rows X and targets y."""
        from ..estimators.sklearn import as_estimator

        learner = as_estimator(self._new_learner())
        matrix, y, weights = learner._validated(X, y, sample_weight, reset=True)
        placed, codes, weights = begin(learner, matrix, y, weights)
        own = np.ones(len(y)) if weights is None else weights
        self._begin(learner, self._share(len(y)))
        learned = list[np.ndarray]()
        sides = [(side,) for side in _sides(learner)]
        for epoch in range(self.passes):
            for order in slices(learner, weights, len(y), epoch):
                parts = self._pieces(matrix, y, weights, order, epoch > 0)
                pieces = [(_unseen(learner, to_judge), rows) for to_judge, rows in parts]
                learned += [rows for _, rows in pieces]
                todo = pieces, placed, codes, own, epoch > 0
                found = Threads(learner.n_jobs).map_in_turns("strengths", _learn_side, sides, *todo)
                self._judged += Judged.beside(found)
            learner.n_iter_ += 1
        self._streaming = False
        if tolerance(learner):
            self._end(polished(learner, placed, codes, own, np.sort(np.concatenate(learned))))
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn the rows in their order; the first call of a classifier names all classes."""
        from ..estimators.sklearn import as_estimator

        first = self._learner is None
        if first and self._path is not None:
            raise ValueError("a copy of a path that was fitted has its models only and cannot go on: fit a new one.")
        learner = as_estimator(self._new_learner() if first else self._learner)
        refuse_polish(learner, "partial_fit")
        with self._unchanged_on_error(), learner._unchanged_on_error():
            matrix, y, weights = learner._validated(X, y, sample_weight, reset=first, grows=True)
            if first:
                self._begin(learner, self._share(None))
            self._learner = learner
            named = iter([classes])
            for judged_rows, rows in self._pieces(matrix, y, weights, np.arange(len(y)), False):
                self._judged += _judged_before(learner, _unseen(learner, judged_rows))
                self._take(matrix, y, weights, rows, False, next(named, None))
        return self

    def take_rows(
        self, matrix: Matrix, y: np.ndarray, weights: np.ndarray | None = None, *, classes: Any = None,
        order: np.ndarray | None = None, again: bool = False, columns: int = 0,
    ) -> Self:  # fmt: skip
        """``partial_fit`` for rows of a reader, who asks for :meth:`judge` himself."""
        if self._learner is None:
            self._begin(self._new_learner(), self._share(None))
        rows = np.arange(len(matrix)) if order is None else order
        with self._unchanged_on_error():
            self._rows += 0 if again else len(rows)
            self._take(matrix, y, weights, self._kept(matrix, y, weights, rows, again), again, classes, columns)
        return self

    @contextlib.contextmanager
    def _unchanged_on_error(self) -> Iterator[None]:
        """An error leaves the path as it was; labels are looked at before any row is learned."""
        before = dict(vars(self))
        held = list(before.get("_held", ()))
        try:
            yield
        except BaseException:
            vars(self).clear()
            vars(self).update(before)
            if "_held" in before:
                self._held[:] = held
            raise

    def _take(
        self, matrix: Matrix, y: np.ndarray, weights: np.ndarray | None, order: np.ndarray, again: bool, classes: Any,
        columns: int = 0,
    ) -> None:  # fmt: skip
        learner = self._learner
        if learner.classifies and not learner.__sklearn_is_fitted__() and classes is None:
            raise ValueError("a path needs all classes at its beginning: name them, classes=.")
        learner.take_rows(matrix, y, weights, classes=classes, order=order, again=again, columns=columns)
        self._path, self._streaming = None, True

    def _new_learner(self) -> LinearModel:
        check_rule(self.choose)
        _check_count("passes", self.passes)
        if self.passes > 1 and self.validation not in ("auto", "progressive"):
            raise ValueError("passes > 1 would learn the rows held out: use validation='progressive', no share.")
        estimator = LinearClassifier() if self.estimator is None else self.estimator
        if not isinstance(estimator, LinearModel):
            raise ValueError(f"estimator={estimator!r}: it must be a SparseClassifier or SparseRegressor.")
        return learner_of(estimator, strengths(self.lams, self.m, self.ratio)[self._part], self.dtype)

    def _begin(self, learner: LinearModel, share: float) -> None:
        self._learner, self._path, self._held_share = learner, None, share
        self._rows, self._streaming = 0, False
        self._judged = Judged.nothing(len(learner._lams))
        self._held: list[tuple[Matrix, np.ndarray, np.ndarray]] = []
        self._n_held = 0

    def _share(self, n: int | None) -> float:
        """The share of rows to hold out; 0 to judge rows before they are learned."""
        given = self.validation
        if self.polish:
            if given == "progressive":
                raise ValueError("validation='progressive' judges iterates, which polish replaces: hold a share out.")
            if self.passes > 1:
                raise ValueError(USELESS_PASSES)
            given = _SHARE if given == "auto" else given
        if given == "progressive" or (given == "auto" and (n is None or n >= _FEW_ROWS or self.passes > 1)):
            return 0.0
        if given == "auto":
            return _SHARE
        if not (isinstance(given, numbers.Real) and 0.0 < given < 1.0):
            raise ValueError(f"validation={given!r}: it must be 'auto', 'progressive' or a share between 0 and 1.")
        return float(given)

    def _pieces(
        self, matrix: Matrix, y: np.ndarray, weights: np.ndarray | None, order: np.ndarray, again: bool
    ) -> Iterator[tuple[_Rows | None, np.ndarray]]:
        """Rows in an order: held out, or at every mark the next few judged, then learned up to the next mark."""
        at = 0
        while at < len(order):
            n, unseen = len(order) - at, 0
            if not again and not self._held_share:
                mark = next_mark(max(self._rows - JUDGED + 1, 0))
                if mark <= self._rows:
                    unseen = mark + JUDGED - self._rows
                    mark = next_mark(mark + JUDGED)
                n = min(n, mark - self._rows)
            rows = order[at : at + n]
            few = rows[:unseen]
            own = None if weights is None else weights[few]
            self._rows += 0 if again else n
            yield (matrix.take(few), y[few], own) if unseen else None, self._kept(matrix, y, weights, rows, again)
            at += n

    def _kept(
        self, matrix: Matrix, y: np.ndarray, weights: np.ndarray | None, rows: np.ndarray, again: bool
    ) -> np.ndarray:
        """The rows to learn; the others, a share of the first read, are kept to judge the models on."""
        if not self._held_share:
            return rows
        if again:
            raise ValueError("rows held out would be learned in a second pass: use validation='progressive'.")
        drawn = self._drawn(self._rows - len(rows), len(rows), self._n_held)
        held = rows[drawn]
        if held.size:
            own = np.ones(held.size) if weights is None else weights[held]
            self._held.append((matrix.take(held), y[held], own))
            self._n_held += held.size
        return rows[~drawn]

    def _drawn(self, first: int, n: int, before: int) -> np.ndarray:
        """Which of n rows of a stream are held out, so many having been before."""
        drawn = uniform(self._learner.random_state, Purpose.VALIDATION, np.arange(first, first + n)) < self._held_share
        return drawn & (np.cumsum(drawn) + before <= HELD_ROWS)

    def judge(self, matrix: Matrix, y: np.ndarray, weights: np.ndarray | None = None) -> tuple[float, float] | None:
        """Judge rows by the iterates before they are learned; the mean over strengths of what an estimator returns."""
        learner = self._learner
        found = None if learner is None else _judged_before(learner, _unseen(learner, (matrix, y, weights)))
        if found is None or not found.rows:
            return None
        if not self._held_share:
            self._judged += found
        return float(found.loss.mean()), float(found.mistakes.mean())

    # ---- what train() asks of a model ------------------------------------------------------------------------------

    def settings(self) -> dict[str, Any]:
        """The estimator's parameters and the path's own."""
        own = {name: value for name, value in vars(self).items() if not name.startswith("_") and name != "estimator"}
        return (LinearClassifier() if self.estimator is None else self.estimator).settings() | own

    @property
    def classifies(self) -> bool:
        return self.estimator is None or self.estimator.classifies

    @property
    def polish(self) -> bool | float:
        """The estimator's: whether every model is to be the optimum over the rows."""
        return False if self.estimator is None else self.estimator.polish

    def polish_on_chunks(self, chunks: Callable[[], Iterable[_Rows]]) -> None:
        """Turn what was learned into the optima over the rows that were, given in passes over all."""
        learner = self._learner

        def rows() -> Iterator[tuple[Matrix, np.ndarray, np.ndarray]]:
            first = held = 0
            for matrix, y, weights in chunks():
                drawn = self._drawn(first, len(y), held)
                codes, scale = learner._encoded(y, weights, False, None)
                scale, kept = np.ones(len(y)) if scale is None else scale, np.flatnonzero(~drawn)
                first, held = first + len(y), held + len(y) - len(kept)
                yield learner._features.find(matrix).take(kept), codes[kept], scale[kept]

        self._end(finished(learner, rows))

    @property
    def _runs(self) -> list[Run]:
        return self._learner._runs

    def __sklearn_is_fitted__(self) -> bool:
        return self._path is not None or (self._learner is not None and self._learner.__sklearn_is_fitted__())

    # ---- the outcome -----------------------------------------------------------------------------------------------

    @property
    def path_(self) -> Path:
        """All models, computed when first asked for after learning."""
        if self._path is None:
            if not self.__sklearn_is_fitted__():
                from sklearn.exceptions import NotFittedError

                raise NotFittedError("This SparsePath is not fitted yet: call fit or partial_fit first.")
            self._end(finished(self._learner))
        assert self._path is not None
        return self._path

    def _end(self, ends: list[tuple[Run, Answer]]) -> None:
        """The path of these models."""
        learner, found = self._learner, self._judged
        models = solved(learner, ends)
        if self._held:
            matrices, targets, weights = zip(*self._held, strict=True)
            rows = stack(list(matrices)), np.concatenate(targets), np.concatenate(weights)
            found = judged(learner, margins_by(learner._features.find(rows[0]), converted(ends)), *rows[1:])
        self._path = Path(shell_of(learner), models, found.summary())

    @property
    def lam_(self) -> float:
        """The strength that ``choose`` takes."""
        return self.path_.choose(self.choose)

    @property
    def model_(self) -> Any:
        """The estimator of that strength."""
        return self.path_.model(self.lam_)

    def predict(self, X: Any) -> np.ndarray:
        """By ``model_``."""
        return self.model_.predict(X)

    def __getstate__(self) -> dict[str, Any]:
        """After ``fit`` the models alone; of a stream all that it needs to go on."""
        if self._learner is None or self._streaming:
            return vars(self)
        path = self.path_
        return {name: own for name, own in vars(self).items() if not name.startswith("_")} | {"_path": path}


# ---- the parts, which cross-validation uses too ----------------------------------------------------------------------


def strengths(lams: Any, m: int, ratio: float) -> Any:
    """The strengths to learn: an array, largest first, or a grid to be."""
    if lams is None:
        _check_count("m", m)
        if not (isinstance(ratio, numbers.Real) and 0.0 < ratio < 1.0):
            raise ValueError(f"ratio={ratio!r}: it must be between 0 and 1, both excluded.")
        return Grid(int(m), float(ratio))
    try:
        given = np.array([]) if isinstance(lams, str) else np.asarray(lams, np.float64)
    except (TypeError, ValueError):
        given = np.array([])
    if given.ndim != 1 or not given.size or not np.all((given >= 0.0) & (given < np.inf)):
        raise ValueError(f"lams={lams!r}: give one or more numbers of at least 0, or None.")
    return np.sort(given)[::-1].copy()


def is_single(dtype: Any) -> bool:
    """Whether a dtype is float32; refused where it is not float64 either."""
    try:
        kind = np.dtype(dtype)
    except TypeError:
        kind = np.dtype(object)
    if dtype is None or kind not in (np.float32, np.float64):
        raise ValueError(f"dtype={dtype!r}: it must be 'float64' or 'float32'.")
    return bool(kind == np.float32)


def check_rule(rule: Any) -> None:
    """Refuse what is no rule to choose by."""
    is_count = isinstance(rule, numbers.Integral) and not isinstance(rule, bool) and rule >= 0
    if not (is_count or (isinstance(rule, str) and rule in RULES)):
        raise ValueError(f"choose={rule!r}: it must be 'min', '1-se' or a whole number of features.")


def _check_count(name: str, x: Any) -> None:
    if not isinstance(x, numbers.Integral) or isinstance(x, bool) or x < 1:
        raise ValueError(f"{name}={x!r}: it must be a whole number of at least 1.")


def learner_of(estimator: LinearModel, lams: Any, dtype: Any, random_state: Any = None) -> LinearModel:
    """A new estimator of the same parameters, to learn these strengths in float64 or float32."""
    learner = type(estimator)(**estimator.settings())
    learner._single = is_single(dtype)
    if learner.budget is not None or learner.target_excess_risk is not None:
        raise ValueError("budget and target_excess_risk say how many features remain, and so does a path: leave them.")
    if random_state is not None:
        learner.random_state = random_state
    if not isinstance(learner.random_state, numbers.Integral):
        learner.random_state = seed_of(learner.random_state)  # the same for all that is learned side by side
    learner.early_stopping, learner.warm_start, learner._lams = False, False, lams
    if tolerance(learner) and isinstance(lams, np.ndarray) and not lams.all():
        raise ValueError("polish measures by the L1 weight, which is 0 for one of lams: leave it out.")
    return learner


def begin(
    learner: Any, matrix: Matrix, y: np.ndarray, weights: np.ndarray | None
) -> tuple[Matrix, np.ndarray, np.ndarray | None]:
    """A learner's runs, nothing learned, for rows that are all there: these as it takes them, targets, weights."""
    from ..estimators.parameters import check_parameters

    check_parameters(learner)
    codes, weights = learner._all_targets(y, weights, False)
    check_some_weight(weights)
    placed = learner._placed(matrix)
    learner._runs, learner.n_iter_, learner._layout = learner._begin(placed.d), 0, "dense"
    learner._model, learner._streaming, learner._noting = None, False, False
    return placed, codes, weights


def slices(learner: LinearModel, weights: np.ndarray | None, n: int, epoch: int) -> Iterable[np.ndarray]:
    """A pass over n rows as an estimator's ``fit`` makes it, in slices."""
    learned = np.arange(n) if weights is None else np.flatnonzero(weights)
    if learner.shuffle:
        learned = np.random.default_rng([learner._runs[0].seed, Purpose.SHUFFLE, epoch]).permutation(learned)
    return (learned[first : first + _SLICE] for first in range(0, len(learned), _SLICE))


def finished(
    learner: LinearModel, rows: Callable[[], Iterable[tuple[Matrix, np.ndarray, np.ndarray]]] | None = None
) -> list[tuple[Run, Answer]]:
    """Every run, and the models that it ends with; those that ``polish`` makes of them by passes over ``rows``."""
    runs = [run if run.pilot is not None else run.early() for run in learner._runs]
    if rows is not None:
        return [(run, finish(run, rows, tolerance(learner))) for run in runs]
    answers = Threads(learner.n_jobs).map("finish", Run.finish, [(run,) for run in runs])
    return list(zip(runs, answers, strict=True))


def polished(
    learner: LinearModel, matrix: Matrix, codes: np.ndarray, weights: np.ndarray, kept: np.ndarray
) -> list[tuple[Run, Answer]]:
    """The same as the optima over some rows, which are all there."""
    rows = matrix.take(kept), codes[kept], weights[kept]
    return finished(learner, lambda: rows_of(*rows))


def solved(learner: LinearModel, ends: list[tuple[Run, Answer]]) -> list[Solved]:
    """The models of each strength."""
    parts: list[list[tuple[Any, np.ndarray, Any]]] = [[] for _ in range(len(learner._lams))]
    k, lams, runs = 0, np.zeros(len(parts)), [run for run, _ in ends]
    weights = [(answer.w, run.targets.base.m) for run, answer in ends]
    coefs = Threads(learner.n_jobs).map("by lane", _by_lane, weights)
    for (run, answer), (_, models), coef_by_lane in zip(ends, weights, coefs, strict=True):
        for copy_, coef in enumerate(coef_by_lane):
            own = slice(copy_ * models, (copy_ + 1) * models)
            report = {name: part[own] if name == "chosen" else part for name, part in answer.report.items()}
            if "polish" in report:
                report["polish"] = report["polish"] | {name: report["polish"][name][own] for name in BY_MODEL}
            parts[k].append((coef, answer.b[own], report))
            lams[k] = run.problem.lams[own.start]
            k = (k + 1) % len(parts)
    regularizer, out = runs[0].problem.regularizer, []
    for lam, part in zip(lams, parts, strict=True):
        coef, b, reports = zip(*part, strict=True)
        report = described(runs, regularizer._replace(lam=float(lam))) | {"converted": list(reports)}
        coef = sp.csr_array(sp.vstack(coef)) if len(coef) > 1 else coef[0]
        out.append(Solved(coef, np.concatenate(b), runs[0].examples, [], report))
    return out


def _by_lane(w: np.ndarray, models: int) -> list[sp.csr_array]:
    """Weights (d, lanes) as sparse rows, one for each lane, so many together."""
    d, m = w.shape
    ends, out = np.append(0, np.cumsum(count_columns(w))), []
    features, data = np.empty(ends[-1], np.int64 if d > _INT32 else np.int32), np.empty(ends[-1])
    put_columns(w, ends[:-1].copy(), features, data)
    for first in range(0, m, models):
        own = ends[first : first + models + 1]
        part = slice(own[0], own[-1])
        out.append(sp.csr_array((data[part], features[part], own - own[0]), shape=(models, d)))
    return out


def strength_of_lanes(learner: LinearModel) -> np.ndarray:
    """For the lanes of all runs, one after the other: the number of the strength of each."""
    numbers, k = [], 0
    for run in learner._runs:
        numbers.append(k + np.arange(run.targets.m) // run.targets.base.m)
        k = (k + run.targets.copies) % len(learner._lams)
    return np.concatenate(numbers)


def _sides(learner: LinearModel) -> list[LinearModel]:
    """Parts of the strengths that can be learned side by side: runs, unless it takes several to have all models."""
    if sum(run.targets.copies for run in learner._runs) > len(learner._lams):
        return [learner]
    sides = [twin_of(learner) for _ in learner._runs]
    for side, run in zip(sides, learner._runs, strict=True):
        side._runs, side._lams = [run], run.lams
    return sides


def twin_of(learner: LinearModel) -> Any:
    """Another of the same kind with all that it has, to be given runs or models of its own."""
    twin = object.__new__(type(learner))
    vars(twin).update(vars(learner))
    return twin


def shell_of(learner: LinearModel) -> LinearModel:
    """The learner without its runs: labels, features, parameters."""
    shell = twin_of(learner)
    shell._runs, shell._model, shell._streaming, shell._noting = None, None, False, False
    shell._ended = "a model of a path holds no training state"
    return copy.deepcopy(shell)


class Unseen(NamedTuple):
    """Rows to judge iterates on, in the features that occur in them: ``slots``."""

    rows: Matrix
    slots: np.ndarray
    y: np.ndarray
    weights: np.ndarray | None


def _unseen(learner: LinearModel, rows: _Rows | None) -> Unseen | None:
    """Those of a reader; none where nothing has been learned that they could be judged by."""
    if rows is None or not learner.__sklearn_is_fitted__():
        return None
    matrix, y, weights = rows
    found = learner._features.find(matrix)
    indices, slots = numbered(found.indices, found.d)
    return Unseen(Matrix(found.indptr, indices, found.data, len(slots)), slots, y, weights)


def converted(ends: list[tuple[Run, Answer]]) -> list[tuple[np.ndarray, np.ndarray]]:
    return [(answer.w, answer.b) for _, answer in ends]


def _learn_side(
    side: Any, pieces: list[_Piece], placed: Matrix, codes: np.ndarray, weights: np.ndarray, again: bool
) -> Judged:
    """Some strengths: what the rows say of them that are judged, before they are learned."""
    before = []
    for unseen, rows in pieces:
        before.append(_margins_before(side, unseen))
        side._feed(placed, codes, weights, rows, again)
    known = [(margins, unseen) for margins, (unseen, _) in zip(before, pieces, strict=True) if margins]
    if not known:
        return Judged.nothing(len(side._lams))
    every, seen = zip(*known, strict=True)  # all at once: little is left for threads to wait for each other
    own = None if seen[0].weights is None else np.concatenate([unseen.weights for unseen in seen])
    margins = [np.concatenate(parts) for parts in zip(*every, strict=True)]
    with aside():
        return judged(side, margins, np.concatenate([unseen.y for unseen in seen]), own)


def _margins_before(learner: Any, unseen: Unseen | None) -> list[np.ndarray]:
    """Margins of rows by the iterates of each run; none where there are none of either."""
    if unseen is None or any(run.pilot is None for run in learner._runs):
        return []
    return margins_by(unseen.rows, [run.weights_at(unseen.slots) for run in learner._runs])


def _judged_before(learner: Any, unseen: Unseen | None) -> Judged:
    """Rows judged by the iterates."""
    margins = _margins_before(learner, unseen)
    if not margins or unseen is None:
        return Judged.nothing(len(learner._lams))
    return judged(learner, margins, unseen.y, unseen.weights)


def margins_by(
    rows: Matrix, models: list[tuple[np.ndarray, np.ndarray]], order: np.ndarray | None = None
) -> list[np.ndarray]:
    """Margins of rows, or of those in ``order``, by weights, (features, lanes), and intercepts."""
    return [margins_of(rows.indptr, rows.indices, rows.data, w, b, order) for w, b in models]


def judged(learner: Any, margins: list[np.ndarray], y: np.ndarray, weights: np.ndarray | None) -> Judged:
    """Every strength on rows that were not learned; ``margins``: for each of the learner's runs, (rows, lanes)."""
    n, m = len(y), len(learner._lams)
    scale, codes = np.ones(n) if weights is None else weights, learner._codes_now(y)
    losses, k, first = np.zeros((n, m)), 0, 0
    every = np.empty((sum(run.targets.m for run in learner._runs) // m, m, n))
    for run, p in zip(learner._runs, margins, strict=True):
        targets, scaled = run.lanes_of(codes, scale)
        with np.errstate(over="ignore", invalid="ignore"):
            found = scaled * value(run.problem.loss, p, targets)
        own, outputs = slice(k, k + run.targets.copies), slice(first, first + run.targets.base.m)
        losses[:, own] += found.reshape(n, run.targets.copies, -1).sum(2)
        every[outputs, own] = p.reshape(n, run.targets.copies, -1).T
        k = own.stop % m
        first = outputs.stop if k == 0 else first
    wrong = learner._mistakes(learner._arranged(every.reshape(-1, m * n)).T, np.concatenate([y] * m))
    mistakes = ((wrong if wrong.ndim == 1 else wrong.mean(1)).reshape(m, n) * scale).sum(1)  # no threads of BLAS
    counted = int(np.count_nonzero(scale))
    return Judged(float(scale.sum()), counted, losses.sum(0), np.square(losses).sum(0), mistakes)
