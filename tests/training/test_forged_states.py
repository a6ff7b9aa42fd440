"""Training states of anyone: what kernels use as places, times and sizes is checked before a kernel sees it."""

from __future__ import annotations

import numpy as np
import pytest

from sparsco import load
from sparsco.training import archive
from sparsco.training.archive import ArchiveError
from support import LONG
from support.forged_states import FEW, go_on, make, settings

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


@pytest.mark.parametrize("name", settings() if LONG else FEW)
def test_a_state_that_was_saved_goes_on(name, tmp_path):
    model = go_on(name, make(name, tmp_path / "a.model"))
    assert model.fit_state.examples == 1500


def of_run(path, value):
    """Return a change: the array at this path of the run, or one entry of it, gets a value."""
    *names, last = path

    def change(model):
        here = model.fit_state.runs[0]
        for name in names:
            here = here[name] if isinstance(name, int) else getattr(here, name)
        if isinstance(last, str):
            vars(here)[last] = value
        else:
            here[last] = value

    return change


def without_an_attribute(model):
    del vars(model.fit_state)["settings"]


def other_codes(model):
    model.fit_state.codes[next(iter(model.fit_state.codes))] = 7


def other_slots(model):
    model.fit_state.features._slots["f3"] = 10**9


FAR = 10**6


@pytest.mark.parametrize(
    ("name", "change", "what"),
    [
        ("fobos", of_run(["state", "cell", 0], 1e9), "B at the last touches"),
        ("fobos", of_run(["block", "grid", 3], -1.0), "the grid"),
        ("fobos", of_run(["block", "grid", 3], 100.0), "the grid"),
        ("fobos", of_run(["block", "start"], 2000), "its beginning"),
        ("fobos", of_run(["windows", "watched"], "zzz"), "watched of Windows"),
        ("rda-l1", of_run(["state", "cell", -1], -1.0), "the last thresholds"),
        ("fobos-groups", of_run(["state", "clock", 0], FAR), "the last touches of groups"),
        ("fobos-groups", of_run(["state", "clock", 0], 0.5), "the last touches of groups"),
        ("fobos-groups", of_run(["state", "clock", 1], 1e9), "B at the last touches of groups"),
        ("fobos-groups", of_run(["optimizer", "groups", "members", 0], FAR), "the groups of the optimizer"),
        ("rda-groups", of_run(["state", "clock", 2], FAR), "the last touches of groups"),
        ("ball", of_run(["block", "pages", slice(None)], FAR), "cannot be right"),
        ("ball", of_run(["block", "end", 3], FAR), "the size of the lists"),
        ("ball", of_run(["block", "free", 0], FAR), "the number of free pages"),
        ("ball", of_run(["block", "free", 1], 2), "the pages"),
        ("ball", of_run(["state", "clock", 0], FAR), "the beginning of the epoch"),
        ("tracked", of_run(["block", "size", 0], FAR), "the size of the heap"),
        ("tracked", of_run(["block", "size", 1], 0), "the features alive"),
        ("tracked", of_run(["block", "who", 0], FAR), "the features of the heap"),
        ("tracked", of_run(["block", "count", 0], FAR), "the places of the log"),
        ("tracked", of_run(["block", "item", slice(None)], FAR), "the features of the log"),
        ("tracked-swept", of_run(["block", "number_active", 0], FAR), "the number of active features"),
        ("tracked-swept", of_run(["block", "active", 0], FAR), "the active features"),
        ("tracked-swept", of_run(["block", "active", slice(2)], 1), "the active features"),
        ("adagrad-fobos", of_run(["state", "cell", slice(None)], -1.0), "the sums of squares"),
        ("names", other_slots, "other slots"),
        ("names", other_codes, "the codes of its labels"),
        ("trimmed", without_an_attribute, "no settings"),
    ],
)
def test_places_that_kernels_would_leave_are_refused(name, change, what, tmp_path):
    path = make(name, tmp_path / "a.model")
    content = archive.read(path, "model")
    change(content["training"]["model"])
    archive.write(path, "model", content)
    with pytest.raises(ArchiveError, match=what):
        load(path, training=True)


def test_no_page_of_a_list_comes_twice(tmp_path):
    path = make("ball", tmp_path / "a.model")
    content = archive.read(path, "model")
    block = content["training"]["model"].fit_state.runs[0].block
    block.end[np.argmin(block.end)] = block.end.max()
    archive.write(path, "model", content)
    with pytest.raises(ArchiveError, match="the pages|the number of pages"):
        load(path, training=True)


@pytest.mark.parametrize("column", ["start", "length"])
def test_rows_of_a_sample_are_compared_without_a_sum_that_wraps(column, tmp_path):
    model = load(make("chosen", tmp_path / "a.model"), training=True)
    sample = model.fit_state.runs[0].reservoir
    sample.check()
    getattr(sample._table, column)[5] = 2**63 - 2
    with pytest.raises(ValueError, match="the sample of its rows is not whole"):
        sample.check()
