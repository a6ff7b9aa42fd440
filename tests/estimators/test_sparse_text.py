"""SparseText: texts to rows, in batches and in streams that are cut anywhere."""

from __future__ import annotations

import pickle
import random

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction import FeatureHasher
from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.utils.estimator_checks import parametrize_with_checks

from sparsco import SparseClassifier, SparseText
from sparsco.text import encoding
from sparsco.text.encoding import TextError
from sparsco.text.spec import TextSpec
from support.text_features import features_of


def made(count, seed=0):
    """Return texts over a few words, some of them rare."""
    rng = random.Random(seed)
    words = [*"the of and to in is was for".split(), *(f"w{k}" for k in range(200)), "café", "中", "😀", "50p", "don't"]
    likely = [40.0 / (1 + k) for k in range(len(words))]
    return [" ".join(rng.choices(words, likely, k=rng.randrange(12))) for _ in range(count)]


TEXTS = made(300)
VARIANTS = [
    {},
    {"weighting": "tfidf"},
    {"weighting": "tfidf", "norm": False, "min_count": 3},
    {"min_count": 4, "ngrams": (1, 2)},
    {"hash_bits": 6, "weighting": "tfidf"},
    {"analyzer": "char", "ngrams": (2, 3), "weighting": "binary"},
]


@parametrize_with_checks([SparseText(), SparseText(weighting="tfidf", min_count=2)])
def test_scikit_learns_checks(estimator, check):
    check(estimator)


def wide(X, columns):
    """Return a matrix with so many columns."""
    return sp.csr_matrix((X.data, X.indices, X.indptr), (X.shape[0], columns))


def same(one, other):
    columns = max(one.shape[1], other.shape[1])
    one, other = wide(one, columns), wide(other, columns)
    return one.shape == other.shape and all(
        np.array_equal(getattr(one, part), getattr(other, part)) for part in ("indptr", "indices", "data")
    )


@pytest.mark.parametrize("options", VARIANTS, ids=str)
def test_no_result_depends_on_the_cut(options, monkeypatch):
    whole = SparseText(**options).fit(TEXTS)
    rows = SparseText(**options).partial_fit_transform(TEXTS)
    monkeypatch.setattr(encoding, "_ROWS", 7)  # the pieces inside of a call mean nothing either
    for size in (1, 13, 299):
        cut, once = SparseText(**options), SparseText(**options)
        pieces = [TEXTS[start : start + size] for start in range(0, len(TEXTS), size)]
        parts = [once.partial_fit_transform(piece) for piece in pieces]
        for piece in pieces:
            cut.partial_fit(piece)
        joined = sp.vstack([wide(part, rows.shape[1]) for part in parts]).tocsr()
        assert same(joined, rows)
        for other in (cut, once):
            assert other.get_feature_names_out().tolist() == whole.get_feature_names_out().tolist()
            assert same(other.transform(TEXTS), whole.transform(TEXTS))
    assert same(SparseText(**options).fit_transform(TEXTS), whole.transform(TEXTS))


def test_a_row_of_a_stream_depends_on_no_later_text():
    rows = SparseText(weighting="tfidf", min_count=2).partial_fit_transform(TEXTS)
    first = SparseText(weighting="tfidf", min_count=2).partial_fit_transform(TEXTS[:100])
    assert same(wide(rows, rows.shape[1])[:100], first)
    assert not same(rows, SparseText(weighting="tfidf", min_count=2).fit_transform(TEXTS))


def test_rows_are_those_of_the_reference():
    text = SparseText(ngrams=(1, 2)).fit(TEXTS)
    X, names = text.transform(TEXTS), text.get_feature_names_out()
    for i in range(0, len(TEXTS), 10):
        row = dict(zip(names[X[i].indices], X[i].data, strict=True))
        assert row == pytest.approx(features_of(TEXTS[i], TextSpec(ngrams=(1, 2))))


@pytest.mark.parametrize("norm", [False, True])
def test_inverse_frequencies_are_those_of_scikit_learn(norm):
    count = CountVectorizer(token_pattern=r"\w+(?:'\w+)?|[中😀]", ngram_range=(1, 2))
    weigh = TfidfTransformer(norm="l2" if norm else None)
    expected = weigh.fit_transform(count.fit_transform(TEXTS))
    text = SparseText(weighting="tfidf", norm=norm, ngrams=(1, 2), shapes=False)
    found, names = text.fit_transform(TEXTS), text.get_feature_names_out().tolist()
    assert sorted(names) == count.get_feature_names_out().tolist()
    order = np.argsort(names)
    assert abs(found[:, order] - expected).max() < 1e-12
    unseen = ["the w1 never", "never seen"]
    assert text.set_params(norm=False).fit(TEXTS).transform(unseen)[:, order].toarray() == pytest.approx(
        TfidfTransformer(norm=None).fit(count.transform(TEXTS)).transform(count.transform(unseen)).toarray()
    )


def test_hashed_columns_are_those_of_feature_hasher():
    text = SparseText(hash_bits=8, weighting="count", norm=False)
    spec = TextSpec(weighting="count", norm=False)
    expected = FeatureHasher(256).transform([features_of(each, spec) for each in TEXTS])
    assert (text.fit_transform(TEXTS) != expected).nnz == 0
    names = text.get_feature_names_out()
    assert len(names) == 256 and "the" in names
    assert (text.transform(["unseen words"]) != FeatureHasher(256).transform([{"unseen": 1, "words": 1}])).nnz == 0


def test_rare_features_wait_for_their_column():
    text = SparseText(min_count=2, weighting="binary", norm=False).fit(["b a", "a c c", "c"])
    assert text.get_feature_names_out().tolist() == ["a", "c"]
    assert text.document_counts_.tolist() == [2, 2] and text.n_texts_ == 3
    text.partial_fit(["b"])
    assert text.get_feature_names_out().tolist() == ["a", "c", "b"]
    assert text.transform(["b x"]).toarray().tolist() == [[0.0, 0.0, 1.0]]


def test_columns_of_texts_of_other_packages():
    pandas, polars, arrow = (pytest.importorskip(name) for name in ("pandas", "polars", "pyarrow"))
    expected = SparseText().fit_transform(TEXTS)
    for column in (pandas.Series(TEXTS), polars.Series(TEXTS), arrow.array(TEXTS), np.array(TEXTS), iter(TEXTS)):
        assert same(SparseText().fit_transform(column), expected)
    holes = ["free prize", None, "see you"]
    expected = SparseText().fit_transform(["free prize", "", "see you"])
    series = [pandas.Series(holes, dtype=kind) for kind in (object, "string", "str")]
    for column in (*series, holes, ["free prize", float("nan"), "see you"], polars.Series(holes), arrow.array(holes)):
        assert same(SparseText().fit_transform(column), expected)


def test_a_column_of_a_table_in_a_column_transformer():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"message": ["Free prize", None, "see you"], "kind": ["a", "b", "a"]})
    parts = [("text", SparseText(), "message"), ("kind", OneHotEncoder(), ["kind"])]
    model = ColumnTransformer(parts, verbose_feature_names_out=False)
    assert model.fit_transform(table).shape == (3, 6)
    assert model.get_feature_names_out().tolist() == ["free", "prize", "see", "you", "kind_a", "kind_b"]


def test_a_pipeline_shows_words_and_can_be_pickled():
    rng = np.random.default_rng(0)
    texts = [f"{text} {'prize' if spam else 'home'}" for text, spam in zip(TEXTS, rng.random(300) < 0.4, strict=True)]
    labels = ["spam" if "prize" in text else "ham" for text in texts]
    model = make_pipeline(SparseText(), SparseClassifier(alpha=0.02, random_state=0)).fit(texts, labels)
    shown = model[-1].summary(names=model[:-1].get_feature_names_out())
    assert {line.name for line in shown.lines[:2]} == {"prize", "home"}
    assert model[-1].get_feature_names_out(model[:-1].get_feature_names_out()).size == model[-1].n_selected_
    again = pickle.loads(pickle.dumps(model))
    assert again.predict(texts).tolist() == model.predict(texts).tolist()
    assert same(again[0].partial_fit(["new words"]).transform(texts), model[0].transform(texts))
    with pytest.raises(ValueError, match="names has 3 names: there are"):
        model[-1].summary(names=["a", "b", "c"])


def test_a_stream_learns_words_as_they_appear():
    text, model = SparseText(), SparseClassifier(alpha=0.02)
    labels = np.array(["b" if "w1" in each else "a" for each in TEXTS])
    for start in range(0, 300, 50):
        X = text.partial_fit_transform(TEXTS[start : start + 50])
        model.partial_fit(X, labels[start : start + 50], classes=["a", "b"])
    assert model.n_features_in_ == len(text.get_feature_names_out())


def test_wrong_input_gets_a_sentence():
    with pytest.raises(ValueError, match="X is one text: give a list of texts"):
        SparseText().fit("one text")
    with pytest.raises(ValueError, match="give one column of texts"):
        SparseText().fit(np.array([["a", "b"]]))
    with pytest.raises(ValueError, match="X is a int"):
        SparseText().fit(3)
    with pytest.raises(TextError, match="text 5000 is a float, not a str"):
        SparseText().fit(["a"] * 5000 + [0.5])
    with pytest.raises(TextError, match="text 5000 is not valid UTF-8"):
        SparseText().fit(["a"] * 5000 + ["\ud800"])
    text = SparseText().fit(TEXTS)
    for learn in (text.fit, text.partial_fit, text.fit_transform, text.partial_fit_transform):
        with pytest.raises(TextError, match="text 5000 is not valid UTF-8"):
            learn(["new"] * 5000 + ["\ud800"])
        assert text.n_texts_ == 300 and "new" not in text.get_feature_names_out()
    with pytest.raises(ValueError, match="min_count must be a whole number"):
        SparseText(min_count=0).fit(TEXTS)
    with pytest.raises(ValueError, match="min_count is for a vocabulary"):
        SparseText(min_count=2, hash_bits=8).fit(TEXTS)
    with pytest.raises(ValueError, match="ngrams must be a pair"):
        SparseText(ngrams=3).fit(TEXTS)
    with pytest.raises(NotFittedError):
        clone(SparseText().fit(TEXTS)).transform(TEXTS)
