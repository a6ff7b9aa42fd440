"""Checks for parts, ours or yours: does this loss, penalty, step rule, conversion or optimizer keep its contract?

>>> from sparsco import check_part
>>> from sparsco.losses import Logistic
>>> check_part(Logistic(), compiled=False)
['fields', 'convex', 'derivative', 'curvature', 'learned as written']

The same checks run over every part of the library in its own tests.  docs/your-own-parts.md tells how to write one.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..conversions.averaging import Average, Last
from ..data.rows import as_matrix
from ..engine.run import Run
from ..jit.dispatch import kernel, plain_python
from ..jit.lanes import lanes_for, load, store
from ..losses import Logistic, curvature, derivative, value
from ..mirrors import divergence, to_dual, to_primal
from ..optimizers import FOBOS, NFTRL, RDA, EpochGD
from ..parts.compatibility import conversion_reason, penalty_reason
from ..parts.contracts import FORMS
from ..parts.part import CONTRACTS, HOME, TYPES, is_record, kind_of
from ..penalties import ElasticNet, L1Ball, L2Ball, NonNegative, RowGroup, falls, penalty, prox, prox_all, strength
from ..problem.state import Problem
from ..steps import Constant, Pilot

_LONG = 1400
"""Examples: more than the 1000 that a run keeps back before it learns."""
_REG = ElasticNet(0.05, 0.1)


class CheckError(AssertionError):
    """A part does not keep its contract; the message says where."""


def check_part(record: Any, *, compiled: bool = True) -> list[str]:
    """Run every check that applies to ``record`` and return their names; raise :class:`CheckError` at the first miss.

    ``compiled=False`` leaves out what takes seconds to compile: that kernels give what plain Python gives.
    """
    if isinstance(record, type) or not is_record(record):
        raise TypeError(f"{record!r} is no part: pass a record, an instance of a NamedTuple class of yours.")
    kind = kind_of(record)
    if kind is None:
        known = ", ".join(contract.__name__ for contract in CONTRACTS.values())
        raise TypeError(
            f"{type(record).__name__} is no part: write @part(...), from {HOME}, above its class, with one of {known}."
        )
    if kind == "loss" and record.couples:
        kind = "coupled loss"
    elif kind == "penalty" and not record.has_prox:
        kind = "penalty of whole arrays"
    passed = []
    for name, check in _CHECKS[kind].items():
        if compiled or not name.startswith("compiled"):
            with np.errstate(all="ignore"):
                check(record)
            passed.append(name)
    return passed


def _must(holds: Any, record: Any, sentence: str) -> None:
    if not np.all(holds):
        raise CheckError(f"{type(record).__name__}: {sentence}")


def _keeps_contract(record: Any) -> None:
    """Every attribute of the contract: its type, of a function its number of parameters."""
    contract = CONTRACTS[record.part_kind]
    for name, entry in contract.entries.items():
        if entry.unless and getattr(record, entry.unless):
            continue
        found = getattr(record, name)
        _must(TYPES[entry.what](found), record, f"{name} = {found!r}; it must be a {entry.what}: {entry.doc}")
        if entry.what == "function" and entry.parameters:
            given = inspect.signature(found).parameters.values()
            needed = [each for each in given if each.default is each.empty and each.kind is not each.VAR_POSITIONAL]
            fits = len(needed) <= len(entry.parameters) <= len(given) or any(p.kind is p.VAR_POSITIONAL for p in given)
            _must(fits, record, f"{name} takes {len(given)} arguments; it must take ({', '.join(entry.parameters)}).")


def _shape(record: Any, call: str, found: Any, shape: tuple[int, ...]) -> None:
    array = np.asarray(found)
    _must(array.shape == shape, record, f"{call} has the shape {array.shape}; it must have {shape}.")
    _must(array.dtype.kind in "fiub", record, f"{call} has the type {array.dtype}; it must be numbers.")


# ---- losses ----------------------------------------------------------------------------------------------------------

_P = np.linspace(-12.0, 12.0, 481) + 1e-3
"""Margins, off the round numbers where kinks like to be."""


def _targets(loss: Any) -> np.ndarray:
    return np.array([-1.0, 1.0]) if loss.classifies else np.array([0.0, 0.5, 1.0, 4.0])


def _loss_fields(loss: Any) -> None:
    _keeps_contract(loss)
    _must(loss.smoothness > 0.0, loss, f"smoothness = {loss.smoothness}; it must be a positive number.")
    loss.check()
    rng = np.random.default_rng(0)
    p, y = rng.normal(size=(5, 3)), rng.choice(_targets(loss), (5, 3))
    if loss.couples:
        y = np.eye(3)[rng.integers(0, 3, 5)]
    if not loss.classifies:
        loss.refuse(y)
    for name, function in (("value", value), ("derivative", derivative), ("curvature", curvature)):
        _shape(loss, f"{name}(p, y) of arrays (5, 3)", function(loss, p, y), (5, 3))
    resolved = loss.resolve(y, np.ones_like(y))
    _must(kind_of(resolved) == "loss", loss, "resolve(targets, weights) gives no loss.")
    _must(resolved.smoothness > 0.0, loss, f"after resolve smoothness = {resolved.smoothness}; it must be above 0.")
    for part in loss.units(np.array([1.0, 2.0]), np.array([0.5, 1.0])):
        _shape(loss, "each of the three that units(mean, std) gives of 2 targets", part, (2,))
    if not loss.classifies:
        _shape(loss, "predicted(p) of 5 margins", loss.predicted(p[:, 0]), (5,))
    if loss.probabilities is not None:
        shares = loss.probabilities(p)
        _shape(loss, "probabilities(p) of margins (5, 3)", shares, (5, 3))
        _must(np.abs(np.sum(shares, 1) - 1.0) <= 1e-12, loss, "the probabilities of an example do not sum to 1.")
    if loss.conjugate is not None:
        c, dual = derivative(loss, p, y), loss.conjugate(derivative(loss, p, y), y)
        gap = np.abs(dual - (c * p - value(loss, p, y))).max()
        _must(gap <= 1e-9, loss, f"conjugate(c, y) at its own slopes c is not c p - value(p, y), by {gap:.2g}.")


def _loss_convex(loss: Any) -> None:
    for y in _targets(loss):
        c = derivative(loss, _P, np.full(_P.shape, y))
        k = int(np.argmin(np.diff(c)))
        _must(np.isfinite(c), loss, f"its derivative is not finite somewhere between margins -12 and 12, target {y}.")
        _must(
            np.diff(c) >= -1e-12 * np.abs(c).max(), loss,
            f"its derivative falls between margins {_P[k]:.4g} and {_P[k + 1]:.4g} (target {y}): it is not convex.",
        )  # fmt: skip


def _loss_derivative(loss: Any) -> None:
    h = 1e-5
    for y in _targets(loss):
        at = np.full(_P.shape, y)
        c, here = derivative(loss, _P, at), value(loss, _P, at)
        left, right = (here - value(loss, _P - h, at)) / h, (value(loss, _P + h, at) - here) / h
        slack = 1e-8 * np.maximum(1.0, np.abs(here)) / h * 1e-2 + h * np.maximum(1.0, np.abs(c))
        wrong = (c < left - slack) | (c > right + slack)
        k = int(np.argmax(wrong))
        _must(
            ~wrong, loss,
            f"at margin {_P[k]:.4g} and target {y} its derivative {c[k]:.6g} is not the slope of its value, which lies "
            f"between {left[k]:.6g} and {right[k]:.6g}.",
        )  # fmt: skip


def _loss_curvature(loss: Any) -> None:
    h = 1e-4
    for y in _targets(loss):
        at = np.full(_P.shape, y)
        bend = curvature(loss, _P, at)
        _must(bend >= 0.0, loss, "its curvature is negative somewhere.")
        _must(not loss.curved or np.any(bend > 0.0), loss, "it says curved = True but its curvature is 0 everywhere.")
        k = int(np.argmax(bend))
        _must(
            not loss.smoothness_is_bound or np.all(bend <= loss.smoothness * (1.0 + 1e-12)), loss,
            f"its curvature is {bend[k]:.6g} at margin {_P[k]:.4g}, above its smoothness {loss.smoothness}: raise "
            "it, or declare smoothness_is_bound = False.",
        )  # fmt: skip
        if loss.curved:
            near, far = (
                (derivative(loss, _P + s, at) - derivative(loss, _P - s, at)) / (2.0 * s) for s in (h, 2.0 * h)
            )
            smooth = np.abs(near - far) <= 1e-5 * np.maximum(1.0, np.abs(near))
            k = int(np.argmax(np.where(smooth, np.abs(bend - near), 0.0)))
            _must(
                np.abs(bend - near)[smooth] <= 1e-4 * np.maximum(1.0, np.abs(near))[smooth], loss,
                f"at margin {_P[k]:.4g} and target {y} its curvature {bend[k]:.6g} is not the slope of its derivative, "
                f"{near[k]:.6g}.",
            )  # fmt: skip


def _loss_gradient(loss: Any) -> None:
    """For a loss that ties the lanes of an example together: slopes and curvatures of the sum of its values."""
    rng, h = np.random.default_rng(0), 1e-5
    for k in range(4):
        p, y = rng.normal(0.0, 2.0, 4), np.eye(4)[k]

        def total(step: np.ndarray, p: np.ndarray = p, y: np.ndarray = y) -> float:
            return float(np.sum(value(loss, p + step, y)))

        steps = h * np.eye(4)
        slopes = np.array([(total(step) - total(-step)) / (2.0 * h) for step in steps])
        bends = np.array([(derivative(loss, p + s, y) - derivative(loss, p - s, y))[j] for j, s in enumerate(steps)])
        _must(
            np.abs(derivative(loss, p, y) - slopes) <= 1e-6, loss,
            f"at margins {p.round(3)} its derivatives {derivative(loss, p, y)} are not its value's slopes {slopes}.",
        )  # fmt: skip
        _must(
            np.abs(curvature(loss, p, y) - bends / (2.0 * h)) <= 1e-6, loss,
            f"at margins {p.round(3)} its curvatures are not the slopes of its derivatives.",
        )  # fmt: skip


@kernel
def _slopes(loss, lanes, p, y, c, h):
    width = c.size // 2
    for k in range(2):
        store(lanes, c, k * width, derivative(loss, load(lanes, p, k * width), load(lanes, y, k * width)))
        store(lanes, h, k * width, curvature(loss, load(lanes, p, k * width), load(lanes, y, k * width)))


def _loss_compiled(loss: Any) -> None:
    rng = np.random.default_rng(0)
    for m in (1, 8):
        p, y = rng.normal(0.0, 3.0, 2 * m), rng.choice(_targets(loss), 2 * m)
        if loss.couples:
            y = np.tile(np.arange(m) == 0, 2).astype(float)
        fast, slow = np.zeros((2, 2 * m)), np.zeros((2, 2 * m))
        _slopes(loss, lanes_for(m), p, y, *fast)
        with plain_python():
            _slopes(loss, lanes_for(m), p, y, *slow)
        _must(
            np.abs(fast - slow) <= 1e-12 * np.maximum(1.0, np.abs(slow)), loss,
            f"compiled for {m} models at once it gives other numbers than in plain Python.",
        )  # fmt: skip


# ---- regularizers ----------------------------------------------------------------------------------------------------


def _regularizer_fields(reg: Any) -> None:
    _keeps_contract(reg)
    _must(reg.lam >= 0.0 and reg.rho >= 0.0, reg, "lam and rho must be at least 0.")
    _must(reg.kind in KINDS, reg, f"kind = {reg.kind!r}; it must be one of {', '.join(KINDS)}.")
    _must(reg.form in FORMS, reg, f"form = {reg.form!r}; it must be one of {', '.join(FORMS)}.")
    d = _features(reg)
    reg.check(d)
    W = np.linspace(-1.0, 1.0, 2 * d).reshape(d, 2)
    pen = reg.penalties(d)
    _shape(reg, f"penalties({d})", pen, (d,))
    _must(pen == [float(penalty(reg, j)) for j in range(d)], reg, "penalties(d) are not penalty(j) of each feature j.")
    _shape(reg, "strength(w) of a vector", strength(reg, W[:, 0].copy()), ())
    found = np.shape(strength(reg, W))
    allowed = ((2,),) if reg.kind == "separable" else ((2,), ())
    _must(found in allowed, reg, f"strength of a matrix of 2 columns has the shape {found}; it must be {allowed[0]}.")
    _shape(reg, "prox_all(W, s) of (d, 2)", prox_all(reg, W, 0.1), (d, 2))
    M = np.asarray(reg.coarsened(np.abs(W) + 1.0))
    _must(np.all(M >= np.abs(W) + 1.0), reg, "coarsened(M) lies below M somewhere.")
    if reg.dual_norm is not None and "lam" in reg._fields:
        G = np.linspace(-1.0, 2.0, 2 * d).reshape(d, 2)
        least = reg.record.dual_norm(G)
        for factor, empty in ((1.0 + 1e-9, True), (0.9, False)):
            moved = prox_all(reg._replace(lam=least * factor), -G, 1.0)
            _must(empty != bool(np.any(moved)), reg, "dual_norm(G) is not the least lam at which w = 0 is optimal.")


def _features(reg: Any) -> int:
    return max([len(field) for field in reg if isinstance(field, np.ndarray)], default=3)


def _regularizer_prox(reg: Any) -> None:
    d = _features(reg)
    grid = np.linspace(-4.0, 4.0, 161)
    _must(strength(reg, np.zeros(d)) == 0.0, reg, "its strength at w = 0 is not 0.")
    for j in range(min(d, 5)):
        weight = reg.lam * float(penalty(reg, j))
        points = np.zeros((d, grid.size))
        points[j] = grid
        r = np.array([float(strength(reg, column)) for column in points.T]) - 0.5 * reg.rho * np.square(grid)
        if weight <= 0.0:
            continue
        for v in (-3.0, -0.4, 0.0, 0.3, 2.5):
            for s in (0.0, 0.25, 1.0):
                u = float(prox(reg, v, s))
                point = np.zeros(d)
                point[j] = u
                own = 0.5 * (u - v) ** 2 + s * (float(strength(reg, point)) - 0.5 * reg.rho * u * u) / weight
                others = 0.5 * np.square(grid - v) + np.where(np.isfinite(r), s * r / weight, np.inf)
                _must(
                    own <= others.min() + 1e-9, reg,
                    f"prox({v}, {s}) = {u:.6g} does not minimise (u - v)^2 / 2 + s r(u), with r as strength() has it: "
                    f"u = {grid[int(np.argmin(others))]:.4g} is better.",
                )  # fmt: skip


def _regularizer_idle(reg: Any) -> None:
    v = np.linspace(-4.0, 4.0, 81)
    for s in (0.01, 0.3):
        steps = v
        for k in range(1, 12):
            steps = prox(reg, steps, s)
            _must(
                np.abs(prox(reg, v, k * s) - steps) <= 1e-12, reg,
                f"{k} idle steps prox(., {s}) are not prox(., {k} x {s}): no lazy kernel can use it; give it a "
                "prox_all instead, and choose a mini-batch optimizer.",
            )  # fmt: skip


def _regularizer_falls(reg: Any) -> None:
    v = np.linspace(-4.0, 4.0, 81)
    for s in (0.01, 0.3):
        expected = np.maximum(np.abs(v) - s * falls(reg, v), 0.0)
        k = int(np.argmax(np.abs(np.abs(prox(reg, v, s)) - expected)))
        _must(
            np.abs(np.abs(prox(reg, v, s)) - expected) <= 1e-12, reg,
            f"prox({v[k]:.4g}, {s}) = {prox(reg, v, s)[k]:.6g} should have the size max(|v| - s falls(v), 0), which is "
            f"{expected[k]:.6g}: give its class falls(regularizer, v), 1 where it is not there.",
        )  # fmt: skip


def _prox_all(reg: Any) -> None:
    """The prox of whole arrays is at least as good as points nearby and far away."""
    rng, d = np.random.default_rng(0), max(_features(reg), 6)
    for s in (0.1, 1.0):
        V = rng.normal(size=(d, 3))
        best = prox_all(reg, V, s)

        def total(U: np.ndarray, V: np.ndarray = V, s: float = s) -> float:
            r = float(np.sum(strength(reg, U))) - 0.5 * reg.rho * float(np.square(U).sum())
            return 0.5 * float(np.square(U - V).sum()) + s * r

        others = [prox_all(reg, best + h * rng.normal(size=V.shape), 0.0) for h in (1e-4, 1e-2, 1.0) for _ in range(20)]
        _must(
            [total(best) <= total(other) + 1e-9 for other in [*others, 0.9 * best, 0.0 * best]], reg,
            f"prox_all(V, {s}) does not minimise ||U - V||^2 / 2 + s r(U), with r as strength() has it.",
        )  # fmt: skip


# ---- learning: kernels against recursions written out ----------------------------------------------------------------


class _Data(NamedTuple):
    X: np.ndarray
    y: np.ndarray


def _data(loss: Any, n: int = 150, d: int = 3, seed: int = 0) -> _Data:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.5)
    p = X @ np.linspace(1.0, -1.0, d) + 0.3 * rng.normal(size=n)
    return _Data(X, np.where(p > 0.0, 1.0, -1.0) if loss.classifies else np.abs(p))


def _learned(data: _Data, loss: Any, reg: Any, optimizer: Any, conversion: Any, step: Any, cuts: Any = ()) -> Any:
    run = Run(loss, reg, optimizer, conversion, step, d=data.X.shape[1])
    for part in np.split(np.arange(len(data.X)), list(cuts)):
        run.feed(as_matrix(data.X[part]), data.y[part])
    return run.finish()


def _fobos(data: _Data, loss: Any, reg: Any, eta: float) -> tuple[np.ndarray, np.ndarray]:
    """The last iterate of FOBOS with a constant step and the mean of all, every coordinate moved at every step."""
    d = data.X.shape[1]
    w, b, total, pen = np.zeros(d), 0.0, np.zeros(d), np.array([float(penalty(reg, j)) for j in range(d)])
    for x, y in zip(data.X, data.y, strict=True):
        total += w
        c = float(derivative(loss, np.float64(x @ w + b), np.float64(y)))
        moved = w - eta * c * x
        w = np.array([float(prox(reg, v, eta * reg.lam * weight)) for v, weight in zip(moved, pen, strict=True)])
        w, b = w / (1.0 + eta * reg.rho), b - eta * c
    return w, total / len(data.X)


def _lazy_is_dense(record: Any, loss: Any, reg: Any) -> None:
    data = _data(loss, d=_features(reg))
    for w, conversion in zip(_fobos(data, loss, reg, 0.05), (Last(), Average()), strict=True):
        with plain_python():
            answer = _learned(data, loss, reg, FOBOS(), conversion, Constant(0.05))
        gap = np.abs(answer.w[:, 0] - w).max()
        _must(
            gap <= 1e-10 * max(1.0, np.abs(w).max()), record,
            f"{type(conversion).__name__} of FOBOS' lazy kernel and of the plain recursion differ by {gap:.2g}.",
        )  # fmt: skip


def _compiled_is_plain(record: Any, loss: Any, reg: Any) -> None:
    data = _data(loss, d=_features(reg))
    for optimizer in (FOBOS(), RDA(), NFTRL()):
        step = Constant(0.05) if optimizer.uses_steps else None
        fast = _learned(data, loss, reg, optimizer, Average(), step)
        with plain_python():
            slow = _learned(data, loss, reg, optimizer, Average(), step)
        gap = np.abs(fast.w - slow.w).max()
        _must(
            gap <= 1e-10 * max(1.0, np.abs(slow.w).max()), record,
            f"compiled, {type(optimizer).__name__} gives other weights than in plain Python, by {gap:.2g}.",
        )  # fmt: skip


# ---- step rules, conversions, optimizers -----------------------------------------------------------------------------


def _rule(step: Any) -> Any:
    problem = Problem(Logistic(), ElasticNet(0.01, 0.1), 3)
    return step.resolve(problem, Pilot(100, 1.0, np.zeros(1), np.ones(1)))


def _step_fields(step: Any) -> None:
    _keeps_contract(step._replace(cap=False) if "cap" in step._fields and step.cap is None else step)
    _must(kind_of(_rule(step)) == "step rule", step, "resolve(problem, pilot) gives no step rule.")


def _step_sizes(step: Any) -> None:
    rule = _rule(step)
    whole = np.asarray(rule.sizes(0, 50))
    _must(whole.shape == (50,), step, f"sizes(0, 50) has the shape {whole.shape} instead of (50,).")
    _must(np.isfinite(whole) & (whole > 0.0), step, "a step is not positive and finite.")
    for cut in (1, 17, 49):
        parts = np.concatenate([rule.sizes(0, cut), rule.sizes(cut, 50 - cut)])
        _must(parts == whole, step, f"sizes(0, {cut}) and sizes({cut}, {50 - cut}) do not add up to sizes(0, 50).")


def _same(record: Any, a: Any, b: Any, what: str) -> None:
    _must(np.array_equal(a.w, b.w) and np.array_equal(a.b, b.b), record, what)


def _penalty_of(optimizer: Any) -> Any:
    """One that the optimizer is made for."""
    return _REG if penalty_reason(optimizer, _REG) is None else L1Ball(1.0)


def _any_cut(record: Any, optimizer: Any, conversion: Any, step: Any = None) -> None:
    data = _data(Logistic(), n=_LONG)
    reg = _penalty_of(optimizer)
    whole = _learned(data, Logistic(), reg, optimizer, conversion, step)
    _must(np.all(np.isfinite(whole.w)), record, "the model is not finite.")
    for cuts in ((1100,), (64, 1001, 1024, 1025), tuple(range(7, _LONG, 41))):
        cut = _learned(data, Logistic(), reg, optimizer, conversion, step, cuts)
        _same(record, whole, cut, f"a stream cut at {cuts[:4]} gives another model than the whole one.")


def _reading(record: Any, optimizer: Any, conversion: Any) -> None:
    data = _data(Logistic(), n=_LONG)
    read, unread = (Run(Logistic(), _penalty_of(optimizer), optimizer, conversion, d=data.X.shape[1]) for _ in range(2))
    for part in np.split(np.arange(_LONG), 7):
        for run in (read, unread):
            run.feed(as_matrix(data.X[part]), data.y[part])
        read.finish()
    _same(record, read.finish(), unread.finish(), "asking for the model while learning changes what is learned.")


def _in_plain_python(check: Callable[..., None], *parts: Any) -> Callable[[Any], None]:
    """The check with its part where ``parts`` has None, nothing compiled."""

    def run(record: Any) -> None:
        with plain_python():
            check(record, *(record if part is None else part for part in parts))

    return run


def _conversion_fields(conversion: Any) -> None:
    _keeps_contract(conversion)
    conversion.check()
    _must(conversion.base is conversion, conversion, "base is another one: mark a rounding with @part(Rounding).")
    sums = conversion.watch(Logistic()).tracks()
    _must(sums in range(4), conversion, f"watch(loss) tracks {sums} sums; it must be 0 to 3.")
    _must(
        conversion.needs_gradient_sums == (sums > 1 and not conversion.chooses_single_iterate), conversion,
        f"needs_gradient_sums = {conversion.needs_gradient_sums}, and watch(loss) tracks {sums} sums, of which the "
        "second is that of gradients.",
    )  # fmt: skip
    told = conversion.for_length(_LONG)
    _must(kind_of(told) == "conversion", conversion, "for_length(n) gives no conversion.")
    run = Run(Logistic(), _REG, _optimizer_for(conversion), told, d=3)
    data = _data(Logistic(), n=_LONG)
    run.feed(as_matrix(data.X), data.y)
    for t, n in ((0, 5), (200, 3)):
        omega = conversion.omega_of(run, t, n)
        _shape(conversion, f"omega_of(run, {t}, {n})", omega, (n,))
        same = not conversion.uniform or conversion.chooses_single_iterate or np.all(np.asarray(omega) == 1.0)
        _must(same, conversion, "it says uniform = True, and the weights of iterates differ: say uniform = False.")
        _must(told.next_event(run, t) > t, conversion, f"next_event(run, {t}) is not above {t}.")
    answer = run.finish()
    _shape(conversion, "the answer's w", answer.w, (3, 1))
    _shape(conversion, "the answer's b", answer.b, (1,))


def _optimizer_for(conversion: Any) -> Any:
    """One that the conversion works with; FOBOS in epochs suits all but those that compare iterates."""
    return FOBOS() if conversion_reason(_EPOCHS, conversion) else _EPOCHS


def _conversion_any_cut(conversion: Any) -> None:
    _any_cut(conversion, _optimizer_for(conversion), conversion.for_length(_LONG))


def _conversion_reading(conversion: Any) -> None:
    _reading(conversion, _optimizer_for(conversion), conversion.for_length(_LONG))


def _rounding_fields(rounding: Any) -> None:
    _keeps_contract(rounding)
    rounding.check()
    rounding.suits(_REG, 3)


def _rounding_answer(rounding: Any) -> None:
    data = _data(Logistic(), n=_LONG)
    before = _learned(data, Logistic(), _REG, _EPOCHS, rounding.base, None)
    after = _learned(data, Logistic(), _REG, _EPOCHS, rounding, None)
    _shape(rounding, "the answer's w", after.w, before.w.shape)
    _must(~np.any(after.w[before.w == 0.0]), rounding, "round gives a weight to a feature that had none.")


def _optimizer_fields(optimizer: Any) -> None:
    _keeps_contract(optimizer)
    unknown = [form for form in optimizer.supported_penalties if form not in FORMS]
    _must(not unknown, optimizer, f"supported_penalties has {unknown}; they are {', '.join(FORMS)}.")
    has_end = optimizer.next_epoch is not None
    _must(optimizer.works_in_epochs == has_end, optimizer, "works_in_epochs and next_epoch(t) go together.")
    _must(optimizer.l2_in in ("prox", "gradient"), optimizer, f"l2_in = {optimizer.l2_in!r}: 'prox' or 'gradient'.")


def _optimizer_declared(optimizer: Any) -> None:
    """What it declares, in a run: its penalties, the end of epochs, a start elsewhere, some features of the iterate."""
    data, step = _data(Logistic(), n=200), Constant(0.05) if optimizer.uses_steps else None
    for form, reg in _OF_FORM.items():
        if form in optimizer.supported_penalties or optimizer.works_on_whole_arrays:
            step = None if optimizer.works_in_epochs else step
            _learned(data, Logistic(), reg, optimizer, Last(), step)
    initial = np.array([[0.1], [0.0], [-0.2]]), np.array([0.05])
    placed = initial if optimizer.starts_anywhere else None
    run = Run(Logistic(), _penalty_of(optimizer), optimizer, d=3, initial=placed)
    run.feed(as_matrix(data.X), data.y)
    run.begin()
    final = run.optimizer
    if optimizer.starts_anywhere:
        state, block = final.start(run.problem)
        final.place(run.problem, state, *initial)
        found = final.weights(run.problem, state, block, 0)[0]
        _must(np.abs(found - initial[0]) <= 1e-12, optimizer, "after place(w, b) the iterate is not w.")
    if final.works_in_epochs:
        _must(final.next_epoch(run.t) > run.t, optimizer, "next_epoch(t) is not above t.")
    if final.weights_at is not None:
        some = np.array([0, 2])
        with plain_python():
            few = final.weights_at(run.problem, run.state, run.block, run.t, some)[0]
        _must(np.abs(few - run.weights()[0][some]) <= 1e-12, optimizer, "weights_at differs from weights.")


def _mirror_fields(mirror: Any) -> None:
    _keeps_contract(mirror)
    mirror.check()


def _mirror_map(mirror: Any) -> None:
    w = np.array([0.5, 0.0, -2.0])
    v = to_dual(mirror, w)
    _shape(mirror, "to_dual(w) of 3 weights", v, (3,))
    _must(np.abs(to_primal(mirror, v) - w) <= 1e-9, mirror, "to_primal(to_dual(w)) is not w.")
    _must(abs(divergence(mirror, w, v)) <= 1e-9, mirror, "the divergence of a point from itself is not 0.")
    _must(divergence(mirror, 2.0 * w, v) > 0.0, mirror, "the divergence of two points is not positive.")


_OF_FORM = {
    "absolute": _REG, "separable": NonNegative(0.05, 0.1), "grouped": RowGroup(0.05, 0.1), "l1-ball": L1Ball(1.0),
    "whole": L2Ball(1.0),
}  # fmt: skip
KINDS = ("separable", "grouped", "global")
_EPOCHS = EpochGD(T1=100)
_CHECKS: dict[str, dict[str, Callable[[Any], None]]] = {
    "loss": {
        "fields": _loss_fields,
        "convex": _loss_convex,
        "derivative": _loss_derivative,
        "curvature": _loss_curvature,
        "learned as written": lambda loss: _lazy_is_dense(loss, loss, _REG),
        "compiled": _loss_compiled,
        "compiled kernels": lambda loss: _compiled_is_plain(loss, loss, _REG),
    },
    "coupled loss": {"fields": _loss_fields, "gradient": _loss_gradient, "compiled": _loss_compiled},
    "penalty": {
        "fields": _regularizer_fields,
        "prox": _regularizer_prox,
        "idle steps": _regularizer_idle,
        "falls": _regularizer_falls,
        "learned as written": lambda reg: _lazy_is_dense(reg, Logistic(), reg),
        "compiled kernels": lambda reg: _compiled_is_plain(reg, Logistic(), reg),
    },
    "penalty of whole arrays": {"fields": _regularizer_fields, "prox": _prox_all},
    "mirror map": {"fields": _mirror_fields, "map": _mirror_map},
    "step rule": {
        "fields": _step_fields,
        "sizes": _step_sizes,
        "any cut": _in_plain_python(_any_cut, FOBOS(), Last(), None),
    },
    "conversion": {
        "fields": _in_plain_python(_conversion_fields),
        "any cut": _in_plain_python(_conversion_any_cut),
        "reading": _in_plain_python(_conversion_reading),
    },
    "rounding": {
        "fields": _rounding_fields,
        "answer": _in_plain_python(_rounding_answer),
        "any cut": _in_plain_python(_any_cut, _EPOCHS, None),
    },
    "optimizer": {
        "fields": _optimizer_fields,
        "declared": _in_plain_python(_optimizer_declared),
        "any cut": _in_plain_python(_any_cut, None, Last()),
        "reading": _in_plain_python(_reading, None, Last()),
    },
    "selection method": {"fields": _keeps_contract},
}
