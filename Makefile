# The one list of commands.  Each sets up its own environment in .venv from nothing but Python >= 3.11, pip and make;
# that of `make test-numba`, with the oldest version of each dependency that pyproject.toml admits, is in .venv-oldest.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed-for-developers
DOCS_STAMP := $(VENV)/.installed-for-the-site
DEMO_STAMP := $(VENV)/.installed-for-the-demo
OLDEST ?= .venv-oldest
OLDEST_STAMP := $(OLDEST)/.installed
# What depends on numba's internals: the compiler and the disk cache, with either pipeline; the choice and the comparison
# of pipelines, and the vocabulary of lanes, once.
COMPILER_TESTS = $(shell find tests -name test_compiler.py -o -name test_compile_cache.py)
NUMBA_TESTS = $(COMPILER_TESTS) $(shell find tests -name test_pipelines.py -o -name test_lanes.py)
# Two workers, as on the smallest machine we test on; each compiles what it needs into one shared cache, and a BLAS with
# threads of its own would only get in the other's way.  Hundreds of processes are started, so our modules' bytecode is
# kept whatever the environment says.
PYTEST_FLAGS ?= -n 2 --dist worksteal
REPORT ?= sparsco-demo.html

.PHONY: help docs demo golden test test-long test-numba release-check lint bench bench-engine bench-quality bench-defaults bench-optimum bench-peers bench-bars bench-stability bench-selection bench-intervals bench-texts bench-calibration bench-crosses bench-exports reproduce clean

help:
	@echo "make demo           which words make a message spam: a table beside scikit-learn, and a page, $(REPORT)"
	@echo "make test           the test suite"
	@echo "make docs           the site, from a fresh clone, into docs/_build/html; every example is run, every link checked"
	@echo "make test-long      the test suite with more seeds, sizes and streams, new examples, hours; run before a release"
	@echo "make golden         write the record of tests/golden anew, after a change that is meant to change models"
	@echo "make test-numba     the tests of compilation with the oldest numba, by the lean pipeline and by numba's own"
	@echo "make release-check   build wheel and sdist, install each in a clean environment, run every command and docstring"
	@echo "make lint           ruff and mypy"
	@echo "make bench          ours and other packages side by side, hours; BENCH=--quick under a minute; writes bench.html"
	@echo "make bench-engine   the engine's own speed, as ratios measured in one interleaved run"
	@echo "make bench-quality  untuned quality on real data found through SPARSCO_DATA"
	@echo "make bench-defaults  what a user gets without arguments, beside scikit-learn, on real data found through SPARSCO_DATA"
	@echo "make bench-optimum   losses with kinks after one pass, and certified optima, beside HiGHS and saga, on the same data"
	@echo "make bench-peers     paths of strengths, groups, several classes and least squares beside other packages"
	@echo "make bench-bars      the goals of speed beside other packages, judged in one table; BARS='levels --sets a9a'"
	@echo "make bench-intervals coverage of confidence intervals on generated data, about half an hour"
	@echo "make bench-stability stable selections on real data found through SPARSCO_DATA, and on generated data"
	@echo "make bench-selection false discoveries beside what was promised, and other packages, hours; SELECTION='run --cells text-*'"
	@echo "make bench-texts     raw texts to models beside scikit-learn's vectorizers, on real data found through SPARSCO_DATA"
	@echo "make bench-calibration calibration errors before and after, on real data found through SPARSCO_DATA, two minutes"
	@echo "make bench-crosses  planted interactions that crosses find, and what crosses cost, one minute"
	@echo "make bench-exports   the speed of the C that exports write, and of the export of a model with 10^7 columns"
	@echo "make reproduce      the papers' tables and figures with 10 trials, ten to twenty minutes; writes reproduce.html"
	@echo "make clean          remove the environment, caches and reports"

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "sparsco needs Python >= 3.11: make PYTHON=python3.11 ..." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(STAMP): pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet -e '.[dev]'
	touch $@

$(DEMO_STAMP): pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet -e '.[plots]'
	touch $@

$(DOCS_STAMP): pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet -e '.[docs]'
	touch $@

$(OLDEST_STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 13))' || { echo "the oldest NumPy needs Python 3.11 or 3.12: make PYTHON=python3.11 ..." >&2; exit 1; }
	$(PYTHON) -m venv $(OLDEST)
	$(PYTHON) -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["dependencies"], sep="\n")' | sed 's/>=/==/' > $(OLDEST)/constraints.txt
	$(OLDEST)/bin/python -m pip install --quiet -e . pytest pytest-xdist -c $(OLDEST)/constraints.txt
	touch $@

demo: $(DEMO_STAMP)
	$(BIN)/python -m sparsco.cli.demo --out $(REPORT)

docs: $(DOCS_STAMP)
	PATH="$(abspath $(BIN)):$$PATH" OPENBLAS_NUM_THREADS=1 $(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet --builder html docs docs/_build/html
	$(BIN)/python docs/check_site.py docs/_build/html

test: $(STAMP)
	PYTHONDONTWRITEBYTECODE= OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest $(PYTEST_FLAGS)

test-long: export SPARSCO_LONG_TESTS ?= 1
test-long: export SPARSCO_STREAMS ?= 1000
test-long: test

test-numba: export PYTHONDONTWRITEBYTECODE =
test-numba: export OPENBLAS_NUM_THREADS = 1
test-numba: export NUMBA_CACHE_DIR = $(abspath $(OLDEST))/compiled
test-numba: $(OLDEST_STAMP)
	SPARSCO_STOCK_PIPELINE=0 $(OLDEST)/bin/python -m pytest $(PYTEST_FLAGS) $(NUMBA_TESTS)
	SPARSCO_STOCK_PIPELINE=1 $(OLDEST)/bin/python -m pytest $(PYTEST_FLAGS) $(COMPILER_TESTS)

golden: $(STAMP)
	PYTHONPATH=tests OPENBLAS_NUM_THREADS=1 $(BIN)/python -m support.golden
	PYTHONPATH=tests OPENBLAS_NUM_THREADS=1 $(BIN)/python -m support.exact_problems

release-check:
	$(PYTHON) tests/release/check_release.py

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check --quiet .
	$(BIN)/mypy

bench: $(STAMP)
	$(BIN)/sparsco bench --resume --json bench.json --markdown bench.md --report bench.html $(BENCH)

bench-engine: $(STAMP)
	$(BIN)/python benchmarks/engine.py

bench-quality: $(STAMP)
	$(BIN)/python benchmarks/quality.py

bench-defaults: $(STAMP)
	OPENBLAS_NUM_THREADS=1 $(BIN)/python benchmarks/defaults.py

bench-optimum: $(STAMP)
	OPENBLAS_NUM_THREADS=1 $(BIN)/python benchmarks/optimum.py

bench-peers: $(STAMP)
	$(BIN)/sparsco bench --resume --problems path group classes regression

bench-bars: $(STAMP)
	OPENBLAS_NUM_THREADS=1 $(BIN)/python benchmarks/bars.py $(BARS)

bench-intervals: $(STAMP)
	OPENBLAS_NUM_THREADS=1 $(BIN)/python benchmarks/intervals.py $(INTERVALS)

bench-stability: $(STAMP)
	$(BIN)/python benchmarks/stability.py

bench-selection: $(STAMP)
	OPENBLAS_NUM_THREADS=1 $(BIN)/python benchmarks/selection.py $(SELECTION)

bench-texts: $(STAMP)
	OPENBLAS_NUM_THREADS=1 $(BIN)/python benchmarks/texts.py $(TEXTS)

bench-crosses: $(STAMP)
	OPENBLAS_NUM_THREADS=1 $(BIN)/python benchmarks/crosses.py

bench-calibration: $(STAMP)
	OPENBLAS_NUM_THREADS=1 $(BIN)/python benchmarks/calibration.py

bench-exports: $(STAMP)
	OPENBLAS_NUM_THREADS=1 $(BIN)/python benchmarks/exports.py

reproduce: $(STAMP)
	$(BIN)/sparsco reproduce all --trials 10 --resume --report reproduce.html

clean:
	rm -rf $(VENV) $(OLDEST) docs/_build docs/_static/papers docs/gallery docs/api/generated docs/sg_execution_times.rst .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist $(REPORT) reproduce.html bench.json bench.md bench.html defaults.json optimum.json
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
