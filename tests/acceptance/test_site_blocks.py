"""Every block and every command of the README and of the site is run, or a remark in its source says why not."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

import sparsco
from sparsco import cli
from support import REPOSITORY
from support.page_files import make_files
from support.pages import NO_OUTPUT, Session, blocks, mentioned, run_page

PAGES = {
    page.name: page
    for page in (REPOSITORY / "README.md", REPOSITORY / "CONTRIBUTING.md", *sorted((REPOSITORY / "docs").glob("*.md")))
}
ELSEWHERE = re.compile(r"^sparsco (reproduce|bench|datasets) |--dask|--follow|part-\*")
"""Commands in prose that take long, or need a cluster or a log that grows: these have tests of their own."""
MENTION = re.compile(r"\b[A-Z]{2,}\b| [A-Z]\b|…|\.\.\.")
"""What stands for a file, a number or anything else in a command."""


def asked(page: Path) -> list[str]:
    """The commands in the prose of a page that name a file, and so can be run."""
    found = [each for each in mentioned(page) if re.search(r" '?[a-z][\w*-]*[./]", each)]
    return [each for each in found if not MENTION.search(each) and not ELSEWHERE.search(each)]


def has_something_to_run(page: Path) -> bool:
    found = [each for each in blocks(page) if not (each.is_directive or each.is_doctest or each.remark == "not run")]
    return bool(found or asked(page))


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.long] if name in ("follow.md", "tutorial.md") else [])
        for name, page in PAGES.items()
        if has_something_to_run(page)
    ],
)
def test_a_page_runs_as_it_stands(name, tmp_path):
    page, session = PAGES[name], Session(tmp_path)
    make_files(session.folder, page.read_text(), name)
    ran = run_page(page, session)
    for command in asked(page):
        assert session.run(command) == 0, f"{command}\n{session.output}"
    if name in CLAIMS:
        CLAIMS[name](session, ran)


def claims_of_the_tutorial(session, ran):
    """train, inspect and evaluate say the same of one model; 30% of the messages are spam."""
    judged: dict[str, set[str]] = {}
    for command, output in ran:
        for model in re.findall(r"(\w+)\.model .*test\.vw|inspect (\w+)\.model", command):
            figures = re.findall(r"(?m)^(?:test rows: )?1,000 rows, (error .*)", output)
            judged.setdefault("".join(model), set()).update(figures)
    assert {name: len(figures) for name, figures in judged.items()} == {"spam": 1, "small": 1}
    assert all(float(re.match(r"error ([\d.]+)%", *figures)[1]) < 5.0 for figures in judged.values())
    assert "<svg" in (session.folder / "compared.html").read_text()


def claims_of_growing_logs(session, ran):
    assert "5,000 rows" in ran[1][1]


CLAIMS = {"tutorial.md": claims_of_the_tutorial, "follow.md": claims_of_growing_logs}


def test_every_block_is_run_or_a_remark_says_why_not():
    for name, page in PAGES.items():
        is_printed = False
        for block in blocks(page):
            is_output = block.language == "text" and is_printed
            is_run = block.language in ("sh", "console", "python", "toml") or is_output or block.is_doctest
            where = f"{name}, line {block.line}"
            assert is_run or block.is_directive or block.remark == "not run", where
            is_printed = block.language == "sh" and block.remark != "not run"
            if block.remark == "not run":
                assert block.language != "console", f"{where}: what a console prints is compared"
                assert block.language != "text" or block.says in NO_OUTPUT, f"{where}: output is compared"


@pytest.mark.parametrize("name", PAGES)
def test_the_options_of_commands_in_prose_exist(name):
    commands = next(action for action in cli._parser()._actions if getattr(action, "choices", None)).choices
    for command in mentioned(PAGES[name]):
        word = command.split()[1]
        if word.startswith("-"):
            assert word in ("--help", "--version"), command
            continue
        if word == "COMMAND":
            continue
        assert word in commands, command
        options = re.findall(r" (--?[a-z][\w-]*)", command)
        assert set(options) <= set(commands[word]._option_string_actions), command


def test_estimators_in_prose_take_the_parameters_that_they_are_shown_with():
    """``SparseClassifier(budget=50)`` in a sentence or a table: the names of its parameters exist."""
    known = {"np": np, "sparsco": sparsco}
    for home in (sparsco.losses, sparsco.penalties, sparsco.optimizers, sparsco.conversions, sparsco.steps, sparsco):
        known |= {name: getattr(home, name) for name in dir(home)}
    shown = [
        (name, each)
        for name, page in PAGES.items()
        for each in re.findall(
            r"`((?:Stable)?Sparse(?:Classifier|Regressor|Path|Text)\w*\([^`()]*(?:\([^`()]*\)[^`()]*)*\))",
            page.read_text(),
        )
        if not re.search(r"\.\.\.|…|=[,)]|My", each)
    ]
    assert len(shown) > 30
    for name, each in shown:
        try:
            eval(each, known)
        except Exception as error:
            raise AssertionError(f"{name}: {each}") from error


def test_what_pages_tell_to_make_install_or_start_is_there():
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    targets = set(re.findall(r"^([\w-]+):", (REPOSITORY / "Makefile").read_text(), re.MULTILINE))
    for name, page in PAGES.items():
        text = page.read_text()
        for target in re.findall(r"`make ([a-z][\w-]*)`", text):
            assert target in targets, f"{name}: make {target}"
        for file in re.findall(r"python ((?:benchmarks|examples|docs)/\S+?\.py)", text):
            assert (REPOSITORY / file).exists(), f"{name}: {file}"
        for extras in re.findall(r"pip install '(?:sparsco|\.)\[([\w,]+)\]'", text):
            assert set(extras.split(",")) <= set(project["optional-dependencies"]), f"{name}: {extras}"


def test_one_line_scripts_in_a_shell_need_what_sparsco_needs():
    """Whoever has followed ``pip install`` of the README can run them: no package of developers is imported."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    needed = {re.match(r"[\w-]+", each)[0] for each in project["dependencies"]}
    for name, page in PAGES.items():
        text = page.read_text()
        made = set(re.findall(r"-o (\w+)\.py\b", text))
        for package in re.findall(r"python -c ['\"]import (\w+)", text):
            assert package in needed | made | set(sys.stdlib_module_names), f"{name}: {package}"
