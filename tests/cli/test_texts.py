"""Raw texts from the shell: trained, inspected, predicted and evaluated by columns' names alone."""

from __future__ import annotations

import json
import random

import pytest

from sparsco import load
from sparsco.cli import main
from sparsco.training import model_fields, model_files


def made(count=1500):
    """Return labels and texts: the words prize and home decide, with some noise."""
    rng = random.Random(0)
    words = [f"word{k}" for k in range(60)]
    rows = []
    for _ in range(count):
        is_spam = rng.random() < 0.4
        told = rng.choice(["prize", "free prize"]) if is_spam else rng.choice(["home", "see you"])
        text = " ".join([*rng.choices(words, k=5), *([told] if rng.random() < 0.9 else []), *rng.choices(words, k=3)])
        rows.append(("spam" if is_spam else "ham", text))
    return rows


ROWS = made()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").write_text("".join(f"{label}\t{text}\n" for label, text in ROWS))
    (tmp_path / "a.csv").write_text("id,label,message\n" + "".join(f"{k},{y},{x}\n" for k, (y, x) in enumerate(ROWS)))
    lines = [json.dumps({"label": label, "message": text}) for label, text in ROWS]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    return tmp_path


def run(capsys, *words):
    """Run a command, and return its exit code and what it printed."""
    code = main(list(words))
    out, err = capsys.readouterr()
    return code, out, err


NAMED = ("--target", "label", "--text", "message")


@pytest.mark.parametrize(
    ("file", "options", "name"),
    [
        ("a.txt", (), "prize"),
        ("a.jsonl", NAMED, "prize"),
        ("a.csv", (*NAMED, "--schema", "id=ignore"), "prize"),
        ("a.csv", NAMED, "message:prize"),
        ("a.jsonl", (*NAMED, "--hash-bits", "14"), "prize"),
        ("a.txt", ("--ngrams", "2", "--weighting", "binary"), "free prize"),
    ],
)
def test_a_model_reads_texts_as_it_learned_them(folder, capsys, file, options, name):
    assert run(capsys, "train", file, *options, "-m", "a.model", "--quiet", "--alpha", "0.005")[0] == 0
    code, out, _ = run(capsys, "inspect", "a.model")
    assert code == 0 and name in out
    code, out, _ = run(capsys, "predict", "a.model", file)
    found = out.split()
    right = sum(one == label for one, (label, _) in zip(found, ROWS, strict=True))
    assert right > (0.9 if name != "free prize" else 0.7) * len(ROWS)
    assert (
        f"{len(ROWS):,} rows, error {100 * (1 - right / len(ROWS)):.2f}%" in run(capsys, "evaluate", "a.model", file)[1]
    )


@pytest.mark.parametrize("option", ["--weighting tfidf", "--min-count 2", "--ngrams 1-2"])
def test_options_of_texts_need_a_column_of_texts(folder, capsys, option):
    code, _, said = run(capsys, "train", "a.csv", "--target", "label", *option.split(), "-m", "a.model", "--quiet")
    assert code == 2 and "options of texts have no effect without a column of texts" in said
    assert not (folder / "a.model").exists()


def test_lines_that_are_called_a_table_get_a_hint(folder, capsys):
    (folder / "a.tsv").write_bytes((folder / "a.txt").read_bytes())
    code, _, said = run(capsys, "train", "a.tsv", "-m", "a.model", "--quiet")
    assert code == 2 and "a label, a tab and a text give format='text' (--format text)" in said


def test_a_model_of_lines_predicts_texts_without_labels(folder, capsys):
    run(capsys, "train", "a.txt", "-m", "a.model", "--quiet", "--alpha", "0.005")
    (folder / "new.txt").write_text("a free prize\nsee you at home\n")
    assert run(capsys, "predict", "a.model", "new.txt", "--format", "text")[1].split() == ["spam", "ham"]
    assert load("a.model").n_selected_ > 0
    spec = model_files.read("a.model")["extra"]["reader"]["text_options"]
    assert spec.analyzer == "word" and spec.ngrams == (1, 1)


def test_a_model_of_a_column_needs_that_column_alone(folder, capsys):
    run(capsys, "train", "a.csv", *NAMED, "--schema", "id=ignore", "-m", "a.model", "--quiet", "--alpha", "0.005")
    (folder / "new.csv").write_text("message\na free prize\nsee you at home\n")
    assert run(capsys, "predict", "a.model", "new.csv", "--text", "message")[1].split() == ["spam", "ham"]
    code, _, err = run(capsys, "predict", "a.model", "new.csv", "--ngrams", "1-2")
    assert code == 2 and "the model was trained with no text_options; leave it out" in err
    code, _, err = run(capsys, "predict", "a.model", "new.csv", "--text", "other")
    assert code == 2 and "leave it out" in err


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--text", "body"), "schema names the column 'body', but there are id, label, message"),
        (("--text", "label"), "column 'label' is the target and cannot be a text, too: name another column"),
        (("--text", "id", "--tag", "id"), "column 'id' is the tag and cannot be a text, too"),
        (("--text", "message", "--ngrams", "2-1"), "ngrams must be a pair (low, high) with 1 <= low <= high"),
        (("--text", "message", "--ngrams", "x"), "'x' is not a range such as 1-2"),
    ],
)
def test_wrong_options_get_a_sentence(folder, capsys, options, sentence):
    try:
        code = main(["train", "a.csv", "--target", "label", *options])
    except SystemExit as left:
        code = left.code
    assert code == 2 and sentence in capsys.readouterr().err


def test_a_model_of_texts_can_go_on_learning(folder, capsys):
    train = ("train", "a.csv", "--quiet")
    options = (*NAMED, "--schema", "id=ignore", "--alpha", "0.005", "--ngrams", "1-2")
    assert run(capsys, *train, *options, "--save-state", "-m", "a.model")[0] == 0
    before = model_files.read("a.model")
    assert run(capsys, *train, "--update", "a.model", "--text", "message")[0] == 0
    after = model_files.read("a.model")
    one, other = (model_fields.description_of(each) for each in (before, after))
    assert one == other and [each.text.lengths for each in one.features] == [(1, 2)]
    assert after["extra"]["names"] == before["extra"]["names"]
