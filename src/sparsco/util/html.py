"""Reports as one self-contained HTML file: text, tables and plots, with every string escaped.

>>> html = page("Two & two", [text("a < b"), table(["name", "value"], [["x", 1.5]])])
>>> "Two &amp; two" in html and "a &lt; b" in html and "1.5" in html
True
"""

from __future__ import annotations

import functools
import io
import re
from collections.abc import Callable, Iterable, Sequence
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

from .atomic_files import write_text

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 64rem; margin: 2rem auto; padding: 0 1rem; color: #222; }
table { border-collapse: collapse; margin: 1rem 0; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .75rem; border-bottom: 1px solid #ddd; text-align: right; }
th:first-child, td:first-child { text-align: left; }
thead th { border-bottom: 2px solid #888; }
td.agrees { background: #e6f4e6; } td.differs { background: #fbe3dd; } td.diverged { background: #fbe3dd; }
figure { margin: 1.5rem 0; } figure svg { max-width: 100%; height: auto; } figcaption { color: #555; }
"""


class Marked(NamedTuple):
    """An entry of a table with a mark, which is the CSS class of its cell."""

    text: str
    mark: str


def cell(value: Any) -> str:
    """Return an entry of a table as text: floats to four digits, None as a dash."""
    if value is None:
        return "–"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def heading(title: str) -> str:
    """Return the title of a section."""
    return f"<h2>{escape(title)}</h2>"


def text(paragraph: str) -> str:
    """Return a paragraph of plain text."""
    return f"<p>{escape(paragraph)}</p>"


def table(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return a table; the first column names the row."""
    head = "".join(f"<th>{escape(name)}</th>" for name in header)
    body = "\n".join("<tr>" + "".join(map(_entry, row)) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table>"


def _entry(value: Any) -> str:
    if isinstance(value, Marked):
        return f'<td class="{escape(value.mark)}">{escape(value.text)}</td>'
    return f"<td>{escape(cell(value))}</td>"


def details(summary: str, block: str) -> str:
    """Return a block that opens by a click."""
    return f"<details><summary>{escape(summary)}</summary>{block}</details>"


def figure(plot: Any, caption: str) -> str:
    """Return a matplotlib figure as inline SVG.

    Text is drawn as outlines, so it looks the same without its fonts.
    """
    from matplotlib import rc_context

    buffer = io.StringIO()
    with rc_context({"svg.hashsalt": "sparsco"}):  # the same figure gives the same bytes
        plot.savefig(buffer, format="svg", bbox_inches="tight", metadata={"Date": None})
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]  # without the XML prologue and its reference to a DTD on the web
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    return f"<figure>{svg}<figcaption>{escape(caption)}</figcaption></figure>"


def with_plots(blocks: Callable[..., list[str]]) -> Callable[..., list[str]]:
    """Return a function that makes blocks of plots, or one block of text if matplotlib is not installed."""

    @functools.wraps(blocks)
    def call(*args: Any, **options: Any) -> list[str]:
        try:
            import matplotlib.figure  # noqa: F401
        except ImportError:
            return [text("No plots: matplotlib is not installed (pip install 'sparsco[plots]').")]
        return blocks(*args, **options)

    return call


def page(title: str, blocks: Iterable[str]) -> str:
    """Return the whole document."""
    body = "\n".join(blocks)
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{_STYLE}</style></head>\n<body><h1>{escape(title)}</h1>\n{body}\n</body></html>\n"
    )


def write(path: str | Path, title: str, blocks: Iterable[str]) -> Path:
    """Write the document, and return its path."""
    return write_text(path, page(title, blocks))
