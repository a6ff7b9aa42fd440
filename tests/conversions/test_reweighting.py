"""MCP and the adaptive lasso: weighted L1 problems after the convex one, against NumPy and by their own objective."""

import pickle
import re
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sklearn.datasets import dump_svmlight_file
from sklearn.model_selection import GridSearchCV

import sparsco
from sparsco import SparseClassifier, SparsePath, SparseRegressor, SparseRegressorCV, distributed
from sparsco.cli import main
from sparsco.conversions import AverageSL, Last, Reweighted, Threshold
from sparsco.conversions.reweighting import warn_if_separated
from sparsco.data.rows import as_matrix
from sparsco.engine.run import Run
from sparsco.losses import Logistic, Squared, derivative
from sparsco.optimizers import FOBOS
from sparsco.penalties import MCP, Adaptive, ElasticNet, GroupL1, strength
from sparsco.training.model_files import load
from support import number_of_streams

GAMMA = 3.0
TRUTH = np.array([2.0, -1.5, 1.0, -0.8, 0.6])
ONCE = {"max_iter": 1, "shuffle": False, "tol": None, "random_state": 0}


def rows(n=200, d=25, seed=0, density=1.0):
    """Columns of mean square one; targets and labels of a few features."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < density) / np.sqrt(density)
    p = X[:, : TRUTH.size] @ TRUTH
    return X, p + rng.standard_normal(n), np.where(p + rng.standard_normal(n) > 0.0, 1.0, -1.0)


# ---- the slow twin ---------------------------------------------------------------------------------------------------


def convex_minimum(X, y, loss, lams, rho):
    """Minimise the mean loss + sum_j lams_j |w_j| + rho/2 ||w||^2 by accelerated proximal steps, with restarts."""
    n, d = X.shape
    Z = np.column_stack([X, np.ones(n)])
    L = loss.smoothness * np.linalg.norm(Z, 2) ** 2 / n + rho
    lams, ridge = np.append(lams, 0.0), np.append(np.full(d, rho), 0.0)
    v = u = np.zeros(d + 1)
    t = 1.0
    for _ in range(100_000):
        g = Z.T @ derivative(loss, Z @ u, y) / n + ridge * u
        step = u - g / L
        new = np.sign(step) * np.maximum(np.abs(step) - lams / L, 0.0)
        if np.abs(new - v).max() < 1e-12 and np.abs(new - u).max() < 1e-12:
            break
        t = 1.0 if (u - new) @ (new - v) > 0.0 else (1.0 + np.sqrt(1.0 + 4.0 * t * t)) / 2.0
        u, v = new + (t - 1.0) / (t + 1.0) * (new - v), new
    return new[:-1], new[-1]


def twin(X, y, loss, penalty, lam, rho=0.0, pen=1.0):
    """The lasso, then weighted lassos by the formulas of docs/notation.md."""
    lams = lam * pen * np.ones(X.shape[1])
    w, b = convex_minimum(X, y, loss, lams, rho)
    if penalty == "adaptive":
        size = np.prod(np.abs(w[w != 0.0])) ** (1.0 / np.count_nonzero(w))
        weights = np.divide(size, np.abs(w), out=np.full(w.size, 1e9), where=w != 0.0)
        return convex_minimum(X, y, loss, lams * weights, rho)
    for _ in range(5):
        slopes, before = np.maximum(lams - np.abs(w) / GAMMA, 0.0), w
        w, b = convex_minimum(X, y, loss, slopes, rho)
        change = np.abs(np.maximum(lams - np.abs(w) / GAMMA, 0.0) - slopes) / lam
        if np.array_equal(w != 0.0, before != 0.0) and change.max() <= 0.01:
            break
    return w, b


CASES = [
    ("squared", 0.1, 1.0, None, 1.0),
    ("squared", 0.1, 1.0, None, 0.3),
    ("squared", 0.15, 0.7, np.linspace(0.5, 1.5, 25), 1.0),
    ("logistic", 0.03, 0.9, None, 1.0),
]


@pytest.mark.parametrize("penalty", ["mcp", "adaptive"])
@pytest.mark.parametrize(("loss", "alpha", "l1_ratio", "pen", "density"), CASES)
def test_polished_is_the_twin(penalty, loss, alpha, l1_ratio, pen, density):
    X, numbers, labels = rows(density=density)
    kind, y, record = (
        (SparseRegressor, numbers, Squared()) if loss == "squared" else (SparseClassifier, labels, Logistic())
    )
    given_rows = X if density == 1.0 else sp.csr_array(X)
    parts = {"penalty": penalty, "alpha": alpha, "l1_ratio": l1_ratio, "feature_weights": pen, "random_state": 0}
    w, b = twin(X, y, record, penalty, alpha * l1_ratio, alpha * (1.0 - l1_ratio), 1.0 if pen is None else pen)
    model = kind(loss, polish=1e-9, **parts).fit(given_rows, y)
    np.testing.assert_allclose(np.ravel(model.coef_), w, atol=1e-6)
    np.testing.assert_allclose(np.ravel(model.intercept_), b, atol=1e-6)
    assert model.gap_ <= 1e-9 and 0 < np.count_nonzero(w) < 25
    one_pass = kind(loss, **parts).fit(given_rows, y)  # the sample has all rows
    np.testing.assert_allclose(np.ravel(one_pass.coef_), w, atol=1e-3)


def test_certificate_is_that_of_the_last_problem():
    X, y, _ = rows()
    model = SparseRegressor(penalty="mcp", alpha=0.1, polish=1e-9).fit(X, y)
    (report,) = model.report_["converted"]
    (rounds,) = report["reweighted"]
    w, b, n = model.coef_, model.intercept_, len(y)
    assert 1 <= rounds["rounds"] <= 5 and len(rounds["objectives"]) == rounds["rounds"] + 1
    assert rounds["weights_change"] <= 0.01
    loss = 0.5 * np.square(X @ w + b - y).mean()
    assert rounds["objectives"][-1] == pytest.approx(loss + strength(MCP(0.1), w), rel=1e-12)
    settled = np.maximum(0.1 - np.abs(w) / GAMMA, 0.0)  # the weights of one more round: a local optimum has these, too
    g = X.T @ (X @ w + b - y) / n
    assert np.abs(g + settled * np.sign(w))[w != 0.0].max() <= 0.011 * 0.1
    assert np.abs(g)[w == 0.0].max() <= 0.1 * (1.0 + 1e-9)


# ---- the formulas ----------------------------------------------------------------------------------------------------


@given(
    st.floats(0.01, 3.0),
    st.floats(1.1, 10.0),
    st.lists(st.sampled_from([0.0, 0.25, -0.5, 1.0, -3.0]) | st.floats(-20.0, 20.0), min_size=1, max_size=5),
)
@example(0.2, 5.0, [0.0, 0.0, 3.0])  # 5 * (0.2 * 3) is not (5 * 0.2) * 3
def test_mcp_is_the_integral_of_its_weights(lam, gamma, w):
    w = np.array([*w, gamma * lam, -gamma * lam])
    penalty, grid = MCP(lam, 0.3, gamma), np.linspace(0.0, 1.0, 1001)
    integral = np.array([np.trapezoid(penalty.reweighted(w_j * grid).pen * lam, w_j * grid) for w_j in np.abs(w)])
    # The trapezoid that has the kink in it errs by up to w^2 / (8 gamma 1000^2): a millionth of the L2 term.
    assert strength(penalty, w) == pytest.approx(integral.sum() + 0.15 * w @ w, rel=1e-6)
    pen = np.arange(1.0, w.size + 1.0)
    slopes = penalty._replace(pen=pen).reweighted(w).pen / pen
    alone = [MCP(lam * pen_j, 0.3, gamma).reweighted(w[[j]]).pen[0] for j, pen_j in enumerate(pen)]
    # Both are 1 - |w| / (gamma lam pen), whose products are rounded in different orders: near 0 this is all there is.
    np.testing.assert_allclose(slopes, alone, rtol=0.0, atol=4.0 * np.finfo(float).eps)


def test_weights_of_the_adaptive_lasso():
    pen = np.array([1.0, 1.0, 1.0, 0.5])
    found = Adaptive(0.1, power=2.0, pen=pen).reweighted(np.array([0.0, 1.0, -4.0, 2.0])).pen
    np.testing.assert_allclose(found, [1e100, 4.0, 0.25, 0.5])  # 2 is the geometric mean
    found = Adaptive(0.1, power=9.0, pen=np.array([1.0, 0.0, 1.0])).reweighted(np.array([1e-300, 1e-300, 1.0])).pen
    np.testing.assert_array_equal(found, [1e100, 0.0, 0.0])


@settings(max_examples=number_of_streams(20), deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([1.1, 1.5, 3.0]), st.sampled_from([0.05, 0.3]), st.booleans())
@pytest.mark.filterwarnings("ignore:no feature was selected", "ignore:the selected features separate")
def test_the_objective_never_rises(seed, gamma, alpha, classify):
    rng = np.random.default_rng(seed)
    X = rng.integers(-2, 3, (80, 12)).astype(float)  # with ties
    y = X[:, 0] - X[:, 1] + 0.5 * X[:, 2] + rng.integers(-1, 2, 80)
    kind, y = (SparseClassifier, np.where(y > 0.0, 1, -1)) if classify else (SparseRegressor, y)
    for polish in (False, 1e-6):
        model = kind(penalty=MCP(gamma=gamma), alpha=alpha, polish=polish, random_state=0).fit(X, y)
        (report,) = model.report_["converted"][0]["reweighted"]
        objectives = np.array(report["objectives"])
        assert np.all(np.diff(objectives) <= 1e-9 * np.abs(objectives[:-1]))


# ---- what it is for --------------------------------------------------------------------------------------------------


def test_fewer_false_features_and_less_bias():
    """Ten sets of rows at the same alpha, with correlated columns: false features, and how far true ones are shrunk."""
    names = ("l1", "mcp", "adaptive")
    false, bias = dict.fromkeys(names, 0), dict.fromkeys(names, 0.0)
    for seed in range(10):
        rng = np.random.default_rng(seed)
        X = np.sqrt(0.5) * (rng.standard_normal((60, 100)) + rng.standard_normal((60, 1)))
        y = X[:, : TRUTH.size] @ TRUTH + 0.1 * rng.standard_normal(60)
        for name in names:
            w = SparseRegressor(penalty=name, alpha=0.03, standardize=False, random_state=0).fit(X, y).coef_
            assert w[: TRUTH.size].all()
            false[name] += np.count_nonzero(w[TRUTH.size :])
            bias[name] += float((np.sign(TRUTH) * (TRUTH - w[: TRUTH.size])).mean()) / 10
    assert false["l1"] > 15 and false["mcp"] < 0.3 * false["l1"] and false["adaptive"] < 0.3 * false["l1"]
    assert bias["l1"] > 0.05 and abs(bias["mcp"]) < 0.2 * bias["l1"] and abs(bias["adaptive"]) < 0.6 * bias["l1"]


# ---- streams, files, classes -----------------------------------------------------------------------------------------


def test_any_cut_of_a_stream_gives_the_same_bits():
    X, y, _ = rows(1500, 12)
    whole = SparseRegressor(penalty="mcp", alpha=0.05, **ONCE).fit(X, y)
    for cuts in ([700], [1, 1000, 1001]):
        model = SparseRegressor(penalty="mcp", alpha=0.05, **ONCE)
        for part in np.split(np.arange(len(y)), cuts):
            model = pickle.loads(pickle.dumps(model.partial_fit(X[part], y[part])))
        np.testing.assert_array_equal(model.coef_, whole.coef_)
        assert model.intercept_ == whole.intercept_
    assert 0 < whole.n_selected_ < 12


def test_a_stored_training_state_goes_on(tmp_path):
    X, y, _ = rows(1500, 12)
    model = SparseRegressor(penalty=Adaptive(power=2.0), alpha=0.05, random_state=0).partial_fit(X[:1100], y[:1100])
    sparsco.save(model, tmp_path / "half.model", training=True)
    again = load(tmp_path / "half.model", training=True).partial_fit(X[1100:], y[1100:])
    np.testing.assert_array_equal(again.coef_, model.partial_fit(X[1100:], y[1100:]).coef_)


def test_one_example_at_a_time():
    X, y, _ = rows(300, 8)
    model = SparseRegressor(penalty="adaptive", alpha=0.1, random_state=0)
    for x, target in zip(X, y, strict=True):
        model.learn_one({f"x{j}": value for j, value in enumerate(x)}, target)
    w = twin(X, y, Squared(), "adaptive", 0.1)[0]
    np.testing.assert_allclose(model.coef_, w, atol=1e-3)


@pytest.mark.parametrize("polish", [False, 1e-8])
def test_each_model_for_itself(polish):
    X, y, _ = rows(300, 10)
    Y = np.column_stack([y, X[:, 6] - 0.3 * y])
    parts = {"penalty": "mcp", "alpha": 0.1, "polish": polish, "random_state": 0}
    model = SparseRegressor(**parts).fit(X, Y)
    for k in range(2):
        alone = SparseRegressor(**parts).fit(X, Y[:, k])
        np.testing.assert_allclose(model.coef_[k], alone.coef_, atol=1e-6)
    assert len(model.report_["converted"][0]["reweighted"]) == 2
    classes = SparseClassifier(penalty="adaptive", alpha=0.02, polish=polish, random_state=0).fit(
        X, np.digitize(y, [-1, 1])
    )
    assert classes.coef_.shape == (3, 10) and classes.score(X, np.digitize(y, [-1, 1])) > 0.6


def test_files(tmp_path):
    X, y, _ = rows(1200, 12)
    dump_svmlight_file(X, y, str(tmp_path / "rows.svm"), zero_based=False)
    for penalty, more in (("mcp", ["--alpha", "0.1"]), ("Adaptive(0.1, power=2.0)", []), ("mcp", ["--polish"])):
        arguments = [str(tmp_path / "rows.svm"), "--penalty", penalty, "--task", "regression", *more]
        assert main(["train", *arguments, "--model", str(tmp_path / "found.model"), "--restart"]) == 0
        model = load(tmp_path / "found.model")
        assert model.report_["penalty"].startswith(("MCP(lam=", "Adaptive(lam=0.1"))  # files describe parts in words
        assert 0 < model.n_selected_ < 12
        sparsco.save(model, tmp_path / "again.model")
        np.testing.assert_array_equal(load(tmp_path / "again.model").coef_, model.coef_)


def test_longer_streams_than_the_sample(monkeypatch):
    monkeypatch.setattr(Reweighted, "sample_nonzeros", 40_000)
    X, y, _ = rows(6000, 60, density=0.5)
    parts = {"alpha": 0.1, "random_state": 0, "max_iter": 1}
    run = Run(Squared(), ElasticNet(0.02), FOBOS(), Reweighted(MCP(), AverageSL()), d=60)
    run.feed(as_matrix(X), y)
    before, after = run.conversion.finish(run).w, run.finish().w
    assert run.sample().kappa < 0.3 and not after[before == 0.0].any() and np.count_nonzero(before) < 50
    convex = SparseRegressor(penalty="l1", standardize=False, **parts).fit(X, y)
    for penalty in ("mcp", "adaptive"):
        model = SparseRegressor(penalty=penalty, **parts).fit(X, y)
        optimum = SparseRegressor(penalty=penalty, polish=1e-8, **parts).fit(X, y)
        far = np.linalg.norm(convex.coef_ - optimum.coef_)
        assert np.linalg.norm(model.coef_ - optimum.coef_) < 0.25 * far


def test_partitions():
    X, y, _ = rows(1500, 12)
    found = distributed.fit(SparseRegressor(penalty="mcp", alpha=0.1, random_state=0), (X, y), passes=2)
    np.testing.assert_allclose(found.coef_, twin(X, y, Squared(), "mcp", 0.1)[0], atol=1e-3)


@pytest.mark.filterwarnings("ignore:no feature was selected")
def test_strengths_are_compared_by_a_grid_search():
    X, y, _ = rows(150, 25)
    alphas = {"alpha": [0.003, 0.1, 2.0]}
    search = GridSearchCV(SparseRegressor(penalty="mcp", random_state=0), alphas, cv=3).fit(X, y)
    assert search.best_params_ == {"alpha": 0.1} and search.best_estimator_.n_selected_ < 15


@pytest.mark.parametrize("loss", ["hinge", "quantile", "huber"])
def test_losses_with_kinks(loss):
    X, y, labels = rows(400, 10)
    kind, y = (SparseClassifier, labels) if loss == "hinge" else (SparseRegressor, y)
    convex = kind(loss, penalty="l1", alpha=0.05, standardize=False, random_state=0).fit(X, y)
    model = kind(loss, penalty="mcp", alpha=0.05, random_state=0).fit(X, y)
    (report,) = model.report_["converted"][0]["reweighted"]
    assert report["rounds"] >= 1 and report["objectives"][-1] < report["objectives"][0]
    used = np.ravel(convex.coef_)[:4]
    assert np.all(np.abs(np.ravel(model.coef_)[:4]) > np.abs(used))


def test_nothing_selected_stays_nothing():
    X, y, _ = rows(100, 6)
    for penalty in ("mcp", "adaptive"):
        for polish in (False, True):
            with pytest.warns(UserWarning, match="no feature was selected"):
                model = SparseRegressor(penalty=penalty, alpha=100.0, polish=polish).fit(X, y)
            assert model.n_selected_ == 0 and model.report_["converted"][0]["reweighted"][0]["rounds"] == 0


def test_a_stream_without_examples():
    X, y, _ = rows(20, 6)
    model = SparseRegressor(penalty="mcp", alpha=0.1).partial_fit(X, y, np.zeros(20))
    with pytest.warns(UserWarning, match="after 0 examples"):
        assert not model.coef_.any()


@pytest.mark.parametrize("polish", [False, True])
def test_separated_classes_are_a_warning(polish):
    X, _, _ = rows(60, 40)
    y = np.where(X[:, 0] + 0.5 * X[:, 1] > 0.0, 1, -1)
    with pytest.warns(UserWarning, match=r"features separate the classes, and MCP hardly limits their weights"):
        SparseClassifier(penalty="mcp", alpha=0.02, polish=polish, random_state=0).fit(X, y)


def test_the_warning_names_a_threshold_where_the_penalty_has_one():
    class Other(NamedTuple):
        power: float = 1.0

    said: list[str] = []
    run = SimpleNamespace(problem=SimpleNamespace(loss=Logistic()), warn=said.append)
    for penalty in (MCP(0.1), Other()):
        warn_if_separated(run, penalty, [{"losses": [1.0, 0.01]}])
    assert "MCP hardly limits their weights: raise alpha or MCP(gamma=...), or add an L2 term" in said[0]
    assert "Other hardly limits their weights: raise alpha, or add an L2 term" in said[1]


# ---- parameters ------------------------------------------------------------------------------------------------------


def test_strengths():
    X, y, _ = rows(300, 10)
    named = SparseRegressor(penalty="mcp", alpha=0.2, l1_ratio=0.5, random_state=0).fit(X, y)
    assert named.report_["penalty"] == MCP(0.1, 0.1) and named.l1_ratio_ == 0.5
    for penalty in (MCP(0.1, 0.1), MCP(0.1, 0.1, GAMMA)):
        np.testing.assert_array_equal(SparseRegressor(penalty=penalty, random_state=0).fit(X, y).coef_, named.coef_)
    automatic = SparseRegressor(penalty=MCP(gamma=2.0), random_state=0).fit(X, y).report_["penalty"]
    row_share = SparseRegressor(penalty="l1", optimizer="nftrl", random_state=0).fit(X, y).report_["lam"]
    assert automatic == MCP(row_share, 0.0, 2.0)
    assert "not convex" in str(named.summary()) and "not convex" not in str(
        SparseRegressor(penalty="adaptive", alpha=0.2).fit(X, y).summary()
    )


@pytest.mark.parametrize(
    ("estimator", "says"),
    [
        (SparseClassifier("multinomial", penalty="mcp"), "MCP solves weighted problems of one model at a time"),
        (SparseRegressor(penalty="mcp", budget=2, alpha=0.1), "penalty=MCP and Sparsify both change the answer"),
        (SparseRegressor(penalty="adaptive", conversion=Threshold(0.1)), "penalty=Adaptive and Threshold both"),
        (SparseRegressor(penalty=MCP(gamma=1.0)), "MCP(gamma=1.0): it must be a number above 1"),
        (SparseRegressor(penalty=MCP(0.1, gamma=0.5)), "MCP(gamma=0.5): it must be a number above 1"),
        (SparseRegressor(penalty=Adaptive(power=0.0)), "Adaptive(power=0.0): it must be a number above 0"),
        (SparseRegressor(penalty=MCP(-1.0)), "MCP(lam=-1.0)"),
        (SparseRegressor(penalty=MCP(0.1), alpha=0.1), "carries its own strength"),
        (SparseRegressor(penalty="mcp", standardize=True), "leave it out, or scale X"),
        (SparseRegressor(penalty="mcp", l1_ratio=0.0, alpha=0.1), "MCP needs an L1 weight above 0"),
        (SparsePath(SparseRegressor(penalty="mcp")), "MCP solves weighted problems of one strength"),
        (SparseRegressorCV(SparseRegressor(penalty="mcp")), "MCP solves weighted problems of one strength"),
    ],
    ids=lambda case: "" if isinstance(case, str) else re.sub(r"\W+", "-", repr(case))[:60],
)
def test_refusals(estimator, says):
    X, y, labels = rows(150, 6)
    y = np.digitize(y, [-1, 1]) if isinstance(estimator, SparseClassifier) else y
    with pytest.raises(ValueError, match=re.escape(says)):
        estimator.fit(X, y)


def test_refusals_of_a_run():
    with pytest.raises(ValueError, match="MCP is for phase two"):
        Run(Squared(), MCP(0.1), FOBOS(), d=3)
    with pytest.raises(ValueError, match="starts from an elastic net, not from GroupL1"):
        Run(Squared(), GroupL1(0.1, np.zeros(3, int)), FOBOS(), Reweighted(MCP()), d=3)
    with pytest.raises(ValueError, match="must be a penalty with weights"):
        Run(Squared(), ElasticNet(0.1), FOBOS(), Reweighted(ElasticNet(0.1), Last()), d=3)
