"""Automatic choices on streams that outgrow their sample: strengths side by side, judged on held-out rows."""

from __future__ import annotations

import contextlib
import copy
import pickle

import numpy as np
import pytest
import scipy.sparse as sp

from sparsco import SparseClassifier, SparseRegressor
from sparsco.conversions.choose import Choose
from sparsco.engine.long_stream import HELD_OUT, LEAST_HELD_ROWS, STRENGTHS
from sparsco.solver.units import copy_in_units
from sparsco.training.checkpoints import Checkpoints
from sparsco.training.train import StoppedError, train

pytestmark = pytest.mark.filterwarnings("ignore:alpha='auto'")
ROOM = 20_000
"""The nonzeros of the sample in these tests."""
WIDE = 600


@pytest.fixture(autouse=True)
def small_sample(monkeypatch):
    monkeypatch.setattr(Choose, "sample_nonzeros", ROOM)


def words(n=12_000, d=WIDE, seed=0, classes=2):
    """Return rows of about ten nonzeros, and labels that many columns explain a little."""
    rng = np.random.default_rng(seed)
    X = sp.csr_array(sp.random_array((n, d), density=10.0 / d, format="csr", rng=rng))
    w = np.random.default_rng(99).laplace(size=(d, classes))
    p = X @ w
    return X, (p + rng.logistic(size=p.shape)).argmax(1)


def same(one, other):
    """Return whether two models have the same bits."""
    return np.array_equal(one.coef_, other.coef_) and np.array_equal(one.intercept_, other.intercept_)


def test_rows_beyond_the_sample_count(monkeypatch):
    X, y = words()
    test = words(seed=1)
    model = SparseClassifier(random_state=0).fit(X, y)
    assert model.fit_state.long is not None
    on_sample = SparseClassifier(random_state=0, budget=10**6).fit(X, y)  # a budget is met by models of the sample
    assert on_sample.fit_state.long is None
    assert 1.0 - model.score(*test) < 0.93 * (1.0 - on_sample.score(*test))
    monkeypatch.setattr(Choose, "sample_nonzeros", 10**7)
    whole = SparseClassifier(random_state=0).fit(X, y)
    gains = [each.score(*test) - on_sample.score(*test) for each in (model, whole)]
    assert gains[0] > 0.75 * gains[1] > 0.02


@pytest.mark.parametrize("cut", [1, 777, 5000])
def test_any_cut_gives_the_bits_of_fit(cut):
    X, y = words(8000)
    whole, stream = SparseClassifier(random_state=0).fit(X, y), SparseClassifier(random_state=0)
    cuts = range(0, len(y), cut) if cut > 1 else [*range(1980, 2020), *range(2020, len(y), 999)]
    cuts = [0, *cuts] if cuts[0] else cuts
    for start, stop in zip(cuts, [*cuts[1:], len(y)], strict=True):
        stream.partial_fit(X[start:stop], y[start:stop], classes=[0, 1])
    assert stream.fit_state.long is not None and whole.report_["converted"][0]["choice"]["strengths"]
    assert same(stream, whole)


def test_looking_at_the_model_changes_nothing_and_copies_go_on():
    X, y = words(8000)
    whole, stream = SparseClassifier(random_state=0).fit(X, y), SparseClassifier(random_state=0)
    stream.partial_fit(X[:5000], y[:5000], classes=[0, 1])
    before = stream.coef_
    twin, copied = pickle.loads(pickle.dumps(stream)), copy.deepcopy(stream)
    for each in (stream, twin, copied):
        assert np.array_equal(each.coef_, before)
        each.partial_fit(X[5000:], y[5000:])
        assert same(each, whole)


def test_features_that_come_late_have_weights():
    X, y = words(9000)
    late = np.arange(3000, 9000, 4)
    column = np.zeros((9000, 1))
    column[late], y[late] = 2.0, 1
    X = sp.csr_array(sp.hstack([X, sp.csr_array(column)]))
    stream = SparseClassifier(random_state=0)
    stream.partial_fit(X[:2500, :WIDE], y[:2500], classes=[0, 1])
    model = stream.partial_fit(X[2500:], y[2500:])
    assert model.coef_[0, WIDE] > 1.0
    assert same(SparseClassifier(random_state=0).fit(X, y), model)


def test_held_out_rows_are_not_learned():
    X, y = words(8000)
    state = SparseClassifier(random_state=0).fit(X, y).fit_state
    held, learned = state.long.held.rows_seen, state.long.runs[0].examples
    assert held + learned == 8000 and abs(held - 6000 * HELD_OUT) < 60
    kept = state.long.held.sample().R.numbers
    assert len(kept) == held


def test_few_held_out_rows_leave_the_choice_to_the_sample():
    X, y = words(2000 + int(0.5 * LEAST_HELD_ROWS / HELD_OUT))
    model = SparseClassifier(random_state=0).fit(X, y)
    assert model.fit_state.long is not None
    assert "strengths" not in model.report_["converted"][0]["choice"]


def test_what_was_chosen_reproduces_the_model():
    X, y = words()
    model = SparseClassifier(random_state=0).fit(X, y)
    choice = model.report_["converted"][0]["choice"]
    assert [each["on"] for each in choice["strengths"] if each["chosen"]] == ["all rows"]
    assert len(choice["strengths"]) == STRENGTHS + 2 and choice["rows"] == len(y)
    again = SparseClassifier(
        random_state=0, alpha=model.alpha_, l1_ratio=model.l1_ratio_, relaxed=model.relaxed_, standardize=True
    ).fit(X, y)
    assert same(again, model)


def test_classes_outputs_and_losses():
    X, y = words(9000, classes=4)
    test = words(4000, seed=1, classes=4)
    four = SparseClassifier(random_state=0).fit(X, y)
    assert four.coef_.shape == (4, WIDE) and four.fit_state.long is not None
    few = SparseClassifier(random_state=0).fit(X[:2000], y[:2000])
    assert four.score(*test) > few.score(*test) + 0.02
    names = np.array(["c", "a", "d", "b"])[y]
    open_stream = SparseClassifier(random_state=0)
    for start in range(0, 9000, 1000):
        open_stream.partial_fit(X[start : start + 1000], names[start : start + 1000])
    assert open_stream.score(test[0], np.array(["c", "a", "d", "b"])[test[1]]) > few.score(*test) + 0.02
    numbers = np.column_stack([X[:, :300].sum(1), X[:, 300:].sum(1)])
    two = SparseRegressor(random_state=0).fit(X, numbers)
    assert two.fit_state.long is not None and two.score(X, numbers) > 0.9
    hinge = SparseClassifier(random_state=0, loss="hinge").fit(*words(9000))
    assert hinge.fit_state.long is not None and hinge.score(*words(4000, seed=1)) > 0.75
    softmax = SparseClassifier(random_state=0, loss="multinomial").fit(X, y)  # learned from the sample
    assert softmax.fit_state.long is None and softmax.score(*test) > few.score(*test) - 0.05


def test_a_class_that_comes_late():
    X, y = words(12_000, classes=3)
    late = np.concatenate([np.flatnonzero(y[:4000] < 2), np.arange(4000, 12_000)])
    X, y = X[late], y[late]
    stream = SparseClassifier(random_state=0)
    for start in range(0, len(y), 1500):
        stream.partial_fit(X[start : start + 1500], y[start : start + 1500])
    again = SparseClassifier(random_state=0).partial_fit(X, y)
    assert same(again, stream)
    test = words(4000, seed=1, classes=3)
    assert stream.score(*test) > 0.55
    assert np.mean(stream.predict(test[0]) == 2) > 0.15


def test_the_solution_on_the_sample_wins_where_one_pass_is_not_enough():
    """Correlated dense columns: the iterates of one pass are far from the optimum, the sample's solution is not."""
    rng = np.random.default_rng(0)
    base = rng.standard_normal((13_000, 1))
    X = base + 0.02 * rng.standard_normal((13_000, 10))
    y = (X[:, 0] - X[:, 1]) * 50.0 + 0.1 * rng.standard_normal(13_000)
    model = SparseRegressor(random_state=0).fit(X[:12_000], y[:12_000])
    assert model.fit_state.long is not None
    chosen = [each["on"] for each in model.report_["converted"][0]["choice"]["strengths"] if each["chosen"]]
    assert chosen == ["sample"]
    assert model.score(X[12_000:], y[12_000:]) > 0.95


def test_rows_of_weight_zero_and_feature_weights():
    X, y = words(9000)
    weights = np.ones(9000)
    weights[::3] = 0.0
    kept = weights > 0.0
    model = SparseClassifier(random_state=0).fit(X, y, sample_weight=weights)
    assert same(SparseClassifier(random_state=0).fit(X[kept], y[kept]), model)
    pen = np.ones(WIDE)
    pen[:20] = 0.0
    free = SparseClassifier(random_state=0, feature_weights=pen).fit(X, y)
    assert free.fit_state.long is not None and np.all(free.coef_[0, :20] != 0.0)


def test_a_warm_start_goes_on():
    X, y = words(9000)
    model = SparseClassifier(random_state=0, warm_start=True).fit(X[:6000], y[:6000])
    before = model.coef_
    assert same(model.fit(X[6000:], y[6000:]), SparseClassifier(random_state=0).fit(X, y))
    assert not np.array_equal(before, model.coef_)


def test_copies_in_units_equal_division():
    rng = np.random.default_rng(0)
    X = sp.csr_array(sp.random_array((30, 12), density=0.4, format="csr", rng=rng))
    X.data[::5] = 0.0
    order = rng.permutation(30)[:20]
    units = np.where(rng.random(12) < 0.5, rng.random(12) + 0.5, 0.0)
    expected, known = X[order].toarray(), units.copy()
    for j in np.flatnonzero(units == 0.0):
        values = expected[:, j][expected[:, j] != 0.0]
        known[j] = abs(values[0]) * 0.25 if values.size else 0.0
    expected = expected / np.where(known > 0.0, known, 1.0)
    lengths = np.diff(X.indptr)[order]
    indptr = np.append(0, np.cumsum(lengths))
    indices, data = np.empty(indptr[-1], np.uint32), np.empty(indptr[-1])
    rows = X.indices.astype(np.uint32), X.data
    copy_in_units(X.indptr.astype(np.int64), *rows, order, units, 0.25, indptr, indices, data)
    assert np.array_equal(units, known)
    assert np.array_equal(sp.csr_array((data, indices, indptr), shape=(20, 12)).toarray(), expected)


def test_a_training_that_is_interrupted_ends_with_the_same_model(tmp_path):
    X, y = words(10_000)
    lines = (
        f"{label} " + " ".join(f"{j + 1}:{x:.6f}" for j, x in zip(X.indices[a:b], X.data[a:b], strict=True))
        for label, a, b in zip(y, X.indptr[:-1], X.indptr[1:], strict=True)
    )
    source = tmp_path / "rows.svm"
    source.write_text("\n".join(lines) + "\n")
    reader, kept = {"block_bytes": 40_000}, Checkpoints(tmp_path / "checkpoint", 1500, None)
    whole = train(source, reader=reader, shuffle=False).model
    assert "strengths" in whole.report_["converted"][0]["choice"]
    for chunks in (16, 20, 10**6):
        left = [chunks]

        def stop(left=left):
            left[0] -= 1
            return left[0] < 0

        with contextlib.suppress(StoppedError):
            trained = train(source, reader=reader, shuffle=False, checkpoints=kept, resume=kept.exist(), stop=stop)
    assert kept.exist() and same(trained.model, whole)
