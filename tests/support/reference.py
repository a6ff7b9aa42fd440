"""The dense reference: every recursion of docs/notation.md as slow, plain NumPy that stores every iterate.

Nothing here is imported from the library, and nothing is clever: each formula stands as on that page, over whole
vectors.  Tests compare the lazy kernels with it.

An optimizer is a class with ``w``, ``b`` and ``step(x, c, eta)``.  :func:`iterates` runs one over a stream and gives a
:class:`Trace`.  A conversion is a function of a trace; the average it takes is told by ``omega``, one weight for each
iterate (:func:`all_weights`, :func:`polynomial_weights`, :func:`suffix_weights`, :func:`anytime_weights`).
"""

# ruff: noqa: N803, N806  (the symbols are those of docs/notation.md)

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp, softmax

Array = np.ndarray


# ---------------------------------------------------------------------------------------------------------------------
# Losses, soft threshold
# ---------------------------------------------------------------------------------------------------------------------

H_MAX = {"squared": 1.0, "logistic": 0.25, "hinge": 1.0, "squared-hinge": 2.0, "huber": 1.0}
"""The others have a step scale from the data: see docs/notation.md."""

HUBER, TUBE, QUANTILE, POWER = 1.35, 0.1, 0.3, 1.5
"""epsilon of "huber" and of "epsilon-insensitive", q of "quantile", the power of "tweedie"."""


def soft(v: Any, s: Any) -> Any:
    """S(v, s) = sign(v) max(|v| - s, 0)."""
    return np.sign(v) * np.maximum(np.abs(v) - s, 0.0)


def value(loss: str, p: Any, y: Any) -> Any:
    """The loss at margin p; of a loss ``...-offset`` the targets are records (y, offset)."""
    if loss.endswith("-offset"):
        return value(loss.removesuffix("-offset"), p + y["offset"], y["y"])
    if loss == "squared":
        return 0.5 * (p - y) ** 2
    if loss == "logistic":
        return np.logaddexp(0.0, -y * p)
    if loss == "hinge":
        return np.maximum(0.0, 1.0 - y * p)
    if loss == "squared-hinge":
        return np.maximum(0.0, 1.0 - y * p) ** 2
    r = p - y
    if loss == "huber":
        return np.where(np.abs(r) <= HUBER, r**2 / 2, HUBER * np.abs(r) - HUBER**2 / 2)
    if loss == "epsilon-insensitive":
        return np.maximum(0.0, np.abs(r) - TUBE)
    if loss == "quantile":
        return np.where(r < 0.0, -QUANTILE * r, (1.0 - QUANTILE) * r)
    if loss == "poisson":
        return np.exp(p) - y * p
    if loss == "gamma":
        return y / np.exp(p) + p - np.log(y) - 1.0
    if loss == "tweedie":  # mu^(2-r) / (2-r) - y mu^(1-r) / (1-r) + y^(2-r) / ((1-r) (2-r)), mu = exp(p)
        mean, a, b = np.exp(p), 2.0 - POWER, 1.0 - POWER
        return mean**a / a - y * mean**b / b + y**a / (a * b)
    if loss == "multinomial":  # of whole examples: p and y have one column per class
        return logsumexp(p, axis=-1) - np.sum(y * p, axis=-1)
    raise ValueError(loss)


def derivative(loss: str, p: Any, y: Any) -> Any:
    """d loss / dp, 0 at a kink."""
    if loss.endswith("-offset"):
        return derivative(loss.removesuffix("-offset"), p + y["offset"], y["y"])
    if loss == "squared":
        return p - y
    if loss == "logistic":
        return -y * np.exp(-np.logaddexp(0.0, y * p))  # -y / (1 + exp(y p)), without overflow
    if loss == "hinge":
        return np.where(y * p < 1.0, -y, 0.0)
    if loss == "squared-hinge":
        return np.where(y * p < 1.0, -2.0 * y * (1.0 - y * p), 0.0)
    r = p - y
    if loss == "huber":
        return np.clip(r, -HUBER, HUBER)
    if loss == "epsilon-insensitive":
        return np.where(np.abs(r) > TUBE, np.sign(r), 0.0)
    if loss == "quantile":
        return np.where(r == 0.0, 0.0, np.where(r < 0.0, -QUANTILE, 1.0 - QUANTILE))
    if loss == "poisson":
        return np.exp(p) - y
    if loss == "gamma":
        return 1.0 - y / np.exp(p)
    if loss == "tweedie":
        return np.exp(p) ** (1.0 - POWER) * (np.exp(p) - y)
    if loss == "multinomial":
        return softmax(p, axis=-1) - y
    raise ValueError(loss)


def curvature(loss: str, p: Any, y: Any) -> Any:
    """The second derivative in p."""
    if loss.endswith("-offset"):
        return curvature(loss.removesuffix("-offset"), p + y["offset"], y["y"])
    if loss == "squared":
        return np.ones_like(p)
    if loss == "logistic":
        return np.exp(-np.logaddexp(0.0, p) - np.logaddexp(0.0, -p))  # s (1 - s), s = 1 / (1 + exp(-p))
    if loss in ("hinge", "epsilon-insensitive", "quantile"):
        return np.zeros_like(p)
    if loss == "squared-hinge":
        return np.where(y * p < 1.0, 2.0, 0.0)
    if loss == "huber":
        return np.where(np.abs(p - y) <= HUBER, 1.0, 0.0)
    if loss == "poisson":
        return np.exp(p)
    if loss == "gamma":
        return y / np.exp(p)
    if loss == "tweedie":
        return (2.0 - POWER) * np.exp(p) ** (2.0 - POWER) + (POWER - 1.0) * y * np.exp(p) ** (1.0 - POWER)
    if loss == "multinomial":  # the Hessian's diagonal
        s = softmax(p, axis=-1)
        return s * (1.0 - s)
    raise ValueError(loss)


def objective(X: Array, y: Array, w: Array, b: float, *, loss: str, lam: float, rho: float, pen: Any = 1.0) -> float:
    """phi(w) = mean loss + rho/2 ||w||^2 + lam sum_j pen_j |w_j|."""
    return float(np.mean(value(loss, X @ w + b, y)) + rho / 2 * w @ w + lam * np.sum(pen * np.abs(w)))


# ---------------------------------------------------------------------------------------------------------------------
# Step sizes
# ---------------------------------------------------------------------------------------------------------------------


def mean_smoothness(X: Array, loss: str, *, intercept: bool = True, weights: Array | None = None) -> float:
    """L_mean = h_max times the mean of weight (||x||^2 + 1) over the (pilot) rows X; the 1 is the intercept's."""
    X, _, weights = kept_rows(X, None, weights)
    return float(H_MAX[loss] * np.mean(weights * (np.sum(X**2, axis=1) + float(intercept))))


def steps(
    rule: str,
    X: Array,
    *,
    loss: str,
    rho: float,
    L_mean: float = math.nan,
    c: float = math.nan,
    t0: float | None = None,
    cap: bool | None = None,
    weights: Array | None = None,
    intercept: bool = True,
) -> Array:
    """eta_1 .. eta_T for the rows X (those of weight zero left out); ``c`` is the rule's constant where it has one.

    ``cap = None`` is the table's default: on for strongly-convex, on for convex with squared loss, else off.
    """
    X, _, weights = kept_rows(X, None, weights)
    t = np.arange(1, len(X) + 1, dtype=float)
    if rule == "strongly-convex":
        eta = 1.0 / (rho * (t + (2.0 * L_mean / rho if t0 is None else t0)))
    elif rule == "convex":
        eta = 1.0 / (L_mean * np.sqrt(1.0 + t / 100.0))
    elif rule == "constant":
        eta = c * np.ones_like(t)
    elif rule == "inv-sqrt":
        eta = c / np.sqrt(t)
    elif rule == "inv-t":
        eta = c / t
    else:
        raise ValueError(rule)
    if cap is None:
        cap = rule == "strongly-convex" or (rule == "convex" and loss == "squared")
    if cap:
        with np.errstate(divide="ignore"):  # an empty row without intercept and rho has no cap
            eta = np.minimum(eta, 1.0 / (H_MAX[loss] * weights * (np.sum(X**2, axis=1) + float(intercept)) + rho))
    return eta


# ---------------------------------------------------------------------------------------------------------------------
# Optimizers
# ---------------------------------------------------------------------------------------------------------------------


class Problem(NamedTuple):
    """What every optimizer is told: number of features, penalty, whether there is an intercept."""

    d: int
    lam: float
    rho: float
    pen: Array
    intercept: bool


class FOBOS:
    """w <- S(w - eta c x, eta lam pen) / (1 + eta rho), or with the L2 term in the gradient."""

    def __init__(self, problem: Problem, l2_in: str = "prox"):
        self.p, self.l2_in = problem, l2_in
        self.w, self.b = np.zeros(problem.d), 0.0

    def step(self, x: Array, c: float, eta: float) -> None:
        _, lam, rho, pen, _ = self.p
        if self.l2_in == "prox":
            self.w = soft(self.w - eta * c * x, eta * lam * pen) / (1.0 + eta * rho)
        else:
            self.w = soft((1.0 - eta * rho) * self.w - eta * c * x, eta * lam * pen)
        self.b = self.b - eta * c


class TruncatedGradient:
    """w <- w - eta c x; after every K-th example what is at most theta in size is pulled to zero by lam pen times the
    sum of the steps since the last pull; an L2 term divides by 1 + eta rho at every example."""

    def __init__(self, problem: Problem, K: int = 1, theta: float = math.inf):
        self.p, self.K, self.theta = problem, K, theta
        self.w, self.b = np.zeros(problem.d), 0.0
        self.t, self.steps = 0, 0.0

    def step(self, x: Array, c: float, eta: float) -> None:
        _, lam, rho, pen, _ = self.p
        self.t, self.steps = self.t + 1, self.steps + eta
        self.w, self.b = self.w - eta * c * x, self.b - eta * c
        if self.t % self.K == 0:
            self.w = np.where(np.abs(self.w) <= self.theta, soft(self.w, self.steps * lam * pen), self.w)
            self.steps = 0.0
        self.w = self.w / (1.0 + eta * rho)


class EpochGD(FOBOS):
    """FOBOS in epochs of T1, 2 T1, 4 T1, ... examples, each from the mean of the iterates of the one before."""

    def __init__(self, problem: Problem, T1: int):
        super().__init__(problem)
        self.length, self.epoch = T1, []

    def step(self, x: Array, c: float, eta: float) -> None:
        self.epoch.append((self.w, self.b))
        self.move(x, c, eta)
        if len(self.epoch) == self.length:
            self.w = np.mean([w for w, _ in self.epoch], axis=0)
            self.b = float(np.mean([b for _, b in self.epoch]))
            self.length, self.epoch = 2 * self.length, []
            self.begin()

    def move(self, x: Array, c: float, eta: float) -> None:
        super().step(x, c, eta)

    def begin(self) -> None:
        """A new epoch."""


class EpochSGD(EpochGD):
    """Projected SGD in the same epochs: w <- the point nearest w - eta c x with ||w||_1 <= B that lies within
    rho1 / sqrt(2)^(k-1) of the start of epoch k."""

    def __init__(self, problem: Problem, T1: int, B: float, rho1: float = math.inf):
        super().__init__(problem, T1)
        self.B, self.rho, self.start = B, rho1, self.w

    def move(self, x: Array, c: float, eta: float) -> None:
        target = self.w - eta * c * x
        self.w = into_l1_ball(target, self.B)
        if np.linalg.norm(self.w - self.start) > self.rho:
            low, high = 0.0, 1.0
            while low < 0.5 * (low + high) < high:
                middle = 0.5 * (low + high)
                w = into_l1_ball(self.start + middle * (target - self.start), self.B)
                if np.linalg.norm(w - self.start) <= self.rho:
                    low, self.w = middle, w
                else:
                    high = middle
        self.b = self.b - eta * c

    def begin(self) -> None:
        self.start, self.rho = self.w, self.rho / math.sqrt(2.0)


def into_l1_ball(v: Array, B: float) -> Array:
    """By sorting: the largest threshold that leaves as many weights above it as it was computed from.

    Sizes and threshold are those below the largest size: where that is 2^53 B, a threshold in full equals it.
    """
    size = np.abs(v)
    if size.sum() <= B or not np.isfinite(size).all():
        return v + 0.0 * size.sum()  # v, or where it is not finite no number at all
    below = np.sort(size.max() - size)
    level = (B + np.cumsum(below)) / np.arange(1, len(v) + 1)
    return np.copysign(np.maximum(level[np.flatnonzero(below < level)[-1]] - (size.max() - size), 0.0), v)


class SGD:
    """w <- w - eta (c x + rho w + lam pen sgn(w))."""

    def __init__(self, problem: Problem, sign_at_zero: float = 0.0):
        self.p, self.sign_at_zero = problem, sign_at_zero
        self.w, self.b = np.zeros(problem.d), 0.0

    def step(self, x: Array, c: float, eta: float) -> None:
        _, lam, rho, pen, _ = self.p
        sgn = np.where(self.w == 0.0, self.sign_at_zero, np.sign(self.w))
        self.w = self.w - eta * (c * x + rho * self.w + lam * pen * sgn)
        self.b = self.b - eta * c


class RDA:
    """rho > 0: w = -S(G, lam pen t) / (rho t + beta); rho = 0: -S(G, pen (lam t + gamma r sqrt t)) / (gamma sqrt t).

    ``fade`` is what all sums, t among them, are multiplied by before the next example.
    """

    fade = 1.0

    def __init__(
        self,
        problem: Problem,
        beta: float = math.nan,
        gamma: float = math.nan,
        r: float = 0.0,
        gamma_b: float = math.nan,
    ):
        self.p, self.beta, self.gamma, self.r, self.gamma_b = problem, beta, gamma, r, gamma_b
        self.w, self.b = np.zeros(problem.d), 0.0
        self.t, self.G, self.G_b = 0, np.zeros(problem.d), 0.0

    def step(self, x: Array, c: float, eta: float) -> None:
        _, lam, rho, pen, _ = self.p
        fade = self.fade
        self.t, self.G, self.G_b = fade * self.t + 1, fade * self.G + c * x, fade * self.G_b + c
        t, gamma, root = self.t, self.gamma, math.sqrt(self.t)
        if rho > 0.0:
            self.w = -soft(self.G, lam * pen * t) / (rho * t + self.beta)
        else:
            self.w = -soft(self.G, pen * (lam * t + gamma * self.r * root)) / (gamma * root)
        self.b = -self.G_b / (self.gamma_b * root)


class Ages:
    """How many examples count for each feature: all, or with clocks of their own those from its first appearance on."""

    fade = 1.0

    def __init__(self, d: int, per_feature_clock: bool):
        self.per_feature_clock, self.t, self.ages = per_feature_clock, 0.0, np.zeros(d)
        self.seen = np.zeros(d, bool)

    def so_far(self) -> Array:
        return self.ages if self.per_feature_clock else np.full(len(self.ages), float(self.t))

    def step(self, x: Array, fade: float) -> Array:
        self.t = fade * self.t + 1.0
        self.seen |= x != 0.0
        self.ages = fade * self.ages + self.seen
        return self.so_far()


class FTRL:
    """FTRL-proximal: dual averaging with AdaGrad rates per coordinate; the intercept is a feature with x = 1.

    ``fade`` multiplies all sums, rates among them, before the next example.
    """

    fade = 1.0

    def __init__(self, problem: Problem, alpha: float, beta: float, per_feature_clock: bool = False):
        self.ages = Ages(problem.d, per_feature_clock)
        self.p, self.alpha, self.beta = problem, alpha, beta
        self.w, self.b = np.zeros(problem.d), 0.0
        self.n, self.z, self.r = (np.full(problem.d, start) for start in (0.0, 0.0, beta / alpha))
        self.n_b, self.z_b, self.r_b = 0.0, 0.0, beta / alpha

    def step(self, x: Array, c: float, eta: float) -> None:
        _, lam, rho, pen, _ = self.p
        t = self.ages.step(x, self.fade)
        self.n, self.z, self.r = self._add(self.n, self.z, self.r, c * x, self.w, x != 0.0)
        self.n_b, self.z_b, self.r_b = map(float, self._add(self.n_b, self.z_b, self.r_b, c, self.b, True))
        self.w = divide(-soft(self.z, lam * pen * t), self.r + rho * t)
        self.b = float(divide(-self.z_b, self.r_b))

    def _add(self, n: Any, z: Any, r: Any, g: Any, w: Any, touched: Any) -> tuple[Any, Any, Any]:
        n, z, r = self.fade * n + g**2, self.fade * z, self.fade * r
        new_r = np.where(touched, (self.beta + np.sqrt(n)) / self.alpha, r)
        return n, z + g - (new_r - r) * w, new_r


class NFTRL:
    """Normalised FTRL-proximal; for squared loss alpha = 1, sigma and b0 from :func:`pilot_targets`.

    ``slope`` is the derivatives' scale, the same as ``sigma`` unless given.  ``fade`` multiplies all sums, rates among
    them, before the next example.
    """

    fade = 1.0

    def __init__(
        self,
        problem: Problem,
        alpha: float = 2.0,
        sigma: float = 1.0,
        b0: float = 0.0,
        delta: float = 1.0,
        slope: float | None = None,
        per_feature_clock: bool = False,
    ):
        self.ages = Ages(problem.d, per_feature_clock)
        self.p, self.alpha, self.sigma, self.delta = problem, alpha, sigma, delta
        self.slope = sigma if slope is None else slope
        self.b0 = b0 if problem.intercept else 0.0
        self.w, self.b = np.zeros(problem.d), self.b0
        self.t, self.K = 0, 0.0
        self.z, self.r, self.G, self.q, self.n = (np.zeros(problem.d) for _ in range(5))
        self.z_b = self.r_b = self.G_b = 0.0

    def look(self, x: Array) -> None:
        """Raise the rates where x^2 exceeds all earlier squares together, by as much as the root mean square grows."""
        _, lam, rho, pen, _ = self.p
        q, n = self.fade * self.q, self.fade * self.n
        j = (x**2 > q) & (q > 0.0)
        s2, new_s2 = q[j] / n[j], (q[j] + x[j] ** 2) / (n[j] + 1.0)
        self.r[j] *= np.sqrt(np.maximum(new_s2 / s2, 1.0))
        ages = self.ages.so_far()
        self.w = divide(-soft(self.z, lam * pen * ages), self.r + rho * ages)

    def step(self, x: Array, c: float, eta: float) -> None:
        _, lam, rho, pen, intercept = self.p
        for name in ("t", "n", "q", "K", "G", "r", "z", "G_b", "r_b", "z_b"):
            setattr(self, name, self.fade * getattr(self, name))
        self.t += 1
        j = x != 0.0  # every line below is for these features alone
        self.n[j] += 1.0
        self.q[j] += x[j] ** 2
        s2 = self.q[j] / self.n[j]
        self.K += float(intercept) + np.sum(x[j] ** 2 / s2)
        k = self.K / self.t
        self.G[j] += c**2 * x[j] ** 2
        r = np.sqrt(k * s2 * (self.G[j] + self.delta * s2 * self.slope**2)) / (self.alpha * self.sigma)
        self.z[j] += c * x[j] - (r - self.r[j]) * self.w[j]
        self.r[j] = r
        ages = self.ages.step(x, self.fade)
        self.w = divide(-soft(self.z, lam * pen * ages), self.r + rho * ages)
        if intercept:
            self.G_b += c**2
            r_b = math.sqrt(k * (self.G_b + self.delta * self.slope**2)) / (self.alpha * self.sigma)
            self.z_b += c - (r_b - self.r_b) * (self.b - self.b0)
            self.r_b = r_b
            self.b = self.b0 - self.z_b / r_b


class AdaGrad:
    """H = delta + sqrt(sum of g^2), where it is 0 so is the step; ``scale`` is eta; the intercept is a feature with
    x = 1 and no penalty."""

    def __init__(self, problem: Problem, scale: float, delta: float, b0: float = 0.0):
        self.p, self.scale, self.delta = problem, scale, delta
        self.b0 = b0 if problem.intercept else 0.0
        self.w, self.b = np.zeros(problem.d), self.b0
        self.t, self.G, self.G_b = 0, np.zeros(problem.d), 0.0

    def step(self, x: Array, c: float, eta: float) -> None:
        self.t, self.G, self.G_b = self.t + 1, self.G + (c * x) ** 2, self.G_b + c**2
        H, H_b = self.delta + np.sqrt(self.G), self.delta + math.sqrt(self.G_b)
        self.move(c * x, c, np.maximum(H, 1e-300) / self.scale, max(H_b, 1e-300) / self.scale)

    def move(self, g: Array, c: float, r: Array, r_b: float) -> None:
        raise NotImplementedError


class AdaGradFOBOS(AdaGrad):
    """w <- S(w - eta g/H, eta lam pen/H) / (1 + eta rho/H)."""

    def move(self, g: Array, c: float, r: Array, r_b: float) -> None:
        _, lam, rho, pen, _ = self.p
        self.w = np.where((self.w == 0.0) & (g == 0.0), 0.0, soft(self.w - g / r, lam * pen / r) / (1.0 + rho / r))
        self.b = self.b - c / r_b


class AdaGradRDA(AdaGrad):
    """w = -S(sum of g, lam pen t) / (H/eta + rho t)."""

    z, z_b = 0.0, 0.0

    def move(self, g: Array, c: float, r: Array, r_b: float) -> None:
        _, lam, rho, pen, _ = self.p
        self.z, self.z_b = self.z + g, self.z_b + c
        self.w = divide(-soft(self.z, lam * pen * self.t), r + rho * self.t)
        self.b = self.b0 - self.z_b / r_b


class ORDA:
    """x, the answer (``model``), is not where gradients are taken: that is y, which is ``w`` here.  ``split``: rho/2 of
    the L2 term in the gradient, the other half in the prox."""

    def __init__(self, problem: Problem, gamma: float, c0: float, split: bool = False):
        self.p, self.gamma, self.c0, self.split = problem, gamma, c0, split
        self.k, self.x, self.x_b, self.sg, self.sg_b = 0, np.zeros(problem.d), 0.0, np.zeros(problem.d), 0.0
        self.w, self.b = self.x, self.x_b

    @property
    def model(self) -> tuple[Array, float]:
        return self.x, self.x_b

    def step(self, x: Array, c: float, eta: float) -> None:
        _, lam, rho, pen, _ = self.p
        growing = lambda k: self.c0 * (k + 1) ** 1.5 + self.gamma  # noqa: E731
        gamma = growing if rho == 0.0 else lambda k: self.gamma
        k, y, y_b, g = self.k, self.w, self.b, c * x
        if self.split:
            rho = rho / 2
            g = g + rho * y
        theta = 2 / (k + 2)
        self.sg, self.sg_b = self.sg + (k + 1) / 2 * g, self.sg_b + (k + 1) / 2 * c
        W = (k + 1) * (k + 2) / 4
        z, z_b = -soft(self.sg / W, lam * pen) / (rho + gamma(k + 1) / W), -self.sg_b / growing(k + 1)
        C = (1 - theta) * rho / theta**2 + gamma(k)
        self.x, self.x_b = soft(y - g / C, lam * pen / C) / (1 + rho / C), y_b - c / growing(k)
        self.k, theta = k + 1, 2 / (k + 3)
        self.w, self.b = (1 - theta) * self.x + theta * z, (1 - theta) * self.x_b + theta * z_b


class SSG:
    """Estimate sequences; as with ORDA the answer is x, the gradient's point y is ``w``."""

    def __init__(self, problem: Problem, gamma: float, c0: float):
        self.p, self.gamma, self.c0, self.k = problem, gamma, c0, 0
        self.x, self.z, self.x_b, self.z_b = np.zeros(problem.d), np.zeros(problem.d), 0.0, 0.0
        self.g, self.g_b = gamma, gamma
        self._extrapolate()

    @property
    def model(self) -> tuple[Array, float]:
        return self.x, self.x_b

    def _extrapolate(self) -> None:
        rho, k = self.p.rho, self.k
        self.L_b = self.gamma + self.c0 * (k + 1) ** 1.5
        self.L = self.gamma + rho * (k + 2) ** 2 / 4 if rho > 0.0 else self.L_b
        self.alpha, self.g_next, self.w = self._point(self.L, self.g, rho, self.x, self.z)
        self.alpha_b, self.g_b_next, self.b = self._point(self.L_b, self.g_b, 0.0, self.x_b, self.z_b)

    @staticmethod
    def _point(L: float, g: float, rho: float, x: Any, z: Any) -> tuple[float, float, Any]:
        alpha = (rho - g + math.sqrt((rho - g) ** 2 + 4 * L * g)) / (2 * L)
        g_next = (1 - alpha) * g + alpha * rho
        return alpha, g_next, (alpha * g * z + g_next * x) / (g + alpha * rho)

    def step(self, x: Array, c: float, eta: float) -> None:
        _, lam, rho, pen, _ = self.p
        L, alpha, y = self.L, self.alpha, self.w
        v = y - (c * x + rho * y) / L
        self.x = soft(v, lam * pen / L)
        subgradient = np.clip(L * v, -lam * pen, lam * pen)
        mapping = np.where(self.x == 0.0, L * y, c * x + rho * y + subgradient)  # L (y - x), without its rounding
        self.z = ((1 - alpha) * self.g * self.z + alpha * rho * y - alpha * mapping) / self.g_next
        self.x_b = self.b - c / self.L_b
        self.z_b = self.z_b - self.alpha_b * c / self.g_b_next
        self.g, self.g_b, self.k = self.g_next, self.g_b_next, self.k + 1
        self._extrapolate()


def divide(a: Any, b: Any) -> Array:
    """a / b, and 0 where a = 0: a feature that was never seen has the rate 0."""
    a, b = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    return np.where(a == 0.0, 0.0, a / np.where(a == 0.0, 1.0, b))


def pilot_targets(y: Array, weights: Array | None = None) -> dict[str, float]:
    """NFTRL's constants for squared loss: sigma and b0 are the standard deviation and mean of the (pilot) targets."""
    mean = np.average(y, weights=weights)
    return {"alpha": 1.0, "sigma": math.sqrt(np.average((y - mean) ** 2, weights=weights)), "b0": float(mean)}


OPTIMIZERS: dict[str, Callable[..., Any]] = {
    "fobos": FOBOS,
    "sgd": SGD,
    "rda": RDA,
    "ftrl": FTRL,
    "nftrl": NFTRL,
    "adagrad-fobos": AdaGradFOBOS,
    "adagrad-rda": AdaGradRDA,
    "truncated-gradient": TruncatedGradient,
    "epoch-gd": EpochGD,
    "epoch-sgd": EpochSGD,
    "orda": ORDA,
    "ssg": SSG,
}


# ---------------------------------------------------------------------------------------------------------------------
# Running one
# ---------------------------------------------------------------------------------------------------------------------


class Trace(NamedTuple):
    """Every iterate: ``w[t-1]``, ``b[t-1]`` is w_t, before example t; ``w[-1]``, ``b[-1]`` is after the last one.

    ``c[t-1]``, ``h[t-1]``: derivative and curvature at w_t, times the weight.  ``X``, ``y``: the rows that took part.
    ``before_last``: the answer before the last example where a method does not answer with w_T.  ``shares``: what each
    example counts at the end, where old ones fade.
    """

    w: Array
    b: Array
    c: Array
    h: Array
    X: Array
    y: Array
    before_last: tuple[Array, float] | None = None
    shares: Array | None = None


def kept_rows(X: Array, y: Array | None, weights: Array | None) -> tuple[Array, Array | None, Array]:
    """The rows whose weight is not zero."""
    weights = np.ones(len(X)) if weights is None else np.asarray(weights, dtype=float)
    keep = weights != 0.0
    return X[keep], None if y is None else y[keep], weights[keep]


def iterates(
    X: Array,
    y: Array,
    *,
    optimizer: str,
    loss: str,
    lam: float,
    rho: float,
    eta: Array | None = None,
    pen: Array | None = None,
    weights: Array | None = None,
    intercept: bool = True,
    fades: Array | None = None,
    **constants: Any,
) -> Trace:
    """One pass of an optimizer over the rows; ``eta`` (FOBOS, SGD) has one step for each row of weight not zero.

    ``fades`` has, for each such row, what all sums are multiplied by before it is learned.
    """
    X, y, weights = kept_rows(np.asarray(X, dtype=float), np.asarray(y) * 1.0 if y.dtype.names is None else y, weights)
    T, d = X.shape
    pen = np.ones(d) if pen is None else np.asarray(pen, dtype=float)
    A = OPTIMIZERS[optimizer](Problem(d, lam, rho, pen, intercept), **constants)
    trace = Trace(np.zeros((T + 1, d)), np.zeros(T + 1), np.zeros(T), np.zeros(T), X, y)
    before_last = None
    for t in range(T):
        b = A.b if intercept else 0.0
        trace.w[t], trace.b[t] = A.w, b
        if fades is not None:
            A.fade = float(fades[t])
        margin = weights_for(A, X[t]) @ X[t] + b
        c = trace.c[t] = float(weights[t] * derivative(loss, margin, y[t]))
        trace.h[t] = weights[t] * curvature(loss, margin, y[t])
        before_last = getattr(A, "model", None)
        A.step(X[t], c, math.nan if eta is None else float(eta[t]))
    trace.w[T], trace.b[T] = getattr(A, "model", (A.w, A.b))
    if not intercept:
        trace.b[T], before_last = 0.0, before_last and (before_last[0], 0.0)
    return trace._replace(before_last=before_last, shares=None if fades is None else shares_left(fades))


def fades_between(times: Array, half_life: float) -> Array:
    """What sums are multiplied by before each example: 2^-(time since the one before / half_life), at least 2^-16."""
    return np.append(1.0, 2.0 ** -np.minimum(np.diff(times) / half_life, 16.0))


def shares_left(fades: Array) -> Array:
    """What each example counts at the end."""
    return np.append(np.cumprod(fades[:0:-1])[::-1], 1.0)


def effective_numbers(fades: Array) -> Array:
    """N_t: what the examples up to each one, itself included, count when it is learned."""
    numbers = []
    for fade in fades:
        numbers.append(1.0 + (fade * numbers[-1] if numbers else 0.0))
    return np.array(numbers)


def weights_for(A: Any, x: Array) -> Array:
    """The weights that the margin of x is taken with: the iterate, which NFTRL lowers where the scale of x jumps."""
    if hasattr(A, "look"):
        A.look(x)
    return A.w


def iterates_together(
    X: Array,
    Y: Array,
    *,
    optimizer: str,
    lam: float,
    rho: float,
    eta: Array | None = None,
    pen: Array | None = None,
    weights: Array | None = None,
    intercept: bool = True,
    **constants: Any,
) -> list[Trace]:
    """One pass with the multinomial loss, Y one-hot: an optimizer for each class, all at one time; a trace for each."""
    X, Y, weights = kept_rows(np.asarray(X, dtype=float), np.asarray(Y, dtype=float), weights)
    (T, d), K = X.shape, Y.shape[1]
    pen = np.ones(d) if pen is None else np.asarray(pen, dtype=float)
    each = [OPTIMIZERS[optimizer](Problem(d, lam, rho, pen, intercept), **constants) for _ in range(K)]
    traces = [Trace(np.zeros((T + 1, d)), np.zeros(T + 1), np.zeros(T), np.zeros(T), X, Y[:, k]) for k in range(K)]
    for t in range(T):
        for A, trace in zip(each, traces, strict=True):
            trace.w[t], trace.b[t] = A.w, A.b if intercept else 0.0
        margins = np.array([weights_for(A, X[t]) @ X[t] + (A.b if intercept else 0.0) for A in each])
        c, h = (weights[t] * part("multinomial", margins, Y[t]) for part in (derivative, curvature))
        for k, (A, trace) in enumerate(zip(each, traces, strict=True)):
            trace.c[t], trace.h[t] = c[k], h[k]
            A.step(X[t], float(c[k]), math.nan if eta is None else float(eta[t]))
    for A, trace in zip(each, traces, strict=True):
        trace.w[T], trace.b[T] = A.w, A.b if intercept else 0.0
    return traces


# ---------------------------------------------------------------------------------------------------------------------
# Conversions: last and averages
# ---------------------------------------------------------------------------------------------------------------------


class Model(NamedTuple):
    """Weights and intercept."""

    w: Array
    b: float


def all_weights(n: int) -> Array:
    """omega of ``average``: every iterate alike."""
    return np.ones(n)


def polynomial_weights(n: int, power: float) -> Array:
    """omega of ``weighted``: (t + 1)^power."""
    return np.arange(2, n + 2, dtype=float) ** power


def before_suffix(alpha: float, T: int) -> int:
    """T - ceil(alpha T), with alpha the decimal number it is written as: 0.07 of 100 is 7, not 8."""
    return T - math.ceil(Fraction(repr(float(alpha))) * T)


def suffix_weights(n: int, alpha: float, T: int) -> Array:
    """omega of ``suffix`` when T is known: the last ceil(alpha T) of T iterates (n < T: as many as were reached)."""
    return (np.arange(1, n + 1) > before_suffix(alpha, T)).astype(float)


def anytime_weights(n: int, long: bool = False) -> Array:
    """omega when T is not known: growing windows, played through example by example.  They double for ``suffix``; long
    ones, for ``average-sl`` and ``last-sl``, end at 256 examples and at sixteen times the last from there."""
    previous = current = 0  # numbers of examples learned when each window was opened
    boundary = 256 if long else 64
    for learned in range(n):  # before example learned + 1
        if learned == boundary:
            previous, current = current, learned
            boundary *= 16 if long else 2
    return (np.arange(n) >= previous).astype(float)


def last(trace: Trace) -> Model:
    """The iterate after the last example."""
    return Model(trace.w[-1].copy(), float(trace.b[-1]))


def last_epoch(trace: Trace, T1: int) -> Model:
    """The mean over the last complete epoch of T1, 2 T1, 4 T1, ... examples; the last iterate before there is one."""
    start, length = 0, T1
    model = last(trace)
    while start + length <= len(trace.c):
        model = Model(trace.w[start : start + length].mean(0), float(trace.b[start : start + length].mean()))
        start, length = start + length, 2 * length
    return model


def epoch_under_way(trace: Trace, T1: int) -> Model:
    """The mean over the iterates of the epoch under way; where one ends, over that one."""
    start, length = 0, T1
    while start + length < len(trace.c):
        start, length = start + length, 2 * length
    return Model(trace.w[start : len(trace.c)].mean(0), float(trace.b[start : len(trace.c)].mean()))


def mean_iterate(trace: Trace, omega: Array) -> Model:
    """The mean of w_1 .. w_T by omega, times what their examples count; the last iterate while none has a weight."""
    omega = omega if trace.shares is None else omega * trace.shares
    if omega.sum() == 0.0:
        return last(trace)
    return Model(omega @ trace.w[:-1] / omega.sum(), float(omega @ trace.b[:-1] / omega.sum()))


def average(trace: Trace) -> Model:
    """The mean of all iterates."""
    return mean_iterate(trace, all_weights(len(trace.c)))


def weighted(trace: Trace, power: float) -> Model:
    """The mean with weights (t + 1)^power."""
    return mean_iterate(trace, polynomial_weights(len(trace.c), power))


def suffix(trace: Trace, alpha: float | None = None, T: int | None = None) -> Model:
    """The mean of the last ceil(alpha T) iterates; without T the any-time windows."""
    n = len(trace.c)
    return mean_iterate(trace, anytime_weights(n) if T is None else suffix_weights(n, alpha, T))


def random_candidates(trace: Trace, omega: Array) -> list[Model]:
    """The iterates from which ``random`` draws."""
    return [Model(trace.w[t], float(trace.b[t])) for t in np.flatnonzero(omega)]


def threshold(w: Array, level: float) -> Array:
    """Zero every weight that is at most ``level`` in size."""
    return np.where(np.abs(w) > level, w, 0.0)


def top_k(w: Array, k: int) -> Array:
    """Keep the k weights of largest size; of equal ones the lower index."""
    kept = np.argsort(-np.abs(w), kind="stable")[:k]
    out = np.zeros_like(w)
    out[kept] = w[kept]
    return out


# ---------------------------------------------------------------------------------------------------------------------
# Conversions with a gradient step: AverageSL, LastSL, OptimalSL
# ---------------------------------------------------------------------------------------------------------------------


class Sums(NamedTuple):
    """What a kernel keeps, by omega: sums of w, b, c x, c; over all rows alike: sums of h x^2 and h, and their number.

    ``omega`` is the sum of the weights, so that ``w / omega`` is the mean iterate.
    """

    w: Array
    b: float
    cx: Array
    c: float
    hxx: Array
    h: float
    omega: float
    n: float


def window_sums(trace: Trace, omega: Array) -> Sums:
    """The sums over a trace."""
    w, b, c, h, X = trace[:5]
    shares = np.ones(len(c)) if trace.shares is None else trace.shares
    omega, h = omega * shares, h * shares
    oc = omega * c
    return Sums(omega @ w[:-1], omega @ b[:-1], oc @ X, oc.sum(), h @ X**2, h.sum(), omega.sum(), shares.sum())


def diagonal_metric(hxx: Array, h: float, n: int, rho: float) -> tuple[Array, float]:
    """M_j = 2 mean(h x_j^2) + rho; the intercept's, with x = 1 and no penalty, is 2 mean(h)."""
    return 2.0 * hxx / n + rho, 2.0 * h / n


def sl_map(
    centre: Model, g: Array, g_b: float, M: Any, M_b: float, *, lam: float, pen: Any = 1.0, intercept: bool = True
) -> Model:
    """argmin <g, w> + 1/2 ||w - centre||_M^2 + lam sum_j pen_j |w_j|; the intercept is a coordinate without penalty.

    A feature with M_j = 0 was never seen: 0.  An intercept with M_b = 0 (hinge has no curvature) stays.
    """
    M = np.broadcast_to(np.asarray(M, dtype=float), centre.w.shape)
    safe = np.where(M > 0.0, M, 1.0)
    w = np.where(M > 0.0, soft(centre.w - g / safe, lam * pen / safe), 0.0)
    return Model(w, centre.b - g_b / M_b if intercept and M_b > 0.0 else centre.b)


def average_sl(
    trace: Trace,
    omega: Array,
    *,
    lam: float,
    rho: float,
    pen: Any = 1.0,
    L: float | None = None,
    intercept: bool = True,
) -> Model:
    """AverageSL around the mean iterate; ``L`` is the scalar metric, without it the diagonal one."""
    return _sl(trace, omega, mean_iterate(trace, omega), 1.0, lam, rho, pen, L, intercept)


def last_sl(
    trace: Trace,
    omega: Array,
    *,
    lam: float,
    rho: float,
    pen: Any = 1.0,
    L: float | None = None,
    last_factor: float = 1.0,
    intercept: bool = True,
) -> Model:
    """LastSL: the same around w_T, the iterate before the last example, with the metric times ``last_factor``."""
    centre = Model(*(trace.before_last or (trace.w[-2], float(trace.b[-2]))))
    return _sl(trace, omega, centre, last_factor, lam, rho, pen, L, intercept)


def _sl(trace, omega, centre, factor, lam, rho, pen, L, intercept):
    s = window_sums(trace, omega)
    g, g_b = (s.cx + rho * s.w) / s.omega, s.c / s.omega
    M, M_b = (L, L) if L is not None else diagonal_metric(s.hxx, s.h, s.n, rho)
    return sl_map(centre, g, g_b, factor * M, factor * M_b, lam=lam, pen=pen, intercept=intercept)


def optimal_sl(
    run: Callable[[Array], Trace],
    X: Array,
    y: Array,
    *,
    alpha: float,
    T: int,
    inner: float | None = None,
    loss: str,
    weights: Array | None = None,
    **penalty: Any,
) -> Model:
    """OptimalSL, T known: ``run(rows)`` learns the first rows, its last ceil(inner n) iterates are averaged (inner =
    alpha unless given), and the mean gradient there is taken over the last ceil(alpha T) rows.  (X, y hold no row of
    weight zero.)
    """
    n = before_suffix(alpha, T)
    centre = mean_iterate(run(np.arange(n)), suffix_weights(n, alpha if inner is None else inner, n))
    return _optimal_map(centre, np.arange(n, T), X, y, loss, weights, **penalty)


def optimal_sl_anytime(
    run: Callable[[Array], Trace],
    X: Array,
    y: Array,
    *,
    loss: str,
    weights: Array | None = None,
    start: int = 64,
    **penalty: Any,
) -> Model:
    """OptimalSL when T is not known.  The optimizer sees the rows of learning phases only, its clock counts those.

    Before the first gradient row there is nothing to convert: the last iterate.  (X, y hold no row of weight zero.)
    """
    phases = gradient_phases(len(X), start)
    if not phases:
        return last(run(learned_rows(len(X), start)))
    if len(phases) > 1 and len(phases[-1].rows) < len(phases[-2].rows):
        phases.pop()  # not yet as many rows as the one before
    _, learned, averaged, rows = phases[-1]
    centre = mean_iterate(run(learned), np.isin(learned, averaged).astype(float))
    return _optimal_map(centre, rows, X, y, loss, weights, **penalty)


class Phase(NamedTuple):
    """A gradient phase: with 1.5 ``n`` rows seen it starts at the mean iterate of the rows ``averaged``, the optimizer
    having learned the rows ``learned``; the gradient's rows so far are ``rows``."""

    n: int
    learned: Array
    averaged: Array
    rows: Array


def gradient_phases(seen: int, start: int = 64) -> list[Phase]:
    """The gradient phases that have at least one row when ``seen`` rows were seen."""
    phases, n = [], start
    while seen > n + n // 2:
        half = n + n // 2
        phases.append(Phase(n, learned_rows(half, start), np.arange(n, half), np.arange(half, min(2 * n, seen))))
        n *= 2
    return phases


def learned_rows(seen: int, start: int = 64) -> Array:
    """The rows that are learned: all below ``start``, then the first half of each [n, 2n)."""
    rows, n = list(range(min(seen, start))), start
    while seen > n:
        rows += range(n, min(seen, n + n // 2))
        n *= 2
    return np.array(rows, dtype=int)


def _optimal_map(centre, rows, X, y, loss, weights, *, lam, rho, pen=1.0, L=None, intercept=True):
    weight = np.ones(len(rows)) if weights is None else weights[rows]
    p = X[rows] @ centre.w + centre.b
    c, h = weight * derivative(loss, p, y[rows]), weight * curvature(loss, p, y[rows])
    g, g_b = c @ X[rows] / len(rows) + rho * centre.w, c.mean()
    M, M_b = (L, L) if L is not None else diagonal_metric(h @ X[rows] ** 2, h.sum(), len(rows), rho)
    return sl_map(centre, g, g_b, M, M_b, lam=lam, pen=pen, intercept=intercept)


# ---------------------------------------------------------------------------------------------------------------------
# Mini-batches on matrices: any loss as functions of (p, y), any penalty as its prox(W, s) of whole arrays
# ---------------------------------------------------------------------------------------------------------------------


class BatchFOBOS:
    """W <- prox(W - eta G, eta) with the L2 term in the prox; G, G_b are a mini-batch's mean gradient."""

    def __init__(self, W: Array, prox: Callable, rho: float, eta: Callable[[int], float]):
        self.W, self.b, self.k = W, np.zeros(W.shape[1]), 0
        self.prox, self.rho, self.eta = prox, rho, eta

    def step(self, G: Array, G_b: Array, limit: float) -> None:
        self.k += 1
        eta = min(self.eta(self.k), limit)
        shrink = 1.0 + eta * self.rho
        self.W, self.b = self.prox((self.W - eta * G) / shrink, eta / shrink), self.b - eta * G_b


class BatchRDA:
    """W = argmin <Z, W> + k psi(W) + q/2 ||W||^2, Z the sum of k mean gradients; q = beta or gamma sqrt(k)."""

    def __init__(self, W: Array, prox: Callable, rho: float, beta: float, gamma: float, gamma_b: float):
        self.W, self.b, self.k = W, np.zeros(W.shape[1]), 0
        self.prox, self.rho, self.beta, self.gamma, self.gamma_b = prox, rho, beta, gamma, gamma_b
        self.Z, self.Z_b = 0.0, 0.0

    def step(self, G: Array, G_b: Array, limit: float) -> None:
        self.k, self.Z, self.Z_b = self.k + 1, self.Z + G, self.Z_b + G_b
        q = self.rho * self.k + self.beta if self.rho > 0.0 else self.gamma * math.sqrt(self.k)
        self.W, self.b = self.prox(-self.Z / q, self.k / q), -self.Z_b / (self.gamma_b * math.sqrt(self.k))


def group_shrink(W: Array, s: Any, groups: Array) -> Array:
    """G(W_g, s sqrt|g|) = W_g max(1 - s sqrt|g| / ||W_g||, 0) for each group g; s is a number, or (d, 1) by feature."""
    out = np.zeros_like(W)
    for g in np.unique(groups):
        own = groups == g
        norm, level = np.linalg.norm(W[own]), np.max(np.broadcast_to(s, W.shape)[own]) * math.sqrt(own.sum())
        if norm > level:
            out[own] = W[own] * (1.0 - level / norm)
    return out


class GroupFOBOS:
    """W_g <- G(W_g - eta c x_g, eta lam sqrt|g|) / (1 + eta rho), or with the L2 term in the gradient."""

    def __init__(self, shape: tuple[int, int], groups: Array, lam: float, rho: float, eta: Array, l2_in: str = "prox"):
        self.W, self.b, self.t = np.zeros(shape), np.zeros(shape[1]), 0
        self.groups, self.lam, self.rho, self.eta, self.l2_in = groups, lam, rho, eta, l2_in

    def step(self, G: Array, G_b: Array, limit: float) -> None:
        eta, rho, W = self.eta[self.t], self.rho, self.W
        if self.l2_in == "prox":
            self.W = group_shrink(W - eta * G, eta * self.lam, self.groups) / (1.0 + eta * rho)
        else:
            self.W = group_shrink((1.0 - eta * rho) * W - eta * G, eta * self.lam, self.groups)
        self.b, self.t = self.b - eta * G_b, self.t + 1


class GroupRDA:
    """W_g = -G(Z_g, sqrt|g| (lam t + gamma r sqrt t)) / q, Z the sum of c x; q is that of :class:`RDA`."""

    def __init__(
        self, shape: tuple[int, int], groups: Array, lam: float, rho: float, beta: float, gamma: float, r: float
    ):
        self.W, self.b, self.t = np.zeros(shape), np.zeros(shape[1]), 0
        self.groups, self.lam, self.rho, self.beta, self.gamma, self.r = groups, lam, rho, beta, gamma, r
        self.Z, self.Z_b = 0.0, 0.0

    def step(self, G: Array, G_b: Array, limit: float) -> None:
        self.t, self.Z, self.Z_b = self.t + 1, self.Z + G, self.Z_b + G_b
        t, root, gamma = self.t, math.sqrt(self.t), self.gamma
        tau, q = (
            (self.lam * t, self.rho * t + self.beta)
            if self.rho > 0.0
            else (self.lam * t + gamma * self.r * root, gamma * root)
        )
        self.W, self.b = -group_shrink(self.Z, tau, self.groups) / q, -self.Z_b / (gamma * root)


class MatrixTrace(NamedTuple):
    """As :class:`Trace`, with W (T + 1, d, m), b (T + 1, m), c and h (T, m)."""

    W: Array
    b: Array
    c: Array
    h: Array
    X: Array


def matrix_iterates(
    A: Any,
    X: Array,
    Y: Array,
    weights: Array,
    derivative: Callable,
    curvature: Callable,
    *,
    batch: int,
    intercept: bool,
    limit: Callable[[Array], float],
) -> MatrixTrace:
    """One pass of A over the rows; ``limit(rows)`` is the largest step for a mini-batch of these rows."""
    W, b, c, h = [], [], [], []
    for t in range(len(X)):
        W.append(A.W)
        b.append(A.b if intercept else 0.0 * A.b)
        margin = X[t] @ W[t] + b[t]
        c.append(weights[t] * derivative(margin, Y[t]))
        h.append(weights[t] * curvature(margin, Y[t]))
        if (t + 1) % batch == 0:
            rows = np.arange(t + 1 - batch, t + 1)
            C = np.array(c)[rows]
            A.step(X[rows].T @ C / batch, C.mean(0), limit(rows))
    W.append(A.W)
    b.append(A.b if intercept else 0.0 * A.b)
    return MatrixTrace(*map(np.array, (W, b, c, h)), X)


def matrix_mean(trace: MatrixTrace, omega: Array) -> tuple[Array, Array]:
    """The mean iterate."""
    return np.tensordot(omega, trace.W[:-1], 1) / omega.sum(), omega @ trace.b[:-1] / omega.sum()


def matrix_gradient(trace: MatrixTrace, omega: Array, rho: float) -> tuple[Array, Array]:
    """The mean over the same iterates of c x + rho W, and of c."""
    oc = omega[:, None] * trace.c / omega.sum()
    return trace.X.T @ oc + rho * matrix_mean(trace, omega)[0], oc.sum(0)


def matrix_map(
    centre: tuple[Array, Array], gradient: tuple[Array, Array], M: Any, M_b: Any, prox: Callable, intercept: bool
) -> tuple[Array, Array]:
    """argmin <g, W> + 1/2 ||W - centre||_M^2 + r(W), M a number or constant over what r ties together.

    What has M = 0 was never seen: 0.  An intercept with M_b = 0 stays.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        V = np.where(M > 0.0, centre[0] - gradient[0] / M, 0.0)
        s = np.where(M > 0.0, 1.0 / M, 0.0)
        b = np.where(M_b > 0.0, centre[1] - gradient[1] / M_b, centre[1])
    return prox(V, s if np.ndim(M) else float(s)), b if intercept else centre[1]


def matrix_answer(
    conversion: str,
    trace: Callable[[Array], MatrixTrace],
    rows: tuple[Array, Array, Array],
    derivative: Callable,
    prox: Callable,
    coarsened: Callable,
    rho: float,
    intercept: bool,
) -> tuple[tuple[Array, Array], MatrixTrace]:
    """The answer of the conversion of this name, weights and intercepts, and the trace over all rows.

    ``trace`` maps row numbers to the trace over those rows.  L is 3, and twice that around the last iterate.
    """
    X, Y, weights = rows
    n, full = len(X), trace(np.arange(len(X)))
    known = {"average": np.ones(n), "weighted": polynomial_weights(n, 3.0)}
    omega = known.get(conversion, anytime_weights(n, long="sl" in conversion))
    if conversion == "last":
        return (full.W[-1], full.b[-1]), full
    if conversion in ("average", "weighted", "suffix"):
        return matrix_mean(full, omega), full
    if conversion == "optimal-sl":
        phases = gradient_phases(n)
        if not phases:
            learned = trace(learned_rows(n))
            return (learned.W[-1], learned.b[-1]), full
        if len(phases) > 1 and len(phases[-1].rows) < len(phases[-2].rows):
            phases.pop()
        _, learning, averaged, at = phases[-1]
        centre = matrix_mean(trace(learning), np.isin(learning, averaged).astype(float))
        c = weights[at, None] * derivative(X[at] @ centre[0] + centre[1], Y[at]) / len(at)
        gradient = X[at].T @ c + rho * centre[0], c.sum(0)
        return matrix_map(centre, gradient, 3.0, 3.0, prox, intercept), full
    gradient = matrix_gradient(full, omega, rho)
    if conversion == "last-sl":
        return matrix_map((full.W[-2], full.b[-2]), gradient, 6.0, 6.0, prox, intercept), full
    M, M_b = 3.0, 3.0
    if conversion.endswith("diagonal"):
        M, M_b = coarsened(2.0 * np.square(X).T @ full.h / n + rho), 2.0 * full.h.mean(0)
        M = M if np.ndim(M) else float(M)
    return matrix_map(matrix_mean(full, omega), gradient, M, M_b, prox, intercept), full


# ---------------------------------------------------------------------------------------------------------------------
# Rows
# ---------------------------------------------------------------------------------------------------------------------


def summed(rows: list[list[tuple[int, float]]]) -> list[list[tuple[int, float]]]:
    """Each row with one entry for each column, the sum, where the column came first; without those that are zero."""
    out = []
    for row in rows:
        sums: dict[int, float] = {}
        for column, value in row:
            sums[column] = sums.get(column, 0.0) + value
        out.append([(column, value) for column, value in sums.items() if value != 0.0])
    return out
