"""
An endless stream with new features
===================================

Logs never end, and new words appear every day. ``learn_one`` takes one dict at a time; features that were never seen
before join the model. Each example is judged before it is learned, so the error below is that of new data.
"""

# %%
# Each event has a few words. With the 10,000th event a new campaign begins, with words of its own.
import matplotlib.pyplot as plt
import numpy as np

from sparsco import SparseClassifier

rng = np.random.default_rng(0)
good, bad, common = ["login", "pay", "invoice"], ["casino", "lottery"], [f"word{k}" for k in range(2_000)]


def event(number: int) -> tuple[dict[str, float], str]:
    """Return the features and the label of one event."""
    label = "bad" if rng.random() < 0.3 else "good"
    signals = (bad if number < 10_000 else ["crypto", "giveaway"]) if label == "bad" else good
    words = [rng.choice(signals)] * (rng.random() < 0.9) + list(rng.choice(common, 8))
    return {f"word={word}": 1.0 for word in words}, label


# %%
# Predict every twentieth event before it is learned; look at the size of the model now and then.
model = SparseClassifier(alpha=2e-3, random_state=0)
wrong, sizes, seen = [], [], set()
for number in range(20_000):
    x, label = event(number)
    seen.update(x)
    if number >= 500 and number % 20 == 0:
        wrong.append(model.predict_one(x) != label)
    model.learn_one(x, label)
    if number % 1_000 == 999:
        sizes.append((number + 1, len(seen), model.n_selected_))
print(f"{len(seen):,} features were seen, {model.n_selected_} are selected")
names = model.get_feature_names_out()
print("selected:", ", ".join(sorted(str(name) for name in names)[:12]))

# %%
# The error rises when the campaign begins, and falls again as its words are learned.
fig, (left, right) = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
running = np.convolve(wrong, np.ones(50) / 50, mode="valid")
left.plot(500 + 20 * (np.arange(len(running)) + 50), 100 * running)
left.axvline(10_000, color="gray", linestyle=":")
left.set(xlabel="events", ylabel="errors among the last 50 judged, %")
events, width, size = np.array(sizes).T
right.plot(events, width, label="seen")
right.plot(events, size, label="selected")
right.set(xlabel="events", ylabel="features", yscale="log")
right.legend()
