"""Targets: the encoding of a row's y for the lanes of a run."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..offsets import first_offset, has_offset, with_offset


class Targets:
    """The encoding of y for the lanes of a run, which has ``m`` of them."""

    m: int
    copies = 1
    """How many lanes learn each model, with different strengths of the penalty."""
    first = 0
    """The number of the first model among those of all runs."""
    columns_of_y = 1

    @property
    def of_one_strength(self) -> Targets:
        """Return the targets of the models, each of them once."""
        return self

    def encode(
        self, y: np.ndarray, weights: np.ndarray, width: int, kind: Any = np.float64
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the target and the weight of each row in each of ``width`` lanes, both as one row after the other.

        Targets with an offset give records with the offset of their row.
        """
        if not has_offset(y):
            return self._encode(y, weights, width, kind)
        targets, scaled = self._encode(y["y"], weights, width, kind)
        return with_offset(targets.reshape(len(y), width), first_offset(y)).ravel(), scaled

    def all_models(self, y: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return targets and weights of every model of the estimator, (n, models), those of other runs included."""
        if not has_offset(y):
            return self._all_models(y, weights)
        targets, scaled = self._all_models(y["y"], weights)
        return with_offset(targets, first_offset(y)), scaled

    def _encode(self, y: np.ndarray, weights: np.ndarray, width: int, kind: Any) -> tuple[np.ndarray, np.ndarray]:
        raise NotImplementedError

    def _all_models(self, y: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        raise NotImplementedError


class Values(Targets):
    """Targets that are numbers: a column of y for each model; ``part`` selects the models of this run's lanes."""

    def __init__(self, models: int = 1, part: slice = slice(None)) -> None:
        self.models, self.part = models, part
        self.m = len(range(models)[part])
        self.first, self.columns_of_y = part.start or 0, models

    def _encode(self, y: np.ndarray, weights: np.ndarray, width: int, kind: Any) -> tuple[np.ndarray, np.ndarray]:
        targets, scaled = np.zeros((len(y), width), kind), np.zeros((len(y), width), kind)
        targets[:, : self.m] = self._columns(y)[:, self.part]
        scaled[:, : self.m] = weights[:, None]
        return targets.ravel(), scaled.ravel()

    def _all_models(self, y: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        shape = len(y), self.models
        return np.broadcast_to(self._columns(y), shape), np.broadcast_to(weights[:, None], shape)

    def _columns(self, y: np.ndarray) -> np.ndarray:
        return (y[:, None] if y.ndim == 1 else y).astype(np.float64)


class Classes(Targets):
    """Targets that are class codes, encoded by two (classes, models) tables of signs and weights.

    A lane learns +1 or -1 (coupled lanes: 1 or 0).  A lane without a model has -1 with weight 0.  ``part`` selects the
    models of this run's lanes, all by default.
    """

    def __init__(self, signs: np.ndarray, weights: np.ndarray, part: slice = slice(None)) -> None:
        self.everyone = signs, weights
        self.signs, self.weights = signs[:, part], weights[:, part]
        self.m = self.signs.shape[1]
        self.first = part.start or 0

    def _encode(self, y: np.ndarray, weights: np.ndarray, width: int, kind: Any) -> tuple[np.ndarray, np.ndarray]:
        codes = y.astype(np.int64)
        signs, scales = self.signs[codes], self.weights[codes] * weights[:, None]
        if width == self.m:
            return signs.astype(kind, copy=False).ravel(), scales.astype(kind, copy=False).ravel()
        targets, scaled = np.full((len(y), width), -1.0, kind), np.zeros((len(y), width), kind)
        targets[:, : self.m], scaled[:, : self.m] = signs, scales
        return targets.ravel(), scaled.ravel()

    def _all_models(self, y: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        signs, scales = (table[y.astype(np.int64)] for table in self.everyone)
        return signs, scales * weights[:, None]


class Repeated(Targets):
    """Targets of models that are repeated in lanes with different strengths of the penalty.

    All models come with the first strength, then all with the second, and so on.
    """

    def __init__(self, base: Targets, copies: int) -> None:
        self.base, self.copies, self.first = base, copies, base.first
        self.m = base.m * copies

    @property
    def of_one_strength(self) -> Targets:
        """Return the targets of the models, each of them once."""
        return self.base

    def _encode(self, y: np.ndarray, weights: np.ndarray, width: int, kind: Any) -> tuple[np.ndarray, np.ndarray]:
        out = np.zeros((2, len(y), width), kind)
        for every, part in zip(out, self.base.encode(y, weights, self.base.m, kind), strict=True):
            copies = every[:, : self.m].reshape(len(y), self.copies, self.base.m)
            copies[:] = part.reshape(len(y), 1, self.base.m)
        return out[0].ravel(), out[1].ravel()

    def _all_models(self, y: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self.base.all_models(y, weights)


class OneVsRest(Targets):
    """Targets that are class codes, one class per lane: classes first, first + 1, ...

    The lane of a row's class has 1 and the others ``rest``: -1, or 0 where lanes are coupled.  A lane without a model
    has -1 with weight 0.  Codes are in order of appearance, so that a later class does not change earlier ones.
    """

    def __init__(self, first: int, m: int, rest: float = -1.0) -> None:
        self.first, self.m, self.rest = first, m, rest

    def _encode(self, y: np.ndarray, weights: np.ndarray, width: int, kind: Any) -> tuple[np.ndarray, np.ndarray]:
        targets, scaled = np.full((len(y), width), -1.0, kind), np.zeros((len(y), width), kind)
        targets[:, : self.m] = self._signs(y, self.first, self.m)
        scaled[:, : self.m] = weights[:, None]
        return targets.ravel(), scaled.ravel()

    def _all_models(self, y: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        signs = self._signs(y, 0, int(y.max(initial=0)) + 1)
        return signs, np.broadcast_to(weights[:, None], signs.shape)

    def _signs(self, codes: np.ndarray, first: int, m: int) -> np.ndarray:
        return np.where(codes[:, None] == np.arange(first, first + m), 1.0, self.rest)
