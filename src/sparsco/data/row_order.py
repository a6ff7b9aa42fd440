"""A test of whether the rows of a stream are in random order: labels and features against the number of the row.

Sums over consecutive parts of the stream are kept in constant memory: if there are too many parts, neighbours are
merged.  The measure is the share of a value's variance that is between the parts.  It is about 0 for rows in a random
order and 1 for rows that are sorted by the value.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .rows import Matrix

_PARTS, _PART_ROWS = 64, 256
_LABELS, _BUCKETS = 256, 1024
_SOME, _MOST = 0.1, 0.5
"""Shares of the variance: above the first, labels get a warning; above the second, features do.

Above the second, labels count as sorted.
"""


class RowOrder:
    """Sums of labels and features by part of a stream; a training run owns it."""

    classifies: bool
    size: int
    labels: np.ndarray
    features: np.ndarray

    def __init__(self, classifies: bool) -> None:
        self.classifies, self.size = classifies, _PART_ROWS
        self.codes: dict[Any, int] = {}
        """The codes of labels in the order of their appearance; all labels beyond the first few share one."""
        self.labels = np.zeros((_PARTS, 3, _LABELS if classifies else 1))
        """The number of rows of each part, and the sums and the sums of squares of their values.

        Values are numbers, or 1 for rows that have a label.
        """
        self.features = np.zeros((_PARTS, 3, _BUCKETS))

    def check(self) -> None:
        """Raise a ValueError for sums of another shape."""
        shapes = (_PARTS, 3, _LABELS if self.classifies else 1), (_PARTS, 3, _BUCKETS)
        is_whole = (self.labels.shape, self.features.shape) == shapes and self.size >= _PART_ROWS
        is_whole &= self.labels.dtype == self.features.dtype == np.float64
        if not is_whole or not all(type(code) is int and 0 <= code < _LABELS for code in self.codes.values()):
            raise ValueError("the sums over parts of the stream are not whole")

    def add_labels(self, row: int, y: np.ndarray) -> None:
        """Add the labels of consecutive rows, the first of which has the number ``row``."""
        self._make_room(row + len(y))
        parts, values = (row + np.arange(len(y))) // self.size, np.ones(len(y))
        codes = np.zeros(len(y), np.int64)
        if self.classifies:
            found = y.tolist()
            for label in dict.fromkeys(found):
                self.codes.setdefault(label, min(len(self.codes), _LABELS - 1))
            codes = np.array([self.codes[label] for label in found])
        else:
            values = np.asarray(y, np.float64)
        _add(self.labels, parts, codes, values)
        self.labels[:, 0] += np.bincount(parts, minlength=_PARTS)[:, None]

    def add_features(self, row: int, matrix: Matrix) -> None:
        """Add the features of some rows of one part, the first of which has the number ``row``."""
        self._make_room(row + len(matrix))
        part = np.full(len(matrix.data), row // self.size)
        _add(self.features, part, matrix.indices.astype(np.int64) % _BUCKETS, matrix.data)
        self.features[row // self.size, 0] += len(matrix)

    def _make_room(self, rows: int) -> None:
        while rows > _PARTS * self.size:
            self.size *= 2
            for sums in (self.labels, self.features):
                sums[: _PARTS // 2] = sums[::2] + sums[1::2]
                sums[_PARTS // 2 :] = 0.0

    @property
    def is_sorted(self) -> bool:
        """Return whether rows come label by label; good predictions of the next rows mean nothing then."""
        return self.classifies and (len(self.codes) == 1 or self._of_labels() > _MOST)

    def _of_labels(self) -> float:
        """Return the share of the labels' variance that is between parts."""
        between, total = _spread(self.labels)
        return float(between.sum() / total.sum()) if total.sum() > 0.0 else 0.0

    def sentence(self) -> str:
        """Return a phrase that names what depends on the number of the row; an empty string if nothing does."""
        share = self._of_labels()
        if share > _SOME:
            what = "the labels" if self.classifies else "the targets"
            return f"{what} depend on the position in the source ({share:.0%} of their variance)"
        between, total = _spread(self.features)
        shares = np.divide(between, total, out=np.zeros_like(total), where=total > 0.0)
        if shares.max() > _MOST:
            return f"a feature depends on the position in the source ({shares.max():.0%} of its variance)"
        return ""


def _add(sums: np.ndarray, parts: np.ndarray, columns: np.ndarray, values: np.ndarray) -> None:
    places, width = parts * sums.shape[2] + columns, sums.shape[2]
    for power in (1, 2):
        found = np.bincount(places, values**power, _PARTS * width)
        sums[:, power] += found.reshape(_PARTS, width)


def _spread(sums: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return two sums of squares for each value: between the means of the parts, and over all rows.

    Both are squared distances from the mean over all rows.
    """
    rows, first, second = sums.sum(0)
    mean = first / np.maximum(rows, 1.0)
    part_mean = sums[:, 1] / np.maximum(sums[:, 0], 1.0)
    total = second - rows * mean**2
    between = (sums[:, 0] * (part_mean - mean) ** 2).sum(0)
    return between, np.where(total > 1e-9 * second, total, 0.0)
