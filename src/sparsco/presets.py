"""Presets: every algorithm of the papers under its own name, as an optimizer, a conversion and a step size.

A preset's ``parameters`` are the arguments of an estimator::

    SparseClassifier(alpha=..., **presets.AverageSL().parameters())

With ``paper=True`` a preset uses the constants that reproduce the papers' tables (see docs/notation.md for the
symbols).  Otherwise it uses ours: FOBOS as base, any-time windows, a metric learned from the data.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from . import conversions, mirrors, optimizers, steps
from .penalties import L1Ball


class Preset(NamedTuple):
    """A composition of an optimizer, a conversion and a step-size rule (None: the default rule)."""

    optimizer: Any
    conversion: Any
    step_size: Any = None
    penalty: Any = None
    """The algorithm's own penalty, if it has one."""

    def parameters(self) -> dict[str, Any]:
        """Return the keyword arguments for an estimator."""
        step = "auto" if self.step_size is None else self.step_size
        own = {} if self.penalty is None else {"penalty": self.penalty}
        return {"optimizer": self.optimizer, "conversion": self.conversion, "step_size": step, **own}


def _paper_steps(t0: float | None) -> steps.StronglyConvex:
    """Return the steps 1 / (rho (t + t0)) without a cap.

    The papers print t0 = 0, which diverges on squared loss; None means 2 L_mean / rho.
    """
    return steps.StronglyConvex(t0=t0, cap=False)


def AlphaSGD(  # noqa: N802
    alpha: float = 0.5,
    T: int | None = None,
    *,
    paper: bool = False,
    t0: float | None = None,
    sign_at_zero: float = 0.0,
    sweep: bool = False,
) -> Preset:
    """Return SGD on subgradients with alpha-suffix averaging, the mean of the last share alpha of the iterates."""
    optimizer = optimizers.SGD(sign_at_zero, sweep)
    return Preset(optimizer, conversions.Suffix(alpha, T), _paper_steps(t0) if paper else None)


def FOBOS(*, paper: bool = False, t0: float | None = None, c: float | None = None) -> Preset:  # noqa: N802
    """Return forward-backward splitting with the last iterate; ``paper=True`` puts the L2 term in the gradient.

    Its steps are then 1 / (rho (t + t0)), or c / (t + t0) where ``c`` is given.
    """
    if paper:
        rule = _paper_steps(t0) if c is None else steps.InverseTime(c, t0 or 0.0, cap=False)
        return Preset(optimizers.FOBOS(l2_in="gradient"), conversions.Last(), rule)
    return Preset(optimizers.FOBOS(), conversions.Last())


def RDA(  # noqa: N802
    *,
    beta: float | None = None,
    gamma: float | None = None,
    r: float = 0.0,
    paper: bool = False,
    converted: bool = False,
) -> Preset:
    """Return regularized dual averaging with the last iterate; ``r`` > 0 enhances sparsity (without an L2 term).

    ``paper=True`` is the enhanced variant that the paper on stabilized truncated SGD compares with: gamma 5000, r .005.
    ``converted=True`` has the guarded conversion instead of the last iterate.
    """
    if paper:
        gamma, r = 5000.0, 0.005
    conversion = conversions.AverageSL() if converted else conversions.Last()
    return Preset(optimizers.RDA(beta=beta, gamma=gamma, r=r), conversion)


def ORDA(  # noqa: N802
    gamma: float | None = None, c0: float | None = None, *, split: bool | None = None, paper: bool = False
) -> Preset:
    """Return optimal regularized dual averaging with the last iterate.

    ``paper=True``: gamma = 60 and the L2 term split in half.  60 suits the papers' 100 features.  With 1000 features it
    diverges; 6e4 or our own choice (None) does not.
    """
    if paper:
        gamma, split = 60.0 if gamma is None else gamma, True if split is None else split
    return Preset(optimizers.ORDA(gamma, c0, bool(split)), conversions.Last())


def SSG(*, gamma: float | None = None, c0: float | None = None, paper: bool = False) -> Preset:  # noqa: N802
    """Return the sparsity preserving stochastic gradient method with the last iterate; O(d) per example."""
    return Preset(optimizers.SSG(gamma, c0), conversions.Last())


def FTRL(*, alpha: float = 0.1, beta: float = 1.0, paper: bool = False) -> Preset:  # noqa: N802
    """Return FTRL-proximal with the last iterate; its paper tunes alpha and uses beta = 1, as here."""
    return Preset(optimizers.FTRL(alpha=alpha, beta=beta), conversions.Last())


def NFTRL(*, paper: bool = False, converted: bool = True) -> Preset:  # noqa: N802
    """Return normalised FTRL with the guarded conversion: our default without an L2 term; no paper's constants.

    ``converted=False`` has the last iterate.
    """
    return Preset(optimizers.NFTRL(), conversions.AverageSL() if converted else conversions.Last())


def TruncatedGradient(K: int = 1, theta: float = math.inf, *, paper: bool = False) -> Preset:  # noqa: N802
    """Return truncated gradient with the last iterate.

    Its paper shrinks every 10 examples, with a gravity and steps that it tunes.
    """
    return Preset(optimizers.TruncatedGradient(10 if paper else K, theta), conversions.Last())


def EpochGD(T1: int | None = None, eta1: float | None = None, *, paper: bool = False) -> Preset:  # noqa: N802
    """Return Epoch-GD with the mean over the last complete epoch, its paper's output; it needs an L2 term."""
    return Preset(optimizers.EpochGD(T1, eta1), conversions.LastEpoch())


def AdaGradFOBOS(eta: float | None = None, delta: float | None = None, *, paper: bool = False) -> Preset:  # noqa: N802
    """Return AdaGrad with forward-backward steps and the last iterate; its paper tunes eta."""
    return Preset(optimizers.AdaGradFOBOS(eta, delta), conversions.Last())


def AdaGradRDA(eta: float | None = None, delta: float | None = None, *, paper: bool = False) -> Preset:  # noqa: N802
    """Return AdaGrad with dual averaging and the last iterate; its paper tunes eta."""
    return Preset(optimizers.AdaGradRDA(eta, delta), conversions.Last())


def AverageSL(  # noqa: N802
    alpha: float | None = None,
    T: int | None = None,
    L: float | None = None,
    *,
    paper: bool = False,
    t0: float | None = None,
    sign_at_zero: float = 0.0,
    sweep: bool = False,
) -> Preset:
    """Return sparse learning around the average iterate; ``paper=True``: SGD, alpha = .3, scalar L = 5."""
    if paper:
        conversion = conversions.AverageSL(0.3 if alpha is None else alpha, T, 5.0 if L is None else L)
        return Preset(optimizers.SGD(sign_at_zero, sweep), conversion, _paper_steps(t0))
    return Preset(optimizers.FOBOS(), conversions.AverageSL(0.5 if alpha is None else alpha, T, L))


def LastSL(  # noqa: N802
    alpha: float | None = None,
    T: int | None = None,
    L: float | None = None,
    *,
    paper: bool = False,
    t0: float | None = None,
    sign_at_zero: float = 0.0,
    sweep: bool = False,
    last_factor: float = 1.0,
) -> Preset:
    """Return sparse learning around the last iterate.

    ``paper=True``: SGD, alpha = .3, L = 5; the later paper doubles L.
    """
    if paper:
        conversion = conversions.LastSL(
            0.3 if alpha is None else alpha, T, 5.0 if L is None else L, last_factor=last_factor
        )
        return Preset(optimizers.SGD(sign_at_zero, sweep), conversion, _paper_steps(t0))
    return Preset(
        optimizers.FOBOS(), conversions.LastSL(0.5 if alpha is None else alpha, T, L, last_factor=last_factor)
    )


def OptimalSL(  # noqa: N802
    alpha: float | None = None,
    T: int | None = None,
    L: float | None = None,
    *,
    inner: float | None = None,
    paper: bool = False,
    t0: float | None = None,
    sign_at_zero: float = 0.0,
    sweep: bool = False,
) -> Preset:
    """Return sparse learning from the gradient at a fixed average.

    ``paper=True``: SGD, alpha = .3, scalar L = 5, inner = alpha.
    """
    if paper:
        conversion = conversions.OptimalSL(0.3 if alpha is None else alpha, T, 5.0 if L is None else L, inner=inner)
        return Preset(optimizers.SGD(sign_at_zero, sweep), conversion, _paper_steps(t0))
    return Preset(optimizers.FOBOS(), conversions.OptimalSL(0.5 if alpha is None else alpha, T, L, inner=inner))


STRATEGIES: dict[str, Callable[[int | None], Any]] = {
    "uniform": lambda T: conversions.Average(),
    "weighted": lambda T: conversions.Average(power=1.0),
    "suffix": lambda T: conversions.Suffix(0.5, T),
    "random": lambda T: conversions.RandomIterate(0.5, T),
    "last": lambda T: conversions.Last(),
    "ocmdi": lambda T: conversions.OCMDI(),
    "scmdi": lambda T: conversions.SCMDI(None if T is None else (T + 1) // 2),
}
"""The choices of iterates that "Optimal Stochastic and Online Learning with Individual Iterates" compares."""


def Kaczmarz(  # noqa: N802
    lam: float = 1.0,
    eps: float = 0.0,
    strategy: str = "ocmdi",
    step: float = 0.5,
    *,
    largest_row: float = 1.0,
    T: int | None = None,
    paper: bool = False,
) -> Preset:
    """Return randomized sparse Kaczmarz; its constant step is ``step`` over the largest squared norm of a row.

    ``paper=True``: eps = 1e-8.
    """
    eps = 1e-8 if paper else eps
    optimizer = optimizers.MirrorDescent(mirrors.SparseKaczmarz(float(lam), eps))
    return Preset(optimizer, STRATEGIES[strategy](T), steps.Constant(step / largest_row, cap=False))


def SVM(  # noqa: N802
    strategy: str = "ocmdi",
    l2_in: str = "prox",
    *,
    rho: float = 1.0,
    mu: float = 0.5,
    T: int | None = None,
    paper: bool = False,
) -> Preset:
    """Return FOBOS with steps mu / (rho t) and any choice of iterates, for support vector machines.

    The L2 term is in the prox (SPGD) or in the gradient (SGD).
    """
    return Preset(optimizers.FOBOS(l2_in), STRATEGIES[strategy](T), steps.InverseTime(mu / rho, cap=False))


def TwoStage(  # noqa: N802
    B: float | None = None,
    T1: int | None = None,
    eta1: float | None = None,
    rho1: float = math.inf,
    *,
    paper: bool = False,
) -> Preset:
    """Return stage one of the two-stage method: Epoch-SGD in the L1 ball of radius B, averaged over the current epoch.

    Stage two is an estimator's ``budget``, or the conversion ``Sparsify``.  Its paper tunes T1 and eta1 on a grid and
    uses B = max |y|, which is far too small for text.  With ``paper=True`` steps have no cap, as printed, and B, T1 and
    eta1 are those that reproduce its figures on film reviews.
    """
    if paper:
        B, T1, eta1 = B or 1000.0, T1 or 500, eta1 or 2.0
    steps_ = steps.Halving(T1, eta1, cap=False) if paper else None
    return Preset(optimizers.EpochSGD(T1, eta1, rho1), conversions.LastEpoch(complete=False), steps_, L1Ball(B))


def BallSGD(  # noqa: N802
    B: float | None = None, eta: float | None = None, strategy: str = "last", *, paper: bool = False
) -> Preset:
    """Return projected SGD in an L1 ball, the single-stage method for few features.

    The steps are eta / sqrt(t); with ``eta=None``, those of the convex rule.
    """
    rule = steps.Convex() if eta is None else steps.InverseSqrt(eta, cap=not paper)
    return Preset(optimizers.EpochSGD(_ONE_EPOCH), STRATEGIES[strategy](None), rule, L1Ball(B))


_ONE_EPOCH = 1 << 40
"""The length of an epoch that is longer than any stream."""

PRESETS: dict[str, Callable[..., Preset]] = {
    preset.__name__: preset
    for preset in (
        AlphaSGD,
        FOBOS,
        RDA,
        ORDA,
        SSG,
        FTRL,
        NFTRL,
        TruncatedGradient,
        EpochGD,
        AdaGradFOBOS,
        AdaGradRDA,
        AverageSL,
        LastSL,
        OptimalSL,
        Kaczmarz,
        SVM,
        TwoStage,
        BallSGD,
    )
}
