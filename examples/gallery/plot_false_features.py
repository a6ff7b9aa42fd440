"""
Selections with a promise
=========================

``fdr=0.1`` promises that at most a tenth of the selected features is expected to be false. Here the truth is known, so
the promise can be counted.
"""

# %%
# 500 features, of which 20 matter. The plain model selects what predicts best; the promised one what is surely there.
import matplotlib.pyplot as plt
import numpy as np

from sparsco import SparseClassifier, StableSparseClassifier

rng = np.random.default_rng(0)
X = rng.standard_normal((1_500, 500))
truth = np.zeros(500)
truth[:20] = rng.choice([-1.0, 1.0], 20)
y = X @ truth + 2.0 * rng.logistic(size=1_500) > 0
counts = {}
for name, model in {
    "best prediction (alpha='auto')": SparseClassifier(random_state=0),
    "promised (fdr=0.1)": StableSparseClassifier(fdr=0.1, random_state=0),
}.items():
    chosen = model.fit(X, y).get_support()
    counts[name] = int(chosen[:20].sum()), int(chosen[20:].sum())
    print(f"{name:32} {counts[name][0]} true and {counts[name][1]} false features")

# %%
fig, axes = plt.subplots(figsize=(7, 2.4), layout="constrained")
right, wrong = np.array(list(counts.values())).T
axes.barh(list(counts), right, label="true")
axes.barh(list(counts), wrong, left=right, color="C3", label="false")
axes.set(xlabel="selected features")
axes.legend()
