"""Model files: what is loaded predicts what was saved, in every shape a model can have."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from sparsco import Huber, NonNegative, SparseClassifier, SparseRegressor, archive, load, models, save


def rows(n=600, d=8, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.6)


X = rows()
SIGNS = np.where(X[:, 0] - X[:, 1] > 0.0, "yes", "no")
THREE = X[:, :3].argmax(1)
CASES = {
    "two classes": (SparseClassifier(alpha=0.02), X, SIGNS),
    "three classes": (SparseClassifier(alpha=0.02), X, THREE),
    "multinomial": (SparseClassifier("multinomial", alpha=0.02), X, THREE),
    "hinge": (SparseClassifier("hinge", alpha=0.02), X, SIGNS == "yes"),
    "regression": (SparseRegressor(alpha=0.02), X, X[:, 2]),
    "records": (SparseRegressor(Huber(0.5), penalty=NonNegative(0.01)), X, X[:, 2]),
    "outputs": (SparseRegressor(alpha=0.02), X, X[:, :2]),
    "poisson": (SparseRegressor("poisson", alpha=0.02), X, np.round(np.exp(X[:, 1]))),
    "sparse rows": (SparseRegressor(alpha=0.02), sp.csr_array(X), X[:, 2]),
    "seen": (SparseClassifier(alpha=0.02, storage="seen"), sp.csr_array(X), SIGNS),
    "nothing selected": (SparseRegressor(alpha=100.0), X, X[:, 2]),
    "table": (SparseRegressor(alpha=0.02), pd.DataFrame(X, columns=list("abcdefgh")), X[:, 2]),
}


@pytest.mark.parametrize("name", CASES)
def test_a_loaded_model_predicts_the_same_bits(name, tmp_path):
    model, given, y = CASES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(given, y)
        save(model, tmp_path / "m")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        back = load(tmp_path / "m")
        assert np.array_equal(back.predict(given), model.predict(given))
        if hasattr(model, "predict_proba"):
            assert np.array_equal(back.predict_proba(given), model.predict_proba(given))
    assert np.array_equal(back.sparsify().coef_.toarray(), model.sparsify().coef_.toarray())
    assert back.n_nonzero_ == model.n_nonzero_ and back.history_ == model.history_ and back.t_ == model.t_
    assert back.get_params() == model.get_params() and np.array_equal(back.get_support(), model.get_support())
    with pytest.raises(ValueError, match="training state was not saved"):
        back.partial_fit(given, y)
    save(back, tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "m").read_bytes()


def test_a_stream_of_names(tmp_path):
    model = SparseClassifier(random_state=0)
    rng = np.random.default_rng(0)
    for _ in range(1500):
        x = {name: float(rng.normal()) for name in ("height", "weight", "age", "noise") if rng.random() < 0.8}
        model.learn_one(x, "tall" if x.get("height", 0.0) > 0.0 else "short")
    save(model, tmp_path / "m")
    save(model, tmp_path / "state", training=True)
    back, on = load(tmp_path / "m"), load(tmp_path / "state", training=True)
    assert set(models.read(tmp_path / "m")["names"].values()) == set(model.get_feature_names_out())
    for each in ({"height": 2.0}, {"height": -1.0, "age": 3.0}, {"unheard of": 1.0}, {}):
        assert back.predict_one(each) == model.finalize().predict_one(each)
        on.learn_one(each, "tall")
    assert on.t_ == 1504


def test_names_that_are_given_and_extras_are_kept(tmp_path):
    model = SparseRegressor(alpha=0.05, random_state=0).fit(X, X[:, 2] + X[:, 3])
    save(model, tmp_path / "m", names={2: "two", 3: "three", 5: "five"}, extra={"note": [1, "x"]})
    content = models.read(tmp_path / "m")
    assert content["names"] == {2: "two", 3: "three"} and content["extra"] == {"note": [1, "x"]}


def test_a_training_state_goes_on(tmp_path):
    model, twin = (SparseClassifier(alpha=0.01, random_state=0).partial_fit(X, SIGNS, ["no", "yes"]) for _ in range(2))
    save(model, tmp_path / "m", training=True)
    on = load(tmp_path / "m", training=True)
    more = rows(2000, seed=1)
    labels = np.where(more[:, 0] > 0.0, "yes", "no")
    assert np.array_equal(on.partial_fit(more, labels).coef_, twin.partial_fit(more, labels).coef_)
    with pytest.raises(ValueError, match="holds no training state"):
        load(save(model, tmp_path / "small"), training=True)
    with pytest.raises(ValueError, match="has no training state"):
        save(load(tmp_path / "small"), tmp_path / "x", training=True)


def test_another_environment_is_told(tmp_path):
    model = SparseClassifier(alpha=0.01, random_state=0).partial_fit(X, SIGNS)
    save(model, tmp_path / "m", training=True)
    content = models.read(tmp_path / "m")
    content["training"]["environment"] |= {"numba": "0.1", "CPU": "abacus"}
    archive.write(tmp_path / "m", "model", content)
    with pytest.warns(UserWarning, match="numba 0.1, not") as told:
        load(tmp_path / "m", training=True)
    assert any("a CPU of another kind" in str(warning.message) for warning in told)
