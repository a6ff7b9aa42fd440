"""Model files: what is loaded predicts what was saved, in every shape a model can have."""

from __future__ import annotations

import copy
import functools
import os
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sparsco import (
    SparseClassifier,
    SparseClassifierCV,
    SparsePath,
    SparseRegressor,
    StableSparseClassifier,
    load,
    plots,
    save,
)
from sparsco.losses import Huber
from sparsco.penalties import NonNegative
from sparsco.training import archive, inspection, model_files


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
    assert set(model_files.read(tmp_path / "m")["names"].values()) == set(model.get_feature_names_out())
    for each in ({"height": 2.0}, {"height": -1.0, "age": 3.0}, {"unheard of": 1.0}, {}):
        assert back.predict_one(each) == model.finalize().predict_one(each)
        on.learn_one(each, "tall")
    assert on.t_ == 1504


def test_names_that_are_given_and_extras_are_kept(tmp_path):
    model = SparseRegressor(alpha=0.05, random_state=0).fit(X, X[:, 2] + X[:, 3])
    save(model, tmp_path / "m", names={2: "two", 3: "three", 5: "five"}, extra={"note": [1, "x"]})
    content = model_files.read(tmp_path / "m")
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
    content = model_files.read(tmp_path / "m")
    content["training"]["environment"] |= {"numba": "0.1", "CPU": "abacus"}
    archive.write(tmp_path / "m", "model", content)
    with pytest.warns(UserWarning, match="numba 0.1, not") as told:
        load(tmp_path / "m", training=True)
    assert any("a CPU of another kind" in str(warning.message) for warning in told)


# ---- what is not saved -----------------------------------------------------------------------------------------------


class Extended(SparseClassifier):
    """A subclass with a parameter of its own."""

    def __init__(self, alpha=0.02, colour="red"):
        super().__init__(alpha=alpha)
        self.colour = colour


class Renamed(SparseClassifier):
    """A subclass with the same parameters."""


def test_what_load_would_refuse_is_refused_by_save(tmp_path):
    with pytest.raises(ValueError, match=r"Extended cannot be saved, because it has additional parameters \(colour\)"):
        save(Extended().fit(X, SIGNS), tmp_path / "m")
    fitted = SparseClassifier(alpha=0.02).fit(X, SIGNS)
    with pytest.raises(ValueError, match="column . has a weight and no name"):
        save(fitted, tmp_path / "m", names={}, by_name=True)
    with pytest.raises(ValueError, match="cannot be saved: its feature names are missing or repeated"):
        save(fitted, tmp_path / "m", names=dict.fromkeys(range(8), "same"), by_name=True)
    with pytest.raises(ValueError, match="cannot be saved: alpha=-1: it must be"):
        save(copy.copy(fitted).set_params(alpha=-1), tmp_path / "m")
    assert not os.listdir(tmp_path)
    model = Renamed(alpha=0.02).fit(X, SIGNS)
    assert np.array_equal(load(save(model, tmp_path / "m")).predict(X), model.predict(X))


@pytest.mark.parametrize(
    ("make", "advice"),
    [
        (lambda: None, "None cannot be saved. Give a fitted"),
        (lambda: SparseClassifier(), "not fitted yet: call fit"),
        (lambda: SparsePath(SparseClassifier()), "Save its model_"),
        (lambda: SparseClassifierCV(), "Fit it, and save its best_estimator_"),
        (lambda: GridSearchCV(SparseClassifier(), {"alpha": [0.1]}), "Fit it, and save its best_estimator_"),
        (lambda: make_pipeline(StandardScaler(), SparseClassifier()), r"Save its last step, pipeline\[-1\]"),
        (lambda: StableSparseClassifier(), "StableSparseClassifier cannot be saved. Pickle it"),
        (lambda: "model", "str cannot be saved"),
    ],
)
def test_what_cannot_be_saved_is_told_what_can(make, advice, tmp_path):
    with pytest.raises(ValueError, match=advice):
        save(make(), tmp_path / "m")
    assert not os.listdir(tmp_path)


def test_the_advice_can_be_followed(tmp_path):
    pipeline = make_pipeline(StandardScaler(), SparseClassifier(alpha=0.02)).fit(X, SIGNS)
    search = GridSearchCV(pipeline, {"sparseclassifier__alpha": [0.02, 0.01]}, cv=2).fit(X, SIGNS)
    for refused in (search, search.best_estimator_):
        with pytest.raises(ValueError, match="best_estimator_|last step"):
            save(refused, tmp_path / "m")
    back = load(save(search.best_estimator_[-1], tmp_path / "m"))
    scaled = search.best_estimator_[:-1].transform(X)
    assert np.array_equal(back.predict(scaled), search.predict(X))
    chosen = SparseClassifierCV(cv=2, random_state=0).fit(X, SIGNS)
    with pytest.raises(ValueError, match="Save its best_estimator_"):
        save(chosen, tmp_path / "m")
    back = load(save(chosen.best_estimator_, tmp_path / "m"))
    assert np.array_equal(back.predict(X), chosen.predict(X))


# ---- models of all sizes ---------------------------------------------------------------------------------------------


@functools.cache
def chosen_models():
    """Return models whose strength was chosen, of every shape, each with its rows."""
    words = SparseClassifier(random_state=0)
    for row, y in zip(X, SIGNS, strict=True):
        words.learn_one({f"w{k}": value for k, value in enumerate(row)}, y)
    table = pd.DataFrame(X, columns=list("abcdefgh"))
    return {
        "three classes": (SparseClassifier(random_state=0).fit(X, THREE), X),
        "softmax": (SparseClassifier("multinomial", random_state=0).fit(X, THREE), X),
        "outputs": (SparseRegressor(random_state=0).fit(table, X[:, :2] + X[:, 2:4]), table),
        "seen": (SparseClassifier(storage="seen", random_state=0).fit(sp.csr_array(X), SIGNS), X),
        "budget": (SparseClassifier(budget=3, random_state=0).fit(X, SIGNS), X),
        "words": (words, None),
    }


@pytest.mark.parametrize("name", ["three classes", "softmax", "outputs", "seen", "budget", "words"])
def test_a_file_keeps_the_models_of_all_sizes(name, tmp_path):
    model, given = chosen_models()[name]
    back = load(save(model, tmp_path / "m"))
    assert len(model.size_path_) > 2 and np.array_equal(back.size_path_, model.size_path_)
    for k in (1, 2, 5):
        small, again = model.at_size(k), back.at_size(k)
        assert small.n_selected_ == again.n_selected_ <= k
        assert str(small.summary()) == str(again.summary())
        model_files.write(tmp_path / "small", model_files.at_size(model_files.read(tmp_path / "m"), k))
        for loaded in (again, load(tmp_path / "small")):
            if given is None:
                assert [loaded.predict_one({"w0": x, "w1": -x}) for x in (-2.0, 3.0)] == ["no", "yes"]
            else:
                assert np.array_equal(loaded.predict(given), small.predict(given))
    assert (tmp_path / "small").stat().st_size < (tmp_path / "m").stat().st_size


def test_a_file_without_sizes_has_no_smaller_models(tmp_path):
    """So it is for a strength that was given, and for files of before."""
    model = SparseClassifier(alpha=1e-3, random_state=0).fit(X, SIGNS)
    content = model_files.read(save(model, tmp_path / "m"))
    assert content.pop("sizes") is None
    for each in (content, content | {"sizes": None}):
        assert inspection.description(each)["sizes"] == [] and len(model_files.restored(each).size_path_) == 0
        with pytest.raises(ValueError, match="at_size needs a fit with an automatic choice"):
            model_files.at_size(each, 2)


def test_the_chosen_model_is_marked_in_the_table_and_in_the_picture(tmp_path):
    wide = np.random.default_rng(0).standard_normal((900, 40))
    y = wide[:, :6].sum(1) + np.random.default_rng(1).standard_normal(900)
    for budget in (None, 4, 1):  # with 1 there is no other model
        model = SparseRegressor(budget=budget, random_state=0).fit(wide, y)
        content = model_files.read(save(model, tmp_path / "m"))
        sizes = inspection.description(content)["sizes"]
        (chosen,) = [each for each in sizes if each["chosen"]]
        assert chosen["size"] == (budget or model.n_selected_)
        (line,) = [line for line in inspection.described(content, 3).splitlines() if line.endswith("chosen")]
        assert line.split()[0] == str(chosen["size"]) and float(line.split()[1]) == float(f"{chosen['loss']:.4g}")
        pytest.importorskip("matplotlib")
        page = inspection.write_page(tmp_path / "m.html", content, 5).read_text()
        assert "Fewer features and their price" in page and "Models by their number of features" in page
        from matplotlib.figure import Figure

        axes = plots.loss_vs_size(load(tmp_path / "m"), axes=Figure().subplots())
        (marked,) = [line for line in axes.lines if line.get_marker() == "*"]
        assert [marked.get_xdata()[0], marked.get_ydata()[0]] == [chosen["size"], chosen["loss"]]
    with pytest.raises(ValueError, match="automatic choice"):
        plots.loss_vs_size(SparseRegressor(alpha=0.1).fit(wide, y))


# ---- crafted contents ------------------------------------------------------------------------------------------------


@functools.cache
def bases():
    """Contents of every shape: classes, outputs, columns by name, columns that were seen, names."""
    table = pd.DataFrame(X, columns=list("abcdefgh"))
    words = SparseRegressor(alpha=0.01, random_state=0)
    for row, y in zip(X, X[:, 2], strict=True):
        words.learn_one({f"w{k}": value for k, value in enumerate(row)}, y)
    fitted = {
        "three": SparseClassifier(alpha=0.02, random_state=0).fit(X, THREE),
        "two": SparseClassifier(alpha=0.02, random_state=0, storage="seen").fit(sp.csr_array(X), SIGNS),
        "table": SparseRegressor(alpha=0.02, random_state=0).fit(table, X[:, :2]),
        "words": words,
        "sizes": SparseClassifier(random_state=0).fit(X, THREE),
    }
    return {name: model_files.contents(model) | {"extra": {"reader": {}}} for name, model in fitted.items()}


def places(tree, at=()):
    """The paths of all values in a tree of dicts."""
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield from places(value, (*at, key))
    if at:
        yield at


def changed(value):
    """Other values in its place."""
    yield from (None, True, -1, 0, 1, 5, 2**62, 10**30, 1.5, float("nan"), "x", [], ["a", "b"], {}, {0: "x"}, {"x": 0})
    yield from (np.zeros(0), np.zeros((2, 2)), np.arange(3), Huber(0.5))
    if isinstance(value, np.ndarray):
        yield from (value[:-1], np.append(value, value[-1:]), value[::-1], value[None])
        yield np.repeat(value[:1], len(value))
        if value.dtype.kind in "if":
            yield from (value + 1, -value, value * 10**6, value.astype(np.float32), value + 0.5, value.astype(np.int64))
            yield np.full(len(value), 2**63 - 1)
        if value.dtype.kind == "f":
            yield from (value * np.nan, value * np.inf)
    if isinstance(value, dict):
        yield from ({key: item for key, item in list(value.items())[1:]}, dict.fromkeys(value, "same"))
        yield {**value, 10**30: "far"}


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
@pytest.mark.parametrize("name", ["three", "two", "table", "words", "sizes"])
def test_any_field_changed_is_refused_or_gives_a_model_that_predicts(name, monkeypatch):
    content, refused, read = bases()[name], 0, 0
    for at in places(content):
        *above, last = at
        for value in [*changed(_value(content, at)), ...]:
            forged = copy.deepcopy(content)
            if value is ...:
                del _value(forged, above)[last]
            else:
                _value(forged, above)[last] = value
            monkeypatch.setattr(archive, "read", lambda *_, forged=forged: forged)
            try:
                model = load("m")
            except archive.ArchiveError as error:
                assert str(error).startswith("m is not a model that sparsco wrote: ") and str(error).endswith(".")
                refused += 1
                continue
            read += 1
            rows = sp.csr_array(([1.5], [0], [0, 1, 1]), shape=(2, max(model.n_features_in_, 1)))
            predicted = model.predict(rows)
            for size in model.size_path_["size"][:1].tolist():
                assert model.at_size(size).n_selected_ <= size
            assert len(predicted) == 2 and (not model.classifies or np.isin(predicted, model.classes_).all())
            inspection.described(model_files.read("m"), 5)
    assert refused > 400 and read > 20


def _value(tree, at):
    for key in at:
        tree = tree[key]
    return tree
