"""Warnings point at the user's line, and one cause warns once."""

import inspect
import warnings

import numpy as np
import pytest

from sparsco import SparseClassifier, SparseClassifierCV, StableSparseClassifier

RNG = np.random.default_rng(0)
X = RNG.standard_normal((300, 5))


def heard(call):
    """The warnings of a call."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return [each for each in caught if each.category is UserWarning]


def test_a_warning_points_at_the_users_line():
    y = np.where(X[:, 0] > 0.0, 1, -1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = SparseClassifier(alpha=1e3).partial_fit(X, y)
        line = inspect.currentframe().f_lineno + 1
        model.coef_  # noqa: B018
    assert [each.filename for each in caught] == [__file__]
    assert [each.lineno for each in caught] == [line] and "no feature was selected" in str(caught[0].message)


def test_a_warning_of_a_thread_points_at_the_users_line():
    y = np.arange(300) % 40
    found = heard(lambda: SparseClassifier(alpha="auto", n_jobs=2).fit(0.0 * X, y))
    assert found and {each.filename for each in found} == {__file__}


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_one_cause_warns_once(n_jobs):
    """Not once for each run of 32 classes, nor for each fold."""
    y = np.arange(300) % 40
    for model in (
        SparseClassifier(alpha="auto", n_jobs=n_jobs),
        SparseClassifierCV(SparseClassifier(), n_alphas=2, cv=3, n_jobs=n_jobs),
    ):
        causes = [str(each.message).split("0")[0] for each in heard(lambda model=model: model.fit(0.0 * X, y))]
        assert causes and len(causes) == len(set(causes))


def test_stable_models_warn_at_the_users_line():
    y = np.where(X[:40, 0] > 0.0, 1, -1)
    found = heard(lambda: StableSparseClassifier(random_state=0).fit(X[:40], y))
    assert found and {each.filename for each in found} == {__file__}
