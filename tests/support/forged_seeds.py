"""The valid models, checkpoints and row caches that are forged, each with the commands that read it."""

from __future__ import annotations

import contextlib
import itertools
import shutil
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sparsco import cli, train
from sparsco.training.checkpoints import Checkpoints
from sparsco.training.train import StoppedError
from support import forged_states
from support.forged_runs import as_in_shell, command, growth_of
from support.forging import forge

ROWS = 1800
_WORDS = "apple pear plum fig lime kiwi mango peach grape melon 12p 3kg über Straße".split()
_EXPORTS = ("json", "csv", "c", "js", "python", "sql")


class Seed(NamedTuple):
    """A valid file or folder, and the actions on a forged copy at the given path."""

    name: str
    path: Path
    actions: tuple[Callable[[Path], None], ...]


def write_data(folder: Path) -> None:
    """Write a LIBSVM file, a VW file, a table and a file of texts."""
    rng = np.random.default_rng(0)
    with (
        open(folder / "a.svm", "w") as svm,
        open(folder / "a.vw", "w") as vw,
        open(folder / "a.csv", "w", encoding="utf-8") as csv,
        open(folder / "a.txt", "w", encoding="utf-8") as txt,
    ):
        csv.write("age,city,day,ok,note,kind,value,w,t,e,id\n")
        for i in range(ROWS):
            columns, values = np.sort(rng.choice(60, 6, replace=False)), rng.normal(size=6)
            y = int(values[0] + values[1] * (columns[0] % 2) + rng.normal() / 4 > 0)
            pairs = list(zip(columns, values, strict=True))
            svm.write(f"{y} " + " ".join(f"{j + 1}:{x:.3f}" for j, x in pairs) + "\n")
            vw.write(f"{2 * y - 1} {1 + y} 'r{i}|a " + " ".join(f"f{j}:{x:.3f}" for j, x in pairs[:3]))
            vw.write(" |b " + " ".join(f"g{j}:{x:.3f}" for j, x in pairs[3:]) + "\n")
            words = " ".join(rng.choice(_WORDS, 4))
            kind = ["red", "green", "blue"][int(columns[0]) % 3]
            age = "" if i % 50 == 7 else f"{values[0]:.2f}"
            city, day = _WORDS[int(columns[1]) % 5], f"20{10 + i % 9}-0{1 + i % 9}-11"
            csv.write(
                f"{age},{city},{day},{['yes', 'no'][y]},{words},{kind},{values[2] + y:.3f},{1 + y},{i / 9},1.5,r{i}\n"
            )
            txt.write(f"{'spam' if y else 'ham'}\t{words} {'fig' if y else ''}\n")


FEW = {
    "model": ("hashed", "characters", "born", "fading"),
    "checkpoint": ("fobos", "table"),
    "cache": ("table", "vw"),
}
"""The names of a few files that have most fields together."""


def seeds(folder: Path, few: bool = False) -> list[Seed]:
    """Make the files in a folder, all or a few, by commands as users give them."""
    write_data(folder)
    kept = FEW if few else {}
    return [
        *_models(folder, kept.get("model")),
        *_checkpoints(folder, kept.get("checkpoint")),
        *_caches(folder, kept.get("cache")),
        *(Seed(f"state {name}", path, actions) for name, path, actions in forged_states.made(folder, few)),
    ]


def _models(folder: Path, kept: tuple[str, ...] | None) -> list[Seed]:
    svm, vw, csv, txt = (folder / f"a.{suffix}" for suffix in ("svm", "vw", "csv", "txt"))
    table = ["--weight", "w", "--tag", "id", "--text", "note"]
    roles = ["--schema", "t=ignored", "--schema", "e=ignored"]
    given: dict[str, tuple[Path, list[str]]] = {
        "chosen": (svm, ["--save-state"]),
        "hashed": (vw, ["--hash-bits", "12", "--alpha", "0.001", "--save-state"]),
        "table": (csv, ["--target", "value", *table, *roles]),
        "classes": (csv, ["--target", "kind", *table, *roles, "--loss", "multinomial", "--alpha", "0.01"]),
        "texts": (txt, ["--ngrams", "1-2", "--weighting", "tfidf", "--format", "text", "--alpha", "0.001"]),
        "characters": (
            txt,
            ["--analyzer", "char", "--format", "text", "--hash-bits", "12", "--weighting", "tfidf", "--alpha", "0.001"],
        ),
        "calibrated": (svm, ["--calibrate", "--class-weight", "balanced", "--intervals", "0.9", "--alpha", "0.01"]),
        "promise": (svm, ["--fdr", "0.3"]),
        "crosses": (csv, ["--target", "ok", *table, *roles, "--cross", "city:kind", "--alpha", "0.001"]),
        "born": (svm, ["--cross", "all", "--birth", "8", "--alpha", "0.001", "--save-state"]),
        "bits": (vw, ["--cross", "all", "--cross-bits", "10", "--alpha", "0.001"]),
        "fading": (csv, ["--target", "ok", *table, "--time", "t", "--half-life", "100", "--offset", "log(e)"]),
        "seen": (svm, ["--storage", "seen", "--alpha", "0.001", "--optimizer", "rda", "--save-state"]),
    }
    found = []
    for name, (data, options) in given.items():
        if kept is not None and name not in kept:
            continue
        path = folder / f"{name}.model"
        reading = ["--format", "text"] if data is txt else []
        assert cli.main(["train", str(data), "-m", str(path), "--quiet", "--no-cache", *options]) == 0, name
        actions = [
            _reading("predict", "--score", data=data, options=reading),
            _reading("inspect"),
            _reading("evaluate", data=data, options=reading),
        ]
        actions += [_reading("inspect", "--json")]
        if "--save-state" in options:
            actions.append(_updating(data, folder))
        exports = [_exporting(to) for to in _EXPORTS if _can(path, to)]
        found.append(Seed(f"model {name}", path, (*actions, *exports)))
    return found


def _can(path: Path, to: str) -> bool:
    return cli.main(["export", str(path), "--to", to, "-o", f"{path}.export"]) == 0


def _reading(what: str, *more: str, data: Path | None = None, options: Any = ()) -> Callable[[Path], None]:
    def read(path: Path) -> None:
        command(what, path, *([] if data is None else [data]), *more, *options)

    return read


def _exporting(to: str) -> Callable[[Path], None]:
    return lambda path: command("export", path, "--to", to, "-o", f"{path}.export")


def _updating(data: Path, folder: Path) -> Callable[[Path], None]:
    return lambda path: command("train", data, "--update", path, "-m", f"{path}.new", "--quiet", "--no-cache")


def _checkpoints(folder: Path, kept: tuple[str, ...] | None) -> list[Seed]:
    svm, csv = folder / "a.svm", folder / "a.csv"
    table = {"target": "ok", "weight": "w", "schema": {"e": "ignored"}}
    timed, untimed = table | {"time": "t"}, table | {"schema": {"t": "ignored", "e": "ignored"}}
    given: dict[str, tuple[Path, dict[str, Any], dict[str, Any]]] = {
        "default": (svm, {}, {}),
        "fobos": (svm, {"alpha": 0.001, "optimizer": "fobos", "conversion": "average"}, {}),
        "orda": (svm, {"alpha": 0.001, "optimizer": "orda", "l1_ratio": 0.5, "conversion": "optimal-sl"}, {}),
        "adagrad": (svm, {"alpha": 0.001, "optimizer": "adagrad-rda", "conversion": "last"}, {}),
        "sgd": (svm, {"alpha": 0.0, "optimizer": "sgd", "conversion": "suffix"}, {}),
        "seen": (svm, {"alpha": 0.001, "optimizer": "truncated-gradient", "conversion": "last", "storage": "seen"}, {}),
        "table": (csv, {"alpha": 0.001}, {"reader": untimed}),
        "fading": (csv, {"half_life": 300.0}, {"reader": timed}),
        "calibrated": (svm, {"calibrate": True}, {}),
        "multinomial": (csv, {"loss": "multinomial"}, {"reader": untimed | {"target": "kind"}}),
        "trimmed": (svm, {"max_features": 20, "alpha": 0.001}, {}),
        "crosses": (svm, {"alpha": 0.001}, {"cross": "all", "birth": 8}),
        "passes": (svm, {"alpha": 0.001}, {"passes": 2}),
        "polish": (svm, {"alpha": 0.01, "polish": True}, {}),
    }
    found = []
    for name, (data, settings, more) in given.items():
        if kept is not None and name not in kept:
            continue
        path = folder / f"{name}.checkpoint"

        def learn(path: Path, data: Path = data, settings: Any = settings, more: Any = more, **how: Any) -> None:
            train(
                data, settings=settings | {"random_state": 0}, checkpoints=Checkpoints(path, 500, None), **more, **how
            )

        for most in itertools.count(3):
            stops = itertools.count()
            with contextlib.suppress(StoppedError):
                learn(path, stop=lambda stops=stops, most=most: next(stops) >= most)  # noqa: B023
            if path.exists() and _rows_in(path) > 1000:
                break
            assert most < 50, name
        found.append(Seed(f"checkpoint {name}", path, (_resuming(learn),)))
    return found


def _rows_in(path: Path) -> int:
    content = Checkpoints(path).read()
    return content["row"] + content["epoch"] * ROWS


def _resuming(learn: Callable[..., None]) -> Callable[[Path], None]:
    return lambda path: as_in_shell(lambda: learn(path, resume=True))


def _caches(folder: Path, kept: tuple[str, ...] | None) -> list[Seed]:
    svm, vw, csv, txt = (folder / f"a.{suffix}" for suffix in ("svm", "vw", "csv", "txt"))
    roles = ["--target", "ok", "--weight", "w", "--tag", "id", "--time", "t", "--offset", "log(e)", "--text", "note"]
    given = {
        "svm": (svm, [], "chosen"),
        "vw": (vw, ["--hash-bits", "12"], "hashed"),
        "table": (csv, [*roles, "--weighting", "tfidf"], None),
        "texts": (txt, ["--format", "text", "--min-count", "2"], None),
    }
    found = []
    for name, (data, options, model) in given.items():
        if kept is not None and name not in kept:
            continue
        path = folder / f"{name}.rows"
        assert cli.main(["convert", str(data), str(path), "--quiet", *options]) == 0
        actions = [_learning(), _learning("--alpha", "0.01", "--passes", "2")]
        if model is not None:
            actions.append(lambda path, model=model: command("predict", folder / f"{model}.model", path))
            actions.append(lambda path, model=model: command("evaluate", folder / f"{model}.model", path))
        found.append(Seed(f"cache {name}", path, tuple(actions)))
    return found


def _learning(*options: str) -> Callable[[Path], None]:
    return lambda path: command("train", path, "-m", f"{path}.model", "--quiet", *options)


_ALLOWED = 100 << 20


class Cases(NamedTuple):
    """Numbered forged files; a number says which file is forged, how, and which command reads it."""

    folder: Path
    seeds: list[Seed]
    growth: dict[tuple[str, int], int]
    """By how many bytes the process grows by a valid file, for each seed and action."""

    @classmethod
    def in_folder(cls, folder: Path, few: bool = False) -> Cases:
        """Make the valid files, and do everything once with each, so that all code is loaded."""
        found, growth = seeds(folder, few), {}
        for seed in found:
            for k, action in enumerate(seed.actions):
                path = folder / f"{k}-{seed.path.name}"
                _copy(seed.path, path)
                action(path)
                _copy(seed.path, path)
                growth[seed.name, k] = growth_of(lambda action=action, path=path: action(path), folder)
        return cls(folder, found, growth)

    def numbered(self, numbers: Iterable[int]) -> Iterator[tuple[Any, Callable[[], Any], Callable[[], None], int]]:
        """Yield the cases with these numbers, for ``forged_runs.run``."""
        for number in numbers:
            rng, kind = np.random.default_rng([44, number]), ("model", "checkpoint", "cache", "state")[number % 4]
            seed = [seed for seed in self.seeds if seed.name.startswith(kind)]
            seed = seed[rng.integers(len(seed))]
            k, path = int(rng.integers(len(seed.actions))), self.folder / f"{number % 500}-{seed.path.name}"
            often = {"state": 0.7, "checkpoint": 0.4}.get(kind, 0.0)
            prepare = partial(_prepare, seed.path, path, number, often)
            most = self.growth[seed.name, k] + _ALLOWED + 10 * _size(seed.path)
            yield (number, seed.name, k), prepare, partial(seed.actions[k], path), most


def _prepare(source: Path, path: Path, number: int, often: float) -> None:
    """Forge a file, without what an earlier case left beside it: the checkpoint before the last would be read."""
    for remains in path.parent.glob(path.name + ".*"):
        shutil.rmtree(remains) if remains.is_dir() else remains.unlink()
    forge(source, path, number, often)


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, dirs_exist_ok=True)
    else:
        shutil.copy(source, target)


def _size(path: Path) -> int:
    return sum(file.stat().st_size for file in path.iterdir()) if path.is_dir() else path.stat().st_size
