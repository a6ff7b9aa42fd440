"""
A Dask cluster on one machine
=============================

Files that are too large for one machine are learned by a cluster. Here the cluster is two workers of this process. The
model has the same bits as one that is learned without a cluster.
"""

# %%
# Four parts of a made-up data set, in a temporary folder. A real cluster needs a folder that all machines see.
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from distributed import Client

from sparsco import SparseClassifier
from sparsco.datasets.generators import text_like
from sparsco.distributed import fit
from sparsco.streams import convert, open_stream

X, y = text_like(20_000, 2_000, 40, relevant=60, scale=10.0, rng=np.random.default_rng(0))
folder = Path(tempfile.mkdtemp())
parts = [str(folder / f"part-{k}") for k in range(4)]
for k, part in enumerate(parts):
    rows = slice(k * 5_000, (k + 1) * 5_000)
    convert(open_stream(X[rows], y=y[rows]), part)

# %%
# Learn on the workers, and once more without them.
with Client(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None) as client:
    model = fit(SparseClassifier(alpha=1e-3, random_state=0), parts, client)
alone = fit(SparseClassifier(alpha=1e-3, random_state=0), parts)
print("the same bits without a cluster:", np.array_equal(model.coef_, alone.coef_))
print(f"{model.n_selected_} of {X.shape[1]:,} features, {model.score(X, y):.1%} of the labels are right")

# %%
# What travels between workers and the scheduler is in proportion to the features that were touched.
rounds = model.report_["distributed"]["rounds"]
fig, axes = plt.subplots(figsize=(6, 3), layout="constrained")
axes.bar(np.arange(1, 1 + len(rounds)), [(each["up"] + each["down"]) / 1e6 for each in rounds])
axes.set(xlabel="round", ylabel="MB that travelled")
