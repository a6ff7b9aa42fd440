"""Learn from files on a Dask cluster: four processes of this machine, or the scheduler whose address is given.

    pip install 'sparsco[distributed]'
    python examples/cluster.py [tcp://scheduler:8786]

Writes eight files of made-up rows to a temporary folder, learns from them on the workers and once more in this process,
and prints what was learned, what travelled, and that both models are the same to the last bit.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
from distributed import Client, LocalCluster

from sparsco import SparseClassifier
from sparsco.datasets.generators import text_like
from sparsco.distributed import fit
from sparsco.streams import convert, open_stream


def main() -> None:
    X, y = text_like(80_000, 5_000, 40, relevant=100, scale=10.0, rng=np.random.default_rng(0))
    folder = Path(tempfile.mkdtemp())
    paths = [str(folder / f"part-{k}") for k in range(8)]
    for k, path in enumerate(paths):  # a cluster of several machines needs a folder that all of them see
        rows = slice(k * 10_000, (k + 1) * 10_000)
        convert(open_stream(X[rows], y=y[rows]), path)

    client = Client(sys.argv[1]) if sys.argv[1:] else Client(LocalCluster(n_workers=4, threads_per_worker=1))
    print(f"progress of every task: {client.dashboard_link}")
    model = fit(SparseClassifier(alpha=1e-3, random_state=0), paths, client)
    print(f"{model.n_nonzero_} of {model.n_features_in_} features, {model.score(X, y):.1%} of labels right")
    for number, each in enumerate(model.report_["distributed"]["rounds"], 1):
        print(f"round {number}: {each['rows']:,} rows, {(each['up'] + each['down']) / 1e6:.2f} MB travelled")
    client.close()

    here = fit(SparseClassifier(alpha=1e-3, random_state=0), paths)
    print("the same bits in one process:", np.array_equal(here.coef_, model.coef_))


if __name__ == "__main__":  # processes start by importing this file
    main()
