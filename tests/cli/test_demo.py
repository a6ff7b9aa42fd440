"""The demo: a table in the terminal and a page that tells what was found."""

import numpy as np

from sparsco.cli import demo
from sparsco.datasets.generators import SIGNALS, messages


def test_the_demo_finds_the_words_and_writes_its_page(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(demo, "TRAIN", 1_500)
    monkeypatch.setattr(demo, "TEST", 500)
    monkeypatch.setattr(demo, "SAMPLES", 2)
    monkeypatch.setattr(demo, "CONTENDERS", tuple(each for each in demo.CONTENDERS if each.make is not demo.folds))
    demo.main(["--out", str(tmp_path / "demo.html")])
    printed, page = capsys.readouterr().out, (tmp_path / "demo.html").read_text()
    title = printed.strip().partition("\n")[0]
    assert f"<h1>{title}</h1>" in page and page.count("<svg") == 2
    assert all(each.name in printed and each.name in page for each in demo.CONTENDERS)
    words = [each.split()[0] for each in printed.partition("the strongest words: ")[2].partition("\n")[0].split(", ")]
    assert set(words) <= set(" ".join(SIGNALS.values()).split())


def test_the_sentence_names_every_sparse_model_and_says_which_is_ahead():
    ours = demo.Result(demo.OURS, 0.04, 78, 0.52, 0.3, None)
    folds = demo.Result("folds", 0.038, 96, 0.39, 7.0, None)
    ahead = demo.Result("SGD", 0.039, 77, 0.54, 0.1, None)
    slow = demo.Result("slow", 0.05, 1_080, 0.5, 0.4, None)
    every = demo.Result(demo.EVERY_WORD, 0.01, 9_773, 1.0, 0.0, None)
    assert demo.comparison([ours, folds, ahead, slow, every]) == (
        "folds keeps 96 words with 3.8% error; SGD keeps 77 words with 3.9% error; slow keeps 1,080 words with 5.0% "
        "error; ours keeps 78 with 4.0%. SGD is ahead of ours in all columns."
    )


def test_messages_have_signals_of_their_kind():
    texts, labels = messages(2_000, np.random.default_rng(0))
    own = {kind: set(words.split()) for kind, words in SIGNALS.items()}
    counts = {(kind, label): 0 for kind in own for label in own}
    for text, label in zip(texts, labels.tolist(), strict=True):
        for kind, words in own.items():
            counts[kind, label] += sum(word in words for word in text.split())
    assert counts["ham", "ham"] > 5 * counts["spam", "ham"] and counts["spam", "spam"] > 5 * counts["ham", "spam"]
