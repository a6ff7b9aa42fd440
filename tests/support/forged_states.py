"""Models with a training state of every optimizer, and of every other kind of memory, to be forged and continued."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from sparsco import SparseClassifier, SparseRegressor, conversions, load, mirrors, optimizers, penalties, save, steps
from sparsco.training.checkpoints import going_on_from
from support.cases import OPTIMIZERS
from support.forged_runs import as_in_shell

_ROWS, _FEATURES, _FIRST = 1500, 30, 1300


def _rows(classes: int = 2) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(_ROWS, _FEATURES)) * (rng.random((_ROWS, _FEATURES)) < 0.3)
    margins = X[:, :classes] + X[:, classes : 2 * classes] + 0.3 * rng.normal(size=(_ROWS, classes))
    return X, margins.argmax(1)


def settings() -> dict[str, dict[str, Any]]:
    """Return the settings by name; those of every optimizer come first."""
    found: dict[str, dict[str, Any]] = {}
    for name, (_, record, _) in OPTIMIZERS.items():
        found[name] = {"optimizer": record, "l1_ratio": 0.5, "conversion": "average"}
    for name in ("rda-enhanced", "truncated-theta"):
        found[name]["l1_ratio"] = 1.0
    found["sgd"]["step_size"] = steps.StronglyConvex(mu=0.005, cap=False)  # the form that is lazy
    grouped = {"alpha": "auto", "penalty": penalties.GroupL1(0.01, np.arange(_FEATURES) // 3), "conversion": "average"}
    ball = {"alpha": "auto", "penalty": penalties.L1Ball(2.0), "conversion": "last"}
    tracked, mirrored = {"l1_ratio": 1.0, "conversion": conversions.OCMDI()}, optimizers.MirrorDescent
    flat = {"l1_ratio": 1.0}
    return found | {
        "sgd-dense": {"optimizer": "sgd", "conversion": "suffix"},
        "fobos-groups": grouped | {"optimizer": "fobos"},
        "rda-groups": grouped | {"optimizer": "rda"},
        "ball": ball | {"optimizer": optimizers.EpochSGD(200, 0.5)},
        "ball-near": ball | {"optimizer": optimizers.EpochSGD(200, 0.5, 1.0)},
        "tracked": tracked | {"optimizer": "fobos"},
        "tracked-static": tracked | {"alpha": 0.0, "optimizer": mirrored(mirrors.SparseKaczmarz(0.1))},
        "tracked-swept": tracked | {"optimizer": mirrored(mirrors.PNorm(1.5))},
        "batch": {"optimizer": optimizers.BatchFOBOS(7), "conversion": "average"},
        "batch-rda": {"optimizer": optimizers.BatchRDA(7), "conversion": "average"},
        "optimal": {"optimizer": "fobos", "conversion": "optimal-sl"},
        "last-sl": {"optimizer": "rda", "conversion": conversions.LastSL()},
        "adagrad-l1": flat | {"optimizer": "adagrad-rda", "conversion": "average-sl"},
        "ftrl-l1": flat | {"optimizer": "ftrl", "conversion": "average"},
        "rda-l1": flat | {"optimizer": "rda", "conversion": "average-sl"},
        "half-life": {"optimizer": "fobos", "half_life": 300, "conversion": "average"},
        "half-life-rda": flat | {"optimizer": "rda", "half_life": 300, "conversion": "average"},
        "half-life-ftrl": flat | {"optimizer": "nftrl", "half_life": 300, "conversion": "average"},
        "trimmed": {"optimizer": "fobos", "max_features": 20, "trim": 100, "conversion": "average"},
        "seen": {"optimizer": "rda", "storage": "seen", "conversion": "average"},
        "classes": {"optimizer": "fobos", "conversion": "average", "classes": 3},
        "multinomial": {"loss": "multinomial", "conversion": "last", "classes": 3, "optimizer": "rda"},
        "chosen": {"alpha": "auto"},
        "calibrated": {"calibrate": True},
        "regression": {"conversion": "average-sl", "of": SparseRegressor},
        "names": {"optimizer": "fobos", "conversion": "average"},
    }


def _data(name: str) -> tuple[Any, np.ndarray]:
    return _rows(settings()[name].get("classes", 2))


def _as_dict(row: np.ndarray) -> dict[str, float]:
    return {f"f{j}": float(row[j]) for j in np.flatnonzero(row)}


def _learn(model: Any, X: np.ndarray, y: np.ndarray, by_name: bool) -> Any:
    if not by_name:
        return model.partial_fit(X, y)
    for row, label in zip(X, y.tolist(), strict=True):
        model.learn_one(_as_dict(row), label)
    return model


def make(name: str, path: Path) -> Path:
    """Learn most of the rows, and save the model with its training state."""
    (X, y), given = _data(name), dict(settings()[name])
    given.pop("classes", None)
    kind = given.pop("of", SparseClassifier)
    model = kind(**({"alpha": 0.01, "random_state": 0} | given))
    _learn(model, X[:1100], y[:1100], name == "names")
    return save(_learn(model, X[1100:_FIRST], y[1100:_FIRST], name == "names"), path, training=True)


def go_on(name: str, path: Path) -> Any:
    """Learn the other rows from what a file holds; return the model, which is saved and predicts."""
    X, y = _data(name)
    model = load(path, training=True)
    _learn(model, X[_FIRST:], y[_FIRST:], name == "names")
    if name == "names":
        model.predict_one(_as_dict(X[0]))
    else:
        model.predict(X)
    save(model, path, training=True)
    return model


def actions(name: str) -> tuple[Callable[[Path], None], ...]:
    """Return what is done with a forged state."""
    return (lambda path: as_in_shell(functools.partial(_quietly, name, path)),)


def _quietly(name: str, path: Path) -> None:
    with going_on_from(path, "--update"):
        go_on(name, path)


def made(folder: Path, few: bool = False) -> Iterator[tuple[str, Path, tuple[Callable[[Path], None], ...]]]:
    """Make the files in a folder, all or a few; yield the name, the path and the actions of each."""
    for name in FEW if few else settings():
        yield name, make(name, folder / f"{name}.state"), actions(name)


FEW = ("fobos", "fobos-groups", "ball", "tracked", "trimmed")
"""The names of a few states that hold most kinds of places."""
