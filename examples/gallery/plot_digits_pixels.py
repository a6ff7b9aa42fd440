"""
Which pixels tell digits apart
==============================

Ten classes, 64 pixels, exact zeros: the pixels that a model of each digit uses, as images. White pixels have no
weight at all, not a small one.
"""

# %%
# The digits that scikit-learn ships: images of 8 x 8 pixels.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from sparsco import SparseClassifier

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X / 16.0, y, random_state=0)
model = SparseClassifier(alpha=0.004, max_iter=20, random_state=0).fit(X_train, y_train)
print(f"{100 * (1 - model.score(X_test, y_test)):.1f}% errors on new digits")
print(f"{np.mean(model.coef_ != 0):.0%} of the weights are not zero")

# %%
# Red pixels speak for the digit, blue ones against it.
fig, grid = plt.subplots(2, 5, figsize=(9, 4), layout="constrained")
for digit, axes in enumerate(grid.flat):
    weights = model.coef_[digit].reshape(8, 8)
    largest = np.abs(model.coef_).max()
    axes.imshow(weights, cmap="RdBu_r", vmin=-largest, vmax=largest)
    axes.set(title=f"{digit}: {np.count_nonzero(weights)} pixels", xticks=[], yticks=[])
