"""Sparse models for River: classifiers and regressions that learn from dicts, one example at a time.

    pipeline = preprocessing.StandardScaler() | SparseClassifier()
    evaluate.progressive_val_score(dataset, pipeline, metrics.ROCAUC())

River is optional: `pip install 'sparsco[river]'`.  Nothing else imports this module.
"""

from __future__ import annotations

from typing import Any

try:
    from river import base
except ImportError as error:
    raise ImportError("sparsco.river needs River: pip install 'sparsco[river]'.") from error

from .estimators import sklearn
from .optimizers.nftrl import NFTRL
from .util.validation import is_auto


class Streamed(base.Estimator):
    """A model of River around an estimator of sparsco, which is made at the first example."""

    _model: Any = None

    def _settings(self) -> dict[str, Any]:
        """Return the parameters of the estimator inside."""
        own = {name: given for name, given in self._get_params().items() if name != "seed"}
        if is_auto(own["optimizer"]):
            own["optimizer"] = NFTRL(per_feature_clock=True)
        return own | {"random_state": self._get_params().get("seed"), "conversion": "last"}

    @property
    def model(self) -> Any:
        """Return the estimator of sparsco that has learned so far; None before the first example.

        It has ``summary()``, ``coef_`` and all else, and can be saved by :func:`sparsco.save`.
        """
        return self._model

    def _learn(self, kind: Any, x: dict[Any, Any], y: Any) -> None:
        if self._model is None:
            self._model = kind(**self._settings())
        self._model.learn_one(x, y)

    def mutate(self, new_attrs: dict[str, Any]) -> None:
        """Change parameters in place, for the examples from here on."""
        if self._model is not None:
            _ = self._model.t_  # examples that wait are learned by the parameters of before
        super().mutate(new_attrs)
        if self._model is not None:
            for name in new_attrs:
                setattr(self._model, name, getattr(self, name))

    @property
    def _mutable_attributes(self) -> set[str]:
        return set()


class SparseClassifier(Streamed, base.Classifier):
    """A sparse linear classifier with any number of classes, which may appear at any time.

    Parameters
    ----------
    loss
        "logistic", "hinge", "squared-hinge", "multinomial", or a loss record.
    alpha
        The strength of the penalty.  "auto" takes 5% of the smallest that selects nothing on the first 1000 examples.
    l1_ratio
        The share of the L1 term: 1 is pure L1, 0 is pure L2.
    optimizer
        The name of an optimizer, or its record.  "auto" is NFTRL with a clock of its own for each feature.
    fit_intercept
        Whether there is an intercept.
    class_weight
        None, "balanced" (by the examples so far), or a dict of labels and weights.  It can be changed by ``mutate``.
    max_features
        The largest number of features in memory; those that were absent for longest leave (docs/streams.md).
    seed
        The seed of random choices.
    """

    def __init__(
        self,
        loss: Any = "logistic",
        alpha: Any = "auto",
        l1_ratio: float = 1.0,
        optimizer: Any = "auto",
        fit_intercept: bool = True,
        class_weight: Any = None,
        max_features: int | None = None,
        seed: int | None = None,
    ) -> None:
        self.loss = loss
        self.alpha = alpha
        self.l1_ratio = l1_ratio
        self.optimizer = optimizer
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.max_features = max_features
        self.seed = seed

    @property
    def _multiclass(self) -> bool:
        return True

    @property
    def _mutable_attributes(self) -> set[str]:
        return {"class_weight"}

    def learn_one(self, x: dict[Any, Any], y: Any) -> None:
        """Learn one example with its label."""
        self._learn(sklearn.SparseClassifier, x, y)

    def predict_one(self, x: dict[Any, Any], **kwargs: Any) -> Any:
        """Return the most likely label of one example; None before anything was learned."""
        return None if self._model is None else self._model.predict_one(x)

    def predict_proba_one(self, x: dict[Any, Any], **kwargs: Any) -> dict[Any, float]:
        """Return the probability of each label that was seen, of one example; empty before anything was learned."""
        if self._model is None:
            return {}
        if not self._model.has_probabilities:
            raise NotImplementedError(f"loss={self.loss!r} gives no probabilities: choose 'logistic'.")
        return self._model.predict_proba_one(x)


class SparseRegressor(Streamed, base.Regressor):
    """A sparse linear regression.

    Parameters
    ----------
    loss
        "squared", "huber", "absolute", "epsilon-insensitive", "quantile", "poisson", "gamma", "tweedie",
        or a loss record.
    alpha, l1_ratio, optimizer, fit_intercept, max_features, seed
        As in :class:`SparseClassifier`.
    """

    def __init__(
        self,
        loss: Any = "squared",
        alpha: Any = "auto",
        l1_ratio: float = 1.0,
        optimizer: Any = "auto",
        fit_intercept: bool = True,
        max_features: int | None = None,
        seed: int | None = None,
    ) -> None:
        self.loss = loss
        self.alpha = alpha
        self.l1_ratio = l1_ratio
        self.optimizer = optimizer
        self.fit_intercept = fit_intercept
        self.max_features = max_features
        self.seed = seed

    def learn_one(self, x: dict[Any, Any], y: Any) -> None:
        """Learn one example with its number."""
        self._learn(sklearn.SparseRegressor, x, y)

    def predict_one(self, x: dict[Any, Any]) -> float:
        """Return the predicted number of one example; 0 before anything was learned."""
        return 0.0 if self._model is None else self._model.predict_one(x)
