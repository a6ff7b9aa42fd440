"""Generated data that resemble real data, for demonstrations, benchmarks and experiments."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_matrix, hstack


def zipf_rows(
    n: int, d: int, k: int, rng: np.random.Generator, exponent: float = 1.0, shift: float = 10.0
) -> csr_matrix:
    """Return n unit rows of k distinct features out of d.

    The features are drawn one after the other with probabilities proportional to (rank + shift)^-exponent; ranks
    begin at 0.
    """
    cumulative = np.cumsum((np.arange(d) + shift) ** -exponent)
    cumulative /= cumulative[-1]
    indices = np.empty((n, k), dtype=np.int32)
    for start in range(0, n, 10_000):
        rows = indices[start : start + 10_000]
        drawn = np.searchsorted(cumulative, rng.random((len(rows), 2 * k + 20)))
        by_feature = np.argsort(drawn, axis=1, kind="stable")
        ordered = np.take_along_axis(drawn, by_feature, axis=1)
        again = np.zeros(drawn.shape, dtype=bool)
        np.put_along_axis(again, by_feature[:, 1:], ordered[:, 1:] == ordered[:, :-1], axis=1)
        # the first k that were not drawn before: sampling without replacement
        first = np.argsort(again, axis=1, kind="stable")[:, :k]
        if np.take_along_axis(again, first, axis=1).any():
            raise ValueError(f"{k} distinct features out of {d} are too many for rows with Zipf frequencies")
        rows[:] = np.sort(np.take_along_axis(drawn, first, axis=1), axis=1)
    values = rng.random((n, k)) + 0.1
    values /= np.linalg.norm(values, axis=1, keepdims=True)
    return csr_matrix((values.ravel(), indices.ravel(), np.arange(0, n * k + 1, k, dtype=np.int32)), shape=(n, d))


def uneven_moments(n: int, d: int, relevant: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return Gaussian features whose scales span two powers of ten, and a noisy linear target in a share of them.

    The weights have the L1 norm 1000.  Large weights often belong to small features, so that magnitudes mislead.
    """
    scale = 10.0 ** rng.uniform(-1.0, 1.0, d)
    truth = rng.standard_normal(d) * (rng.random(d) < relevant) / scale ** rng.uniform(0.0, 1.0, d)
    truth *= 1000.0 / np.abs(truth).sum()
    X = rng.standard_normal((n, d)) * scale
    y = X @ truth
    return X, y + 0.5 * y.std() * rng.standard_normal(n)


def text_like(
    n: int, d: int, k: int, relevant: int, scale: float, rng: np.random.Generator
) -> tuple[csr_matrix, np.ndarray]:
    """Return Zipf rows with labels -1, +1 from a logistic model on ``relevant`` features, drawn like the rows' own."""
    X = zipf_rows(n, d, k, rng)
    truth = np.zeros(d)
    chosen = zipf_rows(1, d, relevant, rng).indices
    truth[chosen] = scale * rng.standard_normal(relevant)
    return X, np.where(rng.random(n) < 1.0 / (1.0 + np.exp(-(X @ truth))), 1, -1)


def add_probes(*parts: csr_matrix, total: int, rng: np.random.Generator) -> list[csr_matrix]:
    """Return the rows with random probes up to ``total`` columns: copies of columns, each with its rows shuffled.

    The probes of every part are copies of the same columns, distributed like them and without any information.
    """
    d = parts[0].shape[1]
    copied = rng.integers(d, size=total - d)
    out = []
    for X in parts:
        columns = X.tocsc()[:, copied]
        for j in range(total - d):
            span = slice(columns.indptr[j], columns.indptr[j + 1])
            columns.indices[span] = rng.choice(X.shape[0], span.stop - span.start, replace=False)
        out.append(csr_matrix(hstack([X, columns.tocsr()])))
    return out


SIGNALS = {
    "spam": "won prize free entry claim cash urgent reply win holiday txt stop offer bonus guaranteed selected award "
    "voucher ringtone mobile camera landline expires unsubscribe congratulations weekly draw credit loan reward",
    "ham": "home lunch later birthday thanks dinner late sorry tonight mum train meeting love sleep lol haha cinema "
    "office milk keys exam bus garden soup tomorrow class hungry sister coffee weekend",
}
"""Words that speak for a kind of message, the most frequent first."""
_FILLERS = "a the you we are is to for on at in now today please call see have me your it i and of that will be so do"
_SYLLABLES = "ba be bo da di du fa fi ga go ha ka ki la li lo ma mi mo na ni no pa po ra ri ro sa si ta te tu va vi zo"


def messages(n: int, rng: np.random.Generator, names: int = 20_000) -> tuple[list[str], np.ndarray]:
    """Return n short messages and their labels, "ham" or "spam".

    A fifth of the words of a message are :data:`SIGNALS` of its kind, a few of the other kind.  The others are common
    words, and names with Zipf frequencies, which say nothing.
    """
    syllables = np.array(_SYLLABLES.split())
    made_up = ["".join(each) for each in syllables[rng.integers(len(syllables), size=(names, 4))]]
    words = np.array([*_FILLERS.split(), *SIGNALS["ham"].split(), *SIGNALS["spam"].split(), *made_up], object)
    ends = np.cumsum([len(part.split()) for part in (_FILLERS, *(SIGNALS[kind] for kind in ("ham", "spam")))])
    labels = np.where(rng.random(n) < 0.3, "spam", "ham")
    lengths = 6 + rng.poisson(10, n)
    owner, kind = np.repeat(np.arange(n), lengths), rng.random(lengths.sum())
    is_spam = labels[owner] == "spam"
    is_signal, is_filler = kind < 0.22, (kind >= 0.22) & (kind < 0.6)
    of_spam = is_spam ^ (kind >= 0.2)  # a tenth of the signals is borrowed from the other kind
    starts = np.where(is_signal, np.where(of_spam, ends[1], ends[0]), np.where(is_filler, 0, ends[2]))
    sizes = np.where(is_signal, ends[1] - ends[0], np.where(is_filler, ends[0], names))
    picked = words[starts + (np.exp(rng.random(len(owner)) * np.log(sizes)) - 1e-9).astype(np.int64)]
    pieces = np.split(picked, np.cumsum(lengths)[:-1])
    return [" ".join(piece) for piece in pieces], labels
