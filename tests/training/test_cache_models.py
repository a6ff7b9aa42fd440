"""A model and a cache: the files that the cache was made of give the same predictions, or the cache is refused."""

from __future__ import annotations

import numpy as np
import pytest

from sparsco.cli import main


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    folder, rng = tmp_path_factory.mktemp("caches"), np.random.default_rng(0)
    numbers, words = rng.normal(size=(1500, 3)).round(3), [f"w{k}" for k in range(30)]
    lines = [" ".join(f"{j + 1}:{x}" for j, x in enumerate(row)) for row in numbers.tolist()]
    signs = np.where(numbers[:, 0] > numbers[:, 1], 1, -1).tolist()
    (folder / "a.svm").write_text("".join(f"{y} {line}\n" for y, line in zip(signs, lines, strict=True)))
    named = [f"{y} |u u{x[0] > 0} |i i{x[1] > 0}\n" for y, x in zip(signs, numbers.tolist(), strict=True)]
    (folder / "a.vw").write_text("".join(named))
    for name, rows in (("a.csv", numbers[:1000]), ("b.csv", 1.0 + numbers[500:])):
        text = "label,size,exposure,note\n"
        for x, y, e in rows.tolist():
            notes = " ".join(rng.choice(words, 4)) + (" good" if x > y else "")
            text += f"{'yes' if x > y else 'no'},{x if x < 1.5 else ''},{np.exp(e):.4f},{notes}\n"
        (folder / name).write_text(text)
    return folder


def shell(capsys, *given):
    code = main([str(word) for word in given])
    out, err = capsys.readouterr()
    return code, out, err


@pytest.mark.parametrize(
    ("file", "options"),
    [
        ("a.svm", []),
        ("a.svm", ["--one-based"]),
        ("a.svm", ["--hash-bits", "6"]),
        ("a.vw", ["-q", "ui"]),
        ("a.vw", ["-q", "ui", "--hash-bits", "8"]),
        ("a.csv", ["--hash-bits", "8"]),
        ("a.csv", ["--text", "note", "--offset", "log(exposure)"]),
    ],
)
def test_a_model_of_a_cache_reads_files_as_the_cache_was_made(here, capsys, file, options):
    assert shell(capsys, "convert", here / file, here / "c", "--quiet", *options)[0] == 0
    assert shell(capsys, "train", here / "c", "-m", here / "m", "--alpha", "0.01", "--quiet")[0] == 0
    by_file = shell(capsys, "predict", here / "m", here / file, "--score", "--digits", "17")
    assert by_file[0] == 0 and shell(capsys, "predict", here / "m", here / "c", "--score", "--digits", "17") == by_file
    assert "error 0." in shell(capsys, "evaluate", here / "m", here / file)[1] or file != "a.svm"


@pytest.mark.parametrize(
    ("file", "learned", "cached", "says"),
    [
        ("a.svm", [], ["--one-based"], "features of another kind"),
        ("a.vw", ["-q", "ui"], [], "features of another kind"),
        ("a.csv", ["--offset", "log(exposure)"], [], "different offsets"),
        ("a.csv", [], ["--offset", "exposure"], "different offsets"),
        ("a.csv", ["--text", "note", "--weighting", "tfidf"], ["--text", "note", "--weighting", "tfidf"], "'note'"),
        ("a.csv", ["--text", "note", "--min-count", "3"], ["--text", "note"], "'note'"),
        ("b.csv", [], [], "column 'size' depend on the rows"),
    ],
)
def test_a_cache_of_other_features_is_refused(here, capsys, file, learned, cached, says):
    first = "a.csv" if file == "b.csv" else file
    assert shell(capsys, "train", here / first, "-m", here / "m", "--alpha", "0.001", "--quiet", *learned)[0] == 0
    assert shell(capsys, "convert", here / file, here / "c", "--quiet", *cached)[0] == 0
    code, out, err = shell(capsys, "evaluate", here / "m", here / "c")
    assert code == 2 and not out and says in err, err
