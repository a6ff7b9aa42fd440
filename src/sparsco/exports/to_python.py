"""Plain Python: one file with the record of a model and the code that interprets it; the standard library is enough."""

from __future__ import annotations

import pprint
import re

from .document import document
from .pieces import pieces
from .scorer import COLUMNS, NAMES, TABLE, TEXT, Scorer

_INPUT = {
    COLUMNS: "a sequence of all columns, or a dict {column: value} by number or name",
    NAMES: "a dict {name: value}, or a list of names",
    TEXT: "a text",
    TABLE: "a dict {column: cell}",
}


def to_python(scorer: Scorer) -> str:
    """Return the source of a module with ``predict``, ``probabilities``, ``scores`` and ``dense``."""
    imports, codes = set[str](), []
    for name, source in pieces(scorer, "py"):
        source = re.sub(r'\A""".*?"""\n', "", source, flags=re.DOTALL)
        imports |= set(re.findall(r"^(?:import|from typing) .*\n", source, flags=re.MULTILINE))
        source = re.sub(r"^(?:import|from) .*\n", "", source, flags=re.MULTILINE)
        if name == "predicting":
            source = source.replace("MODEL: dict[str, Any] = {}", "MODEL = " + _literal(scorer))
        codes.append(source.strip("\n"))
    head = (
        f'"""A linear model with {len(scorer.names)} features, written by sparsco.\n\n'
        f"A row is {_INPUT[scorer.kind]}.\n"
        '"""\n\nfrom __future__ import annotations\n\n'
    )
    return head + "".join(sorted(imports)) + "\n\n" + "\n\n\n".join(codes) + "\n"


def _literal(scorer: Scorer) -> str:
    """Return the record as a literal of Python in ASCII."""
    return _ascii(pprint.pformat(document(scorer, dict), width=116, compact=True, sort_dicts=False))


def _ascii(literal: str) -> str:
    return "".join(c if c < "\x7f" else ascii(c)[1:-1] for c in literal)
