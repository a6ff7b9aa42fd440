"""JSON and CSV: the record itself, and the weights by name."""

from __future__ import annotations

import csv
import io
from typing import Any

from .document import document
from .literals import json_text
from .scorer import Scorer

_FORMULAS = ("=", "+", "-", "@", "\t", "\r", "'")
"""What a spreadsheet takes for the beginning of a formula, and the apostrophe that prevents it."""


def to_json(scorer: Scorer) -> str:
    """Return the record of a model; docs/export.md has its schema."""
    fields = (f" {json_text(name)}: {_lines(value)}" for name, value in document(scorer).items())
    return "{\n" + ",\n".join(fields) + "\n}\n"


def _lines(value: Any) -> str:
    """Return JSON with a line for each feature and each column."""
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return "[\n  " + ",\n  ".join(map(json_text, value)) + "\n ]"
    return json_text(value)


def to_csv(scorer: Scorer) -> str:
    """Return lines of name and weight, the intercept first; of several outputs each line names its own."""
    to, several = io.StringIO(), len(scorer.intercepts) > 1
    writer = csv.writer(to, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
    writer.writerow(["name", "output", "weight"] if several else ["name", "weight"])
    for name, weights in [("(intercept)", scorer.intercepts), *zip(scorer.names, scorer.weights, strict=True)]:
        for output, weight in zip(scorer.output_names, weights.tolist(), strict=True):
            if weight != 0.0 or name == "(intercept)":
                writer.writerow([_safe(name), _safe(output), weight] if several else [_safe(name), weight])
    return to.getvalue()


def _safe(name: str) -> str:
    """Return a name that no spreadsheet computes: one that looks like a formula has an apostrophe before it."""
    return "'" + name if name.startswith(_FORMULAS) else name
