"""The life cycle of a fit: its phases, the step that converts, copies, and the way back after an error."""

import copy
import pickle
import threading

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import sparsco.estimators.fit_state as fit_state
from sparsco import SparseClassifier, SparsePath, SparseRegressor, StableSparseClassifier, load, save
from sparsco.data.rows import as_matrix
from sparsco.estimators.life_cycle import LifeCycle, Phase, unchanged_on_error
from sparsco.estimators.passes import order_of_pass, run_passes
from sparsco.estimators.sklearn import as_estimator
from sparsco.estimators.tasks import LinearClassifier

RNG = np.random.default_rng(0)
X = RNG.standard_normal((1500, 6))
Y = np.where(X[:, 0] - X[:, 1] > 0.0, 1, -1)
SIMPLE = {"alpha": 0.01, "optimizer": "fobos", "conversion": "last", "random_state": 0}


def stream():
    return SparseClassifier(**SIMPLE).partial_fit(X, Y, classes=[-1, 1])


@pytest.fixture
def solved(monkeypatch):
    """A list that grows by one with each conversion."""
    calls, real = [], fit_state.convert_runs
    monkeypatch.setattr(fit_state, "convert_runs", lambda *args: (calls.append(1), real(*args))[1])
    return calls


def test_the_phases_of_an_estimator():
    model = SparseClassifier(**SIMPLE)
    assert model.fit_state.phase is Phase.EMPTY and not model.fit_state.is_fitted
    assert model.fit(X, Y).fit_state.phase is Phase.BATCH
    assert model.partial_fit(X, Y).fit_state.phase is Phase.STREAM
    assert model.finalize().fit_state.phase is Phase.FINISHED and not model.fit_state.is_training
    with pytest.raises(ValueError, match="finalize.. dropped the training state: this model cannot continue"):
        model.partial_fit(X, Y)
    assert model.fit(X, Y).fit_state.phase is Phase.BATCH


def test_what_a_pickle_keeps():
    batch, warm = SparseClassifier(**SIMPLE).fit(X, Y), SparseClassifier(**SIMPLE, warm_start=True).fit(X, Y)
    phases = [pickle.loads(pickle.dumps(model)).fit_state.phase for model in (batch, warm, stream())]
    assert phases == [Phase.FINISHED, Phase.BATCH, Phase.STREAM]
    assert batch.fit_state.phase is Phase.BATCH and batch.fit_state.runs


@pytest.mark.parametrize("make", [stream, lambda: SparsePath(SparseClassifier(**SIMPLE), n_alphas=2).fit(X, Y)])
def test_converting_twice_computes_once(make):
    model = make()
    first = model.convert()
    assert model.convert() is first


def test_what_needs_a_model_converts_it_and_the_report_does_not(solved):
    model = stream()
    assert model.report_ == {"state": "not converted yet", "examples": 1500} and not solved
    assert model.coef_.any() and len(solved) == 1
    assert model.report_["lam"] == 0.01 and model.predict(X).any() and len(solved) == 1
    assert model.partial_fit(X, Y).report_ == {"state": "not converted yet", "examples": 3000}
    model.convert()
    assert model.report_["examples"] == 3000 and len(solved) == 2


def test_the_report_counts_examples_that_are_only_noted(solved):
    model = SparseRegressor().learn_one({"a": 1.0}, 1.0).learn_one({"b": 1.0}, 2.0)
    assert model.report_ == {"state": "not converted yet", "examples": 2} and len(model.fit_state.noted) == 2
    assert not solved and model.t_ == 2


def test_nothing_answers_before_a_fit():
    for model in (SparseClassifier(), SparsePath(), StableSparseClassifier()):
        with pytest.raises(NotFittedError):
            model.convert()
    with pytest.raises(NotFittedError):
        SparseClassifier().report_  # noqa: B018


def test_an_error_puts_states_and_attributes_back():
    class Owner:
        pass

    owner, state = Owner(), LifeCycle(Phase.STREAM)
    owner.state, owner.width = state, 1
    with pytest.raises(KeyError), unchanged_on_error(owner):
        state.model, owner.width, owner.more = "another", 2, 3
        state.enter(Phase.FINISHED)
        owner.state = LifeCycle()
        raise KeyError
    assert vars(owner) == {"state": state, "width": 1} and state.model is None and state.phase is Phase.STREAM


@pytest.mark.parametrize(
    "make",
    [
        lambda: SparseClassifier(**SIMPLE),
        lambda: SparsePath(SparseClassifier(**SIMPLE), n_alphas=2, validation=0.2),
        lambda: StableSparseClassifier(2, random_state=0),
        lambda: StableSparseClassifier(method="paper", random_state=0),
    ],
    ids=["linear", "path", "stable", "paper"],
)
@pytest.mark.parametrize("n", [300, 1200])
def test_bad_rows_leave_a_stream_where_it_was(make, n):
    broken, clean = make(), make()
    for model in (broken, clean):
        model.partial_fit(X[:n], Y[:n], classes=[-1, 1])
    for bad in (np.where(Y == 1, 7, Y), np.where(Y == 1, np.nan, Y)):
        with pytest.raises(ValueError):
            broken.partial_fit(X, bad)
    with pytest.raises(ValueError):
        broken.fit(X, np.ones(1500))
    for model in (broken, clean):
        model.partial_fit(X[n:], Y[n:])
    assert broken.fit_state.phase is Phase.STREAM
    assert np.array_equal(broken.predict(X), clean.predict(X))
    if not isinstance(broken, SparsePath):
        assert np.array_equal(broken.coef_, clean.coef_)


def test_runs_share_the_list_of_warnings_given(tmp_path):
    labels = np.arange(1500) % 40
    model = SparseClassifier(**SIMPLE).partial_fit(X, labels, classes=range(40))
    save(model, tmp_path / "model", training=True)
    loaded, unpickled = load(tmp_path / "model", training=True), pickle.loads(pickle.dumps(model))
    for each in (model, copy.deepcopy(model), unpickled, loaded):
        state = each.fit_state
        assert len(state.runs) == 2 and all(run.told is state.told for run in state.runs)


def test_an_estimator_of_a_model_has_a_phase_of_its_own():
    model = LinearClassifier(**SIMPLE).take_rows(as_matrix(X), Y, classes=[-1, 1])
    assert as_estimator(model).finalize().fit_state.phase is Phase.FINISHED
    assert model.fit_state.phase is Phase.STREAM and model.take_rows(as_matrix(X), Y).t_ == 3000


def test_a_clone_of_a_state_has_runs_of_its_own():
    state = stream().fit_state
    twin = state.clone([])
    assert twin.runs == [] and len(state.runs) == 1 and twin.features is state.features and twin.told is state.told
    shell = state.shell("over")
    assert shell.phase is Phase.FINISHED and shell.ended == "over" and state.phase is Phase.STREAM


def test_passes_have_orders_of_their_own_and_can_end_early():
    seen = [[], [], []]
    rows = np.arange(10)
    run_passes(
        rows,
        3,
        lambda order, epoch: seen[epoch].append(order),
        seed=1,
        shuffle=True,
        size=4,
        is_done=lambda epoch: epoch == 1,
    )
    orders = [np.concatenate(parts) for parts in seen[:2]]
    assert [len(part) for part in seen[0]] == [4, 4, 2] and not seen[2]
    assert all(np.array_equal(np.sort(order), rows) for order in orders) and not np.array_equal(*orders)
    assert np.array_equal(orders[1], order_of_pass(rows, 1, True, 1))


# ---- a path is an estimator like the others --------------------------------------------------------------------------


def test_a_path_has_parameters_like_any_estimator():
    path = SparsePath(SparseClassifier(**SIMPLE), n_alphas=3, choose=6)
    assert path.get_params()["n_alphas"] == 3 and path.get_params()["estimator__alpha"] == 0.01
    twin = clone(path.fit(X, Y)).set_params(estimator__l1_ratio=0.5, alphas=[0.1])
    assert twin.fit_state.phase is Phase.EMPTY and twin.estimator.l1_ratio == 0.5 and path.estimator.l1_ratio == "auto"
    assert "n_alphas=3" in repr(path) and path.n_features_in_ == 6 and path.classes_.tolist() == [-1, 1]
    assert path.score(X, Y) > 0.8 and path.predict_proba(X).shape == (1500, 2)


def test_a_path_that_is_looked_at_is_not_converted(monkeypatch):
    path = SparsePath(SparseClassifier(**SIMPLE), n_alphas=2).partial_fit(X, Y, classes=[-1, 1])
    html = path._repr_html_()
    dir(path), repr(path)
    assert "SparsePath" in html and path.fit_state.model is None
    assert path.alpha_ in path.path_.alphas


def test_a_training_state_of_another_layout_is_refused():
    """A kernel would write beyond the end of its cells."""
    model = SparseRegressor(**SIMPLE).partial_fit(X, X[:, 0])
    run = model.fit_state.runs[0]
    assert pickle.loads(pickle.dumps(model)).fit_state.runs[0].state.cell.size == run.state.cell.size
    run.state = run.state._replace(cell=run.state.cell[:-1])
    with pytest.raises(ValueError, match="another version of sparsco"):
        pickle.loads(pickle.dumps(model))


def learning(work):
    """Do something with a model while another thread fits it."""

    class Waiting(SparseRegressor):
        def fit_rows(self, *arguments):
            begun.set()
            assert go_on.wait(60)
            return super().fit_rows(*arguments)

    begun, go_on, X = threading.Event(), threading.Event(), np.eye(9)
    model = Waiting(alpha=0.1)
    thread = threading.Thread(target=lambda: model.fit(X, X[:, 0]))
    thread.start()
    try:
        assert begun.wait(60)
        return work(model)
    finally:
        go_on.set()
        thread.join()
        assert model.predict(X).shape == (9,)  # the first thread is not disturbed


@pytest.mark.parametrize(
    "work",
    [
        lambda model: model.fit(np.eye(9), np.ones(9)),
        lambda model: model.partial_fit(np.eye(9), np.ones(9)),
        lambda model: model.learn_one({"a": 1.0}, 1.0),
    ],
)
def test_a_second_thread_does_not_change_a_model(work):
    with pytest.raises(RuntimeError, match="is learning in another thread"):
        learning(work)
