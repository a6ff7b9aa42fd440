"""Files that an earlier version wrote: every later version reads them.  tests/data/make.py wrote them."""

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest

from sparsco import load
from sparsco.streams import open_stream
from sparsco.training import archive

KEPT = next(folder / "data" for folder in Path(__file__).parents if (folder / "data" / "make.py").exists())
_spec = importlib.util.spec_from_file_location("make", KEPT / "make.py")
make = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(make)


def test_a_kept_model_predicts():
    X, y = make.rows()
    expected = json.loads((KEPT / "model.json").read_text())
    model = load(KEPT / "model.sparsco")
    np.testing.assert_array_equal(model.coef_, expected["coef"])
    np.testing.assert_array_equal(model.intercept_, expected["intercept"])
    margins = X @ np.array(expected["coef"])[0] + expected["intercept"][0]
    np.testing.assert_allclose(model.decision_function(X), margins, rtol=1e-12, atol=1e-12)
    assert np.array_equal(model.predict(X), np.where(margins > 0.0, 1, -1)) and model.score(X, y) > 0.9


def test_a_kept_checkpoint_is_resumed_to_the_model_of_a_run_without_a_break(tmp_path):
    source, checkpoint = make.write_text(tmp_path / "rows.svm"), tmp_path / "checkpoint"
    assert make.train_until(source, checkpoint, make.LIMIT) is None
    now, kept = archive.read(checkpoint, "checkpoint"), archive.read(KEPT / "checkpoint.sparsco", "checkpoint")
    assert kept["epoch"] == make.PASSES - 1 and kept["row"] == 0  # there is a pass to come
    archive.write(checkpoint, "checkpoint", kept | {name: now[name] for name in ("asked", "identity")})
    with pytest.warns(UserWarning, match="was written with"):
        resumed = make.train_until(source, checkpoint, resume=True)
    whole = make.train_until(source, None)
    assert resumed.t_ == whole.t_ == make.PASSES * make.ROWS
    np.testing.assert_allclose(resumed.coef_, whole.coef_, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(resumed.intercept_, whole.intercept_, rtol=1e-6, atol=1e-9)
    assert np.abs(whole.coef_).max() > 0.01


def test_the_rows_of_a_kept_cache():
    X, y = make.rows()
    chunks = list(open_stream(KEPT / "cache"))
    found = np.concatenate([chunk.matrix.to_scipy().toarray() for chunk in chunks])
    assert np.array_equal(found, X) and np.array_equal(np.concatenate([chunk.y for chunk in chunks]), y)
