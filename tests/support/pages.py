"""The blocks of a page in Markdown, the files that its commands name, and a way to run them.

A block is run by its language:

- ``sh``: commands.  A ``text`` block behind it is their output.
- ``console``: commands behind ``$``, each followed by its output.  ``$ cat FILE`` makes a file that is not there.
- ``toml``: a file that must be read without an error.
- ``python``, ``pycon``: with ``>>>`` a doctest, which pytest collects itself; without, a script that has rows X and y.

A comment above a block, which readers do not see, says what is special about it: ``<!-- not run: REASON -->``,
``<!-- needs: PACKAGE -->``, or ``<!-- fails: CODE -->`` where the last command ends with that exit code.

Output that a page shows is compared exactly, but for seconds and rows per second.  A line of three dots stands for any
lines.  A ``text`` block that is no output is a formula or a picture, and its remark says so.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import os
import re
import shlex
import subprocess
import sys
import tomllib
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from sparsco import cli

from . import REPOSITORY

_FENCE = re.compile(r"^(`{3,}|:{3,}|~{3,})(.*)$")
_REMARK = re.compile(r"<!-- (not run|needs|fails): (.+) -->$")
_PLAIN = re.compile(r"sparsco (?:'[^']*'|[^'\"|<>;&$`*?(\\])*$")
"""A command that the shell would only cut into words."""


_BAR = re.compile(r"\w+ +\[=* *\] ")
"""A bar of progress, which a slow machine shows."""
_OF_THE_MACHINE = re.compile(r"\d[\d,.]*(?= (?:rows/s|s)\b)")
"""What may differ from the page: seconds, and rows per second."""
NO_OUTPUT = {"a formula", "formulas", "a picture"}
"""The reasons for which a ``text`` block is compared with nothing."""


class Block(NamedTuple):
    """A block of code: where it begins, its language and text, and the remark above it."""

    line: int
    language: str
    text: str
    remark: str
    says: str

    @property
    def is_directive(self) -> bool:
        """Whether the site is built from it: a figure, a table of contents."""
        return self.language.startswith("{")

    @property
    def is_doctest(self) -> bool:
        """Whether pytest collects it."""
        return ">>> " in self.text


def blocks(page: Path) -> list[Block]:
    """Return the blocks of a page in their order."""
    found, fence, above, opened = [], None, "", 0
    inside: list[str] = []
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        mark = _FENCE.match(line)
        if fence is None and mark:
            fence, language, opened, inside = mark[1], mark[2].strip(), number, []
            remark = _REMARK.match(above)
        elif fence is not None and line.strip() == fence:
            text = "\n".join(inside) + "\n"
            found.append(Block(opened, language, text, *(remark.groups() if remark else ("", ""))))
            fence, above = None, ""
        elif fence is not None:
            inside.append(line)
        else:
            assert not re.match(r"    (sparsco|python|pip) ", line), f"{page}:{number} is a command without a fence"
            above = line.strip() or above
    return found


def mentioned(page: Path) -> list[str]:
    """Return the commands in the prose and the tables of a page."""
    text = re.sub(r"^(`{3,}).*?^\1$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    found = re.findall(r"(?<!`)`(sparsco(?: [^`]+))`", text)
    return list(dict.fromkeys(" ".join(each.replace("\\|", "|").split()) for each in found))


class Session:
    """A folder in which the commands of one page are run, one after the other."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "page"
        self.folder.mkdir()
        (folder / "examples").symlink_to(REPOSITORY / "examples")
        own = {"XDG_CACHE_HOME": str(folder / "cache"), "PYTHONUNBUFFERED": "1", "COLUMNS": "120"}
        self.environment = own | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
        rng = np.random.default_rng(0)
        X = rng.standard_normal((1000, 20))
        self.names = {"X": X, "y": np.where(X[:, 3] > X[:, 7], "spam", "ham"), "__name__": "__page__"}
        self.output = ""

    def run(self, command: str) -> int:
        """Run a command, keep what it prints as ``output``, and return its exit code."""
        with self._inside():
            if _PLAIN.match(command):
                return self._main(shlex.split(command, comments=True)[1:])
            asked = ["bash", "-euo", "pipefail", "-c", command]
            done = subprocess.run(asked, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.output = done.stdout
        return done.returncode

    def execute(self, script: str) -> None:
        """Run a script in Python, with what those before it have defined."""
        with self._inside():
            exec(script, self.names)

    def _main(self, arguments: list[str]) -> int:
        printed = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed), warnings.catch_warnings():
            warnings.simplefilter("default")
            warnings.showwarning = cli._warn
            try:
                code = cli.main(arguments)
            except SystemExit as stop:
                code = stop.code
        self.output = printed.buffer.getvalue().decode()
        return code

    @contextlib.contextmanager
    def _inside(self) -> Iterator[None]:
        before = os.environ.copy()
        os.environ.update(self.environment)
        try:
            with contextlib.chdir(self.folder):
                yield
        finally:
            os.environ.clear()
            os.environ.update(before)


def run_page(page: Path, session: Session) -> list[tuple[str, str]]:
    """Run the blocks of a page in order, compare the output that it shows, and return commands and outputs."""
    ran: list[tuple[str, str]] = []
    printed: str | None = None
    for block in blocks(page):
        where, above, printed = f"{page.name}, line {block.line}", printed, None
        if block.is_directive or block.is_doctest or block.remark == "not run":
            continue
        if block.remark == "needs" and not importlib.util.find_spec(block.says):
            continue
        expected = int(block.says) if block.remark == "fails" else 0
        if block.language == "sh":
            printed = _run_lines(block.text, session, expected, where)
            ran.append((block.text, printed))
        elif block.language == "console":
            ran += _run_session(block.text, session, expected, where)
        elif block.language == "text" and above is not None:
            compare(block.text, above, where)
        elif block.language == "python":
            session.execute(block.text)
        elif block.language == "toml":
            tomllib.loads(block.text)
        else:
            raise AssertionError(f"{where}: this block is not run, and no remark says why")
    return ran


def _run_lines(text: str, session: Session, expected: int, where: str) -> str:
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    commands = lines if all(map(_PLAIN.match, lines)) else [text]
    output = ""
    for k, command in enumerate(commands, 1):
        code = session.run(command)
        assert code == (expected if k == len(commands) else 0), f"{where}: {command}\n{session.output}"
        output += session.output
    return output


def _run_session(text: str, session: Session, expected: int, where: str) -> list[tuple[str, str]]:
    ran: list[tuple[str, str]] = []
    parts = re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]
    for k, part in enumerate(parts, 1):
        command, _, shown = part.partition("\n")
        file = re.fullmatch(r"cat (\S+)", command)
        if file and not (session.folder / file[1]).exists():
            (session.folder / file[1]).write_text(shown)
            continue
        code = session.run(command)
        assert code == (expected if k == len(parts) else 0), f"{where}: {command}\n{session.output}"
        compare(shown, session.output, f"{where}: {command}")
        ran.append((command, session.output))
    return ran


def compare(shown: str, output: str, where: str) -> None:
    """Compare lines exactly, but for what depends on the machine; a line of three dots stands for any lines."""
    lines, at, is_free = [_masked(line) for line in output.splitlines() if not _BAR.match(line)], 0, False
    for part in re.split(r"^\.\.\.\n", shown, flags=re.MULTILINE):
        wanted = [_masked(line) for line in part.splitlines()]
        places = range(at, len(lines) + 1) if is_free else [at]
        found = [k for k in places if lines[k : k + len(wanted)] == wanted]
        assert found, f"{where}\n{part}is shown, and printed was\n{output}"
        at, is_free = found[0] + len(wanted), True
    assert at == len(lines) or shown.endswith("...\n"), f"{where}: not shown is\n" + "\n".join(lines[at:])


def _masked(line: str) -> str:
    return _OF_THE_MACHINE.sub("#", line.rstrip())
