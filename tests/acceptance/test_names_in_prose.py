"""The names of parts and formats in docstrings, pages and the options of commands are those of the registries."""

from __future__ import annotations

import argparse
import inspect
import re
from pathlib import Path

import numpy as np
import pytest

import sparsco
from sparsco import cli, streams
from sparsco.bench.problems.definitions import PROBLEMS
from sparsco.choice.rule import RULES
from sparsco.conversions import CONVERSIONS
from sparsco.estimators.parameters import asked
from sparsco.exports.api import WRITERS
from sparsco.losses import CLASSIFIER_LOSSES, REGRESSOR_LOSSES
from sparsco.optimizers import OPTIMIZERS
from sparsco.penalties import PENALTIES
from sparsco.presets import PRESETS
from sparsco.streams.description import MISSING_AS
from sparsco.text.spec import CHAR, WEIGHTINGS, WORD

CHOOSE = Path(__file__).parents[2] / "docs" / "choose.md"
REGISTRIES = {
    "loss": CLASSIFIER_LOSSES | REGRESSOR_LOSSES,
    "penalty": PENALTIES,
    "optimizer": OPTIMIZERS,
    "conversion": CONVERSIONS,
}
FORMATS = set(streams._FORMATS)
CHOICES = {
    "--format": FORMATS,
    "--to": set(WRITERS),
    "--choose": set(RULES),
    "--missing": set(MISSING_AS),
    "--analyzer": {WORD, CHAR},
    "--weighting": set(WEIGHTINGS),
    "--storage": {"all", "seen"},  # and "auto", which is not to give it
    "--problems": {"single", *PROBLEMS},
}
"""The choices of options that the library has in a list of its own; those of LISTED_BY_THE_COMMAND are in no other."""
LISTED_BY_THE_COMMAND = {"--task", "--skip", "action"}
AUTO = {"optimizer", "conversion"}
"""The parameters that also take "auto"."""


def quoted(text):
    """Return the names in double quotes."""
    return set(re.findall(r'"([a-z0-9_-]+)"', text))


def entry(documented, parameter):
    """Return the text on a parameter in a docstring in numpydoc form."""
    found = re.search(rf"^{parameter} : .*?(?=^\S)", inspect.getdoc(documented), re.DOTALL | re.MULTILINE)
    assert found, f"{documented.__name__} has no entry for {parameter}"
    return found[0]


@pytest.mark.parametrize(
    ("documented", "parameter", "names"),
    [
        (sparsco.SparseClassifier, "loss", set(CLASSIFIER_LOSSES)),
        (sparsco.SparseRegressor, "loss", set(REGRESSOR_LOSSES)),
        (sparsco.StableSparseClassifier, "loss", set(sparsco.StableSparseClassifier.known_losses)),
        (sparsco.StableSparseRegressor, "loss", set(sparsco.StableSparseRegressor.known_losses)),
        (sparsco.SparseClassifier, "penalty", set(PENALTIES)),
        (sparsco.SparseClassifier, "optimizer", {"auto", *OPTIMIZERS}),
        (sparsco.SparseClassifier, "conversion", {"auto", *CONVERSIONS}),
        (sparsco.SparseClassifier, "choose", CHOICES["--choose"]),
        (sparsco.SparseClassifier, "storage", {"auto", *CHOICES["--storage"]}),
        (sparsco.SparseText, "weighting", CHOICES["--weighting"]),
        (sparsco.open_stream, "format", FORMATS),
        (sparsco.export, "format", CHOICES["--to"]),
    ],
)
def test_docstring_lists_all_names_of_a_parameter(documented, parameter, names):
    assert quoted(entry(documented, parameter)) == names


@pytest.mark.parametrize("name", CONVERSIONS)
def test_docstring_of_kaczmarz_lists_the_conversions_that_it_takes(name):
    A = np.random.default_rng(0).standard_normal((20, 3))
    try:
        sparsco.kaczmarz(A, A[:, 0], lam=0.1, conversion=name, iterations=2000)
        works = True
    except ValueError:
        works = False
    assert works == (name in quoted(entry(sparsco.kaczmarz, "conversion")))


def preset_is_known(name):
    """Return whether an estimator takes a preset of this name."""
    try:
        asked(sparsco.SparseClassifier(preset=name), "optimizer")
    except ValueError:
        return False
    return True


def test_docstring_names_presets_that_estimators_take():
    named = quoted(entry(sparsco.SparseClassifier, "preset"))
    assert named
    assert all(map(preset_is_known, named))
    assert not preset_is_known("no-such-preset")


@pytest.mark.parametrize("parameter", REGISTRIES)
def test_the_page_of_choices_lists_all_names_of_a_parameter(parameter):
    (row,) = [line for line in CHOOSE.read_text().splitlines() if line.startswith(f"| `{parameter}` |")]
    named, known = quoted(row), set(REGISTRIES[parameter]) | ({"auto"} if parameter in AUTO else set())
    assert named <= known
    spelled_with_dashes = {name for name in known if "_" not in name}
    assert spelled_with_dashes <= named


def test_commands_have_the_choices_of_the_library():
    commands = next(each for each in cli._parser()._actions if isinstance(each, argparse._SubParsersAction)).choices
    assert commands
    met = set()
    for command, parser in commands.items():
        for action in parser._actions:
            name = next((each for each in action.option_strings if each.startswith("--")), action.dest)
            if action.choices is not None and name not in LISTED_BY_THE_COMMAND:
                assert set(action.choices) == CHOICES[name], (command, name)
                met.add(name)
    assert met == set(CHOICES)


def test_help_of_export_describes_every_format(capsys):
    with pytest.raises(SystemExit):
        cli.main(["export", "--help"])
    (described,) = re.findall(r"^formats:\n(.*?)\n\n", capsys.readouterr().out, re.M | re.S)
    assert set(re.findall(r"(?:^ {4}|; )(\w+)(?::| {2,})", described, re.M)) == set(WRITERS)


def test_suffixes_and_growing_files_have_formats_that_exist():
    assert set(streams._SUFFIXES.values()) | {"text"} == FORMATS  # no suffix stands for lines of texts
    assert set(streams._GROWING) == {name for name in FORMATS if name not in ("parquet", "arrow", "npz")}


@pytest.fixture
def help_of_train(capsys, monkeypatch):
    """Return the help of each option of ``sparsco train``, in one line."""
    monkeypatch.setenv("COLUMNS", "500")  # argparse would break lines within names
    with pytest.raises(SystemExit):
        cli.main(["train", "--help"])
    options = re.findall(r"^  (?:-\w[^,\n]*, )?--([\w-]+)(.*?)(?=^  -|^\S|\Z)", capsys.readouterr().out, re.M | re.S)
    return {name: " ".join(text.split()) for name, text in options}


def words(text):
    """Return the names in a list such as "LOSS logistic, hinge; squared, L1Ball(RADIUS), ...", without records."""
    listed = re.sub(r"\(.*?\)", "()", re.sub(r"^[A-Z_]+ ", "", text))
    return {each for each in (part.split(" (")[0].strip() for part in re.split("[,;]", listed)) if each != "..."}


@pytest.mark.parametrize("parameter", REGISTRIES)
def test_help_of_train_names_parts_that_estimators_take(parameter, help_of_train):
    named = {name for name in words(help_of_train[parameter]) if "(" not in name}
    known = set(REGISTRIES[parameter]) | ({"auto"} if parameter in AUTO else set())
    assert len(named) > 3
    assert named <= known


def test_help_of_train_names_a_preset_that_estimators_take(help_of_train):
    named = re.search(r"such as ([\w-]+)", help_of_train["preset"])
    assert named
    assert preset_is_known(named[1])


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_has_a_name_with_dashes(name):
    assert preset_is_known(re.sub(r"(?<=[a-z])(?=[A-Z])", "-", name).lower())
