"""Make the helper modules beside the tests importable; begin with the long tests, so that none is alone at the end."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: item.get_closest_marker("long") is None)
