"""
One read against five folds
===========================

Cross-validation fits every strength on every fold: 5 x 10 fits in scikit-learn. Here all strengths and folds are
learned side by side, in one read of the rows. Both then choose a strength.
"""

# %%
# 5,000 rows, 2,000 features, ten strengths.
import time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegressionCV

from sparsco import SparseClassifierCV
from sparsco.datasets.generators import text_like

X, y = text_like(10_000, 2_000, 40, relevant=40, scale=12.0, rng=np.random.default_rng(1))
learn, new = slice(0, 5_000), slice(5_000, None)
alphas = np.geomspace(1e-2, 1e-4, 10)
theirs = LogisticRegressionCV(
    Cs=1 / (alphas * 5_000),
    l1_ratios=(1.0,),
    solver="liblinear",
    cv=5,
    scoring="neg_log_loss",
    use_legacy_attributes=False,
)
results = {}
for name, model in (
    ("SparseClassifierCV", SparseClassifierCV(alphas=alphas, cv=5, random_state=0)),
    ("LogisticRegressionCV", theirs),
):
    start = time.perf_counter()
    model.fit(X[learn], y[learn])
    seconds = time.perf_counter() - start
    results[name] = (seconds, 100 * (1 - np.mean(model.predict(X[new]) == y[new])), np.count_nonzero(model.coef_))
    print(f"{name:22} {seconds:6.2f} s, {results[name][1]:.2f}% errors on new rows, {results[name][2]} features")

# %%
# The first fit of a process also loads compiled code, so the times of a page like this one are upper bounds.
fig, grid = plt.subplots(1, 3, figsize=(9, 2.6), layout="constrained")
for axes, k, label in zip(grid, range(3), ("seconds", "errors on new rows, %", "features"), strict=True):
    axes.barh(list(results), [result[k] for result in results.values()], color=["C0", "C7"])
    axes.set(xlabel=label)
    axes.tick_params(axis="y", labelsize=8)
