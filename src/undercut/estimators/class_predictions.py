"""Labels, decision values and probabilities from the scores of a classifier."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import expit
from sklearn.base import ClassifierMixin
from sklearn.utils.metaestimators import available_if

from undercut.estimators.cluster.lazy import lazily
from undercut.losses import Logistic
from undercut.types import Array, FloatArray


class ClassPredictions(ClassifierMixin):
    """Predictions of a classifier with ``classes_`` and ``_scores(X)``, an array of one column per problem."""

    classes_: Array

    @lazily
    def decision_function(self, X: Any) -> FloatArray:
        """Scores: one per sample for two classes, else one per sample and class."""
        scores: FloatArray = self._scores(X)
        return scores.ravel() if scores.shape[1] == 1 else scores

    @lazily
    def predict(self, X: Any) -> Array:
        """The class with the largest score."""
        return labels_of(self._scores(X), self.classes_)


def labels_of(scores: FloatArray, classes: Array) -> Array:
    """The class with the largest score; of two, the last one where its score is positive."""
    codes = (scores[:, 0] > 0.0).astype(int) if scores.shape[1] == 1 else scores.argmax(axis=1)
    labels: Array = classes[codes]
    return labels


def has_probabilities(model: Any) -> bool:
    """Whether the loss of a classifier gives its scores a meaning as log-odds."""
    return model.loss == "logistic" or isinstance(model.loss, Logistic)


class ClassProbabilities:
    """Probabilities of a classifier with the logistic loss."""

    @available_if(has_probabilities)
    @lazily
    def predict_proba(self, X: Any) -> FloatArray:
        """Class probabilities under the logistic loss; several one-against-rest classes are normalized."""
        return self._probabilities(self._scores(X))

    @available_if(has_probabilities)
    @lazily
    def predict_log_proba(self, X: Any) -> FloatArray:
        """Logarithms of ``predict_proba``."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def _probabilities(self, scores: FloatArray) -> FloatArray:
        probability: FloatArray = expit(scores)
        if probability.shape[1] == 1:
            return np.hstack([1.0 - probability, probability])
        return np.asarray(probability / probability.sum(axis=1, keepdims=True))
