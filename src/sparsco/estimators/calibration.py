"""Probabilities from margins: corrected to the frequencies of the classes, or calibrated by Platt scaling."""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from .. import losses
from ..data.rows import Matrix
from .class_weights import ClassWeights
from .converted import Converted
from .left_out import at_model
from .margins import Margins, without_weights

_STEPS, _SETTLED = 50, 1e-10
_RIDGE = 1e-9
"""The curvature that is added, relative to the number of rows: a margin that never varies has no slope."""


def platt(p: np.ndarray, is_one: np.ndarray, weights: np.ndarray) -> tuple[float, float]:
    """Return slope a and intercept b of the probabilities 1 / (1 + exp(-(a p + b))) that fit the labels best.

    Targets are smoothed as Platt does: (n1 + 1) / (n1 + 2) and 1 / (n0 + 2) for n1 and n0 rows.  A slope below 0 would
    turn the order of the rows around, and is set to 0.
    """
    ones, zeros = float(weights[is_one].sum()), float(weights[~is_one].sum())
    targets = np.where(is_one, (ones + 1.0) / (ones + 2.0), 1.0 / (zeros + 2.0))
    centre, spread = float(np.mean(p)), float(np.std(p)) or 1.0
    x = np.stack([(p - centre) / spread, np.ones(len(p))], axis=1)
    mean = float(np.average(targets, weights=weights))
    nothing = np.array([0.0, np.log(mean / (1.0 - mean))])
    theta = _newton(x, targets, weights / weights.sum(), nothing)
    slope, intercept = theta if theta[0] > 0.0 else nothing
    return float(slope / spread), float(intercept - slope * centre / spread)


def _newton(x: np.ndarray, targets: np.ndarray, weights: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """Return the minimum of the mean logistic loss with these targets, by Newton steps that are halved if too long."""

    def objective(at: np.ndarray) -> float:
        f = x @ at
        return float(weights @ (np.logaddexp(0.0, f) - targets * f) + 0.5 * _RIDGE * at[0] ** 2)

    value = objective(theta)
    for _ in range(_STEPS):
        share = expit(x @ theta)
        slope = x.T @ (weights * (share - targets)) + _RIDGE * theta * [1.0, 0.0]
        curvature = (x * (weights * share * (1.0 - share))[:, None]).T @ x + _RIDGE * np.eye(2)
        step = np.linalg.solve(curvature, slope)
        while (new := objective(theta - step)) > value and np.abs(step).max() > _SETTLED:
            step *= 0.5
        if np.abs(step).max() <= _SETTLED or not new < value:
            break
        theta, value = theta - step, new
    return theta


class Calibrated(Margins, ClassWeights):
    """A classifier whose probabilities are those of the rows as they come, whatever weights it has learned with."""

    def probabilities_of(self, p: np.ndarray) -> np.ndarray:
        """Return the probability of each class for each row of margins of the model."""
        model = self.fit_state.model
        return self._scaled(p, None if model is None else model.platt)

    def iterate_probabilities(self, p: np.ndarray) -> np.ndarray:
        """Return the same for margins of the iterate, while a stream is under way.

        Platt scaling is fitted again when the rows held out have grown by a tenth.
        """
        if not self.calibrate:
            return self.corrected(p)
        state = self.fit_state
        if state.held is None:
            raise ValueError(
                "calibrate=True with an automatic alpha calibrates the model at the end, and this stream is under way: "
                "call predict_proba, finalize() first, or give alpha."
            )
        n, before = state.held.rows_seen, state.scaled
        if n and (before is None or 10 * n >= 11 * before[0] or before[1].shape[1] != p.shape[1]):
            rows = state.held.sample().R
            found = self.iterate_margins(Matrix(rows.indptr, rows.indices, rows.data, state.features.room))
            state.scaled = n, self._scale_of(found, rows.y.astype(np.int64), rows.weights[:, 0])
        return self._scaled(p, None if state.scaled is None else state.scaled[1])

    def _scaled(self, p: np.ndarray, scale: np.ndarray | None) -> np.ndarray:
        if scale is None or len(self.classes_) == 1:
            return self.corrected(p)
        return losses.Logistic().probabilities(scale[0] * self._each_alone(p) + scale[1])

    def corrected(self, p: np.ndarray) -> np.ndarray:
        """Return probabilities without Platt scaling; those of balanced classes are divided by the class weights."""
        if self.loss_record().probabilities is None:
            raise ValueError(
                f"loss={self.loss!r} gives no probabilities by itself, and there is no calibration for this model: "
                "call predict_proba of the fitted model, or choose loss='logistic'."
            )
        weights = self.mean_class_weights() if self.is_balanced else None
        return without_weights(super().probabilities_of(p), weights)

    def _each_alone(self, p: np.ndarray) -> np.ndarray:
        """Return the margin of each class against the rest; for a softmax, the log of the odds."""
        if p.shape[1] == 1 or not self.loss_record().couples:
            return p
        others = np.stack([np.logaddexp.reduce(np.delete(p, k, 1), axis=1) for k in range(p.shape[1])], axis=1)
        return p - others

    def calibrated(self, model: Converted) -> Converted:
        """Return the model with the slope and intercept of its probabilities, from rows that it has not learned."""
        if not self.calibrate:
            return model
        p, codes, weights = self._unlearned(model)
        if not len(p):
            self._fit.runs[0].warn("calibrate=True: no row was held out so far: give more rows.")
        return model._replace(platt=self._scale_of(p, codes, weights), unlearned=None)

    def _scale_of(self, p: np.ndarray, codes: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Return slope and intercept of each margin, (2, models), that fit rows best which were not learned."""
        scale = np.array([np.ones(p.shape[1]), np.zeros(p.shape[1])])
        if not len(p):
            return scale
        places = np.argsort(self.code_of_each())[codes]
        own = self.mean_class_weights()
        if own is not None:
            weights = weights / np.where(own > 0.0, own, 1.0)[places]
        each = self._each_alone(p)
        for k in range(p.shape[1]):
            scale[:, k] = platt(each[:, k], places == (1 if p.shape[1] == 1 else k), weights)
        return scale

    def _unlearned(self, model: Converted) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return margins, codes and weights of rows that the model has not learned."""
        if model.unlearned is not None:
            p, codes, weights = model.unlearned
            return np.ascontiguousarray(self.arranged(p.T).T), codes.astype(np.int64), weights
        held = self._fit.held
        if held is None:
            return np.zeros((0, len(model.intercept))), np.zeros(0, np.int64), np.zeros(0)
        p, codes, weights = at_model(held.sample().R, model)
        return p, codes.astype(np.int64), weights
