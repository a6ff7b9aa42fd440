"""
Film ratings with few words
===========================

How much accuracy do 500 words cost, or 50? One fit gives models of every size: ``at_size(k)`` returns the one with at
most k features.
"""

# %%
# Made-up reviews: 20,000 words with the frequencies of a language, of which 300 carry an opinion.
import matplotlib.pyplot as plt
import numpy as np

from sparsco import SparseClassifier, plots
from sparsco.datasets.generators import text_like

X, y = text_like(20_000, 20_000, 100, relevant=300, scale=15.0, rng=np.random.default_rng(0))
y = np.where(y > 0, "good", "bad")
learn, new = slice(0, 10_000), slice(10_000, None)
model = SparseClassifier(random_state=0).fit(X[learn], y[learn])
print(f"chosen: {model.n_selected_} words, {100 * (1 - model.score(X[new], y[new])):.1f}% errors on new reviews")
for size in (500, 200, 50, 20, 5):
    small = model.at_size(size)
    print(f"{small.n_selected_:3} words: {100 * (1 - small.score(X[new], y[new])):.1f}% errors on new reviews")

# %%
# The loss on held-out rows against the number of words. The star is the model that was chosen.
fig, axes = plt.subplots(figsize=(7, 3.8), layout="constrained")
plots.loss_vs_size(model, axes=axes)
