"""Views of an estimator: its HTML view in a notebook and ``dir`` show what is stored and compute nothing."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from html import escape
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..util.attributes import attributes
from ..util.axes import AGAINST, FOR
from ..util.progress import printable
from .summary import headline_of

TOP = 10
"""The number of features that a view shows."""
NOT_FITTED = "not fitted yet"
_LONGEST = 240
"""The number of characters of a name, and of a parameter, that are shown."""

_viewing = ContextVar("viewing", default=False)

# Colours of text and lines are inherited: notebooks have themes of their own.
_STYLE = """
.sparsco-view { max-width: 46rem; overflow-wrap: anywhere; line-height: 1.5; }
.sparsco-view table { border-collapse: collapse; margin: .5rem 0; table-layout: fixed; width: 100%; }
.sparsco-view td { padding: .1rem .5rem; border: 0; text-align: left; }
.sparsco-view td:nth-child(1) { width: 40%; }
.sparsco-view td:nth-child(2) { width: 5.5rem; text-align: right; font-variant-numeric: tabular-nums; }
.sparsco-view .track { position: relative; height: .8rem; border-left: 1px solid; margin-left: 50%; }
.sparsco-view .bar { position: absolute; height: 100%; border-radius: 2px; }
.sparsco-view summary { cursor: pointer; }
"""
_STYLE += f"""\
.sparsco-view .for {{ left: 0; background: {FOR}; }}
.sparsco-view .against {{ right: 100%; background: {AGAINST}; }}
"""


class Shown(NamedTuple):
    """The contents of a view."""

    state: str
    """One line: whether it is fitted, what was selected, how it was chosen."""
    bars: Sequence[tuple[str, float]] = ()
    """Names and weights of the strongest features, the strongest first."""
    selected: int = 0
    """The number of weights in all."""
    unit: str = "weight"
    """The quantity that the bars show."""


def refuse_in_view(model: Any) -> None:
    """Raise a RuntimeError if a view would make a model learn or convert."""
    if _viewing.get():
        raise RuntimeError(f"this {type(model).__name__} is not converted yet: call convert() first.")


def under_way(examples: int) -> Shown:
    """Return the view of an estimator that has learned but has not been converted."""
    return Shown(f"{examples:,} examples so far; convert() makes the model of them")


def strongest(
    coef: sp.csr_array, columns: sp.csr_array | None, outputs: Sequence[str], names: Callable[[np.ndarray], list[str]]
) -> tuple[list[tuple[str, float]], str]:
    """Return the names and effects of the strongest weights, and the quantity that an effect is.

    An effect is the weight times the spread of its column, or the weight where no spreads are stored: ``columns`` has
    the spreads as its first row.  ``names`` returns the names of columns by their numbers.  The cost is that of the
    nonzero weights, not of the columns.
    """
    parts, effects, unit = sp.coo_array(coef), coef.data, "weight"
    if columns is not None and columns.nnz:
        known, spreads = columns.indices[: columns.indptr[1]], columns.data[: columns.indptr[1]]
        order = np.argsort(known)
        found = order[np.minimum(np.searchsorted(known, parts.col, sorter=order), len(known) - 1)]
        if np.array_equal(known[found], parts.col):
            effects, unit = effects * spreads[found], "weight x spread"
    top = np.argsort(-np.abs(effects), kind="stable")[:TOP]
    called = names(parts.col[top])
    if len(outputs) > 1:
        called = [f"{name} for {outputs[row]}" for name, row in zip(called, parts.row[top].tolist(), strict=True)]
    elif outputs[0]:
        unit += f", to the right for {outputs[0]}"
    return list(zip(called, effects[top].tolist(), strict=True)), unit


class Viewed:
    """An estimator whose views do not convert it.

    The HTML view of scikit-learn reads every attribute whose name ends in "_", and the names of the selected features.
    That would convert a stream that is under way, and lay out weights and names of millions of features.
    """

    def shown(self) -> Shown:
        """Return the contents of the HTML view; only what is stored is read."""
        raise NotImplementedError

    def _html_repr(self) -> str:
        token = _viewing.set(True)
        try:
            return view(self, self.shown())
        finally:
            _viewing.reset(token)

    def _get_fitted_attr_html(self, doc_link: str = "") -> Any:
        """Return the stored attributes as scikit-learn lists them; properties are left out."""
        stored = SimpleNamespace(
            **{name: value for name, value in attributes(self).items() if not name.startswith("_")}
        )
        shown = super()._get_fitted_attr_html.__func__(stored, doc_link)  # type: ignore[misc]
        shown.estimator_class = type(self)
        return shown

    def __dir__(self) -> list[str]:
        """Return the names of all attributes without reading the properties, as scikit-learn would."""
        kind, names = type(self), object.__dir__(self)
        return [name for name in names if isinstance(getattr(kind, name, None), property) or hasattr(self, name)]


class ViewedModel(Viewed):
    """A linear model whose views do not convert it."""

    def shown(self: Any) -> Shown:
        """Return the headline of the model and its strongest features, as far as they are stored."""
        state = self.fit_state
        if not state.is_fitted:
            return Shown(NOT_FITTED)
        if state.model is None or state.noted:
            return under_way(state.examples)
        coef = state.model.coef
        bars, unit = strongest(coef, state.model.columns, self.output_names(), self.names_of_slots)
        return Shown(headline_of(self).partition(": ")[2], bars, coef.nnz, unit)


def view(model: Any, shown: Shown) -> str:
    """Return the HTML of a view: the call that makes the estimator, its state, bars of weights, all parameters."""
    given = model.get_params(deep=False)
    defaults = {name: each.default for name, each in inspect.signature(type(model)).parameters.items()}
    changed = {name: value for name, value in given.items() if _short(value) != _short(defaults.get(name))}
    call = ", ".join(f"{name}={_short(value)}" for name, value in changed.items())
    parts = [
        f"<style>{_STYLE}</style><div class='sparsco-view'>",
        f"<div><strong>{escape(type(model).__name__)}</strong><code>({escape(call)})</code></div>",
        f"<div>{escape(_one_line(shown.state))}</div>",
        _bars(shown),
        f"<details><summary>All {len(given)} parameters</summary><table>",
        *(f"<tr><td>{escape(name)}</td><td colspan='2' style='text-align: left; width: auto'>" + code + "</td></tr>"
          for name, code in ((name, f"<code>{escape(_short(value))}</code>") for name, value in given.items())),
        "</table></details></div>",
    ]  # fmt: skip
    return "".join(parts)


def _bars(shown: Shown) -> str:
    """Return a table of names, weights and bars; an empty text if there are none."""
    if not shown.bars:
        return ""
    largest = max(abs(effect) for _, effect in shown.bars) or 1.0
    rows = []
    for name, effect in shown.bars:
        side, share = "for" if effect > 0.0 else "against", 100.0 * abs(effect) / largest
        bar = f"<div class='track'><div class='bar {side}' style='width: {share:.3g}%'></div></div>"
        rows.append(f"<tr><td>{escape(_one_line(name))}</td><td>{effect:+.4g}</td><td>{bar}</td></tr>")
    left = shown.selected - len(shown.bars)
    more = f"; {left:,} more weights are not shown" if left > 0 else ""
    return f"<table>{''.join(rows)}</table><div>Bars: {escape(_one_line(shown.unit))}{more}</div>"


def _short(value: Any) -> str:
    return _one_line(repr(value))


def _one_line(text: str) -> str:
    text = printable(" ".join(text.split()))
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."
