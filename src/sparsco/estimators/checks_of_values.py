"""Checks of the values that a loss or a penalty computes: shapes, slopes, proximal steps."""

from __future__ import annotations

import contextlib
import inspect
from typing import Any

import numpy as np

from ..jit.dispatch import kernel, plain_python
from ..jit.lanes import lanes_for, load, store
from ..losses import curvature, derivative, value
from ..parts.contracts import FORMS
from ..parts.part import CONTRACTS, TYPES, kind_of
from ..penalties import feature_weight, prox, prox_all, shrink_rate, strength

KINDS = ("separable", "grouped", "global")
"""The weights that a penalty couples: single weights, groups of weights, or all weights."""


class CheckError(AssertionError):
    """An error for a part that does not keep its contract; the message names the place."""


def must(holds: Any, record: Any, sentence: str) -> None:
    """Raise a CheckError with the sentence if a condition does not hold everywhere."""
    if not np.all(holds):
        raise CheckError(f"{type(record).__name__}: {sentence}")


def check_contract(record: Any) -> None:
    """Check every attribute of the contract: its type, and for a function its number of parameters."""
    contract = CONTRACTS[record.part_kind]
    for name, entry in contract.entries.items():
        if entry.unless and getattr(record, entry.unless):
            continue
        found = getattr(record, name)
        must(TYPES[entry.what](found), record, f"{name} = {found!r}; it must be a {entry.what}: {entry.doc}")
        if entry.what == "function" and entry.parameters:
            given = inspect.signature(found).parameters.values()
            needed = [each for each in given if each.default is each.empty and each.kind is not each.VAR_POSITIONAL]
            fits = len(needed) <= len(entry.parameters) <= len(given) or any(p.kind is p.VAR_POSITIONAL for p in given)
            must(fits, record, f"{name} takes {len(given)} arguments; it must take ({', '.join(entry.parameters)}).")


def check_shape(record: Any, call: str, found: Any, shape: tuple[int, ...]) -> None:
    """Check that the result of a call is an array of numbers of this shape."""
    array = np.asarray(found)
    must(array.shape == shape, record, f"{call} has the shape {array.shape}; it must have {shape}.")
    must(array.dtype.kind in "fiub", record, f"{call} has the type {array.dtype}; it must be numbers.")


# ---- losses ----------------------------------------------------------------------------------------------------------

_P = np.linspace(-12.0, 12.0, 481) + 1e-3
"""Margins to check at; they avoid round numbers, where kinks often are."""


def targets_of(loss: Any) -> np.ndarray:
    """Return a few targets that the loss accepts."""
    if loss.classifies:
        return np.array([-1.0, 1.0])
    found = []
    for y in (0.0, 0.5, 1.0, 4.0):
        with contextlib.suppress(ValueError):
            loss.refuse(np.array([y]))
            found.append(y)
    return np.array(found)


def loss_fields(loss: Any) -> None:
    """Check the attributes of a loss, the shapes of its values, and the results of ``resolve`` and ``units``."""
    check_contract(loss)
    must(loss.smoothness > 0.0, loss, f"smoothness = {loss.smoothness}; it must be a positive number.")
    loss.check()
    rng = np.random.default_rng(0)
    p, y = rng.normal(size=(5, 3)), rng.choice(targets_of(loss), (5, 3))
    if loss.couples:
        y = np.eye(3)[rng.integers(0, 3, 5)]
    if not loss.classifies:
        loss.refuse(y)
    for name, function in (("value", value), ("derivative", derivative), ("curvature", curvature)):
        check_shape(loss, f"{name}(p, y) of arrays (5, 3)", function(loss, p, y), (5, 3))
    resolved = loss.resolve(y, np.ones_like(y))
    must(kind_of(resolved) == "loss", loss, "resolve(targets, weights) does not return a loss.")
    must(resolved.smoothness > 0.0, loss, f"after resolve smoothness = {resolved.smoothness}; it must be above 0.")
    for part in loss.units(np.array([1.0, 2.0]), np.array([0.5, 1.0])):
        check_shape(loss, "each of the three that units(mean, std) gives of 2 targets", part, (2,))
    if not loss.classifies:
        check_shape(loss, "predicted(p) of 5 margins", loss.predicted(p[:, 0]), (5,))
    if loss.probabilities is not None:
        shares = loss.probabilities(p)
        check_shape(loss, "probabilities(p) of margins (5, 3)", shares, (5, 3))
        must(np.abs(np.sum(shares, 1) - 1.0) <= 1e-12, loss, "the probabilities of an example do not sum to 1.")


def loss_convex(loss: Any) -> None:
    """Check that the derivative of a loss is finite and does not fall."""
    for y in targets_of(loss):
        c = derivative(loss, _P, np.full(_P.shape, y))
        k = int(np.argmin(np.diff(c)))
        must(np.isfinite(c), loss, f"its derivative is not finite somewhere between margins -12 and 12, target {y}.")
        must(
            np.diff(c) >= -1e-12 * np.abs(c).max(),
            loss,
            f"its derivative falls between margins {_P[k]:.4g} and {_P[k + 1]:.4g} (target {y}): it is not convex.",
        )


def loss_derivative(loss: Any) -> None:
    """Check the derivative of a loss against slopes of its value, and the conjugate if there is one."""
    h = 1e-5
    for y in targets_of(loss):
        at = np.full(_P.shape, y)
        c, here = derivative(loss, _P, at), value(loss, _P, at)
        left, right = (here - value(loss, _P - h, at)) / h, (value(loss, _P + h, at) - here) / h
        slack = 1e-8 * np.maximum(1.0, np.abs(here)) / h * 1e-2 + h * np.maximum(1.0, np.abs(c))
        wrong = (c < left - slack) | (c > right + slack)
        k = int(np.argmax(wrong))
        must(
            ~wrong,
            loss,
            f"at margin {_P[k]:.4g} and target {y} its derivative {c[k]:.6g} is not the slope of its value, which lies "
            f"between {left[k]:.6g} and {right[k]:.6g}.",
        )
        if loss.conjugate is not None:
            gap = np.abs(loss.conjugate(c, at) - (c * _P - here))
            k = int(np.argmax(gap > 1e-9 * np.maximum(1.0, np.abs(here))))
            must(
                gap <= 1e-9 * np.maximum(1.0, np.abs(here)),
                loss,
                f"conjugate(c, y) at the slope c of margin {_P[k]:.4g} and target {y} is not c p - value(p, y), by "
                f"{gap[k]:.2g}.",
            )


def loss_curvature(loss: Any) -> None:
    """Check that the curvature of a loss is at least 0, within its smoothness, and the slope of its derivative."""
    h = 1e-4
    for y in targets_of(loss):
        at = np.full(_P.shape, y)
        bend = curvature(loss, _P, at)
        must(bend >= 0.0, loss, "its curvature is negative somewhere.")
        must(not loss.curved or np.any(bend > 0.0), loss, "curved = True, but its curvature is 0 everywhere.")
        must(
            not loss.bends_everywhere or np.all(bend > 0.0),
            loss,
            "bends_everywhere = True, but its curvature is 0 somewhere: leave that out.",
        )
        k = int(np.argmax(bend))
        must(
            not loss.smoothness_is_bound or np.all(bend <= loss.smoothness * (1.0 + 1e-12)),
            loss,
            f"its curvature is {bend[k]:.6g} at margin {_P[k]:.4g}, above its smoothness {loss.smoothness}: raise "
            "it, or declare smoothness_is_bound = False.",
        )
        if loss.curved:
            near, far = (
                (derivative(loss, _P + s, at) - derivative(loss, _P - s, at)) / (2.0 * s) for s in (h, 2.0 * h)
            )
            smooth = np.abs(near - far) <= 1e-5 * np.maximum(1.0, np.abs(near))
            k = int(np.argmax(np.where(smooth, np.abs(bend - near), 0.0)))
            must(
                np.abs(bend - near)[smooth] <= 1e-4 * np.maximum(1.0, np.abs(near))[smooth],
                loss,
                f"at margin {_P[k]:.4g} and target {y} its curvature {bend[k]:.6g} is not the slope of its derivative, "
                f"{near[k]:.6g}.",
            )


def loss_gradient(loss: Any) -> None:
    """Check the derivatives and curvatures of a loss that couples the lanes of an example.

    They are compared with slopes of the sum of its values.
    """
    rng, h = np.random.default_rng(0), 1e-5
    for k in range(4):
        p, y = rng.normal(0.0, 2.0, 4), np.eye(4)[k]

        def total(step: np.ndarray, p: np.ndarray = p, y: np.ndarray = y) -> float:
            return float(np.sum(value(loss, p + step, y)))

        steps = h * np.eye(4)
        slopes = np.array([(total(step) - total(-step)) / (2.0 * h) for step in steps])
        bends = np.array([(derivative(loss, p + s, y) - derivative(loss, p - s, y))[j] for j, s in enumerate(steps)])
        must(
            np.abs(derivative(loss, p, y) - slopes) <= 1e-6,
            loss,
            f"at margins {p.round(3)} its derivatives {derivative(loss, p, y)} are not its value's slopes {slopes}.",
        )
        must(
            np.abs(curvature(loss, p, y) - bends / (2.0 * h)) <= 1e-6,
            loss,
            f"at margins {p.round(3)} its curvatures are not the slopes of its derivatives.",
        )


@kernel
def slopes(loss: Any, lanes: Any, p: np.ndarray, y: np.ndarray, c: np.ndarray, h: np.ndarray) -> None:
    """Store the derivatives and the curvatures of two examples in c and h."""
    width = c.size // 2
    for k in range(2):
        store(lanes, c, k * width, derivative(loss, load(lanes, p, k * width), load(lanes, y, k * width)))
        store(lanes, h, k * width, curvature(loss, load(lanes, p, k * width), load(lanes, y, k * width)))


def loss_compiled(loss: Any) -> None:
    """Check that the compiled derivatives and curvatures are those of plain Python, for 1 and 8 models at once."""
    rng = np.random.default_rng(0)
    for m in (1, 8):
        p, y = rng.normal(0.0, 3.0, 2 * m), rng.choice(targets_of(loss), 2 * m)
        if loss.couples:
            y = np.tile(np.arange(m) == 0, 2).astype(float)
        fast, slow = np.zeros((2, 2 * m)), np.zeros((2, 2 * m))
        slopes(loss, lanes_for(m), p, y, *fast)
        with plain_python():
            slopes(loss, lanes_for(m), p, y, *slow)
        must(
            np.abs(fast - slow) <= 1e-12 * np.maximum(1.0, np.abs(slow)),
            loss,
            f"compiled for {m} models at once it gives other numbers than in plain Python.",
        )


# ---- penalties ----------------------------------------------------------------------------------------------------


def penalty_fields(reg: Any) -> None:
    """Check the attributes of a penalty and the shapes of its values."""
    check_contract(reg)
    must(reg.lam >= 0.0 and reg.rho >= 0.0, reg, "lam and rho must be at least 0.")
    must(reg.kind in KINDS, reg, f"kind = {reg.kind!r}; it must be one of {', '.join(KINDS)}.")
    must(reg.form in FORMS, reg, f"form = {reg.form!r}; it must be one of {', '.join(FORMS)}.")
    d = n_features(reg)
    reg.check(d)
    W = np.linspace(-1.0, 1.0, 2 * d).reshape(d, 2)
    pen = reg.feature_weights(d)
    check_shape(reg, f"feature_weights({d})", pen, (d,))
    each = [float(feature_weight(reg, j)) for j in range(d)]
    must(pen == each, reg, "feature_weights(d) are not feature_weight(j) of each feature j.")
    check_shape(reg, "strength(w) of a vector", strength(reg, W[:, 0].copy()), ())
    found = np.shape(strength(reg, W))
    allowed = ((2,),) if reg.kind == "separable" else ((2,), ())
    must(found in allowed, reg, f"strength of a matrix of 2 columns has the shape {found}; it must be {allowed[0]}.")
    check_shape(reg, "prox_all(W, s) of (d, 2)", prox_all(reg, W, 0.1), (d, 2))
    M = np.asarray(reg.coarsened(np.abs(W) + 1.0))
    must(np.all(M >= np.abs(W) + 1.0), reg, "coarsened(M) lies below M somewhere.")
    G = np.linspace(-1.0, 2.0, 2 * d).reshape(d, 2)
    least = reg.dual_norm_at(G) if "lam" in reg._fields else None
    if least is not None:
        for factor, empty in ((1.0 + 1e-9, True), (0.9, False)):
            moved = prox_all(reg._replace(lam=least * factor), -G, 1.0)
            must(empty != bool(np.any(moved)), reg, "dual_norm(G) is not the least lam at which w = 0 is optimal.")


def n_features(reg: Any) -> int:
    """Return the number of features of a penalty: the length of its arrays, or 3 if it has none."""
    return max([len(field) for field in reg if isinstance(field, np.ndarray)], default=3)


def penalty_prox(reg: Any) -> None:
    """Check that the prox of a penalty minimises (u - v)^2 / 2 + s r(u), on a grid of points u."""
    d = n_features(reg)
    grid = np.linspace(-4.0, 4.0, 161)
    must(strength(reg, np.zeros(d)) == 0.0, reg, "its strength at w = 0 is not 0.")
    for j in range(min(d, 5)):
        weight = reg.lam * float(feature_weight(reg, j))
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
                must(
                    own <= others.min() + 1e-9,
                    reg,
                    f"prox({v}, {s}) = {u:.6g} does not minimise (u - v)^2 / 2 + s r(u), with r as strength() has it: "
                    f"u = {grid[int(np.argmin(others))]:.4g} is better.",
                )


def penalty_idle(reg: Any) -> None:
    """Check that k idle steps prox(., s) are the same as one step prox(., k s)."""
    v = np.linspace(-4.0, 4.0, 81)
    for s in (0.01, 0.3):
        steps = v
        for k in range(1, 12):
            steps = prox(reg, steps, s)
            must(
                np.abs(prox(reg, v, k * s) - steps) <= 1e-12,
                reg,
                f"{k} idle steps prox(., {s}) are not prox(., {k} x {s}): lazy kernels cannot use it; "
                "define prox_all instead, and choose a mini-batch optimizer.",
            )


def penalty_shrink_rate(reg: Any) -> None:
    """Check that |prox(v, s)| is max(|v| - s shrink_rate(v), 0)."""
    v = np.linspace(-4.0, 4.0, 81)
    for s in (0.01, 0.3):
        expected = np.maximum(np.abs(v) - s * shrink_rate(reg, v), 0.0)
        k = int(np.argmax(np.abs(np.abs(prox(reg, v, s)) - expected)))
        must(
            np.abs(np.abs(prox(reg, v, s)) - expected) <= 1e-12,
            reg,
            f"prox({v[k]:.4g}, {s}) = {prox(reg, v, s)[k]:.6g} should have the size max(|v| - s shrink_rate(v), 0), "
            f"which is {expected[k]:.6g}: define shrink_rate(penalty, v), which is 1 by default.",
        )


def penalty_weights(reg: Any) -> None:
    """Check the weighted problems of a penalty that is not convex: weights, and with several rounds the bound."""
    check_contract(reg)
    rng, d = np.random.default_rng(0), n_features(reg)
    reg.check(d)
    must(reg.convex.is_absolute and not reg.convex.rounds, reg, "convex must be an elastic net.")
    for scale in (0.01, 1.0, 100.0):
        w, u = scale * rng.normal(size=(2, d)) * (rng.random((2, d)) < 0.7)
        net = reg.reweighted(w)
        check_shape(reg, "the weights of reweighted(w)", net.pen, (d,))
        must(np.isfinite(net.pen) & (net.pen >= 0.0), reg, "a weight of reweighted(w) is negative or not finite.")
        order = np.argsort(np.abs(w))
        must(np.diff(net.pen[order]) <= 0.0, reg, "reweighted(w) penalises a larger weight more than a smaller one.")
        bound = strength(reg, w) + strength(net, u) - strength(net, w)
        must(
            reg.rounds == 1 or strength(reg, u) <= bound + 1e-9 * max(1.0, abs(bound)),
            reg,
            "strength(u) exceeds strength(w) + net(u) - net(w), with net = reweighted(w): rounds could raise it.",
        )


def whole_prox(reg: Any) -> None:
    """Check that the prox of whole arrays is at least as good as points nearby and far away."""
    rng, d = np.random.default_rng(0), max(n_features(reg), 6)
    for s in (0.1, 1.0):
        V = rng.normal(size=(d, 3))
        best = prox_all(reg, V, s)

        def total(U: np.ndarray, V: np.ndarray = V, s: float = s) -> float:
            r = float(np.sum(strength(reg, U))) - 0.5 * reg.rho * float(np.square(U).sum())
            return 0.5 * float(np.square(U - V).sum()) + s * r

        others = [prox_all(reg, best + h * rng.normal(size=V.shape), 0.0) for h in (1e-4, 1e-2, 1.0) for _ in range(20)]
        must(
            [total(best) <= total(other) + 1e-9 for other in [*others, 0.9 * best, 0.0 * best]],
            reg,
            f"prox_all(V, {s}) does not minimise ||U - V||^2 / 2 + s r(U), with r as strength() has it.",
        )
