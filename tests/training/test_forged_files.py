"""Files of anyone: checksums right, values wrong.  No signal, little memory, a sentence in the end."""

from __future__ import annotations

import sys
from collections import Counter

import pytest

from sparsco import cli, load
from sparsco.training.archive import ArchiveError
from support import LONG
from support.forged_runs import FINE, REFUSED, command, run
from support.forged_seeds import Cases, write_data
from support.forging import Archive

NUMBER = 2000 if LONG else 100
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the cases are forked, with a bound on their memory")


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    folder = tmp_path_factory.mktemp("forged")
    write_data(folder)
    return folder


def train(folder, name, *options):
    path = folder / f"{name}.model"
    arguments = ["--quiet", "--no-cache", "--alpha", "0.01", *options]
    assert cli.main(["train", str(folder / name), "-m", str(path), *arguments]) == 0
    return path


@pytest.mark.long
def test_forged_models_checkpoints_and_caches_do_no_harm(tmp_path):
    cases = Cases.in_folder(tmp_path, few=not LONG)
    outcomes = run(cases.numbered(range(NUMBER)), tmp_path)
    assert len(outcomes) == NUMBER
    assert [outcome for outcome in outcomes if outcome.what not in (FINE, REFUSED)] == []
    counts = Counter(outcome.what for outcome in outcomes)
    assert counts[REFUSED] > NUMBER / 2  # the others differ in names, figures of a report, and the like


def forged(path, change):
    """Write a copy in which ``change`` has changed the records, and return its path."""
    archive = Archive(path)
    assert _walk(archive.header["content"], change), "no record was changed"
    archive.write(path.with_name("forged.model"))
    return path.with_name("forged.model")


def _walk(here, change):
    parts = list(here.values()) if isinstance(here, dict) else here if isinstance(here, list) else []
    return sum([_walk(part, change) for part in parts]) + bool(change(here))


def field(record, place, value):
    def change(here):
        if isinstance(here, dict) and here.get("record") == record:
            here["fields"][place] = value
            return True

    return change


def entry(key, value):
    def change(here):
        if isinstance(here, list) and len(here) == 2 and here[0] == key:
            here[1] = value
            return True

    return change


NGRAMS = [{"tuple": pair} for pair in ([-5, 3], [0, 4], [-7, 4], [1, 10**9])]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        *((field("features/text", 1, ngrams), "ngrams must be a pair") for ngrams in NGRAMS),
        (field("features/text", 0, "zzz"), "analyzer must be"),
        (field("features/text", 2, "no"), "lowercase of TextSpec is a str"),
        (field("table/description", 7, 31), "frequencies of texts do not fit"),
        (field("table/description", 7, 32), "number of bits"),
        (field("table/column", 1, "zzz"), "unknown kind"),
    ],
)
def test_records_are_checked_by_their_own_rules(here, change, sentence):
    path = train(here, "a.txt", "--format", "text", "--analyzer", "char", "--weighting", "tfidf", "--hash-bits", "10")
    with pytest.raises(ArchiveError, match=sentence):
        load(forged(path, change))


def test_crosses_have_as_many_columns_as_cross_bits_may_ask_for(here):
    path = train(here, "a.vw", "--cross", "all", "--cross-bits", "8")
    with pytest.raises(ArchiveError, match="cross_bits must be a whole number from 1 to 26"):
        load(forged(path, field("features/cross", 2, 31)))


@pytest.mark.parametrize(
    ("name", "options", "change"),
    [
        ("a.svm", (), entry("n_features", 2**30)),
        ("a.vw", ("--cross", "all", "--cross-bits", "8"), field("features/cross", 2, 26)),
    ],
)
def test_memory_follows_what_a_file_holds(here, name, options, change):
    path, data = train(here, name, *options), here / name
    command("predict", path, data, "-o", here / "out")
    most = 100 << 20
    case = "wide", lambda: None, lambda: command("predict", forged(path, change), data, "-o", here / "new"), most
    (outcome,) = run([case], here)
    assert outcome.what == FINE, outcome


def test_too_little_memory_for_a_file_is_an_error_of_the_file(here, monkeypatch):
    path = train(here, "a.svm")

    def fail(*_):
        raise MemoryError("Unable to allocate 16.0 GiB")

    monkeypatch.setattr("sparsco.training.model_files._restored_sizes", fail)
    with pytest.raises(ArchiveError, match=r"a.svm.model cannot be loaded: Unable to allocate 16.0 GiB\.$"):
        load(path)


def test_a_number_of_features_that_the_hash_does_not_have_is_refused(here):
    path = train(here, "a.vw", "--hash-bits", "10")
    with pytest.raises(ArchiveError, match="not that of its hash"):
        load(forged(path, entry("n_features", 2**30)))
