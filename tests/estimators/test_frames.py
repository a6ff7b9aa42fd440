"""Data frames with categories, booleans, dates, texts and holes: fit, partial_fit and every door of predict."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.feature_selection import SelectFromModel
from sklearn.model_selection import cross_val_score

from sparsco import SparseClassifier, SparseClassifierCV, SparsePath, SparseRegressor, load, save, train

N = 1600
TEXT = {"about": "text"}


def people(seed=0, n=N):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 80, n) * 1.0,
            "marital": rng.choice(["Married", "Single", None], n, p=[0.45, 0.45, 0.1]),
            "member": rng.random(n) < 0.5,
            "joined": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, n), unit="D"),
            "about": [" ".join(rng.choice(["good", "bad", "ok", "x", "y"], 3)) for _ in range(n)],
        }
    )
    frame.loc[rng.random(n) < 0.1, "age"] = np.nan
    z = frame.age.fillna(49) / 12 + 2.0 * (frame.marital == "Married") + 2.0 * frame.about.str.contains("good")
    return frame, np.where(z + rng.logistic(size=n) > 6, "high", "low")


FRAME, Y = people()


def new(**settings):
    return SparseClassifier(**({"alpha": 0.005, "schema": TEXT, "random_state": 0} | settings))


def test_every_door_gives_the_same_bits(tmp_path):
    model = new().fit(FRAME, Y)
    expected, short = model.decision_function(FRAME), FRAME.head(60)
    narwhals = pytest.importorskip("narwhals")
    doors = [pl.from_pandas(FRAME), pa.Table.from_pandas(FRAME), narwhals.from_native(FRAME)]
    for frame in [*doors, FRAME[FRAME.columns[::-1]]]:
        assert model.decision_function(frame).tobytes() == expected.tobytes()
    for frame in doors:
        assert new().fit(frame, Y).decision_function(FRAME).tobytes() == expected.tobytes()
    records = short.to_dict("records")
    for one in (model, pickle.loads(pickle.dumps(model)), load(save(model, tmp_path / "m"))):
        assert one.decision_function(records).tobytes() == expected[:60].tobytes()
        assert np.array([one._margins_one(each)[0] for each in records]).tobytes() == expected[:60].tobytes()
        assert [one.predict_one(each) for each in records] == one.predict(short).tolist()
    assert model.score(FRAME, Y) > 0.7
    assert {"age", "about:good", "marital=Married"} <= {line.name for line in model.summary().lines}
    assert set(model.get_feature_names_out()) <= set(model.feature_names_) and "age?" in model.feature_names_
    assert load(tmp_path / "m").schema == TEXT and clone(model).schema == TEXT


def stream(cuts, frame=FRAME, y=Y, **settings):
    model, at = new(**settings), 0
    for cut in [*cuts, len(frame)]:
        model.partial_fit(frame[at:cut], y[at:cut], classes=["high", "low"])
        at = cut
    return model


def test_the_first_rows_decide_and_later_cuts_mean_nothing():
    one, other = stream([1000]), stream([1000, 1001, 1500])
    assert one.coef_.tobytes() == other.coef_.tobytes() and one.feature_names_.tolist() == other.feature_names_.tolist()
    late = FRAME.head(40).assign(marital="Widowed")
    one.partial_fit(late, Y[:40])
    for record, label in zip(late.to_dict("records"), Y.tolist(), strict=False):
        other.learn_one(record, label)
    assert one.coef_.tobytes() == other.coef_.tobytes() and "marital=Widowed" in one.feature_names_
    again = pickle.loads(pickle.dumps(other))
    assert again.partial_fit(late, Y[:40]).coef_.tobytes() == one.partial_fit(late, Y[:40]).coef_.tobytes()


def test_one_pass_of_fit_is_the_stream():
    whole = new(max_iter=1, shuffle=False, tol=None).fit(FRAME, Y)
    assert whole.coef_.tobytes() == stream([1000]).coef_.tobytes()


def test_a_trained_table_goes_on_with_frames():
    model = train(FRAME.assign(y=Y), target="y", text="about", settings={"alpha": 0.005, "random_state": 0}).estimator
    assert model.partial_fit(FRAME.head(30), Y[:30]).t_ == N + 30
    same = train(FRAME.assign(y=Y), target="y", settings={"alpha": 0.005, "random_state": 0, "schema": TEXT}).estimator
    assert same.partial_fit(FRAME.head(30), Y[:30]).coef_.tobytes() == model.coef_.tobytes()


def test_numbers_alone_are_scikit_learns():
    plain = FRAME[["age", "member"]].fillna(1.0)
    model = new(schema=None).fit(plain, Y)
    array = new(schema=None).fit(plain.to_numpy(float), Y)
    assert model.feature_names_in_.tolist() == ["age", "member"] and model.n_features_in_ == 2
    assert model.coef_.tobytes() == array.coef_.tobytes()
    with pytest.raises(ValueError, match="feature names should match those that were passed during fit"):
        model.predict(plain[["member", "age"]])
    for kinds in ({"age": "Float64", "member": "boolean"}, {"age": object, "member": object}):
        assert new(schema=None).fit(plain.astype(kinds), Y).coef_.tobytes() == model.coef_.tobytes()
    holes = new(schema=None).fit(FRAME[["age", "member"]], Y)
    assert "age?" in holes.feature_names_ and "feature_names_in_" not in vars(holes)
    assert new(schema=None).fit(pl.from_pandas(FRAME[["age", "member"]]), Y).coef_.tobytes() == holes.coef_.tobytes()
    assert holes.fit(plain, Y).feature_names_in_.tolist() == ["age", "member"]  # a fit begins anew
    assert holes.fit_state.described is None and holes.coef_.tobytes() == model.coef_.tobytes()


def test_searches_paths_and_regressions_take_frames():
    assert cross_val_score(new(), FRAME, Y, cv=3).min() > 0.65
    path = SparsePath(new(alpha="auto"), n_alphas=4).fit(FRAME, Y)
    assert path.score(FRAME, Y) > 0.7 and "about:good" in path.model_.get_feature_names_out()
    searched = SparseClassifierCV(new(alpha="auto"), n_alphas=4, cv=3).fit(FRAME, Y)
    assert searched.score(FRAME, Y) > 0.7 and searched.predict_proba(FRAME).shape == (N, 2)
    number = FRAME.age.fillna(0.0) + 10.0 * (FRAME.marital == "Married")
    model = SparseRegressor(alpha=0.01, random_state=0).fit(FRAME.drop(columns="about"), number)
    assert model.score(FRAME, number) > 0.5
    two = np.stack([number, -number], 1)
    assert model.fit(FRAME.drop(columns="about"), two).predict(FRAME).shape == (N, 2)
    grouped = new(penalty="group", feature_groups="columns", alpha=0.05).fit(FRAME, Y)
    assert set(grouped.get_feature_names_out()) >= {"marital=Married", "marital=Single"}


@pytest.mark.parametrize(
    ("settings", "X", "y", "sentence"),
    [
        ({"schema": {"nothing": "text"}}, FRAME, Y, "schema names the column 'nothing', but there are age, marital"),
        ({"schema": {"age": "what"}}, FRAME, Y, "schema has 'what' for 'age': choose numbers, category"),
        ({}, np.eye(3), [0, 1, 0], "schema names columns of a data frame, and X is a ndarray"),
        ({}, FRAME, Y[:5], "inconsistent numbers of samples"),
        ({}, FRAME.head(0), Y[:0], "X has no rows"),
        ({}, FRAME.assign(age=np.inf), Y, "column 'age' has inf"),
    ],
)
def test_bad_frames_get_a_sentence_and_change_nothing(settings, X, y, sentence):
    model = new(**settings)
    with pytest.raises(ValueError, match=sentence):
        model.fit(X, y)
    assert not model.__sklearn_is_fitted__()
    begun = stream([1000])
    before = begun.coef_.tobytes()
    with pytest.raises(ValueError, match="column 'age' has inf"):
        begun.partial_fit(FRAME.assign(age=np.inf), Y)
    with pytest.raises(ValueError, match="has no column 'marital'"):
        begun.partial_fit(FRAME.drop(columns="marital"), Y)
    assert begun.coef_.tobytes() == before


@pytest.mark.parametrize("kind", [list, tuple, np.array, pd.Series, pl.Series])
def test_texts_without_a_transformer_get_a_sentence(kind):
    for learn in (SparseClassifier().fit, SparseClassifier().partial_fit):
        with pytest.raises(ValueError, match=r"X has texts, not rows: learn make_pipeline\(SparseText"):
            learn(kind(["win a prize", "see you"] * 10), ["spam", "ham"] * 10)
    with pytest.raises(ValueError, match="Expected a 2-dimensional container"):
        SparseClassifier().fit(pd.Series([1.0, 2.0] * 10), ["spam", "ham"] * 10)


def test_selectors_name_the_features_of_a_frame_and_say_that_they_take_no_frame():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"size": rng.normal(size=200), "city": rng.choice(["x", "y", "z"], 200)})
    labels = (frame["size"] > 0).astype(int)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*feature names")
        model = SparseClassifier(alpha=0.05).fit(frame, labels)
        assert sorted(model.feature_names_in_) == ["city=x", "city=y", "city=z", "size"]
        with pytest.raises(ValueError, match="transform takes rows of numbers, and this model makes features of a"):
            model.transform(frame)
        selector = SelectFromModel(SparseClassifier(alpha=0.05)).fit(frame, labels)
        assert selector.get_feature_names_out().tolist() == ["size"]
        chosen = SparseClassifierCV(alphas=[0.2, 0.1, 0.05], choose="1-se").fit(frame, labels)
        assert "size" in chosen.get_feature_names_out() and len(chosen.feature_names_in_) == 4
        with pytest.raises(ValueError, match="feature names should match"):
            chosen.transform(frame)
    with pytest.raises(AttributeError):
        SparseClassifier(alpha=0.05).fit(frame[["size"]].to_numpy(), labels).feature_names_in_  # noqa: B018
    again = model.fit(frame[["size"]], labels)
    assert again.feature_names_in_.tolist() == ["size"] and again.transform(frame[["size"]]).shape == (200, 1)
    assert not hasattr(model.fit(frame[["size"]].to_numpy(), labels), "feature_names_in_")
