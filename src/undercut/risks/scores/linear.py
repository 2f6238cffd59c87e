"""The risk of a linear model: the weighted mean of a pointwise loss of ``X w``, or of ``X w + b`` at the best b.

``LinearRisk(X, y, loss)`` is a ``SmoothRisk``, a ``CurvedRisk``, a ``BatchedRisk`` or a ``MajorizedRisk`` where the
loss, the intercept and X allow it:

    SmoothRisk      a convex ``SmoothLoss``, and a design with ``weighted_gram``
    CurvedRisk      a convex ``SmoothLoss``, and a design with ``gram_product``
    BatchedRisk     no free intercept (the best one depends on all samples), and a design with ``take``
    MajorizedRisk   a convex loss, or a ``KinkedLoss``
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from typing_extensions import override

from undercut.contracts import (
    BatchedRisk,
    CurvedRisk,
    Cut,
    Design,
    Evaluation,
    GramProductDesign,
    HessianOperator,
    Line,
    Loss,
    MajorizedRisk,
    Risk,
    RowDesign,
    SmoothRisk,
    WeightedGramDesign,
)
from undercut.kinds import Kinded
from undercut.maps.design import as_design
from undercut.risks.checks import normalized_weights, real_targets
from undercut.risks.scores.hessians import CenteredHessian, LinearHessian
from undercut.risks.scores.kinked import FixedKinked
from undercut.risks.scores.mean_loss import mean_loss
from undercut.risks.scores.score_risk import ScoreLine, ScoreRisk
from undercut.risks.scores.smooth_mean import Expansion, SmoothMean
from undercut.types import Array, FloatArray


class LinearRisk(Kinded, ScoreRisk):
    """``R(w) = sum_i weight_i l(y_i, <w, x_i>)``, the weights scaled to sum to one.

    With ``fit_intercept`` it is ``min_b sum_i weight_i l(y_i, <w, x_i> + b)``: the intercept is not penalized, is found
    exactly, and is returned by ``intercept(w)``.  X is a dense array, a SciPy sparse matrix or any ``Design``.

    >>> from undercut import Hinge, Logistic
    >>> risk = LinearRisk(np.eye(2), np.array([1.0, -1.0]), Hinge())
    >>> risk.cut(np.zeros(2))
    Cut(a=array([-0.5,  0.5]), b=1.0, value=1.0)
    >>> isinstance(risk, SmoothRisk), isinstance(LinearRisk(np.eye(2), risk.y, Logistic()), SmoothRisk)
    (False, True)
    """

    def __init__(self, X: Any, y: Any, loss: Loss, sample_weight: Any = None, fit_intercept: bool = False) -> None:
        design = as_design(X)
        y = real_targets(y, design.shape)
        loss.check_target(y)
        self._set(design, y, loss, normalized_weights(sample_weight, y.size), fit_intercept)

    def _set(self, design: Design, y: FloatArray, loss: Loss, weight: FloatArray, fit_intercept: bool) -> None:
        self.y, self.loss, self.weight, self.fit_intercept = y, loss, weight, fit_intercept
        least = loss.infimum(y)
        with np.errstate(invalid="ignore"):
            lower_bound = float(weight @ least)
        if math.isnan(lower_bound):  # a sample without weight has an infinite infimum
            lower_bound = float(weight @ np.where(weight > 0.0, least, 0.0))
        phi = mean_loss(loss, y, weight, fit_intercept=fit_intercept)
        super().__init__(design, phi, lower_bound=lower_bound, is_convex=loss.is_convex)
        self.n_samples = design.shape[0]
        self.take_kinds(*self._kinds())

    def like(self, design: Design, loss: Loss, *, fit_intercept: bool) -> LinearRisk:
        """The same targets and weights with another design and loss, neither of which is checked."""
        other = LinearRisk.__new__(LinearRisk)
        other._set(design, self.y, loss, self.weight, fit_intercept)
        return other

    def part(self, rows: Array) -> LinearRisk:
        """Some of the samples, their weights scaled so that parts of equal size have the whole as their mean."""
        assert isinstance(self.design, RowDesign)
        part = LinearRisk.__new__(LinearRisk)
        weight = self.weight[rows] * (self.n_samples / len(rows))
        part._set(self.design.take(rows), self.y[rows], self.loss, weight, self.fit_intercept)
        return part

    @override
    def along(self, w: FloatArray, direction: FloatArray) -> Line:
        kind = SmoothLine if isinstance(self.phi, SmoothMean) else ScoreLine
        return kind(self, self.scores(w), self.scores(direction))

    def _kinds(self) -> list[type]:
        kinds: list[type] = []
        is_smooth = self.is_convex and isinstance(self.phi, SmoothMean)
        if is_smooth and isinstance(self.design, WeightedGramDesign):
            kinds.append(SmoothLinearRisk)
        if is_smooth and isinstance(self.design, GramProductDesign):
            kinds.append(CurvedLinearRisk)
        if not self.fit_intercept and isinstance(self.design, RowDesign):
            kinds.append(BatchedLinearRisk)
        if isinstance(self.phi, FixedKinked):
            kinds.append(KinkedLinearRisk)
        elif self.is_convex:
            kinds.append(ConvexLinearRisk)
        return kinds


class SmoothLine(ScoreLine):
    """R along a line; search, plane, Hessian and bound ask for the same derivatives, which are kept at two points."""

    risk: LinearRisk

    def __init__(self, risk: LinearRisk, scores: FloatArray, rise: FloatArray, start: Expansion | None = None) -> None:
        super().__init__(risk, scores, rise)
        self.start = start
        self._latest: tuple[float, Expansion | None] = 0.0, start

    def expansion(self, t: float) -> Expansion:
        """Value, slopes and second derivatives at t; kept at t = 0 and at the latest t."""
        at = self.start if t == 0.0 else self._latest[1] if t == self._latest[0] else None
        if at is None:
            assert isinstance(self.risk.phi, SmoothMean)
            at = self.risk.phi.expand(self.scores_at(t))
            self.start = at if t == 0.0 else self.start
            self._latest = t, at
        return at

    @override
    def minimizer(self, slope: float, curvature: float, accuracy: float = 0.0) -> float:
        assert isinstance(self.risk.phi, SmoothMean)
        return self.risk.phi.search(self, slope, curvature, accuracy)

    @override
    def value(self, t: float) -> float:
        return self.expansion(t).value

    @override
    def cut(self, t: float) -> Cut:
        at = self.expansion(t)
        return self.risk.plane(self.scores_at(t), Evaluation(at.value, at.slopes, at.intercept))

    @override
    def turn(self, t: float, direction: FloatArray) -> SmoothLine:
        start = self._latest[1] if t == self._latest[0] else self.start if t == 0.0 else None
        return type(self)(self.risk, self.scores_at(t), self.risk.design.matvec(direction), start)


class SmoothLinearRisk(LinearRisk, SmoothRisk):
    """A linear risk with a Hessian."""

    design: WeightedGramDesign
    phi: SmoothMean

    @override
    def hessian(self, w: FloatArray) -> FloatArray:
        """``X' (D - d d' / sum d) X`` with the curvatures D = diag(d); the second term only with a free intercept."""
        return self.bent(self.phi.bend(self.design.matvec(w)))

    def bent(self, bend: FloatArray) -> FloatArray:
        """The Hessian of weighted second derivatives of the losses."""
        hessian = self.design.weighted_gram(bend)
        total = float(bend.sum())
        if self.fit_intercept and total > 0.0:
            mixed = self.design.rmatvec(bend)
            hessian -= np.outer(mixed, mixed) / total
        return hessian


class CurvedLinearRisk(LinearRisk, CurvedRisk):
    """A linear risk with products with its Hessian."""

    design: GramProductDesign
    phi: SmoothMean

    @override
    def curvature(self, w: FloatArray) -> HessianOperator:
        return self.operator(self.phi.bend(self.design.matvec(w)))

    def operator(self, bend: FloatArray) -> HessianOperator:
        """The Hessian of weighted second derivatives of the losses."""
        if self.fit_intercept and float(bend.sum()) > 0.0:
            return CenteredHessian(self.design, bend)
        return LinearHessian(self.design, bend)


class BatchedLinearRisk(LinearRisk, BatchedRisk):
    """A linear risk that is a mean over samples."""

    design: RowDesign

    @override
    def batch(self, rows: Array) -> Risk:
        return self.part(rows)


class ConvexLinearRisk(LinearRisk, MajorizedRisk):
    """A convex linear risk is its own majorizer."""

    @override
    def majorizer(self, w: FloatArray) -> ScoreRisk:
        return self


class KinkedLinearRisk(LinearRisk, MajorizedRisk):
    """A linear risk whose loss has concave kinks; the majorizer replaces them by tangents."""

    phi: FixedKinked

    @override
    def majorizer(self, w: FloatArray) -> ScoreRisk:
        return ScoreRisk(self.design, self.phi.majorized(self.design.matvec(w)), lower_bound=self.lower_bound)
