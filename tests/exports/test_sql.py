"""SQL predicts what the model predicts, in SQLite, DuckDB and PostgreSQL: one text for all of them."""

from __future__ import annotations

import csv
import io
import os
import shutil
import signal
import sqlite3
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from sparsco import export
from sparsco.exports.reading import scorer_of
from sparsco.exports.scorer import ExportError
from support.export_cases import Case, cases, check

REFUSED = ("text", "vw", "dicts", "libsvm hashed", "table hashed", "table offset hashed", "table text")
"""The beginnings of the names of cases that SQL refuses."""


def asked() -> list[Case]:
    """The cases that are tables of numbers, booleans, categories and dates."""
    return [case for case in cases() if not case.name.startswith(REFUSED)]


def table_of(case: Case) -> pd.DataFrame:
    """The rows of a case as a table with an id; LIBSVM columns are called x1, x2, ..."""
    frame = case.frame
    if frame is None:
        frame = pd.DataFrame([{f"x{column}": value for column, value in row.items()} for row in case.rows])
    frame = frame.astype(object).where(frame.notna(), None)
    return frame.assign(**{"the id": range(len(frame))})


def query_of(case: Case) -> str:
    return export(case.model, "sql", table="my data", keep=["the id"])


def check_rows(case: Case, names: list[str], rows: list[tuple]) -> None:
    """Assert that the result of a query is what the model says."""
    scorer = scorer_of(case.model)
    found = {name: [row[k] for row in sorted(rows)] for k, name in enumerate(names)}
    assert found["the id"] == list(range(len(case.rows)))
    m = len(scorer.intercepts)
    scores = np.array([found["score"]] if m == 1 else [found[f"score_{k + 1}"] for k in range(m)], float).T
    shares = None
    if case.probabilities is not None:
        if m == 1:
            p = np.array(found["probability"], float)
            shares = np.stack([1.0 - p, p], 1)
        else:
            shares = np.array([found[f"probability_{k + 1}"] for k in range(m)], float).T
    if scorer.classes is not None:
        check(case, scores, found["label"], shares)
    elif scorer.link == "exp":
        check(case, scores, [np.inf if each is None else each for each in found["prediction"]])
    else:
        check(case, scores, scores)
        assert "prediction" not in found


def test_sqlite():
    for case in asked():
        frame, base = table_of(case), sqlite3.connect(":memory:")
        if "joined" in frame:
            frame["joined"] = [None if each is None else each.isoformat(sep=" ") for each in frame["joined"]]
        columns = ", ".join('"' + name.replace('"', '""') + '"' for name in frame.columns)
        base.execute(f'create table "my data" ({columns})')
        marks = ", ".join("?" * len(frame.columns))
        base.executemany(f'insert into "my data" values ({marks})', frame.itertuples(index=False))
        answer = base.execute(query_of(case))
        rows = answer.fetchall()
        check_rows(case, [each[0] for each in answer.description], rows)


def test_duckdb():
    duckdb = pytest.importorskip("duckdb")
    base = duckdb.connect()
    for case in asked():
        own = table_of(case).infer_objects()
        if "member" in own:
            own["member"] = own["member"].astype("boolean")
        base.register("my data", own)
        answer = base.execute(query_of(case))
        check_rows(case, [each[0] for each in answer.description], answer.fetchall())


@pytest.fixture(scope="module")
def postgres():
    """A function that runs SQL in a server of its own, which ends with the module."""
    if shutil.which("initdb") is None or shutil.which("pg_ctl") is None or shutil.which("psql") is None:
        pytest.skip("PostgreSQL is not installed")
    here = Path(tempfile.mkdtemp(prefix="sparsco-postgres-"))  # pytest's own folders are closed to other users
    as_other: list[str] = []
    if os.geteuid() == 0:  # the server refuses to run as root
        if shutil.which("setpriv") is None:
            pytest.skip("PostgreSQL does not run as root")
        as_other = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
        os.chown(here, 65534, 65534)

    def run(*line, **options):
        return subprocess.run(
            [*as_other, *line], cwd=here, check=True, capture_output=True, text=True, timeout=60, **options
        )

    try:
        run("initdb", "-D", str(here / "data"), "-U", "me", "-A", "trust", "-E", "UTF8", "--locale=C")
    except subprocess.CalledProcessError as error:
        pytest.skip(f"PostgreSQL cannot make a database here: {error.stderr[-200:]}")
    options = f"-k {here} -c listen_addresses= -c fsync=off"
    run("pg_ctl", "-D", str(here / "data"), "-w", "-l", str(here / "log"), "-o", options, "start")
    yield lambda sql: run(
        "psql", "-h", str(here), "-U", "me", "-d", "postgres", "-v", "ON_ERROR_STOP=1", "-q", input=sql
    )
    server = int((here / "data/postmaster.pid").read_text().split()[0])
    os.kill(server, signal.SIGQUIT)  # it ends at once
    shutil.rmtree(here, ignore_errors=True)


def test_postgresql(postgres):
    script, used = "", asked()
    for case in used:
        frame, to = table_of(case), io.StringIO()
        types = {"joined": "timestamp", "town": "text", "member": "boolean", "the id": "integer"}
        columns = ", ".join(f'"{name}" {types.get(name, "double precision")}' for name in frame.columns)
        writer = csv.writer(to, lineterminator="\n", quoting=csv.QUOTE_NOTNULL if hasattr(csv, "QUOTE_NOTNULL") else 0)
        for row in frame.itertuples(index=False):
            writer.writerow(
                ["\\N" if cell is None else repr(cell) if isinstance(cell, float) else cell for cell in row]
            )
        query = " ".join(line for line in query_of(case).splitlines() if not line.startswith("--"))
        script += f'drop table if exists "my data";\ncreate table "my data" ({columns});\n'
        script += f"copy \"my data\" from stdin with (format csv, null '\\N');\n{to.getvalue()}\\.\n"
        script += f"\\copy ({query}) to stdout with (format csv, header, null '\\N')\n\\echo ----\n"
    parts = postgres(script).stdout.split("----\n")
    for case, part in zip(used, parts, strict=False):
        head, *lines = list(csv.reader(io.StringIO(part)))
        labels = {str(label): label for label in scorer_of(case.model).classes or ()} | {"t": True, "f": False}

        def cell(name, text, labels=labels):
            return None if text == "\\N" else labels[text] if name == "label" else float(text)

        check_rows(case, head, [tuple(cell(name, each) for name, each in zip(head, row, strict=True)) for row in lines])


def test_what_sql_cannot_say_is_refused_in_a_sentence():
    refused = [case for case in cases() if case not in asked()]
    assert len(refused) >= 10
    for case in refused:
        with pytest.raises(ExportError) as error:
            export(case.model, "sql")
        assert str(error.value).count(".") == 1 and "\n" not in str(error.value), error.value


def test_without_exp_there_are_scores_and_a_sentence():
    for case in asked():
        if case.name in ("table exposure", "table tweedie"):
            with pytest.raises(ExportError, match="logarithm"):
                export(case.model, "sql", exp=False)
            continue
        query = export(case.model, "sql", exp=False)
        assert "exp(" not in query and "ln(" not in query
        scorer = scorer_of(case.model)
        has_link = case.probabilities is not None or scorer.link == "exp"
        assert ("Without the function exp" in query) == has_link, case.name
    base = sqlite3.connect(":memory:")
    base.execute(f"create table data ({', '.join(f'x{k} real' for k in range(12))})")
    logistic = next(case for case in cases() if case.name == "logistic")
    found = base.execute(export(logistic.model, "sql", exp=False))
    assert [each[0] for each in found.description] == ["score", "label"]


def test_a_missing_column_is_an_error_also_in_sqlite():
    logistic = next(case for case in cases() if case.name == "logistic")
    base = sqlite3.connect(":memory:")
    base.execute("create table data (x1 real)")
    with pytest.raises(sqlite3.OperationalError, match="no such column"):
        base.execute(export(logistic.model, "sql"))


def test_kept_columns_must_not_be_results():
    logistic = next(case for case in cases() if case.name == "logistic")
    with pytest.raises(ExportError, match="keep"):
        export(logistic.model, "sql", keep=["Score"])


def test_texts_that_are_no_dates_have_no_score():
    case = next(case for case in cases() if case.name == "table")
    base = sqlite3.connect(":memory:")
    base.execute("create table data (id, age, town, member, joined, size)")
    wrong = [
        "2021-02-29",
        "2021-13-01",
        "2021-1-01",
        "20210304",
        "2021-03-04 10:30:00+01:00",
        "2021-03-04 24:00",
        "x" * 10,
    ]
    for number, text in enumerate([*wrong, "2024-02-29", "2021-03-04T10:30", "0001-01-01", None, "NA"]):
        base.execute("insert into data values (?, 30, 'Ulm', 1, ?, 2)", [number, text])
    found = {number: score for number, score, *_ in base.execute(export(case.model, "sql", keep="id"))}
    assert [score is None for _, score in sorted(found.items())] == [True] * len(wrong) + [False] * 5
    assert found[len(wrong) + 3] == found[len(wrong) + 4]
