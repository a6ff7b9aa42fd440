"""Small files under the names that the commands of pages and of helps use."""

from __future__ import annotations

import gzip
import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pytest

from sparsco import cli

_Maker = Callable[[], str | bytes] | str
"""A function that returns the content of a file, or the command that makes it from other files."""

ROWS = 1200
"""Enough for the automatic choice, which looks at the first 1000."""


def make_files(folder: Path, text: str, page: str = "") -> None:
    """Make the files that a text names but does not make itself, and those that these are made from."""
    known = FILES | PAGES.get(page, {})
    for name in known:
        is_named = re.search(rf"(?<![\w/.-]){re.escape(name)}(?!\w)", text)
        if is_named and not re.search(rf"(-m|-o|>|\$ cat) {re.escape(name)}", text):
            _make(folder, name, known)


def _make(folder: Path, name: str, known: dict[str, _Maker]) -> None:
    how, place = known[name], folder / name.replace("*", "0")
    if place.exists():
        return
    place.parent.mkdir(exist_ok=True)
    if name.endswith("/"):
        for k, (label, message) in enumerate(_labelled()):
            (place / label).mkdir(parents=True, exist_ok=True)
            (place / label / f"{k}.txt").write_text(message)
    elif callable(how):
        content = how()
        place.write_bytes(content) if isinstance(content, bytes) else place.write_text(content)
    else:  # a command that makes it from other files
        make_files(folder, how)
        arguments = [str(folder / each) if (folder / each).exists() or each == name else each for each in how.split()]
        assert cli.main([*arguments, "--quiet"]) == 0


def _drawn(seed: int, rows: int = ROWS) -> Iterable[tuple[bool, np.ndarray]]:
    for x in np.random.default_rng(seed).normal(size=(rows, 14)).round(2):
        yield bool(x[1] > x[2]), x


def _libsvm(seed: int) -> str:
    rows = (f"{1 if y else -1} " + " ".join(f"{j}:{v}" for j, v in enumerate(x, 1)) for y, x in _drawn(seed))
    return "\n".join(rows) + "\n"


def _vw() -> str:
    """Clicks: two users of four often buy two things of four."""
    users, items = ("anna", "ben", "carla", "dev"), ("shoes", "soap", "books", "bread")
    chance = np.random.default_rng(3)
    lines = []
    for user, item, luck in zip(*chance.integers(0, 4, (2, ROWS)), chance.random(ROWS), strict=True):
        is_click = luck < (0.8 if max(user, item) < 2 else 0.1)
        lines.append(f"{1 if is_click else -1} |user {users[user]} |item {items[item]}\n")
    return "".join(lines)


def _labelled() -> list[tuple[str, str]]:
    said = {True: "claim your prize", False: "see you at lunch"}
    fillers = np.array(["now", "today", "please", "well", "so", "later"])
    chance = np.random.default_rng(4)
    return [("spam" if y else "ham", f"{said[y]} {' '.join(chance.choice(fillers, 3))}") for y, _ in _drawn(5)]


def _mail() -> str:
    return "label,message\n" + "".join(f"{label},{message}\n" for label, message in _labelled())


def _json_mail() -> str:
    return "".join(f'{{"label": "{label}", "message": "{message}"}}\n' for label, message in _labelled())


def _lines() -> str:
    return "".join(f"{label}\t{message}\n" for label, message in _labelled())


def _messages_of_the_collection() -> bytes:
    root = os.environ.get("SPARSCO_DATA")
    if not root:
        pytest.skip("SPARSCO_DATA is not set: the SMS spam collection is not here")
    return gzip.decompress((Path(root) / "sms-spam" / "sms.tsv.gz").read_bytes())


def _table() -> str:
    places = ("Rome", "Oslo")
    rows = (
        f"{x[1] - x[2]:.2f},{abs(x[2]) + 1:.2f},{'ab'[int(x[3] > 0)]},{places[int(x[4] > 0)]},{int(abs(x[5]))}"
        for _, x in _drawn(6)
    )
    return "price,size,kind,city,count\n" + "\n".join(rows) + "\n"


def _parquet() -> bytes:
    import pyarrow
    import pyarrow.parquet

    rows = [{"clicked": int(y), "user": f"u{x[1] > 0}", "item": f"i{x[2] > 0}"} for y, x in _drawn(8)]
    sink = pyarrow.BufferOutputStream()
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), sink)
    return sink.getvalue().to_pybytes()


def _policies() -> str:
    chance = np.random.default_rng(7)
    rows = ((chance.integers(18, 80), chance.choice(["a", "b"]), chance.uniform(0.1, 1.0)) for _ in range(ROWS))
    lines = (f"{chance.poisson(e * (0.1 + 0.3 * (k == 'a')))},{age},{k},{e:.2f}" for age, k, e in rows)
    return "claims,age,kind,exposure\n" + "\n".join(lines) + "\n"


def _people() -> str:
    chance = np.random.default_rng(1)
    towns = ["Ulm", "Trier", "Bonn"] * 2000 + [f"village {k}" for k in range(400)]
    lines = ["age,marital,town,member,joined,income"]
    for _ in range(2000):
        age, marital = int(chance.integers(18, 80)), str(chance.choice(["Married", "Single"]))
        score = age / 12 + 2.0 * (marital == "Married") + chance.logistic()
        day = np.datetime64("2020-01-01") + int(chance.integers(0, 1200))
        shown = "" if chance.random() < 0.1 else age
        member = str(chance.random() < 0.5).lower()
        lines.append(f"{shown},{marital},{chance.choice(towns)},{member},{day},{'>50K' if score > 5 else '<=50K'}")
    return "\n".join(lines) + "\n"


FILES: dict[str, _Maker] = {
    "data.svm": lambda: _libsvm(0),
    "test.svm": lambda: _libsvm(1),
    "new.svm": lambda: _libsvm(2),
    "data.svm.gz": lambda: gzip.compress(_libsvm(0).encode()),
    "big.svm.gz": lambda: gzip.compress(_libsvm(0).encode()),
    "history.svm": lambda: _libsvm(0),
    "part-*.svm": lambda: _libsvm(0),
    "logs/part-*.vw": _vw,
    "logs/part-*.parquet": _parquet,
    "clicks.vw": _vw,
    "monday.vw": _vw,
    "tuesday.vw": _vw,
    "sms.txt": _lines,
    "mail.txt": _lines,
    "reviews.txt": _lines,
    "mail.csv": _mail,
    "mails.csv": _mail,
    "mails.jsonl": _json_mail,
    "mails/": "",
    "new.csv": lambda: "message\nclaim a prize\nsee you later\n",
    "table.csv": _table,
    "log.csv": lambda: _table().replace("price", "sold", 1),
    "groups.txt": lambda: "kind=a\tboth\nsize both\n",
    "policies.csv": _policies,
    "people.csv": _people,
    "spam.model": "train data.svm -m spam.model",
    "sms.model": "train sms.txt -m sms.model",
    "income.model": "train people.csv --target income -m income.model",
    "mail.model": "train mail.csv --target label --text message -m mail.model",
}

PAGES: dict[str, dict[str, _Maker]] = {
    "offsets.md": {"new.csv": _policies},
    "from-vw.md": {"test.vw": _vw},
    "text.md": {"sms-spam.txt": _messages_of_the_collection},
}
"""Files that one page means differently."""
