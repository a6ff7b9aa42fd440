"""The parts of `make bench-selection` that need no fit: generated designs, kept repetitions, power at equal error."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest

from support import REPOSITORY


@pytest.fixture(scope="module")
def parts():
    """The modules of the benchmark, which import each other by name."""
    folder, known = str(REPOSITORY / "benchmarks"), set(sys.modules)
    sys.path.insert(0, folder)
    try:
        import selection_designs
        import selection_figures
        import selection_methods

        yield selection_designs, selection_methods, selection_figures
    finally:
        sys.path.remove(folder)
        for name in set(sys.modules) - known:
            if name.startswith("selection"):
                del sys.modules[name]


def test_a_repetition_is_its_number(parts):
    designs, _, _ = parts
    for cell in designs.TINY:
        first, again, other = (designs.generated(cell, number) for number in (3, 3, 4))
        assert np.array_equal(first.y, again.y) and not np.array_equal(first.y, other.y)
        assert (abs(first.X - again.X)).sum() == 0.0
        assert first.X.shape == (cell.n, cell.p) and first.true.sum() == cell.k
    assert len({cell.name for cell in designs.CELLS + designs.TINY}) == len(designs.CELLS + designs.TINY)


@pytest.mark.parametrize("design, lag, expected", [("ar.9", 1, 0.9), ("ar.5", 2, 0.25), ("blocks", 1, 0.8)])
def test_columns_are_correlated_as_the_design_says(parts, design, lag, expected):
    designs, _, _ = parts
    X = designs.generated(designs.Cell(design, 5000, 10, 5, 1.0, "linear"), 0).X
    between = np.corrcoef(X, rowvar=False)
    assert np.allclose(np.diagonal(between, lag), expected, atol=0.05)
    assert np.allclose(X.std(axis=0), 1.0, atol=0.05)


def test_the_signal_to_noise_ratio_is_that_of_the_cell(parts):
    designs, _, _ = parts
    data = designs.generated(designs.Cell("independent", 4000, 20, 10, 2.0, "linear"), 0)
    weights = np.linalg.lstsq(data.X, data.y, rcond=None)[0]
    noise = np.var(data.y - data.X @ weights)
    assert noise == pytest.approx(1.0, rel=0.1) and np.var(data.y) == pytest.approx(3.0, rel=0.1)
    assert np.flatnonzero(np.abs(weights) > 0.15).tolist() == np.flatnonzero(data.true).tolist()


def test_figures_of_known_selections(parts, tmp_path):
    designs, methods, figures = parts
    cell, records = designs.Cell("independent", 10, 6, 2, 1.0, "linear"), []
    true = np.array([True, True, False, False, False, False])
    data = designs.Data(np.zeros((10, 6)), np.zeros(10), true)
    # the second run has a false feature between the true ones
    for number, rank in enumerate(([0.1, 0.2, 3.0, 4.0, 5.0, 6.0], [0.1, 0.4, 0.3, 4.0, 5.0, 6.0])):
        outcome = methods.by_scores(np.array(rank), np.array(rank), ["doubt"] if number else [])
        records.append(figures.record(cell, number, data, outcome))
    assert records[1]["fdr"] == {"0.05": [0, 0], "0.1": [0, 1], "0.2": [0, 1]}
    assert records[1]["efp"] == {"1": [1, 2], "5": [3, 2]}
    assert figures.false_number(records, 1.0) == (0.5, 0.5)
    assert figures.warned(records, False) == (1, 2) and figures.warned(records, True) == (0, 0)
    # thresholds below .3 have no false features and find 2 and 1 of the true ones
    assert figures.curves(records, cell.k).power() == 0.75
    assert figures.equal_error(records, records[:1], cell.k)[:2] == (1.0, 1.0)  # on what both have
    path = tmp_path / "method.jsonl"
    path.write_text("\n".join(map(json.dumps, records)) + '\n{"cell": "ind')
    kept = figures.read(path)
    assert figures.of_cell(kept, cell) == records
    assert "| 0.000±0.000 | 0.000±0.000 |" in figures.promises(kept, [cell])
    assert "0.750 (+0.000±0.000) | ok |" in figures.powers({"ipss": kept, "sparsco": kept}, [cell])
