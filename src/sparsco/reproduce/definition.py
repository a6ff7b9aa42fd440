"""The definition of a table or a figure: its runs, the printed numbers, the tolerances, and known differences.

Every file ``papers/KEY.toml`` defines one experiment.  Its ``[runs]`` list which problems are learned by which methods.
``runs = [KEY, ...]`` uses those of other files instead: a figure shows the runs of a table.  docs/reproduce.md explains
the fields.
"""

from __future__ import annotations

import difflib
import inspect
import tomllib
from collections.abc import Iterator, Sequence
from importlib.resources import files
from itertools import combinations
from typing import Any, NamedTuple

from ..presets import PRESETS
from . import problems
from .selection import SELECTORS

PAPERS = {
    "individual": "Optimal Stochastic and Online Learning with Individual Iterates (NeurIPS 2019)",
    "aaai": "Sparse Learning for Stochastic Composite Optimization (AAAI 2014)",
    "two": "A Two-stage Approach for Learning a Sparse Model with Sharp Excess Risk Analysis (AAAI 2017)",
    "stabilized": "Stabilized Sparse Online Learning for Sparse Data",
    "tpami": "Sparse Learning with Stochastic Composite Optimization (TPAMI 2017)",
    "hinge": "Conversions of losses with kinks, which the papers leave open; not printed anywhere",
}
SPECIAL = ("exact", "default")
"""Methods that are not presets: the exact optimum, and an estimator with all parameters at their defaults."""
INGREDIENTS = ("round", "to", "sparsify")
"""Fields of a method that name another method whose model it uses."""
UNJUDGED = "not judged"


class DefinitionError(ValueError):
    """The error for an invalid file that defines an experiment."""


class Study(NamedTuple):
    """The runs of an experiment: each method on each setting of one problem, for a number of trials."""

    key: str
    name: str
    problem: dict[str, Any]
    settings: dict[str, dict[str, Any]]
    methods: dict[str, dict[str, Any]]
    examples: int
    """The length of the stream, unless a setting has its own."""
    points: tuple[float, ...]
    """The shares of the stream after which a model is evaluated; the last is 1."""
    trials: int
    keeps_weights: bool

    def at(self, setting: str) -> tuple[int, ...]:
        """Return the numbers of examples after which a model is evaluated."""
        examples = self.settings[setting].get("examples", self.examples)
        return tuple(max(1, round(share * examples)) for share in self.points)

    def fields(self, setting: str) -> dict[str, Any]:
        """Return the fields that define the problem."""
        own = {name: field for name, field in self.settings[setting].items() if name != "examples"}
        return self.problem | own

    def cost(self, setting: str) -> float:
        """Return the cost of one method's trial, in no particular unit."""
        return float(sum(self.at(setting)) * self.problem.get("d", 100))


class Claim(NamedTuple):
    """A statement of a paper as a comparison of rows: ``row`` lies below (or above) every row of ``than``.

    ``within`` is the relative difference up to which two rows count as comparable; if negative, its size is the least
    relative difference.
    """

    text: str
    metric: str
    row: str
    than: tuple[str, ...]
    relation: str
    within: float
    everywhere: bool
    """Whether it must hold at every point of a curve, not only at the end of the stream."""
    reason: str


class Experiment(NamedTuple):
    """The definition of a table or a figure of a paper."""

    key: str
    title: str
    kind: str
    """"table", "curves", "images" or "features" (a table with a plot of RMSE against features)."""
    notes: tuple[str, ...]
    studies: tuple[Study, ...]
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    metrics: tuple[str, ...]
    published: dict[str, dict[str, dict[str, float]]]
    """The printed numbers of the paper: column -> row -> metric -> number."""
    tolerances: dict[str, dict[str, float]]
    differs: tuple[dict[str, Any], ...]
    claims: tuple[Claim, ...]
    is_judged: bool
    """Whether cells are judged: not on data that differ from the paper's."""
    is_quick: bool
    axis: str
    """The horizontal axis of curves."""

    def check_data(self) -> None:
        """Raise MissingDataError if a file is missing."""
        for study in self.studies:
            for setting in study.settings:
                problems.make(study.fields(setting)).data()

    @property
    def extent(self) -> str:
        """Return the amount of runs as a sentence."""
        parts = []
        for study in self.studies:
            lengths = sorted({study.at(setting)[-1] for setting in study.settings})
            examples = " or ".join(f"{n:,}" for n in lengths)
            place = f"{study.name}: " if len(self.studies) > 1 else ""
            parts.append(f"{place}{study.trials} {'trial' if study.trials == 1 else 'trials'} of {examples} examples")
        quick = " (quick: other sizes than the paper's, nothing is judged)" if self.is_quick else ""
        return "Run: " + "; ".join(parts) + quick + "."

    @property
    def paper(self) -> str:
        """Return the paper's short name, the first part of the key."""
        return self.key.partition("-")[0]

    def reason(self, row: str, column: str, metric: str) -> str:
        """Return the reason why a cell is known to differ; empty if there is none."""
        for entry in self.differs:
            wanted = (("rows", row), ("columns", column), ("metrics", metric))
            if all(value in entry.get(name, [value]) for name, value in wanted):
                return entry["reason"]
        return ""


def keys() -> list[str]:
    """Return the keys of all experiments, tables before figures."""
    found = [file.name.removesuffix(".toml") for file in files(__package__).joinpath("papers").iterdir()]
    return sorted((key for key in found if "-" in key), key=lambda key: (key.partition("-")[0], "-figure-" in key, key))


def chosen(patterns: Sequence[str]) -> list[str]:
    """Return keys by name, by the paper's name ("aaai") or "all"; raise for an unknown one and suggest the nearest."""
    every, out = keys(), []
    for pattern in patterns:
        matched = [key for key in every if pattern in ("all", key, key.partition("-")[0])]
        if not matched:
            close = difflib.get_close_matches(pattern, every, 1)
            hint = f" did you mean {close[0]!r}?" if close else ""
            raise DefinitionError(f"there is no experiment {pattern!r}:{hint} `sparsco reproduce --list` names all.")
        out += [key for key in matched if key not in out]
    return out


_FIELDS = set("title kind notes runs rows columns metrics published tolerances differs claims judged axis".split())
"""The fields of a data file."""


def load(
    key: str, *, quick: bool = False, trials: int | None = None, pairs: Sequence[tuple[int, int]] = ()
) -> Experiment:
    """Return an experiment; ``quick`` uses fewer examples and trials without verdicts, ``pairs`` are MNIST digits."""
    text = _read(key)
    _only(key, text, _FIELDS)
    sources = [key] if isinstance(text["runs"], dict) else text["runs"]
    studies = tuple(_study(source, _read(source)["runs"], quick, trials, pairs) for source in sources)
    methods = [name for study in studies for name in study.methods]
    rows = tuple(text.get("rows", dict.fromkeys(methods)))
    columns = tuple(text.get("columns", ()))
    if columns:
        columns += tuple(name for study in studies for name in study.settings if ":" in name)
    for row in rows:
        if row not in methods:
            raise DefinitionError(f"{key}: the row {row!r} is not one of the methods that are run.")
    studies = tuple(_restricted(study, rows, columns) for study in studies)
    return Experiment(
        key,
        text["title"],
        text["kind"],
        tuple(text.get("notes", ())),
        studies,
        rows,
        columns,
        tuple(text["metrics"]),
        _published(key, text),
        text.get("tolerances", {}),
        tuple(text.get("differs", ())),
        tuple(_claim(each) for each in text.get("claims", ())),
        bool(text.get("judged", True)) and not quick,
        quick,
        text.get("axis", "examples"),
    )


def _published(key: str, text: dict[str, Any]) -> dict[str, dict[str, dict[str, float]]]:
    """Return the published numbers by column, row and metric."""
    published: dict[str, dict[str, dict[str, float]]] = {}
    printed = text.get("published", {})
    if isinstance(printed, str):  # those of another file
        printed = _read(printed)["published"]
    for column, lines in printed.items():
        for row, numbers in lines.items():
            if len(numbers) != len(text["metrics"]):
                raise DefinitionError(f"{key}: published {column!r}, {row!r} must have a number for each metric.")
            cells = zip(text["metrics"], numbers, strict=True)
            published.setdefault(column, {})[row] = {metric: x for metric, x in cells if x != "-"}
    return published


def _claim(given: dict[str, Any]) -> Claim:
    return Claim(
        given["text"],
        given["metric"],
        given["row"],
        tuple(given["than"]),
        given.get("relation", "below"),
        float(given.get("within", 0.0)),
        bool(given.get("everywhere", False)),
        given.get("reason", ""),
    )


def _read(key: str) -> dict[str, Any]:
    file = files(__package__).joinpath("papers", f"{key}.toml")
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DefinitionError(f"there is no experiment {key!r}: `sparsco reproduce --list` names them all.") from None


def _only(key: str, entries: dict[str, Any], allowed: set[str]) -> None:
    for name in entries:
        if name not in allowed:
            raise DefinitionError(f"{key}: there is no field {name!r}; known are {', '.join(sorted(allowed))}.")


def _study(key: str, runs: dict[str, Any], quick: bool, trials: int | None, pairs: Sequence[tuple[int, int]]) -> Study:
    allowed = {"name", "trials", "problem", "examples", "points", "keep_weights", "quick", "settings", "methods"}
    _only(key, runs, allowed)
    problem, examples, count = dict(runs["problem"]), int(runs["examples"]), int(runs["trials"])
    methods = dict(runs["methods"])
    settings = {each["name"]: {k: v for k, v in each.items() if k != "name"} for each in runs["settings"]}
    if quick:
        examples, count = int(runs["quick"]["examples"]), 2
        smaller, shown = runs["quick"].get("problem", {}), runs["quick"].get("settings", list(settings))
        problem |= smaller
        own = {"examples", *smaller}
        settings = {name: {k: v for k, v in settings[name].items() if k not in own} for name in shown}
        drawn = {name: {"draws": 5} for name, method in methods.items() if {"sparsify", "draws"} & set(method)}
        methods = {name: method | drawn.get(name, {}) for name, method in methods.items()}
    if pairs:
        if "pair" not in problem:
            raise DefinitionError(f"{key} has no pairs of digits: leave --pairs out.")
        settings = dict(_with_pairs(settings, pairs, tuple(problem["pair"])))
    for name, method in runs["methods"].items():
        _check_method(f"{key}: method {name!r}", method, runs)
    return Study(
        key,
        runs.get("name", ""),
        problem,
        settings,
        methods,
        examples,
        tuple(runs.get("points", [1.0])),
        trials or count,
        bool(runs.get("keep_weights", False)),
    )


def _with_pairs(
    settings: dict[str, dict[str, Any]], pairs: Sequence[tuple[int, int]], printed: tuple[int, ...]
) -> Iterator[tuple[str, dict[str, Any]]]:
    for pair in pairs:
        for name, parameters in settings.items():
            prefix = "" if pair == printed else f"{pair[0]},{pair[1]}: "
            yield prefix + name, parameters | {"pair": list(pair)}


def has_pairs(key: str) -> bool:
    """Return whether an experiment is about two digits."""
    runs = _read(key)["runs"]
    return any("pair" in _read(each)["runs"]["problem"] for each in ([key] if isinstance(runs, dict) else runs))


def all_pairs() -> list[tuple[int, int]]:
    """Return the 45 pairs of digits."""
    return list(combinations(range(10), 2))


def _restricted(study: Study, rows: Sequence[str], columns: Sequence[str]) -> Study:
    """Return the study with only the methods and settings that an experiment shows, and the ingredients of these."""
    wanted = set(rows)
    for row in rows:
        method = study.methods.get(row, {})
        wanted |= {method[name] for name in INGREDIENTS if name in method}
    methods = {name: method for name, method in study.methods.items() if name in wanted}
    settings = {name: value for name, value in study.settings.items() if not columns or name in columns}
    return study._replace(methods=methods, settings=settings)


def _check_method(where: str, method: dict[str, Any], runs: dict[str, Any]) -> None:
    if "round" in method or "sparsify" in method:
        _only(where, method, {"round", "to", "level"} if "round" in method else {"sparsify", "how", "K", "draws"})
        for name in INGREDIENTS:
            if name in method and "preset" not in runs["methods"].get(method[name], {}):
                raise DefinitionError(f"{where}: {method[name]!r} is not another method with a preset.")
        return
    preset = method.get("preset")
    if preset in SELECTORS or preset == "annealed":
        _only(where, method, {"preset", "gamma"})
    elif preset == "exact":
        problem: Any = problems.PROBLEMS[runs["problem"]["name"]]
        _only(where, method, {"preset", *inspect.signature(problem.exact).parameters} - {"self"})
    elif preset in SPECIAL:
        _only(where, method, {"preset"})
    elif preset in PRESETS:
        of_problem = {"T", "largest_row", "rho", "l2_in", "mu"}
        _only(where, method, {"preset", "draws", *inspect.signature(PRESETS[preset]).parameters} - of_problem)
    else:
        raise DefinitionError(f"{where}: preset {preset!r} is not one of {', '.join([*SPECIAL, *PRESETS])}.")
