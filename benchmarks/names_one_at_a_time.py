"""Examples a second of ``learn_one`` with named features beside River, on the same stream: 20 features a row.

    python benchmarks/names_one_at_a_time.py --river /path/to/an/environment/with/river/bin/python

``numbers`` are rows of 20 of 100,000 names with numbers, most of them seen before.  ``records`` are rows of ten numbers
and ten texts, each a category of a column; River encodes them with its OneHotEncoder.  Of River there are FTRL and SGD
with an L1 term, and its usual pipeline, which scales numbers first; ours adapts to their scale.  Times are CPU times of
a Python loop, the least of some runs; ours and River's alternate.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

ROWS, NAMES, NONZEROS, RUNS = 60_000, 100_000, 20, 3
Row = dict[str, Any]


def numbers(rows: int) -> tuple[list[Row], list[bool]]:
    """Return rows of named numbers, frequent names more often, and their labels."""
    rng = random.Random(0)
    examples, labels = [], []
    for _ in range(rows):
        columns = [int(NAMES ** rng.random()) - 1 for _ in range(NONZEROS)]
        x = {f"f{column}": rng.gauss(0.0, 1.0) for column in columns}
        examples.append(x)
        labels.append(sum(value * (1 if int(name[1:]) % 3 else -1) for name, value in x.items()) > 0.0)
    return examples, labels


def records(rows: int) -> tuple[list[Row], list[bool]]:
    """Return rows of ten numbers and ten categories, and their labels."""
    rng = random.Random(0)
    examples, labels = [], []
    for _ in range(rows):
        x: Row = {f"n{k}": rng.gauss(0.0, 1.0) for k in range(10)}
        x |= {f"c{k}": f"v{int(30 ** rng.random())}" for k in range(10)}
        examples.append(x)
        labels.append(x["n0"] - x["n1"] + (x["c0"] == "v1") + rng.gauss(0.0, 1.0) > 0.5)
    return examples, labels


STREAMS = {"numbers": numbers, "records": records}


def ours() -> Callable[[Row, bool], Any]:
    """Return the ``learn_one`` of a new model of sparsco."""
    from sparsco import SparseClassifier

    return SparseClassifier(alpha=1e-4).learn_one


def rivers(kind: str) -> dict[str, Callable[[], Callable[[Row, bool], Any]]]:
    """Return makers of the ``learn_one`` of new models of River."""
    from river import compose, linear_model, optim, preprocessing

    def piped(model: Any, scales: bool) -> Callable[[Row, bool], Any]:
        numbers = preprocessing.StandardScaler()
        if kind == "records":
            texts = compose.SelectType(str) | preprocessing.OneHotEncoder()
            model = ((compose.SelectType(float) | numbers if scales else compose.SelectType(float)) + texts) | model
        elif scales:
            model = numbers | model
        return model.learn_one

    return {
        "FTRL": lambda: piped(linear_model.LogisticRegression(optim.FTRLProximal(l1=1e-4)), False),
        "SGD with L1": lambda: piped(linear_model.LogisticRegression(l1=1e-4), False),
        "scaled FTRL": lambda: piped(linear_model.LogisticRegression(optim.FTRLProximal(l1=1e-4)), True),
    }


def rate(make: Callable[[], Callable[[Row, bool], Any]], examples: list[Row], labels: list[bool]) -> float:
    """Return the examples that are learned in a second of CPU time."""
    learn = make()
    began = time.process_time()
    for x, y in zip(examples, labels, strict=True):
        learn(x, y)
    return len(labels) / (time.process_time() - began)


def river_rates(python: str, kind: str) -> dict[str, float]:
    """Return the rates of River in another environment."""
    said = subprocess.run([python, __file__, "--measure", kind], capture_output=True, text=True, check=True)
    return dict(json.loads(said.stdout))


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--river", metavar="PYTHON", help="the interpreter of an environment with River")
    options.add_argument("--measure", choices=STREAMS, help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.measure:
        rows = STREAMS[given.measure](ROWS // 6)
        print(json.dumps({name: rate(make, *rows) for name, make in rivers(given.measure).items()}))
        return
    for kind, make in STREAMS.items():
        examples, labels = make(ROWS)
        rate(ours, examples[:3000], labels[:3000])  # compiles
        found, other = [], list[dict[str, float]]()
        for _ in range(RUNS):
            found.append(rate(ours, examples, labels))
            other += [river_rates(given.river, kind)] if given.river else []
        print(f"{kind:8} sparsco           {max(found):9,.0f} examples/s", flush=True)
        for name in other[0] if other else ():
            best = max(each[name] for each in other)
            print(f"{kind:8} River, {name:11} {best:8,.0f} examples/s, ratio {max(found) / best:5.1f}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
