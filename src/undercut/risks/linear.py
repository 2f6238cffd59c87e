"""The risk of a linear model: the weighted mean of a pointwise loss of ``X w``, or of ``X w + b`` at the best b."""

from __future__ import annotations

from typing import Any

import numpy as np
from typing_extensions import override

from undercut.arrays import Array, FloatArray
from undercut.data.design import Design, as_design
from undercut.errors import DataError
from undercut.losses import Loss, SmoothLoss
from undercut.risks.base import BatchedRisk, Risk, SmoothRisk
from undercut.risks.score_risk import ScoreRisk
from undercut.risks.scores import MeanLoss, mean_loss


class LinearRisk(ScoreRisk, SmoothRisk, BatchedRisk):
    """``R(w) = sum_i weight_i l(y_i, <w, x_i>)``, the weights scaled to sum to one.

    With ``fit_intercept`` it is ``min_b sum_i weight_i l(y_i, <w, x_i> + b)``: the intercept is not penalized, is found
    exactly, and is read off with ``intercept(w)``.

    >>> from undercut import Hinge
    >>> risk = LinearRisk(np.eye(2), np.array([1.0, -1.0]), Hinge())
    >>> risk.cut(np.zeros(2))
    Cut(a=array([-0.5,  0.5]), b=1.0, value=1.0)
    """

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
        self.y, self.loss, self.weight, self.fit_intercept = y, loss, weight, fit_intercept
        self.phi: MeanLoss
        lower_bound = float(weight @ np.where(weight > 0.0, loss.infimum(y), 0.0))
        super().__init__(design, mean_loss(loss, y, weight, fit_intercept=fit_intercept), lower_bound=lower_bound)
        self.n_samples = design.shape[0]
        self.is_smooth = isinstance(loss, SmoothLoss)
        self.is_batched = not fit_intercept  # the best intercept depends on all samples

    @override
    def hessian(self, w: FloatArray) -> FloatArray:
        """``X' (D - d d' / sum d) X`` with the curvatures D = diag(d); the second term only with a free intercept."""
        bend = self.phi.bend(self.design.matvec(w))
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
