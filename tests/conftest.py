"""Begin with the long tests, so that none of them is alone at the end; leave what is loaded by then out of every gc."""

import gc
import importlib.util
import os
from pathlib import Path

from support import LONG, number_of_streams

# Compiled code is shared by all tests and their processes, also by those with a cache folder of their own.
os.environ.setdefault(
    "NUMBA_CACHE_DIR", str(Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "numba").expanduser())
)

if importlib.util.find_spec("hypothesis"):  # the environment of the oldest numba has none
    from hypothesis import settings

    # The same examples in every run, or new ones, with what repeats a failure.  Neither has a deadline, because a first
    # example may compile, and neither needs a database of examples.
    settings.register_profile("fixed", settings.get_profile("ci"))
    settings.register_profile("new", settings.get_profile("ci"), derandomize=False, max_examples=number_of_streams(100))
    settings.load_profile("new" if LONG else "fixed")


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: item.get_closest_marker("long") is None)


def pytest_collection_finish():
    gc.collect()
    gc.freeze()  # modules, tests, compiled code: a tenth of the time went into looking through them again
