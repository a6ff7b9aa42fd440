"""The record of a model as JSON types: the schema of the export ``json``, which Python and JavaScript interpret."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain, repeat
from typing import Any

import numpy as np

from .. import __version__
from ..text.characters import forms
from .scorer import COLUMNS, NAMES, VERSION, Category, Date, Numbers, Scorer, Text

Pairs = Callable[[Iterable[tuple[Any, Any]]], Any]


def _as_list(items: Iterable[tuple[Any, Any]]) -> list[list[Any]]:
    return [list(item) for item in items]


def document(scorer: Scorer, pairs: Pairs = _as_list) -> dict[str, Any]:
    """Return a model as lists, dicts, numbers and texts; ``pairs`` makes what maps texts or numbers to others.

    These are lists of pairs by default, since any text may be a key.
    """
    tables = {(text.spec.lowercase, text.spec.strip_accents): k for k, text in enumerate(_first_of_options(scorer))}
    found: dict[str, Any] = {
        "format": "sparsco-model",
        "version": VERSION,
        "sparsco": __version__,
        "task": "regression" if scorer.classes is None else "classification",
        "kind": scorer.kind,
        "features": _features(scorer),
        "intercepts": scorer.intercepts.tolist(),
        "link": scorer.link,
        "classes": None if scorer.classes is None else list(scorer.classes),
        "vector": scorer.is_vector,
        "platt": None if scorer.platt is None else scorer.platt.tolist(),
        "class_weights": None if scorer.class_weights is None else scorer.class_weights.tolist(),
    }
    if scorer.kind == COLUMNS:
        return found | {"first": scorer.first}
    hashed = scorer.hash
    found["hash"] = None if hashed is None else hashed._asdict() | {"features": pairs(hashed.features.items())}
    if scorer.kind == NAMES:
        return found | {"terms": pairs((name, [k, 1]) for k, name in enumerate(scorer.names if hashed is None else ()))}
    found["parts"] = [_part(part, pairs, tables, hashed is not None) for part in scorer.parts]
    if tables:
        found["characters"] = [character_tables(*options) for options in tables]
    return found


def _features(scorer: Scorer) -> list[dict[str, Any]]:
    columns = ({"column": column} for column in scorer.columns)
    each = zip(scorer.names, chain(columns, repeat({})), scorer.weights.tolist(), strict=False)  # an offset has none
    return [{"name": name} | column | {"weights": weight} for name, column, weight in each]


def _first_of_options(scorer: Scorer) -> list[Text]:
    """Return the first column of texts for each way to fold characters."""
    return list({(text.spec.lowercase, text.spec.strip_accents): text for text in scorer.texts}.values())


def _part(part: Any, pairs: Pairs, tables: dict[tuple[bool, bool], int], is_hashed: bool) -> dict[str, Any]:
    def term(found: Any) -> Any:
        return None if found is None else list(found)

    def terms(found: dict[str, Any]) -> Any:
        return pairs((text, list(each)) for text, each in found.items())

    if isinstance(part, Text):
        spec = part.spec
        found = {"name": part.name, "kind": "text"} | spec.settings()
        found |= {"characters": tables[spec.lowercase, spec.strip_accents], "terms": terms(part.terms)}
        if part.documents is not None:
            documents = part.documents.items()
            keys = documents if is_hashed else ((f"{key:016x}", count) for key, count in documents)
            found |= {"seed": part.seed, "texts": part.texts, "documents": pairs(keys)}
        return found
    found = {"name": part.name, "kind": _kind(part), "hole": term(part.hole), "marks": list(part.marks)}
    if isinstance(part, Category):
        return found | {
            "terms": terms(part.terms),
            "hashed": part.hashed,
            "pool": term(part.pool),
            "pooled": list(part.pooled),
            "pools_others": part.pools_others,
        }
    found |= {"fill": part.fill, "value": term(part.value)}
    if isinstance(part, Date):
        months, weekdays = [term(each) for each in part.months], [term(each) for each in part.weekdays]
        return found | {"origin": part.origin, "months": months, "weekdays": weekdays}
    return found | {"log": part.log}


def _kind(part: Numbers | Category | Date) -> str:
    if isinstance(part, Numbers):
        return "boolean" if part.boolean else "numbers"
    return "category" if isinstance(part, Category) else "date"


def character_tables(lowercase: bool, strip_accents: bool) -> dict[str, list[int]]:
    """Return the classes of characters as pairs of length and class, and their folded forms as ranges.

    A range has a start, a count, a step and what is added to each character of it.
    """
    kinds, folded = forms(lowercase, strip_accents)
    starts = np.append(0, np.flatnonzero(np.diff(kinds)) + 1)
    lengths = np.diff(np.append(starts, len(kinds)))
    shift = folded.astype(np.int64) - np.arange(len(folded))
    codes, ranges = np.flatnonzero(shift).tolist(), list[list[int]]()
    for code in codes:
        start, count, step, by = ranges[-1] if ranges else (0, 0, 0, 0)
        gap = code - (start + (count - 1) * step)
        if ranges and by == shift[code] and gap in (1, 2) and (count == 1 or gap == step):
            ranges[-1] = [start, count + 1, gap, by]
        else:
            ranges.append([code, 1, 1, int(shift[code])])
    flat = np.stack([lengths, kinds[starts]], 1).ravel().tolist()
    return {"classes": flat, "folds": [number for each in ranges for number in each]}
