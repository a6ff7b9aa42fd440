"""Examples a second of ``learn_one`` in a Python loop, and memory per feature seen: 10^7 columns, 20 nonzeros a row.

    python benchmarks/one_at_a_time.py

``zipf`` streams meet frequent features again and again, as texts do; in ``uniform`` ones nearly every feature of every
row is new, the worst case.  Times are CPU times; memory is what the process grew by, which only tells something for the
first line: later ones find room that was freed.
"""

from __future__ import annotations

import time
import warnings
from pathlib import Path

import numpy as np

from sparsco import SparseClassifier

D, NONZEROS, ROWS = 10_000_000, 20, 100_000


def resident() -> int:
    """Bytes of memory that this process uses."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def learned(examples: list, labels: list[bool]) -> SparseClassifier:
    model = SparseClassifier(alpha=1e-4, storage="seen")
    for x, y in zip(examples, labels, strict=True):
        model.learn_one(x, y)
    assert model.t_ == len(labels)
    return model


def main() -> None:
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(0)
    truth = rng.normal(size=D) * (rng.random(D) < 0.1)
    for kind in ("zipf", "uniform"):
        u = rng.random((ROWS, NONZEROS))
        columns = (D**u - 1.0 if kind == "zipf" else D * u).astype(np.int64)
        values = rng.normal(size=(ROWS, NONZEROS))
        labels = ((truth[columns] * values).sum(1) > 0.0).tolist()
        forms = {
            "columns": lambda c, v: (c, v),
            "dict": lambda c, v: {f"f{j}": x for j, x in zip(c.tolist(), v.tolist(), strict=True)},
            "tokens": lambda c, v: [f"f{j}" for j in c.tolist()],
        }
        for form, make in forms.items():
            examples = [make(c, v) for c, v in zip(columns, values, strict=True)]
            learned(examples[:3000], labels[:3000])  # compiles
            before, seconds, grown = resident(), [], 0
            for _ in range(3):  # the first one also pays for memory that the machine has not lent out before
                clock = time.process_time()
                model = learned(examples, labels)
                seconds.append(time.process_time() - clock)
                grown, features = grown or resident() - before, len(model.fit_state.features)
                del model
            print(
                f"{kind:7} {form:7} {ROWS / min(seconds):9,.0f} examples/s (first {ROWS / seconds[0]:9,.0f}), "
                f"{features:9,} features seen, {grown / features:4.0f} bytes each",
                flush=True,
            )


if __name__ == "__main__":
    main()
