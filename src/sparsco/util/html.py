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
from .axes import PAGE_STYLE

_STYLE = """
:root { color-scheme: light dark; --ink: #1f2937; --soft: #4b5563; --paper: #ffffff; --line: #d1d5db; --rule: #6b7280;
  --good: #dcf2e1; --bad: #fbe0d9; }
@media (prefers-color-scheme: dark) { :root { --ink: #e5e7eb; --soft: #b6bec9; --paper: #14181f; --line: #374151;
  --rule: #9ca3af; --good: #1c4a2b; --bad: #5c2419; } }
body { font: 16px/1.55 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem;
  color: var(--ink); background: var(--paper); overflow-wrap: anywhere; }
h1 { font-size: clamp(1.4rem, 4vw, 2rem); line-height: 1.25; margin: 0 0 1rem; }
h2 { font-size: 1.2rem; margin: 2rem 0 .5rem; }
.scroll, pre { overflow-x: auto; }
pre { border: 1px solid var(--line); border-radius: 6px; padding: .75rem 1rem; font-size: .85rem; }
table { border-collapse: collapse; margin: 1rem 0; font-variant-numeric: tabular-nums; font-size: .9rem; }
th, td { padding: .3rem .75rem; border-bottom: 1px solid var(--line); text-align: right; overflow-wrap: normal; }
th:first-child, td:first-child { text-align: left; }
thead th { border-bottom: 2px solid var(--rule); }
td.agrees { background: var(--good); } td.differs, td.diverged { background: var(--bad); }
figure { margin: 1.5rem 0; } figcaption { color: var(--soft); font-size: .9rem; }
figure svg { width: 34rem; max-width: 100%; height: auto; background: #ffffff; border-radius: 6px; }
figure svg:not(:only-of-type) { width: 28rem; }
details { margin: 1rem 0; } summary { cursor: pointer; color: var(--soft); }
footer { margin-top: 3rem; border-top: 1px solid var(--line); color: var(--soft); font-size: .85rem; }
@media print { body { max-width: none; margin: 0; } details > * { display: block; } }
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
    # the frame can be reached by the keyboard, since a wide table scrolls in it
    return (
        f'<div class="scroll" tabindex="0"><table><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table></div>'
    )


def _entry(value: Any) -> str:
    if isinstance(value, Marked):
        return f'<td class="{escape(value.mark)}">{escape(value.text)}</td>'
    return f"<td>{escape(cell(value))}</td>"


def code(lines: str) -> str:
    """Return lines of code or of a shell."""
    return f'<pre tabindex="0"><code>{escape(lines)}</code></pre>'


def details(summary: str, block: str) -> str:
    """Return a block that opens by a click."""
    return f"<details><summary>{escape(summary)}</summary>{block}</details>"


def figure(plot: Any, caption: str) -> str:
    """Return a matplotlib figure as inline SVG.

    Text is drawn as outlines, so it looks the same without its fonts.
    """
    return figures([plot], caption)


def figures(plots: Iterable[Any], caption: str) -> str:
    """Return matplotlib figures as inline SVG, side by side where there is room, with one caption."""
    return f"<figure>{''.join(map(_svg, plots))}<figcaption>{escape(caption)}</figcaption></figure>"


def _svg(plot: Any) -> str:
    from matplotlib import rc_context

    buffer = io.StringIO()
    with rc_context(PAGE_STYLE):
        plot.savefig(buffer, format="svg", bbox_inches="tight", metadata={"Date": None})
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]  # without the XML prologue and its reference to a DTD on the web
    return re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)


def with_plots(blocks: Callable[..., list[str]]) -> Callable[..., list[str]]:
    """Return a function that makes blocks of plots, or one block of text if matplotlib is not installed.

    The plots are drawn in the style of pages.
    """

    @functools.wraps(blocks)
    def call(*args: Any, **options: Any) -> list[str]:
        try:
            import matplotlib.figure  # noqa: F401
            from matplotlib import rc_context
        except ImportError:
            return [text("No plots: matplotlib is not installed (pip install 'sparsco[plots]').")]
        with rc_context(PAGE_STYLE):
            return blocks(*args, **options)

    return call


def page(title: str, blocks: Iterable[str]) -> str:
    """Return the whole document; the title is its headline."""
    body = "\n".join(blocks)
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><title>{escape(title)}</title>'
        f"<style>{_STYLE}</style></head>\n<body><main><h1>{escape(title)}</h1>\n{body}\n</main>"
        "<footer><p>Written by sparsco.</p></footer></body></html>\n"
    )


def write(path: str | Path, title: str, blocks: Iterable[str]) -> Path:
    """Write the document, and return its path."""
    return write_text(path, page(title, blocks))
