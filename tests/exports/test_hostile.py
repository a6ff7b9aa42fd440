"""No name of a column, category, word or label can break out of an export, or of an HTML page."""

from __future__ import annotations

import ast
import csv
import html.parser
import io
import json
import shutil
import sqlite3
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from sparsco import SparseClassifier, SparsePath, export, load, train
from sparsco.exports.scorer import ExportError
from sparsco.streams.description import CATEGORY, NUMBERS, Column, Description
from sparsco.training import inspection, model_files, paths
from support import number_of_streams

NASTY = [
    *[
        "'",
        '"',
        "`",
        ";",
        "--",
        "/*",
        "*/",
        "//",
        "\\",
        "\n",
        "\r\n",
        "\r",
        "\t",
        "\0x",
        "${alert(1)}",
        "{0}",
        "%s",
        "#",
    ],
    *["'''", '"""', "<script>pwned=1</script>", "</script><script>pwned=1//", "<img src=x onerror=pwned=1>", "<!--"],
    *["]]>", "&lt;", "=cmd|' /c calc'!A0", "+1+1", "-2+3", "@SUM(A1)", "??/", "??'", "??<", "\u2028", "\u2029"],
    *["\U0001f608", "\u202e", "\ufeff", "__proto__", "constructor", "P_weights", "model_weights", "\x1b[2J", "\x7f"],
    *["'; drop table victim; --", '"; drop table victim; --', "*/ int pwned = 1; /*", '"); pwned = 1; ("', "\x85"],
    *["'); pwned = 1; ('", "\\u0027; pwned = 1", "${}", "$\\frac{$"],
]
fragments = st.lists(st.sampled_from(NASTY) | st.text(max_size=6), max_size=4).map("".join)


@pytest.fixture(scope="module")
def content():
    """The fields of a small model of a table."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"n": rng.normal(size=900), "c": rng.choice(["a", "b", "c"], 900)})
    frame["y"] = np.where(frame["n"] + (frame["c"] == "a") - (frame["c"] == "b") + rng.normal(size=900) > 0, "1", "0")
    model = train(frame, target="y", settings={"alpha": 1e-3, "random_state": 0}).estimator
    return model_files.contents(model) | {"extra": {}}


def renamed(content, column, category, texts, labels):
    """The model with other names: a column of numbers, one of categories with three texts, and two labels."""
    texts = [f"{text}{k}" for k, text in enumerate(texts)]
    number, kinds = f"{column}N", f"{category}C"
    names = [number, *(f"{kinds}={text}" for text in texts)]
    columns = (Column(number, NUMBERS), Column(kinds, CATEGORY, seen=tuple(sorted(texts))))
    weights = {
        "data": np.array([0.5, -1.25, 2.0, 0.75]),
        "columns": np.arange(4),
        "ends": np.array([0, 4]),
    }
    fields = {
        "names": dict(enumerate(names)),
        "n_features": 4,
        "features": "names",
        "coef": weights,
        "columns": None,
        "sizes": None,
        "description": Description(columns, "the target"),
        "classes": np.array(sorted({f"{labels[0]}0", f"{labels[1]}1"})),
    }
    return content | fields, number, kinds, texts


def rows_of(number, kinds, texts):
    cells = [*texts, None, "unseen"]
    return [{number: float(k) - 2.0 if k < 4 else None, kinds: cell} for k, cell in enumerate(cells)]


def expected(path, rows):
    model = load(path)
    frame = pd.DataFrame(rows, dtype=object)
    frame[frame.columns[0]] = frame[frame.columns[0]].astype(float)
    frame[frame.columns[1]] = frame[frame.columns[1]].astype("str").where(frame[frame.columns[1]].notna(), None)
    return model.decision_function(frame), model.predict(frame).tolist()


class Tags(html.parser.HTMLParser):
    """The tags of a page with their attributes, without values of styles and texts."""

    def __init__(self, page):
        super().__init__()
        self.found = []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, tuple(name for name, _ in attrs)))


hostile = given(fragments, fragments, st.tuples(fragments, fragments, fragments), st.tuples(fragments, fragments))
quick = {"deadline": None, "suppress_health_check": list(HealthCheck), "phases": [Phase.explicit, Phase.generate]}


@settings(max_examples=number_of_streams(30), **quick)
@hostile
@pytest.mark.filterwarnings("ignore")
def test_python_json_csv_and_sql(content, tmp_path_factory, column, category, texts, labels):
    found, number, kinds, texts = renamed(content, column, category, texts, labels)
    path = model_files.write(tmp_path_factory.mktemp("hostile") / "m", found)
    rows = rows_of(number, kinds, texts)
    scores, predicted = expected(path, rows)

    source = export(path, "python")
    assert source.isascii()
    plain = [type(node).__name__ for node in ast.parse(export(load_plain(content, tmp_path_factory), "python")).body]
    assert [type(node).__name__ for node in ast.parse(source).body] == plain
    module: dict = {}
    exec(source, module)
    assert np.allclose([module["scores"](row)[0] for row in rows], scores, rtol=1e-12, atol=1e-12)
    assert [module["predict"](row) for row in rows] == predicted

    record, names = json.loads(export(path, "json")), list(found["names"].values())
    assert [each["name"] for each in record["features"]] == names
    lines = list(csv.reader(io.StringIO(export(path, "csv"), newline="")))
    assert all(len(line) == 2 for line in lines) and len(lines) == 6
    marks = ("=", "+", "-", "@", "\t", "\r", "'")  # a name that begins with one has an apostrophe before it
    assert [name[1:] if name.startswith("'") else name for name, _ in lines[2:]] == names
    assert all(name.startswith("'") == own.startswith(marks) for (name, _), own in zip(lines[2:], names, strict=True))
    assert not any(name.startswith(("=", "+", "-", "@", "\t", "\r")) for name, _ in lines)
    check_sql(path, found, number, kinds, rows, scores, predicted)


@settings(max_examples=number_of_streams(8), **quick)
@hostile
@pytest.mark.filterwarnings("ignore")
def test_pages(content, tmp_path_factory, column, category, texts, labels):
    found, *_ = renamed(content, column, category, texts, labels)
    check_page(found, content, tmp_path_factory)


@pytest.mark.filterwarnings("ignore")
def test_pages_of_paths(tmp_path):
    rng = np.random.default_rng(0)
    X, pages = rng.normal(size=(200, len(NASTY))), []
    y = X @ rng.normal(size=len(NASTY)) > 0
    for names in ([f"c{k}" for k in range(len(NASTY))], [f"{name}{k}" for k, name in enumerate(NASTY)]):
        path = SparsePath(SparseClassifier(random_state=0)).fit(pd.DataFrame(X, columns=names), y).path_
        page = paths.write_page(
            tmp_path / "path.html", path, float(path.alphas[-1]), dict(enumerate(names))
        ).read_text()
        pages.append([tag for tag in Tags(page).found if tag[0] not in SVG])
    assert pages[0] == pages[1] and len(pages[0]) > 100


def load_plain(content, tmp_path_factory, made=[]):  # noqa: B006
    """The same model with plain names."""
    if not made:
        fields, *_ = renamed(content, "x", "y", ("a", "b", "c"), ("no", "yes"))
        made.append(model_files.write(tmp_path_factory.mktemp("plain") / "m", fields))
    return made[0]


def check_sql(path, found, number, kinds, rows, scores, predicted):
    names = [*found["names"].values(), *found["classes"].tolist()]
    try:
        query = export(path, "sql")
    except ExportError as error:
        assert any("\0" in name or not is_utf8(name) for name in names), error
        return
    base = sqlite3.connect(":memory:")
    base.execute("create table victim (x)")
    quoted = ['"' + name.replace('"', '""') + '"' for name in (number, kinds)]
    base.execute(f"create table data ({', '.join(quoted)})")
    base.executemany("insert into data values (?, ?)", [tuple(row.values()) for row in rows])
    answer = base.execute(query).fetchall()  # one statement, or an error
    assert np.allclose([row[0] for row in answer], scores, rtol=1e-12, atol=1e-12)
    assert [row[-1] for row in answer] == predicted
    assert base.execute("select count(*) from victim").fetchall() == [(0,)]


def is_utf8(text):
    try:
        return bool(text.encode()) or True
    except UnicodeEncodeError:
        return False


def check_page(found, content, tmp_path_factory, made=[]):  # noqa: B006
    here = tmp_path_factory.mktemp("page")
    if not made:
        fields, *_ = renamed(content, "x", "y", ("a", "b", "c"), ("no", "yes"))
        made.append(Tags(inspection.write_page(here / "plain.html", fields, 20).read_text()).found)
        made.append(Tags(model_files.restored(fields).summary()._repr_html_()).found)
    page = inspection.write_page(here / "page.html", found, 20).read_text()
    assert [tag for tag in Tags(page).found if tag[0] not in SVG] == [tag for tag in made[0] if tag[0] not in SVG]
    assert all(each in SVG for each, _ in set(Tags(page).found) - set(made[0]))
    assert Tags(model_files.restored(found).summary()._repr_html_()).found == made[1]


SVG = {"svg", "g", "path", "use", "defs", "clippath", "rect", "style", "text", "metadata"}
"""The tags of plots, in which names are outlines: there are as many as letters."""


def combinations():
    """Names made of nasty pieces: every piece is in some name."""
    rng = np.random.default_rng(0)

    def mixed(first):
        return first + "".join(rng.choice(NASTY, int(rng.integers(0, 3))).tolist())

    for k in range(0, len(NASTY), 2):
        one, other = NASTY[k], NASTY[k + 1 - (k + 1 == len(NASTY))]
        yield mixed(one), mixed(other), (mixed(other), mixed(one), one + other), (mixed(one), mixed(other))


@pytest.fixture(scope="module")
def many(content, tmp_path_factory):
    """Models with hostile names, their rows, and what is expected."""
    here, made = tmp_path_factory.mktemp("many"), []
    for k, names in enumerate(combinations()):
        fields, number, kinds, texts = renamed(content, *names)
        path = model_files.write(here / f"m{k}", fields)
        rows = rows_of(number, kinds, texts)
        made.append((path, fields, rows, *expected(path, rows)))
    return here, made


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
@pytest.mark.filterwarnings("ignore")
def test_javascript(many):
    here, made = many
    run = "import fs from 'node:fs'; const all = [];\n"
    for k, (path, _, rows, *_) in enumerate(made):
        source = export(path, "js")
        assert source.isascii() and "<" not in source[: source.index("\n\n")]
        (here / f"m{k}.mjs").write_text(source)
        (here / f"r{k}.json").write_text(json.dumps([list(row.items()) for row in rows]))
        run += f"import * as m{k} from './m{k}.mjs';\n"
        run += f"all.push(JSON.parse(fs.readFileSync('r{k}.json')).map((row) => new Map(row)).map("
        run += f"(row) => [m{k}.scores(row)[0], m{k}.predict(row)]));\n"
    run += "if (globalThis.pwned !== undefined || ({}).a !== undefined) throw 1; console.log(JSON.stringify(all));\n"
    (here / "run.mjs").write_text(run)
    done = subprocess.run(["node", "run.mjs"], cwd=here, capture_output=True, text=True, check=True)
    for (_, _, _, scores, predicted), found in zip(made, json.loads(done.stdout), strict=True):
        assert np.allclose([each for each, _ in found], scores, rtol=1e-12, atol=1e-12)
        assert [label for _, label in found] == predicted


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler is installed")
@pytest.mark.filterwarnings("ignore")
def test_c(many):
    here, made = many
    source = "#include <stdio.h>\n"
    main = ""
    for k, (
        path,
        *_,
    ) in enumerate(made):
        text = export(path, "c", prefix=f"m{k}")
        assert text.isascii() and "??" not in text
        assert text.count("/*") == text.count("*/")
        source += text
        main += (
            f"  for (size_t i = 0; i < m{k}_FEATURES; i++) {{ fputs(m{k}_feature_names[i], stdout); putchar(1); }}\n"
        )
        main += f"  for (size_t i = 0; i < 2; i++) {{ fputs(m{k}_labels[i], stdout); putchar(1); }}\n"
    (here / "all.c").write_text(source + "int main(void) {\n" + main + "  return 0;\n}\n")
    flags = "-std=c99 -O2 -Wall -Wextra -Werror -Wtrigraphs".split()
    subprocess.run(["cc", *flags, "all.c", "-o", "all", "-lm"], cwd=here, check=True)
    found = subprocess.run(["./all"], cwd=here, capture_output=True, check=True).stdout.split(b"\1")[:-1]
    names = [name for _, fields, *_ in made for name in [*fields["names"].values(), *fields["classes"].tolist()]]
    expected_bytes = [name.encode("utf-8", "surrogateescape").partition(b"\0")[0] for name in names]
    assert found == expected_bytes


@pytest.mark.filterwarnings("ignore")
def test_duckdb_and_onnx(many):
    duckdb, onnx = pytest.importorskip("duckdb"), pytest.importorskip("onnx")
    _, made = many
    for path, fields, rows, scores, predicted in made:
        props = {each.key: each.value for each in onnx.load_from_string(export(path, "onnx")).metadata_props}
        assert json.loads(props["features"]) == list(fields["names"].values())
        if any("\0" in name for name in [*fields["names"].values(), *fields["classes"].tolist()]):
            continue
        base = duckdb.connect()
        base.execute("create table victim (x integer)")
        quoted = ['"' + name.replace('"', '""') + '"' for name in rows[0]]
        base.execute(f"create table data ({quoted[0]} double, {quoted[1]} text)")
        base.executemany("insert into data values (?, ?)", [list(row.values()) for row in rows])
        answer = base.execute(export(path, "sql")).fetchall()
        assert np.allclose([row[0] for row in answer], scores, rtol=1e-12, atol=1e-12)
        assert [row[-1] for row in answer] == predicted
        assert base.execute("select count(*) from victim").fetchall() == [(0,)]


def test_prefix_and_table_names():
    X = np.random.default_rng(0).normal(size=(200, 5))
    from sparsco import SparseRegressor

    model = SparseRegressor(alpha=0.1, random_state=0).fit(X, X[:, 3])
    for prefix in ("", "1a", "a-b", "a;b", "a b", "ä", "a\n"):
        with pytest.raises(ExportError, match="prefix"):
            export(model, "c", prefix=prefix)
    query = export(model, "sql", table='x"; drop table y; --')
    assert 'from "x""; drop table y; --" as d' in query
    assert sys.version_info >= (3, 11)
