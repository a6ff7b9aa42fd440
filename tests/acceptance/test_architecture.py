"""Rules of the house, checked against the sources: imports go one way, and what is compiled is hashed."""

from __future__ import annotations

import ast
import functools
import importlib
import importlib.util
import inspect
import re
from pathlib import Path

import numpy as np

import sparsco
from sparsco.data.rows import as_matrix
from sparsco.engine import Run
from sparsco.losses import Squared
from sparsco.optimizers import FOBOS
from sparsco.parts.run_view import RunView
from sparsco.penalties import L1
from sparsco.util.sources import COMPILED, SHOWN, is_below

ROOT = Path(sparsco.__file__).parent
LAYERS = """
util jit data text streams parts log_link losses offsets penalties mirrors steps problem solver choice error_control
optimizers conversions presets engine inference metrics estimators river plots selection training exports distributed
datasets reproduce bench cli
""".split()
"""Packages and top-level modules; each imports from those before it only."""
FILES = sorted(path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*.py"))
COMPILING = {"kernel", "allocating_kernel", "inlined", "dispatched", "optional", "constant"}


@functools.cache
def tree_of(file):
    """Return the syntax tree of a file."""
    return ast.parse((ROOT / file).read_text())


def module_of(file):
    """Return a file's place in the package as a list of names: ["optimizers", "fobos"]."""
    return [part for part in file.removesuffix(".py").split("/") if part != "__init__"]


def imports_of(file):
    """Yield module, name and line of everything that a file imports from the package."""
    here = module_of(file) if file.endswith("__init__.py") else module_of(file)[:-1]
    for node in ast.walk(tree_of(file)):
        if isinstance(node, ast.ImportFrom):
            if node.level:
                base = here[: len(here) - node.level + 1] + (node.module or "").split(".")
            elif (node.module or "").partition(".")[0] == "sparsco":
                base = node.module.split(".")[1:]
            else:
                continue
            for name in node.names:
                yield [part for part in base if part], name.name, node.lineno
        elif isinstance(node, ast.Import):
            for name in node.names:
                if name.name.partition(".")[0] == "sparsco":
                    yield name.name.split(".")[1:], "", node.lineno


def test_imports_go_one_way():
    wrong = []
    for file in FILES:
        own = (module_of(file) or [""])[0]
        if own in ("", "__main__"):
            continue  # the public facade
        for base, name, line in imports_of(file):
            target = base[0] if base else name
            if target in ("", "__version__", own):
                continue
            if target not in LAYERS:
                wrong.append(f"{file}:{line} imports {name} from the public facade: name the module that has it")
            elif LAYERS.index(target) > LAYERS.index(own):
                wrong.append(f"{file}:{line} imports {target}, which is above {own}")
    assert not wrong, wrong


def test_nothing_private_is_imported():
    wrong = []
    for file in FILES:
        for base, name, line in imports_of(file):
            wrong += [f"{file}:{line} imports {part}" for part in (*base, name) if re.match(r"_(?!_)", part)]
    assert not wrong, wrong


LIBRARIES = {
    "argparse._SubParsersAction",
    "os._exit",
    "sys._getframe",
    "sys._current_frames",
    "self._pool._processes",
    "compiled._cache",
    "CompileResult._rebuild",
    "result._reduce",
    "FunctionCache._index_key",
    "function._definitions",
    "self._codegen._data_layout",
}
"""Private names of other libraries that have no public twin: argparse, os, sys, concurrent.futures and numba."""
RECORDS = {"_replace", "_fields", "_asdict", "_make", "_field_defaults"}
"""What a NamedTuple calls its public methods and attributes."""


def is_private(name):
    return isinstance(name, str) and name.startswith("_") and not name.endswith("__") and name not in RECORDS


def is_own(node):
    """Return whether a node is self, cls or super()."""
    node = node.func if isinstance(node, ast.Call) else node
    return isinstance(node, ast.Name) and node.id in ("self", "cls", "super")


def defined_in(tree):
    """Return the names that a module defines itself, attributes of its classes included."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and is_own(node.value):
            names.add(node.attr)
    return names


def foreign_names(tree):
    """Yield line and text of each use of a private attribute of another object."""
    own = defined_in(tree)
    for node in ast.walk(tree):
        of, name = None, None
        if isinstance(node, ast.Attribute):
            of, name = node.value, node.attr
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("getattr", "setattr", "hasattr"):
            of, name = node.args[0], getattr(node.args[1], "value", None)
        if is_private(name) and not is_own(of) and name not in own and ast.unparse(node) not in LIBRARIES:
            yield node.lineno, ast.unparse(node)


def test_private_attributes_are_used_where_they_are_defined():
    wrong = [f"{file}:{line} {text}" for file in FILES for line, text in foreign_names(tree_of(file))]
    assert not wrong, wrong


def test_foreign_names_are_found():
    found = "a._b; self._c; getattr(a, '_d'); a._replace(); super()._e(); os._exit; setattr(a.b, '_f', 1); a.__dict__"
    wrong = [text for _, text in foreign_names(ast.parse(found))]
    assert wrong == ["a._b", "getattr(a, '_d')", "setattr(a.b, '_f', 1)"]
    assert not list(foreign_names(ast.parse("class A:\n    def _b(self): self._c = 1\nx._b; x._c")))


def test_every_package_is_a_layer():
    found = {module_of(file)[0] for file in FILES if module_of(file)} - {"__main__"}
    assert found == set(LAYERS)


def test_conversions_ask_of_a_run_only_what_the_view_has():
    view = {name for name in (*vars(RunView), *RunView.__annotations__) if not name.startswith("_")}
    asked = {}
    for file in FILES:
        for node in ast.walk(tree_of(file)) if file.startswith("conversions/") else ():
            if isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == "run":
                asked[node.attr] = f"{file}:{node.lineno} asks for run.{node.attr}"
    assert not [where for name, where in asked.items() if name not in view]
    assert set(asked) == view  # what no conversion asks for is not in the view


def test_a_run_has_what_the_view_says():
    run = Run(Squared(), L1(0.1), FOBOS(), d=1)
    run.feed(as_matrix(np.ones((4, 1))), np.arange(4.0))
    run.begin()
    assert all(hasattr(run, name) for name in RunView.__annotations__)
    for name, stated in vars(RunView).items():
        if inspect.isfunction(stated) and not name.startswith("_"):
            assert list(inspect.signature(getattr(Run, name)).parameters) == list(inspect.signature(stated).parameters)
        elif isinstance(stated, property):
            assert isinstance(getattr(Run, name), property), name


def decorators(node):
    for each in node.decorator_list:
        each = each.func if isinstance(each, ast.Call) else each
        yield each.attr if isinstance(each, ast.Attribute) else getattr(each, "id", "")


MOST_PROBES = 25
MOST_LINES = {"function": 60, "kernel": 100}


def probes(tree):
    """Yield the line of each question whether an object has an attribute, and of each look at all it has.

    These are hasattr, getattr of a constant name, vars, __dict__ and the handling of an AttributeError.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            is_constant = len(node.args) > 1 and isinstance(node.args[1], ast.Constant)
            if node.func.id in ("hasattr", "vars") or (node.func.id == "getattr" and is_constant):
                yield node.lineno
        elif isinstance(node, ast.Attribute) and node.attr == "__dict__":
            yield node.lineno
        elif isinstance(node, ast.ExceptHandler) and node.type is not None:
            if "AttributeError" in {each.id for each in ast.walk(node.type) if isinstance(each, ast.Name)}:
                yield node.lineno


def test_few_attributes_are_probed():
    """What an object has is declared; foreign objects are probed in one place for each kind."""
    found = [f"{file}:{line}" for file in FILES for line in probes(tree_of(file))]
    assert len(found) <= MOST_PROBES, found


def test_probes_are_found():
    probing = "hasattr(a, b)\ngetattr(a, 'b')\nvars(a)\na.__dict__\ntry: a\nexcept (OSError, AttributeError): b"
    assert sorted(probes(ast.parse(probing))) == [1, 2, 3, 4, 6]
    assert not list(probes(ast.parse("getattr(a, b), setattr(a, 'b', c), a.b\ntry: a\nexcept ValueError: b")))


def lines_of(function):
    """Return the number of lines of a function without its docstring."""
    lines, first = function.end_lineno - function.lineno + 1, function.body[0]
    is_text = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    return lines - (first.end_lineno - first.lineno + 1 if is_text else 0)


def test_functions_are_short():
    wrong = []
    for file in FILES:
        for node in ast.walk(tree_of(file)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                kind = "kernel" if COMPILING & set(decorators(node)) else "function"
                if lines_of(node) > MOST_LINES[kind]:
                    wrong.append(f"{file}:{node.lineno} the {kind} {node.name} has {lines_of(node)} lines")
    assert not wrong, wrong


def test_the_hash_of_compiled_code_covers_it():
    """What a compiled function refers to is in a file that is hashed, too; so is the function itself."""
    seen = 0
    for file in FILES:
        homes = {name: base for base, name, _ in imports_of(file)}
        for node in ast.walk(tree_of(file)):
            if not isinstance(node, ast.FunctionDef) or not COMPILING & set(decorators(node)):
                continue
            seen += 1
            assert is_below(file, COMPILED), f"{file}: {node.name} is compiled, and util/sources.py does not list it"
            for name in {each.id for each in ast.walk(node) if isinstance(each, ast.Name)} & set(homes):
                base = "/".join(homes[name])
                there = [each for each in (f"{base}.py", f"{base}/__init__.py", f"{base}/{name}.py") if each in FILES]
                assert any(is_below(each, COMPILED) for each in there), f"{file}: {node.name} refers to {base}.{name}"
    assert seen > 100


def test_every_place_that_is_hashed_or_left_out_exists():
    for place in (*COMPILED, *SHOWN):
        assert (ROOT / place).exists(), place


def test_editors_see_the_public_names():
    """The names for type checkers, the table of lazy names and ``__all__`` are the same."""
    block = next(node for node in tree_of("__init__.py").body if isinstance(node, ast.If))
    seen = {}
    for node in block.body:
        seen |= {each.name: node.module or "" for each in node.names}
    assert {name: home for name, home in seen.items() if home} == sparsco._HOMES
    assert sorted(name for name, home in seen.items() if not home) == sorted(sparsco._MODULES)
    assert sorted(seen) == sparsco.__all__ and len(seen) <= 34
    for name in sparsco.__all__:
        assert getattr(sparsco, name) is not None


def test_the_table_of_modules_is_that_of_the_files():
    """docs/architecture.md lists the packages in the order in which they import, and every module of each."""
    page = (Path(__file__).parents[2] / "docs" / "architecture.md").read_text()
    packages, listed = [], set()
    for package, module in re.findall(r"^\| (?:\*\*`(\w+)(?:/|\.py)`\*\*)? ?\| ?(?:`([\w/]+)\.py`)? ?\|", page, re.M):
        packages += [package] if package else []
        listed |= {f"{packages[-1]}/{module}.py"} if module else set()
    assert packages == LAYERS
    inside = {file for file in FILES if "/" in file and not file.endswith(("__init__.py", "__main__.py"))}
    assert sorted(listed) == sorted(inside)


def test_what_benchmarks_and_examples_import_is_there():
    top = Path(__file__).parents[2]
    for path in (*top.glob("benchmarks/*.py"), *top.glob("examples/*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "sparsco":
                module = importlib.import_module(node.module)
                for name in node.names:
                    is_there = hasattr(module, name.name)
                    if not is_there and hasattr(module, "__path__"):
                        is_there = importlib.util.find_spec(f"{node.module}.{name.name}") is not None
                    assert is_there, f"{path.name}:{node.lineno} imports {name.name}"
