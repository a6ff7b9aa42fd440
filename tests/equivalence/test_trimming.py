"""Features that leave: a stream that is trimmed is a plain one in which a feature that comes back is a new feature."""

from __future__ import annotations

import copy
import itertools
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from sparsco import SparseClassifier, SparseRegressor, conversions, steps
from sparsco.conversions import reservoir as reservoir_module
from sparsco.conversions.choose import Choose
from sparsco.conversions.fading_sample import new_reservoir
from sparsco.data.rows import Matrix, as_matrix
from sparsco.engine import run as run_module
from sparsco.engine.growth import keep_features
from sparsco.engine.run import Run
from sparsco.estimators import fit_state, trimmed
from sparsco.jit.dispatch import plain_python
from sparsco.losses import Logistic
from sparsco.penalties import ElasticNet
from support import number_of_streams
from support.cases import CONVERSIONS, OPTIMIZERS, sensible
from support.reservoirs import offer

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
PILOT = 12


@pytest.fixture(autouse=True)
def few_first_rows(monkeypatch):
    """Let runs collect few rows before they learn, so that short streams are trimmed."""
    for module in (run_module, fit_state, trimmed):
        monkeypatch.setattr(module, "PILOT_ROWS", PILOT)


class SlowStream:
    """The slow twin: nothing leaves its model, but a feature that comes back has another name there.

    Which features are in use is written down in plain Python, as docs/streams.md has it.
    """

    def __init__(self, kind, max_features=None, trim=None, **parameters):
        self.model, self.max_features, self.trim = kind(**parameters), max_features, trim
        self.t = 0
        self.last = {}
        """The last example of each feature in use and the one before it, by the order in which the features came."""
        self.lives, self.left = {}, 0

    def selected(self):
        state = self.model.fit_state
        names = state.features.names
        having = {names[slot] for slot in state.selected().tolist()} if state.runs[0].problem.penalty.lam else set()
        return {name for name in self.last if (name, self.lives[name]) in having}

    def leave(self, names):
        for name in names:
            del self.last[name]
        self.left += len(names)

    def see(self, names):
        for name in names:
            last, before = self.last.get(name, (0, 0))
            self.last[name] = (last, before) if last == self.t + 1 else (self.t + 1, last)

    def ranked(self):
        """Return the features in use by their absence, before the next example."""
        selected = self.selected()

        def absence(name):
            last, before = self.last[name]
            return (self.t + 1 - before) * (1 if name in selected else 4), -last

        return sorted(self.last, key=absence)

    def learn_one(self, x, y, time=None):
        if self.t >= PILOT:
            _ = self.model.t_  # learns what is queued
            if self.trim is not None and self.t % self.trim == 0:
                selected = self.selected()
                self.leave([n for n, (at, _) in self.last.items() if at <= self.t - self.trim and n not in selected])
            new = [name for name in x if name not in self.last]
            if self.max_features is not None and new and len(self.last) + len(new) > self.max_features:
                self.see([name for name in x if name in self.last])
                free = max(min(len(new), self.max_features), self.max_features // 4, 1)
                self.leave(self.ranked()[max(self.max_features - free, 0) :])
        for name in x:
            if name not in self.last:
                self.lives[name] = self.lives.get(name, 0) + 1
        self.see(x)
        self.t += 1
        self.model.learn_one({(name, self.lives[name]): value for name, value in x.items()}, y, time=time)
        if self.t == PILOT and self.max_features is not None:
            _ = self.model.t_
            self.leave(self.ranked()[self.max_features :])

    def iterates(self):
        """Return the names in use, and their weights and intercepts by run."""
        _ = self.model.t_
        names = [(name, self.lives[name]) for name in self.last]
        slots = self.model.fit_state.features.slots_of(names)
        return list(self.last), [run.weights_at(slots) for run in self.model.fit_state.begun()]


def iterates(model):
    """Return the names in use of a trimmed model, and their weights and intercepts by run."""
    _ = model.t_
    return model.fit_state.features.names, [run.weights() for run in model.fit_state.begun()]


def same(found, expected):
    assert found[0] == expected[0]
    for (w, b), (w_slow, b_slow) in zip(found[1], expected[1], strict=True):
        assert np.array_equal(w, w_slow) and np.array_equal(b, b_slow)


VALUES = st.sampled_from([-1.0, 0.5, 1.0, 2.0])
ROWS = st.lists(st.dictionaries(st.integers(0, 15), VALUES, max_size=5), min_size=PILOT, max_size=60)
FADING = st.sampled_from([None, None, 1.0, 6.0, 50.0])
STEPS = st.lists(st.sampled_from([1.0, 0.0, 0.5, 3.0, 400.0]), min_size=1, max_size=6)
BOUNDS = st.sampled_from([(1, None), (3, None), (6, None), (6, 9), (None, 4), (None, 10), (9, 5)])


@settings(max_examples=number_of_streams(150), deadline=None)
@given(ROWS, BOUNDS, st.sampled_from(["nftrl", "fobos", "ftrl", "rda"]), st.sampled_from([0.0, 0.05]), st.data())
def test_a_trimmed_stream_is_its_slow_twin(rows, bounds, optimizer, alpha, data):
    """The same features are in use, with weights of the same bits, wherever the stream is read or copied.

    Old examples may fade, by their numbers or by times.
    """
    labels = ["a", "b", *data.draw(st.lists(st.sampled_from("aab"), min_size=len(rows) - 2, max_size=len(rows) - 2))]
    looks = data.draw(st.dictionaries(st.integers(0, len(rows) - 1), st.sampled_from(["read", "pickle", "copy"])))
    parameters = {"alpha": alpha, "optimizer": optimizer, "conversion": "last", "random_state": 0}
    parameters["half_life"] = data.draw(FADING)
    times = [None] * len(rows)
    if parameters["half_life"] is not None and data.draw(st.booleans()):
        times = (7.0 + np.cumsum(np.resize(data.draw(STEPS), len(rows)))).tolist()
    bounds = dict(zip(("max_features", "trim"), bounds, strict=True))
    model, slow = SparseClassifier(**bounds, **parameters), SlowStream(SparseClassifier, **bounds, **parameters)
    for k, (x, y) in enumerate(zip(rows, labels, strict=True)):
        model.learn_one(x, y, time=times[k])
        slow.learn_one(x, y, time=times[k])
        look = looks.get(k)
        _ = model.t_ if look == "read" else None
        model = pickle.loads(pickle.dumps(model)) if look == "pickle" else model
        model = copy.deepcopy(model) if look == "copy" else model
    same(iterates(model), slow.iterates())
    assert model.fit_state.trimming.left == slow.left
    model.convert()
    assert model.report_["trimmed"]["in_use"] == len(slow.last) == model.n_features_in_


@settings(max_examples=number_of_streams(30), deadline=None)
@given(ROWS, BOUNDS, st.data())
def test_columns_in_any_cut(rows, bounds, data):
    """Rows of ``partial_fit`` in any cut, and single examples, have the same bits; weights of zero are no examples."""
    bounds = dict(zip(("max_features", "trim"), bounds, strict=True))
    y = np.array(data.draw(st.lists(st.sampled_from([-1.0, 0.0, 2.0]), min_size=len(rows), max_size=len(rows))))
    weights = np.array(data.draw(st.lists(st.sampled_from([0.0, 1.0, 1.0]), min_size=len(rows), max_size=len(rows))))
    cuts = sorted(data.draw(st.sets(st.integers(1, len(rows) - 1))))
    parameters = bounds | {"alpha": 0.02, "optimizer": "fobos", "conversion": "average", "random_state": 0}
    parameters["half_life"], times = data.draw(FADING), None
    if parameters["half_life"] is not None and data.draw(st.booleans()):
        times = np.cumsum(np.resize(data.draw(STEPS), len(rows)))
    counted = [k for k in range(len(rows)) if weights[k]]
    if not counted:
        return
    one = SparseRegressor(**parameters)
    for k in counted:
        columns = sorted(rows[k])
        x = np.array(columns, np.int64) * 10**6, np.array([rows[k][j] for j in columns])
        one.learn_one(x, y[k], time=None if times is None else times[k])
    starts = np.append(0, np.cumsum([len(row) for row in rows]))
    indices = np.array([j for row in rows for j in sorted(row)], np.int64) * 10**6
    values = np.array([row[j] for row in rows for j in sorted(row)])
    X = sp.csr_array((values, indices, starts), shape=(len(rows), 2 * 10**7))
    many = SparseRegressor(**parameters)
    for a, b in itertools.pairwise([0, *cuts, len(rows)]):
        own = None if times is None else times[a:b]
        many.partial_fit(X[a:b], y[a:b], sample_weight=weights[a:b], time=own)
        if (b - a) % 3 == 0:
            many = pickle.loads(pickle.dumps(many))
    a, b = (each.convert() for each in (one, many))
    assert np.array_equal(a.coef.toarray(), b.coef.toarray()) and np.array_equal(a.intercept, b.intercept)
    assert sp.issparse(many.coef_) and many.coef_.shape == (1, 2 * 10**7)
    assert a.report["trimmed"] == b.report["trimmed"]


FORGETTING = [name for name, (_, record, _) in OPTIMIZERS.items() if record.can_forget_features]


FORGOTTEN = [
    *itertools.product(
        FORGETTING, ["last", "suffix", "weighted", "random", "average-sl-diagonal", "last-sl", "optimal-sl"], [None]
    ),
    *itertools.product(
        ["nftrl", "nftrl-own-clock", "ftrl", "ftrl-own-clock", "fobos", "rda"],
        ["last", "suffix", "weighted", "average-sl-diagonal", "last-sl"],
        [20.0, 0.5],
    ),
]


@pytest.mark.parametrize(("optimizer", "conversion", "half_life"), FORGOTTEN)
def test_a_run_without_some_features_is_one_with_new_ones(optimizer, conversion, half_life):
    """What left a run is gone, and what comes back is new: the bits of a run where it has another column."""
    rng = np.random.default_rng(5)
    n, d = 160, 8
    X = rng.choice([0.0, 0.0, -1.0, 0.5, 2.0], size=(n, d))
    y = rng.choice([-1.0, 1.0], size=n)
    record, rho = OPTIMIZERS[optimizer][1], 0.0 if sensible(optimizer, "auto", "l1") else 0.1
    make = conversions.RandomIterate() if conversion == "random" else CONVERSIONS[conversion](n)
    boundaries = {30: [0, 2, 3, 5, 7], 64: [1, 2, 3, 4, 5, 6], 140: [0, 1, 4]}

    def run_of(d):
        return Run(Logistic(), ElasticNet(0.01, rho), record, make, steps.Constant(0.1), d=d, half_life=half_life)

    trimmed_run, plain = run_of(d), run_of(d)
    slot, column = {j: j for j in range(d)}, {j: j for j in range(d)}
    width = d
    with plain_python():
        for a, b in itertools.pairwise([0, 30, 64, 140, n]):
            if a:
                kept = boundaries[a]
                names = [name for name in sorted(slot, key=slot.get) if slot[name] in kept]
                keep_features(trimmed_run, np.array(kept))
                slot = {name: k for k, name in enumerate(names)}
                for name in range(d):
                    if name not in slot:
                        slot[name], column[name] = len(slot), width
                        width += 1
            order = sorted(slot, key=slot.get)
            assert order == sorted(column, key=column.get)
            wide = np.zeros((b - a, width))
            wide[:, [column[name] for name in order]] = X[a:b][:, order]
            for run, rows in ((trimmed_run, X[a:b][:, order]), (plain, wide)):
                run.grow(rows.shape[1])
                run.feed(as_matrix(rows), y[a:b], times=None if half_life is None else np.arange(float(a), b))
                run.begin()
        found, expected = trimmed_run.finish(), plain.finish()
    columns = [column[name] for name in sorted(slot, key=slot.get)]
    assert np.array_equal(found.w, expected.w[columns]) and np.array_equal(found.b, expected.b)


@settings(max_examples=number_of_streams(250), deadline=None)
@given(st.integers(0, 2**16), st.integers(5, 60), st.integers(0, 12), st.booleans(), FADING, st.data())
def test_a_sample_whose_features_leave_is_the_same_in_any_cut(seed, most, guard, drops, half_life, data):
    """Also where the entries of features that are gone are dropped at once."""
    rng = np.random.default_rng(seed)
    n, d = 80, 6
    X = rng.choice([0.0, 1.0, 2.0], size=(n, d))
    y = rng.normal(size=n)
    left_at = sorted(data.draw(st.sets(st.integers(1, n - 1), min_size=1, max_size=3)))
    cuts = sorted(data.draw(st.sets(st.integers(1, n - 1))))
    samples, sums = [], []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reservoir_module, "_MOST_NUMBERS", 0 if drops else 100)
        for more in ([], cuts):
            reservoir, columns = new_reservoir(half_life, seed, 1, most, guard), list(range(d))
            gone, back = np.zeros(d, np.int64), n
            for a, b in itertools.pairwise([0, *left_at, n]):
                if a:  # the first leaves, and comes back as the last
                    reservoir.keep(np.arange(1, d), d)
                    columns = [*columns[1:], columns[0]]
                    gone[columns[-1]], back = a, b
                times = None if half_life is None else np.arange(float(a), b)
                offer(reservoir, X[a:b][:, columns], y[a:b], tuple(c - a for c in more if a < c < b), times=times)
                reservoir = pickle.loads(pickle.dumps(reservoir)) if more else reservoir
            samples.append(reservoir.sample())
            sums.append(reservoir.column_sums(d)[0])
    assert samples[0].kappa == samples[1].kappa and back == n
    assert all(np.array_equal(a, b) for a, b in zip(*sums, strict=True))
    for one, other in zip(samples[0][:2], samples[1][:2], strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))
        dense = Matrix(one.indptr, one.indices, one.data, d).to_scipy().toarray()
        expected = np.where(one.numbers[:, None] >= gone, X[one.numbers], 0.0)[:, columns]
        assert np.array_equal(dense, expected)
    assert np.array_equal(samples[0].R.data.sum(), sums[0][1].sum())


def new_words(n, seed=0, classes=2):
    """Yield rows with three of twenty words that count, some of 60 common ones, and two new ones each; and labels."""
    rng = np.random.default_rng(seed)
    for t in range(n):
        some = rng.choice(20, 3, replace=False)
        common = rng.choice(60, 3, replace=False)
        score = sum(1.0 if k < 10 else -1.0 for k in some.tolist()) + 0.3 * rng.normal()
        label = int(score > 0.0) if classes == 2 else int(np.clip(round(score) + 1, 0, classes - 1))
        yield {f"i{k}": 1.0 for k in some} | {f"c{k}": 1.0 for k in common} | {f"n{t}": 1.0, f"m{t}": 1.0}, label


@pytest.mark.parametrize(
    "parameters",
    [
        {"alpha": 0.005, "optimizer": "nftrl"},
        {},
        {"alpha": 0.005, "calibrate": True},
        {"alpha": 0.005, "loss": "multinomial"},
        {"alpha": 0.005, "conversion": "optimal-sl"},
        {"alpha": 0.005, "budget": 15},
        {"alpha": 0.005, "half_life": 300, "calibrate": True},
        {"half_life": 400},
    ],
    ids=str,
)
def test_any_cut_and_any_copy_give_the_same_model(monkeypatch, parameters):
    """Conversions with samples, automatic choices that outgrow theirs, held-out rows, several classes."""
    monkeypatch.setattr(Choose, "sample_nonzeros", 1500)
    data = list(new_words(1200, classes=3 if "loss" in parameters else 2))
    models = []
    for looks in ((), (100, 333, 700, 701, 1100)):
        model = SparseClassifier(max_features=150, trim=300, random_state=0, **parameters)
        for k, (x, y) in enumerate(data):
            model.learn_one(x, y)
            if k in looks:
                _ = model.coef_
                model = pickle.loads(pickle.dumps(model))
        models.append(model.convert())
    one, other = models
    assert np.array_equal(one.coef.toarray(), other.coef.toarray()) and np.array_equal(one.intercept, other.intercept)
    assert one.report["trimmed"]["left"] > 2000 and one.report["trimmed"] == other.report["trimmed"]
    names = np.array(model.feature_names_)[np.unique(one.coef.indices)]
    assert len(names) >= 10 and len([name for name in names if name[0] == "i"]) >= 0.8 * min(len(names), 20)
    assert model.fit_state.long is not None or "alpha" in parameters or "half_life" in parameters


def test_without_a_bound_that_binds_nothing_changes():
    data = list(new_words(300))
    for parameters in ({"alpha": 0.01}, {"alpha": 0.01, "conversion": "average-sl"}):
        plain, bounded = (SparseClassifier(random_state=0, max_features=most, **parameters) for most in (None, 10**6))
        for x, y in data:
            plain.learn_one(x, y)
            bounded.learn_one(x, y)
        assert np.array_equal(plain.coef_, bounded.coef_) and np.array_equal(plain.intercept_, bounded.intercept_)
        assert bounded.report_["trimmed"]["left"] == 0
