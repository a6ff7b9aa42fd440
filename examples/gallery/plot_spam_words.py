"""
The words that give spam away
=============================

A model of texts that a person can read: which words make a message spam, and by how much. :class:`sparsco.SparseText`
turns texts into features, :class:`sparsco.SparseClassifier` selects the few that matter. No parameter is set: the
strength of the penalty is chosen on held-out rows.
"""

# %%
# Messages are made up of words, so that this page needs no download. A real file of messages works in the same way: one
# text and one label for each row.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.pipeline import make_pipeline

from sparsco import SparseClassifier, SparseText

rng = np.random.default_rng(0)
signals = {
    "ham": "home lunch later birthday thanks dinner late sorry tonight mum train meeting love".split(),
    "spam": "won prize free entry claim cash urgent reply win holiday txt stop offer bonus".split(),
}
fillers = "a the you we are is to for on at in now today please call see have me your".split()
names = [f"{first}{number}" for first in ("anna", "ben", "carla", "dev") for number in range(500)]


def message(label: str) -> str:
    """Return one made-up message; one word in ten is borrowed from the other class."""
    other = "ham" if label == "spam" else "spam"
    words = [rng.choice(signals[label if rng.random() > 0.1 else other]) for _ in range(3)]
    return " ".join(rng.permutation([*words, *rng.choice(fillers, 6), *rng.choice(names, 2)]))


labels = rng.choice(["ham", "spam"], 6_000, p=[0.7, 0.3])
texts = [message(label) for label in labels]
print(texts[0], "->", labels[0])

# %%
# A pipeline, as for any vectorizer of scikit-learn.
model = make_pipeline(SparseText(), SparseClassifier(random_state=0)).fit(texts[:4_000], labels[:4_000])
words = model[:-1].get_feature_names_out()
print(model[-1].summary(names=words))
print(f"{100 * (1 - model.score(texts[4_000:], labels[4_000:])):.1f}% errors on 2,000 new messages")

# %%
# The strongest words as bars: to the right they speak for spam, to the left for ham.
weights = np.ravel(model[-1].coef_)
strongest = np.argsort(-np.abs(weights))[:20]
strongest = strongest[np.argsort(weights[strongest])]
fig, axes = plt.subplots(figsize=(7, 5), layout="constrained")
axes.barh([words[j] for j in strongest], weights[strongest], color=np.where(weights[strongest] > 0, "C3", "C0"))
axes.set(xlabel="weight (right: spam)", title=f"{np.count_nonzero(weights)} of {len(words):,} words have a weight")
