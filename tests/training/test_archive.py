"""Files of ours: every value comes back, bit for bit; every damaged byte is found; nothing half-written is left."""

from __future__ import annotations

import errno
import json
import os
import struct
import warnings
from typing import NamedTuple

import numpy as np
import pytest

from sparsco import SparseClassifier, SparseRegressor
from sparsco.conversions import CONVERSIONS
from sparsco.losses import CLASSIFIER_LOSSES, REGRESSOR_LOSSES
from sparsco.mirrors import SparseKaczmarz
from sparsco.optimizers import OPTIMIZERS, EpochSGD, MirrorDescent
from sparsco.penalties import PENALTIES, L1Ball
from sparsco.steps import RULES
from sparsco.training import archive, names

KINDS = [
    {"optimizer": "fobos"},
    {"optimizer": "nftrl", "l1_ratio": 0.5},
    {"optimizer": "rda", "conversion": "average"},
    {"optimizer": "ftrl", "conversion": "random"},
    {"optimizer": "sgd", "alpha": 0.0, "conversion": "suffix"},
    {"optimizer": "fobos", "conversion": "ocmdi"},
    {"optimizer": "fobos", "conversion": "optimal-sl", "l1_ratio": 0.5},
    {"optimizer": "orda", "l1_ratio": 0.5, "conversion": "last-sl"},
    {"optimizer": "epoch-gd", "l1_ratio": 0.5, "conversion": "last-epoch"},
    {"optimizer": "batch-fobos", "penalty": "trace"},
    {"optimizer": "truncated-gradient", "conversion": "last", "storage": "seen"},
    {"optimizer": "adagrad-rda", "conversion": "last"},
    {"optimizer": "batch-rda", "penalty": "row-group"},
    {"optimizer": "ssg", "conversion": "average"},
    {"optimizer": EpochSGD(18, 0.3), "penalty": L1Ball(0.5), "conversion": "last", "alpha": "auto"},
    {"optimizer": MirrorDescent(SparseKaczmarz(0.1)), "conversion": "ocmdi", "alpha": 0.0},
    {"optimizer": "adagrad-fobos", "conversion": "last"},
]


def rows(n=1500, d=12, classes=2):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.5)
    return X, (X[:, :classes].argmax(1) if classes > 2 else (X[:, 0] - X[:, 1] > 0.0).astype(int))


@pytest.mark.parametrize("settings", KINDS, ids=lambda settings: " ".join(map(str, settings.values())))
def test_a_training_state_goes_on_to_the_same_bits(settings, tmp_path):
    X, y = rows(classes=3 if settings.get("penalty") == "trace" else 2)
    given = {"alpha": 0.01, "random_state": 0} | settings
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        whole = SparseClassifier(**given)
        for part in (slice(0, 700), slice(700, 1200), slice(1200, 1500)):
            whole.partial_fit(X[part], y[part])
        model = SparseClassifier(**given)
        for part in (slice(0, 700), slice(700, 1200), slice(1200, 1500)):
            model.partial_fit(X[part], y[part])
            archive.write(tmp_path / "state", "state", {"model": model})
            model = archive.read(tmp_path / "state", "state")["model"]
        for name in ("coef_", "intercept_"):
            ours, theirs = (getattr(each.sparsify(), name) for each in (model, whole))
            ours, theirs = (part.toarray() if hasattr(part, "toarray") else part for part in (ours, theirs))
            assert np.array_equal(ours, theirs)
        assert repr(model.report_) == repr(whole.report_) and model.history_ == whole.history_


def test_names_and_values_of_every_kind(tmp_path):
    model = SparseRegressor("poisson", random_state=0)
    rng = np.random.default_rng(0)
    for _ in range(1300):
        x = {"a": rng.normal(), "b": rng.normal(), ("c", 1): 1.0}
        model.learn_one(x, round(abs(x["a"])))
    shared = np.arange(3)
    content = {
        "model": model,
        "numbers": [1, -1.5, float("nan"), float("-inf"), 0.1 + 0.2, 1e-320, 2**70, True, None],
        "text": 'nul \0, quote ", snow \u2603, lone \udc80',
        ("tuple", 1): (1, (2.0,)),
        "slice": slice(2, None),
        "arrays": [
            shared,
            shared,
            np.zeros((0, 3)),
            np.ones((2, 3), np.float32).T,
            np.array(["a", "bc"]),
            np.array(["a", 1, None], object),
            np.array(2.5),
            np.array([True]),
            np.arange(3, dtype=">i4"),
        ],
        "scalars": [np.float64(1.5), np.uint64(2**63), np.bool_(True), np.int32(-1)],
    }
    back = archive.read(archive.write(tmp_path / "f", "state", content), "state")
    assert back["model"].coef_.tobytes() == model.coef_.tobytes()
    assert list(back["model"].feature_names_) == ["a", "b", ("c", 1)]
    for name in ("numbers", "text", ("tuple", 1), "slice", "scalars"):
        assert repr(back[name]) == repr(content[name])
    assert [type(x) for x in back["scalars"]] == [type(x) for x in content["scalars"]]
    for ours, theirs in zip(back["arrays"], content["arrays"], strict=True):
        assert ours.dtype.newbyteorder("=") == theirs.dtype.newbyteorder("=") and np.array_equal(ours, theirs)
    assert back["arrays"][0] is back["arrays"][1]


def test_every_flipped_byte_and_every_missing_end_is_refused(tmp_path):
    path = archive.write(tmp_path / "f", "state", {"x": np.arange(5.0), "y": ["text", 1.5]})
    good = path.read_bytes()
    for at in range(len(good)):
        for flip in (1, 128):
            path.write_bytes(good[:at] + bytes([good[at] ^ flip]) + good[at + 1 :])
            with pytest.raises(archive.ArchiveError) as refused:
                archive.read(path, "state")
            assert str(path) in str(refused.value) and "\n" not in str(refused.value)
    for end in range(len(good)):
        path.write_bytes(good[:end])
        with pytest.raises(archive.ArchiveError):
            archive.read(path, "state")
    path.write_bytes(good + b"\0")
    with pytest.raises(archive.ArchiveError):
        archive.read(path, "state")


def forged(path, header):
    """A file whose checksum is right and whose contents are not."""
    import hashlib

    text = json.dumps(header).encode()
    body = struct.pack("<8sIQ", b"sparsco\n", 1, len(text)) + text
    path.write_bytes(body + hashlib.sha256(body).digest())
    return path


@pytest.mark.parametrize(
    "content",
    [
        {"object": "os.system", "state": []},
        {"record": "subprocess.Popen", "fields": []},
        {"unknown": 1},
        {},
        {"record": "loss/logistic", "fields": [1]},
        {"object": "loss/logistic", "state": []},
        {"array": 3},
        {"record": "losses:Logistic", "fields": []},
        {"record": ["loss/logistic"], "fields": []},
        {"same": 0},
        {"object": "loss/none", "state": []},
        {"scalar": ["O", 1], "x": 2},
        {"dict": [[[1], 2]]},
    ],
)
def test_forged_contents_run_nothing(content, tmp_path):
    path = forged(tmp_path / "f", {"kind": "state", "sparsco": "0", "content": content, "arrays": []})
    with pytest.raises(archive.ArchiveError, match="cannot be read"):
        archive.read(path, "state")


def test_every_stable_name_is_that_of_one_class():
    lines = names.HOMES
    assert len(set(lines.values())) == len(lines) > 90
    for name in lines:
        kind = names.class_of(name)
        assert isinstance(kind, type) and names.name_of(kind) == name


@pytest.mark.parametrize(
    "kind, table",
    [
        ("loss", CLASSIFIER_LOSSES | REGRESSOR_LOSSES),
        ("penalty", PENALTIES),
        ("optimizer", OPTIMIZERS),
        ("conversion", CONVERSIONS),
        ("step", RULES),
    ],
)
def test_every_part_with_a_short_name_has_a_stable_name(kind, table):
    for part in table.values():
        assert names.name_of(part if isinstance(part, type) else type(part)).split("/")[0] in (kind, "rounding")


def test_forged_sizes_allocate_nothing(tmp_path):
    for arrays in ([["<f8", [1 << 47]]], [["<f8", [-1]]], [["|O", [1]]], [["<f8", ["1"]]], [["<f8", [1 << 80]]], 7):
        path = forged(tmp_path / "f", {"kind": "state", "sparsco": "0", "content": None, "arrays": arrays})
        with pytest.raises(archive.ArchiveError, match="damaged"):
            archive.read(path, "state")
    deep = "[" * 100_000
    text = ('{"kind":"state","arrays":[],"content":' + deep + "}").encode()
    (tmp_path / "f").write_bytes(struct.pack("<8sIQ", b"sparsco\n", 1, len(text)) + text + bytes(32))
    with pytest.raises(archive.ArchiveError):
        archive.read(tmp_path / "f", "state")


def test_other_kinds_and_versions_are_named(tmp_path):
    path = archive.write(tmp_path / "f", "model", {})
    with pytest.raises(archive.ArchiveError, match="is a model of sparsco, not a checkpoint"):
        archive.read(path, "checkpoint")
    path.write_bytes(b"sparsco\n" + struct.pack("<I", 2) + bytes(50))
    with pytest.raises(archive.ArchiveError, match="has format 2"):
        archive.read(path, "model")
    path.write_bytes(b"1 3:4\n")
    with pytest.raises(archive.ArchiveError, match="is not a sparsco file"):
        archive.read(path, "model")
    with pytest.raises(FileNotFoundError):
        archive.read(tmp_path / "none", "model")


class Own(NamedTuple):
    x: float = 1.0


def test_what_cannot_be_saved_is_named(tmp_path):
    for content, sentence in ((Own(), "Own is not a part"), (lambda: 0, "function"), (np.array([1j]), "complex128")):
        with pytest.raises(ValueError, match=sentence):
            archive.write(tmp_path / "f", "state", [content])
    assert not list(tmp_path.iterdir())


def test_a_full_disk_leaves_what_was_there(tmp_path, monkeypatch):
    path = archive.write(tmp_path / "f", "state", 1)

    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left") as error:
        archive.write(path, "state", 2)
    assert error.value.filename == str(path)
    assert archive.read(path, "state") == 1 and [each.name for each in tmp_path.iterdir()] == ["f"]
