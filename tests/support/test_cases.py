"""The tables of cases have every part and every format that has a name; none has one that is gone."""

from pathlib import Path

import pytest

from sparsco.conversions import CONVERSIONS
from sparsco.exports.api import WRITERS
from sparsco.losses import CLASSIFIER_LOSSES, REGRESSOR_LOSSES
from sparsco.optimizers import OPTIMIZERS
from sparsco.steps import RULES
from support import cases

TESTS = Path(__file__).parents[1]
APART = {
    "Multinomial": "problem/test_losses.py",
    "EpochSGD": "conversions/test_two_stage.py",
    "MirrorDescent": "optimizers/test_individual.py",
    "BatchFOBOS": "problem/test_coupled.py",
    "BatchRDA": "problem/test_coupled.py",
    "LastEpoch": "conversions/test_two_stage.py",
    "RandomIterate": "problem/test_coupled.py",
    "SCMDI": "optimizers/test_individual.py",
    "OCMDI": "optimizers/test_individual.py",
}
"""The parts that are not in the tables, and the file that compares them with a dense recursion of its own."""
EXPORTS = {
    "sql": "exports/test_sql.py",
    "c": "exports/test_equality.py",
    "js": "exports/test_equality.py",
    "python": "exports/test_equality.py",
    "onnx": "exports/test_onnx.py",
    "json": "exports/test_hostile.py",
    "csv": "exports/test_hostile.py",
}
"""The formats of models, and the file that compares what they contain or predict with the model."""


def in_the_tables(registry):
    """Return the entries of a registry that the tables must have."""
    return {name: part for name, part in registry.items() if kind_of(part).__name__ not in APART}


def kind_of(part):
    return part if isinstance(part, type) else type(part)


def test_losses():
    known = in_the_tables(CLASSIFIER_LOSSES | REGRESSOR_LOSSES)
    assert {type(loss) for loss in cases.LOSSES.values()} == {type(loss) for loss in known.values()}
    assert all(type(known[name]) is type(loss) for name, loss in cases.LOSSES.items())


def test_optimizers():
    known = in_the_tables(OPTIMIZERS)
    assert {name for name, *_ in cases.OPTIMIZERS.values()} == set(known)
    assert all(type(optimizer) is known[name] for name, optimizer, _ in cases.OPTIMIZERS.values())


def test_conversions():
    """A name with more behind it is a variant; conversions that round have no name."""
    known, found = in_the_tables(CONVERSIONS), {}
    for name, make in cases.CONVERSIONS.items():
        if name not in cases.ROUNDED:
            base = max((each for each in known if name == each or name.startswith(f"{each}-")), key=len, default=None)
            assert base is not None, name
            found[base] = kind_of(make(100))
    assert found == {name: kind_of(part) for name, part in known.items()}


def test_step_rules():
    found = {name: type(rule) for name, rule in cases.RULES.items() if name not in ("auto", "uncapped")}
    assert found == RULES


@pytest.mark.parametrize("name", APART)
def test_what_is_not_in_the_tables_has_a_test_of_its_own(name):
    registered = {**CLASSIFIER_LOSSES, **REGRESSOR_LOSSES, **OPTIMIZERS, **CONVERSIONS}
    assert name in {kind_of(part).__name__ for part in registered.values()}
    assert name in (TESTS / APART[name]).read_text()


def test_exports():
    assert set(EXPORTS) == set(WRITERS)
    for format, file in EXPORTS.items():
        text = (TESTS / file).read_text()
        assert f', "{format}"' in text or f"to_{format}" in text, format
