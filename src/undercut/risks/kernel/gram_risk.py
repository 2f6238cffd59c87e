"""The hinge risk of a function in the space of a kernel, by its coefficients."""

from __future__ import annotations

from typing import Any

import numpy as np

from undercut.contracts import Cut, Evaluation, Risk
from undercut.devices import beside, to_host
from undercut.errors import DataError
from undercut.losses import Hinge
from undercut.maps.gram import DenseGram, Gram
from undercut.risks.checks import normalized_weights, real_targets
from undercut.risks.scores.mean_loss import mean_loss
from undercut.types import FloatArray


class GramRisk(Risk):
    """``R(w) = min_b sum_i weight_i max(0, 1 - y_i ((K w)_i + b))``, the weights scaled to sum to one.

    w are the coefficients of ``f = sum_j w_j k(x_j, .)``; ``KernelNorm`` is the regularizer that belongs to it.
    Without ``fit_intercept`` b is zero.

    >>> from undercut.maps.gram import DenseGram
    >>> risk = GramRisk(DenseGram(np.eye(2)), np.array([1.0, -1.0]))
    >>> risk.value(np.zeros(2)), risk.value(np.array([1.0, -1.0]))
    (1.0, 0.0)
    """

    lower_bound = 0.0
    is_convex = True

    def __init__(self, gram: Gram | Any, y: Any, sample_weight: Any = None, fit_intercept: bool = True) -> None:
        self.gram = gram if isinstance(gram, Gram) else DenseGram(gram)
        self.n_params = self.gram.n_samples
        self.y = real_targets(y, (self.n_params, self.n_params))
        Hinge().check_target(self.y)
        self.weight = normalized_weights(sample_weight, self.n_params)
        self.fit_intercept = fit_intercept
        present = np.unique(self.y[self.weight > 0.0])
        if present.size < 2:
            raise DataError(f"a classifier needs samples of both classes, -1 and +1; got only {present[0]:+g}")
        self.phi = mean_loss(Hinge(), self.y, self.weight, fit_intercept=fit_intercept)

    def scores(self, w: FloatArray) -> FloatArray:
        """``K w``; on a device for several columns at once, too."""
        return to_host(self.gram.exact_product(beside(w, self.gram.diagonal)))

    def at_scores(self, scores: FloatArray) -> Evaluation:
        """The risk as a function of ``K w``."""
        return self.phi.evaluate(scores)

    def value(self, w: FloatArray) -> float:
        scores = self.scores(w) if w.any() else np.zeros(self.n_params)
        return self.at_scores(scores).value

    def cut(self, w: FloatArray) -> Cut:
        scores = self.scores(w)
        value, slopes, _ = self.at_scores(scores)
        slopes = slopes.copy()
        return Cut(self.scores(slopes), value - float(slopes @ scores), value)

    def intercept(self, w: FloatArray) -> float:
        """The b that belongs to w."""
        return self.phi.intercept(self.scores(w))
