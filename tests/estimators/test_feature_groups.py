"""Groups of features by labels, by names and by the columns of a table: estimators, paths, files, commands."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest

import sparsco
from sparsco import SparseClassifier, SparseClassifierCV, SparsePath, SparseRegressor, cli, load, train
from sparsco.estimators.grouping import column_of, group_codes, group_labels
from sparsco.penalties import GroupL1, SparseGroup
from sparsco.training.checkpoints import Checkpoints
from sparsco.training.results import StoppedError

LABELS = ["a", "a", "b", "b", "b", "c", "a", "d"]
CODES = np.array([0, 0, 1, 1, 1, 2, 0, 3])
NAMES = ["a=1", "a=2", "b=x", "b=y", "b=z", "c", "a=3", "d"]


def rows(n=600, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 8))
    y = X[:, 2] - X[:, 3] + 0.5 * X[:, 4] + 0.5 * rng.normal(size=n)
    return X, y


def simple(**more):
    return {"alpha": 0.1, "random_state": 0, "max_iter": 1} | more


def test_columns_without_categories_are_said():
    """pandas' own names of categories have no '=': plain L1 would be the silent result."""
    pd = pytest.importorskip("pandas")
    X, y = rows()
    frame = pd.DataFrame(X, columns=[f"job_{j}" for j in range(X.shape[1])])
    with pytest.warns(UserWarning, match="no two of the 8 features came from one column.*'job_0'"):
        SparseRegressor(penalty="group", feature_groups="columns", **simple()).fit(frame, y)


def test_codes_and_columns():
    assert group_codes(LABELS).tolist() == CODES.tolist()
    assert group_codes([7, 7.5, 7, "7"]).tolist() == [0, 1, 0, 2]
    numbers = np.random.default_rng(0).integers(-20, 20, 100)
    assert group_codes(numbers).tolist() == group_codes(numbers.tolist()).tolist()
    known = {"x", "x*b=2", "a=1*b=2", "kind=p*q", "b=2*x"}
    columns = [column_of(name, known) for name in ("x", "x*b=2", "a=1*b=2", "kind=p*q", "b=2*x", "b=c=d", 3)]
    assert columns == ["x", "x*b", "a*b", "kind", "b*x", "b", 3]
    labels = group_labels({"p": "q"}, ["p", "q", "r"], 3)
    assert len(set(labels)) == 3  # a feature that is not named does not join the group of its name


@pytest.mark.parametrize(("name", "kind"), [("group", GroupL1), ("sparse-group", SparseGroup)])
def test_every_way_to_give_groups_is_the_record(name, kind):
    pd = pytest.importorskip("pandas")
    X, y = rows()
    frame = pd.DataFrame(X, columns=NAMES)
    record = kind(0.08, CODES, rho=0.02)
    expected = SparseRegressor(penalty=record, random_state=0, max_iter=1).fit(X, y)
    assert set(CODES[expected.coef_ != 0.0]) == {1}
    by_name = {"a=1": "p", "a=2": "p", "a=3": "p", "b=x": 5, "b=y": 5, "b=z": 5}  # c and d are groups of their own
    for given, groups in ((X, LABELS), (X, np.array(LABELS)), (X, CODES * 10.0), (frame, "columns"), (frame, by_name)):
        model = SparseRegressor(penalty=name, feature_groups=groups, **simple(l1_ratio=0.8)).fit(given, y)
        assert model.report_["lam"] == pytest.approx(0.08) and model.report_["rho"] == pytest.approx(0.02)
        np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-12)
        assert model.report_["groups"] == {"selected": 1, "of": 4}
        assert "1 of 4 groups" in str(model.summary())
        assert np.array_equal(pickle.loads(pickle.dumps(model)).coef_, model.coef_)


def test_a_group_is_selected_for_all_classes_or_for_none():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(900, 8))
    y = X[:, 2:5].argmax(1)
    model = SparseClassifier(penalty="group", feature_groups=LABELS, **simple(alpha=0.05)).fit(X, y)
    assert model.coef_.shape == (3, 8)
    assert (model.coef_ != 0.0).all(0).tolist() == (CODES == 1).tolist() == (model.coef_ != 0.0).any(0).tolist()


def test_more_outputs_than_lanes_are_learned_by_mini_batches():
    X, y = rows(200)
    model = SparseRegressor(penalty="group", feature_groups=LABELS, **simple()).fit(X, np.outer(y, np.ones(130)))
    assert model.coef_.shape == (130, 8) and type(model.report_["optimizer"]).__name__ == "BatchRDA"


@pytest.mark.parametrize("name", ["group", "sparse-group"])
def test_automatic_alpha_is_a_share_of_what_selects_no_group(name):
    X, y = rows()
    own = {"penalty": name, "feature_groups": LABELS, "random_state": 0, "max_iter": 1, "standardize": False}
    lam = SparseRegressor(**own).fit(X, y).report_["lam"] / 0.05
    with pytest.warns(UserWarning, match="no feature was selected"):
        assert SparseRegressor(alpha=1.01 * lam, **own).fit(X, y).n_nonzero_ == 0
    assert SparseRegressor(alpha=0.95 * lam, **own).fit(X, y).n_nonzero_ > 0
    if name == "group":
        g = X.T @ (y - y.mean()) / len(X)
        norms = [np.linalg.norm(g[k == CODES]) / np.sqrt(np.sum(k == CODES)) for k in range(4)]
        assert lam == pytest.approx(max(norms))


def test_paths_of_group_strengths_are_separate_fits():
    X, y = rows(800)
    y = np.where(y > 0.0, 1, 0)
    own = {"penalty": "group", "feature_groups": LABELS, "random_state": 0, "shuffle": False}
    path = SparsePath(SparseClassifier(**own), n_alphas=5, validation=0.2, choose="1-se").fit(X, y).path_
    groups = [{*CODES[np.abs(path.model(alpha).coef_[0]) > 1e-6].tolist()} for alpha in path.alphas]
    assert groups[0] == set() and groups[1] == {1} and groups[-1] == {0, 1, 2, 3}
    given = SparsePath(SparseClassifier(**own), alphas=[0.1, 0.01], validation="progressive").fit(X, y)
    for alpha in (0.1, 0.01):
        alone = SparseClassifier(alpha=alpha, max_iter=1, **own).fit(X, y)
        np.testing.assert_allclose(given.path_.model(alpha).coef_, alone.coef_, rtol=0.0, atol=1e-10)
    chosen = SparseClassifierCV(SparseClassifier(**own), n_alphas=4, cv=3).fit(X, y)
    assert 1 in CODES[chosen.best_estimator_.coef_[0] != 0.0]
    with pytest.raises(ValueError, match="GroupL1 ties the 3 models of a strength together"):
        SparsePath(SparseClassifier(**own)).fit(X, np.arange(800) % 3)
    with pytest.raises(ValueError, match="SparseGroup has no prox of one weight"):
        SparsePath(SparseClassifier(**(own | {"penalty": "sparse-group"}))).fit(X, y)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"penalty": "group"}, "penalty='group' needs feature_groups="),
        ({"feature_groups": LABELS}, "feature_groups are for penalty='group' and 'sparse-group', not 'elasticnet'"),
        ({"penalty": "group", "feature_groups": LABELS[:5]}, "has 5 labels, and there are 8 columns"),
        ({"penalty": "group", "feature_groups": [*LABELS[:7], None]}, "no label for column 7"),
        ({"penalty": "group", "feature_groups": [*range(7), float("nan")]}, "no label for column 7"),
        ({"penalty": "group", "feature_groups": "rows"}, "feature_groups='rows': give 'columns'"),
        ({"penalty": "group", "feature_groups": np.ones((2, 4))}, "must be one-dimensional"),
        ({"penalty": "group", "feature_groups": "columns"}, "is 'columns', and the columns have no names"),
        ({"penalty": "group", "feature_groups": {"a": 1}}, "is a dict of names, and the columns have no names"),
        ({"penalty": "group", "feature_groups": LABELS, "storage": "seen"}, "feature_groups has one value per column"),
        ({"penalty": "group", "feature_groups": LABELS, "optimizer": "nftrl"}, "NFTRL has no form for GroupL1"),
    ],
)
def test_refusals(given, says):
    X, y = rows(50)
    with pytest.raises(ValueError, match=says):
        SparseRegressor(**given).fit(X, y)


def test_names_that_do_not_occur():
    pd = pytest.importorskip("pandas")
    X, y = rows(100)
    frame = pd.DataFrame(X, columns=NAMES)
    own = {"penalty": "group", "alpha": 0.1}
    with pytest.raises(ValueError, match="no name of a feature: it has 'x', and the first feature is 'a=1'"):
        SparseRegressor(feature_groups={"x": 1}, **own).fit(frame, y)
    with pytest.warns(UserWarning, match="has 1 name that no feature has, such as 'x'"):
        SparseRegressor(feature_groups={"x": 1, "c": 1, "d": 1}, **own).fit(frame, y)


def test_streams_have_the_columns_of_their_first_rows():
    X, y = rows(1200)
    make = SparseRegressor(penalty="group", feature_groups=LABELS, **simple(shuffle=False, tol=None))
    whole = make.fit(X, y).coef_
    pieces = SparseRegressor(**make.get_params())
    for part in np.split(np.arange(1200), [3, 700, 1001]):
        pieces.partial_fit(X[part], y[part])
    assert np.array_equal(pieces.coef_, whole)
    with pytest.raises(ValueError, match="X has 9 columns, and the groups were made of 8: give all columns"):
        pieces.partial_fit(np.c_[X, y], y)
    pieces.feature_groups = CODES
    with pytest.raises(ValueError, match="feature_groups changed since this stream began"):
        pieces.partial_fit(X, y)
    with pytest.raises(ValueError, match="feature_groups has one value per feature, and learn_one"):
        SparseRegressor(penalty="group", feature_groups=LABELS).learn_one({"a": 1.0}, 1.0)


# ---- tables and commands ---------------------------------------------------------------------------------------------


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with a table: a column that matters, one that does not, a category that comes late, and a number."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    rng = np.random.default_rng(0)
    job, city, age = (
        rng.choice(["cook", "clerk", "smith"], 1500),
        rng.choice(list("uvwxyz"), 1500),
        rng.normal(size=1500),
    )
    job[:1300] = np.where(job[:1300] == "smith", "cook", job[:1300])
    z = np.where(job == "cook", 1.0, -1.0) + age + 0.5 * rng.logistic(size=1500)
    lines = [f"{a},{b},{c:.3f},{int(t > 0)}" for a, b, c, t in zip(job, city, age, z, strict=True)]
    (tmp_path / "t.csv").write_text("job,city,age,target\n" + "\n".join(lines) + "\n")
    return tmp_path


SETTINGS = {"penalty": "group", "feature_groups": "columns", "alpha": 0.04, "random_state": 0}


@pytest.mark.parametrize("shuffle", [True, False])
def test_columns_of_a_table_with_a_category_that_comes_late(here, shuffle):
    """All rows are read once before: smith, which first occurs at row 1300, is in the group of its column."""
    trained = train("t.csv", settings=SETTINGS, shuffle=shuffle)
    model, names = trained.estimator, trained.stream.names
    assert model.n_features_in_ == len(names) == 10
    found = {names[j] for j in np.flatnonzero(model.coef_[0])}
    assert found == {"job=cook", "job=clerk", "job=smith", "age"}
    assert model.report_["groups"] == {"selected": 2, "of": 3}
    assert json.loads(json.dumps(model.report_["groups"])) == model.report_["groups"]
    codes = model.report_["penalty"].groups
    assert len({int(codes[j]) for j in names if names[j].startswith("job=")}) == 1


def test_an_interrupted_run_ends_with_the_same_bits(here):
    whole = train("t.csv", settings=SETTINGS).model
    calls, kept = [], Checkpoints(here / "kept", 300)
    train("t.csv", settings=SETTINGS, stop=lambda: bool(calls.append(0)))
    stops = iter([False] * (len(calls) - 2) + [True] * 2)
    with pytest.raises(StoppedError, match="behind row [1-9]"):
        train("t.csv", settings=SETTINGS, checkpoints=kept, stop=lambda: next(stops))
    resumed = train("t.csv", settings=SETTINGS, checkpoints=kept, resume=True).model
    assert np.array_equal(whole.convert().coef.toarray(), resumed.convert().coef.toarray())


def test_sources_without_names_or_a_second_read(here):
    (here / "d.svm").write_text("1 1:1 3:1\n-1 2:1\n" * 300)
    with pytest.raises(ValueError, match="the columns have no names"):
        train("d.svm", settings=SETTINGS)
    by_number = SETTINGS | {"feature_groups": {"1": "p", "3": "p"}}
    assert train("d.svm", settings=by_number).estimator.coef_[0, [1, 3]].all()
    with pytest.raises(ValueError, match="hashing drops: leave out hash_bits"):
        train("t.csv", settings=SETTINGS, reader={"hash_bits": 5})
    with pytest.raises(ValueError, match="feature_groups='columns' is not for data in partitions"):
        sparsco.distributed.fit(SparseClassifier(penalty="group", feature_groups="columns"), ["t.csv"])
    with pytest.raises(ValueError, match="can be read once only: give a file"):
        train(iter([({"a": 1.0}, 1)]), settings=SETTINGS)


def test_commands(here, capsys):
    arguments = ["train", "t.csv", "-m", "m", "--quiet", "--alpha", "0.04"]
    assert cli.main([*arguments, "--groups", "columns"]) == 0
    assert "groups: 2 of 3 selected: " in capsys.readouterr().out
    expected = train("t.csv", settings=SETTINGS)
    model = load("m")
    assert model.feature_groups == "columns" and model.penalty == "group" and "2 of 3 groups" in str(model.summary())
    weights = expected.model.convert().coef.toarray()
    assert np.array_equal(np.sort(model.coef_[model.coef_ != 0.0]), np.sort(weights[weights != 0.0]))
    assert cli.main(["inspect", "m"]) == 0 and "groups: 2 of 3 selected" in capsys.readouterr().out
    (here / "g.txt").write_text("job=cook\tjob or city\njob=clerk\tjob or city\n\ncity=u\tjob or city\nage  other\n")
    assert cli.main([*arguments, "--groups", "g.txt", "--penalty", "sparse-group", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["groups"]
    assert set(found["selected"]) >= {"job or city", "other"} and found["of"] == 2 + 6
    assert cli.main(["path", "t.csv", "--quiet", "--n-alphas", "4", "--groups", "columns", "--choose", "20"]) == 0
    assert "chosen" in capsys.readouterr().out
    for text, says in (
        ("job=cook\n", "line 1: it must have a feature"),
        ("a x\na y\n", "line 2: 'a' has a group"),
        ("", "no lines"),
    ):
        (here / "bad.txt").write_text(text)
        assert cli.main([*arguments, "--groups", "bad.txt"]) == 2
        assert says in capsys.readouterr().err
    assert cli.main([*arguments, "--groups", "none.txt"]) == 2
    assert cli.main([*arguments, "--penalty", "group"]) == 2
    assert "needs feature_groups= (--groups)" in capsys.readouterr().err
