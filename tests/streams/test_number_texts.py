"""Texts that look like numbers: no source makes a category or classes of them in silence."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pytest

from sparsco import SparseClassifier, SparseRegressor, train
from sparsco.cli import main
from sparsco.streams.number_texts import number_texts, of_classes

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")

N = 60
NUMBERS = np.linspace(1000.0, 9000.0, N).round(2).tolist()
WAYS = {
    "separators": [f"{x:,.2f}" for x in NUMBERS],
    "decimal commas": [f"{x:.2f}".replace(".", ",") for x in NUMBERS],
    "dots and commas": [f"{x:,.2f}".translate(str.maketrans(",.", ".,")) for x in NUMBERS],
    "blanks": [f"{x:,.2f}".replace(",", "\N{NO-BREAK SPACE}") for x in NUMBERS],
    "apostrophes": [f"{x:,.2f}".replace(",", "'") for x in NUMBERS],
    "shares": [f"{x / 100:.1f}%" for x in NUMBERS],
    "money": [f"$ {x:.2f}" for x in NUMBERS],
    "euros": [f"{x:.2f} €" for x in NUMBERS],
    "brackets": [f"({x:,.2f})" for x in NUMBERS],
    "units": [f"{x:.0f} kg" for x in NUMBERS],
    "two units": [f"{x:.0f} {unit}" for x, unit in zip(NUMBERS, ["kg", "lb"] * N, strict=False)],
    "minus signs": [f"\N{MINUS SIGN}{x:.2f}" for x in NUMBERS],
    "groups of blanks": [f"{x * 1000:,.0f}".replace(",", " ") for x in [*NUMBERS, 100.0, 200.0, 300.0, 400.0]],
    "groups of dots": [f"{x * 1000:,.0f}".replace(",", ".") for x in [*NUMBERS, 1.0, 2.0, 3.0, 4.0]],
    "groups of commas": [f"{x * 1000:,.0f}" for x in NUMBERS],
    "money in groups": [f"{x * 1000:,.0f} €".replace(",", " ") for x in NUMBERS],
    "an unknown unit of fractions": [f"{x:.1f} bar" for x in NUMBERS],
    "2% of others": [*(f"{x:,.2f}" for x in NUMBERS[1:]), "unknown"],
}
OTHERS = {
    "dates": [f"2021-03-{k % 28 + 1:02}" for k in range(N)],
    "slashes": [f"{k % 28 + 1}/3/2021" for k in range(N)],
    "times": [f"{k % 24}:{k}" for k in range(N)],
    "versions": [f"1.{k}.2" for k in range(N)],
    "addresses": [f"10.0.{k}.1" for k in range(N)],
    "wide addresses": [f"115.217.{k + 100}.147" for k in range(N)],
    "versions of three digits": [f"{k % 9 + 1}.{k + 200}.100" for k in range(N)],
    "telephone numbers": [f"273 {k + 900} 173" for k in range(N)],
    "sizes": [f"{k % 5 + 1}XL" for k in range(N)],
    "ordinals of one kind": [f"{k + 4}th" for k in range(N)],
    "numbers in a street": [f"{k} Main" for k in range(N)],
    "plates": [f"{k + 300} ABC" for k in range(N)],
    "models": [f"{k + 300}d" for k in range(N)],
    "leading zeros": [f"{k:06}" for k in range(N)],
    "a few leading zeros": ["01058", *(str(k + 10_000) for k in range(N))],
    "codes": [f"C{k}" for k in range(N)],
    "ranges": [f"{k}-{k + 9}" for k in range(N)],
    "ordinals": ["1st", "2nd", "3rd", "4th"] * (N // 4),
    "house numbers": [f"{k}{letter}" for k, letter in enumerate("abcdefghij" * (N // 10))],
    "streets": [f"{k} {street} Street" for k, street in enumerate(["Elm", "Oak", "High"] * (N // 3))],
    "words": ["red", "green", "blue"] * (N // 3),
    "6% of others": [f"{x:,.2f}" for x in NUMBERS[4:]] + ["a", "b", "c", "d"],
    "nothing": [],
}


@pytest.mark.parametrize("way", WAYS)
def test_numbers_are_recognised(way):
    assert number_texts(WAYS[way]) is not None


@pytest.mark.parametrize("other", OTHERS)
def test_other_texts_are_not(other):
    assert number_texts(OTHERS[other]) is None


def as_csv(frame, folder):
    frame.to_csv(folder / "table.csv", index=False)
    return str(folder / "table.csv")


def as_json(frame, folder):
    frame.to_json(folder / "table.jsonl", orient="records", lines=True)
    return str(folder / "table.jsonl")


def as_parquet(frame, folder):
    frame.to_parquet(folder / "table.parquet")
    return str(folder / "table.parquet")


FILES = {"CSV": as_csv, "JSON lines": as_json, "Parquet": as_parquet}


def table(**columns):
    return pd.DataFrame({"x": np.arange(N) % 7.0, **columns})


@pytest.mark.parametrize("kind", FILES)
def test_a_column_of_numbers_in_a_file_is_warned_of(kind, tmp_path):
    path = FILES[kind](table(price=WAYS["separators"], share=WAYS["shares"], town=OTHERS["words"], y=NUMBERS), tmp_path)
    with pytest.warns(UserWarning) as told:
        train(path)
    told = [str(each.message) for each in told if "looks like" in str(each.message)]
    assert len(told) == 2
    for sentence, (name, example) in zip(told, [("price", "1,000.00"), ("share", "10.0%")], strict=True):
        assert sentence.startswith(f"{path}: column '{name}' looks like numbers, such as '{example}'")
        assert "write plain numbers such as 1234.5" in sentence and f"(--schema {name}=category)" in sentence


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
@pytest.mark.parametrize("learn", ["fit", "partial_fit"])
def test_a_column_of_numbers_in_a_frame_is_warned_of(frame, learn):
    X = frame({"price": WAYS["money"], "town": OTHERS["words"]})
    with pytest.warns(UserWarning, match=r"the table: column 'price' looks like numbers, such as '\$ 1000.00'"):
        getattr(SparseRegressor(alpha=0.1), learn)(X, np.array(NUMBERS))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        getattr(SparseRegressor(alpha=0.1, schema={"price": "category"}), learn)(X, np.array(NUMBERS))
        getattr(SparseRegressor(alpha=0.1, schema={"*": "category"}), learn)(X, np.array(NUMBERS))


def test_plain_numbers_as_texts_can_be_read_as_numbers():
    X, y = pd.DataFrame({"price": [f"{x:.2f}" for x in NUMBERS]}), np.array(NUMBERS)
    with pytest.warns(UserWarning, match=r"give schema=\{'price': 'numbers'\} \(--schema price=numbers\)"):
        SparseRegressor(alpha=0.1).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert SparseRegressor(alpha=0.1, schema={"price": "numbers"}).fit(X, y).score(X, y) > 0.99


def test_the_cell_that_keeps_a_column_from_being_numbers_is_named(tmp_path):
    path = as_csv(table(price=[*map(str, NUMBERS[1:]), "?"], y=NUMBERS), tmp_path)
    with pytest.warns(UserWarning, match=r"repair cells such as '\?', or name them among missing_values"):
        train(path)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        assert "price: numbers" in "".join(train(path, missing_values=["?"], settings={"alpha": 0.1}).notes)


@pytest.mark.parametrize(
    "column",
    [OTHERS["words"], ["0", "1"] * (N // 2), pd.Categorical(["1", "2", "3"] * (N // 3)), [None] * N],
    ids=["words", "two values", "a category by its type", "nothing"],
)
def test_other_columns_are_not_warned_of(column):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        SparseRegressor(alpha=0.1).fit(table(other=column), np.array(NUMBERS))


@pytest.mark.parametrize("kind", FILES)
def test_a_target_of_numbers_as_texts_is_refused(kind, tmp_path, capfd):
    path = FILES[kind](table(y=WAYS["separators"]), tmp_path)
    assert main(["train", path, "-m", str(tmp_path / "m.model")]) == 2
    told = capfd.readouterr().err
    assert "column 'y' has 60 texts in the first 60 rows, such as '1,000.00'" in told
    assert "write plain numbers such as 1234.5" in told and "--task classification" in told
    with pytest.raises(ValueError, match="column 'y' has 60 texts"):
        train(path)
    assert len(train(path, SparseClassifier(alpha=0.1)).model.classes_) == N  # as was said


def test_a_target_of_lines_of_text_is_refused(tmp_path):
    (tmp_path / "lines.txt").write_text("".join(f"{label}\tsome words\n" for label in WAYS["shares"]))
    with pytest.raises(ValueError, match="'10.0%'.*if they are classes, say so"):
        train(tmp_path / "lines.txt")


def test_a_target_of_few_numbers_as_texts_is_warned_of():
    y = [f"$ {k % 25}.50" for k in range(N)]
    with pytest.warns(UserWarning, match=r"column 'y' looks like numbers, such as '\$ 0.50', and is read as 25"):
        train(table(y=y), settings={"alpha": 0.1})


def test_labels_that_are_texts_of_numbers_are_refused():
    X, y = np.arange(2.0 * N).reshape(N, 2), np.array(WAYS["separators"])
    sentence = re.escape("y has 60 labels in 60 rows, such as '1,000.00': if they are quantities, write plain numbers")
    for learn in (SparseClassifier().fit, SparseClassifier().partial_fit):
        with pytest.raises(ValueError, match=sentence):
            learn(X, y.astype(object))
    model = SparseClassifier(alpha=0.1)
    with pytest.raises(ValueError, match="y has 24 labels in 24 rows"):
        for k in range(0, N, 4):
            model.partial_fit(X[k : k + 4], y[k : k + 4])
    assert model.t_ == 20
    assert len(SparseClassifier(alpha=0.1).partial_fit(X, y, classes=y).classes_) == N
    assert len(SparseClassifier(alpha=0.1).fit(X, np.unique(y, return_inverse=True)[1] // 2).classes_) == N // 2
    with pytest.raises(ValueError, match=r"write plain numbers such as 1234.5 in place of '1,000.00'"):
        SparseRegressor().fit(X, y)


def test_words_are_classes_up_to_a_thousand():
    assert of_classes([f"w{k}" for k in range(1000)], 5000) is None
    assert of_classes([f"w{k}" for k in range(1001)], 5000) == "w0"
    assert of_classes([f"w{k}" for k in range(500)], 1000) is None
    assert of_classes([f"w{k}" for k in range(501)], 1000) == "w0"
    assert of_classes([f"w{k}" for k in range(60)], 60) is None
    assert of_classes([f"{k}%" for k in range(20)], 20) is None
    assert of_classes([f"{k}%" for k in range(21)], 41) == "0%"
    assert of_classes([f"{k}%" for k in range(21)], 42) is None


def test_labels_of_a_classifier_are_classes_unless_most_rows_have_their_own():
    words, prices = [f"w{k}" for k in range(1100)], [f"{k}.50 €" for k in range(1100)]
    assert of_classes(words, 3300, is_said=True) is None and of_classes(prices, 3300, is_said=True) is None
    assert of_classes(words, 2200, is_said=True) is None and of_classes(words, 2199, is_said=True) == "w0"
    assert of_classes(words[:1000], 1000, is_said=True) is None
    assert of_classes(prices[:21], 41, is_said=True) == "0.50 €" and of_classes(prices[:21], 42, is_said=True) is None
    X, y = np.random.default_rng(0).normal(size=(2202, 2)), np.array([*words, "w1100"] * 2)
    assert len(SparseClassifier(alpha=0.5, max_iter=1).fit(X, y).classes_) == 1101
    with pytest.raises(ValueError, match="y has 1,101 labels in 2,000 rows"):
        SparseClassifier(alpha=0.5).fit(X[:2000], y[:2000])


def test_rows_that_follow_are_read_without_a_warning(tmp_path):
    frame = table(price=WAYS["separators"], y=NUMBERS)
    path, model = as_csv(frame, tmp_path), str(tmp_path / "m.model")
    with pytest.warns(UserWarning, match="looks like numbers"):
        assert main(["train", path, "-m", model, "--alpha", "0.1", "--json"]) == 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert main(["predict", model, path]) == 0
