"""Build the wheel and the source archive, install each in a clean environment, and use it there.

    python tests/release/check_release.py

Everything happens in a temporary folder outside the checkout.  Every command of ``sparsco`` runs once on small files,
then all examples in docstrings.  The first thing that is not as it should be ends the check with a sentence.
"""

from __future__ import annotations

import email
import os
import random
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LARGEST = 3 << 20
"""The largest size of an archive, in bytes."""
COMMANDS = (
    "train rows.svm --test rows.svm -m a.model --html train.html",
    "train mail.csv --target label --text message -m mail.model",
    "path rows.svm -m path.model --report path.html",
    "predict a.model rows.svm --probability",
    "evaluate a.model rows.svm",
    "inspect a.model --html inspect.html",
    "export a.model --to python -o scorer.py",
    "convert rows.svm rows.cache",
    "compare rows.svm --report compare.html",
    "reproduce --list",
    "datasets list",
    "bench --list",
)


class ReleaseError(SystemExit):
    """A release that must not go out."""


def run(*command: str | Path, cwd: Path, **settings: str) -> str:
    """Run a command and return its output; an error ends the check with what it printed."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "SPARSCO", "VIRTUAL"))}
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd, env=clean | settings, stdin=subprocess.DEVNULL, capture_output=True, text=True,
    )  # fmt: skip
    if done.returncode:
        raise ReleaseError(f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def environment(folder: Path) -> Path:
    """Make a clean environment, and return its folder of programs."""
    run(sys.executable, "-m", "venv", folder, cwd=folder.parent)
    return folder / ("Scripts" if os.name == "nt" else "bin")


def check_wheel(wheel: Path, project: dict[str, object]) -> None:
    """Check the metadata and the files of the wheel."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (about,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        metadata = email.message_from_bytes(archive.read(about))
    expected = {"Name": "sparsco", "Version": project["version"], "Requires-Python": project["requires-python"]}
    expected["License-Expression"] = project["license"]
    for name, value in expected.items():
        if metadata[name] != value:
            raise ReleaseError(f"{wheel.name}: {name} is {metadata[name]!r}, not {value!r}")
    if "sparsco" not in metadata.get_payload():
        raise ReleaseError(f"{wheel.name}: the README is not in it")
    for needed in ("sparsco/py.typed", "/licenses/LICENSE"):
        if not any(name.endswith(needed) for name in names):
            raise ReleaseError(f"{wheel.name}: {needed} is not in it")
    strange = [name for name in names if not name.startswith(("sparsco/", "sparsco-"))]
    if strange:
        raise ReleaseError(f"{wheel.name}: {strange[0]} does not belong to the package")


def check_source(source: Path) -> None:
    """Check the files of the source archive."""
    with tarfile.open(source) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    for needed in ("LICENSE", "README.md", "pyproject.toml", "tests/conftest.py", "docs/conf.py", "Makefile"):
        if needed not in names:
            raise ReleaseError(f"{source.name}: {needed} is not in it")


def write_files(folder: Path) -> None:
    """Write the small files that the commands read."""
    chance = random.Random(0)
    with open(folder / "rows.svm", "w") as rows, open(folder / "mail.csv", "w") as mail:
        mail.write("label,message\n")
        for _ in range(3000):
            x = [chance.gauss(0.0, 1.0) for _ in range(6)]
            is_spam = x[0] - x[1] + chance.gauss(0.0, 0.5) > 0.0
            rows.write(f"{2 * is_spam - 1} " + " ".join(f"{j + 1}:{value:.4g}" for j, value in enumerate(x)) + "\n")
            words = chance.choices(["prize", "claim", "cash"] if is_spam else ["lunch", "later", "home"], k=3)
            mail.write(f"{'spam' if is_spam else 'ham'},{' '.join(words)} {chance.randrange(1000)}\n")


def use(archive: Path, folder: Path, version: str) -> None:
    """Install an archive in a clean environment, and run the commands and the examples there."""
    programs = environment(folder / "env")
    run(programs / "python", "-m", "pip", "install", "--quiet", f"{archive}[plots,tables]", "pytest", cwd=folder)
    write_files(folder)
    caches = {"NUMBA_CACHE_DIR": str(folder / "compiled")}
    if not run(programs / "sparsco", "--version", cwd=folder).startswith(f"sparsco {version},"):
        raise ReleaseError(f"{archive.name}: sparsco --version does not say {version}")
    for command in COMMANDS:
        print(f"  sparsco {command}", flush=True)
        run(programs / "sparsco", *command.split(), cwd=folder, **caches)
    print("  examples in docstrings", flush=True)
    examples = (
        "--pyargs",
        "sparsco",
        "--doctest-modules",
        "--doctest-ignore-import-errors",
        "-q",
        "-p",
        "no:cacheprovider",
    )
    options = ("-o", "doctest_optionflags=NORMALIZE_WHITESPACE", "--ignore-glob=*/river.py")
    print("  " + run(programs / "python", "-m", "pytest", *examples, *options, cwd=folder, **caches).splitlines()[-1])


def main() -> None:
    """Check both archives."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        programs = environment(folder / "builder")
        run(programs / "python", "-m", "pip", "install", "--quiet", "build", cwd=folder)
        run(programs / "python", "-m", "build", "--outdir", folder / "dist", ROOT, cwd=folder)
        (wheel,), (source,) = (sorted((folder / "dist").glob(pattern)) for pattern in ("*.whl", "*.tar.gz"))
        check_wheel(wheel, project)
        check_source(source)
        for archive in (wheel, source):
            print(f"{archive.name}: {archive.stat().st_size / 1024:,.0f} kB", flush=True)
            if archive.stat().st_size > LARGEST:
                raise ReleaseError(f"{archive.name}: more than {LARGEST >> 20} MB")
            (folder / archive.suffix[1:]).mkdir()
            use(archive, folder / archive.suffix[1:], project["version"])
    print("both archives are as they should be")


if __name__ == "__main__":
    main()
