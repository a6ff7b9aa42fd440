"""Labels and probabilities from margins: one column for each class, or one column for two classes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import losses


class Margins:
    """A classifier that predicts from margins, with ``classes_`` and ``loss_record()``."""

    classes_: np.ndarray
    loss_record: Callable[[], Any]
    calibrate: Any = False
    """Whether probabilities come from rows that were not learned."""

    @property
    def has_probabilities(self) -> bool:
        """Return whether the loss or a calibration gives probabilities."""
        return bool(self.calibrate) or self.loss_record().probabilities is not None

    def labels_of(self, p: np.ndarray) -> np.ndarray:
        """Return the most likely class for each row of margins."""
        alone = p.shape[1] == 1 and len(self.classes_) == 2
        return self.classes_[(p[:, 0] > 0.0).astype(int) if alone else p.argmax(1)]

    def probabilities_of(self, p: np.ndarray) -> np.ndarray:
        """Return the probability of each class for each row of margins."""
        if len(self.classes_) == 1:
            return np.ones_like(p)
        loss = self.loss_record()
        return (losses.Logistic() if p.shape[1] == 1 and loss.couples else loss).probabilities(p)


def without_weights(shares: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
    """Return probabilities of rows as they come, from those of rows with class weights; None stands for none."""
    if weights is None or shares.shape[1] == 1:
        return shares
    shares = shares / weights
    return shares / shares.sum(1, keepdims=True)


def has_probabilities(model: Any) -> bool:
    """Return whether a classifier gives probabilities; raise an AttributeError with the reason if not."""
    if not model.has_probabilities:
        raise AttributeError(
            f"predict_proba needs loss='logistic' or 'multinomial', or calibrate=True with loss={model.loss!r}."
        )
    return True
