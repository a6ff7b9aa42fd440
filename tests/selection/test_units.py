"""Paths in units of the columns: they equal paths of columns that are divided by hand."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from sparsco import SparseClassifier, SparseClassifierCV, SparsePath, SparseRegressor, SparseRegressorCV, load
from sparsco.cli import main
from sparsco.data.rows import as_matrix
from sparsco.solver.units import Units, column_sums
from sparsco.training.paths import train_path
from support.uneven import D, N, uneven_rows, units

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
SMALL = {"n_alphas": 4, "eps": 0.02}


@pytest.fixture(scope="module")
def rows():
    return uneven_rows()


CASES = {
    "the default": (SparseClassifier, {}, {}),
    "sparse rows": (SparseClassifier, {}, {}),
    "three classes": (SparseClassifier, {}, {}),
    "two outputs": (SparseRegressor, {}, {}),
    "a named method": (SparseClassifier, {"optimizer": "fobos", "conversion": "last"}, {"passes": 2}),
    "float32": (SparseClassifier, {"conversion": "last"}, {"dtype": "float32"}),
    "threads": (SparseRegressor, {"n_jobs": 2}, {"validation": "progressive"}),
    "an L2 term": (SparseClassifier, {"alpha": 0.02, "l1_ratio": 0.5}, {}),
    "weights of features": (SparseClassifier, {"feature_weights": np.linspace(0.5, 2.0, D)}, {}),
}


def targets(case, score):
    """Return the targets of a case."""
    if case == "three classes":
        return np.digitize(score, [-0.5, 0.5])
    if case == "two outputs":
        return np.stack([score, -score + 0.3 * score**2], 1)
    return score if case == "threads" else np.where(score > 0.0, "yes", "no")


@pytest.mark.parametrize("case", CASES)
def test_fits_equal_those_of_columns_divided_by_hand(rows, case):
    X, score = rows
    kind, parameters, own = CASES[case]
    u, y = units(X), targets(case, score)
    given = sp.csr_array(X) if case == "sparse rows" else X
    in_units = SparsePath(kind(random_state=0, standardize=True, **parameters), **SMALL, **own).fit(given, y).path_
    by_hand = SparsePath(kind(random_state=0, standardize=False, **parameters), **SMALL, **own).fit(X / u, y).path_
    np.testing.assert_allclose(in_units.alphas, by_hand.alphas, rtol=1e-9)
    rtol = 1e-4 if case == "float32" else 1e-7  # rounding at other places
    np.testing.assert_allclose(in_units.coefs.toarray() * u[:, None], by_hand.coefs.toarray(), rtol=rtol, atol=rtol)
    np.testing.assert_allclose(in_units.losses, by_hand.losses, rtol=rtol)
    assert np.array_equal(in_units.nonzeros, by_hand.nonzeros) and in_units.nonzeros[-1] > 3


def test_polished_paths_equal_those_of_columns_divided_by_hand(rows, tmp_path):
    X, score = rows
    u, y, settings = units(X), np.where(score > 0.0, 1, -1), {"random_state": 0, "polish": 1e-8}
    in_units, by_hand = (
        SparsePath(SparseClassifier(**settings, standardize=on), **SMALL).fit(each, y).path_
        for on, each in ((True, X), (False, X / u))
    )
    np.testing.assert_allclose(in_units.coefs.toarray() * u[:, None], by_hand.coefs.toarray(), atol=1e-6)
    assert in_units.gaps.max() <= 1e-8
    write(tmp_path / "given", X, y)
    trained = train_path(str(tmp_path / "given"), settings=settings, path=SMALL, shuffle=False).model
    learned = np.flatnonzero(~trained.fit_state.drawn(0, N, 0))
    u = units(X[learned[:1000]])
    write(tmp_path / "divided", X / u, y)
    off = settings | {"standardize": False}
    by_hand = train_path(str(tmp_path / "divided"), settings=off, path=SMALL, shuffle=False).model
    assert 2300 < len(learned) < 2500 and trained.path_.gaps.max() <= 1e-8
    w, expected = (each.path_.coefs.toarray() for each in (trained, by_hand))
    np.testing.assert_allclose(w * u[:, None], expected, atol=1e-6)


def write(file, X, y):
    """Write rows as LIBSVM text, with every digit."""
    with open(file, "w") as out:
        for row, label in zip(X.tolist(), y.tolist(), strict=True):
            out.write(f"{label} " + " ".join(f"{j}:{x!r}" for j, x in enumerate(row) if x) + "\n")


def stream(path, X, y, cuts, width=None):
    """Return a path that has learned rows in pieces, with a pickle between them."""
    for first, stop in zip([0, *cuts], [*cuts, len(y)], strict=True):
        part = sp.csr_array(X[first:stop] if width is None or stop > 1000 else X[first:stop, :width])
        path.partial_fit(part, y[first:stop], classes=np.unique(y) if not first else None)
        path = pickle.loads(pickle.dumps(path))
    return path


@pytest.mark.parametrize("storage", ["all", "seen"])
def test_streams_take_the_units_of_their_first_rows_for_any_cut(rows, storage):
    X, score = rows
    X = X.copy()
    X[:1000, 20:] = 0.0  # columns that come later
    y = np.digitize(score, [-0.5, 0.5])
    first, late = units(X[:1000]), X[1000:, 20:]
    born = np.abs(late[(late != 0.0).argmax(0), np.arange(10)]) * 1000**-0.25
    u = np.append(first[:20], born)
    template = SparseClassifier(random_state=0, storage=storage, conversion="last")
    by_hand = SparsePath(clone(template).set_params(standardize=False), **SMALL)
    by_hand = by_hand.partial_fit(X / u, y, classes=[0, 1, 2]).path_
    whole = SparsePath(template, **SMALL).partial_fit(X, y, classes=[0, 1, 2]).path_
    expected = by_hand.coefs.toarray() / u[:, None]
    np.testing.assert_allclose(whole.coefs.toarray(), expected, rtol=1e-7, atol=1e-7 / u.min())
    np.testing.assert_allclose(whole.losses, by_hand.losses, rtol=1e-7)
    assert whole.coefs[20:].nnz > 0
    for cuts in ([1, 2, 999, 1000, 1001], [400, 1700, 2999], [1000]):
        found = stream(SparsePath(template, **SMALL), X, y, cuts, width=20).path_
        assert (found.coefs != whole.coefs).nnz == 0
        assert np.array_equal(found.losses, whole.losses) and np.array_equal(found.intercepts, whole.intercepts)


def test_a_stream_that_is_short_has_the_units_of_its_rows(rows):
    X, score = rows
    X, y = X[:300], score[:300]
    u = units(X)
    found = SparsePath(SparseRegressor(random_state=0), **SMALL, choose=5).partial_fit(X, y)
    again = SparsePath(SparseRegressor(random_state=0, standardize=False), **SMALL, choose=5).partial_fit(X / u, y)
    w = found.path_.coefs.toarray() * u[:, None]
    np.testing.assert_allclose(w, again.path_.coefs.toarray(), rtol=1e-7, atol=1e-9)
    more = pickle.loads(pickle.dumps(found)).partial_fit(rows[0][300:], rows[1][300:])
    whole = SparsePath(SparseRegressor(random_state=0), **SMALL, choose=5).partial_fit(*rows)
    assert (more.path_.coefs != whole.path_.coefs).nnz == 0  # a look at the models changed nothing


def test_files_equal_streams_and_scales_do_not_matter(rows, tmp_path):
    X, score = rows
    y = np.where(score > 0.0, 1, -1)
    write(tmp_path / "rows.svm", X, y)
    trained = train_path(str(tmp_path / "rows.svm"), settings={"random_state": 0}, path=SMALL, shuffle=False)
    found = trained.model.path_
    whole = SparsePath(SparseClassifier(random_state=0), **SMALL).partial_fit(sp.csr_array(X), y, classes=[-1, 1]).path_
    assert (found.coefs != whole.coefs).nnz == 0
    factors = 2.0 ** np.random.default_rng(1).integers(-9, 10, D)  # which lose no digits
    for path in (SparsePath(**SMALL), SparseClassifierCV(**SMALL), SparseClassifierCV(dtype="float32", **SMALL)):
        template = SparseClassifier(random_state=0, conversion="last" if path.dtype == "float32" else "auto")
        one, other = (clone(path).set_params(estimator=template).fit(each, y) for each in (X, X * factors))
        assert np.array_equal(one.path_.losses, other.path_.losses)
        assert np.array_equal(one.decision_function(X), other.decision_function(X * factors))


def test_rows_count_by_their_weights(rows):
    X = rows[0][:500]
    weights = np.random.default_rng(0).integers(0, 3, 500).astype(float)
    np.testing.assert_allclose(Units.of(as_matrix(X), D, weights).at(), units(X, weights), rtol=1e-9)
    repeated = as_matrix(np.repeat(X, weights.astype(int), 0))
    parts = repeated.indptr[:-1], repeated.indptr[1:], repeated.indices, repeated.data, D
    given = as_matrix(X)
    own = given.indptr[:-1], given.indptr[1:], given.indices, given.data, D, weights
    for found, expected in zip(column_sums(*own), column_sums(*parts), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-9)


def test_streams_with_weights_and_folds_equal_those_of_columns_divided_by_hand(rows):
    X, score = rows
    y, weights = np.where(score > 0.0, 1, -1), np.random.default_rng(0).integers(0, 4, N).astype(float)
    first = np.flatnonzero(weights)[:1000]
    for kind, u in ((SparsePath, units(X[first], weights[first])), (SparseClassifierCV, units(X, weights))):
        found = []
        for on, each in ((True, X), (False, X / u)):
            template = SparseClassifier(random_state=0, optimizer="fobos", conversion="last", standardize=on)
            path = kind(template, **SMALL)
            if kind is SparsePath:
                path.partial_fit(each, y, classes=[-1, 1], sample_weight=weights)
            else:
                path.fit(each, y, sample_weight=weights)
            found.append(path.path_)
        np.testing.assert_allclose(found[0].losses, found[1].losses, rtol=1e-7)
        np.testing.assert_allclose(
            found[0].coefs.toarray() * u[:, None], found[1].coefs.toarray(), rtol=1e-7, atol=1e-9
        )


def test_every_run_has_units_of_its_own():
    given = Units(np.array([2.0, 0.0, 3.0]), 16)
    matrix = as_matrix(np.array([[4.0, 5.0, 0.0]]))
    own = given.begun(matrix, np.ones(1), 4)
    assert own.divided(matrix, np.arange(1)).data.tolist() == [2.0, 5.0 / 2.5]  # |x| n^(-1/4)
    own.keep(np.array([1, 2]))
    assert own.values.tolist() == [2.5, 3.0] and given.values.tolist() == [2.0, 0.0, 3.0]
    assert given.at().tolist() == [2.0, 1.0, 3.0]


def test_rows_without_weight_do_not_matter(rows):
    X, score = rows
    weights = np.where(np.arange(N) % 4 == 0, 0.0, 1.0)
    wild = np.where(weights[:, None] == 0.0, 1e6, X)
    for path in (SparsePath(SparseRegressor(random_state=0), **SMALL), SparseRegressorCV(**SMALL, random_state=0)):
        one, other = (clone(path).fit(each, score, sample_weight=weights).path_ for each in (X, wild))
        assert (one.coefs != other.coefs).nnz == 0


def test_units_are_the_default_where_no_strength_is_given(rows):
    X, score = rows
    y = score > 0.0

    def model(estimator, **own):
        return SparsePath(estimator.set_params(random_state=0), **{"n_alphas": 2, **own}).fit(X, y).model_

    assert model(SparseClassifier()).standardize is True
    assert model(SparseClassifier(l1_ratio=0.5)).standardize is True
    assert model(SparseClassifier(), alphas=[0.1, 0.01]).standardize == "auto"
    assert model(SparseClassifier(), alphas=[0.1, 0.01]).coef_.any()
    assert model(SparseClassifier(alpha=0.1, l1_ratio=0.5)).standardize == "auto"
    assert model(SparseClassifier(preset="average-sl")).standardize == "auto"
    groups = np.arange(D) // 3
    grouped = SparseClassifier(penalty="group", feature_groups=groups)
    assert model(clone(grouped)).standardize is True
    assert model(clone(grouped), alphas=[0.1, 0.01]).standardize == "auto"
    assert model(SparseClassifier(standardize=True), alphas=[0.1]).standardize is True
    for penalty in ("nonnegative", "trace", "mcp"):
        with pytest.raises(ValueError, match="standardize=True is for penalty='elasticnet'"):
            model(SparseClassifier(standardize=True, penalty=penalty))
    with pytest.raises(ValueError, match="relaxed=True is for one model"):
        model(SparseClassifier(relaxed=True))
    with pytest.raises(ValueError, match="choose='1-se' of the estimator has no effect"):
        model(SparseClassifier(choose="1-se"))


def test_the_parameters_of_a_model_solve_its_objective(rows):
    X, score = rows
    template = SparseRegressor(random_state=0, polish=1e-9)
    found = SparseRegressorCV(template, **SMALL).fit(X, score)
    best = found.best_estimator_
    assert "standardize=True" in repr(best) and found.n_selected_ == best.n_selected_ == len(np.flatnonzero(best.coef_))
    again = clone(best).fit(X, score)
    u = units(X)
    np.testing.assert_allclose(again.coef_ * u, best.coef_ * u, atol=1e-6)
    named = SparsePath(SparseRegressor(random_state=0, optimizer="fobos", conversion="last"), **SMALL).fit(X, score)
    assert named.model_.optimizer == "fobos" and type(named.model_.report_["optimizer"]).__name__ == "FOBOS"
    again = clone(named.model_).fit(X, score)  # other rows in another order
    assert np.corrcoef(again.predict(X), named.predict(X))[0, 1] > 0.99


def test_the_command_has_the_options_of_a_path(rows, tmp_path, capsys):
    X, score = rows
    file, model = str(tmp_path / "rows.svm"), str(tmp_path / "chosen.model")
    write(file, X, np.where(score > 0.0, 1, -1))
    settings = ["--n-alphas", "4", "--eps", "0.02", "--quiet"]
    errors = {}
    for option in ("--standardize", "--no-standardize"):
        assert main(["path", file, *settings, option, "-m", model]) == 0
        capsys.readouterr()
        found = load(model)
        assert found.standardize is (option == "--standardize")
        errors[option] = 1.0 - found.score(X, np.where(score > 0.0, 1, -1))
    assert errors["--standardize"] < 0.7 * errors["--no-standardize"]
    assert main(["path", file, *settings, "--optimizer", "fobos", "-m", model]) == 0 and load(model).standardize is True
    for options, sentence in (
        (["--l1", "0.1"], "--l1 is one strength"),
        (["--alpha", "0.1"], "--alpha sets the L2 weight"),
        (["--penalty", "nonnegative", "--standardize"], "--standardize is for penalty="),
    ):
        assert main(["path", file, *settings, *options]) == 2
        assert sentence in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["path", file, *settings, "--relaxed"])
    assert "--relaxed" in capsys.readouterr().err
