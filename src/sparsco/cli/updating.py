"""``train --update``: the model under way, and the options that it has already decided."""

from __future__ import annotations

import argparse
from typing import Any

_LEARNING = (
    "cross",
    "birth",
    "cross_bits",
    "task",
    "loss",
    "penalty",
    "groups",
    "alpha",
    "l1_ratio",
    "l1",
    "l2",
    "standardize",
    "relaxed",
    "rule",
    "cv",
    "fdr",
    "efp",
    "probes",
    "optimizer",
    "conversion",
    "step_size",
    "preset",
    "budget",
    "target_excess_risk",
    "storage",
    "max_features",
    "trim",
    "half_life",
    "classes",
    "class_weight",
    "calibrate",
    "no_intercept",
    "seed",
    "polish",
)
"""The options that a model under way has already decided."""
_FLAGS = ("calibrate", "probes", "no_intercept", "polish")
"""Those of them that are False if they were not given."""


def to_update(
    given: argparse.Namespace, reader: dict[str, Any]
) -> tuple[Any, dict[str, Any], dict[int, str] | None, bool]:
    """Return the model of ``--update``, how its data was read, the names of features, and whether they are features.

    Raise a ValueError for options that a stream under way cannot change.
    """
    from ..training import model_fields, model_files
    from ..training.scoring import read_alike

    given_too = [_option(name, getattr(given, name)) for name in _LEARNING if _is_given(name, getattr(given, name))]
    if given_too:
        raise ValueError(f"--update continues with the settings of the model: leave out {', '.join(given_too)}.")
    content = model_files.read(given.update)
    model = model_files.going_on(content, given.update)
    reader = read_alike(content, reader)
    if (description := model_fields.description_of(content)) is not None:
        _check_table(description, reader)
        reader |= {"description": description}
        counts = model.fit_state.described.known_counts() if model.fit_state.described is not None else {}
        reader |= {"counts": counts} if counts else {}
    return model, reader, content["extra"].get("names"), model_fields.feature_names(content) is not None


def _check_table(description: Any, reader: dict[str, Any]) -> None:
    """Raise a ValueError for options of a table, in ``reader``, that would change the description of a model."""
    from ..streams.description import offset_column
    from ..streams.tabular import ROLES

    for name in [name for name in (*ROLES, "schema", "missing", "missing_values") if name in reader]:
        asked = reader[name]
        if name == "offset":
            column, logs = offset_column(asked, [each.name for each in description.columns])
            other = description._replace(offset=column, logs_offset=logs)
        elif name in ROLES:
            other = description._replace(**{name: asked})
        else:
            other = description.overridden(**({"marks": (asked, asked)} if name == "missing_values" else {name: asked}))
        if other != description:
            raise ValueError(f"--update reads tables as those before: leave out {_option(name)}.")


def _is_given(name: str, value: Any) -> bool:
    """Return whether an option was given; flags that are off are False, and other options that are absent None."""
    return value is not None and not (value is False and name in _FLAGS)


def _option(name: str, value: Any = None) -> str:
    """Return the option that sets an attribute."""
    return ("--no-" if value is False else "--") + {"rule": "choose"}.get(name, name.replace("_", "-"))
