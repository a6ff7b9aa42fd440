"""The vocabulary of kernels: compiled, at every width, it computes what plain Python computes, to the bit."""

from __future__ import annotations

import decimal
import itertools
import math
import pickle
from typing import NamedTuple

import numba
import numpy as np
import pytest

from sparsco import losses
from sparsco.jit import lanes as vocabulary
from sparsco.jit.dispatch import U, cast, kernel
from sparsco.jit.lanes import (
    SINGLE,
    WIDTHS,
    One,
    any_lane,
    copysign,
    exp,
    floor,
    gather,
    gather_fields,
    lane,
    lanes_for,
    load,
    load_row,
    max_lane,
    maximum,
    minimum,
    n_float64,
    packed,
    signed,
    sqrt,
    store,
    store_float64,
    sum_lanes,
    tiny,
    unpacked,
    where,
    width,
)
from sparsco.losses import curvature, derivative
from sparsco.penalties import ElasticNet, feature_weight, prox

MANY = WIDTHS[1:]
EDGES = [0.0, -0.0, 1.0, -1.0, 0.5, -3.25, 1e-300, -5e-324, 1.7e308, -1.7e308, math.inf, -math.inf, math.nan]


def _pairs() -> tuple[np.ndarray, np.ndarray]:
    """All pairs of edge cases and some hundred random ones: 640, a multiple of every width."""
    rng = np.random.default_rng(0)
    a, b = np.array(list(itertools.product(EDGES, EDGES))).T
    more = 640 - len(a)
    a = np.append(a, rng.normal(size=more) * 10.0 ** rng.integers(-8, 9, more))
    b = np.append(b, rng.normal(size=more) * 10.0 ** rng.integers(-8, 9, more))
    mixed = rng.permutation(640)  # edge cases beside ordinary numbers
    return a[mixed], b[mixed]


def _same(left: np.ndarray, right: np.ndarray) -> bool:
    """Equal bits; NaN is NaN, whatever its bits."""
    left, right = np.broadcast_arrays(left, right)
    return np.array_equal(left, right, equal_nan=True) and np.array_equal(
        np.signbit(left[left == left]), np.signbit(right[right == right])
    )


NAMES = (
    "add sub mul div axpy neg abs min max where_lt where_number signed copysign sqrt where_le where_gt where_ge "
    "where_eq where_ne and or any lane lane_of_mask integers single iadd phi rounded total largest exp"
).split()


@kernel
def everything(lanes, a, b, single, out):
    """One row of ``out`` for each name; arrays begin at an odd place, so nothing is aligned to a vector."""
    m, one, number = U(width(lanes)), U(1), 2.5
    n = (U(a.size) - one) // m
    for i in range(n):
        at = one + U(i) * m
        x, y = load(lanes, a, at), load(lanes, b, at)
        f = at
        store(lanes, out, f, x + y)
        f += U(a.size)
        store(lanes, out, f, x - y)
        f += U(a.size)
        store(lanes, out, f, x * y)
        f += U(a.size)
        store(lanes, out, f, x / y)
        f += U(a.size)
        store(lanes, out, f, x * y + (y - x * number))
        f += U(a.size)
        store(lanes, out, f, -x)
        f += U(a.size)
        store(lanes, out, f, abs(x))
        f += U(a.size)
        store(lanes, out, f, minimum(x, y))
        f += U(a.size)
        store(lanes, out, f, maximum(x, y))
        f += U(a.size)
        store(lanes, out, f, where(x < y, x, y))
        f += U(a.size)
        store(lanes, out, f, where(x < 1.0, 1.0, 0.0 * y))
        f += U(a.size)
        store(lanes, out, f, signed(x, y))
        f += U(a.size)
        store(lanes, out, f, copysign(x, y))
        f += U(a.size)
        store(lanes, out, f, sqrt(x))
        f += U(a.size)
        store(lanes, out, f, where(x <= y, 1.0, 0.0))
        f += U(a.size)
        store(lanes, out, f, where(x > y, 1.0, 0.0))
        f += U(a.size)
        store(lanes, out, f, where(x >= y, 1.0, 0.0))
        f += U(a.size)
        store(lanes, out, f, where(x == y, 1.0, 0.0))
        f += U(a.size)
        store(lanes, out, f, where(x != y, 1.0, 0.0))
        f += U(a.size)
        store(lanes, out, f, where((x < y) & (y > 0.0), 1.0, 0.0))
        f += U(a.size)
        store(lanes, out, f, where((x < y) | (y > 0.0), 1.0, 0.0))
        f += U(a.size)
        store(lanes, out, f, where(any_lane((x > y) & (y > 3.0)), x, 7.0))
        f += U(a.size)
        store(lanes, out, f, 0.0 * x + lane(y, m - one))
        f += U(a.size)
        store(lanes, out, f, where(lane(x < y, m - one), x, y))
        f += U(a.size)
        store(lanes, out, f, 1 - x * 2)
        f += U(a.size)
        store(lanes, out, f, x * single[at] + minimum(y, single[at]))
        f += U(a.size)
        summed = x + 0.0
        summed += y
        summed -= number
        summed *= x
        summed /= 3.0
        store(lanes, out, f, summed)
        f += U(a.size)
        summed = 0.0
        for _ in range(2):
            summed = summed + x
        store(lanes, out, f, summed)
        f += U(a.size)
        store(lanes, single, at, load(lanes, single, at) + x)
        store(lanes, out, f, load(lanes, single, at))
        f += U(a.size)
        store(lanes, out, f, 0.0 * y + sum_lanes(x))
        f += U(a.size)
        store(lanes, out, f, 0.0 * y + max_lane(x))
        f += U(a.size)
        store(lanes, out, f, exp(x))


def _run(function, lanes) -> dict[str, np.ndarray]:
    a, b = (np.append(0.0, values) for values in _pairs())
    single = np.random.default_rng(1).normal(size=a.size).astype(np.float32)
    out = np.full((len(NAMES), a.size), 99.0)
    with np.errstate(all="ignore"):
        function(lanes, a, b, single, out.reshape(-1))
    assert (out[:, 0] == 99.0).all()
    return dict(zip(NAMES, out[:, 1:], strict=True))


@pytest.fixture(scope="module")
def one() -> dict[str, np.ndarray]:
    """Compiled, one lane."""
    return _run(everything.uncached, One())


@pytest.mark.parametrize("record", WIDTHS)
def test_compiled_is_plain_python(record):
    compiled, plain = _run(everything.uncached, record()), _run(everything.py_func, record())
    for name in NAMES[:-1]:
        assert _same(compiled[name], plain[name]), name
    e, known = compiled["exp"], plain["exp"]
    usual = np.isfinite(known) & (known != 0.0)
    assert _same(e[~usual], known[~usual])
    assert (abs(e[usual] - known[usual]) <= 2.0 * np.spacing(known[usual])).all()


@pytest.mark.parametrize("record", MANY)
def test_a_lane_has_the_bits_of_a_run_on_its_own(record, one):
    # lanes that look at each other, or at one number
    crossing = {"any", "lane", "lane_of_mask", "single", "total", "largest"}
    many = _run(everything.uncached, record())
    assert all(_same(many[name], one[name]) for name in NAMES if name not in crossing)
    assert not any(_same(many[name], one[name]) for name in crossing)


def test_plain_python_against_numpy(one):
    """The meanings themselves, said once more in NumPy's words."""
    a, b = _pairs()
    with np.errstate(all="ignore"):
        known = {
            "add": a + b,
            "div": a / b,
            "axpy": a * b + (b - a * 2.5),
            "neg": -a,
            "abs": np.abs(a),
            "where_number": np.where(a < 1.0, 1.0, 0.0 * b),
            "signed": np.where(b != 0.0, np.copysign(a, b), 0.0),
            "copysign": np.copysign(a, b),
            "sqrt": np.sqrt(a),
            "where_ne": (a != b) * 1.0,
            "and": ((a < b) & (b > 0.0)) * 1.0,
            "or": ((a < b) | (b > 0.0)) * 1.0,
            "phi": 0.0 + a + a,
            "iadd": (a + b - 2.5) * a / 3.0,
        }
        smaller, larger = np.minimum(a, b), np.maximum(a, b)
    for name, values in known.items():
        assert _same(one[name], values), name
    for name, values in ("min", smaller), ("max", larger):
        undefined = np.isnan(a) | np.isnan(b)
        assert np.array_equal(one[name][~undefined], values[~undefined])
        assert _same(one[name][undefined], b[undefined])


@kernel
def exponential(lanes, a, out):
    m = U(n_float64(lanes))
    for i in range(U(a.size) // m):
        store(lanes, out, U(i) * m, exp(load(lanes, a, U(i) * m)))


def _exp(values) -> np.ndarray:
    out = np.empty(len(values))
    exponential.uncached(One(), np.asarray(values, dtype=float), out)
    return out


def test_exp_is_within_one_unit_in_the_last_place():
    rng = np.random.default_rng(2)
    x = np.concatenate([rng.uniform(-1, 1, 2000), rng.uniform(-708, 709.7, 2000), rng.normal(size=500) * 1e-3])
    with decimal.localcontext(prec=40):
        known = [decimal.Decimal(v).exp() for v in x]
        error = [
            abs(decimal.Decimal(e) - k) / decimal.Decimal(np.spacing(float(k)))
            for e, k in zip(_exp(x), known, strict=True)
        ]
    assert max(error) <= 1


def test_exp_at_the_edges():
    highest = 709.782712893384  # the last one below infinity
    assert _same(
        _exp([math.nan, math.inf, -math.inf, 0.0, -0.0, np.nextafter(highest, 800), 1e308, -745.2, -1e308, 5e-324]),
        np.array([math.nan, math.inf, 0.0, 1.0, 1.0, math.inf, math.inf, 0.0, 0.0, 1.0]),
    )
    assert np.isfinite(_exp([highest])).all()
    tiny = np.linspace(-745, -709, 1000)
    assert (abs(_exp(tiny) - np.exp(tiny)) <= 5e-324).all()


@kernel
def parts(lanes, loss, penalty, p, y, out):
    m, n = U(width(lanes)), U(p.size)
    for i in range(n // m):
        at = U(i) * m
        margin, target = load(lanes, p, at), load(lanes, y, at)
        store(lanes, out, at, derivative(loss, margin, target))
        store(lanes, out, n + at, curvature(loss, margin, target))
        store(lanes, out, n + n + at, prox(penalty, margin, feature_weight(penalty, at) * 0.75))
        store(lanes, out, n + n + n + at, prox(penalty, margin, abs(target)))


LOSSES = [part() for part in vars(losses).values() if isinstance(part, type) and issubclass(part, tuple)]


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
def test_losses_and_prox_on_lanes(loss):
    loss = cast(loss)
    rng = np.random.default_rng(3)
    kinks = np.array([1.0, -1.0, 0.75, -0.75, 0.0, -0.0, np.nextafter(1.0, 2.0), 800.0, -800.0, 1e-300, 0.5, -0.5])
    p = np.concatenate([kinks, rng.normal(size=52)])
    y = np.where(rng.random(64) < 0.5, -1.0, 1.0)
    runs = []
    for function, record in itertools.product((parts.uncached, parts.py_func), (One(), lanes_for(8))):
        runs.append(np.empty(4 * 64))
        with np.errstate(invalid="ignore"):
            function(record, loss, ElasticNet(0.1, 0.0), p, y, runs[-1])
    compiled, wide, plain, plain_wide = runs
    if not loss.couples:
        assert _same(compiled, wide)
        assert _same(plain, plain_wide)
    # one exp (a softmax: and sums of eight; Tweedie: two), one sum, a quotient
    has_exp = isinstance(loss, losses.Logistic | losses.Multinomial | losses.Poisson | losses.Gamma | losses.Tweedie)
    tolerance = 8.0 * np.spacing(1.0) if has_exp else 0.0
    np.testing.assert_allclose(compiled, plain, rtol=tolerance, atol=0.0)
    np.testing.assert_allclose(wide, plain_wide, rtol=tolerance, atol=tolerance if loss.couples else 0.0)


@pytest.mark.parametrize("m", [1, 2, 3, 5, 8, 13])
def test_reductions_of_arrays(m):
    a = np.random.default_rng(m).normal(size=(7, m))
    np.testing.assert_allclose(sum_lanes(a), a.sum(1, keepdims=True), rtol=1e-13)
    assert np.array_equal(max_lane(a), a.max(1, keepdims=True))
    assert sum_lanes(2.5) == max_lane(2.5) == 2.5


def test_a_loaded_value_is_not_a_view():
    @kernel
    def swap(lanes, a):
        m = U(width(lanes))
        first, second = load(lanes, a, U(0)), load(lanes, a, m)
        store(lanes, a, U(0), second)
        store(lanes, a, m, first)

    for record in (One(), lanes_for(4)):
        for function in (swap.py_func, swap.uncached):
            a = np.arange(2.0 * width(record))
            function(record, a)
            assert a.tolist() == np.roll(np.arange(2.0 * width(record)), width(record)).tolist()


@kernel
def extremes(a, b):
    return minimum(a, b), maximum(a, b)


@pytest.mark.parametrize("kind", [np.int64, np.uint64])
def test_of_whole_numbers_a_whole_number(kind):
    large = np.iinfo(kind).max  # not a float64
    small = np.iinfo(kind).min
    for function in (extremes.uncached, extremes.py_func):
        assert function(kind(large), kind(large - 1)) == (large - 1, large)
        assert function(kind(small), kind(large)) == (small, large)


def test_lanes_for_rounds_up():
    rounded = {1: 1, 2: 2, 3: 4, 5: 8, 8: 8, 9: 16, 17: 32, 32: 32, 33: 64, 65: 128, 128: 128}
    assert {m: width(lanes_for(m)) for m in rounded} == rounded
    assert {m: width(lanes_for(m, single=True)) for m in rounded} == rounded | {1: 2}
    with pytest.raises(ValueError, match="129 models do not fit into 128 lanes"):
        lanes_for(129)


@pytest.mark.parametrize("record", WIDTHS + SINGLE)
def test_records_travel(record):
    assert pickle.loads(pickle.dumps(record())) == record()
    assert type(pickle.loads(pickle.dumps(record()))) is record is getattr(vocabulary, record.__name__)


def test_what_is_not_flat_is_refused():
    @kernel
    def first(lanes, a):
        return load(lanes, a, U(0))

    for wrong in (np.zeros((2, 2)), np.zeros(4)[::2], np.zeros(2, np.int64)):
        with pytest.raises(numba.TypingError):
            first.uncached(One(), wrong)


# ---- lanes of float32 ------------------------------------------------------------------------------------------------

SINGLE_NAMES = (
    "add sub mul div neg abs min max where numbers signed sqrt floor and lane total largest tiny gather exp".split()
)


@kernel
def single(lanes, a, b, table, out):
    """One row of ``out`` for each name; a number that meets lanes is rounded first."""
    m, number, size = U(n_float64(lanes)), 0.1, U(a.size)
    for i in range(size // m):
        at = U(i) * m
        x, y, f = load(lanes, a, at), load(lanes, b, at), at
        store(lanes, out, f, x + y)
        f += size
        store(lanes, out, f, x - y * number)
        f += size
        store(lanes, out, f, x * y)
        f += size
        store(lanes, out, f, x / y)
        f += size
        store(lanes, out, f, -x)
        f += size
        store(lanes, out, f, abs(x))
        f += size
        store(lanes, out, f, minimum(x, y))
        f += size
        store(lanes, out, f, maximum(x, number))
        f += size
        store(lanes, out, f, where(x < y, x, number))
        f += size
        store(lanes, out, f, where(x >= y, 0.3, 0.1))
        f += size
        store(lanes, out, f, signed(x, y))
        f += size
        store(lanes, out, f, sqrt(x))
        f += size
        store(lanes, out, f, floor(x))
        f += size
        store(lanes, out, f, where((x < y) & (y > 0.0), 1.0, 0.0))
        f += size
        store(lanes, out, f, 0.0 * x + lane(y, 1) * number)
        f += size
        store(lanes, out, f, 0.0 * x + sum_lanes(y))
        f += size
        store(lanes, out, f, 0.0 * x + max_lane(y))
        f += size
        store(lanes, out, f, x / tiny(x))
        f += size
        store(lanes, out, f, gather(table, minimum(abs(floor(y)), 2.0)))
        f += size
        store(lanes, out, f, exp(x))


def _single(function, record) -> dict[str, np.ndarray]:
    with np.errstate(all="ignore"):
        a, b = (packed(record, values) for values in _pairs())
        out = np.zeros((len(SINGLE_NAMES), a.size))
        function(record, a, b, np.array([3.0, 0.1, 7.0]), out.reshape(-1))
    return dict(zip(SINGLE_NAMES, unpacked(record, out), strict=True))


@pytest.mark.parametrize("record", [SINGLE[0](), SINGLE[3]()], ids=lambda record: type(record).__name__)
def test_single_lanes_are_plain_python(record):
    compiled, plain = _single(single.uncached, record), _single(single.py_func, record)
    assert n_float64(record) == width(record) // 2
    for name in SINGLE_NAMES[:-1]:
        assert compiled[name].dtype == np.float32
        assert _same(compiled[name], plain[name]), name
    e, known = compiled["exp"], plain["exp"]
    usual = np.isfinite(known) & (known != 0.0)
    assert _same(e[~usual], known[~usual])
    assert (abs(e[usual] - known[usual]) <= 2.0 * np.spacing(known[usual])).all()


def test_single_exp_is_within_one_unit_in_the_last_place():
    x = np.concatenate([np.linspace(-1.0, 1.0, 4000), np.linspace(-104.0, 88.72, 4000)]).astype(np.float32)
    out = np.empty(len(x) // 2)
    exponential.uncached(SINGLE[0](), x.view(np.float64), out)
    known = np.exp(x.astype(np.float64))
    unit = np.spacing(known.astype(np.float32)).astype(np.float64)
    assert (abs(out.view(np.float32) - known) <= unit).all()
    x[:4] = 88.8, 200.0, -105.0, -300.0
    exponential.uncached(SINGLE[0](), x.view(np.float64), out)
    assert out.view(np.float32)[:4].tolist() == [math.inf, math.inf, 0.0, 0.0]


class Some(NamedTuple):
    """Fields to fetch, neither neighbours nor in order of their halves."""

    fields = (6, 0, 5, 4)


@kernel
def fetched(lanes, array, places, which, out):
    a, b, c, d = gather_fields(array, load(lanes, places, U(0)), which)
    m = U(n_float64(lanes))
    store(lanes, out, U(0), a)
    store(lanes, out, m, b)
    store(lanes, out, m + m, c)
    store(lanes, out, m + m + m, d)


@pytest.mark.parametrize("m", [1, 2, 4, 8, 32])
def test_fields_of_stretches(m):
    rng = np.random.default_rng(m)
    array, places = rng.normal(size=(25, 4)), rng.integers(0, 93, m).astype(np.float64)
    places[-1] = 92.0  # the last stretch
    known = array.ravel()[places.astype(int) + np.array(Some.fields)[:, None]]
    for function in (fetched.uncached, fetched.py_func):
        out = np.zeros(4 * m)
        function(lanes_for(m), array, places, Some(), out)
        assert np.array_equal(out.reshape(4, m), known)


@kernel
def copied(lanes, a, column, out):
    for k in range(U(a.size) // U(n_float64(lanes))):
        store_float64(lanes, out, U(k) * U(width(lanes)), load_row(lanes, a, k) + load_row(lanes, column, k))


@pytest.mark.parametrize("record", [lanes_for(4), SINGLE[1]()], ids=lambda record: type(record).__name__)
def test_values_by_row_or_one_for_all(record):
    values, column = np.random.default_rng(4).normal(size=(6, 4)), np.arange(6.0)[:, None] / 7.0
    kind = np.float32 if type(record) in SINGLE else np.float64
    known = values.astype(kind) + column.astype(kind)
    for function in (copied.uncached, copied.py_func):
        out = np.zeros(24)
        function(record, packed(record, values).ravel(), column, out)
        assert np.array_equal(out.reshape(6, 4), known)


def test_float32_memory_is_refused():
    @kernel
    def first(lanes, a):
        return load(lanes, a, U(0))

    with pytest.raises(numba.TypingError):
        first.uncached(SINGLE[0](), np.zeros(4, np.float32))
