"""The last iterate of a long stream: what it keeps, and what it says."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from sparsco import SparseClassifier
from sparsco.datasets.generators import text_like

RECENT = "rest on the last eighth"


@pytest.fixture(scope="module")
def rows():
    return text_like(6000, 4000, 30, relevant=20, scale=10.0, rng=np.random.default_rng(0))


def last(rows, **settings):
    """Return a model after one pass, and whether it warned of recent features."""
    given = {"alpha": 1e-3, "optimizer": "fobos", "conversion": "last", "max_iter": 1, "random_state": 0} | settings
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model = SparseClassifier(**given).fit(*rows)
    texts = [str(each.message) for each in said if RECENT in str(each.message)]
    assert texts == [each for each in model.report_["warnings"] if RECENT in each] and len(texts) < 2
    return model, bool(texts)


def test_last_of_fobos_says_what_to_use_and_that_is_smaller(rows):
    model, warned = last(rows)
    assert warned
    for instead in ({"conversion": "average-sl"}, {"optimizer": "nftrl"}):
        other, warned = last(rows, **instead)
        assert not warned and 3 * other.n_nonzero_ < model.n_nonzero_


def test_smaller_steps_do_not_remove_recent_features(rows):
    sizes = []
    for step in (0.3, 0.03):
        model, warned = last(rows, step_size=step)
        assert warned
        sizes.append(model.n_nonzero_)
    assert sizes[1] > 0.8 * sizes[0]


def test_silent_where_it_does_not_apply(rows):
    X, y = rows
    for settings in ({"alpha": 1e-9}, {"conversion": "average"}, {"budget": 10}):
        assert not last(rows, **settings)[1]
    assert not last((X[:1500], y[:1500]))[1]  # a short stream
    assert not last(rows, polish=1e-2)[1]  # the start of a polish is no model
