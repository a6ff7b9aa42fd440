"""Descriptions of parts: the kind, the parameters, the requirements, and the parts that work together.

``python -m sparsco.training.descriptions`` prints docs/parts.md, all contracts and all pairs as tables.

>>> print(describe("hinge"))
Hinge, a loss: "hinge"
max(0, 1 - y p) with y in {-1, +1}; it has a kink and no curvature.
<BLANKLINE>
It declares:
  classifies = True: whether targets are labels, -1 and +1; otherwise they are numbers
  curved = False: whether there is a curvature that a metric can be built from
  smoothness = 1.0: a bound on the curvature, or without one the scale by which steps are chosen
It works with:
  metrics of conversions: auto, smoothed, or a number L
  polish: yes
"""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ForwardRef

from .. import conversions, mirrors, optimizers, penalties, steps
from ..conversions import CONVERSIONS
from ..conversions.sparse_learning import METRICS
from ..engine.part_checks import check_polishable
from ..losses import CLASSIFIER_LOSSES, REGRESSOR_LOSSES
from ..optimizers import OPTIMIZERS
from ..parts.compatibility import (
    conversion_reason,
    metric_reason,
    partitions_reason,
    penalty_reason,
    single_reason,
)
from ..parts.part import CONTRACTS, Attribute, Contract, Part, how_to_mark, is_record
from ..penalties import PENALTIES
from ..presets import PRESETS
from ..selection.stable.linear import METHODS

_STRENGTHS = {"lam": 0.1, "rho": 0.0, "pen": None, "groups": None, "radius": 1.0, "low": -1.0, "high": 1.0}
"""Values for the fields of penalties that have no defaults, to find the parts that work with them."""


class Description(str):
    """A text that an interactive session shows without quotes."""

    def __repr__(self) -> str:
        return str(self)


def describe(part: Any) -> Description:
    """Return a description of a part: its kind, its parameters, its requirements and the parts it works with.

    Parameters
    ----------
    part : str, a part, or a class of parts
        A name is one that an estimator takes, or the name of a class or of a preset.

    Returns
    -------
    Description
        A text; an interactive session shows it without quotes.

    Raises
    ------
    ValueError
        If there is no part of this name; the message suggests the nearest one.
    TypeError
        If ``part`` is not a part.

    Examples
    --------
    >>> from sparsco import describe
    >>> print(describe("last").splitlines()[0])
    Last, a conversion: "last"
    """
    if isinstance(part, str):
        part = _named(part)
    if part in PRESETS.values():
        return Description("\n".join(_preset_lines(part)))
    record = part if isinstance(part, type) else type(part)
    if not isinstance(record, Part):
        if is_record(part):
            raise TypeError(how_to_mark(part, *CONTRACTS))
        raise TypeError(f"{part!r} is not a part: give a record, its class, or a name such as 'nftrl'.")
    return Description("\n".join(_part_lines(part, record)))


# ---- names -----------------------------------------------------------------------------------------------------------


@functools.cache
def parts_by_kind() -> dict[str, list[type[Any]]]:
    """Return the classes of the library's parts by kind, in the order of the tables of their modules."""
    losses: list[type[Any]] = [type(loss) for loss in (CLASSIFIER_LOSSES | REGRESSOR_LOSSES).values()]
    modules = [penalties, mirrors, steps, optimizers, conversions]
    found: list[type[Any]] = [
        *losses,
        *(kind for module in modules for kind in _classes(module)),
        *map(type, METHODS.values()),
    ]
    table: dict[str, list[type[Any]]] = {kind: [] for kind in CONTRACTS}
    for each in dict.fromkeys(found):
        table[each.part_kind].append(each)
    return table


def _classes(module: Any) -> Iterator[type[Any]]:
    for _, kind in inspect.getmembers(module, inspect.isclass):
        is_penalty_to_be = isinstance(kind, Part) and kind.part_kind == "penalty" and kind.strength_is_open
        if isinstance(kind, Part) and issubclass(kind, tuple) and not is_penalty_to_be:
            yield kind


def names_of(record: type) -> list[str]:
    """Return the names by which estimators take a class."""
    records = CLASSIFIER_LOSSES | REGRESSOR_LOSSES | CONVERSIONS | METHODS
    classes = OPTIMIZERS | PENALTIES | steps.RULES
    found = [name for name, part in records.items() if type(part) is record]
    return found + [name for name, kind in classes.items() if kind is record]


def _named(name: str) -> Any:
    every = [record for records in parts_by_kind().values() for record in records]
    for record in every:
        if name == record.__name__ or name in names_of(record):
            return record
    if name in PRESETS:
        return PRESETS[name]
    known = {each for record in every for each in (record.__name__, *names_of(record))} | set(PRESETS)
    lowered = {each.lower(): each for each in sorted(known)}
    close = difflib.get_close_matches(name.lower(), lowered, 1)
    hint = f"did you mean {lowered[close[0]]!r}" if close else "docs/parts.md lists all parts"
    raise ValueError(f"there is no part {name!r}: {hint}.")


# ---- one part --------------------------------------------------------------------------------------------------------


def _part_lines(part: Any, record: Any) -> Iterator[str]:
    names = ", ".join(f'"{name}"' for name in names_of(record))
    article = "an" if record.part_kind[0] in "aeiou" else "a"
    yield f"{record.__name__}, {article} {record.part_kind}{': ' * bool(names)}{names}"
    if not summary_of(record).startswith(f"{record.__name__}("):  # made by NamedTuple
        yield summary_of(record)
    if record._fields:
        yield "\nIts parameters:"
        yield from (f"  {line}" for line in _parameters(record))
    declared = list(_declared(part, record))
    if declared:
        yield "\nIt declares:"
        yield from (f"  {line}" for line in declared)
    pairs = list(_PAIRS.get(record.part_kind, lambda part: ())(_example(part)))
    if pairs:
        yield "It works with:"
        yield from (f"  {line}" for line in pairs)


def _preset_lines(preset: Callable[..., Any]) -> Iterator[str]:
    yield f"{preset.__name__}, a preset"
    yield " ".join((inspect.getdoc(preset) or "").split())
    yield "\nIts parameters:"
    for parameter in inspect.signature(preset).parameters.values():
        yield f"  {parameter}"
    yield "By default it is:"
    for name, value in preset().parameters().items():
        yield f"  {name} = {value!r}"


def summary_of(record: type) -> str:
    """Return the first paragraph of the docstring of a class, on one line."""
    return " ".join((inspect.getdoc(record) or "").partition("\n\n")[0].split())


def _parameters(record: Any) -> Iterator[str]:
    for field in record._fields:
        declared = record.__annotations__.get(field, "")
        kind = declared.__forward_arg__ if isinstance(declared, ForwardRef) else declared
        kind = kind.__name__ if isinstance(kind, type) else kind
        given = f" = {record._field_defaults[field]!r}" if field in record._field_defaults else ""
        about = record.parameter_lines.get(field) or _about_entry(field, record)
        yield f"{field}: {kind}{given}" + (f": {about}" if about else "")


def _about_entry(field: str, record: Any) -> str:
    entry = CONTRACTS[record.part_kind].entries.get(field)
    return _lowered(entry.doc) if entry else ""


def _lowered(doc: str) -> str:
    return (doc[:1].lower() + doc[1:]).rstrip(".")


def _declared(part: Any, record: Any) -> Iterator[str]:
    """Yield the attributes that a class declares beside its parameters and functions."""
    for name, entry in sorted(CONTRACTS[record.part_kind].entries.items()):
        found = getattr(part, name)
        plain = isinstance(found, bool | int | float | str | tuple) and not is_record(found)
        if plain and name not in record._fields and (entry.required or found != entry.default):
            yield f"{name} = {found!r}: {_lowered(entry.doc)}"


# ---- pairs -----------------------------------------------------------------------------------------------------------


def _example(part: Any) -> Any:
    """Return a record of a class, with its defaults if it has them."""
    return _of_defaults(part) if isinstance(part, type) else part


def _of_defaults(kind: Any) -> Any:
    """Return a record of a class with its defaults, and a usual number for each field that has none."""
    open_fields = [field for field in kind._fields if field == "lam" or field not in kind._field_defaults]
    if kind.part_kind == "penalty":
        return kind(*[_STRENGTHS[field] for field in open_fields if field in _STRENGTHS])
    return kind(*[1] * len(open_fields))


def _class_names(records: Iterable[Any]) -> str:
    found = [record.__name__ for record in records]
    return ", ".join(found) or "none"


def _loss_pairs(loss: Any) -> Iterator[str]:
    metrics = [metric for metric in METRICS if metric_reason(loss, conversions.AverageSL(metric=metric)) is None]
    yield f"metrics of conversions: {', '.join(metrics)}, or a number L"
    yield f"polish: {_yes(is_polished(loss, penalties.ElasticNet(0.1)))}"


def _penalty_pairs(penalty: Any) -> Iterator[str]:
    yield f"optimizers: {', '.join(name for name, kind in OPTIMIZERS.items() if not penalty_reason(kind(), penalty))}"
    yield f"polish: {_yes(is_polished(CLASSIFIER_LOSSES['logistic'], penalty))}"


def _optimizer_pairs(optimizer: Any) -> Iterator[str]:
    records = parts_by_kind()
    yield "penalties: " + _class_names(each for each in records["penalty"] if not penalty_reason(optimizer, each))
    fits = (each for each in records["conversion"] if not conversion_reason(optimizer, each()))
    yield "conversions: " + _class_names(fits)
    yield f"data in partitions: {_yes(partitions_reason(optimizer) is None)}"


def _conversion_pairs(conversion: Any) -> Iterator[str]:
    works = (name for name, kind in OPTIMIZERS.items() if not conversion_reason(kind(), conversion))
    yield f"optimizers: {', '.join(works)}"


_PAIRS: dict[str, Callable[[Any], Iterable[str]]] = {
    "loss": _loss_pairs,
    "penalty": _penalty_pairs,
    "optimizer": _optimizer_pairs,
    "conversion": _conversion_pairs,
    "rounding": _conversion_pairs,
}


def is_polished(loss: Any, penalty: Any) -> bool:
    """Return whether ``polish`` can solve a loss and a penalty."""
    try:
        check_polishable(loss, penalty.convex, conversions.Last())
    except ValueError:
        return False
    return True


def _yes(holds: bool) -> str:
    return "yes" if holds else "no"


# ---- tables ----------------------------------------------------------------------------------------------------------


def tables() -> str:
    """Return docs/parts.md: every contract, every part, every pair."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    records = parts_by_kind()
    yield "# Parts"
    yield ""
    yield "These tables are printed by `python -m sparsco.training.descriptions`. `sparsco.describe('nftrl')` shows a"
    yield "part in words, and [your own parts](your-own-parts.md) shows how to write one."
    yield ""
    yield "## What works with what"
    yield ""
    yield from _table(
        ["optimizer", *(record.__name__ for record in records["penalty"])],
        [
            [name, *(_mark(penalty_reason(kind(), each)) for each in records["penalty"])]
            for name, kind in OPTIMIZERS.items()
        ],
    )
    yield from _table(
        ["optimizer", *(record.__name__ for record in records["conversion"])],
        [
            [name, *(_mark(conversion_reason(kind(), each())) for each in records["conversion"])]
            for name, kind in OPTIMIZERS.items()
        ],
    )
    yield "`sgd` compares iterates (SCMDI, OCMDI) where there is no L1 term. `mirror-descent` with a map other than"
    yield "`Euclidean()` sums no gradients (AverageSL, LastSL) and learns one model at a time."
    yield ""
    yield from _table(
        [
            "optimizer",
            "step rule",
            "models in a run",
            "float32 paths",
            "starts at coef_init",
            "partitions",
            "L2 term",
            "an example costs",
        ],
        [_facts(name, kind()) for name, kind in OPTIMIZERS.items()],
    )
    yield from _table(
        [
            "loss",
            "targets",
            *(f"metric {metric}" for metric in METRICS),
            "polish",
            "duality gap",
            "predict_proba",
            "ties models",
        ],
        [_loss_facts(kind()) for kind in records["loss"]],
    )
    yield "## What each kind of part has"
    for contract in CONTRACTS.values():
        yield from _contract_lines(contract)
    yield "## All parts"
    yield ""
    for kind, every in records.items():
        rows = [[f"`{each.__name__}`", ", ".join(f"`{n}`" for n in names_of(each)), summary_of(each)] for each in every]
        yield from _table([kind, "names", "what it is"], rows)


def _contract_lines(contract: type[Contract]) -> Iterator[str]:
    yield ""
    yield f"### A {contract.part_kind}: `@part({contract.__name__})`".replace("A op", "An op")
    yield ""
    yield " ".join((inspect.getdoc(contract) or "").split())
    yield ""
    entries = sorted(contract.entries.items(), key=lambda item: not item[1].required)
    yield from _table(
        ["it has", "", "default", "meaning"],
        [
            [f"`{_call(name, entry)}`", entry.what, _default(entry), " ".join(entry.doc.split())]
            for name, entry in entries
        ],
    )


def _call(name: str, entry: Attribute) -> str:
    return f"{name}({', '.join(entry.parameters)})" if entry.what == "function" and entry.parameters else name


def _default(entry: Attribute) -> str:
    if entry.required:
        return "**required**" + (f" unless `{entry.unless}`" if entry.unless else "")
    is_told = callable(entry.default) or isinstance(entry.default, property)
    return "see meaning" if is_told else f"`{entry.default!r}`"


def _facts(name: str, optimizer: Any) -> list[str]:
    loss, last = CLASSIFIER_LOSSES["logistic"], conversions.Last()
    return [
        name,
        _yes(optimizer.uses_steps),
        "any" if optimizer.max_models is None else str(optimizer.max_models),
        _mark(single_reason(loss, optimizer, last)),
        _yes(optimizer.starts_anywhere),
        _mark(partitions_reason(optimizer)),
        optimizer.l2_term,
        "O(nonzeros)" if not optimizer.is_dense else "O(features)" + " a mini-batch" * optimizer.is_minibatch,
    ]


def _loss_facts(loss: Any) -> list[str]:
    return [
        type(loss).__name__,
        "labels" if loss.classifies else "numbers",
        *(_mark(metric_reason(loss, conversions.AverageSL(metric=metric))) for metric in METRICS),
        _yes(is_polished(loss, penalties.ElasticNet(0.1))),
        _yes(loss.conjugate is not None),
        _yes(loss.probabilities is not None),
        _yes(loss.couples),
    ]


def _mark(reason: str | None) -> str:
    return _yes(reason is None)


def _table(head: list[str], rows: list[list[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield "|" + "---|" * len(head)
    for row in rows:
        cells = (cell.replace("|", "\\|") for cell in row)
        yield f"| {' | '.join(cells)} |"
    yield ""


if __name__ == "__main__":
    print(tables(), end="")
