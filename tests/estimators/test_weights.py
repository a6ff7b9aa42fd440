"""Rows of weight zero: a chunk of them is a no-op, and nothing but them is a clear error."""

import numpy as np
import pytest

from sparsco import SparseClassifier, SparsePath, SparseRegressor, StableSparseClassifier
from sparsco.training.train import train

RNG = np.random.default_rng(0)
X = RNG.standard_normal((1500, 4))
Y = np.where(X[:, 0] > 0.0, 1, -1)


def learned(model, cuts, weights, **options):
    """The model after ``partial_fit`` of the rows in these pieces; ``options`` with the first alone."""
    for start, stop in zip([0, *cuts], [*cuts, len(Y)], strict=True):
        model.partial_fit(X[start:stop], Y[start:stop], sample_weight=weights[start:stop], **options)
        options = {}
    return model


@pytest.mark.parametrize("cuts", [(100,), (100, 200), (50, 100, 1200, 1300)])
@pytest.mark.parametrize("make", [SparseClassifier, SparseRegressor])
def test_chunks_of_weight_zero_are_no_ops(make, cuts):
    """Also the first one, which names the classes."""
    weights = np.ones(len(Y))
    weights[:100] = weights[1200:1300] = 0.0
    options = {"classes": [-1, 1]} if make is SparseClassifier else {}
    whole, cut = (learned(make(random_state=0), pieces, weights, **options) for pieces in ((), cuts))
    assert whole.t_ == cut.t_ == 1300
    assert np.array_equal(whole.coef_, cut.coef_) and np.array_equal(whole.intercept_, cut.intercept_)


def test_rows_of_weight_zero_bring_columns_and_no_classes():
    model = SparseClassifier(random_state=0).partial_fit(X[:50], Y[:50])
    before = model.coef_
    model.partial_fit(np.ones((2, 6)), [7, 8], sample_weight=[0.0, 0.0])
    assert model.classes_.tolist() == [-1, 1] and model.t_ == 50 and model.n_features_in_ == 6
    assert np.array_equal(model.coef_[:, :4], before) and not model.coef_[:, 4:].any()


@pytest.mark.parametrize("model", [SparsePath(n_alphas=3), StableSparseClassifier(2, random_state=0)])
def test_paths_and_stable_models_take_chunks_of_weight_zero(model):
    model.partial_fit(X[:100], Y[:100], classes=[-1, 1], sample_weight=np.zeros(100))
    model.partial_fit(X[100:400], Y[100:400])
    model.partial_fit(X[400:500], Y[400:500], sample_weight=np.zeros(100))
    chosen = model.path_.model(model.path_.alphas[-1]) if isinstance(model, SparsePath) else model
    assert chosen.coef_.any()


@pytest.mark.parametrize("make", [SparseClassifier, SparseRegressor, StableSparseClassifier])
def test_weights_that_are_all_zero_are_named(make):
    with pytest.raises(ValueError, match="(?i)weights"):
        make().fit(X, Y, sample_weight=np.zeros(len(Y)))
    with pytest.raises(ValueError, match="(?i)weight"):
        make().partial_fit(X, Y, sample_weight=np.full(len(Y), -1.0))


def test_training_on_rows_of_weight_zero_says_so(tmp_path):
    file = tmp_path / "zero.vw"
    file.write_text("1 0 | a:1\n-1 0 | b:1\n")
    with pytest.raises(ValueError, match="every row of the source has the weight 0"):
        train(str(file))
