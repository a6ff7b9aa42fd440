"""Golden cells: what sparsco answered on small problems, to the bit, when the record was written.

A cell is a name and a call of the public door.  `make golden` writes ``tests/golden/cells.json``.  A change of the
architecture must not change a bit of any cell; a change of the mathematics writes the record anew and says why.

The bits depend on the processor and on the versions of NumPy, SciPy and numba.  In another environment than that of
the record the figures of a cell are compared instead, to 1e-12 of the largest number of its answer.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import json
import os
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

import sparsco
from sparsco import (
    SparseClassifier,
    SparseClassifierCV,
    SparsePath,
    SparseRegressor,
    SparseRegressorCV,
    StableSparseClassifier,
    StableSparseRegressor,
    conversions,
    optimizers,
    penalties,
    presets,
)
from sparsco.losses import CLASSIFIER_LOSSES, REGRESSOR_LOSSES
from sparsco.training.checkpoints import Checkpoints
from sparsco.training.results import StoppedError

RECORD = Path(__file__).parents[1] / "golden" / "cells.json"
Answer = dict[str, np.ndarray]


class Cell(NamedTuple):
    """A call with a name; cells of one group share compiled kernels and are one test."""

    group: str
    name: str
    call: Callable[[], Answer]


class Rows(NamedTuple):
    """Rows with what may come with them."""

    X: sp.csr_array
    y: np.ndarray
    weight: np.ndarray
    offset: np.ndarray
    time: np.ndarray


@functools.cache
def rows_of(kind: str, wide: bool = False) -> Rows:
    """Rows of a kind of targets: signs, classes, labels, numbers, counts, positive, columns."""
    rng = np.random.default_rng(20)
    n, d = (60, 200) if wide else (240, 24)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < (0.1 if wide else 0.4))
    X[:, 3] = np.round(2.0 * X[:, 3])
    X[:, 5] = X[:, 4]
    score = X[:, :6] @ np.array([1.5, -1.0, 0.5, 0.25, 0.0, 0.75]) + 0.4 * rng.normal(size=n)
    y: np.ndarray = {
        "signs": np.where(score > 0.0, 1.0, -1.0),
        "classes": np.digitize(score, [-0.5, 0.5]),
        "labels": np.array(["ham", "spam"])[(score > 0.2).astype(int)],
        "numbers": score + 2.0,
        "counts": rng.poisson(np.exp(0.5 * np.clip(score, -4.0, 4.0))).astype(float),
        "positive": np.exp(0.3 * score),
        "columns": np.column_stack([score, X[:, 2] - score]),
    }[kind]
    steps = rng.integers(0, 3, n).astype(float)
    return Rows(sp.csr_array(X), y, rng.integers(1, 4, n).astype(float), 0.3 * rng.normal(size=n), np.cumsum(steps))


# ---- doors -----------------------------------------------------------------------------------------------------------


def answer_of(model: Any) -> Answer:
    """Weights and intercepts of a fitted estimator."""
    coef = model.coef_
    return {"coef": coef.toarray() if sp.issparse(coef) else np.asarray(coef), "intercept": np.ravel(model.intercept_)}


def fitted(model: Any, rows: Rows, extra: tuple[str, ...] = ()) -> Answer:
    """Learn all rows at once."""
    return answer_of(model.fit(rows.X, rows.y, **_named(rows, extra, slice(None))))


def of_five(model: Any, rows: Rows) -> Answer:
    """Learn all rows at once, and take the model of at most five features."""
    return answer_of(model.fit(rows.X, rows.y).at_size(5))


def in_cuts(model: Any, rows: Rows, extra: tuple[str, ...] = (), cuts: tuple[int, ...] = (1, 70, 131)) -> Answer:
    """Learn the rows by ``partial_fit`` in a few parts."""
    edges = [0, *cuts, len(rows.y)]
    classes = {"classes": np.unique(rows.y)} if _has_classes(model) else {}
    for a, b in zip(edges, edges[1:], strict=False):
        part = slice(a, b)
        model.partial_fit(rows.X[part], rows.y[part], **(classes if a == 0 else {}), **_named(rows, extra, part))
    return answer_of(model)


def one_by_one(model: Any, rows: Rows, extra: tuple[str, ...] = ()) -> Answer:
    """Learn the rows as dicts, one example at a time."""
    X = rows.X
    extra = tuple(name for name in extra if name != "weight")
    for k, y in enumerate(rows.y.tolist()):
        part = slice(X.indptr[k], X.indptr[k + 1])
        x = {f"x{j}": v for j, v in zip(X.indices[part].tolist(), X.data[part].tolist(), strict=True)}
        model.learn_one(x, y, **{name: value.item() for name, value in _named(rows, extra, k).items()})
    return answer_of(model.finalize())


DOORS: dict[str, Callable[..., Answer]] = {"fit": fitted, "parts": in_cuts, "one": one_by_one}
_ARGUMENTS = {"weight": "sample_weight", "offset": "offset", "time": "time"}


def _named(rows: Rows, extra: tuple[str, ...], part: Any) -> dict[str, Any]:
    return {_ARGUMENTS[name]: getattr(rows, name)[part] for name in extra}


def _has_classes(model: Any) -> bool:
    return isinstance(model, SparseClassifier)


def path_of(model: Any, rows: Rows, parts: bool = False) -> Answer:
    """Models along strengths, and what was judged."""
    if parts:
        for part in (slice(0, 90), slice(90, None)):
            model.partial_fit(rows.X[part], rows.y[part])
        model.convert()
    else:
        model.fit(rows.X, rows.y)
    path = model.path_
    return {"coef": path.coefs.toarray(), "intercept": path.intercepts, "losses": path.losses, "alphas": path.alphas}


def selected(model: Any, rows: Rows) -> Answer:
    """Weights, and the features that a stable estimator selected."""
    model.fit(rows.X, rows.y)
    return answer_of(model) | {"selected": model.get_support().astype(float)}


# ---- cells -----------------------------------------------------------------------------------------------------------

KINDS = {"poisson": "counts", "gamma": "positive", "tweedie": "positive"}
LOSSES = {name: "signs" for name, loss in CLASSIFIER_LOSSES.items() if loss.classifies and "_" not in name}
LOSSES["multinomial"] = "classes"
LOSSES |= {name: KINDS.get(name, "numbers") for name in REGRESSOR_LOSSES if "_" not in name}
PENALTIES = {"l1": {"penalty": "l1", "alpha": 0.02}, "elasticnet": {"alpha": 0.03, "l1_ratio": 0.5}}


def estimator(loss: str, **settings: Any) -> Any:
    """The estimator for a loss, new, with a seed."""
    kind = SparseClassifier if loss in CLASSIFIER_LOSSES and loss != "squared" else SparseRegressor
    return kind(loss, random_state=0, **settings)


def _cell(group: str, name: str, door: Callable[..., Answer], make: Callable[[], Any], *more: Any) -> Cell:
    return Cell(group, f"{group}/{name}", lambda: door(make(), *more))


def methods() -> Iterator[Cell]:
    """Every optimizer with every conversion."""
    for optimizer in optimizers.OPTIMIZERS:
        for conversion in conversions.CONVERSIONS:
            for penalty, given in PENALTIES.items():
                for door in ("fit", "parts") if conversion in ("last", "average", "average-sl", "scmdi") else ("fit",):
                    ball = {"penalty": penalties.L1Ball(2.0)} if optimizer == "epoch-sgd" else given
                    settings = {"optimizer": optimizer, "conversion": conversion, **ball}
                    make = functools.partial(estimator, "logistic", **settings)
                    yield _cell(
                        f"methods/{optimizer}", f"{conversion}/{penalty}/{door}", DOORS[door], make, rows_of("signs")
                    )


def losses() -> Iterator[Cell]:
    """Every loss with the optimizers that are used most."""
    for loss, kind in LOSSES.items():
        for optimizer in ("fobos", "sgd", "rda", "ftrl", "nftrl", "adagrad-rda", "batch-fobos"):
            for conversion in ("last", "average-sl", "optimal-sl"):
                settings = {"optimizer": optimizer, "conversion": conversion, "alpha": 0.02, "l1_ratio": 0.8}
                make = functools.partial(estimator, loss, **settings)
                yield _cell(f"losses/{loss}", f"{optimizer}/{conversion}", fitted, make, rows_of(kind))


def regularizers() -> Iterator[Cell]:
    """Every penalty with the optimizers that take it."""
    groups = np.repeat(np.arange(8), 3)
    made = {name: ({"penalty": name}, "signs") for name in penalties.PENALTIES}
    made["group"] = ({"penalty": "group", "feature_groups": groups}, "signs")
    made["sparse-group"] = ({"penalty": "sparse-group", "feature_groups": groups}, "signs")
    made["row-group"], made["trace"] = ({"penalty": "row-group"}, "classes"), ({"penalty": "trace"}, "classes")
    made["box"] = ({"penalty": penalties.Box(-0.5, 0.5)}, "signs")
    made["l1-ball"] = ({"penalty": penalties.L1Ball(2.0)}, "signs")
    made["l2-ball"] = ({"penalty": penalties.L2Ball(1.0)}, "signs")
    for name, (settings, kind) in made.items():
        for optimizer in ("auto", "fobos", "rda", "sgd", "nftrl", "batch-fobos", "batch-rda", "epoch-sgd"):
            for conversion in ("last", "average", "average-sl", "auto"):
                strength = {"alpha": 0.02} if isinstance(settings["penalty"], str) else {}
                given = settings | strength | {"optimizer": optimizer, "conversion": conversion}
                make = functools.partial(estimator, "logistic", **given)
                yield _cell(f"penalties/{name}", f"{optimizer}/{conversion}", fitted, make, rows_of(kind))


AUTOMATIC: dict[str, dict[str, Any]] = {
    "plain": {},
    "min": {"choose": "min"},
    "1-se": {"choose": "1-se"},
    "raw": {"standardize": False},
    "folds": {"cv": 3},
    "budget": {"budget": 5},
    "l1": {"l1_ratio": 1.0},
    "relaxed": {"relaxed": True},
    "given": {"alpha": 0.03},
    "given-mixed": {"alpha": 0.03, "l1_ratio": 0.3},
    "given-relaxed": {"alpha": 0.03, "relaxed": True},
    "polished": {"alpha": 0.03, "polish": True},
    "no-intercept": {"fit_intercept": False},
    "weighted-features": {"feature_weights": np.repeat([1.0, 2.0, 0.5], 8)},
    "groups": {"penalty": "group", "feature_groups": np.repeat(np.arange(8), 3)},
    "mcp": {"penalty": "mcp", "alpha": 0.03},
    "adaptive": {"penalty": "adaptive", "alpha": 0.03},
}


def automatic() -> Iterator[Cell]:
    """What is chosen without a question, and with one."""
    for loss, kind in LOSSES.items():
        for name, settings in AUTOMATIC.items():
            for wide in (False, True):
                if wide and ("feature_weights" in settings or "feature_groups" in settings):
                    continue
                make = functools.partial(estimator, loss, **settings)
                rows = rows_of(kind, wide)
                yield _cell(f"automatic/{loss}", f"{name}/{'wide' if wide else 'narrow'}", fitted, make, rows)
        make, rows = functools.partial(estimator, loss), rows_of(kind)
        for extra in (("weight",), ("offset",)):
            yield _cell(f"automatic/{loss}", f"with {extra[0]}", fitted, make, rows, extra)
        yield _cell(
            f"automatic/{loss}", "five features", lambda m, r: answer_of(m.fit(r.X, r.y).at_size(5)), make, rows
        )
        yield _cell(f"automatic/{loss}", "parts", in_cuts, make, rows)
    for name, settings in {"balanced": {"class_weight": "balanced"}, "calibrated": {"calibrate": True}}.items():
        make = functools.partial(estimator, "logistic", **settings)
        yield _cell("automatic/logistic", name, fitted, make, rows_of("labels"))


FEATURES: dict[str, tuple[dict[str, Any], str, tuple[str, ...]]] = {
    "weight": ({}, "signs", ("weight",)),
    "offset": ({}, "signs", ("offset",)),
    "half-life": ({"half_life": 50.0}, "signs", ()),
    "time": ({"half_life": 50.0}, "signs", ("time",)),
    "offset and time": ({"half_life": 50.0}, "signs", ("offset", "time", "weight")),
    "units": ({"standardize": True}, "signs", ()),
    "at most": ({"max_features": 12}, "signs", ()),
    "trimmed": ({"trim": 60}, "signs", ()),
    "classes": ({}, "classes", ()),
    "classes and offset": ({}, "classes", ("weight",)),
    "balanced": ({"class_weight": "balanced"}, "labels", ()),
    "no-intercept": ({"fit_intercept": False}, "signs", ()),
    "three passes": ({"max_iter": 3, "tol": None}, "signs", ()),
}


def features() -> Iterator[Cell]:
    """Every feature of streams with every door."""
    chosen = (("fobos", "average-sl"), ("rda", "last"), ("nftrl", "last"), ("sgd", "average"), ("ftrl", "optimal-sl"))
    for optimizer, conversion in (*chosen, ("auto", "auto")):
        for name, (settings, kind, extra) in FEATURES.items():
            alpha = {"alpha": 0.02} if optimizer != "auto" else {}
            given = {"optimizer": optimizer, "conversion": conversion, **alpha, **settings}
            make = functools.partial(estimator, "logistic", **given)
            for door, call in DOORS.items():
                yield _cell(f"features/{optimizer}", f"{name}/{door}", call, make, rows_of(kind), extra)
        for loss in ("squared", "multinomial"):
            alpha = {"alpha": 0.02} if optimizer != "auto" else {}
            kind = "columns" if loss == "squared" else "classes"
            make = functools.partial(estimator, loss, optimizer=optimizer, conversion=conversion, **alpha)
            for door in ("fit", "parts"):
                yield _cell(f"features/{optimizer}", f"{loss}/{kind}/{door}", DOORS[door], make, rows_of(kind))


def paths() -> Iterator[Cell]:
    """Strengths side by side, folds, and stable selections."""
    grids: dict[str, dict[str, Any]] = {"auto": {"n_alphas": 8}, "given": {"alphas": [0.3, 0.1, 0.03, 0.01]}}
    for loss, kind in LOSSES.items():
        for name, grid in grids.items():
            for method in ({}, {"optimizer": "fobos", "conversion": "average-sl"}, {"optimizer": "nftrl"}):
                base = functools.partial(estimator, loss, **method)
                for parts in (False, True):
                    label = f"{name}/{method.get('optimizer', 'auto')}/{'parts' if parts else 'fit'}"
                    make = functools.partial(lambda base, grid: SparsePath(base(), **grid), base, grid)
                    yield _cell(f"paths/{loss}", label, path_of, make, rows_of(kind), parts)
        folds = SparseClassifierCV if loss in CLASSIFIER_LOSSES and loss != "squared" else SparseRegressorCV
        for rule in ("min", "1-se"):
            make = functools.partial(
                lambda folds, loss, rule: folds(estimator(loss), cv=3, n_alphas=6, choose=rule, random_state=0),
                folds, loss, rule,
            )  # fmt: skip
            yield _cell(f"paths/{loss}", f"folds/{rule}", fitted, make, rows_of(kind))
    for loss, kind in (("logistic", "signs"), ("hinge", "signs"), ("squared", "numbers"), ("logistic", "classes")):
        stable = StableSparseRegressor if loss == "squared" else StableSparseClassifier
        for name, settings in {"auto": {}, "four": {"n_features": 4}, "fdr": {"fdr": 0.2}, "efp": {"efp": 1.0}}.items():
            make = functools.partial(stable, loss=loss, random_state=0, **settings)
            yield _cell("paths/stable", f"{loss}/{kind}/{name}", selected, make, rows_of(kind))


def compositions() -> Iterator[Cell]:
    """The papers' methods by their names."""
    for name, preset in vars(presets).items():
        if not name[0].isupper() or getattr(preset, "__module__", "") != presets.__name__ or name == "Preset":
            continue
        strength: dict[str, Any] = {"alpha": 0.02, "l1_ratio": 0.5}
        needs = {"T": 240} if "T" in inspect.signature(preset).parameters else {}
        if name in ("TwoStage", "BallSGD"):
            strength, needs = {"budget": 6}, {"B": 2.0}
        for loss, kind in (("logistic", "signs"), ("squared", "numbers"), ("hinge", "signs")):
            for paper in (False, True):
                make = functools.partial(estimator, loss, preset=preset(paper=paper, **needs), **strength)
                label = f"{loss}/{'paper' if paper else 'ours'}"
                yield _cell(f"presets/{name}", label, fitted, make, rows_of(kind))


# ---- files -----------------------------------------------------------------------------------------------------------


def _written(folder: Path, suffix: str) -> Path:
    """The rows of two classes as a file."""
    rows, path = rows_of("signs"), folder / f"rows{suffix}"
    X, lines = rows.X, []
    if suffix == ".csv":
        lines.append(",".join(["label", *(f"x{j}" for j in range(X.shape[1]))]))
    for k, y in enumerate(rows.y):
        part = slice(X.indptr[k], X.indptr[k + 1])
        pairs = [(int(j), float(v)) for j, v in zip(X.indices[part], X.data[part], strict=True)]
        if suffix == ".svm":
            lines.append(f"{y:+.0f} " + " ".join(f"{j + 1}:{v!r}" for j, v in pairs))
        elif suffix == ".vw":
            lines.append(f"{y:.0f} | " + " ".join(f"x{j}:{v!r}" for j, v in pairs))
        elif suffix == ".jsonl":
            lines.append(json.dumps({"label": y, **{f"x{j}": v for j, v in pairs}}))
        elif suffix == ".csv":
            lines.append(",".join([f"{y:.0f}", *map(repr, map(float, X[[k]].toarray()[0]))]))
        else:
            lines.append(f"{y:.0f}\t" + " ".join(f"word{j}" for j, _ in pairs))
    path.write_text("\n".join(lines) + "\n")
    return path


def _trained(suffix: str, settings: dict[str, Any], options: dict[str, Any], stops: bool) -> Answer:
    """The model of ``train``, stopped and resumed on the way where that is asked for."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source = _written(folder, suffix)
        given: dict[str, Any] = {"settings": {"random_state": 0, **settings}, **options}
        reader = {"block_bytes": 2000}
        if suffix in (".csv", ".jsonl"):
            reader |= {"target": "label"}
        if not stops:
            return answer_of(sparsco.train(source, **given, reader=reader).model)
        kept, resume = Checkpoints(folder / "checkpoint", 50, None), False
        for left in (2**k for k in range(12)):  # a choice that is cut off begins anew
            calls = iter(range(left))
            try:
                trained = sparsco.train(
                    source, **given, reader=reader, checkpoints=kept, resume=resume,
                    stop=lambda calls=calls: next(calls, None) is None,
                )  # fmt: skip
                return answer_of(trained.model)
            except StoppedError:
                resume = kept.exist()
        raise AssertionError("the run did not end.")


def files() -> Iterator[Cell]:
    """Every format of files by ``train``."""
    given = {
        "auto": {},
        "given": {"alpha": 0.02},
        "fobos": {"alpha": 0.02, "optimizer": "fobos", "conversion": "average-sl"},
    }
    for suffix in (".svm", ".vw", ".csv", ".jsonl", ".txt"):
        for name, settings in given.items():
            for label, options in {"one": {}, "two": {"passes": 2}, "in order": {"shuffle": False}}.items():
                for stops in (False, True):
                    yield Cell(
                        f"files/{suffix[1:]}",
                        f"files/{suffix[1:]}/{name}/{label}/{'resumed' if stops else 'whole'}",
                        functools.partial(_trained, suffix, settings, options, stops),
                    )


def exported() -> Iterator[Cell]:
    """Predictions of exported Python."""
    for loss, kind in LOSSES.items():
        yield Cell("exports", f"exports/{loss}", functools.partial(_exported, loss, kind))


def _exported(loss: str, kind: str) -> Answer:
    rows = rows_of(kind)
    model = estimator(loss, alpha=0.02).fit(rows.X.toarray(), rows.y)
    module: dict[str, Any] = {}
    exec(sparsco.export(model, "python"), module)
    return {"predicted": np.array([module["predict"](row) for row in rows.X.toarray()[:20].tolist()], float)}


def cells() -> list[Cell]:
    """All cells, those of a group side by side."""
    parts = (methods, losses, regularizers, automatic, features, paths, compositions, files, exported)
    every = [cell for part in parts for cell in part()]
    assert len({cell.name for cell in every}) == len(every)
    return every


# ---- the record ------------------------------------------------------------------------------------------------------


def answer(cell: Cell) -> Answer | None:
    """The answer of a cell; None where the combination is refused."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return cell.call()
        except (ValueError, TypeError, AttributeError, sparsco.DivergenceError):
            return None


def bits(result: Answer) -> str:
    """A hash of the bits of an answer; both zeros are one."""
    h = hashlib.sha256()
    for name in sorted(result):
        part = np.ascontiguousarray(result[name], np.float64) + 0.0
        h.update(f"{name}{part.shape}".encode() + part.tobytes())
    return h.hexdigest()[:16]


def figures(result: Answer) -> list[float]:
    """The largest number of an answer, its count of nonzeros, and four sums with weights that tell entries apart."""
    every = np.concatenate([np.ravel(result[name]) for name in sorted(result)]).astype(float)
    every = every[np.isfinite(every)]
    angles = np.outer(np.arange(1.0, 5.0), np.arange(1.0, len(every) + 1.0))
    return [float(np.abs(every).max(initial=0.0)), float(np.count_nonzero(every)), *(np.cos(angles) @ every).tolist()]


def environment() -> dict[str, str]:
    """What the bits depend on."""
    import llvmlite.binding
    import numba
    import scipy

    return {
        "numba": numba.__version__,
        "numpy": np.__version__,
        "processor": os.environ.get("NUMBA_CPU_NAME") or llvmlite.binding.get_host_cpu_name(),
        "scipy": scipy.__version__,
    }


def write() -> None:
    """Write the record of all cells that are not refused."""
    every = {}
    for cell in cells():
        result = answer(cell)
        if result is not None:
            every[cell.name] = [bits(result), *figures(result)]
    lines = ",\n".join(f" {json.dumps(name)}: {json.dumps(every[name])}" for name in every)
    RECORD.write_text(f'{{"environment": {json.dumps(environment())},\n"cells": {{\n{lines}\n}}}}\n')
    print(f"{len(every)} cells")


if __name__ == "__main__":
    write()
