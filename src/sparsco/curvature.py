"""The conversion metric and its guard: from what a pass has gathered to one exactly sparse model.

A pass leaves the mean iterate ``w_bar``, the mean gradient ``g_bar`` over the same window, a diagonal ``H`` of mean
curvatures and a sample of the rows.  Each *candidate* minimises a model of the objective around ``w_bar``::

    <g, w> + 1/2 ||w - w_bar||_M^2 + psi(w)

with M a multiple of the identity (:func:`scalar`), diagonal (:func:`diagonal`) or the Hessian on the sample
(:func:`newton`).  No metric is safe alone, so a *guard* compares the candidates' objectives on the sample.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np

from .dispatch import U, kernel
from .losses import curvature, derivative, value
from .regularizers import soft, strength
from .reservoir import Sample, SampleRows


class Evidence(NamedTuple):
    """What one pass gathered about one model; ``g_bar`` and ``H`` are means over rows, without any penalty."""

    w_last: np.ndarray
    b_last: float
    w_bar: np.ndarray
    b_bar: float
    g_bar: np.ndarray
    gb_bar: float
    H: np.ndarray | None
    Hb: float
    n_window: int
    n_seen: int
    L_mean: float


class Choice(NamedTuple):
    """The model that the guard chose, its candidate's name and every candidate's estimated objective."""

    w: np.ndarray
    b: float
    name: str
    objectives: dict[str, float]


class _Local(NamedTuple):
    """The loss on rows R around (w, b): per row the derivative c and curvature h in the margin, each over |R|."""

    c: np.ndarray
    h: np.ndarray
    gradient: np.ndarray
    gradient_b: float
    diagonal: np.ndarray


@kernel
def _margins(indptr, indices, data, w, b):
    """<w, x> + b for every row."""
    p = np.empty(indptr.size - 1)
    for i in range(p.size):
        s = b
        for q in range(U(indptr[i]), U(indptr[i + 1])):
            s += data[q] * w[U(indices[q])]
        p[i] = s
    return p


@kernel
def _moments(indptr, indices, data, c, h, d):
    """sum_i c_i x_i and sum_i h_i x_i^2."""
    g, H = np.zeros(d), np.zeros(d)
    for i in range(c.size):
        ci, hi = c[i], h[i]
        for q in range(U(indptr[i]), U(indptr[i + 1])):
            j = U(indices[q])
            g[j] += ci * data[q]
            H[j] += hi * data[q] * data[q]
    return g, H


@kernel
def _screened(indptr, indices, data, place):
    """The rows restricted to the columns j with place[j] >= 0, and those renamed to their places."""
    start = np.zeros(indptr.size, np.int64)
    columns, values = np.empty(indices.size, np.uint32), np.empty(indices.size)
    to = U(0)
    for i in range(indptr.size - 1):
        for q in range(U(indptr[i]), U(indptr[i + 1])):
            at = place[U(indices[q])]
            columns[to], values[to] = at, data[q]
            to += U(at >= 0)
        start[i + 1] = to
    return start, columns[:to].copy(), values[:to].copy()


@kernel
def _transposed(start, columns, values, k):
    """CSR to CSC with k columns."""
    first = np.zeros(k + 1, np.int64)
    for q in range(columns.size):
        first[columns[q] + U(1)] += 1
    for j in range(k):
        first[j + 1] += first[j]
    end, rows, x = first[:-1].copy(), np.empty(columns.size, np.uint32), np.empty(columns.size)
    for i in range(start.size - 1):
        for q in range(U(start[i]), U(start[i + 1])):
            j = U(columns[q])
            to = U(end[j])
            rows[to], x[to] = i, values[q]
            end[j] += 1
    return first, rows, x


@kernel
def _gram(start, columns, x, h, k):
    """sum_i h_i x_i x_i^T with a last feature that is always 1, the intercept's; both triangles."""
    G = np.zeros((k + 1, k + 1))
    for i in range(h.size):
        G[k, k] += h[i]
        for a in range(U(start[i]), U(start[i + 1])):
            hx, row = h[i] * x[a], U(columns[a])
            G[k, row] += hx
            for b in range(U(start[i]), a + U(1)):
                G[row, U(columns[b])] += hx * x[b]
    for i in range(k + 1):  # a pair met as (i, j) in one row may have been met as (j, i) in another
        for j in range(i):
            G[i, j] += G[j, i]
            G[j, i] = G[i, j]
    return G


@kernel
def _descend_gram(G, q, w, pen, tol, max_epochs):
    """Coordinate descent on <q, w' - w> + 1/2 (w' - w)^T G (w' - w) + sum_j pen_j |w'_j|; w becomes w'.

    Sweeps over the nonzeros until they settle, checked by full sweeps; q is kept equal to the gradient at w.
    """
    full = True
    for _ in range(max_epochs):
        largest = 0.0
        for j in range(w.size):
            M = G[j, j]
            if M <= 0.0 or (w[j] == 0.0 and not full):
                continue
            v = w[j] * M - q[j]
            new = (v - min(max(v, -pen[j]), pen[j])) / M
            move = new - w[j]
            if move != 0.0:
                w[j] = new
                largest = max(largest, abs(move) * M)
                for i in range(w.size):
                    q[i] += move * G[j, i]
        if largest <= tol and full:
            break
        full = largest <= tol


@kernel
def _descend(first, rows, x, c, h, D, q, w, pen, tol, max_epochs):
    """The same with G = X^T diag(h) X + diag(D) left as columns: q is the gradient at the start, c its part in the
    margins.  For many columns."""
    k = w.size - 1
    M, hx, offset = D.copy(), np.empty(x.size), q.copy()
    M[k] += h.sum()
    offset[k] -= c.sum()
    for j in range(k):
        for p in range(U(first[j]), U(first[j + 1])):
            hx[p] = h[rows[p]] * x[p]
            M[j] += hx[p] * x[p]
            offset[j] -= c[rows[p]] * x[p]
    full = True
    for _ in range(max_epochs):
        largest = 0.0
        for j in range(k + 1):
            if M[j] <= 0.0 or (w[j] == 0.0 and not full):
                continue
            g = offset[j]
            if j < k:
                for p in range(U(first[j]), U(first[j + 1])):
                    g += x[p] * c[rows[p]]
            else:
                g += c.sum()
            v = w[j] * M[j] - g
            new = (v - min(max(v, -pen[j]), pen[j])) / M[j]
            move = new - w[j]
            if move != 0.0:
                w[j] = new
                offset[j] += move * D[j]
                largest = max(largest, abs(move) * M[j])
                if j < k:
                    for p in range(U(first[j]), U(first[j + 1])):
                        c[rows[p]] += move * hx[p]
                else:
                    for i in range(h.size):
                        c[i] += move * h[i]
        if largest <= tol and full:
            break
        full = largest <= tol


def _local(rows: SampleRows, loss: Any, w: np.ndarray, b: float) -> _Local:
    n = max(len(rows.targets), 1)
    p = _margins(rows.indptr, rows.indices, rows.data, w, b)
    with np.errstate(over="ignore"):
        c = rows.weights * derivative(loss, p, rows.targets) / n
        h = rows.weights * curvature(loss, p, rows.targets) / n
    gradient, diagonal = _moments(rows.indptr, rows.indices, rows.data, c, h, w.size)
    return _Local(c, h, gradient, c.sum(), diagonal)


def diagonal(evidence: Evidence, regularizer: Any, fit_intercept: bool) -> tuple[np.ndarray, float]:
    """M = 2 H + rho: S(w_bar - g / M, lam pen / M); a column without curvature and penalty becomes 0."""
    e, reg = evidence, regularizer
    M = 2.0 * e.H + reg.rho
    seen = M > 0.0
    w = np.zeros_like(e.w_bar)
    g = e.g_bar + reg.rho * e.w_bar
    w[seen] = soft(e.w_bar[seen] - g[seen] / M[seen], reg.lam * reg.penalties(w.size)[seen] / M[seen])
    b = e.b_bar - e.gb_bar / (2.0 * e.Hb) if fit_intercept and e.Hb > 0.0 else e.b_bar
    return w, b


def newton(
    evidence: Evidence, loss: Any, regularizer: Any, sample: Sample, fit_intercept: bool, tol=1e-4, epochs=(300,100), steps=None, gram=True,
) -> tuple[np.ndarray, float]:
    """Prox-Newton steps from w_bar on R, whose gradient and diagonal are corrected to those of the stream."""
    e, reg, (R, _, kappa) = evidence, regularizer, sample
    d, n = e.w_bar.size, len(R.targets)
    at = _local(R, loss, e.w_bar, e.b_bar)
    pen = reg.lam * reg.penalties(d)
    linear, linear_b = (1.0 - kappa) * (e.g_bar - at.gradient), (1.0 - kappa) * (e.gb_bar - at.gradient_b)
    D = (1.0 - kappa) * np.maximum(e.H - at.diagonal, 0.0)
    if reg.rho > 0.0: D+=e.L_mean/e.n_window
    g = at.gradient + linear + reg.rho * e.w_bar
    M = at.diagonal + D + reg.rho
    near = np.flatnonzero((np.abs(g) > 0.9 * pen) | ((e.w_bar != 0.0) & (np.abs(g - M * e.w_bar) > 0.5 * pen)))
    k = near.size
    place = np.full(d, -1, np.int32)
    place[near] = np.arange(k)
    start, columns, x = _screened(R.indptr, R.indices, R.data, place)
    def cat(v,b): return np.append(v[near],b)
    centre, linear, D, pen = cat(e.w_bar,e.b_bar), cat(linear,linear_b), cat(D,0.), cat(pen,0.)
    rho = np.append(np.full(k, reg.rho), 0.0)
    w = centre.copy()
    per_row = np.diff(start)
    if steps is None: steps=3 if kappa>=.5 else 1
    use = gram and k <= 1500 and (per_row**2).sum() < 200 * x.size
    newton.info=(k,x.size,int((per_row**2).sum()//2),use); newton.T=T=[time.perf_counter()]
    for _ in range(steps):
        p = _margins(start, columns, x, w, w[k])
        with np.errstate(over="ignore"):
            c = R.weights * derivative(loss, p, R.targets) / n
            h = R.weights * np.maximum(curvature(loss, p, R.targets), 1e-3) / n
        q = np.append(_moments(start,columns,x,c,h,k)[0], c.sum()) + linear + D * (w - centre) + rho * w
        T.append(time.perf_counter())
        old=w.copy()
        if use:
            G = _gram(start, columns, x, h, k)
            G[np.arange(k),np.arange(k)] += D[:k] + rho[:k]
            T.append(time.perf_counter())
            if not fit_intercept: G[k,k]=0.
            _descend_gram(G, q, w, pen, tol * reg.lam, epochs[0])
        else:
            first, rows, xt = _transposed(start, columns, x, k)
            T.append(time.perf_counter())
            _descend(first, rows, xt, c, h, D + rho, q, w, pen, tol * reg.lam, epochs[1])
        T.append(time.perf_counter())
        if steps>1:
            pn=_margins(start,columns,x,w,w[k])
            def F(t):
                u=old+t*(w-old)
                return (R.weights*value(loss,p+t*(pn-p),R.targets)).sum()/n+linear@u+.5*(D*(u-centre)**2).sum()+.5*(rho*u*u).sum()+(pen*abs(u)).sum()
            t=1.; f0=F(0.)
            while t>1e-3 and F(t)>f0: t*=.5
            if t<1: w=old+t*(w-old)
        T.append(time.perf_counter())
    out = np.zeros(d); out[near] = w[:k]
    return out, w[k]


def losses_on(rows: SampleRows, loss: Any, w: np.ndarray, b: float) -> np.ndarray:
    """The weighted loss of each row."""
    return rows.weights * value(loss, _margins(rows.indptr, rows.indices, rows.data, w, b), rows.targets)


def estimate(sample: Sample, loss: Any, regularizer: Any, w: np.ndarray, b: float) -> float:
    """kappa f_R + (1 - kappa) f_V + psi(w): the objective over the rows seen, exact while R holds them all."""
    on_r, on_v = (losses_on(rows, loss, w, b) for rows in sample[:2])
    f_r, f_v = (f.mean() if f.size else 0.0 for f in (on_r, on_v))
    return float(sample.kappa * f_r + (1.0 - sample.kappa) * f_v + strength(regularizer, w))
