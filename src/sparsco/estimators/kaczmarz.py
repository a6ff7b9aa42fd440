"""Sparse solutions of huge noisy linear systems A w = y, one row at a time: the sparse Kaczmarz method.

It is mirror descent with the map Psi(w) = lam ||w||_1 + ||w||^2 / 2 on the rows in random order, followed by any
conversion.  An iteration costs O(nonzeros of a row), the memory is O(columns).

>>> import numpy as np
>>> rng = np.random.default_rng(0)
>>> A, truth = rng.standard_normal((200, 50)), np.zeros(50)
>>> truth[[3, 7]] = 2.0, -1.0
>>> solution = kaczmarz(A, A @ truth, lam=1.0, conversion="last", iterations=20_000, random_state=0)
>>> np.flatnonzero(solution.w).tolist(), bool(solution.residual < 1e-6)
([3, 7], True)
"""

from __future__ import annotations

import numbers
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice, zip_longest
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import scipy.sparse as sp

from ..conversions import CONVERSIONS
from ..data.inspection import sound
from ..data.randomness import seed_of
from ..data.rows import Matrix, as_matrix, check_numbers, squared_norms
from ..engine.run import DivergenceError, Run
from ..losses import Squared
from ..mirrors import SparseKaczmarz
from ..optimizers import MirrorDescent
from ..penalties import L1
from ..steps import Constant
from ..util.progress import Bar
from .part_names import named

_CHUNK = 1 << 16
_ENDED: Any = object()
_SLOW = 2.0
"""The number of seconds after which progress is shown."""


class Solution(NamedTuple):
    """The result of :func:`kaczmarz`.

    ``w`` are the weights and ``iterations`` the number of rows used.  ``residual`` is ||A w - y|| / ||y||, for an
    iterator of the last rows read.  ``converged`` is True if ``tol`` was reached; ``report`` is the report of the
    conversion.
    """

    w: np.ndarray
    iterations: int
    residual: float
    converged: bool
    report: dict[str, Any]


def kaczmarz(
    A: Any,
    y: Any,
    lam: float,
    *,
    eps: float = 0.0,
    conversion: Any = "ocmdi",
    step: float | str = 0.5,
    iterations: int | None = None,
    tol: float | None = None,
    start: Any = None,
    n_features: int | None = None,
    random_state: int = 0,
    progress: Callable[[float, float | None], None] | None = None,
) -> Solution:
    """Return a sparse solution of the linear system A w = y; a larger ``lam`` gives fewer nonzero weights.

    Parameters
    ----------
    A : scipy sparse matrix, dense array, lists, table, or an iterator of rows
        A row of an iterator is a dense vector or a pair (columns, values), for which ``n_features`` is needed.  The
        rows of a matrix are drawn with replacement.  An iterator is read once, in its order.
    y : array, or an iterable of targets
        One number for each row.
    lam : float
        The weight of the L1 norm in the mirror map.
    eps : float
        Above 0, the corner of the map is rounded; no weight is exactly zero then.
    conversion : str or a conversion record
        The conversion of the iterates into the solution: "last", "average", "weighted", "suffix", "random",
        "optimal-sl", "scmdi" or "ocmdi".  The others of :mod:`sparsco.conversions` need epochs or sums of gradients.
    step : float or "row"
        A number is divided by the largest squared norm of a row (for an iterator: of its first 65,536 rows); the result
        is the constant step.  "row" steps by one over the squared norm of each row, which is fastest for a system
        without noise.
    iterations : int, optional
        The number of rows to use.  The default is five times the rows of a matrix, or all rows of an iterator.
    tol : float, optional
        The relative residual at which to stop; it is computed after every pass (65,536 rows of an iterator).
    start : array, optional
        The weights to start from, one for each column.
    n_features : int, optional
        The number of columns, for rows that are pairs.
    random_state : int, RandomState or None
        The seed of the draws.
    progress : callable, optional
        A function of the rows used and the total (None if unknown), in place of a progress bar.

    Returns
    -------
    Solution
        The weights ``w``, and ``iterations``, ``residual``, ``converged`` and ``report``.

    Raises
    ------
    ValueError
        If a parameter or the shape of A or y is wrong, or if there are no rows or all rows are zero.
    DivergenceError
        If the iterates grow without bound, which a smaller ``step`` avoids.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsco import kaczmarz
    >>> rng = np.random.default_rng(0)
    >>> A, truth = rng.standard_normal((200, 50)), np.zeros(50)
    >>> truth[[3, 7]] = 2.0, -1.0
    >>> solution = kaczmarz(A, A @ truth, lam=1.0, conversion="last", iterations=20_000)
    >>> np.flatnonzero(solution.w).tolist()
    [3, 7]
    """
    mirror = SparseKaczmarz(float(lam), float(eps))
    mirror.check()
    _check(step, iterations, tol)
    record = named("conversion", conversion, CONVERSIONS)
    seed = _seed(random_state)
    chunks = _chunks_of(A, y, iterations, n_features, seed, every_pass=tol is not None)
    first = next(chunks, None)
    if first is None:
        raise ValueError("A has no rows: there is nothing to solve.")
    d, largest = first.matrix.d, float(first.norms.max(initial=0.0))
    if largest == 0.0:
        raise ValueError("all rows of A that were looked at are zero: there is nothing to solve.")
    size = Constant(1e300, cap=True) if step == "row" else Constant(float(step) / largest, cap=False)
    run = Run(
        Squared(),
        L1(0.0),
        MirrorDescent(mirror),
        record,
        size,
        d=d,
        intercept=False,
        seed=seed,
        initial=None if start is None else (_vector(start, d), np.zeros(1)),
    )
    if first.total is not None:
        run.set_stream_length(first.total)
    last, done, reached = _learn(run, chain([first], chunks), step, tol, progress)
    answer = run.finish()
    w = answer.w[:, 0] + 0.0  # no negative zeros
    report = dict(answer.report)
    if step != "row":
        report["step"] = float(step) / largest
    return Solution(w, done, _residual(last, w) if reached is None else reached, reached is not None, report)


def _chunks_of(
    A: Any, y: Any, iterations: int | None, n_features: int | None, seed: int, every_pass: bool
) -> Iterator[_Chunk]:
    """Return the rows to learn: those of an iterator in their order, those of a matrix as they are drawn."""
    if isinstance(A, Iterator) or (isinstance(A, list | tuple) and n_features is not None):
        return _in_order(iter(A), iter(y), iterations, n_features)
    if isinstance(A, Matrix | list | tuple) or sp.issparse(A) or isinstance(A, ArrayLike):
        return _drawn(A, y, iterations, seed, every_pass)
    raise ValueError(f"A is {type(A).__name__}: it must be a matrix, an array or an iterator of rows.")


def _learn(
    run: Run,
    chunks: Iterable[_Chunk],
    step: Any,
    tol: float | None,
    progress: Callable[[float, float | None], None] | None,
) -> tuple[_Chunk, int, float | None]:
    """Learn the rows, until the residual is at most ``tol`` after a pass.

    Return the last chunk, the number of rows, and that residual, None if it was not reached.
    """
    bar, done = Bar("kaczmarz"), 0
    show = progress or bar.show_late(_SLOW)
    try:
        for chunk in chunks:
            try:
                run.feed(chunk.matrix, chunk.y, order=chunk.order)
            except DivergenceError as error:
                which = " (over the largest of the first rows)" if chunk.total is None else ""
                raise DivergenceError(
                    f"the iterates grew without bound by row {done + len(chunk.order)}: choose a smaller step, now "
                    f"{step}{which}."
                ) from error
            done += len(chunk.order)
            show(done, chunk.total)
            if tol is not None and chunk.ends_pass:
                residual = _residual(chunk, run.finish().w[:, 0])
                if residual <= tol:
                    return chunk, done, residual
    finally:
        bar.close()
    return chunk, done, None


@runtime_checkable
class ArrayLike(Protocol):
    """An object of any package that makes an array of itself."""

    def __array__(self) -> np.ndarray: ...


class _Chunk(NamedTuple):
    """Rows to be learned, with the facts that a pass needs.

    ``norms`` are the squared norms of all rows in ``matrix``.  ``total`` is the number of rows in all, if known.
    ``ends_pass`` is True if a pass ends with these rows.
    """

    matrix: Matrix
    y: np.ndarray
    order: np.ndarray
    norms: np.ndarray
    total: int | None
    ends_pass: bool


def _drawn(A: Any, y: Any, iterations: int | None, seed: int, every_pass: bool) -> Iterator[_Chunk]:
    if isinstance(A, list | tuple):
        A = np.array(A, dtype=np.float64)
    matrix, y = as_matrix(A), np.asarray(y, dtype=np.float64)
    n = len(matrix)
    if y.shape != (n,):
        raise ValueError(f"A has {n} rows and y the shape {y.shape}; y must have one number for each row.")
    check_numbers(y, "y")
    norms = squared_norms(matrix.indptr, matrix.data, np.arange(n))
    total, rng = 5 * n if iterations is None else int(iterations), np.random.default_rng(seed)
    done = 0
    while done < total and n:
        count = min(_CHUNK, total - done, n - done % n if every_pass else total)
        done += count
        yield _Chunk(matrix, y, rng.integers(n, size=count), norms, total, every_pass and done % n == 0)


def _in_order(rows: Iterator[Any], targets: Iterator[Any], iterations: int | None, d: int | None) -> Iterator[_Chunk]:
    left = iterations
    while left is None or left > 0:
        count = _CHUNK if left is None else min(left, _CHUNK)
        pairs = list(islice(zip_longest(rows, targets, fillvalue=_ENDED), count))
        if not pairs:
            return
        if pairs[-1][0] is _ENDED or pairs[-1][1] is _ENDED:
            short, long = ("A", "y") if pairs[-1][0] is _ENDED else ("y", "A")
            raise ValueError(f"{short} ended before {long}: there must be a target for each row.")
        matrix = _stacked([row for row, _ in pairs], d)
        d, y = matrix.d, np.array([target for _, target in pairs], dtype=np.float64)
        check_numbers(y, "y")
        order = np.arange(len(pairs))
        left = None if left is None else left - len(pairs)
        yield _Chunk(matrix, y, order, squared_norms(matrix.indptr, matrix.data, order), iterations, True)


def _stacked(rows: list[Any], d: int | None) -> Matrix:
    if not (isinstance(rows[0], tuple) and len(rows[0]) == 2):
        sparse = sp.issparse(rows[0])
        matrix = as_matrix(
            sp.vstack([sound(row) for row in rows])
            if sparse
            else np.stack([np.asarray(row, dtype=np.float64) for row in rows])
        )
        if d is not None and matrix.d != d:
            raise ValueError(f"a row has {matrix.d} columns; those before it, or n_features, {d}.")
        return matrix
    if d is None:
        raise ValueError("rows that are pairs (columns, values) need n_features, the number of columns.")
    counts = [len(columns) for columns, _ in rows]
    columns = np.concatenate([np.asarray(columns, dtype=np.int64) for columns, _ in rows])
    values = np.concatenate([np.asarray(values, dtype=np.float64) for _, values in rows])
    if columns.size and not 0 <= columns.min() <= columns.max() < d:
        raise ValueError(f"a row has the column {int(columns.max())}; with n_features={d} they are 0 to {d - 1}.")
    return as_matrix(sp.csr_array((values, columns, np.append(0, np.cumsum(counts))), shape=(len(rows), d)))


def _residual(chunk: _Chunk, w: np.ndarray) -> float:
    """Return ||A w - y|| / ||y||, or ||A w - y|| if y is zero."""
    size = float(np.linalg.norm(chunk.y))
    return float(np.linalg.norm(chunk.matrix.to_scipy() @ w - chunk.y)) / (size if size > 0.0 else 1.0)


def _seed(random_state: Any) -> int:
    if isinstance(random_state, numbers.Integral):
        return int(random_state)
    return seed_of(random_state)


def _vector(start: Any, d: int) -> np.ndarray:
    w = np.asarray(start, dtype=np.float64)
    if w.shape != (d,):
        raise ValueError(f"start has the shape {w.shape}; it must have a number for each of {d} columns.")
    check_numbers(w, "start")
    return w[:, None]


def _check(step: Any, iterations: Any, tol: Any) -> None:
    is_number = isinstance(step, numbers.Real) and not isinstance(step, bool) and 0.0 < float(step) < np.inf
    if not (is_number or step == "row"):
        raise ValueError(f"step={step!r}: it must be a positive number, at most 2 to converge, or 'row'.")
    if iterations is not None and (not isinstance(iterations, numbers.Integral) or int(iterations) < 1):
        raise ValueError(f"iterations={iterations!r}: it must be a whole number of at least 1.")
    if tol is not None and not (isinstance(tol, numbers.Real) and float(tol) >= 0.0):
        raise ValueError(f"tol={tol!r}: it must be a number of at least 0.")
