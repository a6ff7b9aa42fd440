"""
Why averages are dense, and ours are not
========================================

Averaging makes stochastic gradient descent accurate, but nearly every feature then has a weight. A *conversion* turns
the same iterates into a model with exact zeros. This script learns one stream with one optimizer and compares
conversions: the error on new rows, and the number of features.
"""

# %%
# 10,000 rows with 1,000 features, of which 20 matter.
import matplotlib.pyplot as plt
import numpy as np

from sparsco import SparseClassifier

rng = np.random.default_rng(0)
X = rng.standard_normal((20_000, 1_000)) * (rng.random((20_000, 1_000)) < 0.1)
truth = np.zeros(1_000)
truth[:20] = rng.choice([-3.0, 3.0], 20)
y = X @ truth + rng.logistic(size=20_000) > 0
learn, new = slice(0, 10_000), slice(10_000, None)

# %%
# One optimizer, five ways to make a model of its iterates.
names = {
    "last": "last iterate",
    "average": "average",
    "suffix": "average of the last half",
    "average-sl": "AverageSL",
    "optimal-sl": "OptimalSL",
}
results = {}
for name, label in names.items():
    model = SparseClassifier(alpha=0.01, optimizer="fobos", conversion=name, random_state=0).fit(X[learn], y[learn])
    results[label] = (model.n_selected_, 100 * (1 - model.score(X[new], y[new])))
    print(f"{label:25} {results[label][0]:5} features, {results[label][1]:.2f}% errors on new rows")

# %%
# The averages have a weight for every feature, and the last iterate for most: it says so in a
# warning. The conversions at the left have about as few as matter.
fig, axes = plt.subplots(figsize=(7, 3.6), layout="constrained")
for label, (features, error) in results.items():
    axes.plot(features, error, "o")
    axes.annotate(label, (features, error), xytext=(6, 4), textcoords="offset points")
axes.axvline(20, color="gray", linestyle=":")
axes.set(
    xlabel="features with a weight (dotted: those that matter)",
    ylabel="errors on new rows, %",
    xscale="log",
    xlim=(10, 4000),
)
