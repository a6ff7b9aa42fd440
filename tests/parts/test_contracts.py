"""Contracts: a class that keeps one gets its defaults, one that does not is refused, and what parts declare is true."""

from __future__ import annotations

import ast
import pickle
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import sparsco
from sparsco import SparseRegressor, check_part, conversions, describe, losses, optimizers, penalties, steps
from sparsco.conversions.rounding import with_weights
from sparsco.data.rows import as_matrix
from sparsco.engine.run import Run
from sparsco.estimators.checks import CheckError
from sparsco.jit.dispatch import plain_python
from sparsco.optimizers import OPTIMIZERS
from sparsco.parts.compatibility import conversion_reason, penalty_reason
from sparsco.parts.contracts import Conversion, Loss, Optimizer, Penalty, StepRule, part
from sparsco.parts.part import CONTRACTS, kind_of
from sparsco.training.descriptions import parts_by_kind, tables

ROOT = Path(sparsco.__file__).parent


class Plain(NamedTuple):
    """Everything that a loss has, but not marked as one."""

    classifies = False
    smoothness = 1.0
    curved = True

    def value(loss, p, y):
        return 0.5 * (p - y) * (p - y)

    def derivative(loss, p, y):
        return p - y

    def curvature(loss, p, y):
        return 0.0 * p + 1.0


@part(Loss)
class Marked(NamedTuple):
    scale: float = 1.0

    classifies = False
    smoothness = 1.0
    curved = True
    value, derivative, curvature = Plain.value, Plain.derivative, Plain.curvature


def test_defaults_are_filled_in():
    assert kind_of(Marked()) == "loss" and kind_of(Plain()) is None and kind_of(Marked) is None and kind_of(3) is None
    assert not Marked.couples and Marked.smoothness_is_bound and Marked.probabilities is None
    assert Marked().resolve(None, None) == Marked() and Marked().predicted(2.0) == 2.0
    assert Marked._fields == ("scale",) and Marked.__qualname__ == "Marked" and Marked.__module__ == __name__
    assert kind_of(pickle.loads(pickle.dumps(Marked(2.0)))) == "loss"
    assert kind_of(Marked()._replace(scale=3.0)) == "loss"


@pytest.mark.parametrize("kind", sorted(CONTRACTS))
def test_what_is_required_is_named(kind):
    needed = [name for name, entry in CONTRACTS[kind].entries.items() if entry.required]
    assert needed
    with pytest.raises(TypeError) as error:
        part(CONTRACTS[kind])(type("Empty", (tuple,), {"_fields": ()}))
    assert all(f"no {name}" in str(error.value) for name in needed) and kind in str(error.value)


def test_a_penalty_needs_one_of_two_functions():
    with pytest.raises(TypeError, match="define prox"):
        part(Penalty)(type("Half", (tuple,), {"_fields": (), "lam": 1.0, "rho": 0.0, "strength": lambda self, w: 0.0}))


def test_a_line_about_no_field_is_refused():
    with pytest.raises(TypeError, match="not a field"):
        part(StepRule, eta="the step")(type("Rule", (tuple,), {"_fields": (), "sizes": lambda self, t, n: np.ones(n)}))


class Priced(penalties.ElasticNet):
    """What follows from the body follows from a subclass's, too."""

    def shrink_rate(penalty, v):
        return 2.0


def test_a_subclass_is_a_part_of_the_same_kind():
    assert kind_of(Priced(1.0)) == "penalty" and penalties.ElasticNet.is_absolute and not Priced.is_absolute
    assert (penalties.ElasticNet.form, Priced.form, penalties.L1Ball.form) == ("absolute", "separable", "l1-ball")


def test_an_unmarked_record_is_answered_with_the_decorator():
    X, y = np.eye(4), np.arange(4.0)
    for attempt in (
        lambda: SparseRegressor(loss=Plain()).fit(X, y),
        lambda: Run(Plain(), penalties.L1(0.1), optimizers.FOBOS(), d=4),
        lambda: check_part(Plain()),
        lambda: describe(Plain()),
    ):
        with pytest.raises((TypeError, ValueError), match=r"@part\((Loss|\.\.\.)\)"):
            attempt()
    with pytest.raises(TypeError, match="is a penalty, and a loss is needed"):
        Run(penalties.L1(0.1), penalties.L1(0.1), optimizers.FOBOS(), d=4)
    with pytest.raises(TypeError, match="Squared cannot be used as loss: give a record"):
        Run(losses.Squared, penalties.L1(0.1), optimizers.FOBOS(), d=4)


# ---- what is declared is true ----------------------------------------------------------------------------------------

FIELDS = {"lam": 0.1, "radius": 1.0, "low": -1.0, "high": 1.0, "groups": np.array([0, 0, 1]), "pen": np.ones(3)}


def penalty_of(kind):
    fields = {name: FIELDS[name] for name in kind._fields if name in FIELDS}
    return kind(**fields, rho=0.0 if kind is penalties.L1Ball else 0.1)


def learn(optimizer, penalty, conversion):
    """A few rows; a ValueError where the parts do not work together."""
    rng = np.random.default_rng(0)
    conversion = with_weights(penalty, conversion)  # where the penalty is not convex
    run = Run(losses.Squared(), penalty.convex, optimizer, conversion, d=3)
    run.feed(as_matrix(rng.normal(size=(40, 3))), rng.normal(size=40))
    return run.finish()


@pytest.mark.parametrize("kind", parts_by_kind()["penalty"], ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_optimizer_takes_the_penalties_it_declares(name, kind):
    optimizer, penalty = OPTIMIZERS[name](), penalty_of(kind)
    with plain_python():
        if penalty_reason(optimizer, penalty) is None:
            assert np.isfinite(learn(optimizer, penalty, conversions.Last()).w).all()
        else:
            with pytest.raises(ValueError, match="EpochSGD projects|cannot handle|has no form"):
                learn(optimizer, penalty, conversions.Last())


@pytest.mark.parametrize("kind", parts_by_kind()["conversion"], ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_an_optimizer_takes_the_conversions_it_declares(name, kind):
    optimizer, conversion = OPTIMIZERS[name](), kind().for_length(40)
    lam = 0.0 if conversion.chooses_single_iterate else 0.1  # with which SGD compares no iterates
    penalty = penalties.L1Ball(1.0) if name == "epoch-sgd" else penalties.ElasticNet(lam, 0.1)
    with plain_python():
        if conversion_reason(optimizer, conversion) is None:
            assert np.isfinite(learn(optimizer, penalty, conversion).w).all()
        else:
            with pytest.raises(ValueError, match="works in epochs|Bregman|gradient sums"):
                learn(optimizer, penalty, conversion)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_optimizer_takes_the_l2_terms_it_declares(name):
    optimizer = OPTIMIZERS[name]()
    kind = penalties.L1Ball if name == "epoch-sgd" else penalties.ElasticNet
    with plain_python():
        for rho, excluding in ((0.0, "required"), (0.1, "excluded")):
            if optimizer.l2_term != excluding:
                assert np.isfinite(learn(optimizer, kind(1.0, rho), conversions.Last()).w).all()
                continue
            with pytest.raises(ValueError, match="rho > 0|without an L2 term"):
                learn(optimizer, kind(1.0, rho), conversions.Last())


@pytest.mark.parametrize(("declared", "rho"), [("required", 0.0), ("excluded", 0.1)])
def test_what_an_optimizer_declares_of_the_l2_term_refuses(declared, rho, monkeypatch):
    monkeypatch.setattr(optimizers.FOBOS, "l2_term", declared)
    with pytest.raises(ValueError, match="FOBOS needs rho > 0|FOBOS learns without an L2 term"):
        learn(optimizers.FOBOS(), penalties.ElasticNet(0.1, rho), conversions.Last())


def test_a_map_without_gradient_sums_is_refused_by_what_it_declares():
    with pytest.raises(ValueError, match="no exact gradient sums"):
        learn(optimizers.MirrorDescent(sparsco.mirrors.PNorm(1.5)), penalties.L1(0.1), conversions.AverageSL())


@pytest.mark.parametrize(
    ("record", "says"),
    [
        (type("Text", (losses.Squared,), {"classifies": "no"})(), "classifies = 'no'; it must be a bool"),
        (type("Short", (losses.Squared,), {"units": lambda self, mean: mean})(), "units takes 1 arguments"),
        (type("Shares", (losses.Squared,), {"probabilities": lambda self, p: p})(), "do not sum to 1"),
        (type("Dual", (losses.Squared,), {"conjugate": lambda self, c, y: c})(), "conjugate"),
        (type("Wide", (penalties.ElasticNet,), {"feature_weights": lambda self, d: np.ones(d + 1)})(0.3), "the shape"),
        (type("Odd", (penalties.ElasticNet,), {"kind": "round"})(0.3), "kind = 'round'"),
        (type("Norm", (penalties.NonNegative,), {"dual_norm": lambda G: 0.1})(0.3), "dual_norm"),
        (type("Silent", (conversions.AverageSL,), {"needs_gradient_sums": False})(), "needs_gradient_sums"),
        (type("Tilt", (conversions.Average,), {"uniform": True})(1.0), "uniform"),
        (type("Epochs", (optimizers.FOBOS,), {"works_in_epochs": True})(), "go together"),
        (type("Forms", (optimizers.FOBOS,), {"supported_penalties": ("round",)})(), "supported_penalties"),
        (type("Put", (optimizers.FOBOS,), {"place": lambda self, *given: None})(), "the iterate is not w"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_declaration_that_is_not_true_is_named(record, says):
    with pytest.raises(CheckError, match=says):
        check_part(record, compiled=False)


# ---- in words --------------------------------------------------------------------------------------------------------


def test_the_tables_of_the_docs_are_those_of_today():
    committed = Path(__file__).parents[2] / "docs" / "parts.md"
    assert committed.read_text() == tables(), "python -m sparsco.training.descriptions > docs/parts.md"


@pytest.mark.parametrize("kind", [kind for kinds in parts_by_kind().values() for kind in kinds])
def test_every_part_is_described(kind):
    text = describe(kind)
    assert text.startswith(kind.__name__) and kind.part_kind in text and repr(text) == text
    about = text.partition("Its parameters:\n")[2].splitlines()[: len(kind._fields)]
    assert all(line.count(": ") >= 2 for line in about), about  # a type, and what it means


def test_names_are_found():
    assert describe("nftrl") == describe(optimizers.NFTRL) == describe("NFTRL") == describe(optimizers.NFTRL())
    assert "max_models = 1" in describe(optimizers.MirrorDescent(sparsco.mirrors.PNorm(1.5)))
    assert "EpochSGD" in describe("TwoStage")
    with pytest.raises(ValueError, match="did you mean 'nftrl'"):
        describe("nftlr")
    with pytest.raises(TypeError, match="is not a part"):
        describe(3)


def test_a_record_with_no_fields_may_be_a_rule():
    @part(StepRule)
    class Tenth(NamedTuple):
        def sizes(self, t, n):
            return np.full(n, 0.1)

    data = np.random.default_rng(0).normal(size=(1200, 4))
    found = []
    for rule in (Tenth(), steps.Constant(0.1)):
        run = Run(losses.Squared(), penalties.L1(0.01), optimizers.FOBOS(), step=rule, d=3)
        run.feed(as_matrix(data[:, :3]), data[:, 3])
        found.append(run.finish().w)
    assert np.array_equal(*found)


# ---- nothing is probed -----------------------------------------------------------------------------------------------

DECLARED = {name for contract in CONTRACTS.values() for name in contract.entries} | {"_fields", "kept", "at"}


def probes(tree):
    """Yield the attribute and the line of every hasattr and getattr with a constant name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("hasattr", "getattr"):
            if len(node.args) > 1 and isinstance(node.args[1], ast.Constant):
                yield node.args[1].value, node.lineno


def test_no_part_is_probed():
    assert list(probes(ast.parse("hasattr(loss, 'check') or getattr(loss, name)"))) == [("check", 1)]
    found = []
    for path in ROOT.rglob("*.py"):
        file = path.relative_to(ROOT).as_posix()
        for name, line in probes(ast.parse(path.read_text())):
            if name in DECLARED:
                found.append(f"{file}:{line} asks whether there is {name}: declare it in parts/contracts.py")
    assert not found, found


def test_contracts_and_their_users_agree():
    assert {Loss, Penalty, StepRule, Optimizer, Conversion} <= set(CONTRACTS.values())
    assert sum(map(len, parts_by_kind().values())) > 50
