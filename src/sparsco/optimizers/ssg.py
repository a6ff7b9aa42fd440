"""SSG, the sparsity preserving stochastic gradient: Nesterov's estimate sequences on stochastic gradients.

With k examples learned, x is the answer, z the minimiser of the estimate, and gamma the estimate's curvature.  Then

    L_k alpha^2 = (1 - alpha) gamma + alpha rho = gamma',      y = (alpha gamma z + gamma' x) / (gamma + alpha rho),
    x' = S(y - (c x_k + rho y) / L_k, lam pen / L_k),          c = derivative of the loss at y,
    z <- ((1 - alpha) gamma z + alpha rho y - alpha L_k (y - x')) / gamma'
       = ((1 - alpha) gamma z - alpha (c x_k + the subgradient of lam pen |x'| at x')) / gamma',

from gamma = Gamma and with L_k = Gamma + rho (k + 2)^2/4 or, without an L2 term, Gamma + c0 (k + 1)^(3/2).  x is the
result of a soft threshold, hence sparse without conversion.  No closed form for idle coordinates is known: x and z
depend on each other, so every example costs O(d).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ..data.rows import ask_for_row
from ..jit.dispatch import U, inlined, kernel
from ..jit.lanes import load, load_row, maximum, minimum, store, where, width
from ..losses import curvature, derivative
from ..parts.contracts import Optimizer, part
from ..penalties import feature_weight, prox
from ..problem.state import Block, Layout, Problem, State, n_sums
from .orda import check_constants, constants, growing
from .running_sums import add_gradient, add_intercept

GAMMA, GAMMA_BIAS = range(2)
"""The entries of the clock: gamma of the weights and of the intercept."""
X, Z, GRADIENT, SUMS = U(0), U(1), U(2), U(3)
"""The fields of a cell: x (temporarily y), z, the example's gradient (temporary), and the sums."""


class Schedule(NamedTuple):
    """The arguments of the kernel: per row its weight in the average, and L_k of the weights and of the intercept.

    ``intercept`` is 1, or 0 without one.
    """

    omega: np.ndarray
    L: np.ndarray
    L_bias: np.ndarray
    rho: float
    intercept: float


@part(
    Optimizer,
    gamma="the divisor, above what single examples do to the gradient; None: from the first rows",
    c0="the divisor's growth without strong convexity; None: from the first rows",
)
class SSG(NamedTuple):
    """SSG, the sparsity preserving stochastic gradient method: O(d) per example.

    Parameters
    ----------
    gamma : float or None
        As in :class:`ORDA`.
    c0 : float or None
        The growth of L_k without strong convexity.  None: ``L_mean / 4``; with an L2 term, where only the intercept
        needs it, ``L_mean``.
    """

    gamma: float | None = None
    c0: float | None = None

    layout = Layout(shared=0, lane=3, bias=2, clock=2)
    uses_steps = False
    needs_curvature = True
    is_dense = True

    @property
    def learn(self):
        return learn

    def check(self, problem: Problem) -> None:
        """Raise for parameters or a problem that the optimizer does not support."""
        check_constants(self)

    def resolve(self, problem: Problem, pilot: Any, rule: Any = None) -> SSG:
        """Return the record with its constants filled in from the pilot rows."""
        return SSG(*constants(self, problem, pilot, 4.0))

    def start(self, problem: Problem) -> tuple[State, Block]:
        state = self.layout.new_state(problem)
        state.clock[:] = self.gamma
        return state, Block(1)

    def schedule(
        self, problem: Problem, state: State, block: Block, t: int, eta: np.ndarray, omega: np.ndarray
    ) -> Schedule:
        """Return the arrays for the next ``len(omega)`` steps; ``eta`` is not used."""
        k, rho = np.arange(t, t + len(omega), dtype=np.float64), float(problem.penalty.rho)
        L_bias = growing(k, self.gamma, self.c0)
        L = self.gamma + 0.25 * rho * (k + 2.0) ** 2 if rho > 0.0 else L_bias
        return Schedule(omega, L, L_bias, rho, float(problem.intercept))


@inlined
def _alpha(gamma, L, rho):
    """Return the positive root of L alpha^2 = (1 - alpha) gamma + alpha rho."""
    return (rho - gamma + math.sqrt((rho - gamma) * (rho - gamma) + 4.0 * L * gamma)) / (2.0 * L)


@kernel
def learn(rows, order, schedule, method, state):
    """Make SSG steps over the rows in ``order``, each two sweeps over all coordinates.

    A cell is x (temporarily y), z, the example's gradient (temporary), and the sums.
    """
    indptr, indices, data, targets, weights = rows
    loss, reg, lanes, watch, lams = method
    omega, Ls, L_biases, rho, intercept = schedule
    cell, bias, clock = state
    m, sums, one = U(width(lanes)), U(n_sums(watch)), U(1)
    stride = (SUMS + sums) * m
    d = U(cell.size) // stride
    lam, x_b, z_b = load(lanes, lams, U(0)), load(lanes, bias, U(0)), load(lanes, bias, m)
    gamma, gamma_b = clock[GAMMA], clock[GAMMA_BIAS]
    for k in range(order.size):
        ask_for_row(indptr, indices, data, order, k)
        i, L, L_b = U(order[k]), Ls[k], L_biases[k]
        begin, stop = U(indptr[i]), U(indptr[i + one])
        alpha, alpha_b = _alpha(gamma, L, rho), _alpha(gamma_b, L_b, 0.0)
        after = (1.0 - alpha) * gamma + alpha * rho
        to_z = alpha * gamma / (gamma + alpha * rho)
        keep, share = (1.0 - alpha) * gamma / after, alpha / after
        for j in range(d):  # y in place of x
            at = j * stride
            x = load(lanes, cell, at + X)
            y = x + (load(lanes, cell, at + Z * m) - x) * to_z
            store(lanes, cell, at + X, y)
            if sums > 0:
                g = at + SUMS * m
                store(lanes, cell, g, load(lanes, cell, g) + omega[k] * y)
        b = x_b + (z_b - x_b) * alpha_b
        margin = b
        for p in range(begin, stop):
            margin = margin + load(lanes, cell, U(indices[p]) * stride + X) * data[p]
        target, weight = load_row(lanes, targets, k), load_row(lanes, weights, k)
        c = weight * derivative(loss, margin, target)
        oc, curve = omega[k] * c, 0.0 * c
        if sums > 2:
            curve = weight * curvature(loss, margin, target)
        for p in range(begin, stop):
            at = U(indices[p]) * stride
            store(lanes, cell, at + GRADIENT * m, c * data[p])
            add_gradient(watch, lanes, cell, at + SUMS * m, oc * data[p], curve * data[p] * data[p])
        for j in range(d):
            at, tau = j * stride, lam * (feature_weight(reg, j) / L)
            y, slope = load(lanes, cell, at + X), load(lanes, cell, at + GRADIENT * m)
            v = y * (1.0 - rho / L) - slope / L
            x = prox(reg, v, tau)
            # L (y - x) - rho y: as a difference it would lose digits in proportion to k
            mapping = where(x == 0.0, y * (L - rho), slope + minimum(maximum(v, -tau), tau) * L)
            store(lanes, cell, at + X, x)
            store(lanes, cell, at + Z * m, load(lanes, cell, at + Z * m) * keep - mapping * share)
            store(lanes, cell, at + GRADIENT * m, 0.0 * x)
        add_intercept(watch, lanes, bias, m + m, omega[k] * b, oc, curve)
        x_b, z_b = b - c * (intercept / L_b), z_b - c * (intercept / (alpha_b * L_b))
        gamma, gamma_b = after, (1.0 - alpha_b) * gamma_b
    store(lanes, bias, U(0), x_b)
    store(lanes, bias, m, z_b)
    clock[GAMMA], clock[GAMMA_BIAS] = gamma, gamma_b
