"""Kernels over features in order: which occur in enough texts, and their inverse document frequencies."""

from __future__ import annotations

import math

from ..jit.dispatch import U, kernel


@kernel
def counted_on(slots, least, used, documents, columns, new, columns_then, documents_then):
    """Count features, text by text, each once in a text; return the number of columns.

    A feature gets the next column when it occurs in its ``least``-th text; ``new`` receives these entries.
    ``columns_then`` and ``documents_then`` are those of an entry's feature after its text.
    """
    first = used
    for p in range(slots.size):
        slot = U(slots[p])
        documents[slot] += 1
        if documents[slot] == least:
            columns[slot] = used
            new[used - first] = p
            used += 1
        columns_then[p], documents_then[p] = columns[slot], documents[slot]
    return used


@kernel
def inverse_frequencies(indptr, documents, texts, growing, norm, values):
    """Multiply counts by log((1 + texts) / (1 + documents)) + 1, with ``norm`` to rows of Euclidean norm 1.

    ``texts`` is the number of texts, for rows that are ``growing`` that before the first of them.
    """
    for i in range(indptr.size - 1):
        n, total = texts + (i + 1 if growing else 0), 0.0
        for p in range(indptr[i], indptr[i + 1]):
            x = values[U(p)] * (math.log((1.0 + n) / (1.0 + documents[U(p)])) + 1.0)
            values[U(p)] = x
            total += x * x
        if norm and total > 0.0:
            for p in range(indptr[i], indptr[i + 1]):
                values[U(p)] /= math.sqrt(total)
