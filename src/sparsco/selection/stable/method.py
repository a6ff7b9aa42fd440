"""The contract of a method of stable selection."""

from __future__ import annotations

from typing import Any

from ...parts.part import Contract, required, required_function


class SelectionMethod(Contract, kind="selection method"):
    """A method of stable selection, the ``method`` of StableSparseClassifier and StableSparseRegressor."""

    paths = required("number", "How many models are learned side by side.")
    passes = required("count or None", "Passes over the rows. None: by the number of rows.")

    @required_function
    def check(self: Any) -> None:
        """Raise a ValueError for invalid constants."""
        raise NotImplementedError
