"""The pages of the site list all that is there."""

from __future__ import annotations

import importlib
import re

import sparsco
from support import REPOSITORY


def listed() -> dict[str, set[str]]:
    """The names that the reference of the API lists, by module."""
    names: dict[str, set[str]] = {}
    for line in (REPOSITORY / "docs/api/index.rst").read_text().splitlines():
        if found := re.match(r"\.\. currentmodule:: (\S+)", line):
            module = names.setdefault(found[1], set())
        elif found := re.match(r"   (\w+)$", line):
            module.add(found[1])
    return names


def test_the_reference_lists_every_public_name():
    reference = listed()
    modules = {name for name in sparsco.__all__ if hasattr(getattr(sparsco, name), "__path__")}
    modules |= {name for name in sparsco.__all__ if type(getattr(sparsco, name)).__name__ == "module"}
    assert set(sparsco.__all__) - modules <= reference["sparsco"]
    for name in modules:
        module = importlib.import_module(f"sparsco.{name}")
        public = {each for each in getattr(module, "__all__", ()) if callable(getattr(module, each))}
        aliases = {"Curves", "Position", "StreamError"}  # names of types, and what is listed at the top
        assert public - aliases <= reference[f"sparsco.{name}"], name


def test_every_listed_name_exists():
    for module, names in listed().items():
        home = importlib.import_module(module)
        for name in names:
            assert hasattr(home, name), f"{module}.{name}"


def test_every_page_is_in_the_site():
    """Sphinx refuses pages that no table of contents lists; this finds them without Sphinx."""
    pages = {path.stem for path in (REPOSITORY / "docs").glob("*.md")} - {"index"}
    text = "".join(path.read_text() for path in (REPOSITORY / "docs").glob("*.md"))
    tocs = re.findall(r"```\{toctree\}(.*?)```", text, re.DOTALL)
    entries = {line.strip() for toc in tocs for line in toc.splitlines()}
    found = {(re.search(r"<(.+)>", entry) or [None, entry])[1] for entry in entries}
    assert pages <= found, pages - found
