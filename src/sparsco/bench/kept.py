"""Measurements on disk: ours, which our sources decide, and those of other packages, which they do not.

A change of our engine leaves the measurements of other packages valid.  They are kept under the versions of their
packages and the processor, and are not made again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from ..util.result_store import Store, Stores, name_of
from ..util.sources import others_hash
from . import measure

OURS = "sparsco"


class Anew(Store):
    """A store that drops the results of earlier processes, but only when it has a first result of its own."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, is_resumed=False)
        self._begun = False

    def put(self, results: dict[str, Any]) -> None:
        """Keep results, by name."""
        if not self._begun:
            self.restart()
            self._begun = True
        super().put(results)


class Kept:
    """The measurements of a study.  Those of the packages in ``again`` are made once more in this process."""

    def __init__(self, ours: Store, others: Store, again: Collection[str] = ()) -> None:
        self.ours, self._others, self._again = ours, others, again
        self._made = set[str]()

    def once(self, package: str, parts: list[Any], find: Callable[[], Any]) -> Any:
        """Return a measurement of a package, made once even if the run is interrupted.

        What belongs to no package, such as an optimum with its bound, is kept like a measurement of others.
        """
        if package == OURS:
            store, name = self.ours, name_of(*parts)
        else:
            store, name = self._others, name_of(*parts, package, version_of(package), _processor())
        if package in self._again and name not in self._made:
            store.drop(name)
        self._made.add(name)
        return store.once(name, find)


def opened(folder: Path, study: str, is_resumed: bool, again: Collection[str] = ()) -> Kept:
    """Return the measurements of a study in a folder, which must be writable; raise if the clock is inexact.

    Those of earlier processes are used if ``is_resumed``; else they are dropped when there is a new one.
    """
    measure.check_clock()
    stores = Stores(folder, is_resumed)
    stores.check()
    ours, others = stores.of(study), stores.of(f"{study}-others", others_hash)
    return Kept(ours, others, again) if is_resumed else Kept(Anew(ours.path), Anew(others.path))


@cache
def version_of(package: str) -> str:
    """Return the installed version of a package; empty if it is not installed, and for no package."""
    try:
        return version(package) if package else ""
    except PackageNotFoundError:
        return ""


@cache
def _processor() -> str:
    return str(measure.machine()["processor"])
