"""
A path of strengths, and the point that is chosen
=================================================

How strong should the penalty be? :class:`sparsco.SparseClassifierCV` learns many strengths and five folds in one read
of the rows, and takes the smallest model within one standard error of the best.
"""

# %%
# Text-like rows: 5,000 words of very different frequency, of which 40 matter.
import matplotlib.pyplot as plt
import numpy as np

from sparsco import SparseClassifierCV, plots
from sparsco.datasets.generators import text_like

X, y = text_like(8_000, 5_000, 40, relevant=40, scale=12.0, rng=np.random.default_rng(1))
model = SparseClassifierCV(random_state=0).fit(X, y)
print(f"alpha {model.alpha_:.3g}, {np.count_nonzero(model.coef_)} of {X.shape[1]:,} features")

# %%
# To the left, the weights against the strength. To the right, the loss on rows that were not learned against the size.
fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
plots.coefficient_path(model, axes=left, features=10, chosen=model.alpha_)
plots.error_vs_nonzeros(model, axes=right, chosen=model.alpha_)
