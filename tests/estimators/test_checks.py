"""check_part passes every part of the library and catches parts that are wrong in one way each."""

from __future__ import annotations

import inspect
from typing import NamedTuple

import numpy as np
import pytest

import sparsco
from sparsco import conversions, losses, mirrors, optimizers, penalties, steps
from sparsco.estimators.checks import CheckError, check_part
from sparsco.jit.lanes import maximum, minimum, where
from sparsco.parts.contracts import Loss, part
from sparsco.parts.part import Part, kind_of
from sparsco.selection.stable import bursts, sts

NEEDS = {
    "Constant": (0.1,),
    "InverseSqrt": (0.1,),
    "InverseTime": (1.0,),
    "WeightedElasticNet": (0.3, 0.2, np.arange(3.0)),
    "GroupL1": (0.3, np.arange(6) // 2),
    "SparseGroup": (0.3, np.arange(6) // 2),
    "L1Ball": (2.0,),
    "L2Ball": (1.0,),
    "Box": (-0.5, 0.4),
    "TraceNorm": (0.3, 0.2),
    "ElasticNet": (0.3, 0.2),
    "NonNegative": (0.3, 0.2),
    "RowGroup": (0.3, 0.2),
    "MCP": (0.3, 0.2),
    "Adaptive": (0.3, 0.2),
    "Reweighted": (penalties.MCP(),),
    "SparseKaczmarz": (0.5, 0.1),
    "PNorm": (1.5,),
    "Threshold": (0.01,),
    "TopK": (2,),
    "Sparsify": (2,),
    "EpochGD": (100,),
}


def parts():
    """A record of every part that the library has, found by introspection."""
    for module in (losses, penalties, mirrors, steps, conversions, optimizers, sts, bursts):
        for name, kind in inspect.getmembers(module, inspect.isclass):
            if isinstance(kind, Part) and issubclass(kind, tuple) and "Auto" not in name:  # those are not penalties yet
                yield pytest.param(kind(*NEEDS.get(name, ())), id=name)


@pytest.mark.parametrize("part", list(parts()))
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_every_part_keeps_its_contract(part):
    passed = check_part(part, compiled=False)
    assert passed[0] == "fields" and (len(passed) > 1 or kind_of(part) == "selection method")


@part(Loss)
class Cauchy(NamedTuple):
    """Not convex."""

    classifies = False
    smoothness = 1.0
    curved = True

    def value(loss, p, y):  # noqa: N805
        return 0.5 * np.log(1.0 + (p - y) * (p - y))

    def derivative(loss, p, y):  # noqa: N805
        return (p - y) / (1.0 + (p - y) * (p - y))

    def curvature(loss, p, y):  # noqa: N805
        return 0.0 * p + 1.0


class Slip(losses.Squared):
    """A derivative that is off by a factor."""

    def derivative(loss, p, y):  # noqa: N805
        return 2.0 * (p - y)


class Steep(losses.Squared):
    """More curvature than it says."""

    smoothness = 0.5


class Bent(losses.Logistic):
    """A curvature that is not the derivative's."""

    def curvature(loss, p, y):  # noqa: N805
        return 0.0 * p + 0.25


class HalfSoft(penalties.ElasticNet):
    """Shrinks by half of what it should."""

    def prox(penalty, v, s):  # noqa: N805
        return v - 0.5 * minimum(maximum(v, -s), s)


class Slow(penalties.ElasticNet):
    """Falls twice as fast on one side and does not say so."""

    def prox(penalty, v, s):  # noqa: N805
        return v - minimum(maximum(v, -2.0 * s), s)

    def strength(penalty, w):  # noqa: N805
        return penalty.lam * np.where(w > 0.0, w, -2.0 * w).sum(0) + 0.5 * penalty.rho * np.square(w).sum(0)


class Hard(penalties.ElasticNet):
    """Does not add up: cuts, never shrinks."""

    def prox(penalty, v, s):  # noqa: N805
        return where(abs(v) <= s, 0.0 * v, v)

    def strength(penalty, w):  # noqa: N805
        return 0.0 * np.abs(w).sum(0)


class Restarting(steps.Constant):
    """Counts from the chunk's start."""

    def sizes(self, t, n):
        return 1.0 / np.arange(1.0, n + 1.0)

    def resolve(self, problem, pilot):
        return self


class Negative(steps.Constant):
    def sizes(self, t, n):
        return np.full(n, -1.0)


class Greedy(conversions.Last):
    """Reading it moves the run."""

    def finish(self, run):
        run.state.bias[:] += 1.0
        return super().finish(run)


@pytest.mark.parametrize(
    ("part", "says"),
    [
        (Cauchy(), "not convex"),
        (Slip(), "not the slope of its value"),
        (Steep(), "above its smoothness"),
        (Bent(), "not the slope of its derivative"),
        (HalfSoft(0.3, 0.2), "does not minimise"),
        (Hard(0.3, 0.2), "prox"),
        (Slow(0.3, 0.2), "shrink_rate"),
        (Restarting(0.1), "do not add up"),
        (Negative(0.1), "positive"),
        (Greedy(), "changes what is learned"),
    ],
    ids=lambda part: type(part).__name__,
)
def test_what_is_wrong_is_named(part, says):
    with pytest.raises(CheckError, match=says) as failure:
        check_part(part, compiled=False)
    assert str(failure.value).startswith(type(part).__name__)


@pytest.mark.parametrize("thing", [3, sparsco.losses.Logistic, (1.0, 2.0)])
def test_no_part(thing):
    with pytest.raises(TypeError, match="is not a part"):
        check_part(thing)


@part(Loss)
class LogCosh(NamedTuple):
    """A user's loss: log cosh of the residual over a width."""

    width: float = 1.0

    classifies = False
    smoothness = 1.0
    curved = True

    def value(loss, p, y):  # noqa: N805
        r = (p - y) / loss.width
        return loss.width * loss.width * (np.logaddexp(r, -r) - np.log(2.0))

    def derivative(loss, p, y):  # noqa: N805
        e = sparsco.jit.lanes.exp(-2.0 * abs(p - y) / loss.width)
        return sparsco.jit.lanes.signed(loss.width * (1.0 - e) / (1.0 + e), p - y)

    def curvature(loss, p, y):  # noqa: N805
        e = sparsco.jit.lanes.exp(-2.0 * abs(p - y) / loss.width)
        return 4.0 * e / ((1.0 + e) * (1.0 + e))


def test_a_users_loss_compiles_into_every_kernel():
    assert check_part(LogCosh(0.5))[-1] == "compiled kernels"
