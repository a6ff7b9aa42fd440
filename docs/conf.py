"""Settings of the site: `make docs` builds it into docs/_build/html."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Any

project = "sparsco"
author = "The sparsco developers"
version = release = version_of("sparsco")

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build"]
templates_path = ["_templates"]

# Markdown: every heading is an anchor, so that links to sections are checked.
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4

# The reference of the API.
autosummary_generate = True
autodoc_typehints = "none"
autodoc_member_order = "groupwise"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

# The gallery runs every script of examples/gallery and shows its output and plots.
sphinx_gallery_conf = {
    "examples_dirs": "../examples/gallery",
    "gallery_dirs": "gallery",
    "filename_pattern": r"/plot_",
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "show_signature": False,
    "remove_config_comments": True,
    "abort_on_example_error": True,
    "show_memory": False,
    "write_computation_times": False,
}

html_theme = "pydata_sphinx_theme"
html_title = "sparsco"
html_context = {"default_mode": "auto"}
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_math_renderer = "mathml"
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "navigation_depth": 2,
    "show_toc_level": 2,
    "navbar_align": "left",
    "header_links_before_dropdown": 7,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}

_LITERAL = re.compile(r"(``.*?``)")
_ROLE = re.compile(r":(?:ref|math|term):`([^`<]*?)(?: <[^`]*>)?`")


def _as_plain_text(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Escape the bars of formulas, and make literals of inherited formulas and of references to other sites."""
    for k, line in enumerate(lines):
        pieces = _LITERAL.split(_ROLE.sub(r"``\1``", line))
        lines[k] = "".join(piece if piece.startswith("``") else piece.replace("|", r"\|") for piece in pieces)


def _as_mathml(translator: Any, node: Any) -> None:
    """Write a formula as MathML, which browsers show without a script; a wide one scrolls by itself."""
    from docutils.nodes import SkipNode, math_block
    from docutils.utils.math import MathError
    from docutils.utils.math.latex2mathml import tex2mathml
    from sphinx.util.logging import getLogger

    is_block = isinstance(node, math_block)
    try:
        formula = tex2mathml(node.astext(), as_block=is_block)
    except MathError as error:
        getLogger(__name__).warning("formula: %s", error, location=node)
        raise SkipNode from error
    translator.body.append(f'<div class="formula">{formula}</div>\n' if is_block else formula)
    raise SkipNode


def _draw_pictures(app: Any) -> None:
    """Draw the pictures of the pages on the papers, which no one commits."""
    subprocess.run([sys.executable, str(Path(app.confdir) / "pictures.py")], check=True)


def setup(app: Any) -> None:
    """Connect what this site does beyond its extensions."""
    app.add_html_math_renderer("mathml", (_as_mathml, None), (_as_mathml, None))
    app.connect("builder-inited", _draw_pictures)
    app.connect("autodoc-process-docstring", _as_plain_text)
