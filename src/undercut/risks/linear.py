"""The risk of a linear model: the weighted mean of a pointwise loss of ``X w``, or of ``X w + b`` at the best b."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from typing_extensions import override

from undercut.arrays import Array, FloatArray
from undercut.data.design import Design, as_design
from undercut.errors import DataError, NonfiniteError
from undercut.losses import Loss, SmoothLoss
from undercut.risks.base import BatchedRisk, Cut, Line, Risk, SmoothRisk
from undercut.risks.scores import Evaluation, mean_loss


class LinearRisk(SmoothRisk, BatchedRisk):
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
        design = as_design(X)
        n = design.shape[0]
        y = _real(y)
        if n == 0 or y.shape != (n,):
            raise DataError(
                f"y must have one target per row of X, and at least one; got shapes {y.shape} and {design.shape}"
            )
        loss.check_target(y)
        self._set(design, y, loss, _normalized(sample_weight, n), fit_intercept)

    def _set(self, design: Design, y: FloatArray, loss: Loss, weight: FloatArray, fit_intercept: bool) -> None:
        self.design, self.y, self.loss, self.weight, self.fit_intercept = design, y, loss, weight, fit_intercept
        self.n_samples, self.n_params = design.shape
        self.scratch = np.empty(self.n_samples)  # for scores that nobody keeps
        self.mean_loss = mean_loss(loss, y, weight, fit_intercept=fit_intercept)
        self.lower_bound = float(weight @ np.where(weight > 0.0, loss.infimum(y), 0.0))
        self.is_smooth = isinstance(loss, SmoothLoss)
        self.is_batched = not fit_intercept  # the best intercept depends on all samples

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

    @override
    def batch(self, rows: Array) -> Risk:
        part = LinearRisk.__new__(LinearRisk)
        weight = self.weight[rows] * (self.n_samples / len(rows))
        part._set(self.design.take(rows), self.y[rows], self.loss, weight, self.fit_intercept)
        return part

    def intercept(self, w: FloatArray) -> float:
        """The b that minimizes the risk at w; 0 without ``fit_intercept``."""
        return self.mean_loss.evaluate(self.design.matvec(w)).intercept

    def plane(self, scores: FloatArray, at: Evaluation) -> Cut:
        """The plane of an evaluation at ``scores = X w``: ``<a, w> = <slopes, scores>``, so w itself is not needed."""
        if not math.isfinite(at.value):
            raise NonfiniteError(f"the value of the risk is {at.value}")
        return Cut(self.design.rmatvec(at.slopes), at.value - float(at.slopes @ scores), at.value)


class LinearLine(Line):
    """R along a line: two vectors of scores are all it takes."""

    def __init__(self, risk: LinearRisk, scores: FloatArray, rise: FloatArray) -> None:
        self.risk, self.scores, self.rise = risk, scores, rise  # X w and X direction
        self._last = 0.0, scores

    def _scores_at(self, t: float) -> FloatArray:
        """The scores at t, kept for the next question about the same t."""
        if t != self._last[0]:
            scores = t * self.rise
            scores += self.scores
            self._last = t, scores
        return self._last[1]

    @override
    def minimizer(self, slope: float, curvature: float, accuracy: float = 0.0) -> float:
        return self.risk.mean_loss.minimizer(self.scores, self.rise, slope, curvature, accuracy)

    @override
    def value(self, t: float) -> float:
        return self.risk.mean_loss.evaluate(self._scores_at(t)).value

    @override
    def cut(self, t: float) -> Cut:
        scores = self._last[1]
        if t != self._last[0]:  # not kept: the best point is elsewhere
            scores = np.multiply(self.rise, t, out=self.risk.scratch)
            scores += self.scores
        return self.risk.plane(scores, self.risk.mean_loss.evaluate(scores))

    @override
    def turn(self, t: float, direction: FloatArray) -> Line:
        return LinearLine(self.risk, self._scores_at(t), self.risk.design.matvec(direction))


def _real(y: Any) -> FloatArray:
    y = np.asarray(y)
    if y.dtype.kind not in "fiub":
        raise DataError(f"y must hold real numbers; got dtype {y.dtype}")
    return np.asarray(y, dtype=np.float64)


def _normalized(sample_weight: Any, n: int) -> FloatArray:
    if sample_weight is None:
        return np.full(n, 1.0 / n)
    weight = np.asarray(sample_weight, dtype=np.float64)
    if weight.shape != (n,):
        raise DataError(f"sample_weight must have one entry per sample, shape ({n},); got {weight.shape}")
    if not np.isfinite(weight).all() or (weight < 0.0).any():
        raise DataError(f"sample_weight must be finite and non-negative; got a minimum of {weight.min()}")
    if not weight.any():
        raise DataError("sample_weight must have a positive sum; got only zeros")
    weight = weight / weight.max()  # so that the sum cannot overflow
    return np.asarray(weight / weight.sum())
