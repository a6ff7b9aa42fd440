"""Looking at an estimator computes nothing: the HTML view of a notebook, repr, dir."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler

import sparsco.estimators.fit_state
from sparsco import (
    SparseClassifier,
    SparseClassifierCV,
    SparsePath,
    SparseRegressor,
    SparseText,
    StableSparseClassifier,
    load,
    save,
)
from sparsco.estimators.views import strongest
from sparsco.selection.stable.linear import StableLinearModel

RNG = np.random.default_rng(0)
X = RNG.standard_normal((200, 5))
Y = np.where(X[:, 0] > 0.0, 1, -1)


def looked_at(model):
    """The HTML view, after all other ways to look."""
    repr(model)
    dir(model)
    model._repr_mimebundle_()
    return model._repr_html_()


@pytest.fixture
def conversions(monkeypatch):
    """A list that grows by one with each conversion."""
    calls = []
    for owner, name in ((sparsco.estimators.fit_state, "convert_runs"), (StableLinearModel, "_solve")):
        real = getattr(owner, name)
        counted = lambda *args, real=real: (calls.append(1), real(*args))[1]  # noqa: E731
        monkeypatch.setattr(owner, name, counted)
    return calls


@pytest.mark.parametrize("make", [SparseClassifier, SparseRegressor, StableSparseClassifier])
def test_a_stream_that_is_looked_at_is_not_converted(make, conversions):
    options = {} if make is SparseRegressor else {"classes": [-1, 1]}
    model = make(random_state=0).partial_fit(X, Y, **options)
    html = looked_at(model)
    assert make.__name__ in html and "convert()" in html and "coef_" not in html
    assert not conversions
    assert model.coef_.shape[-1] == 5 and len(conversions) == 1
    assert model.get_feature_names_out()[0] == "x0"


def test_noted_examples_stay_noted_when_a_model_is_looked_at(conversions):
    model = SparseClassifier().learn_one({"a": 1.0}, "x").learn_one({"b": 1.0}, "y")
    looked_at(model)
    assert not conversions and len(model.fit_state.noted) == 2


def test_no_dense_weights_and_no_names_of_all_columns_are_made_for_a_view(monkeypatch):
    model = SparseClassifier(alpha=0.05, random_state=0).fit(X, Y)
    read = []
    for name in ("coef_", "feature_names_", "history_", "report_"):
        monkeypatch.setattr(SparseClassifier, name, property(lambda self, name=name: read.append(name)))
    assert "x0" in looked_at(model)  # the names of the features that were selected
    assert not read
    assert "x0" in looked_at(make_pipeline(MaxAbsScaler(), model)) and not read


def test_a_cross_validated_model_can_be_looked_at(monkeypatch):
    model = SparseClassifierCV(SparseClassifier(random_state=0), n_alphas=4, cv=2, random_state=0).fit(X, Y)
    read = []
    monkeypatch.setattr(SparseClassifier, "coef_", property(lambda self: read.append("coef_")))
    assert f"alpha={model.alpha_:.4g}, chosen of {len(model.path_)} strengths by 2 folds" in looked_at(model)
    assert not read


def test_dir_names_properties_and_what_is_available():
    names = dir(SparseClassifier(loss="hinge"))
    assert "coef_" in names and "predict_proba" not in names
    assert "predict_proba" in dir(SparseClassifier())


HOSTILE = "<script>alert('x')</script>"


def test_a_view_shows_the_strongest_weights_and_the_changed_parameters():
    frame = pd.DataFrame(X, columns=[HOSTILE, "b", "c", "d", "e"])
    model = SparseClassifier(alpha=0.02, random_state=0).fit(frame, Y)
    html = looked_at(model)
    assert "<strong>SparseClassifier</strong><code>(alpha=0.02, random_state=0)</code>" in html
    assert "<script" not in html and "&lt;script&gt;" in html
    strongest = model.coef_.ravel()[np.argmax(np.abs(model.coef_))]
    assert f"<td>{strongest:+.4g}</td>" in html and "to the right for 1" in html
    assert html.count("class='bar") == min(model.n_nonzero_, 10)


def test_weights_are_ordered_by_the_spread_of_their_columns():
    coef, columns = sp.csr_array([[1.0, 0.0, -2.0, 3.0]]), sp.csr_array([[9.0, 0.0, 5.0, 0.1], [1.0, 0.0, 1.0, 1.0]])
    names = lambda slots: [f"f{slot}" for slot in slots]  # noqa: E731
    assert strongest(coef, columns, [""], names) == (
        [("f2", -10.0), ("f0", 9.0), ("f3", pytest.approx(0.3))],
        "weight x spread",
    )
    assert strongest(coef, None, [""], names) == ([("f3", 3.0), ("f2", -2.0), ("f0", 1.0)], "weight")
    assert strongest(sp.csr_array((1, 4)), None, ["yes"], names)[0] == []


@pytest.mark.parametrize("loss", ["logistic", "multinomial"])
def test_every_estimator_can_be_looked_at_in_every_state(loss, tmp_path):
    y = np.digitize(X[:, 0], [-0.5, 0.5])
    base = SparseClassifier(alpha=0.02, loss=loss, random_state=0)
    fitted = base.fit(X, y)
    save(fitted, tmp_path / "a.model")
    path = SparsePath(SparseClassifier(random_state=0), n_alphas=3)
    assert "not fitted yet" in looked_at(path) and "not fitted yet" in looked_at(SparseClassifierCV())
    path.fit(X, y).convert()
    assert "3 strengths" in looked_at(path)
    for model in (fitted, load(tmp_path / "a.model"), StableSparseClassifier(n_features=2).fit(X, y)):
        assert "class='bar" in looked_at(model) and " for " in looked_at(model)
    assert "to the right for prediction" in looked_at(SparseRegressor(alpha=0.02).fit(X, X[:, 0]))
    assert "not fitted yet" in looked_at(StableSparseClassifier())


def test_texts_are_counted_in_a_view():
    assert "not fitted yet" in looked_at(SparseText())
    assert "2 texts learned" in looked_at(SparseText().fit(["a word", "<b>"]))
    assert "SparseText" in looked_at(make_pipeline(SparseText(), SparseClassifier()))
