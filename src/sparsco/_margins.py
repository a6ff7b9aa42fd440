"""Classifiers by margins: labels and probabilities from one column of margins per class, or one for two classes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.metaestimators import available_if

from . import losses


def has_probabilities(model: Any) -> bool:
    """Whether the model's loss gives any; an AttributeError says why not."""
    if not hasattr(model._loss(), "probabilities"):
        raise AttributeError(f"predict_proba needs loss='logistic' or 'multinomial', not {model.loss!r}.")
    return True


class MarginClassifier(ClassifierMixin):
    """What predicts from ``_margins(X)``, ``classes_`` and ``_loss()``."""

    classes_: np.ndarray
    _margins: Callable[[Any], np.ndarray]
    _loss: Callable[[], Any]

    def decision_function(self, X: Any) -> np.ndarray:
        """Margins: one column per class, or one value per row for two classes."""
        p = self._margins(X)
        if len(self.classes_) > 2:
            return p
        return p[:, 0] if p.shape[1] == 1 else p[:, 1] - p[:, 0]

    def predict(self, X: Any) -> np.ndarray:
        """The most likely label of each row."""
        return self._best(self._margins(X))

    def _best(self, p: np.ndarray) -> np.ndarray:
        """The most likely class for each row of margins."""
        alone = p.shape[1] == 1 and len(self.classes_) == 2
        return self.classes_[(p[:, 0] > 0.0).astype(int) if alone else p.argmax(1)]

    @available_if(has_probabilities)
    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities (rows, classes); with more than two classes the softmax of "multinomial", otherwise each
        class's own, scaled to sum to one."""
        return self._probabilities(self._margins(X))

    @available_if(has_probabilities)
    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Logarithms of ``predict_proba``."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def _probabilities(self, p: np.ndarray) -> np.ndarray:
        if len(self.classes_) == 1:
            return np.ones_like(p)
        loss = self._loss()
        return (losses.Logistic() if p.shape[1] == 1 and losses.couples(loss) else loss).probabilities(p)
