"""Rows as a reservoir takes them."""

from __future__ import annotations

import numpy as np


def csr(dense):
    rows, columns = np.nonzero(dense)
    indptr = np.zeros(len(dense) + 1, np.int64)
    np.cumsum(np.bincount(rows, minlength=len(dense)), out=indptr[1:])
    return indptr[:-1], indptr[1:], columns.astype(np.uint32), dense[rows, columns]


def lanes(y, weights):
    """Targets and weights as the reservoir asks for them."""
    return lambda kept: (y[kept].reshape(len(kept), -1), weights[kept].reshape(len(kept), -1))


def offer(reservoir, X, y, cuts=(), weights=None, times=None):
    weights = np.ones_like(y) if weights is None else weights
    for a, b in zip((0, *cuts), (*cuts, len(X)), strict=True):
        own = () if times is None else (times[a:b],)
        reservoir.offer(*csr(X[a:b]), lanes(y[a:b], weights[a:b]), *own)
    return reservoir
