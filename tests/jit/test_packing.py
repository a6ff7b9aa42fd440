"""Packed lanes: compiled, in one instruction and lane by lane, they are what plain Python writes and reads."""

from __future__ import annotations

import numpy as np
import pytest

from sparsco.jit import packing
from sparsco.jit.dispatch import U, kernel
from sparsco.jit.lanes import WIDTHS, count_lanes, lane_indices, load, store
from sparsco.jit.packing import compress_store, expand_load


@pytest.fixture(params=[False, True])
def packs(request, monkeypatch):
    monkeypatch.setattr(packing, "_PACKS", request.param and packing._PACKS)


def _cases(m):
    return [np.ones(m), -np.ones(m), *np.random.default_rng(0).normal(size=(6, m))]


def _compressed(lanes, a, out, rest):
    v = load(lanes, a, U(0))
    compress_store(out, U(3), v, v > 0.0)
    rest[0] = float(count_lanes(v > 0.0))
    store(lanes, rest, U(1), lane_indices(lanes) + 5.0)


@pytest.mark.parametrize("record", WIDTHS)
def test_compressing_writes_the_lanes_in_question_and_no_further_than_all(record, packs):
    compiled, m = kernel(_compressed).uncached, record.m
    for a in _cases(m):
        out, rest = np.full(m + 7, 7.0), np.zeros(m + 1)
        plain, plain_rest = out.copy(), rest.copy()
        compiled(record(), a, out, rest)
        _compressed(record(), a, plain, plain_rest)
        n = np.count_nonzero(a > 0.0)
        assert rest[0] == n and np.array_equal(rest, plain_rest)
        assert np.array_equal(out[: 3 + n], plain[: 3 + n]) and np.array_equal(out[3 : 3 + n], a[a > 0.0])
        assert (out[3 + m :] == 7.0).all()


def _expanded(lanes, a, array, out):
    store(lanes, out, U(0), expand_load(array, U(3), load(lanes, a, U(0)) > 0.0))


@pytest.mark.parametrize("record", [each for each in WIDTHS if 2 <= each.m <= 8])
def test_expanding_reads_what_compressing_wrote(record, packs):
    compiled, m = kernel(_expanded).uncached, record.m
    for a in _cases(m):
        array, out, plain = np.full(m + 3, 7.0), np.ones(m), np.ones(m)
        compress_store(array, 3, a, a > 0.0)
        compiled(record(), a, array, out)
        _expanded(record(), a, array, plain)
        assert np.array_equal(out, plain) and np.array_equal(out, np.where(a > 0.0, a, 0.0))
