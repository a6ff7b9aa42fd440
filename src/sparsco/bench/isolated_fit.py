"""The memory of one fit: reads a task as JSON from standard input, writes megabytes to standard output."""

from __future__ import annotations

import json
import sys
import warnings

from threadpoolctl import threadpool_limits

from .measure import memory_of
from .methods import METHODS
from .sets import Problem, load

WARM_ROWS = 1500


def main() -> None:
    """Measure the memory of one fit; the task has a problem, a method and a setting."""
    warnings.simplefilter("ignore")
    task = json.loads(sys.stdin.read())
    name, *rest = task["problem"]
    problem, method, setting = Problem(load(name), *rest), METHODS[task["method"]], task["setting"]
    if method.rows:
        problem = problem.first(method.rows)
    with threadpool_limits(1):
        method.make(problem.part(WARM_ROWS))(setting)
        fit = method.make(problem)
        print(json.dumps(memory_of(lambda: fit(setting))))


if __name__ == "__main__":
    main()
