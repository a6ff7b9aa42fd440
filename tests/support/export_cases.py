"""Models of every kind with rows to score, and what sparsco itself predicts for these rows."""

from __future__ import annotations

import datetime
import functools
import tempfile
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.pipeline import make_pipeline

from sparsco import (
    SparseClassifier,
    SparseRegressor,
    SparseText,
    StableSparseClassifier,
    StableSparseRegressor,
    save,
    train,
)
from sparsco.exports.reading import scorer_of
from sparsco.training import model_files, scoring

ROWS = 1100
WORDS = (
    "win prize now £5 50p 50P it's don't l'homme Straße STRASSE café CAFÉ cafe\u0301 你好 世界 🎉 👍🏽 x\u200dy "
    "_id ß ẞ Ǆ İ ΑΣ ας 𝒳 \U00020001 \U000e0041 ½ ١٢ a's o'clock ' '' rock'n'roll tab\there -- <b> ; 'quoted' ²3"
).split(" ")
FOLDER = Path(tempfile.mkdtemp(prefix="sparsco-exports-"))


class Case(NamedTuple):
    """A model, rows as exports take them, and what the model itself says of these rows."""

    name: str
    model: Any
    rows: list[Any]
    scores: np.ndarray
    predicted: list[Any]
    probabilities: np.ndarray | None
    frame: pd.DataFrame | None = None
    """The rows as a table, where they are one."""


def wild(rng, shape):
    """Numbers of all sizes, with zeros."""
    x = rng.normal(size=shape) * 10.0 ** rng.choice([0] * 400 + [-3, 5, 30, 70], size=shape)
    return np.where(rng.random(shape) < 0.1, 0.0, x)


def character(rng):
    """Any character, or one with a letter behind it; those of the first planes are more frequent."""
    code = int(rng.integers(1, int(rng.choice([0x600, 0x3000, 0x20000, 0x110000]))))
    return "x" if 0xD800 <= code < 0xE000 else chr(code) + str(rng.choice(["", "a", "'s"]))


def sentence(rng):
    """A text of real and odd words; some are empty, some are blanks and signs only."""
    n = int(rng.choice([0, 1, 3, 8, 20]))
    parts = [str(rng.choice(WORDS)) if rng.random() < 0.8 else character(rng) for _ in range(n)]
    return str(rng.choice([" ", "  ", ",", "\u00a0", "-"])).join(parts)


def labelled(rng, score, labels):
    """Labels whose odds follow a score."""
    return np.array(labels, dtype=object if isinstance(labels[0], str) else None)[
        np.clip(np.searchsorted(np.quantile(score, np.arange(1, len(labels)) / len(labels)), score), 0, len(labels) - 1)
    ]


def of_arrays(name, model, rng, y, X=None, frame=False):
    """A model of numbered columns."""
    X = rng.normal(size=(900, 12)) if X is None else X
    learned = pd.DataFrame(X, columns=[f"col {k}" for k in range(12)]) if frame else X
    model.fit(learned, y(X))
    new = wild(rng, (ROWS, X.shape[1]))
    given = pd.DataFrame(new, columns=learned.columns) if frame else new
    names = learned.columns if frame else [f"x{k}" for k in range(X.shape[1])]
    return asked(name, model, given, new.tolist(), pd.DataFrame(new, columns=names))


def asked(name, model, given, rows, frame=None):
    """The case of an estimator that predicts these rows."""
    scores = model._margins(given) if hasattr(model, "preparation_") else None
    if scores is None:
        is_frame = model.fit_state.described is not None
        scores = model.margins_of_table(given) if is_frame else model._margins(given)
    shares = model.predict_proba(given) if hasattr(model, "predict_proba") else None
    return Case(name, model, rows, scores, model.predict(given).tolist(), shares, frame)


def of_file(name, text, rows_text, rows, suffix, options=None, settings=None):
    """A model that `train` makes of a file, with rows of another file."""
    path, new, model = FOLDER / f"{name}{suffix}", FOLDER / f"{name}-new{suffix}", FOLDER / f"{name}.model"
    path.write_bytes(text.encode("utf-8"))
    new.write_bytes(rows_text.encode("utf-8"))
    options = options or {}
    trained = train(path, settings={"random_state": 0, "alpha": 0.002} | (settings or {}), **options)
    extra = {"reader": {k: v for k, v in options.items()}}
    if suffix == ".txt":
        extra["reader"].setdefault("text_options", {})
    is_hashed = "hash_bits" in options
    by_name = not is_hashed and suffix != ".svm"
    save(trained.model, model, names=trained.stream.names or None, by_name=by_name, extra=extra)
    known = {"format": "text"} if suffix == ".txt" else {}
    content = model_files.read(model)
    found, stream = scoring.opened_for(content, str(new), labelled=False, **known)
    parts = [found.margins_of(chunk.matrix) for chunk in stream]
    p = np.concatenate(parts)
    assert len(p) == len(rows), name
    return Case(name, model, rows, p, found.labels_of(p).tolist(), found.probabilities_of(p))


def table_of(rng, n, holes=0.1, new=False):
    """A table with columns of every kind."""
    towns = (
        ["Ulm", "Trier", "Bonn"] + [f"village {k}" for k in range(600)] + (["Rome", "other", "o'er", ""] if new else [])
    )
    chances = np.array([0.25, 0.25, 0.25] + [0.25 / 600] * 600 + ([0.05] * 4 if new else []))
    start = datetime.datetime(2020, 1, 1)
    seconds = rng.integers(0, 900 * 86400, n) if not new else rng.integers(-60_000 * 86400, 40_000 * 86400, n)
    frame = pd.DataFrame(
        {
            "age": rng.normal(50.0, 10.0, n) if not new else wild(rng, n),
            "town": rng.choice(towns, n, p=chances / chances.sum()),
            "member": rng.random(n) < 0.5,
            "joined": [start + datetime.timedelta(seconds=int(each), microseconds=int(each) % 7) for each in seconds],
            "size": rng.integers(0, 5, n).astype(float),
        }
    )
    frame["member"] = frame["member"].astype(object)
    for column in frame.columns:
        frame.loc[rng.random(n) < holes, column] = None
    return frame


def cells(frame):
    """The rows of a table as dicts whose cells JSON can hold; dates are texts."""
    rows = frame.astype(object).where(frame.notna(), None).to_dict("records")
    for row in rows:
        for key, cell in row.items():
            if isinstance(cell, datetime.datetime):
                row[key] = cell.isoformat(sep=" ")
    return rows


def of_table(name, rng, target, holes=0.1, drop=(), texts=(), settings=None, **options):
    """A model of a table, and rows with missing cells, unseen categories and huge numbers."""
    learned, new = table_of(rng, 1800, holes), table_of(rng, ROWS, holes, new=True)
    for column in texts:
        learned[column] = [sentence(rng) for _ in range(len(learned))]
        new[column] = [sentence(rng) if rng.random() < 0.9 else None for _ in range(len(new))]
    if "offset" in options:
        for frame in (learned, new):
            frame["exposure"] = rng.uniform(0.1, 3.0, len(frame))
    learned["y"] = target(learned)
    learned, new = learned.drop(columns=list(drop)), new.drop(columns=list(drop))
    given = {"random_state": 0, "alpha": 0.001} | (settings or {})
    kind = {"model": SparseRegressor(**given)} if "loss" in given else {"settings": given}
    model = train(learned, target="y", text=list(texts), **kind, **options).estimator
    return asked(name, model, new, cells(new), new)


def plain_cases(rng):
    """Models of numbered columns: every link."""

    def margin(X):
        return X[:, 1] - 2.0 * X[:, 5] + 0.5 * rng.normal(size=len(X))

    def classes(*labels):
        return lambda X: labelled(rng, margin(X), list(labels))

    fixed = {"alpha": 0.01, "random_state": 0}
    yield of_arrays("logistic", SparseClassifier(**fixed), rng, classes("ham", "spam"))
    yield of_arrays("frame", SparseClassifier(**fixed), rng, classes(False, True), frame=True)
    yield of_arrays("regression", SparseRegressor(**fixed), rng, margin)
    yield of_arrays("poisson", SparseRegressor("poisson", **fixed), rng, lambda X: np.floor(np.exp(0.4 * margin(X))))
    yield of_arrays("softmax", SparseClassifier("multinomial", **fixed), rng, classes("a", "b", "c", "d"))
    yield of_arrays("shares", SparseClassifier(class_weight="balanced", **fixed), rng, classes(1, 2, 30))
    yield of_arrays("hinge", SparseClassifier("hinge", **fixed), rng, classes("a", "b", "c"))
    yield of_arrays("balanced", SparseClassifier(class_weight="balanced", **fixed), rng, lambda X: margin(X) > 2.0)
    yield of_arrays("platt", SparseClassifier("hinge", calibrate=True, **fixed), rng, classes("a", "b"))
    yield of_arrays(
        "platt softmax", SparseClassifier("multinomial", calibrate=True, **fixed), rng, classes(1.0, 2.0, 4.0)
    )
    yield of_arrays("platt shares", SparseClassifier("hinge", calibrate=True, **fixed), rng, classes("a", "b", "c"))
    yield of_arrays("outputs", SparseRegressor(**fixed), rng, lambda X: np.stack([margin(X), X[:, 0], margin(X)], 1))
    yield of_arrays("nothing", SparseClassifier(alpha=1e6, random_state=0), rng, classes("a", "b"))
    yield of_arrays("stable", StableSparseClassifier(3, prepare="columns", random_state=0), rng, classes("a", "b", "c"))
    yield of_arrays("stable regression", StableSparseRegressor(3, random_state=0), rng, margin, frame=True)


def table_cases(rng):
    """Models of tables."""

    def income(frame):
        score = (
            frame["age"].fillna(70.0).astype(float) / 10.0
            + 2.0 * (frame["town"] == "Ulm")
            + rng.normal(size=len(frame))
        )
        score -= 2.0 * frame["town"].fillna("").str.startswith("village")
        if "joined" in frame:
            months = pd.to_datetime(frame["joined"]).dt.month
            score += 1.5 * (months == 3) + 1.0 * (pd.to_datetime(frame["joined"]).dt.weekday == 2)
        return score + 1.0 * (frame["member"] == True)  # noqa: E712

    def two(frame):
        return np.where(income(frame) > 6.0, ">50K", "<=50K")

    yield of_table("table", rng, two)
    yield of_table("table sql", rng, two, drop=["joined"])
    yield of_table("table classes", rng, lambda f: labelled(rng, income(f), ["a", "b", "c"]), drop=["joined"])
    yield of_table("table mean", rng, income, missing="mean", settings={"alpha": 0.01})
    yield of_table("table zero", rng, income, missing="zero", drop=["joined"], settings={"alpha": 0.01})
    yield of_table("table full", rng, two, holes=0.0, missing="refuse", drop=["joined"])
    yield of_table("table every", rng, two, drop=["joined"], schema={"town": "category:every"})
    yield of_table("table hashed", rng, two, hash_bits=8)

    def claims(frame):
        return rng.poisson(frame["exposure"].astype(float) * np.exp(income(frame) / 4.0 - 1.0))

    offset = {"offset": "log(exposure)", "drop": ["joined"]}
    yield of_table("table exposure", rng, claims, settings={"loss": "poisson", "alpha": 0.01}, **offset)
    yield of_table("table tweedie", rng, claims, settings={"loss": "tweedie", "alpha": 0.01}, **offset)
    yield of_table("table offset", rng, two, offset="exposure", drop=["joined"])
    yield of_table("table offset hashed", rng, two, offset="exposure", hash_bits=8, drop=["joined"])
    yield of_table("table numbers hashed", rng, two, hash_bits=6, drop=["joined", "town"])

    def says(frame):
        return np.where(frame["note"].str.contains("win|prize|50") ^ (rng.random(len(frame)) < 0.1), "spam", "ham")

    yield of_table("table text", rng, says, texts=["note", "more"])
    yield of_table("table text hashed", rng, says, texts=["note"], hash_bits=10, text_options={"ngrams": (1, 2)})


def text_cases(rng):
    """Models of texts and of names."""
    texts = [sentence(rng).replace("\n", " ").replace("\r", " ").replace("\t", " ") for _ in range(2000 + ROWS)]
    texts = [text if text.strip("\n\r\t ") else "empty ." for text in texts]
    marked = ["spam" if ("win" in text or "50" in text) ^ (rng.random() < 0.05) else "ham" for text in texts]
    learned = "".join(f"{label}\t{text}\n" for label, text in zip(marked[:2000], texts[:2000], strict=True))
    new, rows = "".join(text + "\n" for text in texts[2000:]), texts[2000:]
    forms = {
        "words": {},
        "pairs": {"ngrams": (1, 2), "weighting": "count", "norm": False},
        "characters": {"analyzer": "char", "strip_accents": True, "weighting": "binary"},
        "cased": {"ngrams": (2, 3), "lowercase": False, "shapes": False},
    }
    for name, options in forms.items():
        yield of_file(f"text {name}", learned, new, rows, ".txt", {"text_options": options})
    yield of_file("text hashed", learned, new, rows, ".txt", {"hash_bits": 9, "seed": 3})
    for name, more in {
        "tfidf": {"min_count": 2, "seed": 7},
        "tfidf hashed": {"hash_bits": 8, "ngrams": (1, 2)},
    }.items():
        steps = SparseText(weighting="tfidf", **more), SparseClassifier(alpha=0.002, random_state=0)
        pipeline = make_pipeline(*steps).fit(texts[:2000], marked[:2000])
        p, shares = pipeline.decision_function(rows)[:, None], pipeline.predict_proba(rows)
        yield Case(f"text {name}", pipeline, rows, p, pipeline.predict(rows).tolist(), shares)
    yield from vw_cases(rng)


def vw_cases(rng):
    """Models of Vowpal Wabbit and LIBSVM text, and of dicts."""
    names = ["price", "größe", "x_1", "a=b", "日本", "it's", "q?"]

    def row():
        some = rng.choice(len(names), 4, replace=False)
        return {names[k]: float(x) for k, x in zip(some, rng.normal(size=4).round(3), strict=True)}

    def line(record, label=""):
        return f"{label} |f " + " ".join(f"{name}:{value!r}" for name, value in record.items()) + "\n"

    learned, rows = [row() for _ in range(1500)], [row() for _ in range(ROWS)]
    signs = [1 if each.get("price", 0.0) - each.get("日本", 0.0) > 0 else -1 for each in learned]
    text, new = "".join(map(line, learned, signs)), "".join(map(line, rows))
    named = [{f"f^{name}": value for name, value in each.items()} for each in rows]
    yield of_file("vw", text, new, named, ".vw")
    yield of_file("vw hashed", text, new, named, ".vw", {"hash_bits": 5})
    matrix, more = rng.normal(size=(1500, 6)).round(3), wild(rng, (ROWS, 6))
    lines = [" ".join(f"{j + 1}:{x!r}" for j, x in enumerate(each)) for each in matrix.tolist()]
    text = "".join(f"{1 if x[0] > x[3] else -1} {line}\n" for x, line in zip(matrix, lines, strict=True))
    new = "".join("0 " + " ".join(f"{j + 1}:{x!r}" for j, x in enumerate(each)) + "\n" for each in more.tolist())
    sparse = [{j + 1: x for j, x in enumerate(each)} for each in more.tolist()]
    yield of_file("libsvm", text, new, sparse, ".svm", {"zero_based": False})
    yield of_file("libsvm zero", text, new, sparse, ".svm")
    named = [{str(j + 1): x for j, x in enumerate(each)} for each in more.tolist()]
    yield of_file("libsvm hashed", text, new, named, ".svm", {"hash_bits": 4})
    stream = SparseClassifier(alpha=0.001, random_state=0)
    kinds = ["red", "green", "blue", "größe", None]
    records = [row() | {"kind": kinds[int(rng.integers(5))]} for _ in range(1200 + ROWS)]
    for record in records[:1200]:
        stream.learn_one(record, "yes" if record.get("price", 0.0) + (record["kind"] == "red") > 0 else "no")
    stream.finalize()
    p = np.array([stream._margins_one(record) for record in records[1200:]])
    yield Case("dicts", stream, records[1200:], p, stream.labels_of(p).tolist(), stream.probabilities_of(p))


@functools.cache
def cases() -> list[Case]:
    """All cases; they are made once in a process."""
    rng = np.random.default_rng(20)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [*plain_cases(rng), *table_cases(rng), *text_cases(rng)]


@functools.cache
def bounds() -> dict[str, np.ndarray]:
    """The sums of |b| and |w x| for each row and output, by the plain Python that exports consist of."""
    found = {}
    for case in cases():
        scorer, module = scorer_of(case.model), as_module(case)
        values = np.array([module["feature_values"](module["MODEL"], row) for row in case.rows])
        values = values.reshape(len(case.rows), len(scorer.names))
        found[case.name] = np.abs(scorer.intercepts) + np.abs(values) @ np.abs(scorer.weights)
    return found


def as_module(case: Case) -> dict[str, Any]:
    """The names of the exported Python module of a case."""
    from sparsco import export

    module: dict[str, Any] = {}
    exec(export(case.model, "python"), module)
    return module


def check(case: Case, scores: Any, predicted: Any = None, probabilities: Any = None, tolerance: float = 1e-12) -> None:
    """Assert that an export says of all rows what the model says."""
    scores, bound = np.asarray(scores, float).reshape(case.scores.shape), bounds()[case.name]
    assert len(scores) >= 1000
    off = np.abs(scores - case.scores) > tolerance * bound
    assert not off.any(), (case.name, case.rows[int(off.any(1).argmax())], scores[off][:3], case.scores[off][:3])
    if case.probabilities is not None and probabilities is not None:
        error = np.abs(np.asarray(probabilities, float).reshape(case.probabilities.shape) - case.probabilities)
        allowed = tolerance * (1.0 + bound.sum(1)) * (1.0 if scorer_of(case.model).platt is None else 10.0)
        assert (error.max(1) <= allowed).all(), (case.name, "probabilities", error.max())
    if predicted is None:
        return
    if scorer_of(case.model).classes is None:
        mean = np.asarray(case.predicted, float).reshape(scores.shape)
        got = np.array(predicted, float).reshape(scores.shape)
        with np.errstate(invalid="ignore"):
            near = (np.abs(got - mean) <= tolerance * np.abs(mean) * (1.0 + bound)) | (got == mean)
            near |= np.abs(got - mean) <= tolerance * bound
        assert near.all(), (case.name, got[~near][:3], mean[~near][:3])
        return
    ordered = np.sort(case.scores, axis=1)
    gap = np.abs(ordered[:, 0]) if scores.shape[1] == 1 else ordered[:, -1] - ordered[:, -2]
    clear = gap > 4.0 * tolerance * bound.max(1)
    assert clear.mean() > 0.8 or case.name == "nothing", case.name
    wrong = [(a, b) for a, b, sure in zip(predicted, case.predicted, clear, strict=True) if sure and a != b]
    assert not wrong, (case.name, wrong[:3])
