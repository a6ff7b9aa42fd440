"""Tables: one description of columns, and the same answer for the same record whichever door it comes through."""

from __future__ import annotations

import copy
import datetime as dt
import decimal
import json
import math
import pickle
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparsco import SparseClassifier, load, open_stream, save, train
from sparsco.cli import main
from sparsco.streams import convert, csv_text, description, tables
from sparsco.streams.description import Column, Description, from_json, rare_categories, to_json
from sparsco.streams.encoding import Unknown, entries
from sparsco.streams.protocol import StreamError
from sparsco.streams.records import record_entries
from sparsco.training import model_files
from sparsco.training.scoring import opened_for
from support import number_of_streams

pd = pytest.importorskip("pandas")
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
pl = pytest.importorskip("polars")

FAST = {"alpha": 1e-3, "optimizer": "nftrl", "conversion": "last", "random_state": 0}
UTC = dt.UTC
NAMES = [
    "age",
    "a=b",
    "age?",
    "when:month",
    "名前",
    "with,comma",
    'quo"te',
    " lead",
    "=",
    "x\ny",
    "?",
    "*",
    "é" * 50,
    "0",
]


def with_holes(rng, values, share):
    return [None if rng.random() < share else value for value in values]


def column_of(rng, kind, n, is_new):
    """Return the cells of a column of a kind; new rows have categories of their own."""
    share = float(rng.choice([0.0, 0.0, 0.1, 0.5]))
    words = ["red", "Blue", "green ", "naïve", "a,b", "NA", 'say "no"', *(["unseen", "neu"] if is_new else [])]
    stamps = [dt.datetime(2021, 1, 1) + dt.timedelta(seconds=int(s)) for s in rng.integers(-(10**8), 10**8, n)]
    zone = dt.timezone(dt.timedelta(hours=2))
    cells, type = {
        "int": (rng.integers(-5, 100, n).tolist(), pa.int64()),
        "uint8": (rng.integers(0, 255, n).tolist(), pa.uint8()),
        "huge": ((rng.integers(0, 9, n) + 2**60).tolist(), pa.int64()),
        "float": (rng.normal(size=n).tolist(), pa.float64()),
        "float32": ((rng.integers(-64, 64, n) / 16).tolist(), pa.float32()),
        "decimal": ([decimal.Decimal(int(k)) / 1000 for k in rng.integers(-9999, 9999, n)], pa.decimal128(9, 3)),
        "bool": ((rng.random(n) < 0.4).tolist(), pa.bool_()),
        "word": (rng.choice(words, n).tolist(), pa.string()),
        "dictionary": (rng.choice(words, n).tolist(), pa.dictionary(pa.int8(), pa.string())),
        "date": ([stamp.date() for stamp in stamps], pa.date32()),
        "stamp": (stamps, pa.timestamp("us")),
        "seconds": (stamps, pa.timestamp("s")),
        "zoned": ([stamp.replace(tzinfo=zone) for stamp in stamps], pa.timestamp("us", "Europe/Berlin")),
        "null": ([None] * n, pa.null()),
    }[kind]
    return pa.array(with_holes(rng, cells, share), type)


def table_of(seed, n, is_new):
    """Return a table of columns of many kinds, the same ones for each seed."""
    kinds = "int uint8 huge float float32 decimal bool word dictionary date stamp seconds zoned null".split()
    own = np.random.default_rng(seed)
    chosen = own.choice(kinds, 8).tolist()
    names = own.permutation(NAMES)[:8].tolist()
    rng = np.random.default_rng([seed, is_new])
    return pa.table({name: column_of(rng, kind, n, is_new) for name, kind in zip(names, chosen, strict=True)})


def as_csv(table, path):
    table.to_pandas().to_csv(path, index=False)
    return path


@pytest.mark.parametrize("seed", range(50))
def test_a_record_has_the_same_answer_through_every_door(seed, tmp_path):
    rng, n = np.random.default_rng(seed), 80
    table, new = table_of(seed, n, False), table_of(seed, 30, True)
    labels = pa.array(np.where(rng.random(n) < 0.5, "yes", "no"))
    path = as_csv(table.append_column("y", labels), tmp_path / "old.csv")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trained = train(path, target="y", settings=FAST, shuffle=False)
        save(trained.estimator, tmp_path / "m")
        model, content = load(tmp_path / "m"), model_files.read(tmp_path / "m")
        frame = new.to_pandas()
        pq.write_table(new, tmp_path / "new.parquet")
        with pa.ipc.new_stream(tmp_path / "new.arrow", new.schema) as writer:
            writer.write_table(new, 7)
        found = {
            "pandas": model.decision_function(frame),
            "pandas of numpy's types": model.decision_function(frame.convert_dtypes()),
            "polars": model.decision_function(pl.from_arrow(new)),
            "arrow": model.decision_function(new),
            "in the other order": model.decision_function(new.select(new.column_names[::-1])),
            "before it was saved": trained.estimator.decision_function(frame),
            "pickled": pickle.loads(pickle.dumps(model)).decision_function(frame),
        }
        for name in ("new.csv", "new.parquet", "new.arrow"):
            if name == "new.csv":
                as_csv(new, tmp_path / name)
            own, stream = opened_for(content, tmp_path / name, False)
            found[name] = np.concatenate([own.margins_of(chunk.matrix)[:, 0] for chunk in stream])
        for name, records in (("dicts", new.to_pylist()), ("dicts of pandas", frame.to_dict("records"))):
            found[name] = np.array([model._margins_one(record)[0] for record in records])
            assert [model.predict_one(record) for record in records] == model.predict(new).tolist()
    for name, margins in found.items():
        assert margins.tobytes() == found["arrow"].tobytes(), name
    assert len(model.fit_state.features) > 0


@pytest.mark.parametrize("seed", range(4))
def test_a_description_and_its_rows_do_not_depend_on_the_door_or_the_cut(seed, tmp_path, monkeypatch):
    table = table_of(seed, 300, False).append_column("y", pa.array(np.arange(300) % 2))
    path = as_csv(table, tmp_path / "t.csv")
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=50)
    monkeypatch.setattr(csv_text, "_SAMPLE", 1 << 16)

    def rows_of(source, **options):
        stream = open_stream(source, target="y", **options)
        chunks = list(stream)
        data = np.concatenate([chunk.data for chunk in chunks])
        return len(chunks), stream.description, dict(stream.names), data.tobytes()

    expected = rows_of(table)
    kinds = {each.name: each.kind for each in expected[1].columns}
    for source in (path, tmp_path / "t.parquet", table.to_pandas(), pl.from_arrow(table)):
        assert rows_of(source)[2:] == expected[2:]
    monkeypatch.setattr(tables, "_ROWS", 7)
    for source in (tmp_path / "t.parquet", table):
        assert rows_of(source)[0] > 1 and rows_of(source)[1:] == expected[1:]
    monkeypatch.setattr(csv_text, "_SAMPLE", 1 << 12)  # of which the first rows are those of CSV
    in_one, cut = rows_of(path, block_bytes=1 << 20), rows_of(path, block_bytes=1)
    assert in_one[0] == 1 < cut[0] and in_one[1:] == cut[1:]
    assert {each.name: each.kind for each in cut[1].columns} == kinds


CELLS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**62), 2**62),
    st.floats(-1e70, 1e70),
    st.just(math.nan),
    st.sampled_from(["", "NA", "red", "other", "1", "1.5", "true", " 2 ", "2021-03-04", "2021-03-04T10:30:00+01:00"]),
    st.text(max_size=3).filter(lambda text: "\x00" not in text and text.isprintable()),
    st.dates(dt.date(1700, 1, 1), dt.date(2200, 1, 1)),
    st.datetimes(dt.datetime(1700, 1, 1), dt.datetime(2200, 1, 1)),
    st.datetimes(dt.datetime(1700, 1, 1), dt.datetime(2200, 1, 1), timezones=st.just(UTC)),
    st.decimals(-1000, 1000, places=2),
)
COLUMNS = st.builds(
    Column,
    st.just("c"),
    st.sampled_from([description.NUMBERS, description.CATEGORY, description.BOOLEAN, description.DATE]),
    st.sampled_from(description.MISSING_AS),
    fill=st.sampled_from([0.0, 2.5]),
    origin=st.integers(-100, 20_000),
    rare=st.sampled_from([(), ("red", "1")]),
    seen=st.sampled_from([None, ("1", "red", "x")]),
    had_holes=st.sampled_from([None, True, False]),
)


@settings(max_examples=number_of_streams(400), deadline=None)
@given(COLUMNS, CELLS, st.booleans())
def test_a_cell_of_a_dict_is_that_of_a_column(column, cell, predicts):
    described, told = Description((column,)), [Unknown() if predicts else None for _ in range(2)]
    cells = pa.array([cell])

    def by_column():
        _, _, values, names_of = entries(lambda _: cells, 1, described, 0, told[0])
        return names_of(np.arange(len(values))), values.tolist()

    found = []
    for read in (by_column, lambda: record_entries({"c": cell}, described, told[1])):
        try:
            found.append(read())
        except Exception as error:
            found.append(str(error).removeprefix("x: ").rstrip(".").partition(":")[0].partition(" is ")[0])
    if isinstance(found[0], str):
        assert isinstance(found[1], str) and found[1].startswith("column 'c' has")
    else:
        assert found[0] == found[1]
    if predicts:
        assert told[0].sentence() == told[1].sentence()


@pytest.mark.parametrize(
    ("missing", "value"), [("zero", {}), ("mean", {"x": 2.0}), ("indicator", {"x": 2.0, "x?": 1.0})]
)
def test_what_a_missing_cell_becomes(missing, value):
    table = pa.table({"x": [1.0, None, 3.0, float("nan")], "k": ["a", None, "", "b"], "y": [0, 1, 0, 1]})
    stream = open_stream(table, missing=missing)
    (chunk,) = stream
    rows = [
        {stream.names[j]: v for j, v in zip(chunk.indices[a:b], chunk.data[a:b], strict=True)}
        for a, b in zip(chunk.indptr[:-1], chunk.indptr[1:], strict=True)
    ]
    hole = {"k?": 1.0} if missing == "indicator" else {}
    assert rows == [{"x": 1.0, "k=a": 1.0}, value | hole, {"x": 3.0} | hole, value | {"k=b": 1.0}]
    with pytest.raises(StreamError, match="the table, row 2: column 'x' has no number: fill it in, or give missing="):
        list(open_stream(table, schema={"x": "numbers:refuse"}))
    with pytest.raises(StreamError, match="row 4: column 'y' has no number: every row needs one"):
        list(open_stream(pa.table({"x": [1.0] * 4, "y": [0.0, 1.0, 0.0, None]})))
    with pytest.raises(StreamError, match="row 2: column 'y' is empty: every row needs a label"):
        list(open_stream(pa.table({"x": [1.0] * 2, "y": ["a", None]})))


def test_dates_are_days_months_and_weekdays_of_utc():
    zone = dt.timezone(dt.timedelta(hours=-3))
    when = [dt.datetime(2021, 3, 4, 22, 30, tzinfo=zone), dt.datetime(2021, 3, 4, 12, tzinfo=UTC), None]
    table = pa.table({"when": pa.array(when, pa.timestamp("ns", "America/Bahia")), "y": [0, 1, 0]})
    stream = open_stream(table)
    (chunk,) = stream
    names = ["when", "when:month=3", "when:weekday=Fri", "when:weekday=Thu", "when?"]
    assert list(stream.names.values()) == names  # half past one in the night of Friday, in UTC
    assert chunk.data.tolist() == [1.0 + 1.5 / 24, 1.0, 1.0, 0.5, 1.0, 1.0, (1.5 + 1.5 / 24) / 2, 1.0]
    line = "when: date, as days since 2021-03-04, month and weekday, 33% missing as the mean 0.7812 with an indicator"
    assert stream.description.columns[0].line() == line + " when?"
    for text, wrong in (("2021-13-04", True), ("04.03.2021", True), ("2021-03-04 10:00", False)):
        mixed = pa.table({"when": ["2021-03-04", text], "y": [0, 1]})
        stream = open_stream(mixed, schema={"when": "date"})
        if wrong:
            with pytest.raises(StreamError, match=f"row 2: column 'when' has '{text}', which is not a date such as"):
                list(stream)
        else:
            assert len(list(stream)) == 1


def test_rare_categories_are_pooled_and_a_sorted_table_is_not(tmp_path):
    rng = np.random.default_rng(0)
    words = np.where(rng.random(1500) < 0.8, "common", [f"w{k}" for k in range(1500)])
    frame = pd.DataFrame({"word": words, "y": (words == "common").astype(int)})
    stream = open_stream(frame)
    list(stream)
    (column,) = stream.description.columns
    first = {word for word in words[:500] if word != "common"}
    assert set(column.rare) == first and "word=other" in stream.names.values()
    assert column.line() == f"word: category, {len(first)} rare ones pooled as word=other"
    apart = open_stream(frame, schema={"word": "category:every"})
    list(apart)
    assert apart.description.columns[0].rare == () and len(apart.names) == len(set(words))
    ordered = pd.DataFrame({"k": np.repeat(["a", "b", "c", "d"], [997, 1200, 3, 800]), "y": np.arange(3000) % 2})
    stream = open_stream(ordered)
    list(stream)
    assert list(stream.names.values()) == ["k=a", "k=b", "k=c", "k=d"]
    assert rare_categories(["a"] * 999) == rare_categories(["a", "b"] * 500) == ()
    few = ["x", "u", "v", "w", "z"]
    assert rare_categories([*few, "b", "b", *["a"] * 993]) == ("u", "v", "w", "x", "z")
    assert rare_categories(["a"] * 995 + few) == rare_categories([*few[1:], *["a"] * 996]) == ()


def income(n=2400):
    rng = np.random.default_rng(0)
    age = rng.integers(18, 80, n).astype(float)
    marital = rng.choice(["Married", "Single", "Divorced"], n)
    score = age / 30 + 2.0 * (marital == "Married") + rng.logistic(size=n)
    towns = [f"town {k}" if k % 40 == 0 else "Ulm" for k in range(n)]
    return pd.DataFrame({"age": age, "marital": marital, "town": towns, "income": np.where(score > 3, ">50K", "<=50K")})


def inspected(path, capsys):
    capsys.readouterr()
    assert main(["inspect", path]) == 0
    return capsys.readouterr().out


def test_what_the_training_had_not_is_counted_in_one_warning(tmp_path, capsys, monkeypatch):
    frame = income()
    frame.to_csv(tmp_path / "income.csv", index=False)
    monkeypatch.chdir(tmp_path)
    assert main(["train", "income.csv", "--target", "income", "-m", "m", "--quiet", "--alpha", "0.0005"]) == 0
    out = capsys.readouterr().out
    lines = ["age: numbers", "marital: category", "town: category, 13 rare ones pooled as town=other"]
    assert "".join(f"chosen: {line}\n" for line in lines) in out
    new = frame.head(5).drop(columns="income")
    new["marital"] = ["Widowed", "Married", "Widowed", "Single", None]
    new["town"], new["age"] = ["Rom", "Ulm", "Ulm", "town 0", "Ulm"], [30, None, 40, 50, 60]
    new.to_csv("new.csv", index=False)
    sentence = (
        "column 'marital' has categories that were not in training, Widowed, in 2 rows: they have no weight; column "
        "'town' has categories that were not in training, Rom, in 1 row: they count as town=other; column 'age' was "
        "never missing in training and is in 1 row: its mean 49.49 stands for it; column 'marital' was never missing "
        "in training and is in 1 row."
    )
    model = load("m")
    with pytest.warns(UserWarning) as told:
        found = model.predict_proba(new)
    assert [str(each.message) for each in told] == [sentence]
    with pytest.warns(UserWarning) as told:
        assert main(["predict", "m", "new.csv", "--probability", "--digits", "17", "-o", "p.tsv"]) == 0
    assert [str(each.message) for each in told] == [sentence]
    assert "column town: category, 13 rare ones pooled as town=other\n" in inspected("m", capsys)
    assert np.loadtxt("p.tsv", skiprows=1).tobytes() == found.tobytes()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert model.predict_one({"marital": "Married", "age": 37, "town": "Ulm"}) == ">50K"
        model.predict(frame)


def test_columns_that_are_missing_extra_twice_or_of_another_type():
    frame = income()
    model = train(frame, target="income", settings=FAST).estimator
    expected = model.predict(frame)
    assert (model.predict(frame.assign(more=1.0, y=[[1]] * len(frame), mixed=[1, "a"] * 1200)) == expected).all()
    constant = train(frame, target="income", settings=FAST | {"alpha": 10.0}).estimator
    assert constant.n_selected_ == 0 and len(set(constant.predict(frame[["town"]]))) == 1
    for wrong, sentence in [
        (
            frame.drop(columns="age"),
            "the table has no column 'age', a feature of the model: there are marital, town, income.",
        ),
        (frame.assign(age="old"), "the table, row 1: column 'age' has 'old', which is not a number: repair it, .*"),
        (frame.assign(age=pd.Timestamp("2021-03-04")), "the table, row 1: column 'age' has the type timestamp.*"),
        (frame.assign(age=1e80), "the table, row 1: column 'age' has 1e.80: numbers must be finite and at most 1e75."),
        (frame.assign(marital=[[1]] * len(frame)), "the table, row 1: column 'marital' of type list.*"),
        (frame.assign(town=[1, "a"] * 1200), "the table: column 'town' has values of several types: convert it, .*"),
        (pd.concat([frame, frame], axis=1), "the table: two columns have the name 'age': rename one."),
        (pl.from_pandas(frame).lazy(), "source is a LazyFrame, not a table: .*"),
    ]:
        with pytest.raises(ValueError, match=f"^{sentence}$"):
            model.predict(wrong)
    for record, sentence in [
        ({"age": "old"}, "x: column 'age' has 'old', which is not a number: .*"),
        ({"age": math.inf}, "x: column 'age' has inf: numbers must be finite and at most 1e75."),
        ({"age": 10**400}, "x: column 'age' has inf: .*"),
        ({"marital": [1]}, "x: column 'marital' .*"),
        ({"marital": object()}, "x: column 'marital' has a object, which is not a cell of a table."),
    ]:
        with pytest.raises(ValueError, match=f"^{sentence}$"):
            model.predict_one({"age": 1, "marital": "Single", "town": "Ulm"} | record)
    twice = pa.table([pa.array([1.0]), pa.array([2.0]), pa.array([0])], names=["a", "a", "y"])
    with pytest.raises(StreamError, match="two columns have the name 'a': rename one"):
        open_stream(twice)
    empty = frame.head(0)
    assert model.predict(empty).shape == (0,) and model.predict_proba(empty).shape == (0, 2)
    with pytest.raises(ValueError, match="the source has no rows: there is nothing to learn from"):
        train(empty, target="income")


def test_a_table_that_narwhals_reads():
    narwhals, frame = pytest.importorskip("narwhals"), income(600)
    model = train(narwhals.from_native(frame), target="income", settings=FAST, shuffle=False).estimator
    expected = train(frame, target="income", settings=FAST, shuffle=False).estimator.decision_function(frame)
    for native in (frame, pl.from_pandas(frame)):
        assert model.decision_function(narwhals.from_native(native)).tobytes() == expected.tobytes()


def test_columns_of_smaller_models_are_not_needed(tmp_path, capsys, monkeypatch):
    frame = income()
    frame["noise"] = np.random.default_rng(1).normal(size=len(frame))
    frame.to_csv(tmp_path / "t.csv", index=False)
    monkeypatch.chdir(tmp_path)
    assert main(["train", "t.csv", "--target", "income", "-m", "m", "--quiet"]) == 0
    content = model_files.read("m")
    used = {content["names"][column] for column in content["coef"]["columns"].tolist()}
    assert used == {"age", "marital=Married"} < set(content["names"].values())
    new = frame[["marital", "age"]].head(4)
    new.to_csv("new.csv", index=False)
    capsys.readouterr()
    assert main(["predict", "m", "new.csv"]) == 0
    assert capsys.readouterr().out.split() == load("m").predict(new).tolist()


def test_hashed_tables_have_every_door_too(tmp_path):
    frame = income()
    trained = train(frame, target="income", hash_bits=12, settings=FAST, shuffle=False)
    save(trained.estimator, tmp_path / "h")
    model, new = load(tmp_path / "h"), frame.head(20).assign(marital=[*["Married"] * 19, "new"])
    expected = trained.estimator.decision_function(new)
    assert expected.tobytes() == model.decision_function(pl.from_pandas(new)).tobytes()
    by_dict = [model._margins_one(record)[0] for record in new.to_dict("records")]
    assert np.array(by_dict).tobytes() == expected.tobytes() and expected.std() > 0.1


def test_a_stream_of_a_table_goes_on_with_dicts(tmp_path):
    frame = income(1500)
    model = train(frame, target="income", settings=FAST, shuffle=False).estimator
    with pytest.warns(UserWarning, match="'marital' has categories that were not in training, Widowed, in 1 row"):
        model.predict_one({"age": 40, "marital": "Widowed", "town": "Ulm"})
    save(model, tmp_path / "m", training=True)
    record = {"age": 40, "marital": "Widowed", "town": "Ulm"}
    for going_on in (model, load(tmp_path / "m", training=True)):
        for _ in range(300):
            going_on.learn_one(record, "<=50K")
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # it is known now
            assert going_on.predict_proba_one(record)["<=50K"] > 0.9
            assert going_on.predict(pd.DataFrame([record])).tolist() == ["<=50K"]
        assert going_on.t_ == 1800
    expected = model.decision_function(frame)
    assert going_on.decision_function(frame).tobytes() == expected.tobytes()
    assert load(save(model, tmp_path / "n")).decision_function(frame).tobytes() == expected.tobytes()


def test_dicts_of_texts_need_no_table():
    model, twin = SparseClassifier(alpha=0.001), SparseClassifier(alpha=0.001)
    frame = income(600)
    for age, marital, label in zip(frame.age, frame.marital, frame.income, strict=True):
        model.learn_one({"age": age, "marital": marital, "town": None}, label)
        twin.learn_one({"age": age, f"marital={marital}": 1.0}, label)
    assert model.feature_names_.tolist() == twin.feature_names_.tolist() and "marital=Married" in model.feature_names_
    assert model.coef_.tobytes() == twin.coef_.tobytes() and model.n_selected_ > 1
    record = {"age": 40.0, "marital": "Married"}
    assert model.predict_proba_one(record) == twin.predict_proba_one({"age": 40.0, "marital=Married": 1.0})
    with pytest.raises(ValueError, match="x has a value that is neither a number nor a text"):
        model.learn_one({"age": [1]}, "<=50K")
    with pytest.raises(ValueError, match="x has a value that is not finite"):
        model.learn_one({"age": math.nan, "marital": "Single"}, "<=50K")
    assert model.t_ == 600


def test_a_cache_and_a_file_of_before_keep_their_columns(tmp_path):
    frame = income()
    frame.to_csv(tmp_path / "t.csv", index=False)
    convert(tmp_path / "t.csv", tmp_path / "t.cache", target="income")
    model = train(tmp_path / "t.cache", settings=FAST, shuffle=False).estimator
    direct = train(frame, target="income", settings=FAST, shuffle=False).estimator
    assert model.decision_function(frame).tobytes() == direct.decision_function(frame).tobytes()
    content = model_files.contents(direct) | {"extra": {}}
    kinds = {"age": "numeric", "marital": "categorical", "town": "categorical", "income": "categorical"}
    old = {name: value for name, value in content.items() if name != "description"}
    old["extra"] = {"reader": {"schema": kinds, "target": "income"}}
    earlier = model_files.restored(old)
    found = earlier.fit_state.described.description
    assert [(each.kind, each.missing, each.rare) for each in found.columns] == [
        ("numbers", "refuse", ()),
        ("category", "refuse", ()),
        ("category", "refuse", ()),
    ]
    assert earlier.margins_of_table(frame[:400]).shape == (400, 1)
    with pytest.raises(StreamError, match="column 'age' has no number"):
        earlier.margins_of_table(frame.head(3).assign(age=None))
    described = content["description"]
    assert from_json(json.loads(json.dumps(described))) == described == from_json(to_json(described))
    for wrong in (described._replace(columns=described.columns[:1] * 2), {"columns": []}):
        with pytest.raises(ValueError, match="its description of columns is wrong|two columns have the same name"):
            model_files.write(tmp_path / "w", content | {"description": wrong})
    assert not (tmp_path / "w").exists()


def test_huge_and_hostile_categories(tmp_path):
    words = [
        "x" * 100_000,
        "=",
        "a=b",
        "?",
        "other",
        "\x1b[31m",
        "a\nb",
        "ß",
    ]
    frame = pd.DataFrame({"k": words * 40, "y": [len(word) % 2 for word in words] * 40})
    model = train(frame, settings=FAST | {"alpha": 1e-5}).estimator
    assert (model.predict(frame) == frame["y"]).all()
    save(model, tmp_path / "m")
    again = load(tmp_path / "m")
    assert [again.predict_one({"k": word}) for word in words] == again.predict(frame).tolist()[: len(words)]


def test_columns_of_texts_have_every_door_too(tmp_path):
    frame = income(600)
    frame["about"] = [f"{'buy now' if k % 3 else 'see you'} {k % 5} {label}" for k, label in enumerate(frame.income)]
    frame.to_csv(tmp_path / "t.csv", index=False)
    trained = train(tmp_path / "t.csv", target="income", text="about", settings=FAST, shuffle=False)
    model = load(save(trained.estimator, tmp_path / "m"))
    assert "about: text, words" in trained.notes
    new = frame.drop(columns="income").head(30)
    new.loc[3, "about"] = None
    new.to_csv(tmp_path / "new.csv", index=False)
    new.to_json(tmp_path / "new.jsonl", orient="records", lines=True)
    expected = model.decision_function(new)
    by_dict = np.array([model._margins_one(record)[0] for record in new.to_dict("records")])
    assert expected.tobytes() == model.decision_function(pl.from_pandas(new)).tobytes() == by_dict.tobytes()
    for name in ("new.csv", "new.jsonl"):
        own, stream = opened_for(model_files.read(tmp_path / "m"), tmp_path / name, False)
        assert np.concatenate([own.margins_of(chunk.matrix)[:, 0] for chunk in stream]).tobytes() == expected.tobytes()
    assert any(name.startswith("about:") for name in model.feature_names_)
    assert from_json(to_json(trained.stream.description)) == trained.stream.description


def test_a_text_between_other_columns_gives_a_dict_the_bits_of_its_frame():
    rng = np.random.default_rng(0)
    words = np.array(["buy", "now", "hello", "you", "cheap", "friend"])
    frame = pd.DataFrame(
        {
            "age": rng.normal(size=600),
            "message": [" ".join(rng.choice(words, 5)) for _ in range(600)],
            "town": rng.choice(["Trier", "Ulm"], 600),
            "size": rng.normal(size=600) / 3.0,
        }
    )
    frame["label"] = frame["message"].str.contains("buy") & (frame["age"] + frame["size"] > 0.0)
    model = train(frame, target="label", text="message", settings={"alpha": 0.001, "random_state": 0}).estimator
    rows = frame.drop(columns="label")
    one_by_one = [model.predict_proba_one(record)[True] for record in rows.head(200).to_dict("records")]
    assert np.array_equal(one_by_one, model.predict_proba(rows.head(200))[:, 1])


def test_a_frame_goes_on_by_its_description():
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(300, 3)), columns=["age", "height", "width"])
    frame["label"] = frame["age"] > 0.0
    model = train(frame, target="label", settings={"alpha": 0.01, "random_state": 0}).estimator
    other = copy.deepcopy(model).partial_fit(frame[["width", "height", "age"]], frame["label"])
    model.partial_fit(frame[["age", "height", "width"]], frame["label"])
    assert np.array_equal(model.coef_, other.coef_) and np.flatnonzero(model.coef_)[0] == 0


def test_a_category_of_texts_is_doubted():
    rng = np.random.default_rng(0)
    words = np.array(["buy", "now", "hello", "friend", "cheap", "offer"])
    frame = pd.DataFrame({"message": [" ".join(rng.choice(words, 8)) for _ in range(1200)]})
    frame["town"] = [f"town {k}" for k in range(1200)]
    frame["label"] = frame["message"].str.contains("buy")
    lines = open_stream(frame, target="label").description.lines()
    assert lines[0].endswith("which look like texts: --text message makes words of them")
    assert "look like texts" not in lines[1]


def test_a_trained_estimator_names_the_features_of_its_table():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.normal(size=500), "town": rng.choice(["Trier", "Ulm"], 500)})
    frame["label"] = (frame["town"] == "Ulm") ^ (rng.random(500) < 0.1)
    model = train(frame, target="label", settings={"alpha": 0.01, "random_state": 0}).estimator
    assert model.summary().lines[0].name in ("town=Trier", "town=Ulm")
    assert set(model.intervals(0.9)["feature"]) <= {"age", "town=Trier", "town=Ulm"}
    model.learn_one({"age": 0.5, "town": "Rome"}, True)
    assert model.t_ == 501 and model.summary().lines
    assert "town=Rome" in model.names_of_slots(np.arange(model.n_features_in_))
