"""Selections with a promise, judged on generated and real data, beside other packages.  ``make bench-selection``

- ``run`` repeats methods on cells of generated data and keeps every repetition in a file, so that runs can be stopped,
  resumed and added up;
- ``table`` prints the figures of what is kept: the share and the number of false ones beside the promises, warnings,
  and power at equal measured error;
- ``time`` measures ours and ipss in turns on 2,000 x 2,000, and ours on 100,000 x 100,000 sparse text;
- ``probes`` selects on real data found through SPARSCO_DATA with as many permuted columns, and counts those selected.

No command runs all.  Other packages may be in an environment of their own: ``--peers PYTHON`` names its interpreter
(``pip install ipss hidimstat packaging skein-glm scikit-learn``).  Examples::

    python benchmarks/selection.py run --methods sparsco --cells 'text-*' --repetitions 10 --minutes 20
    python benchmarks/selection.py run --methods ipss stability --peers ~/peers/bin/python
    python benchmarks/selection.py table --methods sparsco
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from selection_designs import CELLS, SQUARE, TINY, Cell, Data, chosen, generated, large_text
from selection_figures import Kept, Record, choices, powers, promises, read, record, verdict, warnings_table
from selection_methods import FDR, IPSS, METHODS, NEEDS, OURS, REPETITIONS, measured

OUT = Path("selection.results")
ROUNDS = 3
SPEEDUP = 20.0
LARGE_SECONDS = 120.0
PROBE_RATE, PROBE_SHARE, PROBE_RUNS = 0.1, 0.15, 5
MNIST_ROWS = 4000


# --- repetitions ------------------------------------------------------------------------------------------------------


def repetition(method: str, cell: Cell, number: int) -> Record:
    """Return the record of one repetition."""
    data = generated(cell, number)
    return record(cell, number, data, measured(method, data.X, data.y, cell.response, number))


def short(method: str = OURS, cells: Sequence[Cell] = TINY, repetitions: int = 10) -> Kept:
    """Return the records of a few repetitions of tiny cells, without files: for tests."""
    return {(cell.name, number): repetition(method, cell, number) for cell in cells for number in range(repetitions)}


def runs_here(method: str) -> bool:
    """Whether the packages that a method needs are in this environment."""
    return all(importlib.util.find_spec(name) is not None for name in NEEDS.get(method, ()))


def run(options: argparse.Namespace) -> None:
    """Make the repetitions that are missing, one of each cell after the other."""
    options.out.mkdir(parents=True, exist_ok=True)
    for method in options.methods:
        if not runs_here(method):
            if options.peers is None:
                print(f"{method}: needs {', '.join(NEEDS[method])}; --peers names an interpreter that has it")
                continue
            subprocess.run([options.peers, __file__, *_arguments(options, method)], check=True)
            continue
        begun, path = time.monotonic(), options.out / f"{method}.jsonl"
        kept = {} if options.again else read(path)
        with path.open("w" if options.again else "a") as file:
            if path.stat().st_size and not path.read_bytes().endswith(b"\n"):
                file.write("\n")  # a line that was cut short
            for number in range(options.repetitions or REPETITIONS[method]):
                for cell in chosen(options.cells):
                    if (cell.name, number) in kept or time.monotonic() - begun > 60.0 * options.minutes:
                        continue
                    try:
                        found = repetition(method, cell, number)
                    except Exception as failure:
                        if method == OURS:
                            raise
                        print(f"{method} {cell.name} {number} failed: {failure}", file=sys.stderr)
                        continue
                    file.write(json.dumps(found) + "\n")
                    file.flush()
                    print(method, cell.name, number, f"{found['seconds']:.2f} s", file=sys.stderr, flush=True)


def _arguments(options: argparse.Namespace, method: str) -> list[str]:
    """Return the command line by which another interpreter makes the repetitions of a method."""
    line = ["run", "--methods", method, "--out", str(options.out), "--minutes", str(options.minutes)]
    line += ["--repetitions", str(options.repetitions or REPETITIONS[method])]
    line += ["--again"] if options.again else []
    return [*line, "--cells", *options.cells] if options.cells else line


def table(options: argparse.Namespace) -> None:
    """Print the figures of all that is kept."""
    cells = chosen(options.cells)
    kept = {method: read(options.out / f"{method}.jsonl") for method in options.methods}
    for method, records in ((each, kept[each]) for each in kept if kept[each]):
        if all(each["own"] is None for each in records.values()):
            print(f"\n## {method}: promises\n\n{promises(records, cells)}")
        else:
            print(f"\n## {method}: no promise\n\n{choices(records, cells)}")
    if kept.get(OURS):
        print(f"\n## {OURS}: warnings\n\n{warnings_table(kept[OURS], cells)}")
    if kept.get(IPSS):
        print(f"\n## Power at equal measured error\n\n{powers(kept, cells)}")


# --- time -------------------------------------------------------------------------------------------------------------


def seconds(options: argparse.Namespace) -> None:
    """Print the CPU time of ours and of ipss, in turns, the minimum of a few rounds; then ours on large sparse text."""
    for cell in SQUARE:
        found: dict[str, list[float]] = {OURS: [], IPSS: []}
        for _ in range(options.rounds):
            for method, times in found.items():
                python = sys.executable if runs_here(method) else options.peers
                if python is not None:
                    times.append(_apart(python, method, cell.name)["seconds"])
        least = {method: min(times) for method, times in found.items() if times}
        print(cell.name, *(f"{method} {each:.2f} s of CPU" for method, each in least.items()), sep="  ", end="  ")
        if len(least) == 2:
            ratio = least[IPSS] / least[OURS]
            print(f"{ratio:.1f} times as fast  {verdict(ratio >= SPEEDUP)}", end="")
        print(flush=True)
    large = _apart(sys.executable, OURS, "large")
    holds = verdict(large["seconds"] <= LARGE_SECONDS)
    figures = f"{large['seconds']:.1f} s of CPU, {large['megabytes']:.0f} MB, false and true {large['fdr']}"
    print(f"text, 100,000 x 100,000: {figures}  {holds}")


def _apart(python: str, method: str, cell: str) -> Record:
    """Return the record of a fit in a process of its own."""
    line = [python, __file__, "once", "--methods", method, "--cells", cell]
    return json.loads(subprocess.run(line, check=True, capture_output=True, text=True).stdout)


def once(options: argparse.Namespace) -> None:
    """Print the record of one fit, after one on few rows, for which ours is compiled."""
    (method,), (name,) = options.methods, options.cells
    data, cell = _large() if name == "large" else (None, chosen([name], SQUARE)[0])
    data = data or generated(cell, 0)
    measured(method, data.X[:200, :100], data.y[:200], cell.response, 0)
    found = record(cell, 0, data, measured(method, data.X, data.y, cell.response, 0))
    print(json.dumps(found | {"megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0}))


def _large() -> tuple[Data, Cell]:
    """Return the large text and its cell."""
    data = large_text()
    return data, Cell("large", *data.X.shape, int(data.true.sum()), 2.0, "logistic")


# --- probes -----------------------------------------------------------------------------------------------------------


def probes(options: argparse.Namespace) -> None:
    """Print the share of permuted columns among those selected on real data."""
    from sparsco import datasets
    from sparsco.datasets.generators import add_probes

    for name in ("mnist 4 against 9", "rcv1-small"):
        try:
            X, y = datasets.mnist_pair(4, 9) if name.startswith("mnist") else datasets.load(name, "train")
        except datasets.MissingDataError as missing:
            print(f"{name}: {missing}")
            continue
        counts = []
        for number in range(options.repetitions or PROBE_RUNS):
            rng = np.random.default_rng(number)
            rows = rng.permutation(len(y))[:MNIST_ROWS]
            d = X.shape[1]
            (both,) = add_probes(X[rows], total=2 * d, rng=rng)
            found = measured(OURS, both, (y[rows] > 0.0).astype(np.float64), "logistic", number)
            counts.append([[int(mask[d:].sum()), int(mask.sum())] for mask in found.fdr.values()])
            print(name, number, counts[-1], found.warned, f"{found.seconds:.1f} s", file=sys.stderr, flush=True)
        sums = np.sum(counts, axis=0)
        shares = {fdr: probe / max(1, every) for fdr, (probe, every) in zip(FDR, sums, strict=True)}
        text = ", ".join(f"{shares[fdr]:.3f} of {sums[i][1] / len(counts):.0f}" for i, fdr in enumerate(FDR))
        print(f"{name}: probes among the selected at fdr {FDR}: {text}  {verdict(shares[PROBE_RATE] <= PROBE_SHARE)}")


def main() -> int:
    """Run one command, or all."""
    commands = {"run": run, "table": table, "time": seconds, "probes": probes, "once": once}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", nargs="?", choices=list(commands), help="default: run, table, time and probes")
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=list(METHODS))
    parser.add_argument(
        "--cells", nargs="+", default=[], metavar="PATTERN", help=f"of {len(CELLS)} names; default: all"
    )
    parser.add_argument("--repetitions", type=int, help="of each cell; default: 100 of ours and 20 of others")
    parser.add_argument(
        "--minutes", type=float, default=float("inf"), help="after which no repetition of a method begins"
    )
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="of timings")
    parser.add_argument("--again", action="store_true", help="forget what is kept of these methods")
    parser.add_argument("--out", type=Path, default=OUT, help="the folder in which repetitions are kept")
    parser.add_argument("--peers", metavar="PYTHON", help="the interpreter of an environment with other packages")
    options = parser.parse_args()
    for command in [options.command] if options.command else ["run", "table", "time", "probes"]:
        commands[command](options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
