"""A run ends at the next step of its choice when it is asked to, and goes on from there to the same bits."""

from __future__ import annotations

import numpy as np
import pytest

from sparsco import SparseClassifier, train
from sparsco.training.checkpoints import Checkpoints
from sparsco.training.results import StoppedError

N, K = 2500, 40
RNG = np.random.default_rng(0)
X = RNG.standard_normal((N, 5))
Y = np.array([f"class {k}" for k in RNG.integers(0, K, N) * (RNG.random(N) < 0.9)])


class Asked:
    """A ``stop`` that counts its calls, and returns True from one of them on."""

    def __init__(self, at):
        self.calls, self.at = 0, at

    def __call__(self):
        self.calls += 1
        return self.calls >= self.at


def run(tmp_path, stop, resume=False):
    checkpoints = Checkpoints(tmp_path / "run.checkpoint", None, None)
    model = SparseClassifier(random_state=0, choose="min")
    return train(X, model, y=Y, stop=stop, checkpoints=checkpoints, resume=resume, classes="any")


def test_a_run_is_asked_at_every_step_of_the_choice(tmp_path):
    """Before, nobody asked after the last row."""
    every = Asked(np.inf)
    expected = run(tmp_path, every).model
    for at in np.linspace(12, every.calls, 5).astype(int).tolist():
        asked = Asked(at)
        with pytest.raises(StoppedError, match="stopped behind"):
            run(tmp_path, asked)
        assert asked.calls <= at + 1  # once more, to write the checkpoint
        found = run(tmp_path, bool, resume=True).model
        assert (found.convert().coef != expected.convert().coef).nnz == 0
        np.testing.assert_array_equal(found.intercept_, expected.intercept_)
    assert every.calls > K + 10
