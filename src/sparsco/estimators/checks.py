"""Checks that a part keeps its contract: a loss, a penalty, a step rule, a conversion or an optimizer.

>>> from sparsco import check_part
>>> from sparsco.losses import Logistic
>>> check_part(Logistic(), compiled=False)
['fields', 'convex', 'derivative', 'curvature', 'learned as written']

The same checks run over every part of the library in its own tests.  docs/your-own-parts.md explains how to write one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..conversions.averaging import Average, Last
from ..data.rows import as_matrix
from ..engine.run import Run
from ..jit.dispatch import plain_python
from ..losses import Logistic, derivative
from ..mirrors import divergence, to_dual, to_primal
from ..optimizers import FOBOS, NFTRL, RDA, EpochGD
from ..parts.compatibility import conversion_reason, penalty_reason
from ..parts.contracts import FORMS
from ..parts.part import CONTRACTS, HOME, is_record, kind_of
from ..penalties import ElasticNet, GroupL1, L1Ball, L2Ball, NonNegative, RowGroup, feature_weight, prox
from ..problem.state import Problem
from ..steps import Constant, Pilot
from .checks_of_values import (
    CheckError,
    check_contract,
    check_shape,
    loss_compiled,
    loss_convex,
    loss_curvature,
    loss_derivative,
    loss_fields,
    loss_gradient,
    must,
    n_features,
    penalty_fields,
    penalty_idle,
    penalty_prox,
    penalty_shrink_rate,
    penalty_weights,
    whole_prox,
)

__all__ = ["CheckError", "check_part"]

_LONG = 1400
"""The number of examples of a long stream: more than the 1000 that a run collects before it learns."""
_REG = ElasticNet(0.05, 0.1)


def check_part(record: Any, *, compiled: bool = True) -> list[str]:
    """Run every check that applies to a part, and return the names of the checks.

    Parameters
    ----------
    record : a part
        An instance of a NamedTuple class that is marked with ``@part(...)``: a loss, a penalty, a mirror map, a step
        rule, a conversion, a rounding, an optimizer or a selection method.
    compiled : bool
        False leaves out the checks that compare compiled kernels with plain Python, which take seconds to compile.

    Returns
    -------
    list of str
        The names of the checks, in the order in which they ran; all of them passed.

    Raises
    ------
    CheckError
        At the first check that fails; the message names the attribute or the number that is wrong.
    TypeError
        If ``record`` is not a part.

    Examples
    --------
    >>> from sparsco import check_part
    >>> from sparsco.steps import Constant
    >>> check_part(Constant(0.1))
    ['fields', 'sizes', 'any cut']
    """
    if isinstance(record, type) or not is_record(record):
        raise TypeError(f"{record!r} is not a part: pass a record, an instance of a NamedTuple class of yours.")
    kind = kind_of(record)
    if kind is None:
        known = ", ".join(contract.__name__ for contract in CONTRACTS.values())
        raise TypeError(
            f"{type(record).__name__} is not a part: write @part(...), from {HOME}, above its class, with "
            f"one of {known}."
        )
    if kind == "loss" and record.couples:
        kind = "coupled loss"
    elif kind == "penalty" and record.rounds:
        kind = "penalty of weighted problems"
    elif kind == "penalty" and not record.has_prox:
        kind = "penalty of whole arrays"
    passed = []
    for name, check in _CHECKS[kind].items():
        if compiled or not name.startswith("compiled"):
            with np.errstate(all="ignore"):
                check(record)
            passed.append(name)
    return passed


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
    """Return the last iterate of FOBOS with a constant step, and the mean of all iterates.

    Every step moves all coordinates.
    """
    d = data.X.shape[1]
    w, b, total, pen = np.zeros(d), 0.0, np.zeros(d), np.array([float(feature_weight(reg, j)) for j in range(d)])
    for x, y in zip(data.X, data.y, strict=True):
        total += w
        c = float(derivative(loss, np.float64(x @ w + b), np.float64(y)))
        moved = w - eta * c * x
        w = np.array([float(prox(reg, v, eta * reg.lam * weight)) for v, weight in zip(moved, pen, strict=True)])
        w, b = w / (1.0 + eta * reg.rho), b - eta * c
    return w, total / len(data.X)


def _lazy_is_dense(record: Any, loss: Any, reg: Any) -> None:
    data = _data(loss, d=n_features(reg))
    for w, conversion in zip(_fobos(data, loss, reg, 0.05), (Last(), Average()), strict=True):
        with plain_python():
            answer = _learned(data, loss, reg, FOBOS(), conversion, Constant(0.05))
        gap = np.abs(answer.w[:, 0] - w).max()
        must(
            gap <= 1e-10 * max(1.0, np.abs(w).max()),
            record,
            f"{type(conversion).__name__} of FOBOS' lazy kernel and of the plain recursion differ by {gap:.2g}.",
        )


def _compiled_is_plain(record: Any, loss: Any, reg: Any) -> None:
    data = _data(loss, d=n_features(reg))
    for optimizer in (FOBOS(), RDA(), NFTRL()):
        step = Constant(0.05) if optimizer.uses_steps else None
        fast = _learned(data, loss, reg, optimizer, Average(), step)
        with plain_python():
            slow = _learned(data, loss, reg, optimizer, Average(), step)
        gap = np.abs(fast.w - slow.w).max()
        must(
            gap <= 1e-10 * max(1.0, np.abs(slow.w).max()),
            record,
            f"compiled, {type(optimizer).__name__} gives other weights than in plain Python, by {gap:.2g}.",
        )


# ---- step rules, conversions, optimizers -----------------------------------------------------------------------------


def _rule(step: Any) -> Any:
    problem = Problem(Logistic(), ElasticNet(0.01, 0.1), 3)
    return step.resolve(problem, Pilot(100, 1.0, np.zeros(1), np.ones(1)))


def _step_fields(step: Any) -> None:
    check_contract(step._replace(cap=False) if "cap" in step._fields and step.cap is None else step)
    must(kind_of(_rule(step)) == "step rule", step, "resolve(problem, pilot) does not return a step rule.")


def _step_sizes(step: Any) -> None:
    rule = _rule(step)
    whole = np.asarray(rule.sizes(0, 50))
    must(whole.shape == (50,), step, f"sizes(0, 50) has the shape {whole.shape} instead of (50,).")
    must(np.isfinite(whole) & (whole > 0.0), step, "a step is not positive and finite.")
    for cut in (1, 17, 49):
        parts = np.concatenate([rule.sizes(0, cut), rule.sizes(cut, 50 - cut)])
        must(parts == whole, step, f"sizes(0, {cut}) and sizes({cut}, {50 - cut}) do not add up to sizes(0, 50).")


def _same(record: Any, a: Any, b: Any, what: str) -> None:
    must(np.array_equal(a.w, b.w) and np.array_equal(a.b, b.b), record, what)


def _penalty_of(optimizer: Any) -> Any:
    """Return a penalty that the optimizer supports."""
    return _REG if penalty_reason(optimizer, _REG) is None else L1Ball(1.0)


def _any_cut(record: Any, optimizer: Any, conversion: Any, step: Any = None) -> None:
    data = _data(Logistic(), n=_LONG)
    reg = _penalty_of(optimizer)
    whole = _learned(data, Logistic(), reg, optimizer, conversion, step)
    must(np.all(np.isfinite(whole.w)), record, "the model is not finite.")
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
    _same(record, read.finish(), unread.finish(), "reading the model during training changes what is learned.")


def _in_plain_python(check: Callable[..., None], *parts: Any) -> Callable[[Any], None]:
    """Return the check as a function of one part, which takes the place of None in ``parts``; nothing is compiled."""

    def run(record: Any) -> None:
        with plain_python():
            check(record, *(record if part is None else part for part in parts))

    return run


def _conversion_fields(conversion: Any) -> None:
    check_contract(conversion)
    conversion.check()
    must(conversion.base is conversion, conversion, "base is another one: mark a rounding with @part(Rounding).")
    sums = conversion.watch(Logistic()).n_sums()
    must(sums in range(4), conversion, f"watch(loss) tracks {sums} sums; it must be 0 to 3.")
    must(
        conversion.needs_gradient_sums == (sums > 1 and not conversion.chooses_single_iterate),
        conversion,
        f"needs_gradient_sums = {conversion.needs_gradient_sums}, and watch(loss) tracks {sums} sums, of which the "
        "second is that of gradients.",
    )
    told = conversion.for_length(_LONG)
    must(kind_of(told) == "conversion", conversion, "for_length(n) does not return a conversion.")
    run = Run(Logistic(), _REG, _optimizer_for(conversion), told, d=3)
    data = _data(Logistic(), n=_LONG)
    run.feed(as_matrix(data.X), data.y)
    for t, n in ((0, 5), (200, 3)):
        omega = conversion.omega_of(run, t, n)
        check_shape(conversion, f"omega_of(run, {t}, {n})", omega, (n,))
        same = not conversion.uniform or conversion.chooses_single_iterate or np.all(np.asarray(omega) == 1.0)
        must(same, conversion, "uniform = True, but the weights of iterates differ: declare uniform = False.")
        must(told.next_event(run, t) > t, conversion, f"next_event(run, {t}) is not above {t}.")
    answer = run.finish()
    check_shape(conversion, "the answer's w", answer.w, (3, 1))
    check_shape(conversion, "the answer's b", answer.b, (1,))


def _optimizer_for(conversion: Any) -> Any:
    """Return an optimizer that supports the conversion.

    FOBOS in epochs supports all conversions but those that compare iterates.
    """
    return FOBOS() if conversion_reason(_EPOCHS, conversion) else _EPOCHS


def _conversion_any_cut(conversion: Any) -> None:
    _any_cut(conversion, _optimizer_for(conversion), conversion.for_length(_LONG))


def _conversion_reading(conversion: Any) -> None:
    _reading(conversion, _optimizer_for(conversion), conversion.for_length(_LONG))


def _rounding_fields(rounding: Any) -> None:
    check_contract(rounding)
    rounding.check()
    rounding.suits(_REG, 3)


def _rounding_answer(rounding: Any) -> None:
    data = _data(Logistic(), n=_LONG)
    before = _learned(data, Logistic(), _REG, _EPOCHS, rounding.base, None)
    after = _learned(data, Logistic(), _REG, _EPOCHS, rounding, None)
    check_shape(rounding, "the answer's w", after.w, before.w.shape)
    added = np.any(after.w[before.w == 0.0])
    must(rounding.reweights or not added, rounding, "round gives a weight to a feature whose weight was zero.")


def _optimizer_fields(optimizer: Any) -> None:
    check_contract(optimizer)
    unknown = [form for form in optimizer.supported_penalties if form not in FORMS]
    must(not unknown, optimizer, f"supported_penalties has {unknown}; they are {', '.join(FORMS)}.")
    has_end = optimizer.next_epoch is not None
    must(optimizer.works_in_epochs == has_end, optimizer, "works_in_epochs and next_epoch(t) go together.")
    must(optimizer.l2_in in ("prox", "gradient"), optimizer, f"l2_in = {optimizer.l2_in!r}: 'prox' or 'gradient'.")


def _optimizer_declared(optimizer: Any) -> None:
    """Run the optimizer with everything it declares: penalties, ends of epochs, a start elsewhere, ``weights_at``."""
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
        must(np.abs(found - initial[0]) <= 1e-12, optimizer, "after place(w, b) the iterate is not w.")
    if final.works_in_epochs:
        must(final.next_epoch(run.t) > run.t, optimizer, "next_epoch(t) is not above t.")
    if final.weights_at is not None:
        some = np.array([0, 2])
        with plain_python():
            few = final.weights_at(run.problem, run.state, run.block, run.t, some)[0]
        must(np.abs(few - run.weights()[0][some]) <= 1e-12, optimizer, "weights_at differs from weights.")


def _mirror_fields(mirror: Any) -> None:
    check_contract(mirror)
    mirror.check()


def _mirror_map(mirror: Any) -> None:
    w = np.array([0.5, 0.0, -2.0])
    v = to_dual(mirror, w)
    check_shape(mirror, "to_dual(w) of 3 weights", v, (3,))
    must(np.abs(to_primal(mirror, v) - w) <= 1e-9, mirror, "to_primal(to_dual(w)) is not w.")
    must(abs(divergence(mirror, w, v)) <= 1e-9, mirror, "the divergence of a point from itself is not 0.")
    must(divergence(mirror, 2.0 * w, v) > 0.0, mirror, "the divergence of two points is not positive.")


_OF_FORM = {
    "absolute": _REG,
    "separable": NonNegative(0.05, 0.1),
    "grouped": RowGroup(0.05, 0.1),
    "l1-ball": L1Ball(1.0),
    "groups": GroupL1(0.05, np.array([0, 1, 0]), 0.1),
    "whole": L2Ball(1.0),
}
_EPOCHS = EpochGD(T1=100)
_CHECKS: dict[str, dict[str, Callable[[Any], None]]] = {
    "loss": {
        "fields": loss_fields,
        "convex": loss_convex,
        "derivative": loss_derivative,
        "curvature": loss_curvature,
        "learned as written": lambda loss: _lazy_is_dense(loss, loss, _REG),
        "compiled": loss_compiled,
        "compiled kernels": lambda loss: _compiled_is_plain(loss, loss, _REG),
    },
    "coupled loss": {"fields": loss_fields, "gradient": loss_gradient, "compiled": loss_compiled},
    "penalty": {
        "fields": penalty_fields,
        "prox": penalty_prox,
        "idle steps": penalty_idle,
        "shrink rate": penalty_shrink_rate,
        "learned as written": lambda reg: _lazy_is_dense(reg, Logistic(), reg),
        "compiled kernels": lambda reg: _compiled_is_plain(reg, Logistic(), reg),
    },
    "penalty of weighted problems": {"fields": check_contract, "weights": penalty_weights},
    "penalty of whole arrays": {"fields": penalty_fields, "prox": whole_prox},
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
    "selection method": {"fields": check_contract},
}
