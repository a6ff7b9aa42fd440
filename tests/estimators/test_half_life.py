"""``half_life``: old rows fade, in fits, streams, paths and files."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.base import clone

from sparsco import SparseClassifier, SparseClassifierCV, SparsePath, SparseRegressor, distributed, load, save, train
from sparsco.data.rows import as_matrix
from sparsco.streams import convert
from sparsco.training.checkpoints import Checkpoints
from sparsco.training.train import StoppedError

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def changing(n=6000, at=0.5, noise=1.0, d=12, seed=0):
    """Rows about columns 0 and 1, then about columns 4 and 5."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    margins = np.where(np.arange(n) < at * n, X[:, 0] + X[:, 1], X[:, 4] + X[:, 5])
    return X, 2.0 * margins + noise * rng.logistic(size=n) > 0.0


METHODS = [
    {},
    {"alpha": 0.02},
    {"alpha": 0.02, "l1_ratio": 0.8},
    {"alpha": 0.02, "optimizer": "rda"},
    {"alpha": 0.02, "optimizer": "fobos"},
]


@pytest.mark.parametrize("settings", METHODS, ids=str)
def test_a_model_is_about_what_is_new(settings):
    X, y = changing()
    coef = SparseClassifier(half_life=400, random_state=0, **settings).fit(X, y).coef_[0]
    assert min(coef[4], coef[5]) > 0.8 and np.abs(np.delete(coef, [4, 5])).max() < 0.2
    old = SparseClassifier(random_state=0, **settings).fit(X, y).coef_[0]
    assert min(old[0], old[1]) > 0.4


@pytest.mark.parametrize("settings", METHODS, ids=str)
def test_any_cut_of_a_stream_gives_the_bits_of_a_fit(settings):
    X, y = changing(3000)
    whole, cut = (SparseClassifier(half_life=150, random_state=0, **settings) for _ in range(2))
    whole.fit(X, y)
    for a, b in ((0, 700), (700, 1800), (1800, 1801), (1801, 3000)):
        cut = pickle.loads(pickle.dumps(cut.partial_fit(X[a:b], y[a:b], classes=[False, True])))
    assert np.array_equal(cut.coef_, whole.coef_) and cut.report_["converted"] == whole.report_["converted"]


@pytest.mark.parametrize("settings", METHODS, ids=str)
def test_an_infinite_half_life_gives_the_bits_of_none(settings):
    X, y = changing(2000)
    for method in ("fit", "partial_fit"):
        models = [SparseClassifier(half_life=each, random_state=0, **settings) for each in (None, np.inf)]
        none, infinite = (getattr(model, method)(X, y) for model in models)
        assert np.array_equal(none.coef_, infinite.coef_)


def test_after_a_change_the_loss_recovers_within_two_half_lives():
    """The bars: as low as before, and 30% below that of a model that does not forget."""
    half_life, length, piece = 250, 100, 125
    X, y = changing((length + 4) * half_life, length / (length + 4), noise=0.5)
    found = {}
    for given in (None, half_life):
        model, losses = SparseClassifier(half_life=given, alpha=0.003, random_state=0), []
        for at in range(0, len(y), piece):
            rows = slice(at, at + piece)
            if at >= 1000:
                losses.append(model.judge(as_matrix(X[rows]), y[rows])[0] / piece)
            model.partial_fit(X[rows], y[rows], classes=[False, True])
        found[given] = np.array(losses)
    two = 2 * half_life // piece
    then = {given: losses[-two:].mean() for given, losses in found.items()}
    assert then[half_life] < 1.05 * found[half_life][: -2 * two].mean()
    assert then[half_life] < 0.7 * then[None]


def test_time_is_in_the_unit_of_the_half_life():
    X, y = changing(2000)
    days = np.arange(2000) / 24.0
    by_row = SparseClassifier(half_life=240, alpha=0.01, random_state=0).fit(X, y)
    by_time = SparseClassifier(half_life=10, alpha=0.01, random_state=0).fit(X, y, time=days)
    np.testing.assert_allclose(by_time.coef_, by_row.coef_, atol=1e-8)
    stream = SparseClassifier(half_life=10, alpha=0.01, random_state=0)
    stream.partial_fit(X[:900], y[:900], [False, True], time=days[:900])
    stream.partial_fit(X[900:], y[900:], time=days[900:])
    assert np.array_equal(stream.coef_, by_time.coef_)
    late = days + np.where(np.arange(2000) < 1000, 0.0, 300.0)
    gap = SparseClassifier(half_life=10, alpha=0.01, random_state=0).fit(X, y, time=late).coef_[0]
    assert np.abs(gap[:2]).max() < 0.1 < 1.0 < gap[4]


def test_one_example_at_a_time():
    X, y = changing(3000)
    models = [SparseClassifier(half_life=200, alpha=0.01) for _ in range(2)]
    for x, label, now in zip(X, y, np.arange(3000.0), strict=True):
        record = {f"x{j}": float(value) for j, value in enumerate(x)}
        models[0].learn_one(record, bool(label))
        models[1].learn_one(record, bool(label), time=now)
    assert np.array_equal(models[0].coef_, models[1].coef_)
    assert set(models[0].get_feature_names_out()) >= {"x4", "x5"} and "x0" not in models[0].get_feature_names_out()
    with pytest.raises(ValueError, match="time goes back at row 3001: 5 after 2999"):
        models[1].learn_one({"x0": 1.0}, True, time=5.0)
    with pytest.raises(ValueError, match="row 3001 has no time"):
        models[1].learn_one({"x0": 1.0}, True)
    assert models[1].learn_one({"x0": 1.0}, True, time=3000.0).t_ == 3001


@pytest.mark.parametrize("validation", ["progressive", 0.2])
def test_paths_judge_by_recent_rows(validation):
    X, y = changing(6000)
    estimator = SparseClassifier(half_life=400, random_state=0)
    whole, cut = (SparsePath(estimator, n_alphas=6, choose="1-se", validation=validation) for _ in range(2))
    whole.fit(X, y)
    for a, b in ((0, 2500), (2500, 2600), (2600, 6000)):
        cut = pickle.loads(pickle.dumps(cut.partial_fit(X[a:b], y[a:b], classes=[False, True])))
    assert cut.alpha_ == whole.alpha_ and np.array_equal(cut.model_.coef_, whole.model_.coef_)
    np.testing.assert_allclose(cut.path_.losses, whole.path_.losses, rtol=1e-12)
    assert min(whole.model_.coef_[0, 4:6]) > 1.0 and np.abs(whole.model_.coef_[0, :2]).max() < 0.1
    forever = SparsePath(SparseClassifier(random_state=0), n_alphas=6, validation=validation).fit(X, y)
    assert whole.path_.losses.min() < 0.8 * forever.path_.losses.min()


def test_files_and_a_run_that_is_cut_off(tmp_path):
    X, y = changing(5000)
    whole = train(X, reader={"y": y}, settings={"half_life": 300, "random_state": 0}).estimator
    assert np.array_equal(np.flatnonzero(whole.coef_), [4, 5])
    save(whole, tmp_path / "a.model")
    assert load(tmp_path / "a.model").half_life == 300
    calls = iter(range(1000))
    how = {"reader": {"y": y}, "settings": {"half_life": 300, "random_state": 0}}
    kept = Checkpoints(tmp_path / "a.checkpoint", rows=1000)
    with pytest.raises(StoppedError):
        train(X, checkpoints=kept, stop=lambda: next(calls) > 6, **how)
    resumed = train(X, checkpoints=kept, resume=True, **how).estimator
    assert np.array_equal(resumed.coef_, whole.coef_)


def test_several_classes_of_which_one_comes_late():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 8))
    y = X[:, :2].argmax(1)
    y[2500:] = X[2500:, 3:6].argmax(1)
    model = SparseClassifier(half_life=300, alpha=0.01, random_state=0)
    for a in range(0, 4000, 500):
        model.partial_fit(X[a : a + 500], y[a : a + 500])
    assert model.classes_.tolist() == [0, 1, 2] and model.score(X[3500:], y[3500:]) > 0.85


def test_regressions_and_weights_of_rows():
    X, _ = changing(4000)
    y = np.where(np.arange(4000) < 2000, X[:, 0], 3.0 * X[:, 4]) + 0.1 * X[:, 7]
    for settings in ({}, {"alpha": 0.05}, {"alpha": 0.05, "l1_ratio": 0.9}, {"loss": "huber", "alpha": 0.05}):
        coef = SparseRegressor(half_life=200, random_state=0, **settings).fit(X, y).coef_
        assert coef[4] > 2.4 and abs(coef[0]) < 0.2
    weights = np.where(np.arange(4000) % 2, 1.0, 0.0)
    half = SparseRegressor(half_life=100, alpha=0.05, random_state=0).fit(X, y, weights)
    alone = SparseRegressor(half_life=100, alpha=0.05, random_state=0).fit(X[1::2], y[1::2])
    assert np.array_equal(half.coef_, alone.coef_)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"half_life": 0}, "half_life=0: it must be None or a number above 0"),
        ({"half_life": "long"}, "half_life='long': it must be"),
        ({"half_life": np.nan}, "half_life=nan: it must be"),
        ({"polish": True}, "polish solves for all rows alike"),
        ({"early_stopping": True, "alpha": 0.1}, "early_stopping ends passes"),
        ({"optimizer": "ssg"}, "half_life has no form for SSG with ElasticNet"),
        ({"optimizer": "adagrad-fobos"}, "half_life has no form for AdaGradFOBOS"),
        ({"penalty": "trace"}, "half_life has no form for BatchRDA with TraceNorm"),
        ({"conversion": "optimal-sl"}, "half_life has no form for OptimalSL"),
        ({"conversion": "ocmdi"}, "half_life has no form for"),
        ({"optimizer": "nftrl", "alpha": 0.1, "l1_ratio": 0.5}, "an L2 term meets half_life: choose optimizer='fobos'"),
    ],
    ids=str,
)
def test_what_has_no_form_is_refused_in_a_sentence(settings, message):
    X, y = changing(1200)
    model = SparseClassifier(**({"half_life": 100.0} | settings))
    for method in ("fit",) if "polish" in settings else ("fit", "partial_fit"):
        with pytest.raises(ValueError, match=message):
            getattr(clone(model), method)(X, y)


def test_intervals_folds_and_partitions_are_refused():
    X, y = changing(1200)
    model = SparseClassifier(half_life=100, alpha=0.01).fit(X, y)
    with pytest.raises(ValueError, match="intervals take all rows alike, and half_life lets old ones fade"):
        model.intervals(0.9)
    with pytest.raises(ValueError, match="folds take all rows alike, and half_life lets old ones fade"):
        SparseClassifierCV(SparseClassifier(half_life=100)).fit(X, y)
    with pytest.raises(ValueError, match="half_life=100 is not for data in partitions"):
        distributed.fit(SparseClassifier(half_life=100), (X, y))


def test_times_that_make_no_sense_are_refused():
    X, y = changing(1200)
    model, days = SparseClassifier(half_life=100, alpha=0.1), np.arange(1200.0)
    with pytest.raises(ValueError, match="time has no effect without half_life"):
        SparseClassifier().fit(X, y, time=days)
    with pytest.raises(ValueError, match="time must be 1200 numbers, one per row"):
        model.fit(X, y, time=days[:5])
    with pytest.raises(ValueError, match="turn dates into seconds"):
        model.fit(X, y, time=np.full(1200, np.datetime64("2020-01-01")))
    with pytest.raises(ValueError, match="time has NaN"):
        model.fit(X, y, time=np.where(days == 7, np.nan, days))
    with pytest.raises(ValueError, match=r"time goes back at row 801: 3 after 799"):
        model.fit(X, y, time=np.where(days == 800, 3.0, days))
    model.partial_fit(X, y, time=days)
    coef = model.coef_
    with pytest.raises(ValueError, match="row 1201 has no time, and earlier rows have"):
        model.partial_fit(X, y)
    with pytest.raises(ValueError, match="time goes back at row 1201: 0 after 1199"):
        model.partial_fit(X, y, time=days)
    assert np.array_equal(model.coef_, coef) and model.t_ == 1200
    with pytest.raises(ValueError, match="half_life changed since this stream began"):
        model.set_params(half_life=50).partial_fit(X, y, time=days + 1200.0)
    with pytest.raises(ValueError, match="which come once: set passes to 1"):
        train(X, reader={"y": y}, passes=2, settings={"half_life": 100})
    with pytest.raises(ValueError, match="which come once: set passes to 1"):
        SparsePath(SparseClassifier(half_life=100), passes=2).fit(X, y)


def test_a_column_of_times(tmp_path):
    """CSV, JSON lines, a frame and a cache give the same model; predictions need no times; dicts bring theirs."""
    pd = pytest.importorskip("pandas")
    X, y = changing(3000, d=6)
    days = np.floor(np.arange(3000) / 7.0)
    frame = pd.DataFrame(np.round(X, 6), columns=list("abcdef")).assign(day=days, y=np.where(y, "up", "down"))
    frame.to_csv(tmp_path / "a.csv", index=False)
    frame.to_json(tmp_path / "a.jsonl", orient="records", lines=True)
    how = {"target": "y", "time": "day", "settings": {"half_life": 30, "alpha": 0.01, "random_state": 0}}
    by_frame = train(frame, **how).estimator
    assert "day" not in by_frame.get_feature_names_out() and by_frame.t_ == 3000
    assert {line.name for line in by_frame.summary().lines[:2]} == {"e", "f"}
    for source in ("a.csv", "a.jsonl"):
        assert np.array_equal(train(str(tmp_path / source), **how).estimator.coef_, by_frame.coef_)
    direct = SparseClassifier(half_life=30, alpha=0.01, random_state=0)
    direct.partial_fit(np.round(X, 6), frame["y"], ["down", "up"], time=days)
    assert np.array_equal(direct.coef_, by_frame.coef_)
    arrays = train(np.round(X, 6), y=frame["y"].to_numpy(), time=days, settings=how["settings"]).estimator
    assert np.array_equal(arrays.coef_, direct.coef_)
    cache = tmp_path / "a.cache"
    convert(str(tmp_path / "a.csv"), cache, target="y", time="day")
    assert np.array_equal(train(str(cache), settings=how["settings"]).estimator.coef_, by_frame.coef_)
    save(by_frame, tmp_path / "a.model")
    loaded = load(tmp_path / "a.model")
    assert loaded.predict(frame.drop(columns=["day", "y"])).tolist() == by_frame.predict(frame).tolist()
    record = frame.iloc[0].to_dict()
    with pytest.raises(ValueError, match="time goes back at row 3001: 0 after 428"):
        by_frame.learn_one(record, "up")
    assert by_frame.learn_one(record | {"day": 500.0}, "up").t_ == 3001
    with pytest.raises(ValueError, match="row 3002 has no time"):
        by_frame.learn_one({key: value for key, value in record.items() if key != "day"}, "up")
    with pytest.raises(ValueError, match="time has no effect without half_life"):
        train(frame, target="y", time="day")
    with pytest.raises(ValueError, match="time names the column 'week', but there are"):
        train(frame, **how | {"time": "week"})
    with pytest.raises(ValueError, match="time goes back at row 1101"):
        train(pd.concat([frame[:1100], frame[:500]]), **how)
