"""Begin with the long tests, so that none of them is alone at the end."""


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: item.get_closest_marker("long") is None)
