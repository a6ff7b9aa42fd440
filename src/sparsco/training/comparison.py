"""Comparison of several methods on the same file: one table, one plot of error against nonzeros."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..conversions.rounding import Sparsify
from ..engine.run import DivergenceError
from ..estimators.sparsify import SMALL_BALLS
from ..penalties import RATIOS
from ..presets import BallSGD, TwoStage
from ..streams import CachedStream, open_stream
from ..util import html as html
from ..util.axes import page_axes
from . import model_files, scoring
from .labelled_rows import LabelledRows, by_name, reader_of
from .results import Trained
from .train import train

METHODS: dict[str, dict[str, Any]] = {
    "automatic": {"alpha": "auto"},
    "default": {"conversion": "average-sl"},
    "nftrl": {"optimizer": "nftrl", "conversion": "last"},
    "ftrl": {"optimizer": "ftrl", "conversion": "last"},
    "fobos": {"optimizer": "fobos", "conversion": "last"},
    "rda": {"optimizer": "rda", "conversion": "last"},
    "truncated-gradient": {"optimizer": "truncated-gradient", "conversion": "last"},
    "adagrad": {"optimizer": "adagrad-rda", "conversion": "last"},
    "average": {"optimizer": "fobos", "conversion": "average"},
    "average-sl": {"optimizer": "fobos", "conversion": "average-sl"},
    "optimal-sl": {"optimizer": "fobos", "conversion": "optimal-sl"},
    "ocmdi": {"optimizer": "fobos", "conversion": "ocmdi"},
}
"""The methods by name, each with the parameters of an estimator."""
_IN_WORDS = {
    "automatic": "strength, mixture and refit chosen on held-out rows: sparsco without arguments",
    "default": "a given strength; the optimizer NFTRL, then a conversion that solves for the optimum on a sample",
    "nftrl": "follow the regularized leader with steps that need no tuning; the last iterate",
    "ftrl": "follow the regularized leader, FTRL-proximal; the last iterate",
    "fobos": "forward-backward splitting: a gradient step, then shrinkage; the last iterate",
    "rda": "regularized dual averaging of all gradients; the last iterate",
    "truncated-gradient": "gradient steps, with weights truncated every few steps; the last iterate",
    "adagrad": "dual averaging with a step for each feature; the last iterate",
    "average": "the average of the iterates of FOBOS, which is seldom sparse",
    "average-sl": "AverageSL: that average, turned into an exactly sparse model",
    "optimal-sl": "OptimalSL: a second phase on fresh rows, from that average",
    "ocmdi": "one iterate of FOBOS, chosen near an average of earlier ones",
    "two-stage": "Epoch-SGD in an L1 ball, with any number of features",
    "budget": "the largest weights of the two-stage model, fitted again",
    "top-k": "the largest weights of the two-stage model, as they are",
    "dd": "features of the two-stage model drawn at random, by weight times spread",
    "mg": "features of the two-stage model drawn at random, by weight alone",
    "small ball": "Epoch-SGD in a smaller L1 ball",
}
"""The methods of a comparison, as its page explains them."""
_FEW_ROWS = 1500
USUAL = ("automatic", "default", "nftrl", "fobos", "rda", "average", "average-sl")


class Outcome(NamedTuple):
    """The result of one method with one strength of the penalty."""

    method: str
    alpha: float | None
    nonzeros: int | None
    """The number of features that have a nonzero weight in at least one model."""
    progressive: float | None
    """The error on rows evaluated before they were learned: the share of wrong labels, or the root mean squared error.
    """
    test: float | None
    seconds: float | None
    """The time to read the rows, to learn them and to convert the model; kernels had been compiled before."""
    note: str = ""


def compare(
    source: Any,
    *,
    methods: Sequence[str] = USUAL,
    strengths: Sequence[float] = (0.3, 1.0, 3.0),
    test: Any = None,
    passes: int = 1,
    shuffle: bool = True,
    features: Sequence[int] = (),
    reader: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
    classes: Any = None,
    model: Any = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[Outcome]:
    """Train every method with every strength, and return the outcomes.

    A strength is a multiple of ``alpha``, which is given in ``settings`` or found by a first run.  "automatic" chooses
    its own strength.  ``features`` are numbers of features: models with at most that many are compared too, one for
    each way to get them (docs/two-stage.md).  A method that diverges or does not fit the problem has a note in its
    outcome.
    """
    unknown = [name for name in methods if name not in METHODS]
    if unknown:
        raise ValueError(f"there is no method {unknown[0]!r}: choose from {', '.join(METHODS)}.")
    given, options = dict(settings or {}), dict(reader or {})
    alpha, outcomes = given.pop("alpha", None), list[Outcome]()
    few, compiled = _first_rows(source, options), set[str]()
    if alpha is None:
        is_elastic_net = given.get("penalty", "elasticnet") in ("elasticnet", *RATIOS)
        if is_elastic_net:  # all methods penalise columns in units of their spread, as the automatic choice does
            given.setdefault("standardize", True)
        own = ({"optimizer": "nftrl"} if is_elastic_net else {}) | given  # the strength that the first rows suggest
        first = train(
            source, _like(model, own), passes=1, shuffle=shuffle, reader=options, settings=own, classes=classes
        )
        alpha = first.model.report_["lam"] + first.model.report_["rho"]
    of_method = {method: (1.0,) if "alpha" in METHODS[method] else strengths for method in methods}
    total = sum(map(len, of_method.values())) + bool(features) * (1 + 4 * len(features) + len(SMALL_BALLS))

    def add(method: str, own: dict[str, Any], note: str = "") -> Trained | None:
        progress(len(outcomes), total)
        if method not in compiled:
            compiled.add(method)
            _outcome(method, own, few[0], None, 1, shuffle, few[1], classes, model)
        outcome, trained = _outcome(method, own, source, test, passes, shuffle, options, classes, model)
        outcomes.append(outcome._replace(note=outcome.note or note))
        return trained

    for method in methods:
        for strength in of_method[method]:
            add(method, given | {"alpha": alpha * strength} | METHODS[method])
    if features:
        dropped = "l1_ratio", "penalty", "feature_groups", "preset", "budget", "standardize"
        own = {name: value for name, value in given.items() if name not in dropped}
        two = TwoStage()
        full = add("two-stage", own | {"preset": two})
        for k in features:
            add("budget", own | {"preset": two, "budget": k}, f"at most {k} features")
            for how in ("top-k", "dd", "mg"):
                thinned = two._replace(conversion=Sparsify(k, two.conversion, how, refit=False))
                add(how, own | {"preset": thinned}, f"at most {k} features")
        norm = 0.0 if full is None else float(np.abs(full.model.coef_).sum())
        for share in SMALL_BALLS if norm > 0.0 else ():
            add("small ball", own | {"preset": BallSGD(share * norm)}, f"radius {share * norm:.3g}")
    progress(total, total)
    return outcomes


def _first_rows(source: Any, reader: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Return a few rows, in the features that occur in them, as a source of their own, and its options.

    A method that has learned these rows has compiled its kernels.  A cache is written now, so that all methods read
    from it.
    """
    stream, held = open_stream(source, **reader), list[LabelledRows]()
    if isinstance(stream, CachedStream):
        stream.completed(lambda chunk: None)
    for chunk in stream:
        held.append(LabelledRows.of(chunk).cut(0, min(chunk.rows, _FEW_ROWS)))
        if sum(part.rows for part in held) >= _FEW_ROWS:
            break
    if not held:
        raise ValueError("the source has no rows: there is nothing to learn from.")
    rows = LabelledRows.joined(held)
    columns, indices = np.unique(rows.matrix.indices, return_inverse=True)
    shape = rows.rows, max(len(columns), 1)
    X = sp.csr_array((rows.matrix.data, indices, rows.matrix.indptr), shape=shape)
    return X, {"y": rows.y, "weights": rows.weights}


def _like(model: Any, settings: dict[str, Any]) -> Any:
    return None if model is None else type(model)(**settings)


def _outcome(
    method: str,
    settings: dict[str, Any],
    source: Any,
    test: Any,
    passes: int,
    shuffle: bool,
    reader: dict[str, Any],
    classes: Any,
    model: Any,
) -> tuple[Outcome, Trained | None]:
    given, began = settings.get("alpha"), time.monotonic()
    alpha = None if isinstance(given, str) else given
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            trained = train(
                source,
                _like(model, settings),
                passes=passes,
                shuffle=shuffle,
                reader=reader,
                settings=settings,
                classes=classes,
            )
            nonzeros = trained.model.n_selected_
            alpha = trained.model.alpha_ if isinstance(given, str) else alpha
    except DivergenceError:
        return Outcome(method, alpha, None, None, None, None, "diverged"), None
    except ValueError as error:  # a method that is not for this penalty or loss; bad rows ended the first run
        return Outcome(method, alpha, None, None, None, None, str(error)), None
    seconds = time.monotonic() - began
    progressive = trained.table[-1].mean_mistake if trained.table else None
    judged = None
    if test is not None:
        content = model_files.contents(trained.model, trained.stream.names, by_name(trained.stream))
        extra = {"reader": reader_of(trained.stream, reader)}
        figures = scoring.evaluate(*scoring.opened_for(content | {"extra": extra}, test))
        judged = figures.get("error", figures.get("rmse"))
    return Outcome(method, alpha, nonzeros, progressive, judged, seconds), trained


def as_text(outcomes: Sequence[Outcome]) -> str:
    """Return the outcomes as a table in text."""
    lines = [f"{'method':20} {'alpha':>10} {'nonzeros':>10} {'progressive':>12} {'test':>10} {'seconds':>8}"]
    for each in outcomes:
        cells = [
            f"{_cell(each.alpha, '.3g'):>10}",
            f"{_cell(each.nonzeros, ','):>10}",
            f"{_cell(each.progressive):>12}",
            f"{_cell(each.test):>10}",
            f"{_cell(each.seconds, '.1f'):>8}",
        ]
        lines.append(f"{each.method:20} " + " ".join(cells) + (f"  {each.note}" if each.note else ""))
    return "\n".join(lines)


def _cell(x: float | None, form: str = ".5f") -> str:
    return "" if x is None else format(x, form)


def write_page(path: str | Path, outcomes: Sequence[Outcome]) -> Path:
    """Write the table and the plot as one HTML file, and return its path."""
    heads = ("method", "strength (alpha)", "features", "error before learning", "test error", "seconds", "remark")
    used = dict.fromkeys(each.method for each in outcomes)
    explained = html.table(("method", "in words"), [(name, _IN_WORDS[name]) for name in used])
    blocks = [*_plots(outcomes), html.table(heads, outcomes), html.details("What the methods do", explained)]
    return html.write(path, headline(outcomes), blocks)


def headline(outcomes: Sequence[Outcome]) -> str:
    """Return the comparison in one sentence: the method of least error, and its number of features."""
    judged = [(each.progressive if each.test is None else each.test, each) for each in outcomes]
    known = [(error, each.nonzeros, each.method) for error, each in judged if error is not None and each.nonzeros]
    if not known:
        return f"{len(outcomes)} methods compared"
    error, size, method = min(known)
    return f"{method} has the least error of {len(outcomes)} models: {error:.4g} with {size:,} features"


@html.with_plots
def _plots(outcomes: Sequence[Outcome]) -> list[str]:
    figure, axes = page_axes(3.4)
    has_test = any(each.test is not None for each in outcomes)
    for method in dict.fromkeys(each.method for each in outcomes):
        points = [
            (each.nonzeros, each.test if has_test else each.progressive)
            for each in outcomes
            if each.method == method and each.nonzeros is not None
        ]
        points = sorted(point for point in points if point[1] is not None)
        if points:
            axes.plot(*zip(*points, strict=True), "o-", label=method)
    ylabel = "error on test rows" if has_test else "error on rows before they were learned"
    axes.set(xscale="symlog", xlabel="features with a weight", ylabel=ylabel)
    if axes.lines:
        axes.legend()
    return [html.figure(figure, "Error against the number of features: the lower left is best.")]
