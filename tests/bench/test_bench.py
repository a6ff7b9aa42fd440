"""The benchmark runs, goes on where it stopped, and says what it could not measure."""

from __future__ import annotations

import json
import time

import numpy as np
import pytest

from sparsco import cli
from sparsco.bench import charts, figures, kernel_only, measure, methods, optimum, present, sets, solvers, suite
from sparsco.bench.kept import Kept
from sparsco.conversions import Last
from sparsco.optimizers import FOBOS
from sparsco.util import sources
from sparsco.util.result_store import Store

EMPTY = {"machine": {}, "problems": [], "scaling": [], "lines": [], "left_out": {}, "ended": "", "load_after": 0.0}
TINY = ["--sets", "rcv1-1kx2k", "--rounds", "2", "--strengths", "1", "--patience", "2"]


@pytest.fixture
def bench(tmp_path, monkeypatch, capsys):
    """The command with its own folder of results."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    def run(*arguments):
        code = cli.main(["bench", *arguments])
        return code, capsys.readouterr()

    return run


def kept_in(folder, is_resumed=False, again=()):
    """Measurements in two files of a folder."""
    return Kept(*(Store(folder / f"{name}.jsonl", is_resumed) for name in ("ours", "others")), again)


def broken(message):
    def make(problem):
        raise RuntimeError(message)

    return methods.METHODS["sklearn saga"]._replace(make=make)


def test_a_run_is_written_resumed_and_shown_again(bench, tmp_path, monkeypatch):
    files = [tmp_path / name for name in ("bench.json", "bench.md", "bench.html")]
    options = [*TINY, "--methods", "sklearn sgd", "sparsco fobos", "--skip", "scaling", "memory"]
    written = ["--json", str(files[0]), "--markdown", str(files[1]), "--report", str(files[2])]
    code, said = bench(*options, *written)
    assert code == 0 and said.out == files[1].read_text()
    results = json.loads(files[0].read_text())
    plain, elastic = results["problems"]
    assert (plain["kind"], elastic["kind"]) == (methods.L1, methods.ELASTIC) and plain["rows"] == 1000
    assert plain["optimum"]["off_by_at_most"] < 1e-6
    lines = {line["method"]: line for line in plain["methods"]}
    assert set(lines) == {"bare pass", "sparsco fobos", "sparsco polish", "sklearn sgd"}
    polish, sgd = lines["sparsco polish"], lines["sklearn sgd"]
    assert set(polish["levels"]) == {"0.01", "0.001"} and polish["levels"]["0.001"]["gap"] <= 1e-3
    one = sgd["pass"]
    assert one["cpu"]["count"] == 2 and 0 < one["cpu"]["min"] <= one["cpu"]["median"] <= one["cpu"]["max"]
    assert 0.0 < one["f1"] <= 1.0 and 0.0 <= one["test_error"] < 0.5 and one["gap"] > 0.0
    assert one["ns_per_nonzero"] == pytest.approx(1e9 * one["cpu"]["min"] / plain["nonzeros"])
    page = files[2].read_text()
    assert "<svg" in page and "Wins and losses" in page and "http" not in page.split("<svg")[0]

    def again(job):
        raise AssertionError("measured a second time")

    monkeypatch.setattr(measure, "timed", again)
    code, said = bench(*options, "--resume", "--json", "-")
    assert code == 0
    assert json.loads(said.out)["problems"][0]["methods"] == plain["methods"]
    code, said = bench("--from", str(files[0]), str(files[0]))
    assert code == 0 and said.out.count("### rcv1-1kx2k") == 4


def test_what_is_missing_or_fails_is_said_in_one_line(tmp_path, monkeypatch):
    absent = methods.METHODS["skglm"]._replace(package="no-such-package", needs="no.such.package")
    bad = broken("<b>|no</b>\nmore")
    monkeypatch.setattr(optimum, "METHODS", methods.METHODS | {"skglm": absent})
    said = []
    plan = suite.Plan(
        ["dense-300x5"],
        [methods.METHODS["bare pass"], methods.METHODS["sparsco polish"], bad, absent],
        1,
        1,
        parts=["levels"],
    )
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    results = suite.run(plan, kept_in(tmp_path), said.append, lambda results: None)
    assert said[0] == "left out: no-such-package is not installed"
    assert results["problems"][0]["failed"] == {"sklearn saga": "RuntimeError: <b>|no</b>"}
    page = present.write_page(tmp_path / "page.html", results).read_text()
    assert "&lt;b&gt;|no&lt;/b&gt;" in page and "<b>|no" not in page
    assert "no-such-package is not installed" in present.as_markdown(results)


def test_a_cell_cannot_break_a_markdown_table():
    assert present._line(("a|b", "c\nd", None, 0.5)) == "| a\\|b | c d | – | 0.5 |"


def test_the_bound_is_below_every_objective():
    problem = sets.Problem(sets.load("dense-300x5", keep=False), 0.05)
    rng = np.random.default_rng(0)
    for each in (problem, problem._replace(rho=0.1), problem._replace(intercept=False)):
        points = [(rng.normal(size=5), float(rng.normal())) for _ in range(20)]
        bound = max(optimum.lower_bound(each, w, b) for w, b in points)
        found = optimum.solve(each)
        assert bound <= found["objective"] <= min(each.objective(w, b) for w, b in points)
        assert found["off_by_at_most"] < 1e-8


def test_sets_are_the_same_each_time_and_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for name in ("ctr-200x5k", "dense-200x3"):
        fresh, kept = sets.load(name), sets.load(name)
        assert fresh.X.shape == (200, sets.number(name.partition("x")[2])) and fresh.X_test.shape[0] == 20
        assert abs(fresh.X - kept.X).sum() == 0.0 and (fresh.y == kept.y).all()
        assert fresh.strengths == kept.strengths
    assert len(list((tmp_path / "sparsco" / "bench").iterdir())) == 4


def test_wins_and_losses_count_what_was_not_reached():
    def line(name, seconds):
        levels = {"0.01": {"cpu": {"min": seconds}}} if seconds else {}
        return {"method": name, "levels": levels, "pass": None, "rows": None}

    def problem(name, ours, theirs):
        return {
            "set": name,
            "lam": 1.0,
            "kind": methods.L1,
            "rho": 0.0,
            "rows": 1,
            "methods": [line("sparsco polish", ours), line("skglm", theirs)],
        }

    problems = [problem("a9a", 1.0, 4.0), problem("w8a", 1.0, None), problem("sms", None, 1.0)]
    found = figures.ratios(problems, "skglm", "sparsco polish", "0.01")
    assert list(found.values()) == [4.0, np.inf, 0.0]
    row = present._against(problems).rows[0]
    assert row[3:6] == ("2 of 3", "4 (2 reached by one of the two only)", "every one: MISSED")
    assert "sms" in row[6]


def test_memory_is_what_a_job_takes_at_most():
    def job():
        return float(np.ones(5_000_000).sum())

    job()
    assert 30.0 < measure.memory_of(job) < 80.0


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["--sets", "rcv2-20k"], "there is no set 'rcv2-20k'"),
        (["--sets", "cpusmall"], "is a regression"),
        (["--methods", "perceptron"], "there is no method 'perceptron'"),
        (["--patience", "0"], "--patience"),
        (["--shares", "1.5"], "--shares must be between 0 and 1, got 1.5"),
        (["--shares", "0.1", "--strengths", "1"], "leave --strengths out"),
        (["--again", "sparsco"], "--again is for --resume"),
        (["--resume", "--again", "perceptron"], "there is no package 'perceptron'"),
        (["--kill"], "--kill is for --scale"),
        (["--json", "a", "--markdown", "a"], "different files"),
        (["--from", "pyproject.toml"], "does not hold results"),
        *(
            (["--sets", name], f"the set {name} is too small")
            for name in (
                "rcv1-5kx0",
                "ctr-5kx0",
                "dense-5kx0",
                "rcv1-0",
                "dense-0",
                "rcv1-1",
                "ctr-99",
                "rcv1-1kx499",
                "ctr-1kx249",
            )
        ),
        (["--from", "b.json", "--sets", "a9a"], "leave --sets out"),
        (["--from", "b.json", "--quick"], "leave --quick out"),
        (["--from", "b.json", "--methods", "skglm", "--skip", "memory"], "leave --methods, --skip out"),
        (["--from", "b.json", "--rounds", "2", "--resume"], "leave --rounds, --resume out"),
        (["--from", "b.json", "--strengths", "1"], "leave --strengths out"),
        (["--from", "b.json", "--patience", "2"], "leave --patience out"),
    ],
)
def test_bad_arguments(arguments, part, bench, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text("[]")
    (tmp_path / "b.json").write_text(json.dumps(EMPTY))
    code, said = bench(*arguments)
    assert code == 2 and part in said.err and said.err.count("\n") == 1
    assert not list(tmp_path.rglob("*.np[yz]"))


@pytest.fixture
def without_data(tmp_path, monkeypatch):
    """No real sets, and two small ones as the usual sets."""
    monkeypatch.delenv("SPARSCO_DATA", raising=False)
    monkeypatch.setattr(sets, "USUAL", ("dense-100x1", "rcv1-100x500"))  # as small as can be


@pytest.mark.parametrize("wanted", [["real"], ["usual", "real"], ["a9a"]])
def test_real_sets_asked_for_need_data(wanted, bench, without_data):
    code, said = bench("--sets", *wanted, "--skip", "scaling", "memory")
    assert code == 2 and said.out == "" and said.err.count("\n") == 1 and "a9a" in said.err


def test_real_sets_without_data_are_left_out_and_named(bench, without_data, tmp_path):
    file = tmp_path / "b.json"
    parts = ["--skip", "scaling", "memory", "levels"]
    code, said = bench(*parts, "--rounds", "1", "--strengths", "1", "--json", str(file))
    results = json.loads(file.read_text())
    assert code == 0 and {problem["set"] for problem in results["problems"]} == {*sets.USUAL}
    assert {*sets.CLASSES} <= {*results["left_out"]} and "cpusmall" not in results["left_out"]
    assert "left out: the files of a9a are missing\n" in said.err and "; the files of a9a are missing" in said.out
    other = tmp_path / "a9a.json"  # measured elsewhere
    other.write_text(json.dumps(results | {"problems": [results["problems"][0] | {"set": "a9a"}], "left_out": {}}))
    code, said = bench("--from", str(file), str(other))
    assert code == 0 and "files of a9a" not in said.out and "files of w8a" in said.out


def test_sets_of_a_group_are_those_that_are_there(monkeypatch):
    def find(name, part=None):
        if name != "a9a":
            raise sets.datasets.MissingDataError(name)
        return []

    monkeypatch.setattr(sets.datasets, "find", find)
    others = [name for name in sets.CLASSES if name != "a9a"]
    assert sets.names(["real"], False) == (["a9a"], others)
    assert sets.names(["all"], False) == ([*sets.USUAL, *sets.LONG, "a9a"], others)
    assert sets.names(None, False) == ([*sets.USUAL, "a9a"], others)
    assert sets.names(None, True) == (list(sets.QUICK), []) and sets.names(["a9a"], True) == (["a9a"], [])


def test_only_sets_that_can_be_run_are_offered(bench):
    code, said = bench("--sets", "nothing")
    assert code == 2 and "a9a" in said.err and "cpusmall" not in said.err and "imdbreg" not in said.err


def test_earlier_results_go_when_there_are_new_ones(bench, tmp_path, monkeypatch):
    options = ["--sets", "dense-100x1", "--methods", "bare pass", "--skip", "scaling", "memory", "levels"]
    assert bench(*options, "--rounds", "2")[0] == 0
    (path,) = tmp_path.rglob("bench.*.jsonl")
    before = path.read_text()
    with monkeypatch.context() as patch:
        patch.setattr(sets, "load", lambda name: broken("unreadable").make(name))
        assert bench(*options)[0] == 4 and path.read_text() == before
    with monkeypatch.context() as patch:
        patch.setattr(optimum, "solve", lambda *_: broken("unsolved").make(None))
        assert bench(*options)[0] == 4 and path.read_text() == before
    assert bench(*options, "--quick")[0] == 0 and path.read_text() == before
    (quick,) = tmp_path.rglob("bench-quick.*.jsonl")
    assert bench(*options, "--rounds", "1")[0] == 0
    assert 0 < len(path.read_text().splitlines()) < len(before.splitlines()) and quick.exists()


@pytest.mark.filterwarnings("ignore:no feature was selected")
def test_strengths_may_be_shares_of_the_largest(bench, tmp_path):
    file = tmp_path / "b.json"
    options = ["--methods", "bare pass", "--skip", "scaling", "memory", "levels", "--rounds", "1"]
    shares = ["--shares", "0.5", "0.3", "0.1"]
    assert bench("--sets", "dense-300x5", *options, *shares, "--json", str(file))[0] == 0
    data = sets.load("dense-300x5")
    largest = np.abs(data.X.T @ (data.y - data.y.mean())).max() / (2 * len(data.y))
    found = [problem["lam"] for problem in json.loads(file.read_text())["problems"] if problem["kind"] == methods.L1]
    assert found == pytest.approx([0.5 * largest, 0.3 * largest, 0.1 * largest], rel=1e-12)
    nothing = methods.METHODS["sparsco polish"].make(sets.Problem(data, 1.001 * largest))({"polish": 1e-9})
    something = methods.METHODS["sparsco polish"].make(sets.Problem(data, 0.9 * largest))({"polish": 1e-9})
    assert not nothing.coef_.any() and something.coef_.any()


def test_others_are_kept_when_our_sources_change(tmp_path):
    made = []

    def measured(again=()):
        kept = kept_in(tmp_path, True, again)
        made.clear()
        for package in ("sparsco", "numpy", ""):
            for _ in range(2):
                kept.once(package, ["round", 1], lambda package=package: made.append(package) or len(made))
        return list(made)

    assert measured() == ["sparsco", "numpy", ""] and measured() == []
    assert measured(["numpy"]) == ["numpy"] and measured() == []  # once in a process, and kept
    (tmp_path / "ours.jsonl").unlink()  # another hash of our sources is another file
    assert measured() == ["sparsco"] and measured(["sparsco"]) == ["sparsco"]


def test_nothing_that_learns_decides_what_is_measured_of_others():
    files = [file for file in sources._files() if sources.is_below(file, sources.OTHERS)]
    assert "bench/solvers.py" in files and "bench/methods.py" not in files
    learning = ("engine", "optimizers", "conversions", "estimators", "solver", "choice", "selection", "jit")
    assert not [file for file in files if sources.is_below(file, learning)]
    assert all(any(sources.is_below(file, [place]) for file in files) for place in sources.OTHERS)
    assert sources.others_hash() != sources.results_hash()


def busy(seconds):
    begun = time.process_time()
    while time.process_time() - begun < seconds:
        pass


def test_a_limit_interrupts_and_leaves_the_clock_alone():
    """A timer of CPU time would make the clock of the process lag by milliseconds."""
    with pytest.raises(measure.LimitError, match="not done within 0.05 CPU seconds"), measure.limited(0.05):
        busy(10.0)

    def apart():
        """Return the difference of the process's clock and the thread's, over a millisecond; the thread's is exact."""
        begun, process, thread = time.perf_counter(), time.process_time(), time.thread_time()
        while time.perf_counter() - begun < 1e-3:
            pass
        return abs((time.process_time() - process) - (time.thread_time() - thread))

    with measure.limited(60.0):
        assert np.median([apart() for _ in range(40)]) < 1e-4


@pytest.mark.parametrize("arguments", [["--sets", "dense-100x1"], ["--scale", "ctr-1k"]])
def test_a_limit_on_cpu_time_is_refused(arguments, bench, monkeypatch):
    """It makes the clock inexact: a job of 1 ms was measured as nothing."""
    limit = (1000, measure.resource.RLIM_INFINITY)
    monkeypatch.setattr(measure.resource, "getrlimit", lambda which: limit)
    code, said = bench(*arguments)
    assert code == 2 and "ulimit -t" in said.err and said.out == "" and said.err.count("\n") == 1


def test_a_batch_solver_that_takes_too_long_is_interrupted(tmp_path, monkeypatch):
    def slow(problem):
        return lambda setting: busy(0.0 if len(problem.data.y) < 300 else 20.0)

    def read(problem, model):
        return np.zeros(problem.data.X.shape[1]), 0.0

    endless = methods.METHODS["skglm"]._replace(name="endless", make=slow, read=read, needs="numpy")
    monkeypatch.setitem(methods.METHODS, "endless", endless)
    monkeypatch.setattr(suite, "INTERRUPTED", 0.2)
    monkeypatch.setattr(suite, "WARM_ROWS", 100)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    said = []
    plan = suite.Plan(["dense-300x5"], [methods.METHODS["sparsco polish"], endless], 1, 1, 1.0, ["levels", "memory"])
    results = suite.run(plan._replace(kinds=(methods.L1,)), kept_in(tmp_path), said.append, lambda results: None)
    (problem,) = results["problems"]
    line = next(line for line in problem["methods"] if line["method"] == "endless")
    assert line["levels"] == {} and line["memory"] is None and any("not done within" in each for each in said)
    assert "| endless | – |" in present.as_markdown(results)


def test_methods_of_which_none_is_installed_are_refused(bench, monkeypatch):
    absent = methods.METHODS["skglm"]._replace(package="no-such-package", needs="no.such.package")
    monkeypatch.setitem(methods.METHODS, "skglm", absent)
    for wanted in ("skglm", "no-such-package"):
        code, said = bench("--methods", wanted)
        assert code == 2 and said.out == ""
        assert said.err.endswith("--methods: no-such-package is not installed: pip install no-such-package.\n")
    assert absent in methods.chosen(["skglm", "sklearn sgd"])  # one that is there is enough


def test_a_gap_of_nothing_is_compared():
    def line(name, gap):
        return {"method": name, "levels": {}, "rows": None, "pass": {"gap": gap, "cpu": {"min": 1.0}}}

    def found(ours, theirs):
        problem = {"set": "a9a", "lam": 1.0, "kind": methods.L1, "rows": 1}
        problem["methods"] = [line("sparsco default", ours), line("skglm", theirs)]
        return [*figures.ratios([problem], "skglm", "sparsco default", "gap").values()]

    assert found(0.0, 0.0) == [1.0] and found(0.0, 2 * figures.NEAR) == [2.0] and found(0.0, None) == []


def test_help_ends_with_an_example_and_exit_codes(capsys):
    with pytest.raises(SystemExit):
        cli.main(["bench", "--help"])
    _, _, end = capsys.readouterr().out.partition("\nexample:\n")
    assert "sparsco bench --quick" in end and "half a minute" in end and "\nexit code:\n    0  success\n" in end


def test_the_list_names_everything(bench):
    code, said = bench("--list")
    assert code == 0 and "rcv1-200k" in said.out and "sklearn sgd averaged" in said.out
    assert "--problems path: dense-100k, rcv1-100k\n" in said.out


def test_the_cost_of_learning_alone_is_metered():
    """A meter that is lost between `prepared` and `resolve` measures nothing."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((1500, 5)), np.where(rng.random(1500) < 0.5, 1.0, -1.0)
    assert kernel_only.learning(X, y, 0.01, FOBOS(), Last())() > 0.0


SOLVERS = [
    (name, kind)
    for name in ("sklearn liblinear", "skglm", "celer", "adelie", "glum", "snapml", "skein")
    for kind in methods.METHODS[name].problems
]


@pytest.mark.parametrize("place", ["dense-300x5", "rcv1-200x500"])
@pytest.mark.parametrize(("name", "kind"), SOLVERS)
def test_a_batch_solver_solves_our_problem(name, kind, place):
    """Strengths mean the same: the strictest setting reaches our optimum, with the same features."""
    method = methods.METHODS[name]
    if method.missing:
        pytest.skip(method.missing)
    data = sets.load(place, keep=False)
    problem = sets.Problem(data, 3.0 * data.strengths[1][0], intercept=kind == methods.L1)
    least, polish = optimum.solve(problem), methods.METHODS["sparsco polish"]
    w, b = method.read(problem, method.make(problem)(method.ladders[-1 if name == "sklearn liblinear" else 0][-1]))
    bound = optimum.lower_bound(problem, *polish.read(problem, polish.make(problem)({"polish": 1e-9})))
    assert bound - 1e-9 <= problem.objective(w, b) <= least["objective"] * (1.0 + 1e-5)
    assert set(least["support"]) <= {*np.flatnonzero(w)}


@pytest.mark.parametrize(
    ("name", "limit", "why"),
    [
        ("glum", "GLUM_FEATURES", "glum's matrix of second derivatives is too large for 5 features"),
        ("skein", "SKEIN_FEATURES", "skein-glm takes too long with 5 features"),
    ],
)
def test_a_solver_refuses_too_many_features(name, limit, why, monkeypatch):
    if methods.METHODS[name].missing:
        pytest.skip(methods.METHODS[name].missing)
    monkeypatch.setattr(solvers, limit, 4)
    with pytest.raises(ValueError, match=why):
        methods.METHODS[name].make(sets.Problem(sets.load("dense-300x5", keep=False), 0.05))


def test_charts_count_the_problems_on_which_ours_is_first():
    def line(name, seconds, memory=None):
        levels = {"0.01": {"cpu": {"min": seconds}}} if seconds else {}
        one = {"cpu": {"min": seconds}, "gap": 0.1}
        return {"method": name, "levels": levels, "pass": one, "rows": None, "memory": memory, "tried": []}

    def problem(ours, theirs):
        lines = [line("sparsco polish", ours, 2.0), line("skglm", theirs, 8.0), line("sklearn sgd", 6.0)]
        lines.append(line("bare pass", 2.0))
        return {"set": "a", "kind": "L1", "lam": 0.1, "rho": 0.0, "intercept": True, "rows": 9, "methods": lines}

    results = {
        "problems": [problem(1.0, 4.0), problem(1.05, 1.0), problem(2.0, 1.0), problem(3.0, None)],
        "scaling": [],
        "lines": [],
    }
    assert charts.first_on(results, 0.01) == (3, 4)
    assert charts.first_on(results, 0.001) == (0, 4)
    assert charts.passes(results) == {"sklearn sgd": pytest.approx(3.0)}
    assert charts.memory(results) == {"sparsco polish": pytest.approx(2.0), "skglm": pytest.approx(8.0)}
    assert charts.headline(results).startswith("Of 4 problems, sparsco is first or within a tenth on 3 to 1%")
    assert charts.headline({"problems": [], "scaling": [], "lines": []}) == "sparsco and others, side by side"
    assert [name for name, *_ in charts.every(results)] == ["levels", "pass", "memory"]


def test_charts_of_other_problems_count_those_that_others_solve():
    def line(problem, package, ms):
        times = {"0.01": ms, "0.001": ms and 2.0 * ms}
        return {"part": "group", "problem": problem, "solver": package, "package": package, "ms": times, "gap": 0.0}

    lines = [line("a", "sparsco", 3.0), line("a", "sparsco", 1.0), line("a", "adelie", 1.0)]
    lines += [line("b", "sparsco", 1.2), line("b", "adelie", 1.0), line("b", "skein-glm", 9.0)]
    lines += [
        line("c", "sparsco", None),
        line("c", "adelie", 1.0),
        line("d", "sparsco", 1.0),
        line("d", "adelie", None),
    ]
    results = {"problems": [], "scaling": [], "lines": lines}
    assert charts.first_of_lines(lines, 0.01) == (1, 3)
    assert charts.headline(results).startswith("Of 3 problems, sparsco is first or within a tenth on 1 to 1% and on 1")
    assert [name for name, *_ in charts.every(results)] == ["group"]
