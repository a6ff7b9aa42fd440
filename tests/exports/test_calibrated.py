"""A calibrated model of a loss with its own probabilities: exports have those of its scale, as the model has."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

from sparsco import SparseClassifier, export, losses
from sparsco.exports.scorer import ExportError
from sparsco.parts.contracts import Loss, part


@part(Loss)
class Doubtful(NamedTuple):
    """The logistic loss with probabilities that are halfway to equal ones."""

    classifies = True
    smoothness = 0.25
    curved = True
    bends_everywhere = True
    value = losses.Logistic.value
    derivative = losses.Logistic.derivative
    curvature = losses.Logistic.curvature

    def probabilities(self, p):
        found = losses.Logistic().probabilities(p)
        return 0.5 * found + 0.5 / found.shape[1]


@pytest.mark.parametrize("labels", [2, 3])
def test_the_scale_alone_gives_the_probabilities(labels):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 4))
    y = np.digitize(X[:, 0] + 0.3 * rng.normal(size=600), [0.0, 0.7][: labels - 1])
    settings = {"loss": Doubtful(), "alpha": 0.01, "random_state": 0}
    model = SparseClassifier(calibrate=True, **settings).fit(X, y)
    written: dict = {}
    exec(export(model, "python"), written)
    found = [written["probabilities"](row) for row in X[:50].tolist()]
    expected = model.predict_proba(X[:50])
    assert np.abs(expected - 1.0 / labels).max() > 0.4  # halfway it is at most a third
    np.testing.assert_allclose([list(each.values()) if isinstance(each, dict) else each for each in found], expected)
    with pytest.raises(ExportError, match="Doubtful has probabilities of its own"):
        export(SparseClassifier(**settings).fit(X, y), "python")
