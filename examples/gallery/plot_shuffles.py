"""
Would another order of the rows select the same features?
=========================================================

A stochastic method sees its rows in some order. If another order selects other features, nobody should read anything
into the selection. This script fits the same rows in ten orders: with L1 SGD of scikit-learn, and with our default.
"""

# %%
# 4,000 text-like rows.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import SGDClassifier

from sparsco import SparseClassifier, metrics
from sparsco.datasets.generators import text_like

X, y = text_like(4_000, 3_000, 40, relevant=30, scale=12.0, rng=np.random.default_rng(0))
methods = {
    "SGDClassifier(penalty='l1')": lambda seed: SGDClassifier(
        loss="log_loss", penalty="l1", alpha=1e-4, random_state=seed
    ),
    "SparseClassifier(alpha=0.0001)": lambda seed: SparseClassifier(alpha=1e-4, random_state=seed),
}
selections = {}
for name, make in methods.items():
    chosen = []
    for seed in range(10):
        order = np.random.default_rng(seed).permutation(len(y))
        chosen.append(np.ravel(make(seed).fit(X[order], y[order]).coef_) != 0)
    selections[name] = np.array(chosen)
    kappa = np.mean([metrics.cohen_kappa(a, b) for k, a in enumerate(chosen) for b in chosen[:k]])
    print(f"{name:30} {np.mean([each.sum() for each in chosen]):6.0f} features, agreement (kappa) {kappa:.2f}")

# %%
# In how many of the ten orders is a feature selected? A step from 10 to 0 is stable; a slope is chance.
fig, axes = plt.subplots(figsize=(7, 3.6), layout="constrained")
for name, chosen in selections.items():
    times = np.sort(chosen.sum(0))[::-1]
    axes.step(np.arange(1, 1 + np.count_nonzero(times)), times[times > 0], where="mid", label=name)
axes.set(xlabel="features, most often selected first", ylabel="selected in so many of 10 orders", xscale="log")
axes.legend()
