"""Crosses in training: every source, every way to predict, births at boundaries, interruptions, files."""

from __future__ import annotations

import copy
import json
import pickle

import numpy as np
import pytest
import scipy.sparse as sp

from sparsco import SparseCrosses, SparseRegressor, follow, load, open_stream, save, train
from sparsco.cli import main
from sparsco.conversions.choose import Choose
from sparsco.training.checkpoints import Checkpoints
from sparsco.training.results import StoppedError

SETTINGS = {"random_state": 0}


@pytest.fixture(scope="module")
def frame():
    """A table whose target is an interaction of categories, and one of a category and a number."""
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    n = 1500
    table = pd.DataFrame(
        {"a": rng.choice(list("uvw"), n), "b": rng.choice(list("xyz"), n), "x": np.round(rng.normal(size=n), 3)}
    )
    table.loc[::50, "x"] = np.nan
    hit = (table.a == "u") & (table.b == "y")
    table["y"] = 3.0 * hit + table.x.fillna(0.0) * (table.a == "v") + np.round(0.1 * rng.normal(size=n), 3)
    return table


CROSS = ["a:b", "x:a"]


def selected(model):
    """Return the names of the features with a weight."""
    return set(model.names_of_slots(np.unique(model.convert().coef.indices)))


@pytest.fixture(scope="module")
def trained(frame):
    return train(frame, target="y", cross=CROSS, settings=SETTINGS)


def test_interactions_of_a_table_are_found_and_named(trained):
    assert {"a=u*b=y", "x*a=v"} <= selected(trained.model)
    assert any(note.startswith("crosses (a:b, x:a): ") for note in trained.notes)
    assert set(trained.estimator.get_feature_names_out()) == selected(trained.model)
    assert "a=u*b=y" in str(trained.estimator.summary())


def test_every_way_to_predict_gives_the_same_bits(tmp_path, frame, trained):
    arrow = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    model, p = trained.estimator, trained.estimator.predict(frame)
    save(model, tmp_path / "a.model")
    loaded, records = load(tmp_path / "a.model"), frame.head(40).to_dict("records")
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_json(tmp_path / "t.jsonl", orient="records", lines=True)
    pyarrow.parquet.write_table(arrow.Table.from_pandas(frame), tmp_path / "t.parquet")
    for other in (loaded, pickle.loads(pickle.dumps(model)), copy.deepcopy(model).finalize()):
        np.testing.assert_array_equal(other.predict(frame), p)
        np.testing.assert_array_equal(other.predict(frame.drop(columns="y")), p)
        np.testing.assert_array_equal([other.predict_one(record) for record in records], p[:40])
    for name in ("t.csv", "t.jsonl", "t.parquet"):
        assert main(["predict", str(tmp_path / "a.model"), str(tmp_path / name), "-o", str(tmp_path / "p")]) == 0
        np.testing.assert_array_equal(np.loadtxt(tmp_path / "p"), p)
    np.testing.assert_array_equal(load(save(loaded, tmp_path / "b.model")).predict(frame), p)
    small = loaded.at_size(2)
    assert len(selected(small)) <= 2
    save(small, tmp_path / "c.model")
    np.testing.assert_array_equal(load(tmp_path / "c.model").predict(frame), small.predict(frame))


def test_any_source_of_the_same_features_gives_the_same_model(tmp_path, frame, trained):
    named = frame[["a", "b", "x"]].fillna(0.0).to_dict("records")
    y = frame["y"].tolist()
    with open(tmp_path / "t.vw", "w") as file:
        for row, target in zip(named, y, strict=True):
            file.write(f"{target} |a {row['a']} |b {row['b']} |x v:{row['x']}\n")
    options = {"settings": SETTINGS, "shuffle": False}
    by_dict = train(list(zip(named, y, strict=True)), cross=CROSS, **options).model
    by_vw = train(tmp_path / "t.vw", cross=["a:b", "x:a"], **options).model
    np.testing.assert_array_equal(by_dict.convert().coef.toarray(), by_vw.convert().coef.toarray())
    assert {"a^u*b^y", "x^v*a^v"} <= selected(by_vw)
    # numbers: the same columns in LIBSVM text and in an array
    rng = np.random.default_rng(1)
    X = rng.integers(0, 3, (800, 4)).astype(float)
    target = np.round(X[:, 1] * X[:, 3] - X[:, 0] + 0.3 * rng.normal(size=800), 3)
    with open(tmp_path / "t.svm", "w") as file:
        for row, value in zip(X, target, strict=True):
            file.write(f"{value} " + " ".join(f"{k}:{v}" for k, v in enumerate(row) if v) + "\n")
    expected = cells(train(X, y=target, cross=["x0:2,3", "1:2-3"], **options).model)
    for source, more in ((tmp_path / "t.svm", {}), (X, {"y": target}), (sp.csr_array(X), {"y": target})):
        model = train(source, cross=[("0-1", ["2", "3"])], **options, **more).model
        assert {"x0", "x1*x3"} <= selected(model) <= {"x0", "x1", "x2", "x3", "x0*x2", "x0*x3", "x1*x2", "x1*x3"}
        assert cells(model) == expected
    crossed, plain = train(X, y=target, cross="all", **options).estimator, SparseCrosses().fit(X)
    twin = SparseRegressor(random_state=0).fit(plain.transform(X), target)
    assert set(plain.get_feature_names_out()[twin.get_support()]) == selected(crossed)
    chosen = crossed.transform(X).toarray()
    k, names = crossed.get_feature_names_out().tolist().index("x1*x3"), crossed.feature_names_
    assert chosen.shape == (800, len(selected(crossed))) and len(names) == len(crossed.coef_)
    np.testing.assert_array_equal(chosen[:, k], X[:, 1] * X[:, 3])
    np.testing.assert_allclose(crossed.predict(X), twin.predict(plain.transform(X)), atol=1e-6)
    columns = np.flatnonzero(X[0])
    save(crossed, tmp_path / "n.model")
    one = load(tmp_path / "n.model").predict_one((columns, X[0, columns]))
    assert one == load(tmp_path / "n.model").predict(X[:1])[0] == crossed.predict(X[:1])[0]


def test_raw_texts_are_crossed_word_by_word(tmp_path):
    rng = np.random.default_rng(0)
    lines = []
    for _ in range(600):
        words = [word for word in ("free", "prize", "see", "you") if rng.random() < 0.5]
        lines.append(f"{'spam' if {'free', 'prize'} <= set(words) else 'ham'}\t{' '.join(words)}\n")
    (tmp_path / "t.txt").write_text("".join(lines))
    options = {"format": "text", "text_options": {"norm": False}}
    for rule in ("words:words", "all", "free:prize"):
        model = train(tmp_path / "t.txt", cross=[rule], settings=SETTINGS, **options).model
        assert "free*prize" in selected(model)
    command = ["train", str(tmp_path / "t.txt"), "--format", "text", "--cross", "words:words", "--seed", "0", "--quiet"]
    assert main([*command, "-m", str(tmp_path / "t.model")]) == 0
    stream = [main(["evaluate", str(tmp_path / "t.model"), str(tmp_path / "t.txt")])]
    assert stream == [0]
    assert load(tmp_path / "t.model").predict_one("free prize") == "spam"


def test_hashed_crosses_count_their_collisions(tmp_path, frame):
    few = train(frame, target="y", cross=CROSS, cross_bits=3, settings=SETTINGS)
    assert any("of 8 columns are in use, and" in note for note in few.notes)
    assert int(few.model.fit_state.features.clashes.sum()) > 0
    many = train(frame, target="y", cross=CROSS, cross_bits=16, settings=SETTINGS)
    assert not many.model.fit_state.features.clashes.any() and {"a=u*b=y", "x*a=v"} <= selected(many.model)
    exact = train(frame, target="y", cross=CROSS, settings=SETTINGS).estimator
    np.testing.assert_allclose(many.estimator.predict(frame), exact.predict(frame), atol=1e-3)
    for each in (few.estimator, many.estimator):
        save(each, tmp_path / "h.model")
        loaded = load(tmp_path / "h.model")
        np.testing.assert_array_equal(loaded.predict(frame), each.predict(frame))
        assert loaded.predict_one(frame.to_dict("records")[3]) == each.predict(frame)[3]


def test_hashed_columns_can_be_crossed(tmp_path, frame):
    model = train(frame, target="y", cross=["a:b", "x:a"], hash_bits=12, settings=SETTINGS).estimator
    assert {"a=u*b=y", "x*a=v"} <= selected(model)
    save(model, tmp_path / "h.model")
    np.testing.assert_array_equal(load(tmp_path / "h.model").predict(frame), model.predict(frame))


# ---- births ----------------------------------------------------------------------------------------------------------


def planted(seed=0, n=3000, d=60, k=4):
    """Return rows, targets and the pairs of columns whose products the targets have, beside both columns."""
    rng = np.random.default_rng(seed)
    X = sp.random_array((n, d), density=0.15, rng=rng, format="csr")
    X.data[:] = 1.0
    pairs = np.sort(rng.choice(d, 2 * k, replace=False).reshape(k, 2), 1)
    dense = X.toarray()
    y = dense[:, pairs.ravel()].sum(1) + 2.0 * (dense[:, pairs[:, 0]] * dense[:, pairs[:, 1]]).sum(1)
    return X, y + 0.3 * rng.normal(size=n), {f"x{i}*x{j}" for i, j in pairs.tolist()}


def cells(model):
    """Return all bits of a model and of what it learns from."""
    state = model.fit_state
    coef = model.convert().coef
    return [coef.toarray().tobytes(), model.intercept_.tobytes(), state.features.names, state.fingerprint()]


def test_planted_interactions_are_born_of_their_main_effects():
    X, y, pairs = planted()
    found = train(X, y=y, cross="all", birth=True, settings=SETTINGS)
    features = found.model.fit_state.features
    assert pairs <= selected(found.model)
    assert 0 < len(features) - len(features.parents) <= 0.05 * 60 * 59 / 2
    assert any("were born of" in note for note in found.notes)


def test_births_of_a_thousand_parents():
    X, y, pairs = planted(1, n=6000, d=1000, k=10)
    found = train(X, y=y, cross="all", settings=SETTINGS)
    features = found.model.fit_state.features
    assert features.asked.birth and any("--no-birth" in note for note in found.notes)
    assert len(pairs & selected(found.model)) >= 9
    assert len(features) - len(features.parents) <= 0.05 * 1000 * 999 / 2


def test_interactions_without_main_effects_are_not_born():
    rng = np.random.default_rng(0)
    X = rng.choice([-1.0, 1.0], (2500, 30))
    y = X[:, 3] * X[:, 7] + 0.5 * X[:, 1]
    assert "x3*x7" not in selected(train(X, y=y, cross="all", birth=True, settings=SETTINGS).model)
    assert "x3*x7" in selected(train(X, y=y, cross="all", birth=False, settings=SETTINGS).model)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"half_life": 900},
        {"alpha": 0.02},
        {"alpha": 0.02, "optimizer": "rda", "conversion": "last"},
        {"standardize": True, "optimizer": "nftrl"},
    ],
)
def test_any_cut_and_any_number_of_threads_give_the_same_bits(tmp_path, settings):
    X, y, _ = planted(n=2500, d=30)
    with open(tmp_path / "t.svm", "w") as file:
        for row, value in zip(X.toarray(), y.tolist(), strict=True):
            file.write(f"{value} " + " ".join(f"{k}:1" for k in np.flatnonzero(row)) + "\n")
    options = {"cross": "all", "birth": True, "settings": SETTINGS | settings, "shuffle": False}
    expected = cells(train(tmp_path / "t.svm", **options).model)
    for reader in ({"block_bytes": 700, "threads": 2}, {"block_bytes": 9000}):
        assert cells(train(tmp_path / "t.svm", **options, **reader).model) == expected
    one_by_one = train(X[:5], y=y[:5], **options).model
    assert one_by_one.fit_state.features.rows == 5


def test_a_run_that_is_interrupted_and_resumed_gives_the_same_bits(tmp_path):
    X, y, _ = planted(n=2500, d=30)
    np.savez(tmp_path / "t.npz", X=X.toarray(), y=y)
    options = {"cross": "all", "birth": True, "settings": SETTINGS, "passes": 2}
    calls: list[int] = []
    expected = cells(train(tmp_path / "t.npz", **options, stop=lambda: bool(calls.append(1))).model)
    kept, total, rows = Checkpoints(tmp_path / "c", 100, None), len(calls), set()
    for last in range(2, total, 3):
        calls.clear()
        with pytest.raises(StoppedError) as stopped:
            train(tmp_path / "t.npz", **options, checkpoints=kept, stop=lambda: calls.append(1) or len(calls) > last)  # noqa: B023
        rows.add(str(stopped.value))
        assert cells(train(tmp_path / "t.npz", **options, checkpoints=kept, resume=True).model) == expected
    assert len(rows) >= 4
    with pytest.raises(ValueError, match="other settings"):
        train(tmp_path / "t.npz", **(options | {"birth": 5}), checkpoints=kept, resume=True)


def test_one_example_at_a_time_goes_on_with_crosses(tmp_path, frame):
    found = train(frame, target="y", cross=CROSS, birth=True, settings=SETTINGS, shuffle=False)
    records, y = frame.to_dict("records"), frame["y"].tolist()
    one, other = found.estimator, copy.deepcopy(found.estimator)
    for k, (record, target) in enumerate(zip(records, y, strict=True)):
        one.learn_one(record, target)
        other.learn_one(record, target)
        if k % 97 == 0:
            other.predict_one(record)  # reading the model empties the queue
    assert cells(one) == cells(other)
    assert one.fit_state.features.rows == 3000 and one.fit_state.features.boundaries == 3  # 1024, the end, 2048
    save(one, tmp_path / "a.model", training=True)
    again = load(tmp_path / "a.model", training=True)
    assert cells(again) == cells(one)


def test_training_of_a_saved_model_goes_on(tmp_path, frame, capsys):
    frame.head(700).to_csv(tmp_path / "a.csv", index=False)
    frame.tail(800).to_csv(tmp_path / "b.csv", index=False)
    model = str(tmp_path / "t.model")
    common = ["--target", "y", "--quiet", "--json"]
    crosses = ["--cross", "a:b", "--cross", "x:a"]
    assert main(["train", str(tmp_path / "a.csv"), *common, *crosses, "-m", model, "--save-state", "--seed", "0"]) == 0
    assert main(["train", str(tmp_path / "b.csv"), *common, "-m", model, "--update", model]) == 0
    assert {"a=u*b=y", "x*a=v"} <= selected(load(model))
    capsys.readouterr()
    assert main(["inspect", model, "--json"]) == 0
    assert "a=u*b=y" in {each["name"] for each in json.loads(capsys.readouterr().out)["top"]}
    assert main(["train", str(tmp_path / "b.csv"), *common, "-m", model, "--update", model, *crosses]) == 2
    assert "leave out --cross" in capsys.readouterr().err


def test_a_log_that_is_followed_has_crosses(tmp_path, frame):
    rows = "".join(f"{row.y} |a {row.a} |b {row.b}\n" for row in frame.itertuples())
    (tmp_path / "log.vw").write_text(rows)
    options = {"cross": ["a:b"], "birth": True, "settings": SETTINGS}
    whole = follow(tmp_path / "log.vw", tmp_path / "a.model", idle_exit=0.0, **options)
    lines = rows.splitlines(keepends=True)
    (tmp_path / "log.vw").write_text("".join(lines[:1100]))
    follow(tmp_path / "log.vw", tmp_path / "b.model", idle_exit=0.0, **options)
    with open(tmp_path / "log.vw", "a") as file:
        file.write("".join(lines[1100:]))
    resumed = follow(tmp_path / "log.vw", tmp_path / "b.model", idle_exit=0.0, resume=True, **options)
    assert cells(resumed.model) == cells(whole.model)
    assert "a^u*b^y" in selected(load(tmp_path / "b.model")) and any("were born of" in note for note in whole.notes)
    command = ["train", "--follow", str(tmp_path / "log.vw"), "-m", str(tmp_path / "c.model"), "--idle-exit", "0"]
    assert main([*command, "--cross", "a:b", "--seed", "0", "--quiet"]) == 0
    assert "a^u*b^y" in selected(load(tmp_path / "c.model"))


def test_offsets_go_with_crosses(tmp_path, frame):
    rng = np.random.default_rng(0)
    shift = rng.normal(size=len(frame))
    table = frame.assign(y=frame.y + shift, shift=shift)
    model = train(table, target="y", offset="shift", cross=CROSS, settings=SETTINGS).estimator
    assert {"a=u*b=y", "x*a=v"} <= selected(model)
    p = model.predict(table)
    assert np.std(p - table.y) < 0.2
    loaded = load(save(model, tmp_path / "o.model"))
    np.testing.assert_array_equal(loaded.predict(table), p)
    assert loaded.predict_one(table.to_dict("records")[5]) == p[5]
    X, y, _ = planted(n=1200, d=10)
    by_array = train(X, y=y + 5.0, offset=np.full(1200, 5.0), cross="all", birth=True, settings=SETTINGS).estimator
    plain = by_array.predict(X)
    np.testing.assert_allclose(by_array.predict(X, offset=np.full(1200, 2.0)), plain + 2.0)


def test_exports_name_crosses_or_refuse_them(tmp_path, trained):
    save(trained.estimator, tmp_path / "a.model")
    assert main(["export", str(tmp_path / "a.model"), "--to", "csv", "-o", str(tmp_path / "a.csv")]) == 0
    assert "a=u*b=y" in (tmp_path / "a.csv").read_text()
    assert main(["export", str(tmp_path / "a.model"), "--to", "sql", "-o", str(tmp_path / "a.sql")]) == 2
    assert not (tmp_path / "a.sql").exists()


def test_several_classes_and_calibrated_probabilities(frame):
    labels = np.where((frame.a == "u") & (frame.b == "y"), "hit", np.where(frame.a == "w", "w", "none"))
    table = frame.drop(columns=["y", "x"]).assign(label=labels)
    for settings in ({}, {"loss": "multinomial"}, {"calibrate": True, "alpha": 0.001}):
        for birth in (False, True):
            found = train(table, target="label", cross="all", birth=birth, settings=SETTINGS | settings)
            assert "a=u*b=y" in selected(found.model) and found.estimator.score(table, labels) > 0.97


def test_intervals_and_plots_name_crosses(trained, frame):
    model = copy.deepcopy(trained.estimator)
    table = model.intervals(0.9, also=["a=v*b=x"])
    found = {name: (low, high) for name, low, high in zip(table["feature"], table["low"], table["high"], strict=True)}
    assert found["a=u*b=y"][0] < 3.0 < found["a=u*b=y"][1] and found["a=v*b=x"][0] < 0.0 < found["a=v*b=x"][1]
    assert model.coef_.shape == (len(model.feature_names_),) and model.n_features_in_ == 8


def test_values_whose_products_are_too_large_change_nothing():
    X, y, _ = planted(n=1200, d=10)
    model = train(X, y=y, cross="all", birth=False, settings=SETTINGS).estimator
    before, wild = cells(model), X[:1100].toarray()
    wild[1050, 3] = 1e60
    with pytest.raises(ValueError, match="values of at most 3e37"):
        model.partial_fit(wild, y[:1100])
    assert cells(model) == before
    model.partial_fit(X[:1100], y[:1100])
    assert model.t_ == 2300


def test_a_stream_that_outgrows_its_sample_has_crosses(monkeypatch):
    monkeypatch.setattr(Choose, "sample_nonzeros", 3000)
    X, y, pairs = planted(n=4500, d=40)
    options = {"cross": "all", "birth": True, "settings": SETTINGS, "shuffle": False}
    model = train(X, y=y, **options).model
    assert model.fit_state.long is not None and pairs <= selected(model)
    stream = [(row, target) for row, target in zip(as_pairs(X), y.tolist(), strict=True)]
    assert cells(train(stream, **options).model) == cells(model)


def as_pairs(X):
    """Return the rows of a sparse matrix as tuples of columns and values."""
    return [(X.indices[a:b], X.data[a:b]) for a, b in zip(X.indptr, X.indptr[1:], strict=False)]


def test_polish_solves_with_crosses(frame):
    found = train(frame, target="y", cross=CROSS, settings=SETTINGS | {"alpha": 0.01, "polish": True})
    assert found.model.gap_ <= 1e-4 and "a=u*b=y" in selected(found.model)


def test_caches_hold_rows_without_crosses(tmp_path, frame):
    frame.to_csv(tmp_path / "t.csv", index=False)
    plain = cells(train(tmp_path / "t.csv", target="y", cross=CROSS, settings=SETTINGS).model)
    cached = train(tmp_path / "t.csv", target="y", cross=CROSS, settings=SETTINGS, cache=tmp_path / "cache").model
    assert cells(cached) == plain
    assert [chunk.d for chunk in open_stream(tmp_path / "cache")] == [8]
    save(cached, tmp_path / "t.model")
    assert main(["predict", str(tmp_path / "t.model"), str(tmp_path / "cache"), "-o", str(tmp_path / "p")]) == 0
    np.testing.assert_array_equal(np.loadtxt(tmp_path / "p"), load(tmp_path / "t.model").predict(frame))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cross": ["a:c"]}, "cross names 'c', which is no feature of the table: its columns are a, b, x"),
        ({"cross": ["a"]}, "two names with one colon"),
        ({"cross": CROSS, "settings": {"feature_groups": "columns", "penalty": "group"}}, "has one value per column"),
        ({"cross": CROSS, "quadratic": ["ab"]}, "leave out one of them"),
        ({"birth": True}, "give cross="),
    ],
)
def test_what_cannot_be_crossed_is_refused(frame, options, message):
    with pytest.raises(ValueError, match=message):
        train(frame, target="y", **options)


def test_a_model_under_way_keeps_its_crosses(frame):
    model = train(frame, target="y", cross=CROSS, settings=SETTINGS).estimator
    with pytest.raises(ValueError, match="leave out cross"):
        train(frame, model, target="y", cross=["a:b"])
    names = model.fit_state.features.names
    again = train(frame, model, target="y").model
    assert again.t_ == 3000 and again.fit_state.features.names == names


def test_a_promise_needs_crosses_that_are_not_born():
    from sparsco.conversions import PathStability

    X, y, _ = planted(n=600, d=20)
    promise = {"settings": SETTINGS | {"conversion": PathStability(fdr=0.2)}}
    with pytest.raises(ValueError, match="leave out birth, or fdr and efp"):
        train(X, y=y, cross="all", birth=True, **promise)
    assert train(X, y=y, cross=["0-3:4-9"], **promise).model.promise_["fdr"] == 0.2


def test_words_that_stand_for_nothing_are_named(tmp_path):
    (tmp_path / "t.vw").write_text("1 |a x |b y\n-1 |a z |b y\n" * 50)
    with pytest.warns(UserWarning, match="cross names wrong, which stood for no feature"):
        found = train(tmp_path / "t.vw", cross=["a:b", "a:wrong"], settings=SETTINGS)
    assert any("wrong" in sentence for sentence in found.warnings)
