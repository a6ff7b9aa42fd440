"""The code that exports of Python and JavaScript consist of: files of ``runtime/``, those that a model needs."""

from __future__ import annotations

import importlib.resources

from .scorer import COLUMNS, NAMES, TABLE, TEXT, Scorer

_PIECES = {
    COLUMNS: ("links", "columns", "predicting"),
    NAMES: ("links", "hashing", "names", "predicting"),
    TEXT: ("links", "hashing", "words", "texts", "text_rows", "predicting"),
    TABLE: ("links", "hashing", "words", "texts", "cells", "tables", "predicting"),
}
"""The pieces that each kind of row needs, in their order."""


def pieces(scorer: Scorer, ending: str) -> list[tuple[str, str]]:
    """Return names and sources of the pieces of a language that a model needs."""
    folder = importlib.resources.files(f"{__package__}.runtime")
    files = [(name, folder.joinpath(f"{name}.{ending}")) for name in _PIECES[scorer.kind]]
    return [(name, file.read_text("utf-8")) for name, file in files if file.is_file()]
