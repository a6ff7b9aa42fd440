"""Every part by its name, the library's run of it, and the dense recursion of ``support.reference`` beside that run.

``check`` compares the two.  A new optimizer, conversion, loss or step rule is entered in a table here: the tests of
equivalence take it from there.
"""

from __future__ import annotations

import itertools
import warnings
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import reject

from sparsco import conversions, losses, optimizers, steps
from sparsco.data.rows import as_matrix
from sparsco.engine.run import DivergenceError, Run
from sparsco.penalties import ElasticNet, WeightedElasticNet
from sparsco.problem.state import Iterates, n_sums
from support import LONG, reference
from support.strategies import Stream

LOSSES = {
    "squared": losses.Squared(),
    "logistic": losses.Logistic(),
    "hinge": losses.Hinge(),
    "squared-hinge": losses.SquaredHinge(),
    "huber": losses.Huber(reference.HUBER),
    "epsilon-insensitive": losses.EpsilonInsensitive(reference.TUBE),
    "quantile": losses.Quantile(reference.QUANTILE),
    "poisson": losses.Poisson(),
    "gamma": losses.Gamma(),
    "tweedie": losses.Tweedie(reference.POWER),
}
LOG_LINKS = ("poisson", "gamma", "tweedie")
"""The losses whose slopes grow exponentially."""


def suited(loss, stream):
    """The stream with targets that the loss is made for; it comes with numbers."""
    record = LOSSES[loss]
    if record.classifies:
        return stream._replace(y=np.where(stream.y > 0.0, 1.0, -1.0))
    if loss == "poisson":
        return stream._replace(y=np.floor(np.abs(stream.y)))
    if loss == "gamma":
        return stream._replace(y=np.abs(stream.y) + 0.25)
    return stream._replace(y=np.maximum(stream.y, 0.0)) if loss == "tweedie" else stream


def stream(n=300, d=6, classify=True, seed=0, density=0.5):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < density)
    y = X @ np.linspace(1.0, -1.0, d) + 0.5 * rng.normal(size=n)
    return Stream(X, np.where(y > 0.0, 1.0, -1.0) if classify else y, None)


OPTIMIZERS = {
    "fobos": ("fobos", optimizers.FOBOS(), {}),
    "fobos-gradient": ("fobos", optimizers.FOBOS(l2_in="gradient"), {"l2_in": "gradient"}),
    "sgd": ("sgd", optimizers.SGD(), {}),
    "rda": ("rda", optimizers.RDA(), {}),
    "rda-enhanced": ("rda", optimizers.RDA(r=0.01), {"r": 0.01}),
    "ftrl": ("ftrl", optimizers.FTRL(alpha=0.3, beta=1.0), {"alpha": 0.3, "beta": 1.0}),
    "nftrl": ("nftrl", optimizers.NFTRL(), {}),
    "adagrad-fobos": ("adagrad-fobos", optimizers.AdaGradFOBOS(), {}),
    "adagrad-rda": ("adagrad-rda", optimizers.AdaGradRDA(), {}),
    "truncated": ("truncated-gradient", optimizers.TruncatedGradient(K=5), {"K": 5}),
    "truncated-theta": ("truncated-gradient", optimizers.TruncatedGradient(K=3, theta=0.4), {"K": 3, "theta": 0.4}),
    "epoch-gd": ("epoch-gd", optimizers.EpochGD(T1=10), {"T1": 10}),
    "orda": ("orda", optimizers.ORDA(), {}),
    "orda-split": ("orda", optimizers.ORDA(split=True), {"split": True}),
    "ssg": ("ssg", optimizers.SSG(), {}),
    "ftrl-own-clock": (
        "ftrl",
        optimizers.FTRL(0.3, 1.0, per_feature_clock=True),
        {"alpha": 0.3, "beta": 1.0, "per_feature_clock": True},
    ),
    "nftrl-own-clock": ("nftrl", optimizers.NFTRL(per_feature_clock=True), {"per_feature_clock": True}),
}

STEPPING = ("fobos", "sgd", "truncated-gradient", "epoch-gd")

RULES = {
    "auto": None,
    "strongly-convex": steps.StronglyConvex(mu=0.3),
    "uncapped": steps.StronglyConvex(mu=0.3, cap=False),
    "convex": steps.Convex(),
    "constant": steps.Constant(0.25),
    "inv-sqrt": steps.InverseSqrt(0.5),
    "inv-t": steps.InverseTime(0.5),
}

PENALTIES = {
    "l1": (0.02, 0.0),
    "elastic-net": (0.02, 0.3),
    "l2": (0.0, 0.3),
    "none": (0.0, 0.0),
    "huge": (50.0, 0.3),
}

MATRIX_CONVERSIONS = {
    "last": conversions.Last(),
    "average": conversions.Average(),
    "weighted": conversions.Average(power=3.0),
    "suffix": conversions.Suffix(),
    "average-sl": conversions.AverageSL(L=3.0),
    "average-sl-diagonal": conversions.AverageSL(metric="diagonal"),
    "last-sl": conversions.LastSL(L=3.0, last_factor=2.0),
    "optimal-sl": conversions.OptimalSL(L=3.0),
}
"""The conversions of models that are tied together, by a penalty or a loss."""
CONVERSIONS = {
    "last": lambda T: conversions.Last(),
    "average": lambda T: conversions.Average(),
    "weighted": lambda T: conversions.Average(power=3.0),
    "suffix": lambda T: conversions.Suffix(),
    "suffix-T": lambda T: conversions.Suffix(0.4, T),
    "average-sl": lambda T: conversions.AverageSL(L=3.0),
    "average-sl-T": lambda T: conversions.AverageSL(0.4, T, L=3.0),
    "average-sl-diagonal": lambda T: conversions.AverageSL(metric="diagonal"),
    "last-sl": lambda T: conversions.LastSL(L=3.0, last_factor=2.0),
    "last-sl-T": lambda T: conversions.LastSL(0.4, T, L=3.0),
    "optimal-sl": lambda T: conversions.OptimalSL(L=3.0),
    "optimal-sl-T": lambda T: conversions.OptimalSL(0.3, T, L=3.0, inner=0.6),
    "threshold": lambda T: conversions.Threshold(0.05, conversions.Average()),
    "top-k": lambda T: conversions.TopK(2, conversions.Average()),
}


class Fading(NamedTuple):
    """A half-life, and the time of each row."""

    half_life: float
    times: np.ndarray


def learn(stream, loss, optimizer, conversion, penalty, rule, intercept, pen=None, cuts=(), fading=None):
    """The library's answer and the run it came from."""
    X, y, weights = stream
    lam, rho = penalty
    penalty = ElasticNet(lam, rho) if pen is None else WeightedElasticNet(lam, rho, pen)
    half_life, times = (None, None) if fading is None else fading
    run = Run(
        LOSSES[loss],
        penalty,
        optimizer,
        conversion,
        rule,
        d=X.shape[1],
        intercept=intercept,
        seed=3,
        half_life=half_life,
    )
    edges = [0, *sorted(cuts), len(X)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        try:
            for a, b in itertools.pairwise(edges):
                own = None if times is None else times[a:b]
                run.feed(as_matrix(X[a:b]), y[a:b], None if weights is None else weights[a:b], times=own)
            run.begin()
            return run.finish(), run
        except DivergenceError:
            return None, run


def once_per_rows(compute):
    """A function of row numbers that computes its result once for each set of them."""
    known = {}

    def remembered(rows):
        key = rows.tobytes()
        if key not in known:
            known[key] = compute(rows)
        return known[key]

    return remembered


def dense(stream, loss, name, constants, penalty, rule, intercept, run, pen=None, fading=None):
    """A function from row numbers to the reference's trace over those rows, and the rows that took part."""
    X, y, weights = stream
    lam, rho = penalty
    fades = None
    if fading is not None:
        kept = slice(None) if weights is None else weights != 0.0
        fades = reference.fades_between(fading.times[kept], fading.half_life)
    X, y, weights = reference.kept_rows(X, y, weights)
    constants = dict(constants)
    L = run.pilot.L_mean
    if name == "rda":
        gamma = L / (10.0 if LOSSES[loss].classifies else 3.0)
        constants |= {"beta": L, "gamma": gamma, "gamma_b": gamma}
    if name == "nftrl" and (loss == "squared-hinge" or not LOSSES[loss].classifies):
        sigma, b0, slope = (part[0] for part in run.optimizer[2:5])
        constants |= {"alpha": 2.0 if LOSSES[loss].classifies else 1.0, "sigma": sigma, "b0": b0, "slope": slope}
    if name.startswith("adagrad"):
        eta, delta, b0 = (field[0] for field in run.optimizer)
        constants |= {"scale": eta, "delta": delta, "b0": b0}
    if name in ("orda", "ssg"):
        constants |= {"gamma": run.optimizer.gamma, "c0": run.optimizer.c0}

    @once_per_rows
    def trace(rows):
        eta = None
        if name in STEPPING:
            eta = step_sizes(X[rows], weights[rows], loss, rho, intercept, run, fades)
        return reference.iterates(
            X[rows],
            y[rows],
            optimizer=name,
            loss=loss,
            lam=lam,
            rho=rho,
            eta=eta,
            pen=pen,
            weights=weights[rows],
            intercept=intercept,
            fades=fades,
            **constants,
        )

    return trace, (X, y, weights)


def step_sizes(X, weights, loss, rho, intercept, run, fades=None):
    """The steps of the run's rule over these rows, capped where the rule says so."""
    eta = run.step.sizes(0, len(X)) if fades is None else run.step.sizes_at(reference.effective_numbers(fades))
    if not run.step.cap:
        return eta
    norms = np.sum(X**2, axis=1) + float(intercept)
    h_max = reference.H_MAX.get(loss, run.problem.loss.smoothness)
    with np.errstate(divide="ignore"):
        return np.minimum(eta, 1.0 / (h_max * weights * norms + rho))


def rounding_of_pulls(eta, K, lam, rho, omega):
    """What rounding can do to the mean of truncated gradient's iterates, whose sums hold lam B SP of all pulls so far.

    With P the product of decays, B the sum of pulls over P and SP that of omega P, a touch adds lam (B SP - SPB) to a
    sum, and the next one takes it off again.  Weights that were born after the last pull have fallen by nothing, but
    their sums went through this number: each touch leaves a rounding error of it, whatever the size of the weights.
    (Of FOBOS only weights live that outweigh the pull of every step.)  P is 1, and B and SP are 0, again below 1e-4.
    """
    P, B, SP, waiting, total = 1.0, 0.0, 0.0, 0.0, 0.0
    for t, step in enumerate(eta):
        SP, waiting = SP + omega[t] * P, waiting + step
        if (t + 1) % K == 0:
            B, waiting = B + waiting / P, 0.0
        total += lam * B * SP
        P /= 1.0 + step * rho
        if P < 1e-4:
            P, B, SP = 1.0, 0.0, 0.0
    return np.finfo(float).eps * total / omega.sum()


def converted(name, trace, rows, loss, penalty, pen, intercept):
    """The reference's answer for the conversion of this name."""
    X, y, weights = rows
    n = len(X)
    lam, rho = penalty
    options = {"lam": lam, "rho": rho, "pen": 1.0 if pen is None else pen, "intercept": intercept}
    if name.startswith("optimal-sl"):
        if name.endswith("-T"):
            return reference.optimal_sl(
                trace, X, y, alpha=0.3, T=n, inner=0.6, loss=loss, weights=weights, L=3.0, **options
            )
        return reference.optimal_sl_anytime(trace, X, y, loss=loss, weights=weights, L=3.0, **options)
    full = trace(np.arange(n))
    omega = reference.suffix_weights(n, 0.4, n) if name.endswith("-T") else reference.anytime_weights(n, "-sl" in name)
    if name == "last":
        return reference.last(full)
    if name == "average":
        return reference.average(full)
    if name == "weighted":
        return reference.weighted(full, 3.0)
    if name.startswith("suffix"):
        return reference.mean_iterate(full, omega)
    if name == "average-sl-diagonal":
        return reference.average_sl(full, omega, **options)
    if name.startswith("average-sl"):
        return reference.average_sl(full, omega, L=3.0, **options)
    if name.startswith("last-sl"):
        factor = 1.0 if name.endswith("-T") else 2.0
        return reference.last_sl(full, omega, L=3.0, last_factor=factor, **options)
    mean = reference.average(full)
    rounded = reference.threshold(mean.w, 0.05) if name == "threshold" else reference.top_k(mean.w, 2)
    return reference.Model(rounded, mean.b)


def assert_same(answer, model, trace_scale, slack=0.0):
    """Weights to 1e-10 of the largest and a slack, the same support but where the dense weight is itself below that.

    The largest of the whole trace: sums over iterates cannot be more exact than the iterates that went into them.
    Where all of them are zero there may still have been a step, at an epoch's end, and it leaves rounding errors.
    """
    w, b = answer.w[:, 0], answer.b[0]
    scale = max(np.abs(model.w).max(initial=0.0), abs(model.b), trace_scale, 1e-5)
    tolerance = 1e-10 * scale + slack
    np.testing.assert_allclose(w, model.w, rtol=0.0, atol=tolerance)
    assert b == pytest.approx(model.b, rel=1e-10, abs=tolerance)
    visible = np.abs(model.w) > tolerance
    assert np.array_equal(w[visible] != 0.0, model.w[visible] != 0.0)
    assert np.all(np.abs(w[~visible]) <= tolerance)


def assert_blown_up(rows, loss, model, costs=0.0):
    """The dense model's objective, with these costs of its penalty, is a thousand times that of zero."""
    X, y, weights = rows
    bad = np.mean(weights * reference.value(loss, X @ model.w + model.b, y)) + costs
    assert not bad < 999.0 * np.mean(weights * reference.value(loss, np.zeros(len(y)), y))


def check(stream, loss, optimizer, conversion, penalty, rule, intercept, pen=None, cuts=(), fading=None):
    name, record, constants = OPTIMIZERS[optimizer]
    n = int(len(stream.X) if stream.weights is None else np.count_nonzero(stream.weights))
    answer, run = learn(
        stream, loss, record, CONVERSIONS[conversion](max(n, 1)), penalty, RULES[rule], intercept, pen, cuts, fading
    )
    trace, rows = dense(stream, loss, name, constants, penalty, rule, intercept, run, pen, fading)
    with np.errstate(over="ignore"):
        model = converted(conversion, trace, rows, loss, penalty, pen, intercept)
        full = trace(np.arange(n))
        scale = max(np.abs(full.w).max(initial=0.0), np.abs(full.b).max())
        if answer is None:  # the library refused to return this model: the dense recursion blew up, too
            lam, rho = penalty
            costs = rho / 2 * model.w @ model.w + lam * np.sum((1.0 if pen is None else pen) * np.abs(model.w))
            assert_blown_up(rows, loss, model, costs)
            return
    slack = 0.0
    if name == "truncated-gradient":
        eta = step_sizes(rows[0], rows[2], loss, penalty[1], intercept, run)
        lam = penalty[0] * (1.0 if pen is None else np.max(pen))
        omega = reference.polynomial_weights(n, 3.0) if conversion == "weighted" else np.ones(n)
        slack = rounding_of_pulls(eta, constants["K"], lam, penalty[1], omega)
    assert_same(answer, model, scale, slack)


def jittered(stream):
    """Copies of the stream whose rows and weights differ by some rounding errors."""
    rng, weights = np.random.default_rng(0), np.ones(len(stream.X)) if stream.weights is None else stream.weights
    for _ in range(8):
        rows, steps_ = (1.0 + 2.0**-48 * rng.integers(-2, 3, size=part.shape) for part in (stream.X, weights))
        yield stream._replace(X=stream.X * rows, weights=weights * steps_)


def is_chaotic(stream, loss, optimizer, conversion, penalty, rule, intercept, pen=None, cuts=(), fading=None):
    """Whether rounding errors in the stream and in lam move the dense recursion itself by as much as is tolerated.

    No two ways to compute such a recursion agree.  Steps that overshoot in bounds amplify errors.  A jump does so at
    once: a margin at the kink of a hinge, a weight at truncated gradient's theta, equal weights for ``top-k``; and for
    SGD, whose penalty has the slope sgn(w), a weight that cancels to zero but for rounding.
    """
    name, record, constants = OPTIMIZERS[optimizer]
    n = int(len(stream.X) if stream.weights is None else np.count_nonzero(stream.weights))
    how = record, CONVERSIONS[conversion](max(n, 1)), penalty, RULES[rule], intercept, pen, cuts, fading
    _, run = learn(stream, loss, *how)
    found, (lam, rho) = [], penalty
    for k, moved in enumerate((stream, *jittered(stream))):
        penalty = lam * (1.0 + k % 3 * 2.0**-48), rho
        trace, rows = dense(moved, loss, name, constants, penalty, rule, intercept, run, pen, fading)
        full, model = trace(np.arange(n)), converted(conversion, trace, rows, loss, penalty, pen, intercept)
        found.append([full.w, full.b, model.w])  # two ways may part at a jump, and meet again
    w = found[0][0]
    cancels = (np.abs(w[1:]) <= 1e-13 * np.abs(w).max(initial=0.0)) & (w[:-1] != 0.0)
    return differ(found) or (name == "sgd" and lam > 0.0 and bool(cancels.any()))


def check_unless_chaotic(*case):
    """Check a case; reject it where the two disagree because no two ways to compute it agree."""
    with np.errstate(over="ignore"):
        try:
            check(*case)
        except AssertionError:
            if is_chaotic(*case):
                reject()
            raise


def differ(found):
    """Whether these lists of arrays differ by as much as is tolerated."""
    scale = max(np.abs(part).max(initial=0.0) for part in found[0])
    pairs = (pair for each in found for pair in zip(each, found[0], strict=True))
    return any(np.abs(a - b).max(initial=0.0) > 1e-10 * scale for a, b in pairs)


def sensible(optimizer, rule, penalty):
    """Combinations in which the method itself is defined."""
    lam, rho = PENALTIES[penalty]
    if (OPTIMIZERS[optimizer][0] not in STEPPING or optimizer == "epoch-gd") and rule != "auto":
        return False
    if optimizer in ("rda-enhanced", "truncated-theta") and rho > 0.0:
        return False
    if optimizer == "epoch-gd" and rho == 0.0:
        return False
    if optimizer in ("fobos-gradient", "sgd") and rho > 0.0 and rule == "convex":
        return False  # steps of 1 / L_mean may exceed 1 / rho, which is refused: see test_refusals
    return True


PRODUCT = [
    (optimizer, kind)
    for optimizer, kind in itertools.product(OPTIMIZERS, ["l1", "elastic-net", "extreme"])
    if sensible(optimizer, "auto", "l2" if kind == "extreme" else kind)
]


ROUNDED = ("threshold", "top-k")


def covering():
    """Every optimizer with every conversion, the three basic losses and the penalties going round, out of step with
    both and each other; every other loss with every kind of kernel.

    A kernel is compiled for a loss, for what is watched and for whether there is an L2 term: conversions that watch the
    same thing share both, so that an optimizer is compiled four times and not twenty-four.  Two of the four are for
    logistic loss, which the other tests of this kind share.
    """
    losses_ = ("logistic", "squared", "hinge")
    around = (0, 1, 2, 0), (2, 0, 0, 1), (1, 2, 0, 0), (2, 0, 1, 0)  # by what is watched; hinge has no curvatures
    for i, optimizer in enumerate(OPTIMIZERS):
        for j, conversion in enumerate(CONVERSIONS):
            watched = CONVERSIONS[conversion](10).watch(LOSSES["squared"]) if conversion not in ROUNDED else Iterates()
            loss = losses_[around[i % 4][n_sums(watched)]]
            penalty = ("l1", "elastic-net")[(i + i // 4 + n_sums(watched)) % 2]
            if not sensible(optimizer, "auto", penalty):
                penalty = "elastic-net" if penalty == "l1" else "l1"
            yield optimizer, conversion, loss, penalty, False, (i + j) % 2 == 0
    for i, (optimizer, conversion) in enumerate(itertools.product(OPTIMIZERS, ("last", "average"))):
        if not LONG and i // 2 % 2 != i % 2 and optimizer not in ("sgd", "orda", "orda-split", "ssg"):
            continue  # optimizers that share a kernel take turns
        penalty = "l1" if sensible(optimizer, "auto", "l1") else "elastic-net"
        yield optimizer, conversion, "logistic", penalty, True, True
    for i, loss in enumerate(name for name in LOSSES if name not in losses_):
        for j, optimizer in enumerate(("fobos", "sgd", "rda", "ftrl", "nftrl")):
            curved = "average-sl-diagonal" if LOSSES[loss].curved else "average-sl"
            conversion, penalty = (curved, "last", "optimal-sl")[(i + j) % 3], ("l1", "elastic-net")[j % 2]
            yield optimizer, conversion, loss, penalty, False, True
