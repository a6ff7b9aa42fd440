"""The cost of learning alone: the work of the optimizer, without the one-time work of a fit (checks, conversion)."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from ..data.rows import as_matrix
from ..engine.run import Run
from ..losses import Logistic
from ..penalties import ElasticNet


class Metered:
    """An optimizer that adds up the CPU time of its kernel and of the kernel's preparation: schedules and settling."""

    part_kind = "optimizer"

    def __init__(self, optimizer: Any, meter: list[float]) -> None:
        self.optimizer, self.meter = optimizer, meter

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self.optimizer, name)
        if name == "resolve":
            return lambda *args: Metered(attribute(*args), self.meter)
        if name == "prepared":
            return self._prepared
        if name not in ("learn", "schedule", "settle"):
            return attribute

        def metered(*args: Any) -> Any:
            start = time.process_time()
            result = attribute(*args)
            self.meter[0] += time.process_time() - start
            return result

        return metered

    def _prepared(self, *args: Any) -> tuple[Metered, Any]:
        """Return the prepared optimizer, metered as well, and its pilot."""
        optimizer, pilot = self.optimizer.prepared(*args)
        return Metered(optimizer, self.meter), pilot


def learning(
    X: Any, y: np.ndarray, lam: float, optimizer: Any, conversion: Any, rho: float = 0.0
) -> Callable[[], float]:
    """Return a job that measures one pass as the engine runs it, including windows, and returns its own seconds."""
    matrix, targets = as_matrix(X), y.astype(np.float64)

    def job() -> float:
        meter = [0.0]
        run = Run(Logistic(), ElasticNet(lam, rho), Metered(optimizer, meter), conversion, d=X.shape[1])
        run.feed(matrix, targets)
        return meter[0]

    return job
