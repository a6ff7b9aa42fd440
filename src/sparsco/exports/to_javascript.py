"""JavaScript: one ES module with the record of a model and the code that interprets it."""

from __future__ import annotations

from .document import document
from .literals import json_text
from .pieces import pieces
from .scorer import ExportError, Scorer

_LARGEST_INTEGER = 2**53


def to_javascript(scorer: Scorer) -> str:
    """Return the source of a module with ``predict``, ``probabilities``, ``scores`` and ``dense``."""
    for number in (*scorer.columns, *(scorer.classes or ())):
        if isinstance(number, int) and abs(number) > _LARGEST_INTEGER:
            raise ExportError(f"the model has the number {number}, which JavaScript cannot tell from its neighbours.")
    head = f"/* A linear model with {len(scorer.names)} features, written by sparsco. */\n"
    record = f"const model = {json_text(document(scorer))};\n\n"
    return head + record + "\n".join(source for _, source in pieces(scorer, "js"))
