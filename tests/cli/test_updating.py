"""``train --update`` honours an option or refuses it; nothing that was given is ignored."""

from __future__ import annotations

import numpy as np
import pytest

from sparsco.cli import main


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """Rows with times, a model of the first half, and the second half as a file."""
    folder, rng = tmp_path_factory.mktemp("updating"), np.random.default_rng(0)
    names = ("first.csv", "second.csv")
    for start, name in zip((0, 1200), names, strict=True):
        rows = rng.uniform(0.5, 2.0, (1200, 2)).round(3)
        counts = rng.poisson(rows[:, 0] * np.exp(rows[:, 1]))
        cells = zip(range(start, start + 1200), rows.tolist(), counts.tolist(), strict=True)
        text = "".join(f"{day},{exposure},{size},{y},{'ab'[y % 2]}\n" for day, (exposure, size), y in cells)
        (folder / name).write_text("day,exposure,size,claims,kind\n" + text)
    given = "--target claims --loss poisson --offset log(exposure) --half-life 500 --time day --alpha 0.01 --save-state"
    assert main(["train", str(folder / names[0]), "-m", str(folder / "m"), "--quiet", *given.split()]) == 0
    return folder


def updated(here, options):
    given = ["train", str(here / "second.csv"), "--update", str(here / "m"), "-m", str(here / "to"), "--quiet"]
    return main([*given, *options.split()])


@pytest.mark.parametrize(
    "options",
    ["--offset log(exposure)", "--time day", "--target claims", "--schema size=numbers", "--missing indicator"],
)
def test_what_the_model_says_may_be_repeated(here, options):
    assert updated(here, options) == 0


@pytest.mark.parametrize(
    "options",
    [
        "--half-life 400",
        "--alpha 0",
        "--no-relaxed",
        "--no-birth",
        "--offset none",
        "--offset exposure",
        "--time exposure",
        "--target kind",
        "--weight exposure",
        "--schema kind=ignored",
        "--missing zero",
        "--missing-values ?",
    ],
)
def test_what_would_have_no_effect_is_refused(here, capsys, options):
    before = (here / "to").read_bytes() if (here / "to").exists() else None
    assert updated(here, options) == 2
    assert f"leave out {options.split()[0]}." in capsys.readouterr().err
    assert ((here / "to").read_bytes() if (here / "to").exists() else None) == before
