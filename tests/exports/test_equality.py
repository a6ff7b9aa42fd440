"""Every export predicts what the model predicts: Python in a fresh interpreter, node, the system's C compiler."""

from __future__ import annotations

import datetime
import json
import shutil
import struct
import subprocess
import sys

import numpy as np
import pytest

from sparsco import export
from sparsco.exports.reading import scorer_of
from sparsco.exports.scorer import COLUMNS, NAMES, TABLE, Category, Date, Text
from support.export_cases import Case, cases, check

_PYTHON = """
import importlib.util, json, sys
for number in range(int(sys.argv[2])):
    spec = importlib.util.spec_from_file_location(f"m{number}", f"{sys.argv[1]}/m{number}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    rows, asks = json.load(open(f"{sys.argv[1]}/rows{number}.json"))
    rows = [{int(k) if k.isdigit() and asks["columns"] else k: v for k, v in r.items()} if isinstance(r, dict) else r
            for r in rows]
    found = [[module.scores(row), module.predict(row)] for row in rows]
    shares = [module.probabilities(row) for row in rows] if asks["probabilities"] else None
    json.dump([found, shares], open(f"{sys.argv[1]}/python{number}.json", "w"))
assert not {"numpy", "sparsco", "site"} & set(sys.modules), sys.modules
"""
_NODE = """
import fs from "node:fs";
const [folder, count] = process.argv.slice(2);
for (let number = 0; number < Number(count); number++) {
  const model = await import(`${folder}/m${number}.mjs`);
  const [rows, asks] = JSON.parse(fs.readFileSync(`${folder}/rows${number}.json`, "utf8"));
  const found = rows.map((row) => [model.scores(row), model.predict(row)]);
  const shares = asks.probabilities ? rows.map((row) => model.probabilities(row)) : null;
  fs.writeFileSync(`${folder}/js${number}.json`, JSON.stringify([found, shares], (_, v) => v === Infinity ? 1e999 : v));
}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The exported modules of all cases, and their rows as JSON."""
    here = tmp_path_factory.mktemp("exports")
    for number, case in enumerate(cases()):
        export(case.model, "python", here / f"m{number}.py")
        export(case.model, "js", here / f"m{number}.mjs")
        asks = {"probabilities": case.probabilities is not None, "columns": scorer_of(case.model).kind == COLUMNS}
        (here / f"rows{number}.json").write_text(json.dumps([case.rows, asks]))
    return here


def check_json(folder, language):
    for number, case in enumerate(cases()):
        found, shares = json.loads((folder / f"{language}{number}.json").read_text())
        predicted = [np.inf if number is None else number for _, number in found]
        check(case, [scores for scores, _ in found], predicted, shares)


def test_plain_python_alone(folder):
    (folder / "run.py").write_text(_PYTHON)
    line = [sys.executable, "-S", "-I", str(folder / "run.py"), str(folder), str(len(cases()))]
    subprocess.run(line, check=True, timeout=200)
    check_json(folder, "python")


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_javascript_in_node(folder):
    (folder / "run.mjs").write_text(_NODE)
    subprocess.run(["node", str(folder / "run.mjs"), str(folder), str(len(cases()))], check=True, timeout=200)
    check_json(folder, "js")


# ---- C -------------------------------------------------------------------------------------------------------------

_MAIN = """
#include <stdio.h>
#include <stdlib.h>
static FILE *in, *out;
static void take(void *to, size_t size) { if (size && fread(to, size, 1, in) != 1) abort(); }
static void give(const void *from, size_t size) { if (fwrite(from, size, 1, out) != 1) abort(); }
static char *take_text(size_t *length) {
  int64_t size;
  char *bytes;
  take(&size, 8);
  if (size < 0) return NULL;
  *length = (size_t)size;
  bytes = malloc(*length + (*length == 0));
  take(bytes, *length);
  return bytes;
}
"""


def c_case(number: int, case: Case) -> str:
    """The function that scores the rows of a case, read from a file."""
    scorer, p = scorer_of(case.model), f"m{number}"
    m, k = len(scorer.intercepts), len(scorer.classes or ())
    lines = [
        f"static void run{number}(void) {{",
        f"  double scores[{m}], more[{max(m, k, 1)}]; int ok; int64_t label, n;",
    ]
    lines.append("  int64_t rows; take(&rows, 8);\n  while (rows--) {")
    if scorer.kind == COLUMNS:
        lines.append("    int64_t c[16]; double x[16]; take(&n, 8); take(c, 8 * (size_t)n); take(x, 8 * (size_t)n);")
        lines.append(f"    ok = {p}_sparse(c, x, (size_t)n, scores);")
    elif scorer.kind == NAMES:
        lines.append("    char *names[16]; size_t lengths[16], i; double x[16]; take(&n, 8);")
        lines.append("    for (i = 0; i < (size_t)n; i++) { names[i] = take_text(&lengths[i]); take(&x[i], 8); }")
        lines.append(f"    ok = {p}_named((const char *const *)names, lengths, x, (size_t)n, scores);")
        lines.append("    for (i = 0; i < (size_t)n; i++) free(names[i]);")
    elif scorer.kind == TABLE:
        fields = [line.split(";")[0].split()[-1] for line in c_fields(case, p)]
        lines.append(f"    {p}_row row; size_t longest = 0;")
        for part, field in zip(scorer.parts, fields, strict=True):
            if isinstance(part, Text | Category):
                lines.append(f"    row.{field}.bytes = take_text(&row.{field}.length);")
                if isinstance(part, Text):
                    own = f"row.{field}.length"
                    lines.append(f"    if (row.{field}.bytes && {own} > longest) longest = {own};")
            else:
                lines.append(f"    take(&row.{field}, 8);")
        if scorer.texts:
            lines.append(f"    uint64_t *room = malloc(8 * {p}_workspace(longest));")
            lines.append(f"    ok = {p}_score(&row, room, scores); free(room);")
        else:
            lines.append(f"    (void)longest; ok = {p}_score(&row, scores);")
        for part, field in zip(scorer.parts, fields, strict=True):
            if isinstance(part, Text | Category):
                lines.append(f"    free((char *)row.{field}.bytes);")
    else:
        lines.append("    size_t length = 0; char *text = take_text(&length);")
        lines.append(f"    uint64_t *room = malloc(8 * {p}_workspace(length));")
        lines.append(f"    ok = {p}_score(text, length, room, scores); free(room); free(text);")
    lines.append("    if (!ok) abort();\n    give(scores, sizeof scores);")
    if scorer.classes is None:
        lines.append(f"    {p}_predict(scores, more); give(more, 8 * {m});")
    else:
        lines.append(f"    label = {p}_label(scores); give(&label, 8);")
        if case.probabilities is not None:
            lines.append(f"    {p}_probabilities(scores, more); give(more, 8 * {k});")
    unused = "  (void)more; (void)label; (void)n;\n"
    return "\n".join(lines) + "\n  }\n" + unused + "}\n"


def c_fields(case: Case, prefix: str) -> list[str]:
    """The fields of the struct of a row."""
    text = export(case.model, "c", prefix=prefix)
    body = text[: text.index(f"}} {prefix}_row;")]
    return body[body.rindex("typedef struct {\n") :].splitlines()[1:]


def c_input(case: Case) -> bytes:
    """The rows of a case as bytes."""
    scorer, parts = scorer_of(case.model), [struct.pack("<q", len(case.rows))]

    def text(cell):
        raw = None if cell is None else cell.encode()
        return struct.pack("<q", -1) if raw is None else struct.pack("<q", len(raw)) + raw

    for row in case.rows:
        if scorer.kind == COLUMNS:
            entries = row if isinstance(row, dict) else dict(enumerate(row))
            columns, values = list(entries), list(entries.values())
            parts.append(struct.pack(f"<q{len(columns)}q{len(values)}d", len(columns), *columns, *values))
        elif scorer.kind == NAMES:
            pairs = {f"{k}={v}" if isinstance(v, str) else k: 1.0 if isinstance(v, str) else v for k, v in row.items()}
            pairs = {name: value for name, value in pairs.items() if value is not None}
            parts.append(struct.pack("<q", len(pairs)))
            parts += [text(name) + struct.pack("<d", value) for name, value in pairs.items()]
        elif scorer.kind == TABLE:
            for part in scorer.parts:
                cell = row[part.name]
                if isinstance(part, Text | Category):
                    parts.append(text(cell))
                elif isinstance(part, Date):
                    parts.append(struct.pack("<q", -(1 << 63) if cell is None else micros(cell)))
                else:
                    parts.append(struct.pack("<d", np.nan if cell is None else float(cell)))
        else:
            parts.append(text(row))
    return b"".join(parts)


def micros(cell: str) -> int:
    since = datetime.datetime.fromisoformat(cell) - datetime.datetime(1970, 1, 1)
    return since // datetime.timedelta(microseconds=1)


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler is installed")
def test_c_by_the_systems_compiler(tmp_path):
    used = cases()
    source = [export(case.model, "c", prefix=f"m{number}") for number, case in enumerate(used)]
    runs = "".join(f"  run{number}();\n" for number in range(len(used)))
    main = f'int main(void) {{\n  in = fopen("rows", "rb"); out = fopen("found", "wb");\n{runs}  fclose(in);\n'
    main += "  return fclose(out);\n}\n"
    whole = "\n".join([*source, _MAIN, *(c_case(number, case) for number, case in enumerate(used)), main])
    (tmp_path / "all.c").write_text(whole, encoding="ascii")
    (tmp_path / "rows").write_bytes(b"".join(map(c_input, used)))
    flags = "-std=c99 -O1 -Wall -Wextra -Werror -fsanitize=address,undefined -fno-sanitize-recover=all".split()
    subprocess.run(["cc", *flags, "all.c", "-o", "all", "-lm"], cwd=tmp_path, check=True, timeout=200)
    subprocess.run(["./all"], cwd=tmp_path, check=True, timeout=200)
    raw, at = (tmp_path / "found").read_bytes(), 0
    for case in used:
        scorer = scorer_of(case.model)
        m, k = len(scorer.intercepts), len(scorer.classes or ()) if case.probabilities is not None else 0
        kind = [("scores", "<f8", (m,))]
        kind += [("numbers", "<f8", (m,))] if scorer.classes is None else [("label", "<i8"), ("shares", "<f8", (k,))]
        found = np.frombuffer(raw, kind, len(case.rows), at)
        at += found.nbytes
        if scorer.classes is None:
            check(case, found["scores"], found["numbers"].tolist())
        else:
            check(case, found["scores"], [scorer.classes[j] for j in found["label"]], found["shares"] if k else None)
    assert at == len(raw)
