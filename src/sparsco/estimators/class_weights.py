"""Weights of classes: those of all rows at once, and in a stream those of the rows seen so far."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .base import LinearBase

PSEUDO_ROWS = 5.0
"""The rows of each class that balanced weights count in advance, so that the first row of a rare class is not huge."""
_NONE = np.zeros(0)


class ClassTally(NamedTuple):
    """How many rows of each class were seen, and the weights that they got; classes have codes 0, 1, ..."""

    total: float = 0.0
    """The sum of the weights of all rows, as the user gives them."""
    seen: np.ndarray = _NONE
    """The sums of these weights, by class."""
    given: np.ndarray = _NONE
    """The sums of the weights that rows were learned with, by class."""

    def balanced(self, classes: int | None = None) -> np.ndarray:
        """Return the weight that a row of each class would get now; ``classes`` is the number of them, if known."""
        k = classes or max(len(self.seen), 1)
        return (self.total + k * PSEUDO_ROWS) / (k * (_padded(self.seen, k) + PSEUDO_ROWS))

    def mean_weights(self) -> np.ndarray:
        """Return the mean weight of a row of each class; where there was no row, the weight that it would get."""
        return np.divide(self.given, self.seen, out=self.balanced(), where=self.seen > 0.0)

    def add(
        self, codes: np.ndarray, weights: np.ndarray, scale: np.ndarray | None = None, classes: int | None = None
    ) -> tuple[np.ndarray, ClassTally]:
        """Return the weight of each row by its class, and the tally with these rows.

        ``scale`` has the weights, if they are given.  Otherwise they are balanced: the weight of a row depends on the
        rows up to and including it.  ``classes`` is the number of classes; None if they are found in the stream.  Sums
        are made one row after the other, so that any cut of a stream gives the same bits.
        """
        counted = weights > 0.0
        k = classes or 1 + int(max(codes[counted].max(initial=-1), len(self.seen) - 1))
        total = _running(self.total, weights)
        seen, given, own = _padded(self.seen, k), _padded(self.given, k), np.zeros(len(codes))
        parts = [(code, rows) for code, rows in _by_code(codes) if code < k]
        for code, rows in parts:
            sums = _running(seen[code], weights[rows])
            own[rows], seen[code] = sums[1:], sums[-1]
        if scale is None:
            highest = np.maximum.accumulate(np.where(counted, codes, 0))
            known = np.maximum(highest + 1, len(self.seen)) if classes is None else classes
            scale = (total[1:] + known * PSEUDO_ROWS) / (known * (own + PSEUDO_ROWS))
        for code, rows in parts:
            given[code] = _running(given[code], (weights * scale)[rows])[-1]
        return scale, ClassTally(float(total[-1]), seen, given)


def _running(start: float, numbers: np.ndarray) -> np.ndarray:
    return np.cumsum(np.concatenate([[start], numbers]))


def _padded(sums: np.ndarray, k: int) -> np.ndarray:
    return np.concatenate([sums, np.zeros(max(k - len(sums), 0))])


def _by_code(codes: np.ndarray) -> list[tuple[int, np.ndarray]]:
    """Return the rows of each code that occurs, in their order."""
    if not len(codes):
        return []
    order = np.argsort(codes, kind="stable")
    first = np.flatnonzero(np.diff(codes[order], prepend=-1))
    return list(zip(codes[order[first]].tolist(), np.split(order, first[1:]), strict=True))


class ClassWeights(LinearBase):
    """A classifier whose rows have weights by their class."""

    class_weight: Any = None
    classes_: np.ndarray

    @property
    def is_balanced(self) -> bool:
        """Return whether class weights are inverse to the frequencies of the classes."""
        return isinstance(self.class_weight, str)

    def check_class_weight(self) -> None:
        """Raise a ValueError for a word that is no class weight."""
        if self.is_balanced and self.class_weight != "balanced":
            raise ValueError(f"class_weight={self.class_weight!r}: it must be None, 'balanced' or a dict of labels.")

    def mean_class_weights(self) -> np.ndarray | None:
        """Return the mean weight of a row of each class, in the order of ``classes_``; None without class weights."""
        tally = self.fit_state.tally
        if tally is None or self.class_weight is None:
            return None
        return tally.mean_weights()[self.code_of_each()]

    def take_class_weights(self, weights: np.ndarray | None) -> None:
        """Set the mean weights of the classes of a finished model."""
        if weights is not None:
            self._fit.tally = ClassTally(float(len(weights)), np.ones(len(weights)), weights)

    def code_of_each(self) -> list[int]:
        """Return the codes of the classes in the order of ``classes_``."""
        if not self.fit_state.is_open:
            return list(range(len(self.classes_)))
        return [self.fit_state.codes[label] for label in self.classes_.tolist()]

    def _weights_of_all(self, codes: np.ndarray, weights: np.ndarray | None) -> np.ndarray | None:
        """Return the weights of the rows times the weights of their classes, for rows that are all there."""
        if self.class_weight is None:
            return weights
        from sklearn.utils import compute_class_weight

        labels = self.classes_[codes]
        scale = compute_class_weight(self.class_weight, classes=self.classes_, y=labels, sample_weight=weights)
        self._check_numbers(scale)
        return scale[codes] if weights is None else weights * scale[codes]

    def _count_all(
        self, codes: np.ndarray, weights: np.ndarray | None, weighted: np.ndarray | None, goes_on: bool
    ) -> None:
        """Count rows that are all there, which got these weights."""
        if weighted is None or self.class_weight is None:
            return
        own = np.ones(len(codes)) if weights is None else weights
        scale = np.divide(weighted, own, out=np.ones(len(codes)), where=own > 0.0)
        before = (self._fit.tally if goes_on else None) or ClassTally()
        _, self._fit.tally = before.add(codes, own, scale, len(self.classes_))

    def _weights_of_next(
        self, codes: np.ndarray, weights: np.ndarray | None, is_repeat: bool = False
    ) -> np.ndarray | None:
        """Return the weights of the next rows of a stream times the weights of their classes.

        Rows are counted, unless ``is_repeat`` says that they were counted before.
        """
        if self.class_weight is None:
            return weights
        state, before = self._fit, self._fit.tally or ClassTally()
        own = np.ones(len(codes)) if weights is None else weights
        classes = None if state.is_open else len(self.classes_)
        given = None if self.is_balanced else self._given_weights()[codes]
        if is_repeat:
            return own * (before.balanced(classes)[codes] if given is None else given)
        scale, state.tally = before.add(codes, own, given, classes)
        return own * scale

    def with_class_weights(self, y: np.ndarray, weights: np.ndarray | None) -> np.ndarray | None:
        """Return the weights of rows times the weights of their classes as of now; the rows are not counted.

        A label that was never seen has the weight 1.
        """
        if self.class_weight is None or not self.fit_state.is_fitted:
            return weights
        codes, own = self.codes_of(y).astype(np.int64), np.ones(len(y)) if weights is None else weights
        tally, known = self._fit.tally or ClassTally(), None if self._fit.is_open else len(self.classes_)
        scale = tally.balanced(known) if self.is_balanced else self._given_weights()
        return own * np.append(scale, 1.0)[np.where(codes < len(scale), codes, -1)]

    def _given_weights(self) -> np.ndarray:
        """Return the weights of a dict, by code."""
        if self._fit.is_open or self._fit.noted is not None:
            scale = np.array([self.class_weight.get(label, 1.0) for label in self._fit.codes], np.float64)
        else:
            from sklearn.utils import compute_class_weight

            scale = compute_class_weight(self.class_weight, classes=self.classes_, y=self.classes_)
        self._check_numbers(scale)
        return scale

    def _check_numbers(self, scale: np.ndarray) -> None:
        if not (np.all(np.isfinite(scale)) and np.all(scale >= 0.0)):
            raise ValueError(f"class_weight={self.class_weight!r}: class weights must be finite and at least 0.")

    def _class_weights(self, y: np.ndarray) -> np.ndarray | None:
        return self._weights_of_next(y.astype(np.int64), None)
