"""Begin with the long tests, so that none of them is alone at the end; leave what is loaded by then out of every gc."""

import gc


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: item.get_closest_marker("long") is None)


def pytest_collection_finish():
    gc.collect()
    gc.freeze()  # modules, tests, compiled code: a tenth of the time went into looking through them again
