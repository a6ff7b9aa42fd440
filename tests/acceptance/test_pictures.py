"""The pages on the papers show the pictures that docs/pictures.py draws, all of them."""

from __future__ import annotations

import importlib.util
import re

from support import REPOSITORY

FIGURE = re.compile(r"```\{figure\} _static/papers/([\w-]+)\.svg\n:alt: (\S.*)\n")


def pictures():
    """Return the module docs/pictures.py."""
    spec = importlib.util.spec_from_file_location("pictures", REPOSITORY / "docs/pictures.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_picture_is_shown_once_with_a_text_for_those_who_cannot_see_it():
    pages = [path.read_text(encoding="utf-8") for path in sorted((REPOSITORY / "docs").glob("paper*.md"))]
    shown = [found[1] for page in pages for found in FIGURE.finditer(page)]
    assert sorted(shown) == sorted(pictures().PICTURES)
    assert sum(page.count("_static/papers/") for page in pages) == len(shown)


def test_a_picture_is_drawn_as_svg_and_twice_the_same(tmp_path):
    module = pictures()
    for folder in (tmp_path / "first", tmp_path / "second"):
        module.draw_all(folder, ["aaai-weights"])
    first, second = (tmp_path / name / "aaai-weights.svg" for name in ("first", "second"))
    assert first.read_text().startswith("<?xml") and "<svg" in first.read_text()
    assert first.read_bytes() == second.read_bytes()
