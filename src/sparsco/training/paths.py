"""Training of paths of strengths from a file, with the path as a table in text and as a page with plots."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..selection.linear_path import LinearPath
from ..selection.path import Path
from ..streams import open_stream
from ..util import html
from ..util.axes import page_axes
from ..util.progress import Live
from .results import Trained
from .train import Training


def train_path(
    source: Any,
    model: Any = None,
    *,
    path: Mapping[str, Any] | None = None,
    passes: int = 1,
    shuffle: bool = True,
    reader: Mapping[str, Any] | None = None,
    classes: Any = None,
    settings: Mapping[str, Any] | None = None,
    live: Any = None,
) -> Trained:
    """Train a path on a source as :func:`sparsco.train` does; the ``model`` of the result is the path.

    ``model`` is an estimator or None, ``path`` are the parameters of :class:`sparsco.SparsePath`.
    """
    own = {**(path or {}), "passes": passes}
    training = Training(
        None if model is None else LinearPath(model, **own),
        passes,
        shuffle,
        dict(reader or {}),
        classes,
        dict(settings or {}),
    )
    training.wrap = lambda estimator: LinearPath(estimator, **own)
    training.checkpoints, training.stop, training.live = None, bool, live or Live()
    training.stream = open_stream(source, **training.reader)
    return training.whole()


def as_text(path: Path, chosen: float | None = None) -> str:
    """Return the path as a table in text."""
    table = path.table()
    lines = [f"{'alpha':>12} {'nonzeros':>10} {'loss':>10} {'+-':>9} {'error':>10}"]
    lines[0] += f" {'gap':>8}" if "gap" in table[0] else ""
    for each in table:
        mark = f" {each['gap']:>8.1e}" if "gap" in each else ""
        mark += "  chosen" if each["alpha"] == chosen else ""
        lines.append(
            f"{each['alpha']:>12.4g} {each['nonzeros']:>10,} {each['loss']:>10.5f} {each['spread']:>9.5f} "
            f"{each['error']:>10.5f}{mark}"
        )
    return "\n".join(lines)


_IN_WORDS = {
    "alpha": "strength (alpha)",
    "nonzeros": "features",
    "loss": "loss on rows not learned",
    "spread": "standard error",
    "error": "error",
    "gap": "violation of optimality",
}
"""The columns of the table of a path, as a page names them."""


def write_page(file: Any, path: Path, chosen: float | None = None, names: Mapping[int, str] | None = None) -> Any:
    """Write the path as one HTML file: plots, the weights of the chosen model, the table; return its path."""
    blocks = html.with_plots(_plots)(path, chosen, names)
    table = path.table()
    if chosen is not None:
        coef = sp.coo_array(path.model(chosen).sparsify().coef_)
        largest = np.argsort(-np.abs(coef.data))[:50]
        rows = [[(names or {}).get(int(coef.col[k]), str(coef.col[k])), float(coef.data[k])] for k in largest]
        blocks += [html.heading(f"The model of alpha = {chosen:.4g}"), html.table(["feature", "weight"], rows)]
    every = html.table([_IN_WORDS[name] for name in table[0]], [list(each.values()) for each in table])
    blocks.append(html.details(f"All {len(table)} strengths", every))
    return html.write(file, headline(table, chosen, path.shell.classifies), blocks)


def headline(table: list[dict[str, float]], chosen: float | None, classifies: bool) -> str:
    """Return the path in one sentence: the chosen model with its error, and how many models there are."""
    sizes = [int(each["nonzeros"]) for each in table]
    sentence = f"{len(table)} models with {min(sizes):,} to {max(sizes):,} features"
    taken = [each for each in table if each["alpha"] == chosen]
    if not taken:
        return sentence
    error = taken[0]["error"]
    judged = f"{100 * error:.1f}% error" if classifies else f"a root mean squared error of {error**0.5:.4g}"
    known = "" if np.isnan(error) else f" with {judged} on rows not learned"
    return f"{int(taken[0]['nonzeros']):,} features{known}, chosen from {sentence}"


def _plots(path: Path, chosen: float | None, names: Mapping[int, str] | None) -> list[str]:
    from .. import plots

    drawn: dict[str, Callable[..., Any]] = {
        "Loss on rows that were not learned, against the number of features.": plots.error_vs_nonzeros,
        "Weights of the features, by the strength of the penalty.": partial(plots.coefficient_path, names=names),
    }
    if path.stability is not None:
        drawn["Agreement of the folds' selections."] = plots.selection_stability
    blocks = []
    for caption, draw in drawn.items():
        figure, axes = page_axes()
        draw(path, chosen=chosen, axes=axes)
        blocks.append(html.figure(figure, caption))
    return blocks
