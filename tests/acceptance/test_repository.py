"""What the repository says of itself is so."""

from __future__ import annotations

import ast
import re
import tomllib

import sparsco
from support import REPOSITORY


def test_every_file_names_the_same_version():
    for name in ("CITATION.cff", "pyproject.toml"):
        text = (REPOSITORY / name).read_text()
        assert re.findall(r"""^version(?:: | = ")([\w.]+)"?$""", text, re.MULTILINE) == [sparsco.__version__], name


def test_no_test_module_imports_another():
    """What tests share is in tests/support: a test module may be moved, renamed or run alone."""
    files = list((REPOSITORY / "tests").rglob("test_*.py"))
    names = {file.stem for file in files}
    assert "test_repository" in names
    for file in files:
        for node in ast.walk(ast.parse(file.read_text())):
            imported = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            imported += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not names & {part for each in imported for part in each.split(".")}, (file.name, imported)


def test_every_package_of_an_extra_is_used():
    """Those of users by the package, those of developers by tests, pages or examples, if they are no tools."""
    extras = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    tools = {"pytest", "pytest_xdist", "ruff", "mypy", "sphinx", "pydata_sphinx_theme", "numpydoc", "myst_parser"}
    tools |= {"sphinx_gallery", "sparsco"}
    modules = {"scikit_image": "skimage", "mlflow_skinny": "mlflow"}

    def text_of(*folders: str) -> str:
        files = [file for each in folders for file in (REPOSITORY / each).rglob("*") if file.suffix in (".py", ".md")]
        return "\n".join(file.read_text() for file in files if "_build" not in file.parts)

    ours, theirs = text_of("src"), text_of("tests", "docs", "examples", "src")
    for extra, packages in extras.items():
        for package in packages:
            name = re.match(r"[\w-]+", package)[0].replace("-", "_")
            used = rf"(import|from) {modules.get(name, name)}\b|importorskip\(\"{modules.get(name, name)}"
            found = re.search(used, theirs if extra in ("dev", "docs") else ours)
            assert found or name in tools, f"{extra}: {package}"
