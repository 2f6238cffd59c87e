"""The risk of a linear model with one score per class."""

from __future__ import annotations

from typing import Any

import numpy as np
from typing_extensions import override

from undercut.contracts import (
    CurvedRisk,
    Cut,
    Design,
    Evaluation,
    GramProductDesign,
    HessianOperator,
    Line,
    MulticlassLoss,
    RowDesign,
    SmoothRisk,
    WeightedGramDesign,
)
from undercut.errors import CapabilityError, DataError
from undercut.kinds import Kinded
from undercut.losses import CrammerSinger, Softmax
from undercut.maps.design import PerClass, as_design
from undercut.risks.checks import normalized_weights
from undercut.risks.scores.classes.class_scores import ClassScores, FreeCrammerSinger, Settled
from undercut.risks.scores.classes.softmax_scores import FreeSoftmax, Kept, SoftmaxScores
from undercut.risks.scores.hessians import FreeSoftmaxHessian, SoftmaxHessian, class_hessian
from undercut.risks.scores.score_risk import ScoreLine, ScoreRisk
from undercut.types import Array, FloatArray


class MulticlassRisk(Kinded, ScoreRisk):
    """``R(W) = sum_i weight_i l(y_i, W x_i)``, the weights scaled to sum to one.

    y holds classes 0 ... K-1, and w is the matrix W, one row per class, written row by row: ``w.reshape(K, -1)``.
    With ``fit_intercept`` it is ``min_b sum_i weight_i l(y_i, W x_i + b)`` with one intercept per class; they are not
    penalized, are found exactly, and are returned by ``intercepts(w)``.  The loss is ``CrammerSinger`` or
    ``Softmax``; with the latter it is a ``SmoothRisk`` and a ``CurvedRisk``.

    >>> from undercut import L2, minimize
    >>> from undercut.losses import Softmax
    >>> X, y = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]]), np.array([0, 1, 2])
    >>> result = minimize(MulticlassRisk(X, y, Softmax()), L2(0.1))
    >>> result.w.reshape(3, 2).round(2)
    array([[ 1.14, -0.32],
           [-0.32,  1.14],
           [-0.82, -0.82]])
    """

    def __init__(
        self,
        X: Any,
        y: Any,
        loss: MulticlassLoss,
        sample_weight: Any = None,
        fit_intercept: bool = False,
        n_classes: int | None = None,
    ) -> None:
        features = as_design(X)
        n = features.shape[0]
        y = _classes(y, n)
        self.n_classes = _checked_count(y, n_classes)
        loss.check_classes(self.n_classes)
        self._set(features, y, loss, normalized_weights(sample_weight, n), fit_intercept)

    def _set(self, features: Design, y: Array, loss: MulticlassLoss, weight: FloatArray, fit_intercept: bool) -> None:
        self.y, self.loss, self.weight, self.fit_intercept = y, loss, weight, fit_intercept
        self.features, self.n_samples = features, features.shape[0]
        self.design: PerClass
        self.phi: ClassScores
        phi = class_scores(loss, y, weight, self.n_classes, fit_intercept=fit_intercept)
        super().__init__(PerClass(features, self.n_classes), phi, lower_bound=0.0)
        if isinstance(phi, SoftmaxScores):
            self.take_kinds(*(kind for need, kind in SMOOTH_KINDS if isinstance(features, need)))

    def part(self, rows: Array) -> MulticlassRisk:
        """Some of the samples, their weights scaled to sum to one."""
        assert isinstance(self.features, RowDesign)
        part = MulticlassRisk.__new__(MulticlassRisk)
        part.n_classes = self.n_classes
        weight = self.weight[rows]
        part._set(self.features.take(rows), self.y[rows], self.loss, weight / weight.sum(), self.fit_intercept)
        return part

    def with_features(self, features: Design) -> MulticlassRisk:
        """The same samples with other features."""
        other = MulticlassRisk.__new__(MulticlassRisk)
        other.n_classes = self.n_classes
        other._set(features, self.y, self.loss, self.weight, self.fit_intercept)
        return other

    @override
    def along(self, w: FloatArray, direction: FloatArray) -> Line:
        kind = SoftmaxLine if isinstance(self.phi, SoftmaxScores) else ScoreLine
        return kind(self, self.scores(w), self.scores(direction))

    def intercepts(self, w: FloatArray) -> FloatArray:
        """The intercepts that belong to w, one per class; zeros where the risk has none."""
        return self.phi.intercepts(self.design.matvec(w))


class SoftmaxLine(ScoreLine):
    """R along a line; search, plane and Hessian ask for the same slopes, which are kept at two points."""

    def __init__(self, risk: ScoreRisk, scores: FloatArray, rise: FloatArray, start: Settled | None = None) -> None:
        super().__init__(risk, scores, rise)
        assert isinstance(risk.phi, SoftmaxScores)
        self.kept = Kept(risk.phi, scores, rise, start)

    @override
    def scores_at(self, t: float) -> FloatArray:
        return self.kept.scores_at(t)

    @override
    def minimizer(self, slope: float, curvature: float, accuracy: float = 0.0) -> float:
        return self.kept.phi.search(self.kept, slope, curvature, accuracy)

    @override
    def value(self, t: float) -> float:
        return self.kept.at(t).value

    @override
    def cut(self, t: float) -> Cut:
        at = self.kept.at(t)
        return self.risk.plane(self.scores_at(t), Evaluation(at.value, at.slopes.reshape(-1)))

    @override
    def turn(self, t: float, direction: FloatArray) -> SoftmaxLine:
        known = self.kept.known(t)
        return SoftmaxLine(self.risk, self.scores_at(t), self.risk.design.matvec(direction), known)


class SmoothMulticlassRisk(MulticlassRisk, SmoothRisk):
    """A multiclass risk with a Hessian."""

    features: WeightedGramDesign
    phi: SoftmaxScores

    @override
    def hessian(self, w: FloatArray) -> FloatArray:
        return self.bent(self.phi.settle(self.phi.rows(self.design.matvec(w))))

    def bent(self, at: Settled) -> FloatArray:
        """The Hessian where the mean loss is known."""
        return class_hessian(self.features, self.phi.curvature(at), centered=self.fit_intercept)


class CurvedMulticlassRisk(MulticlassRisk, CurvedRisk):
    """A multiclass risk with products with its Hessian."""

    features: GramProductDesign
    phi: SoftmaxScores

    @override
    def curvature(self, w: FloatArray) -> HessianOperator:
        return self.operator(self.phi.settle(self.phi.rows(self.design.matvec(w))))

    def operator(self, at: Settled) -> HessianOperator:
        """The second derivatives where the mean loss is known."""
        kind = FreeSoftmaxHessian if self.fit_intercept else SoftmaxHessian
        return kind(self.design, self.features, self.phi.curvature(at))


SMOOTH_KINDS = ((WeightedGramDesign, SmoothMulticlassRisk), (GramProductDesign, CurvedMulticlassRisk))


def _classes(y: Any, n: int) -> Array:
    y = np.asarray(y)
    if n == 0 or y.shape != (n,):
        raise DataError(f"y must have one class per row of X, and at least one; got shapes {y.shape} and {n} rows")
    if y.dtype.kind not in "fiub" or (y != np.floor(y)).any() or (y < 0).any():
        raise DataError(f"y must hold classes 0, 1, ..., K-1; got {y[:5]} ... of dtype {y.dtype}")
    return np.asarray(y, dtype=np.int64)


def _checked_count(y: Array, n_classes: int | None) -> int:
    found = int(y.max()) + 1
    if n_classes is None:
        n_classes = found
    if n_classes < max(found, 2):
        raise DataError(f"`n_classes` must be at least 2 and exceed every class in y; got {n_classes} and {found - 1}")
    return n_classes


def class_scores(
    loss: MulticlassLoss, y: Array, weight: FloatArray, n_classes: int, *, fit_intercept: bool
) -> ClassScores:
    """The phi of a loss; its type depends on the loss."""
    if isinstance(loss, Softmax):
        return (FreeSoftmax if fit_intercept else SoftmaxScores)(loss, y, weight, n_classes)
    if not fit_intercept:
        return ClassScores(loss, y, weight, n_classes)
    if isinstance(loss, CrammerSinger):
        return FreeCrammerSinger(loss, y, weight, n_classes)
    raise CapabilityError(
        f"exact intercepts are known for Softmax and CrammerSinger, and {type(loss).__name__} is neither: "
        "use fit_intercept=False and append a constant feature to X"
    )
