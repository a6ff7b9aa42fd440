"""Whether the rows of a stream are in a random order: labels and features compared with the number of the row.

Sums over consecutive parts of the stream are kept, in constant memory: whenever there are too many parts, neighbours
become one.  The measure is the share of a value's variance that lies between the parts, which is about 0 for rows in a
random order and 1 for rows that are sorted by the value.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .rows import Matrix

_PARTS, _PART_ROWS = 64, 256
_LABELS, _BUCKETS = 256, 1024
_SOME, _MOST = 0.1, 0.5
"""Shares of the variance: from the first on labels are worth a sentence, from the second on features are, and labels
count as sorted."""


class Drift:
    """Sums of labels and features by part of a stream."""

    def __init__(self, classifies: bool) -> None:
        self.classifies, self.size = classifies, _PART_ROWS
        self.codes: dict[Any, int] = {}
        """Of labels, in the order in which they appear; all beyond the first few share one."""
        self.labels = np.zeros((_PARTS, 3, _LABELS if classifies else 1))
        """For each part how many rows there are, and the sums and the sums of squares of values: of numbers, or of 1
        for rows that have a label."""
        self.features = np.zeros((_PARTS, 3, _BUCKETS))

    def add_labels(self, row: int, y: np.ndarray) -> None:
        """Count the labels of consecutive rows, the first of them number ``row``."""
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
        """Count the features of some rows of one part, the first of them number ``row``."""
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
        """Whether rows come label by label: then it says nothing that the next ones are predicted well."""
        return self.classifies and (len(self.codes) == 1 or self._of_labels() > _MOST)

    def _of_labels(self) -> float:
        """The share of the labels' variance that lies between parts."""
        between, total = _spread(self.labels)
        return float(between.sum() / total.sum()) if total.sum() > 0.0 else 0.0

    def sentence(self) -> str:
        """What depends on the number of the row; empty where nothing does."""
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
    """For each value the sum of squared distances between the means of parts and that of all, and in all."""
    rows, first, second = sums.sum(0)
    mean = first / np.maximum(rows, 1.0)
    part_mean = sums[:, 1] / np.maximum(sums[:, 0], 1.0)
    total = second - rows * mean**2
    between = (sums[:, 0] * (part_mean - mean) ** 2).sum(0)
    return between, np.where(total > 1e-9 * second, total, 0.0)
