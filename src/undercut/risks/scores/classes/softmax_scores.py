"""The weighted mean softmax loss as a function of the n x K scores S, with or without free intercepts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotri
from scipy.special import xlogy
from typing_extensions import override

from undercut._jit.multiclass import softmax_ahead, softmax_products, softmax_shifted, softmax_through
from undercut.contracts import MulticlassLoss
from undercut.errors import DataError
from undercut.risks.scores.classes.class_scores import ClassScores, FreeScores, Settled, class_sums
from undercut.risks.scores.joint import Joint, Step, newton_in_both
from undercut.risks.scores.smooth_mean import Ahead
from undercut.scalar import Point, minimize_convex
from undercut.types import Array, FloatArray

BALANCED = 1e-14  # a class is balanced if its slopes sum to zero up to this share of the absolute sum of all
MAX_STEPS = 100
KEPT = 0.1  # imbalance that a Newton step with earlier second derivatives may leave if they are to be kept
SHORT = 1.0  # shift of the intercepts up to which probabilities are multiplied instead of computed from scores
LONGEST = 600.0  # shift whose exponential is finite, as are its products with probabilities
TINY = 1e-300  # least probability: its logarithm is finite
SINGULAR = 1e-4  # least diagonal entry of an accurate Cholesky factor of a matrix of size 1


@dataclass(frozen=True)
class Curvature:
    """Second derivatives of the mean softmax loss, from its slopes."""

    slopes: FloatArray  # n x K, weights included
    weight: FloatArray
    y: Array

    @property
    def P(self) -> FloatArray:
        """Probabilities, n x K."""
        P = self.slopes / np.where(self.weight > 0.0, self.weight, 1.0)[:, None]
        P[np.arange(self.y.size), self.y] += 1.0
        return P

    @cached_property
    def C(self) -> FloatArray:
        """In the intercepts: ``sum_i weight_i (diag(p_i) - p_i p_i')``, without the cancellation of p - p^2."""
        C = np.zeros((self.slopes.shape[1], self.slopes.shape[1]))
        softmax_products(self.slopes, self.weight, self.y, C)
        C = -(C + C.T)
        np.fill_diagonal(C, -C.sum(axis=1))
        return C

    def traces(self) -> FloatArray:
        """``weight_i sum_k p_ik (1 - p_ik)`` of every sample."""
        squares = np.einsum("ik,ik->i", self.slopes, self.slopes)
        squares /= np.maximum(self.weight, 1e-300)
        own = self.slopes[np.arange(self.y.size), self.y]
        return np.asarray(np.maximum(-2.0 * own - squares, 0.0))

    def through(self, D: FloatArray, shift: FloatArray | None = None) -> FloatArray:
        """``weight_i (diag(p_i) - p_i p_i') (d_i + shift)`` for every row of D."""
        out = np.empty_like(self.slopes)
        shift = np.zeros(out.shape[1]) if shift is None else shift
        softmax_through(self.slopes, self.weight, self.y, D, shift, out)
        return out

    def of(self, rows: Array, weight: FloatArray) -> Curvature:
        """That of some samples with other weights."""
        y, P = self.y[rows], self.slopes[rows]
        P *= (weight / np.maximum(self.weight[rows], 1e-300))[:, None]
        return Curvature(P, weight, y)


class Kept:
    """A line of scores that keeps the mean loss at its start and at the latest other point, where they are known."""

    def __init__(self, phi: SoftmaxScores, scores: FloatArray, rise: FloatArray, start: Settled | None = None) -> None:
        self.phi, self.scores, self.rise, self.start = phi, scores, rise, start
        self._latest: tuple[float, FloatArray, Settled | None] = 0.0, scores, start

    def scores_at(self, t: float) -> FloatArray:
        """The scores at t."""
        if t == 0.0 or t == self._latest[0]:
            return self.scores if t == 0.0 else self._latest[1]
        scores = t * self.rise
        scores += self.scores
        self._latest = t, scores, None
        return scores

    def known(self, t: float) -> Settled | None:
        """The mean loss at t, where it is kept."""
        return self.start if t == 0.0 else self._latest[2] if t == self._latest[0] else None

    def at(self, t: float) -> Settled:
        """The mean loss at t, at the best intercepts."""
        at = self.known(t)
        if at is None:
            at = self.phi.settle(self.phi.rows(self.scores_at(t)))
            self.keep(t, at)
        return at

    def keep(self, t: float, at: Settled) -> None:
        """Keep what was found elsewhere."""
        if t == 0.0:
            self.start = at
        else:
            self._latest = t, self.scores_at(t), at


class SoftmaxScores(ClassScores):
    """Softmax without intercepts, with its second derivatives."""

    _latest: Curvature | None = None

    def ahead(self, scores: FloatArray, rise: FloatArray) -> Ahead | None:
        """Slopes near those that a linear model at ``scores`` predicts for ``scores + rise``.

        Those of each class sum to zero with free intercepts; ``None`` where rounding prevents that.
        """
        none = np.zeros(self.n_classes)
        return self._ahead(self.rows(scores), self.rows(rise), none, none)

    def settle_from(self, at: Settled, S: FloatArray) -> Settled:
        """``settle(S)``, starting from the mean loss at any intercepts."""
        return at

    def nearest(self, slopes: FloatArray) -> FloatArray | None:
        """Slopes of distributions near these; those of each class sum to zero with free intercepts."""
        return self.clipped(slopes)

    def clipped(self, slopes: FloatArray) -> FloatArray:
        """Slopes of distributions near these."""
        P = np.maximum(self._probabilities(slopes), 0.0)
        P /= P.sum(axis=1, keepdims=True)
        P[np.arange(self.y.size), self.y] -= 1.0
        P *= self.weight[:, None]
        return P

    def _ahead(self, S: FloatArray, D: FloatArray, b: FloatArray, shift: FloatArray) -> Ahead:
        values, slopes = np.empty(self.y.size), np.empty_like(S)
        softmax_ahead(S, D, b, shift, self.y, values, slopes)
        slopes *= self.weight[:, None]
        conjugate = float(self.weight @ values)
        return Ahead(slopes, conjugate, abs(conjugate))

    def curvature(self, at: Settled) -> Curvature:
        """The second derivatives at the point of the slopes, kept for Hessian, search and intercepts in turn."""
        if self._latest is None or self._latest.slopes is not at.slopes:
            self._latest = Curvature(at.slopes, self.weight, self.y)
        return self._latest

    def _probabilities(self, slopes: FloatArray) -> FloatArray:
        return Curvature(slopes, self.weight, self.y).P

    def search(self, line: Kept, slope: float, curvature: float, accuracy: float) -> float:
        """What ``minimizer`` returns for a line."""
        D = self.rows(line.rise)

        def point(t: float) -> Point:
            with np.errstate(over="ignore", invalid="ignore"):
                at = line.at(t)
                return Point(at.value, float(np.vdot(at.slopes, D)), self._bend(at, D))

        return minimize_convex(point, slope, curvature, accuracy=accuracy)

    def _bend(self, at: Settled, D: FloatArray) -> float:
        """The second derivative along D."""
        return float(np.vdot(self.curvature(at).through(D), D))


class FreeSoftmax(FreeScores, SoftmaxScores):
    """Softmax with free intercepts: Newton steps in b, and in t and b together along a line.

    If a Newton step does not decrease the loss even when shortened, a step of iterative proportional fitting does:
    ``b_k += log(weight of class k / sum_i weight_i p_ik)``.
    """

    def __init__(self, loss: MulticlassLoss, y: Array, weight: FloatArray, n_classes: int) -> None:
        super().__init__(loss, y, weight, n_classes)
        absent = np.flatnonzero(self._share == 0.0)
        if absent.size:
            raise DataError(
                f"with free intercepts every class needs a sample with positive weight, and class {absent[0]} has "
                "none: drop it, or use fit_intercept=False"
            )
        self._hint = self.first_b

    @property
    def first_b(self) -> FloatArray:
        """The best intercepts where all scores are the same."""
        return _centered(np.log(self._share))

    @override
    def ahead(self, scores: FloatArray, rise: FloatArray) -> Ahead | None:
        S, D = self.rows(scores), self.rows(rise)
        start = self.settle(S)
        second = self.curvature(start)
        follow = pseudo_inverse(second.C) @ class_sums(second.through(D))
        slopes = self._balanced(self._ahead(S, D, start.b, -follow).slopes)
        if slopes is None:
            return None
        P = np.maximum(self._probabilities(slopes), 0.0)
        conjugate = float(self.weight @ xlogy(P, P).sum(axis=1))
        return Ahead(slopes, conjugate, abs(conjugate))

    @override
    def nearest(self, slopes: FloatArray) -> FloatArray | None:
        return self._balanced(self.clipped(slopes))

    def _balanced(self, slopes: FloatArray) -> FloatArray | None:
        """The nearest slopes that sum to zero for each class."""
        P = np.maximum(self._probabilities(slopes), TINY)
        P[np.arange(self.y.size), self.y] -= 1.0
        P *= self.weight[:, None]
        at = self._descend(Settled(1.0, P, np.zeros(self.n_classes)), None)
        return at.slopes if self._is_balanced(at) else None

    @override
    def _settle(self, S: FloatArray) -> Settled:
        return self.settle_from(self._at(S, self._hint), S)

    @override
    def settle_from(self, at: Settled, S: FloatArray, inverse: FloatArray | None = None) -> Settled:
        at = self._descend(at, S, inverse)
        if not self._is_balanced(at):  # a bad start: try the prices of the transportation problem
            other = self._descend(self._at(S, self._transport(S, np.zeros(self.n_classes))[0]), S)
            at = other if _improves(other, at) else at
        self._hint = at.b
        return at

    def _descend(self, at: Settled, S: FloatArray | None, inverse: FloatArray | None = None) -> Settled:
        """The best intercepts from those of ``at``; S are the scores there without intercepts, if they are known.

        ``inverse`` is that of the second derivatives near ``at``.
        """
        for _ in range(MAX_STEPS):
            if self._is_balanced(at):
                break
            is_new = inverse is None
            if inverse is None:
                inverse = pseudo_inverse(self.curvature(at).C)
            better = self._improved(at, S, inverse)
            if better is None and is_new:  # at the limit of rounding
                break
            if better is None or better.imbalance > KEPT * at.imbalance:
                inverse = None
            at = better or at
        return at

    def _improved(self, at: Settled, S: FloatArray | None, inverse: FloatArray) -> Settled | None:
        """A point with a smaller loss, or with slopes that are better balanced."""
        newton = inverse @ at.totals
        fitting = np.log(np.maximum(1.0 + at.totals / self._share, 1e-300))
        trials = (self._shifted(at, -step, S) for step in (newton, 0.1 * newton, fitting))
        return next((trial for trial in trials if _improves(trial, at)), None)

    def _shifted(self, at: Settled, step: FloatArray, S: FloatArray | None) -> Settled:
        """The mean loss at other intercepts; a short step needs no exponentials of scores."""
        b = _centered(at.b + step)
        if S is not None and float(np.ptp(step)) > SHORT:
            return self._at(S, b)
        rises = np.expm1(np.clip(step[None, :] - step[:, None], -LONGEST, LONGEST))
        slopes = np.empty_like(at.slopes)
        change = softmax_shifted(at.slopes, self.weight, self.y, rises, slopes)
        return Settled(at.value + change, slopes, b)

    @override
    def minimizer(
        self, scores: FloatArray, direction: FloatArray, slope: float, curvature: float, accuracy: float = 0.0
    ) -> float:
        return self.search(Kept(self, scores, direction), slope, curvature, accuracy)

    @override
    def search(self, line: Kept, slope: float, curvature: float, accuracy: float) -> float:
        D, trials = self.rows(line.rise), dict[float, Settled]()

        def joint(t: float, b: FloatArray) -> Joint:
            moved = self.rows(line.scores_at(t))
            at = line.known(t)
            if at is None or not np.array_equal(at.b, b):
                at = self._at(moved, b) if np.isfinite(moved).all() else Settled(math.inf, moved, b)
            trials[t] = at
            step = partial(self._newton, at, D, slope + curvature * t, curvature)
            return Joint(t, b, at.value + slope * t + 0.5 * curvature * t * t, step)

        found = newton_in_both(joint, self._hint, accuracy)
        if found is None:
            return super().minimizer(line.scores, line.rise, slope, curvature, accuracy)
        line.keep(found.t, self.settle_from(trials[found.t], self.rows(line.scores_at(found.t))))
        return found.t

    def _newton(self, at: Settled, D: FloatArray, slope: float, curvature: float) -> Step:
        """The step in t and b to the minimum of the quadratic model of ``F(t, b)``."""
        second = self.curvature(at)
        through, inverse = second.through(D), pseudo_inverse(second.C)
        mixed = class_sums(through)
        own = float(np.vdot(at.slopes, D)) + slope
        reduced = own - float(mixed @ inverse @ at.totals)
        bend = float(np.vdot(through, D)) - float(mixed @ inverse @ mixed) + curvature
        dt = -reduced / bend if bend > 0.0 else math.nan
        db = -(inverse @ (at.totals + dt * mixed))
        return Step(reduced, dt, db, -0.5 * (own * dt + float(at.totals @ db)))

    def _is_balanced(self, at: Settled) -> bool:
        """Whether the slopes of every class sum to zero."""
        own = float(at.slopes[np.arange(self.y.size), self.y].sum())
        return bool(at.imbalance <= BALANCED * -2.0 * own)  # rows sum to zero, and only the own class is negative

    @override
    def _bend(self, at: Settled, D: FloatArray) -> float:
        second = self.curvature(at)
        through = second.through(D)
        mixed = class_sums(through)
        return float(np.vdot(through, D)) - float(mixed @ pseudo_inverse(second.C) @ mixed)


def _centered(b: FloatArray) -> FloatArray:
    """b with mean zero; a common shift does not change the loss."""
    return np.asarray(b - b.mean())


def _improves(trial: Settled, at: Settled) -> bool:
    """Whether the loss is smaller, or, within rounding, the slopes are better balanced."""
    if abs(trial.value - at.value) > 1e-13 * at.value:
        return trial.value < at.value
    return trial.imbalance < 0.9 * at.imbalance


def pseudo_inverse(C: FloatArray) -> FloatArray:
    """Of a positive semidefinite matrix whose rows sum to zero.

    With the projection J on the constants it is ``(C + J)^-1 - J``, unless it is zero for other vectors too.

    >>> pseudo_inverse(np.array([[1.0, -1.0], [-1.0, 1.0]]))
    array([[ 0.25, -0.25],
           [-0.25,  0.25]])
    """
    n = C.shape[0]
    size = float(np.trace(C)) / n
    if not 1e-290 < size < math.inf:  # its inverse would overflow
        return np.zeros_like(C)
    factor, failed = dpotrf(C / size + 1.0 / n, lower=1)
    if failed or float(np.abs(factor.diagonal()).min()) < SINGULAR:
        return np.asarray(np.linalg.pinv(C / size, hermitian=True) / size)
    lower = dpotri(factor, lower=1)[0]
    return np.asarray((np.tril(lower) + np.tril(lower, -1).T - 1.0 / n) / size)
