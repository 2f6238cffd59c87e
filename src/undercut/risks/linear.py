"""The risk of a linear model: the weighted mean of a pointwise loss of ``X w``, or of ``X w + b`` at the best b."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from typing_extensions import override

from undercut.arrays import FloatArray
from undercut.data.design import as_design
from undercut.errors import DataError, NonfiniteError
from undercut.losses import Loss, SmoothLoss
from undercut.risks.base import Cut, Line, SmoothRisk
from undercut.risks.scores import Evaluation, mean_loss


class LinearRisk(SmoothRisk):
    """``R(w) = sum_i weight_i l(y_i, <w, x_i>)``, the weights scaled to sum to one.

    With ``fit_intercept`` it is ``min_b sum_i weight_i l(y_i, <w, x_i> + b)``: the intercept is not penalized, is found
    exactly, and is read off with ``intercept(w)``.

    >>> from undercut import Hinge
    >>> risk = LinearRisk(np.eye(2), np.array([1.0, -1.0]), Hinge())
    >>> risk.cut(np.zeros(2))
    Cut(a=array([-0.5,  0.5]), b=1.0, value=1.0)
    """

    is_convex = True

    def __init__(self, X: Any, y: Any, loss: Loss, sample_weight: Any = None, fit_intercept: bool = False) -> None:
        self.design = as_design(X)
        self.fit_intercept = fit_intercept
        n, self.n_params = self.design.shape
        y = np.asarray(y, dtype=np.float64)
        if n == 0 or y.shape != (n,):
            raise DataError(
                f"y must have one target per row of X, and at least one; got shapes {y.shape} and {X.shape}"
            )
        loss.check_target(y)
        weight = _normalized(sample_weight, n)
        self.mean_loss = mean_loss(loss, y, weight, fit_intercept=fit_intercept)
        self.lower_bound = float(weight @ loss.infimum(y))
        self.is_smooth = isinstance(loss, SmoothLoss)

    @override
    def value(self, w: FloatArray) -> float:
        return self.mean_loss.evaluate(self.design.matvec(w)).value

    @override
    def cut(self, w: FloatArray) -> Cut:
        scores = self.design.matvec(w)
        return self.plane(scores, self.mean_loss.evaluate(scores))

    @override
    def along(self, w: FloatArray, direction: FloatArray) -> Line:
        return LinearLine(self, self.design.matvec(w), self.design.matvec(direction))

    @override
    def hessian(self, w: FloatArray) -> FloatArray:
        """``X' (D - d d' / sum d) X`` with the curvatures D = diag(d); the second term only with a free intercept."""
        bend = self.mean_loss.bend(self.design.matvec(w))
        hessian = self.design.weighted_gram(bend)
        total = float(bend.sum())
        if self.fit_intercept and total > 0.0:
            mixed = self.design.rmatvec(bend)
            hessian -= np.outer(mixed, mixed) / total
        return hessian

    def intercept(self, w: FloatArray) -> float:
        """The b that minimizes the risk at w; 0 without ``fit_intercept``."""
        return self.mean_loss.evaluate(self.design.matvec(w)).intercept

    def plane(self, scores: FloatArray, at: Evaluation) -> Cut:
        """The plane of an evaluation at ``scores = X w``: ``<a, w> = <slopes, scores>``, so w itself is not needed."""
        if not math.isfinite(at.value):
            raise NonfiniteError(f"the value of the risk is {at.value}")
        return Cut(self.design.rmatvec(at.slopes), at.value - float(at.slopes @ scores), at.value)


@dataclass(frozen=True)
class LinearLine(Line):
    """R along a line: two vectors of scores are all it takes."""

    risk: LinearRisk
    scores: FloatArray
    rise: FloatArray  # X direction

    @override
    def minimizer(self, slope: float, curvature: float) -> float:
        return self.risk.mean_loss.minimizer(self.scores, self.rise, slope, curvature)

    @override
    def value(self, t: float) -> float:
        return self.risk.mean_loss.evaluate(self.scores + t * self.rise).value

    @override
    def cut(self, t: float) -> Cut:
        scores = self.scores + t * self.rise
        return self.risk.plane(scores, self.risk.mean_loss.evaluate(scores))

    @override
    def turn(self, t: float, direction: FloatArray) -> Line:
        return LinearLine(self.risk, self.scores + t * self.rise, self.risk.design.matvec(direction))


def _normalized(sample_weight: Any, n: int) -> FloatArray:
    if sample_weight is None:
        return np.full(n, 1.0 / n)
    weight = np.asarray(sample_weight, dtype=np.float64)
    if weight.shape != (n,):
        raise DataError(f"sample_weight must have one entry per sample, shape ({n},); got {weight.shape}")
    if not np.isfinite(weight).all() or (weight < 0.0).any():
        raise DataError(f"sample_weight must be finite and non-negative; got a minimum of {weight.min()}")
    if weight.sum() <= 0.0:
        raise DataError("sample_weight must have a positive sum; got only zeros")
    return np.asarray(weight / weight.sum())
