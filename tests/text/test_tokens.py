"""The compiled tokeniser equals its plain-Python reference, token for token."""

from __future__ import annotations

import random

import numpy as np
import pytest

from sparsco.jit.dispatch import plain_python
from sparsco.text.encoding import TextError, raw_texts, text_entries
from sparsco.text.encoding import tokens_of as compiled_tokens
from sparsco.text.fingerprints import fingerprints
from sparsco.text.spec import TextSpec
from support import LONG
from support.text_features import features_of, tokens_of

pa = pytest.importorskip("pyarrow")

LINES = 100_000 if LONG else 4_000
PARTS = [
    "don't", "it's", "l'homme", "rock'n'roll", "O\u2019Neill", "don\u2019t\u201d", "x'yz\u0301", "'quoted'",
    "e-mail", "a_b", "Straße", "ẞ", "İstanbul", "ΟΔΥΣΣΕΥΣ", "ﬁn", "Ⱥ", "Å", "A\u030a", "é", "e\u0301", "½",
    "x²", "12,50", "0800x", "50p", "$$", "£5", "€", "😀", "👨\u200d👩\u200d👧", "👍🏽", "🇩🇪", "1\ufe0f\u20e3", "中文字",
    "日本語です", "한국어", "हिन्दी", "שָׁלוֹם", "مرحبا", "\u202brtl\u202c", "\u00ad", "\u200b", "\x00",
    "\x1f", "\t", "\n", "\r", "\u2028", "\u3000", "\ufeff", "\U00020000", "\U000e0041", "\U0010ffff",
    "\U00040000", "\ud7ff", "\ue000", "\uffff", "ͺ", "\u0345", "K", "ſ", "ß", "...", "!", " ", "  ", "",
    "a", "B", "7",
]  # fmt: skip
SPECS = [
    TextSpec(weighting="count", norm=False),
    TextSpec(ngrams=(1, 3), strip_accents=True, prefix="message:"),
    TextSpec(ngrams=(2, 2), lowercase=False, weighting="binary"),
    TextSpec("char", (1, 3), weighting="count"),
    TextSpec(shapes=False),
    TextSpec("char", strip_accents=True, lowercase=False, weighting="tfidf", prefix="é:"),
]


def fuzzed(count, seed=0):
    """Return texts of pieces that are hard, and of random characters of all planes."""
    rng = random.Random(seed)
    planes = [(0x20, 0x7F), (0x80, 0x800), (0x800, 0xD800), (0xE000, 0x10000), (0x10000, 0x110000), (0x1F300, 0x1FAFF)]
    found = []
    for _ in range(count):
        pieces = []
        for _ in range(rng.choice([0, 1, 2, 5, 12])):
            low, high = rng.choice(planes)
            made = "".join(chr(rng.randrange(low, high)) for _ in range(rng.randrange(4)))
            pieces.append(rng.choice([*PARTS, made, made]) + rng.choice(["", "", " ", "'"]))
        found.append("".join(pieces))
    return found


def test_tokens_are_those_of_the_reference():
    texts = fuzzed(LINES)
    for spec in (TextSpec(), TextSpec(strip_accents=True, lowercase=False), TextSpec("char", strip_accents=True)):
        found = compiled_tokens(texts, spec)
        raw = found.text.tobytes()
        tokens = [raw[a:b].decode() for a, b in zip(found.starts.tolist(), found.ends.tolist(), strict=True)]
        for text, start, stop in zip(texts, found.indptr, found.indptr[1:], strict=False):
            assert tokens[start:stop] == tokens_of(text, spec), repr(text)


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: f"{spec.analyzer}-{spec.weighting}")
def test_features_are_those_of_the_reference(spec):
    texts = fuzzed(LINES // 10, seed=1)
    found = text_entries(texts, spec, seed=7)
    names = found.names_of(np.arange(found.keys.size))
    assert np.array_equal(found.keys, fingerprints(names, 7))
    for i, text in enumerate(texts):
        part = slice(found.indptr[i], found.indptr[i + 1])
        expected = features_of(text, spec)
        assert names[part] == list(expected), repr(text)
        assert found.values[part] == pytest.approx(list(expected.values()), rel=1e-14)


@pytest.mark.parametrize("spec", [SPECS[1], SPECS[3]], ids=lambda spec: spec.analyzer)
def test_compiled_equals_plain(spec):
    texts = fuzzed(40, seed=2)
    compiled = text_entries(texts, spec)
    with plain_python():
        plain = text_entries(texts, spec)
    for one, other in zip(compiled[:3], plain[:3], strict=True):
        assert np.array_equal(one, other)


def test_every_kind_of_column_gives_the_same():
    texts = ["Free call", "", None, "été 😀"]
    columns = [texts, np.array(texts, object)]
    columns += [pa.array(texts, kind) for kind in (pa.string(), pa.large_string(), pa.string_view())]
    columns += [pa.array(["cut off", *texts])[1:], pa.chunked_array([texts[:1], texts[1:]], pa.string())]
    columns += [pa.array(texts).dictionary_encode(), raw_texts(texts)]
    for column in columns:
        found = text_entries(column, TextSpec())
        assert found.indptr.tolist() == [0, 2, 2, 2, 4]
        assert found.names_of(np.arange(4)) == ["free", "call", "été", "😀"]
    assert text_entries([], TextSpec()).indptr.tolist() == [0]
    assert text_entries(pa.array([], pa.string()), TextSpec()).keys.size == 0


BROKEN = [
    b"\xff",
    b"\xc3",
    b"\xc0\x80",
    b"\xe0\x80\x80",
    b"\xed\xa0\x80",
    b"\xf4\x90\x80\x80",
    b"\xf0\x9f\x98",
    b"\x80",
]


@pytest.mark.parametrize("analyzer", ["word", "char"])
@pytest.mark.parametrize("raw", BROKEN, ids=bytes.hex)
def test_invalid_utf8_is_refused_with_its_row(raw, analyzer):
    text = b"good" + b"caf" + raw + b"next"
    with pytest.raises(TextError, match="text 1 is not valid UTF-8") as caught:
        text_entries((text, [0, 4, 7 + len(raw), len(text)]), TextSpec(analyzer))
    assert caught.value.row == 1


def test_lone_surrogates_are_refused():
    with pytest.raises(TextError, match="text 0 "):
        text_entries(["\udc80"], TextSpec())


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"analyzer": "line"}, "analyzer must be 'word' or 'char', not 'line'"),
        ({"weighting": "bm25"}, "weighting must be one of count, binary, log, tfidf, not 'bm25'"),
        ({"ngrams": (2, 1)}, "1 <= low <= high <= 16, not"),
        ({"ngrams": 2}, "a pair of whole numbers such as"),
        ({"prefix": 3}, "prefix must be a text"),
    ],
)
def test_wrong_options_are_refused(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        TextSpec(**options).check()
