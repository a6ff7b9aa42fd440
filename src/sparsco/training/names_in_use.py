"""The names of a stream whose features may leave: they are forgotten with them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..estimators.linear import LinearModel
from ..streams import Stream


class NamesInUse:
    """The names that a training run needs; without a bound on the features these are all names."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        """Take the parameters of the estimator."""
        self.is_bounded = any(settings.get(name) is not None for name in ("max_features", "trim"))
        self._chunks, self._ends = 0, deque[int]()

    def opened(self, names: Mapping[int, str] | None, stream: Callable[..., Any]) -> Any:
        """Return the stream that ``stream(names=...)`` opens, with the names of features that were seen before."""
        if not self.is_bounded:
            return stream(**({"names": dict(names)} if names else {}))
        found = stream()
        found.key_names()
        found.recall(names or {})
        return found

    def forget(self, model: Any, stream: Stream, end: int, row: int, order: str = "") -> None:
        """Forget the names that no feature in use has; the chunk up to row ``end`` has come, ``row`` are learned.

        Names of chunks that are not learned yet are kept; if rows are shuffled, that may be all of them.
        """
        if order.startswith("shuffled"):
            return
        self._ends.append(end)
        while self._ends and self._ends[0] <= row:
            self._ends.popleft()
            self._chunks += 1
        if self.is_bounded and isinstance(model, LinearModel):
            features = model.fit_state.features
            stream.forget_names(features.to_columns(np.arange(len(features))), self._chunks)
