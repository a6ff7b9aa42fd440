"""
Claims of an insurance: frequency, severity, pure premium
=========================================================

Policies are insured for different times. A rate per year needs this *exposure* as an offset: the expected number of
claims is ``exposure * exp(<w, x> + b)``, which is ``exp(<w, x> + b + log(exposure))``.
"""

# %%
# Generated policies: forty columns, of which three matter for the number of claims and two for their amounts.
import matplotlib.pyplot as plt
import numpy as np

from sparsco import SparseRegressor
from sparsco.losses import Tweedie

rng = np.random.default_rng(0)
n, d = 20_000, 40
X = rng.standard_normal((n, d))
exposure = rng.uniform(0.05, 1.0, n)
frequency = np.zeros(d)
frequency[:3] = 0.5, -0.4, 0.3
severity = np.zeros(d)
severity[[1, 5]] = 0.3, -0.3
claims = rng.poisson(exposure * np.exp(X @ frequency - 1.0))
mean_amount = np.exp(X @ severity + 6.0)
total = np.array([rng.gamma(2.0, mean / 2.0, count).sum() for mean, count in zip(mean_amount, claims, strict=True)])
learned, held = slice(0, 14_000), slice(14_000, n)

# %%
# Frequency: a Poisson loss with the logarithm of the exposure as offset. Without the offset the intercept is that of
# the mean exposure, and every policy gets the same share of it.
offset = np.log(exposure)
counts = SparseRegressor("poisson").fit(X[learned], claims[learned], offset=offset[learned])
blind = SparseRegressor("poisson").fit(X[learned], claims[learned])
print(f"claims per year at the mean: {np.exp(counts.intercept_[0]):.3f} (truth {np.exp(-1.0):.3f})")

# %%
# Severity: a gamma loss of the mean amount, for policies with claims, weighted by their number.
has = np.flatnonzero(claims[learned] > 0)
amounts = SparseRegressor("gamma").fit(X[has], total[has] / claims[has], sample_weight=claims[has])
print("columns of the severity:", np.flatnonzero(amounts.coef_).tolist())

# %%
# Pure premium: the sum of all amounts, most of them zero, in one model.
premium = SparseRegressor(Tweedie(1.5)).fit(X[learned], total[learned], offset=offset[learned])

# %%
# Both ways predict the sum of a policy. Policies that were not learned are sorted by the prediction, and summed up: the
# further a curve is below the diagonal, the better it tells cheap policies from expensive ones.
predictions = {
    "frequency times severity": counts.predict(X[held], offset[held]) * amounts.predict(X[held]),
    "pure premium": premium.predict(X[held], offset[held]),
    "frequency without exposure, times severity": blind.predict(X[held]) * amounts.predict(X[held]),
}
fig, axes = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
for name, found in predictions.items():
    order = np.argsort(found)
    share = np.cumsum(total[held][order]) / total[held].sum()
    axes.plot(np.linspace(0.0, 1.0, len(order)), share, label=name)
axes.plot([0, 1], [0, 1], "k:", linewidth=1)
axes.set_xlabel("share of the policies, cheapest first")
axes.set_ylabel("share of all amounts")
axes.legend(frameon=False)
plt.show()
