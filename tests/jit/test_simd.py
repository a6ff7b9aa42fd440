"""Lines of numbers as vectors: compiled, whole and by halves, they are what plain Python reads and writes."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest

from sparsco.jit.dispatch import U, kernel, plain_python
from sparsco.jit.lanes import EIGHT, FOUR, TWO, load, store, width
from sparsco.jit.simd import load_fields, load_high, load_low, store_fields, update_fields


@kernel
def _copied(block, cell, indices, tail, p, in_tail, out, other):
    """Write the fields of a block to ``out``, whole and by halves, and the lines, backwards, to ``other``."""
    fields = load_fields(block, cell, indices, tail, p, in_tail)
    a, b, c, d = load_low(block, cell, indices, tail, p, in_tail)
    e, f, g, h = load_high(block, cell, indices, tail, p, in_tail)
    at, size = U(0), U(width(block))
    for field in fields:
        store(block, out, at, field)
        at += size
    for field in (a, b, c, d, e, f, g, h):
        store(block, out, at, field)
        at += size
    store_fields(block, other, indices, tail, p, in_tail, (h, g, f, e, d, c, b, a))


@pytest.mark.parametrize("block", [FOUR, EIGHT])
@pytest.mark.parametrize("in_tail", [False, True])
def test_fields_of_lines(block, in_tail):
    rng, size = np.random.default_rng(0), width(block)
    cell, indices = rng.standard_normal(8 * 40), rng.permutation(40).astype(np.uint32)
    tail = indices[:size].copy()
    own = tail if in_tail else indices[5 : 5 + size]
    lines, expected = cell.reshape(40, 8)[own], np.zeros((40, 8))
    expected[own] = lines[:, ::-1]
    for context in (contextlib.nullcontext, plain_python):
        out, other = np.zeros(16 * size), np.zeros(8 * 40)
        with context():
            _copied(block, cell, indices, tail, U(5), in_tail, out, other)
        np.testing.assert_array_equal(out.reshape(2, 8, size), np.stack([lines.T, lines.T]))
        np.testing.assert_array_equal(other.reshape(40, 8), expected)


@kernel
def _updated(block, cell, indices, tail, p, in_tail, numbers, line):
    """Write two fields of a block, and add to the three after them."""
    size = U(width(block))
    a, b = load(block, numbers, U(0)), load(block, numbers, size)
    c, d = load(block, numbers, U(2) * size), load(block, numbers, U(3) * size)
    e = load(block, numbers, U(4) * size)
    update_fields(block, cell, indices, tail, p, in_tail, (a, b), (c, d, e), line)


@pytest.mark.parametrize(("block", "line"), [(FOUR, TWO), (FOUR, FOUR), (FOUR, EIGHT), (EIGHT, EIGHT)])
@pytest.mark.parametrize("in_tail", [False, True])
def test_updated_lines(block, line, in_tail):
    rng, size, n = np.random.default_rng(0), width(block), width(line)
    cell, indices = rng.standard_normal(n * 40), rng.permutation(40).astype(np.uint32)
    numbers = rng.standard_normal(5 * size)
    tail = indices[:size].copy()
    if in_tail:  # copies of a row's last entry
        tail[-2:], numbers.reshape(5, size)[:, -2:] = tail[-3], numbers.reshape(5, size)[:, -3:-2]
    expected = cell.reshape(40, n).copy()
    for f, j in dict(zip(tail if in_tail else indices[5 : 5 + size], range(size), strict=True)).items():
        own = numbers.reshape(5, size)[: min(n, 5), j]
        expected[f, :2] = own[:2]
        expected[f, 2 : len(own)] += own[2:]
    for context in (contextlib.nullcontext, plain_python):
        found = cell.copy()
        with context():
            _updated(block, found, indices, tail, U(5), in_tail, numbers, line)
        np.testing.assert_array_equal(found.reshape(40, n), expected)
