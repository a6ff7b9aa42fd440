"""
A loss of your own
==================

A loss is three functions of the margin and the target. It compiles to machine code and works wherever ours do. The
example is log-cosh: a parabola near zero and a line far away, so that wrong targets pull little.
"""

# %%
# ``value`` is for reports; ``derivative`` and ``curvature`` run inside the compiled loop. They have no ``if``.
from typing import NamedTuple

import matplotlib.pyplot as plt
import numpy as np

from sparsco import SparseRegressor
from sparsco.jit.lanes import exp, signed
from sparsco.parts.contracts import Loss, part


@part(Loss, width="where the loss turns from a parabola into a line")
class LogCosh(NamedTuple):
    """The log-cosh loss."""

    width: float = 1.0

    classifies = False  # targets are numbers
    smoothness = 1.0  # a bound on the curvature
    curved = True

    def value(loss, p, y):
        r = (p - y) / loss.width
        return loss.width**2 * (np.logaddexp(r, -r) - np.log(2.0))

    def derivative(loss, p, y):
        e = exp(-2.0 * abs(p - y) / loss.width)
        return signed(loss.width * (1.0 - e) / (1.0 + e), p - y)

    def curvature(loss, p, y):
        e = exp(-2.0 * abs(p - y) / loss.width)
        return 4.0 * e / ((1.0 + e) * (1.0 + e))


# %%
# A regression with three true features; a tenth of the targets is wildly wrong.
rng = np.random.default_rng(0)
X = rng.standard_normal((4_000, 50))
truth = np.zeros(50)
truth[:3] = 2.0, -1.5, 1.0
y = X @ truth + 0.3 * rng.standard_normal(4_000)
wrong = rng.random(4_000) < 0.1
y[wrong] += 30.0 * rng.random(wrong.sum())

# %%
# The squared loss follows the wrong targets; log-cosh does not.
fig, axes = plt.subplots(figsize=(7, 3.4), layout="constrained")
axes.plot(truth, "k_", markersize=12, label="truth")
for name, loss, mark in (("squared", "squared", "x"), ("log-cosh", LogCosh(0.5), "o")):
    model = SparseRegressor(loss=loss, alpha=0.02, random_state=0).fit(X, y)
    distance = np.linalg.norm(np.ravel(model.coef_) - truth)
    print(f"{name:9} {np.count_nonzero(model.coef_):2} features, distance to the truth {distance:.3f}")
    axes.plot(np.ravel(model.coef_), mark, fillstyle="none", label=name)
axes.set(xlabel="feature", ylabel="weight")
axes.legend()
