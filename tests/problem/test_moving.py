"""Sums that are moved out of the cells: the copy has all numbers, and zeros are left behind."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest

from sparsco.jit.dispatch import plain_python
from sparsco.problem.moving import WORTH_READING, move, moved


def cells_with(d, features, lanes=1):
    """Return cells of eight numbers by lane, and in some features a view of two fields that hold numbers."""
    cells = np.zeros((d, 8, lanes))
    cells[features] = 1.0 + np.arange(len(features) * 8 * lanes).reshape(-1, 8, lanes)
    return cells


@pytest.mark.parametrize("d, features", [(1, [0]), (256, []), (257, [256]), (700, [0, 511]), (1024, [255, 256, 900])])
@pytest.mark.parametrize("lanes", [1, 3])
def test_pieces_are_moved(d, features, lanes):
    for context in (contextlib.nullcontext, plain_python):
        cells = cells_with(d, features, lanes)
        expected, others = cells[:, 5:7].copy(), np.delete(cells, [5, 6], axis=1)
        out = np.zeros((d, 2, lanes))
        with context():
            move(cells[:, 5:7], out)
        np.testing.assert_array_equal(out, expected)
        np.testing.assert_array_equal(cells[:, 5:7], 0.0)
        np.testing.assert_array_equal(np.delete(cells, [5, 6], axis=1), others)


@pytest.mark.parametrize("d", [10, WORTH_READING])
def test_sums_are_moved_by_numpy_and_by_the_kernel(d):
    cells = cells_with(d, [2, d - 1])
    expected = cells[:, 5:7].copy()
    np.testing.assert_array_equal(moved(cells[:, 5:7]), expected)
    np.testing.assert_array_equal(cells[:, 5:7], 0.0)
