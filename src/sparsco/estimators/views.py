"""Views of an estimator: its HTML view in a notebook and ``dir`` show the stored attributes and compute nothing."""

from __future__ import annotations

from contextvars import ContextVar
from types import SimpleNamespace
from typing import Any

from ..util.attributes import attributes

_viewing = ContextVar("viewing", default=False)


def refuse_in_view(model: Any) -> None:
    """Raise a RuntimeError if a view would make a model learn or convert."""
    if _viewing.get():
        raise RuntimeError(f"this {type(model).__name__} is not converted yet: call convert() first.")


class Viewed:
    """An estimator whose views do not convert it.

    The HTML view of scikit-learn reads every attribute whose name ends in "_", and the names of the selected features.
    That would convert a stream that is under way, and lay out weights and names of millions of features.
    """

    def _html_repr(self) -> str:
        token = _viewing.set(True)
        try:
            return super()._html_repr()  # type: ignore[misc]
        finally:
            _viewing.reset(token)

    def _get_fitted_attr_html(self, doc_link: str = "") -> Any:
        """Return the stored attributes as scikit-learn lists them; properties are left out."""
        stored = SimpleNamespace(
            **{name: value for name, value in attributes(self).items() if not name.startswith("_")}
        )
        shown = super()._get_fitted_attr_html.__func__(stored, doc_link)  # type: ignore[misc]
        shown.estimator_class = type(self)
        return shown

    def __dir__(self) -> list[str]:
        """Return the names of all attributes without reading the properties, as scikit-learn would."""
        kind, names = type(self), object.__dir__(self)
        return [name for name in names if isinstance(getattr(kind, name, None), property) or hasattr(self, name)]
