"""Models of lines and folders of texts take texts in Python; every door gives the same bits."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from sparsco import load, save, train
from sparsco.estimators.summary import turned
from sparsco.training import model_files
from sparsco.training.inspection import features
from sparsco.training.scoring import opened_for

FAST = {"alpha": 0.005, "random_state": 0}
NEW = ["a free prize", "See YOU at home", "", "unknown words only", "😀 don't £50", "prize prize home"]


def rows(count=1200):
    rng = np.random.default_rng(0)
    words = [f"w{k}" for k in range(40)]
    told = {"spam": ["free prize", "prize £50", "😀 don't"], "ham": ["see you", "home"]}
    labels = rng.choice(["spam", "ham"], count, p=[0.4, 0.6])
    return [(label, " ".join([*rng.choice(words, 5), rng.choice(told[label])])) for label in labels]


ROWS = rows()


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """Return the same rows as lines, as a folder and as a table."""
    at = tmp_path_factory.mktemp("texts")
    (at / "a.txt").write_text("".join(f"{label}\t{text}\n" for label, text in ROWS))
    for k, (label, text) in enumerate(ROWS[:300]):
        (at / "mails" / label).mkdir(parents=True, exist_ok=True)
        (at / "mails" / label / f"{k}.txt").write_text(text)
    return {"lines": at / "a.txt", "folder": at / "mails", "table": pd.DataFrame(ROWS, columns=["label", "text"])}


def doors(texts, column="text"):
    """Return the texts in every form that predict takes."""
    yield from (texts, tuple(texts), pd.Series(texts), pl.Series(texts), pa.array(texts), pa.chunked_array([texts]))
    yield from (np.array(texts), np.array(texts, object), pd.DataFrame({column: texts}), pl.DataFrame({column: texts}))
    yield [{column: text} for text in texts]


@pytest.mark.parametrize("source", ["lines", "folder", "table"])
@pytest.mark.parametrize("options", [{}, {"hash_bits": 12}, {"text_options": {"ngrams": (1, 2), "weighting": "count"}}])
def test_every_door_gives_the_same_bits(sources, tmp_path, source, options):
    options = options | ({"target": "label", "text": "text"} if source == "table" else {})
    model = train(sources[source], settings=FAST, **options).estimator
    loaded = load(save(model, tmp_path / "m"))
    expected = model.decision_function(NEW)
    assert len(set(expected.tolist())) > 3
    for one in (model, loaded, pickle.loads(pickle.dumps(model))):
        for texts in doors(NEW):
            assert one.decision_function(texts).tobytes() == expected.tobytes()
        assert one.predict(NEW).tolist() == [one.predict_one(text) for text in NEW]
        assert one.predict(NEW).tolist() == [one.predict_one({"text": text}) for text in NEW]
        shares = one.predict_proba(NEW)
        each = [one.predict_proba_one(text) for text in NEW]
        assert np.array([[row[label] for label in one.classes_.tolist()] for row in each]).tobytes() == shares.tobytes()
    (tmp_path / "new.txt").write_text("".join(f"?\t{text}\n" for text in NEW))
    (tmp_path / "new.jsonl").write_text("".join(f'{{"text": "{text}"}}\n' for text in NEW))
    for name in ("new.txt", "new.jsonl"):
        own, stream = opened_for(model_files.read(tmp_path / "m"), tmp_path / name, False)
        assert np.concatenate([own.margins_of(chunk.matrix)[:, 0] for chunk in stream]).tobytes() == expected.tobytes()


@pytest.mark.parametrize("options", [{}, {"hash_bits": 16}])
def test_features_have_names_before_and_after_a_model_is_saved(sources, tmp_path, options):
    model = train(sources["lines"], settings=FAST, **options).estimator
    found = {line.name for line in model.summary().lines}
    assert found and found <= {"see", "you", "home", "free", "prize", "£", "don't", "😀", "50", "##"}
    loaded = load(save(model, tmp_path / "m"))
    assert {line.name for line in loaded.summary().lines} == found
    assert {line.name for line in loaded.finalize().summary().lines} == found


def test_named_sources_without_a_description_have_names_too(tmp_path):
    (tmp_path / "a.vw").write_text("".join(f"{1 if y == 'spam' else -1} | {x}\n" for y, x in ROWS))
    model = train(tmp_path / "a.vw", settings=FAST).estimator
    found = {line.name for line in model.summary().lines}
    assert found & {"see", "you", "home"}
    loaded = load(save(model, tmp_path / "m"))
    assert set(loaded.feature_names_) == found
    own, stream = opened_for(model_files.read(tmp_path / "m"), tmp_path / "a.vw")
    right = np.concatenate([own.labels_of(own.margins_of(chunk.matrix)) == chunk.y for chunk in stream])
    assert right.mean() > 0.9


def test_files_of_before_take_texts(sources, tmp_path):
    model = train(sources["lines"], settings=FAST).estimator
    content = model_files.contents(model)
    old = {name: value for name, value in content.items() if name != "description"}
    old["extra"] = {"reader": {"text_options": model.fit_state.described.description.texts}}
    model_files.write(tmp_path / "old", old)
    assert load(tmp_path / "old").decision_function(NEW).tobytes() == model.decision_function(NEW).tobytes()


def test_a_stream_of_texts_goes_on_with_texts(sources):
    by_text, by_dict = (train(sources["lines"], settings=FAST).estimator for _ in range(2))
    for label, text in ROWS[:50]:
        by_text.learn_one(text + " brandnew", label)
        by_dict.learn_one({"text": text + " brandnew"}, label)
    assert by_text.decision_function(NEW).tobytes() == by_dict.decision_function(NEW).tobytes()
    assert "brandnew" in by_text.fit_state.described.known_names()


def test_what_is_no_text_is_refused(sources):
    model = train(sources["lines"], settings=FAST).estimator
    with pytest.raises(ValueError, match="X is one text: give a list of texts"):
        model.predict("one text")
    with pytest.raises(ValueError, match="text 1 is a int, not a str"):
        model.predict(["a", 3])
    with pytest.raises(ValueError, match="x is a list: this model cuts texts into words itself"):
        model.predict_one(["a", "free", "prize"])
    with pytest.raises(ValueError, match="x is a list: this model cuts texts into words itself"):
        model.learn_one(["a", "free", "prize"], "spam")
    table = pd.DataFrame({"age": np.arange(300.0), "about": ["a b", "c d", "e"] * 100, "label": [0, 1, 0] * 100})
    wide = train(table, text="about", settings=FAST).estimator
    with pytest.raises(ValueError, match="trained on a table with the columns age, about: give a data frame or dicts"):
        wide.predict(["a b"])
    with pytest.raises(ValueError, match="trained on a table with the columns age, about: give a data frame or dicts"):
        wide.predict_one("a b")


def test_hashed_names_show_the_weights_of_their_names(sources, tmp_path):
    pairs = {
        " see you": " see",
        " free prize": " prize",
        " £50": "",
        " 😀 don't": " don't",
    }
    text = sources["lines"].read_text()
    for pair, word in pairs.items():
        text = text.replace(pair, word)
    (tmp_path / "a.txt").write_text(text)
    plain, hashed = (train(tmp_path / "a.txt", settings=FAST, **each).estimator for each in ({}, {"hash_bits": 18}))
    found = {line.name: (line.weight, line.effect) for line in plain.summary(top=99).lines}
    assert {line.name for line in hashed.summary(top=99).lines} == set(found)
    save(hashed, tmp_path / "m")
    assert (hashed.coef_ > 0.0).sum() != sum(weight > 0.0 for weight, _ in found.values())  # the hash turns some
    for model in (hashed, load(tmp_path / "m")):
        for line in model.summary(top=99).lines:
            assert (line.weight, line.effect) == pytest.approx(found[line.name], rel=0.02)
    shown = {each["name"]: each["weights"]["spam"] for each in features(model_files.read(tmp_path / "m"))}
    assert shown == pytest.approx({name: weight for name, (weight, _) in found.items()}, rel=0.02)
    assert turned((2.0, 0.5, 1.0, 3.0), -1.0) == (-2.0, 0.5, -3.0, -1.0)  # an interval stays one


def test_a_stream_of_texts_is_saved_with_its_new_words(tmp_path):
    lines = [f"{'spam' if i % 2 else 'ham'}\t{'prize' if i % 2 else 'lunch'} w{i % 50}\n" for i in range(1200)]
    (tmp_path / "first.txt").write_text("".join(lines))
    model = train(tmp_path / "first.txt", settings=FAST).estimator
    texts = [f"{'winner' if i % 2 else 'mother'} z{i % 7}" for i in range(3000)]
    model.partial_fit(texts, ["spam" if i % 2 else "ham" for i in range(3000)])
    again = load(save(model, tmp_path / "m"))
    assert again.predict(["winner", "mother"]).tolist() == ["spam", "ham"]
    assert {"winner", "mother"} & set(again.get_feature_names_out())
