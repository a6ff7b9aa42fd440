"""What the repository says of itself is so."""

from __future__ import annotations

import ast
import re

import sparsco
from support import REPOSITORY


def test_every_file_names_the_same_version():
    for name in ("CITATION.cff", "pyproject.toml"):
        text = (REPOSITORY / name).read_text()
        assert re.findall(r"""^version(?:: | = ")([\w.]+)"?$""", text, re.MULTILINE) == [sparsco.__version__], name


def test_no_test_module_imports_another():
    """What tests share is in tests/support: a test module may be moved, renamed or run alone."""
    files = list((REPOSITORY / "tests").rglob("test_*.py"))
    names = {file.stem for file in files}
    assert "test_repository" in names
    for file in files:
        for node in ast.walk(ast.parse(file.read_text())):
            imported = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            imported += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not names & {part for each in imported for part in each.split(".")}, (file.name, imported)
