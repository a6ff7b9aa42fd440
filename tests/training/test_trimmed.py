"""Training on files with a bound on the features: names leave with them, and no cut or kill changes a bit."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest

from sparsco import SparseClassifier, SparseRegressor, follow, load, save, train
from sparsco.cli import main
from sparsco.streams import features as features_module
from sparsco.streams.features import Keyed
from sparsco.training.checkpoints import Checkpoints
from sparsco.training.results import StoppedError

SETTINGS = {"alpha": 0.003, "optimizer": "nftrl", "random_state": 0}


def lines(n=6000, seed=0):
    """Return lines of VW text with words that count, common words, and two words that never come again."""
    rng = np.random.default_rng(seed)
    found = []
    for t in range(n):
        some, common = rng.choice(20, 3, replace=False).tolist(), set(rng.integers(0, 100, 3).tolist())
        score = sum(1.0 if k < 10 else -1.0 for k in some) + 0.3 * rng.normal()
        words = [*(f"i{k}" for k in some), *(f"c{k}" for k in common), f"n{t}", f"m{t}"]
        found.append(f"{1 if score > 0 else -1} | {' '.join(words)}\n")
    return found


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "words.vw"
    path.write_text("".join(lines()))
    return path


@pytest.fixture
def few_names(monkeypatch):
    """Let names be forgotten when there are few, in chunks of few lines."""
    monkeypatch.setattr(features_module, "_FEW_NAMES", 0)


def same(one, other):
    a, b = one.convert(), other.convert()
    return np.array_equal(a.coef.toarray(), b.coef.toarray()) and np.array_equal(a.intercept, b.intercept)


def weights(trained):
    """Return the weights of a training run by name."""
    coef = trained.estimator.fit_state.model.coef
    names, columns = trained.stream.names, trained.model.fit_state.features.to_columns(coef.indices)
    return {names[column]: weight for column, weight in zip(columns.tolist(), coef.data.tolist(), strict=True)}


def test_names_leave_with_their_features(file, few_names):
    settings = SETTINGS | {"max_features": 400}
    trained = train(file, settings=settings, shuffle=False, reader={"block_bytes": 1 << 14})
    names = set(trained.stream.names.values())
    in_use = trained.model.fit_state.features
    columns = in_use.to_columns(np.arange(len(in_use))).tolist()
    assert len(in_use) <= 400 and set(columns) <= set(trained.stream.names)
    assert 2 * len(in_use) + 800 > len(names) >= len(in_use)
    found = weights(trained)
    assert sorted(found) == sorted(f"i{k}" for k in range(20)) and all(
        (weight > 0.0) == (int(name[1:]) < 10) for name, weight in found.items()
    )
    figures = trained.model.report_["trimmed"]
    assert figures["left"] > 11_000 and figures["selected_left"] == 0 and figures["first_at"] >= 1000


def test_the_vocabulary_changes_no_weight(file):
    """Columns that are hashes of names give the model of columns in the order of appearance."""
    settings = SETTINGS | {"conversion": "last"}
    plain, bounded = (train(file, settings=settings | {"max_features": most}, shuffle=False) for most in (None, 10**6))
    assert weights(plain) == weights(bounded)


class Stopping:
    """A request to end after so many questions."""

    def __init__(self, after):
        self.after = after

    def __call__(self):
        self.after -= 1
        return self.after < 0


@pytest.mark.parametrize(
    "settings", [SETTINGS, {"random_state": 0}, SETTINGS | {"half_life": 1000}], ids=["given", "automatic", "fading"]
)
@pytest.mark.filterwarnings("ignore:alpha='auto'")
def test_killed_and_resumed(file, tmp_path, few_names, settings):
    settings = settings | {"max_features": 400, "trim": 1500}
    options = {"settings": settings, "shuffle": False, "reader": {"block_bytes": 1 << 14}}
    whole = train(file, **options)
    checkpoints, ends, resume = Checkpoints(tmp_path / "words.checkpoint", rows=700), 0, False
    while True:
        try:
            parts = train(
                file, checkpoints=checkpoints, resume=resume, stop=Stopping(9 + 5 * ends), **options
            )  # a choice that is cut off begins anew
            break
        except StoppedError:
            ends, resume = ends + 1, True
    assert ends > 2 and same(whole.model, parts.model) and weights(whole) == weights(parts)
    assert whole.model.report_["trimmed"] == parts.model.report_["trimmed"]
    assert [line[:6] for line in whole.table] == [line[:6] for line in parts.table]


def test_updates_and_files(file, tmp_path, capsys):
    whole, first, second = (tmp_path / name for name in ("whole.model", "first.model", "second.model"))
    halves = lines()
    (tmp_path / "a.vw").write_text("".join(halves[:3100]))
    (tmp_path / "b.vw").write_text("".join(halves[3100:]))
    options = ["--no-shuffle", "--quiet", "--alpha", "0.003", "--optimizer", "nftrl", "--max-features", "400"]
    assert main(["train", str(file), "-m", str(whole), *options, "--json"]) == 0
    outcome = json.loads(capsys.readouterr().out)
    assert outcome["features"] <= 400 and outcome["trimmed"]["left"] > 11_000
    assert main(["train", str(tmp_path / "a.vw"), "-m", str(first), *options, "--save-state"]) == 0
    assert "features have left, at" in capsys.readouterr().out
    update = ["train", str(tmp_path / "b.vw"), "--update", str(first), "-m", str(second), "--no-shuffle", "--quiet"]
    assert main(update) == 0
    a, b = load(whole), load(second)
    assert np.array_equal(a.coef_, b.coef_) and a.feature_names_.tolist() == b.feature_names_.tolist()
    assert a.settings()["max_features"] == 400
    assert main([*update, "--max-features", "3"]) == 2
    assert "leave out --max-features" in capsys.readouterr().err
    assert main(["predict", str(whole), str(file)]) == 0
    assert main(["train", str(file), "-m", str(whole), "--max-features", "9", "--polish", "--quiet"]) == 2
    assert "polish needs all features" in capsys.readouterr().err


@pytest.mark.parametrize("half_life", [None, 1000.0])
def test_a_log_that_is_followed(file, tmp_path, few_names, half_life):
    """The model of a log is that of its file, and its reader forgets names."""
    settings = SETTINGS | {"max_features": 400, "half_life": half_life}
    whole = train(file, settings=settings, shuffle=False)
    options = {"settings": settings, "idle_exit": 0.0, "publish_rows": 2048, "reader": {"block_bytes": 1 << 14}}
    followed = follow(file, tmp_path / "log.model", **options)
    assert same(whole.model, followed.model) and weights(whole) == weights(followed)
    assert len(followed.stream.names) < 2000 and sorted(load(tmp_path / "log.model").feature_names_) == sorted(
        weights(whole)
    )


def test_crosses_need_their_parents(file):
    with pytest.raises(ValueError, match="crosses need their parents"):
        train(file, settings=SETTINGS | {"max_features": 400}, cross=["all"], shuffle=False)


def test_offsets_go_with_their_rows():
    """Offsets of examples that are learned up to a boundary, in any cut."""
    rng = np.random.default_rng(0)
    rows = [[f"a{k}", f"b{t}"] for t, k in enumerate(rng.integers(0, 9, 1500).tolist())]
    counts = rng.poisson(2.0, 1500).tolist()
    models = []
    for look in (10_000, 130):
        model = SparseRegressor(loss="poisson", alpha=0.01, optimizer="nftrl", max_features=100, random_state=0)
        for t, (x, y) in enumerate(zip(rows, counts, strict=True)):
            model.learn_one(x, y, offset=0.1 * (t % 3))
            _ = model.t_ if t % look == 0 else None
        models.append(model)
    assert same(*models) and models[0].fit_state.trimming.left > 1000


def test_tables_go_on_with_dicts(tmp_path, few_names):
    """A table with a column of ever new categories, learned further by dicts, with names that leave."""
    pytest.importorskip("pyarrow")
    rng = np.random.default_rng(0)
    rows = [("abc"[k % 3], f"u{k}", float(rng.normal())) for k in range(3000)]
    labels = ["yes" if color == "a" or size > 1.0 else "no" for color, _, size in rows]
    path = tmp_path / "t.csv"
    cells = [f"{color},{user},{size},{label}" for (color, user, size), label in zip(rows, labels, strict=True)]
    path.write_text("color,user,size,target\n" + "\n".join(cells[:2000]) + "\n")
    settings = {"alpha": 0.01, "optimizer": "nftrl", "random_state": 0, "max_features": 100}
    trained = train(path, settings=settings, shuffle=False)
    model = trained.estimator
    found = [line.name for line in model.summary().lines]
    assert "color=a" in found and "size" in found and len(model.fit_state.features) <= 100
    for (color, user, size), label in zip(rows[2000:], labels[2000:], strict=True):
        model.learn_one({"color": color, "user": user, "size": size}, label)
    model = pickle.loads(pickle.dumps(model))
    assert model.predict_one({"color": "a", "user": "new", "size": 0.0}) == "yes"
    assert model.predict_one({"color": "b", "user": "new", "size": 0.0}) == "no"
    assert len(model.fit_state.described.known_names()) < 400
    again = load(save(model, tmp_path / "t.model"))
    assert sorted(line.name for line in again.summary().lines) == sorted(line.name for line in model.summary().lines)


def test_a_stream_forgets_only_what_is_not_awaited(few_names):
    encoder = Keyed()
    names = [f"w{k}" for k in range(6)]

    def place(some):
        keys = features_module.fingerprints([names[k] for k in some], 0)
        return encoder.place(keys, lambda entries: [names[some[k]] for k in entries.tolist()])[0]

    first, second = place([0, 1, 2]), place([2, 3])
    assert first[2] == second[0] and encoder.names == dict(zip([*first, second[1]], names, strict=False))
    encoder.forget(first[:1], 1)  # the second chunk is not learned yet
    assert sorted(encoder.names.values()) == ["w0", "w2", "w3"]
    encoder.forget(first[:1], 2)
    assert sorted(encoder.names.values()) == ["w0"] and place([1, 0])[0] == first[1]


def test_old_rows_fade_by_a_column_of_times(tmp_path, capsys):
    """Training, its update and dicts one by one give the same bits; times that go back change nothing."""
    rng = np.random.default_rng(0)
    days, words = np.cumsum(rng.choice([0.0, 0.1], 3000)).round(1).tolist(), rng.integers(0, 8, 3000).tolist()
    rows = [
        (day, f"w{word}", f"u{k}", "yes" if (word < 4) == (k < 2000) else "no")
        for k, (day, word) in enumerate(zip(days, words, strict=True))
    ]
    parts = {"whole": rows, "first": rows[:1700], "second": rows[1700:]}
    for name, part in parts.items():
        lines = [",".join(map(str, row)) for row in part]
        (tmp_path / f"{name}.csv").write_text("\n".join(["day,word,user,target", *lines]) + "\n")
    whole, half, both = (tmp_path / f"{name}.model" for name in ("whole", "half", "both"))
    options = ["--half-life", "20", "--time", "day", "--max-features", "50", "--alpha", ".01", "--no-shuffle"]
    assert main(["train", str(tmp_path / "whole.csv"), "-m", str(whole), *options]) == 0
    assert "half_life=20" in capsys.readouterr().out
    assert main(["train", str(tmp_path / "first.csv"), "-m", str(half), *options, "--save-state"]) == 0
    update = ["train", str(tmp_path / "second.csv"), "--update", str(half), "-m", str(both), "--no-shuffle", "--quiet"]
    assert main(update) == 0
    expected, found = load(whole), load(both)
    assert np.array_equal(expected.coef_, found.coef_) and expected.predict_one({"word": "w1", "user": "x"}) == "no"
    settings = {"half_life": 20, "max_features": 50, "alpha": 0.01, "random_state": 0}
    model = train(tmp_path / "first.csv", settings=settings, time="day", shuffle=False).estimator
    for day, word, user, label in rows[1700:]:
        model.learn_one({"day": day, "word": word, "user": user}, label)
    with pytest.raises(ValueError, match="time goes back"):
        model.learn_one({"day": 0.0, "word": "w1", "user": "x"}, "no")
    weights = {line.name: line.weight for line in expected.summary().lines}
    assert {line.name: line.weight for line in model.summary().lines} == weights


def table(first, stop, wrong=False):
    """Return rows of a table with ever new users, and their labels; ``wrong`` has a label that is unknown."""
    arrow = pytest.importorskip("pyarrow")
    sizes = np.random.default_rng(3).normal(size=stop)[first:]
    cells = {"color": ["abc"[k % 3] for k in range(first, stop)], "user": [f"u{k}" for k in range(first, stop)]}
    labels = ["yes" if k % 3 == 0 or size > 1.0 else "no" for k, size in zip(range(first, stop), sizes, strict=True)]
    return arrow.table(cells | {"size": sizes}), [*labels[:-1], "perhaps"] if wrong else labels


def learned(model, first, stop):
    return model.partial_fit(*table(first, stop))


TABLES = {"alpha": 0.01, "optimizer": "nftrl", "random_state": 0, "max_features": 100}


def test_tables_go_on_with_data_frames(tmp_path, few_names):
    """A stream of a table is learned further by data frames, in any cut, as if it were one table."""
    whole, labels = table(0, 3000)
    expected = train(whole.append_column("y", [labels]), target="y", settings=TABLES, shuffle=False).estimator
    some, labels = table(0, 2000)
    model = train(some.append_column("y", [labels]), target="y", settings=TABLES, shuffle=False).estimator
    before = model.predict(whole).tolist()
    with pytest.raises(ValueError, match="perhaps"):
        model.partial_fit(*table(2000, 2500, wrong=True))
    assert model.predict(whole).tolist() == before and "u2400" not in " ".join(model.feature_names_)
    learned(learned(model, 2000, 2300), 2300, 3000)
    assert same(model, expected) and sorted(model.feature_names_) == sorted(expected.feature_names_)
    assert model.get_feature_names_out().tolist() == [line.name for line in expected.summary().lines]
    assert len(model.fit_state.described.known_names()) < 300 and len(model.feature_names_) <= 100
    again = load(save(pickle.loads(pickle.dumps(model)), tmp_path / "t.model"))
    assert again.predict(whole).tolist() == expected.predict(whole).tolist()


def test_a_stream_of_data_frames_forgets_names(few_names):
    frames = SparseClassifier(**TABLES).partial_fit(*table(0, 1000), classes=["no", "yes"])  # it decides on columns
    for first in range(1000, 3000, 250):
        learned(frames, first, first + 250)
    whole, labels = table(0, 3000)
    once = SparseClassifier(**TABLES).partial_fit(whole, labels, classes=["no", "yes"])
    assert same(frames, once) and frames.feature_names_.tolist() == once.feature_names_.tolist()
    assert len(frames.fit_state.described.known_names()) < 900 and len(frames.feature_names_) <= 100


@pytest.mark.parametrize("bound", [None, 1000])
def test_an_error_leaves_names_and_counts_of_texts_as_they_were(bound):
    """Also without a bound: the names of rows that were not learned have no column, and their texts no count."""
    rng, models = np.random.default_rng(0), []
    texts = [" ".join(f"w{k}" for k in rng.integers(0, 30, 8)) for _ in range(90)]
    labels = np.where(["w3" in text.split() for text in texts], "yes", "no")
    settings = {"alpha": 0.01, "random_state": 0, "max_features": bound}
    first = pytest.importorskip("pyarrow").table({"text": texts[:40], "y": labels[:40]})
    for tries in (0, 2):
        model = train(first, target="y", text="text", settings=settings, text_options={"weighting": "tfidf"}).estimator
        for _ in range(tries):
            with pytest.raises(ValueError, match="perhaps"):
                model.partial_fit([*texts[60:], "unheard"], [*labels[60:], "perhaps"])
        models.append(model.partial_fit(texts[40:], labels[40:]))
    one, other = models
    assert same(one, other) and one.feature_names_.tolist() == other.feature_names_.tolist()


def test_everybody_counts_the_features_in_use(file, tmp_path, capsys):
    """Columns are hashes of 62 bits, and their number says nothing to a reader."""
    path, page = tmp_path / "words.model", tmp_path / "words.html"
    trained = train(file, settings=SETTINGS | {"max_features": 400}, shuffle=False)
    in_use = len(trained.model.fit_state.features)
    assert 300 <= in_use <= 400
    model = trained.estimator
    for each in (model, load(save(model, path)), pickle.loads(pickle.dumps(model)).finalize()):
        assert each.summary().headline == f"SparseClassifier: 20 of {in_use} features"
        assert f"20 of {in_use} features" in each._repr_html_()
    options = ["--alpha", ".003", "--optimizer", "nftrl", "--max-features", "400", "--no-shuffle", "--save-state"]
    assert main(["train", str(file), "-m", str(path), "--html", str(page), "--quiet", *options]) == 0
    assert f"20 of {in_use} features selected" in capsys.readouterr().out
    assert main(["inspect", str(path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["features"] == found["training"]["features"] == in_use
    assert f"20 of {in_use} features" in page.read_text() and "4,611,686" not in page.read_text()
