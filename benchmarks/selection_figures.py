"""Figures of kept repetitions, for `make bench-selection`: promises, power at equal error, warnings, and tables.

A record is one repetition of one method: false and true positives for each promise, the ranks of the true features, the
best ranks of false ones, the method's warnings and its seconds of CPU.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from selection_designs import CORRELATED, Cell, Data
from selection_methods import CLASSICAL, EFP, FDR, IPSS, OURS, Outcome

Record = dict[str, Any]
Kept = dict[tuple[str, int], Record]
"""The records of one method by cell and repetition."""
ERROR = 0.1
"""The share of false ones at which powers are compared, and the promise by which warnings are judged."""
ALLOWED = 2.0
"""Standard errors by which a mean may exceed its promise."""
WORSE_THAN_IPSS, BETTER_THAN_CLASSICAL = 0.02, 0.1
WARNED_IF_BROKEN, WARNED_IF_INDEPENDENT = 0.8, 0.1
RANKS = 100
"""Ranks of false features that are kept at least."""


# --- records ----------------------------------------------------------------------------------------------------------


def record(cell: Cell, repetition: int, data: Data, outcome: Outcome) -> Record:
    """Return what is kept of an outcome."""

    def counts(mask: np.ndarray) -> list[int]:
        return [int(np.count_nonzero(mask & ~data.true)), int(np.count_nonzero(mask & data.true))]

    def rounded(ranks: np.ndarray) -> list[float]:
        return [float(f"{rank:.6g}") for rank in np.sort(ranks)]

    kept: Record = {"cell": cell.name, "repetition": repetition, "seconds": round(outcome.seconds, 4)}
    kept["fdr"] = {f"{fdr:g}": counts(mask) for fdr, mask in outcome.fdr.items()}
    kept["efp"] = {f"{efp:g}": counts(mask) for efp, mask in outcome.efp.items()}
    kept["own"] = None if outcome.own is None else counts(outcome.own)
    kept["warned"] = outcome.warned
    kept["true"] = rounded(outcome.rank[data.true])
    kept["false"] = rounded(outcome.rank[~data.true])[: max(RANKS, cell.k)]
    return kept


def read(path: Path) -> Kept:
    """Return the records of a file; a line that was cut short by a kill is left out."""
    kept: Kept = {}
    for line in path.read_text().splitlines() if path.exists() else []:
        try:
            each = json.loads(line)
        except json.JSONDecodeError:
            continue
        kept[each["cell"], each["repetition"]] = each
    return kept


def of_cell(kept: Kept, cell: Cell) -> list[Record]:
    """Return a cell's records in the order of repetitions."""
    return [kept[key] for key in sorted(kept) if key[0] == cell.name]


# --- promises ---------------------------------------------------------------------------------------------------------


class Mean(NamedTuple):
    """A mean over repetitions with its standard error."""

    value: float
    error: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Mean:
        """Return the mean of at least two values."""
        return cls(float(np.mean(values)), float(np.std(values, ddof=1) / np.sqrt(len(values))))

    def keeps(mean, promise: float) -> bool:
        """Whether the mean is at most the promise, up to chance.

        >>> Mean(0.12, 0.011).keeps(0.1), Mean(0.12, 0.009).keeps(0.1)
        (True, False)
        """
        return mean.value <= promise + ALLOWED * mean.error

    def __str__(mean) -> str:
        return f"{mean.value:.3f}±{mean.error:.3f}" if mean.value < 10.0 else f"{mean.value:.1f}±{mean.error:.1f}"


def proportion(counts: Sequence[int]) -> float:
    """Return the share of false ones among the selected, 0 if nothing is selected."""
    return counts[0] / max(1, sum(counts))


def false_share(records: list[Record], fdr: float) -> Mean:
    """Return the mean share of false ones among those selected for a promised rate."""
    return Mean.of([proportion(each["fdr"][f"{fdr:g}"]) for each in records])


def false_number(records: list[Record], efp: float) -> Mean:
    """Return the mean number of false ones selected for a promised number."""
    return Mean.of([each["efp"][f"{efp:g}"][0] for each in records])


def power(records: list[Record], kind: str, target: float, k: int) -> float:
    """Return the mean share of the k true features that are selected for a promise."""
    return float(np.mean([each[kind][f"{target:g}"][1] for each in records])) / k if k else float("nan")


def warned(records: list[Record], broken: bool) -> tuple[int, int]:
    """Return the number of runs that warned and of all runs, among those that broke the promise `ERROR` or kept it."""
    chosen = [each for each in records if (proportion(each["fdr"][f"{ERROR:g}"]) > ERROR) == broken]
    return sum(bool(each["warned"]) for each in chosen), len(chosen)


# --- power at equal error ---------------------------------------------------------------------------------------------


class Curves(NamedTuple):
    """Share of false ones and of found ones in each repetition (row) for each threshold on the rank (column)."""

    false: np.ndarray
    found: np.ndarray

    def power(curves, drawn: np.ndarray | slice = slice(None)) -> float:
        """Return the mean power at the largest threshold whose mean share of false ones is at most `ERROR`.

        One threshold is shared by all repetitions (or those drawn): it is what an oracle would choose that knows the
        method's mean error on the cell.  So methods are compared by their order of features, whatever they promise.
        """
        good = np.flatnonzero(curves.false[drawn].mean(axis=0) <= ERROR)
        return float(curves.found[drawn].mean(axis=0)[good[-1]]) if len(good) else 0.0


def curves(records: list[Record], k: int) -> Curves:
    """Return the curves over all thresholds at which something changes."""
    thresholds = np.unique(np.concatenate([each["true"] + each["false"] for each in records]))
    false = np.array([np.searchsorted(each["false"], thresholds, "right") for each in records])
    true = np.array([np.searchsorted(each["true"], thresholds, "right") for each in records])
    return Curves(false / np.maximum(1, false + true), true / k)


def equal_error(ours: list[Record], theirs: list[Record], k: int, draws: int = 200) -> tuple[float, float, float]:
    """Return both powers at equal measured error on the same repetitions, and the standard error of the difference.

    The latter is a bootstrap over repetitions, thresholds being chosen anew in each draw.
    """
    shared = {each["repetition"] for each in ours} & {each["repetition"] for each in theirs}
    first, second = (curves([each for each in some if each["repetition"] in shared], k) for some in (ours, theirs))
    rng, n = np.random.default_rng(0), len(first.found)
    drawn = rng.integers(n, size=(draws, n))
    spread = float(np.std([first.power(each) - second.power(each) for each in drawn]))
    return first.power(), second.power(), spread


# --- tables -----------------------------------------------------------------------------------------------------------


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    return "\n".join("| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *rows))


def verdict(holds: bool) -> str:
    """In a word."""
    return "ok" if holds else "MISSED"


def share(counts: tuple[int, int]) -> str:
    """Return a part of a whole as it is counted."""
    return f"{counts[0]}/{counts[1]}" if counts[1] else "–"


def promises(kept: Kept, cells: Sequence[Cell]) -> str:
    """Return what a method promised and what it did, cell by cell, with a verdict where the promise is a bar."""
    head = ["cell", "runs", *(f"FDP at {fdr:g}" for fdr in FDR), *(f"FP at {efp:g}" for efp in EFP)]
    head += [f"power at {ERROR:g}", "power at 1", "warned, broken", "warned, kept", "CPU s", "verdict"]
    rows = []
    for cell in cells:
        records = of_cell(kept, cell)
        if len(records) < 2:
            continue
        means = {fdr: false_share(records, fdr) for fdr in FDR if records[0]["fdr"]}
        means |= {efp: false_number(records, efp) for efp in EFP if records[0]["efp"]}
        holds = all(mean.keeps(target) for target, mean in means.items())
        shown = [_figure(means.get(target), target) for target in FDR + EFP]
        for kind, target in (("fdr", ERROR), ("efp", EFP[0])):
            shown.append(f"{power(records, kind, target, cell.k):.3f}" if records[0][kind] and cell.k else "–")
        shown += [share(warned(records, broken)) if records[0]["fdr"] else "–" for broken in (True, False)]
        shown.append(f"{np.mean([each['seconds'] for each in records]):.2f}")
        said = verdict(holds) if cell.design not in CORRELATED else "holds" if holds else "broken"
        rows.append([cell.name, str(len(records)), *shown, said])
    return markdown(head, rows)


def _figure(mean: Mean | None, promise: float) -> str:
    """Return a mean beside its promise: bold if it is broken."""
    if mean is None:
        return "–"
    return str(mean) if mean.keeps(promise) else f"**{mean}**"


def choices(kept: Kept, cells: Sequence[Cell]) -> str:
    """Return what a method without a promise selects of its own accord."""
    rows = []
    for cell in cells:
        own = [each["own"] for each in of_cell(kept, cell)]
        if len(own) > 1:
            found = f"{np.mean([true for _, true in own]) / cell.k:.3f}" if cell.k else "–"
            numbers = [
                str(Mean.of([proportion(each) for each in own])),
                str(Mean.of([false for false, _ in own])),
                found,
            ]
            rows.append([cell.name, str(len(own)), *numbers])
    return markdown(["cell", "runs", "FDP", "FP", "power"], rows)


def warnings_table(kept: Kept, cells: Sequence[Cell]) -> str:
    """Return how often a method warned, by design: in runs that broke the promise, in others, and in all."""
    rows = []
    for design in dict.fromkeys(cell.design for cell in cells):
        some = [each for cell in cells if cell.design == design for each in of_cell(kept, cell)]
        some = [each for each in some if each["fdr"]]
        if not some:
            continue
        broken, fine = warned(some, True), warned(some, False)
        every = (broken[0] + fine[0], broken[1] + fine[1])
        said = "–"
        if design in CORRELATED and broken[1]:
            said = verdict(broken[0] >= WARNED_IF_BROKEN * broken[1])
        elif design == "independent":
            said = verdict(every[0] <= WARNED_IF_INDEPENDENT * every[1])
        rows.append([design, share(broken), share(fine), share(every), said])
    return markdown(["design", f"FDP above {ERROR:g}: warned", "others: warned", "all: warned", "verdict"], rows)


def powers(kept: dict[str, Kept], cells: Sequence[Cell], reference: str = IPSS) -> str:
    """Return powers at equal measured error, each beside the reference on the repetitions that both have."""
    others = [method for method in kept if method != reference and kept[method]]
    rows, gains = [], []
    for cell in cells:
        theirs = of_cell(kept.get(reference, {}), cell)
        if not cell.k or len(theirs) < 2:
            continue
        row, found = [cell.name, str(len(theirs)), f"{curves(theirs, cell.k).power():.3f}"], "–"
        for method in others:
            records = of_cell(kept[method], cell)
            if len({each["repetition"] for each in records} & {each["repetition"] for each in theirs}) < 2:
                row.append("–")
                continue
            first, second, spread = equal_error(records, theirs, cell.k)
            row.append(f"{first:.3f} ({first - second:+.3f}±{spread:.3f})")
            if method == OURS:
                found = verdict(first >= second - WORSE_THAN_IPSS)
        if all(of_cell(kept.get(method, {}), cell) for method in (OURS, CLASSICAL)):
            first, second, _ = equal_error(*(of_cell(kept[method], cell) for method in (OURS, CLASSICAL)), cell.k)
            gains.append(first - second)
        rows.append([*row, found])
    table = markdown(["cell", "runs", reference, *others, "verdict"], rows)
    if gains:
        held = verdict(np.mean(gains) >= BETTER_THAN_CLASSICAL)
        table += f"\n\n{OURS} over {CLASSICAL}, mean of {len(gains)} cells: {np.mean(gains):+.3f}  {held}"
    return table
