"""The rows that are held out to choose alpha: numbers of folds, splitters, lists of splits, groups."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, StratifiedGroupKFold, TimeSeriesSplit

from sparsco import SparseClassifier, SparseRegressor, load, save
from sparsco.choice import candidates
from sparsco.choice.splits import FOLDS, JUDGED, MOST_JUDGED
from sparsco.conversions import choose
from sparsco.conversions.choose import Choose
from sparsco.engine import pilot_rows

pytestmark = pytest.mark.filterwarnings("ignore:alpha='auto'", "ignore:no feature was selected")


def rows(n=150, d=60, copies=1, seed=0):
    """Return rows of which each is there several times, labels that one column explains, and the group of each row."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    y = np.where(X[:, 0] + rng.logistic(size=n) > 0.0, "b", "a")
    groups = rng.permutation(np.repeat(np.arange(n), copies))
    return X[groups], y[groups], groups


@pytest.fixture
def splits(monkeypatch):
    """Return a list that receives the splits of every choice, with the numbers of their rows in the stream."""
    found = []

    def noted(task, given, *rest):
        found.append([tuple(task.numbers[part] for part in split) for split in given])
        return candidates.judge(task, given, *rest)

    monkeypatch.setattr(choose, "judge", noted)
    return found


@pytest.mark.parametrize(
    ("cv", "count"), [("auto", FOLDS), (None, FOLDS), (4, 4), (GroupKFold(4), 4), (StratifiedGroupKFold(3), 3)]
)
def test_a_group_is_learned_or_judged_never_both(cv, count, splits):
    X, y, groups = rows(copies=6)
    SparseClassifier(cv=cv, random_state=0).fit(X, y, groups=groups)
    assert len(splits[0]) == count
    for learned, judged in splits[0]:
        assert not set(groups[learned]) & set(groups[judged])
        assert not set(map(bytes, X[learned])) & set(map(bytes, X[judged]))
    every = np.concatenate([judged for _, judged in splits[0]])
    assert np.array_equal(np.sort(every), np.arange(len(y)))


@pytest.mark.parametrize("cv", ["auto", 5, GroupKFold(5)])
def test_copies_of_rows_mislead_a_choice_that_mixes_them(cv):
    """A model that has learned the noise of a row is right about its copies; groups prevent that."""
    X, y, groups = rows(copies=8)
    mixed = SparseClassifier(random_state=0).fit(X, y)
    kept = SparseClassifier(cv=cv, random_state=0).fit(X, y, groups=groups)
    alone = SparseClassifier(random_state=0).fit(*rows()[:2])
    assert mixed.n_selected_ > 50 and kept.n_selected_ < 10 and alone.n_selected_ < 10
    test = rows(4000, seed=0)[0], rows(4000, seed=0)[1]
    assert kept.score(*test) > mixed.score(*test)


def test_many_rows_have_one_split_between_groups(splits):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((9000, 100))
    y = X[:, 0] + rng.standard_normal(9000)
    groups = rng.integers(0, 700, 9000)
    SparseRegressor(random_state=0).fit(X, y, groups=groups)
    ((learned, judged),) = splits[0]
    assert not set(groups[learned]) & set(groups[judged])
    assert JUDGED <= len(judged) <= MOST_JUDGED and 3000 <= len(learned) < 3000 + np.bincount(groups).max()


def test_errors_of_losses_are_those_of_groups():
    """Copies of a row say nothing new: the standard error is that of the rows without their copies."""
    X, y, groups = rows(300, copies=4)
    cv = GroupKFold(5)
    mixed = SparseClassifier(cv=list(cv.split(X, y, groups)), random_state=0).fit(X, y)
    kept = SparseClassifier(cv=cv, random_state=0).fit(X, y, groups=groups)
    one, other = (model.report_["converted"][0]["choice"]["candidates"][0] for model in (mixed, kept))
    np.testing.assert_allclose(one["loss"], other["loss"])
    np.testing.assert_allclose(2.0 * one["error"], other["error"], rtol=1e-6)


def test_splits_are_those_of_the_splitter(splits):
    X, y, _ = rows()
    weights = np.ones(len(y))
    weights[[0, 7, 20]] = 0.0  # which are left out, so that the numbers of rows are others
    SparseClassifier(cv=TimeSeriesSplit(4), random_state=0).fit(X, y, sample_weight=weights)
    counted = np.flatnonzero(weights)
    found = sorted(
        ((counted[learned], counted[judged]) for learned, judged in splits[0]), key=lambda each: len(each[0])
    )
    for (learned, judged), (past, future) in zip(found, TimeSeriesSplit(4).split(X), strict=True):
        assert np.array_equal(learned, past[weights[past] > 0.0]) and np.array_equal(judged, future)
    assert len(splits[0][0][0]) == len(found[2][0])  # that of middle size fixes the grid


def test_ways_to_give_the_same_folds():
    X, y, _ = rows()
    fold = np.arange(len(y)) % 3
    pairs = [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(3)]
    masks = [(fold != k, fold == k) for k in range(3)]
    models = [
        SparseClassifier(cv=cv, random_state=0).fit(X, y) for cv in (fold, fold.tolist(), pairs, masks, iter(pairs))
    ]
    assert all(np.array_equal(model.coef_, models[0].coef_) for model in models)
    again = clone(models[0])
    assert np.array_equal(again.cv, fold) and np.array_equal(again.fit(X, y).coef_, models[0].coef_)
    with pytest.raises(ValueError, match="a generator can be read once only"):
        models[-1].fit(X, y)


def test_a_sample_of_the_rows_keeps_the_splits(splits, monkeypatch):
    X, y, groups = rows(400, copies=3)
    monkeypatch.setattr(Choose, "sample_nonzeros", X.size // 2)
    monkeypatch.setattr(pilot_rows, "WIDE_ROWS", 0)
    cv = GroupKFold(4)
    SparseClassifier(cv=cv, random_state=0).fit(X, y, groups=groups)
    whole = list(cv.split(X, y, groups))
    assert len(splits[0]) == 4
    for learned, judged in splits[0]:
        assert 0 < len(learned) + len(judged) <= len(y) // 2
        assert any(set(learned) <= set(a) and set(judged) <= set(b) for a, b in whole)


@pytest.mark.parametrize("cut", [7, 400])
def test_a_number_of_folds_gives_the_same_bits_for_any_cut_of_a_stream(cut):
    X, y, _ = rows(600)
    whole, stream = (SparseClassifier(cv=3, random_state=0) for _ in range(2))
    for first in range(0, 600, cut):
        stream.partial_fit(X[first : first + cut], y[first : first + cut])
    assert np.array_equal(whole.fit(X, y).coef_, stream.coef_)
    assert whole.report_["converted"][0]["choice"]["held_out_rows"] == 600


def test_a_fold_without_a_class_is_judged():
    X, y, _ = rows()
    order = np.argsort(y, kind="stable")
    model = SparseClassifier(cv=TimeSeriesSplit(5), random_state=0).fit(X[order], y[order])
    losses = [each["loss"] for each in model.report_["converted"][0]["choice"]["candidates"]]
    assert np.isfinite(losses).all()


def test_what_cannot_be_honoured_is_refused_in_one_sentence():
    X, y, groups = rows()
    fitted = SparseClassifier().fit(X, y, groups=groups)
    for refused, sentence in (
        (lambda: SparseClassifier(cv=KFold(3)).partial_fit(X, y), "cv is a KFold, whose splits need all rows at once"),
        (lambda: SparseClassifier(cv=KFold(3)).learn_one({"a": 1.0}, 1), "cv is a KFold"),
        (lambda: fitted.partial_fit(X, y), "it cannot go on"),
        (lambda: SparseClassifier(warm_start=True).fit(X, y).fit(X, y, groups=groups), "warm_start cannot continue"),
        (lambda: SparseClassifier(alpha=0.1, cv=3).fit(X, y), "cv has no effect"),
        (lambda: SparseClassifier(optimizer="fobos").fit(X, y, groups=groups), "groups has no effect"),
        (lambda: SparseClassifier(cv=3).fit(X, y, coef_init=np.zeros((1, 60))), "cv has no effect"),
        (lambda: SparseClassifier(cv=1).fit(X, y), "at least 2"),
        (lambda: SparseClassifier(cv="five").fit(X, y), "it is 'five'"),
        (lambda: SparseClassifier(cv=151).fit(X, y), "n_rows = 150"),
        (lambda: SparseClassifier().fit(X, y, groups=np.zeros(150)), "n_groups = 1"),
        (lambda: SparseClassifier().fit(X, y, groups=groups[:9]), "one label for each of the 150 rows"),
        (lambda: SparseClassifier(cv=[(groups[:9], groups[5:])]).fit(X, y), "a row twice"),
    ):
        with pytest.raises(ValueError, match=sentence) as caught:
            refused()
        assert str(caught.value).count(". ") == 0


def test_copies_and_files(tmp_path):
    X, y, groups = rows()
    model = SparseClassifier(cv=GroupKFold(3), random_state=0).fit(X, y, groups=groups)
    assert np.array_equal(pickle.loads(pickle.dumps(model)).coef_, model.coef_)
    assert load(save(model, tmp_path / "model")).cv == "auto"  # splits of rows are of no use without the rows
    assert load(save(SparseClassifier(cv=4).fit(X, y), tmp_path / "model")).cv == 4
    assert clone(model).cv.n_splits == 3 and "ByRow(3 splits, 150 groups)" in str(model.report_["conversion"])


def test_groups_are_metadata_of_scikit_learn():
    X, y, groups = rows(copies=3)
    with config_context(enable_metadata_routing=True):
        model = SparseClassifier(random_state=0).set_fit_request(groups=True)
        search = GridSearchCV(model, {"choose": ["min", "balanced"]}, cv=GroupKFold(2)).fit(X, y, groups=groups)
        assert search.best_estimator_.n_selected_ < 50  # 59 where copies of a row are learned and judged
