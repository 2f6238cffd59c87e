"""The problem that an interior point method sees: a smooth function and a sum of kinks of linear functions.

    min_x  q(w) + f(s) + sum_i left_i (s_i - kinks_0i) + sum_ki caps_ki max(0, s_i - kinks_ki),      s = A x

x is w, or (w, b) with a free intercept.  The rows of A are those of X, with a constant column for b.  The losses are
kinks where they are piecewise linear, rounded kinks where they are linear and quadratic in turn (Huber), and else the
smooth f.  Absolute values and bounds of a penalty are kinks too: A then ends with the identity.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from undercut._jit import barrier
from undercut.contracts import (
    Loss,
    PiecewiseLinearLoss,
    QuadraticRegularizer,
    Regularizer,
    SmoothLoss,
    WeightedGramDesign,
)
from undercut.errors import CapabilityError
from undercut.losses import Huber, HuberHinge, Squared, SquaredHinge
from undercut.maps.csr import SparseDesign
from undercut.risks import LinearRisk
from undercut.risks.scores.fixed_mean import FixedSmooth, fixed_smooth
from undercut.risks.scores.mean_loss import FixedPiecewise
from undercut.solvers.coordinate.dual.conjugates import conjugate_of
from undercut.solvers.newton.interior.penalty_terms import ENDLESS, Kinks, PenaltyTerms, has_terms, no_kinks
from undercut.solvers.newton.interior.rows import Rows, as_array
from undercut.types import FloatArray

TINY = 1e-200  # instead of zero, where a problem is empty
FEW_SAMPLES = 2.0  # samples per parameter up to which the equations have the size of the samples
VERY_SMALL, SMALL = 100, 500  # numbers of samples up to which they always have, and may have in the last steps
MOST_ENTRIES = 10_000_000  # of a dense copy of X
SPARSE = 0.05  # share of the products of entries of a column that are not zero, up to which these alone are computed
MOST_EQUATIONS = 15_000  # dense equations beyond this take half a minute of a processor and gigabytes in every step
NEGLIGIBLE = 1e-18  # kinks below this share of the mean have a fixed slope: they change J by less than rounding


class Plane(NamedTuple):
    """A plane below the risk: its slope in w, its height at the current w, and the size of the terms of the height."""

    a: FloatArray
    height: float
    size: float


class Curve(NamedTuple):
    """The smooth losses at some scores: ``f(s)``, its slopes and its second derivatives."""

    value: float
    slopes: FloatArray
    bend: FloatArray


class KinkedProgram:
    """A ``LinearRisk`` with a piecewise-linear or smooth loss, and a penalty that is quadratic or a sum of terms.

    ``start`` is J at the start.
    """

    def __init__(self, risk: LinearRisk, reg: Regularizer, start: float) -> None:
        self.reg, self.smooth, self.first = reg, _smooth_mean(risk), start
        design = risk.design
        assert isinstance(design, WeightedGramDesign)
        self.terms = PenaltyTerms.of(reg, risk.n_params)
        self.data = loss_kinks(risk, start)
        signs = self.terms.signs if self.terms is not None else ()
        own = self.terms.kinks() if self.terms is not None else None
        left, self.packed = packed(self.data, own, risk.weight)  # places, caps, soft and shares: (4, K, N)
        self.kinks, self.share = Kinks(left, *self.packed[:3]), self.packed[3]
        self.rows = Rows(design, fit_intercept=risk.fit_intercept, signs=signs)
        if risk.fit_intercept and isinstance(risk.loss, PiecewiseLinearLoss):
            self._low = self.rows.on_samples(self.data.left)
            self._high = self.rows.on_samples(self.data.left + self.data.caps.sum(axis=0))

    @cached_property
    def squares(self) -> FloatArray:
        """The diagonal of q'' of the parameters."""
        return self.terms.l2 if self.terms is not None else self._hessian.diagonal()

    @cached_property
    def _hessian(self) -> FloatArray:
        """``q''`` of the parameters, where it may be more than its diagonal."""
        H = np.zeros((self.rows.d, self.rows.d))
        if isinstance(self.reg, QuadraticRegularizer):
            self.reg.add_hessian(H)
        return H

    def add_curvature(self, H: FloatArray) -> None:
        """Add ``q''`` to a matrix of the size of x."""
        d = self.rows.d
        if self.terms is None:
            H[:d, :d] += self._hessian
        else:
            H[np.arange(d), np.arange(d)] += self.squares

    def curved(self, x: FloatArray) -> FloatArray:
        """``q'' x``."""
        product, w = np.zeros_like(x), x[: self.rows.d]
        product[: w.size] = self._hessian @ w if self.terms is None else self.squares * w
        return product

    @cached_property
    def dense_rows(self) -> FloatArray | None:
        """X as an array, where it is small enough for equations between its samples."""
        n, d, design = self.rows.n, self.rows.d, self.rows.design
        is_small = n <= max(SMALL, FEW_SAMPLES * d) and n * d <= MOST_ENTRIES
        return as_array(design) if is_small else None

    @cached_property
    def sample_rows(self) -> FloatArray | sp.csr_array | None:
        """X for equations between its samples: sparse where products of its columns are then cheaper."""
        design = self.rows.design
        if isinstance(design, SparseDesign):
            counts = np.bincount(design.X.indices, minlength=self.rows.d).astype(np.float64)
            if float(counts @ counts) <= SPARSE * self.rows.n**2 * self.rows.d:
                return sp.csr_array(design.X, dtype=np.float64)
        return self.dense_rows

    @cached_property
    def is_dual(self) -> bool:
        """Whether equations of the size of the samples are smaller, or hardly larger, than those of the size of x."""
        is_few = self.rows.n <= max(VERY_SMALL, FEW_SAMPLES * self.rows.d)
        return is_few and self.is_stiff and self.sample_rows is not None

    @property
    def is_stiff(self) -> bool:
        """Whether every parameter has a square or a kink of its own."""
        if self.terms is None:
            return False
        own = self.rows.on_parameters(self.kinks.caps.max(axis=0)).any(axis=0)
        return bool(((self.terms.l2 > 0.0) | own).all())

    def start(self, w: FloatArray, intercept: float) -> FloatArray:
        """x at w, or near it where w is at a bound."""
        if self.terms is not None and self.terms.is_bounded:
            spread = self.rows.design.weighted_gram(np.full(self.rows.n, 1.0 / self.rows.n)).diagonal()
            w = self.terms.inside(w, 1.0 / (1.0 + np.sqrt(self.rows.d * spread)))
        return np.append(w, intercept) if self.rows.fit_intercept else w

    def mu(self, total: float) -> float:
        """The mu for which ``r u = t v = share mu`` of all kinks sum to ``total``."""
        return total / (2.0 * max(float(self.share.sum()), TINY))

    def size(self, scores: FloatArray) -> float:
        """The size of the numbers whose differences make the losses; positive."""
        caps = np.where(self.kinks.caps < ENDLESS, self.kinks.caps, 0.0)
        sizes = caps * (np.abs(scores) + np.abs(self.kinks.kinks))
        return max(float(sizes.sum()), TINY)

    def slopes(self, u: FloatArray, v: FloatArray) -> FloatArray:
        """``g = left + sum_k u_k``, those of f left out; from ``v = caps - u`` where v is the more accurate one."""
        is_high = u > v
        base = self.kinks.left + np.where(is_high, self.kinks.caps, 0.0).sum(axis=0)
        g: FloatArray = base + np.where(is_high, -v, u).sum(axis=0)
        return g

    def curve(self, scores: FloatArray) -> Curve | None:
        """f at the scores of the samples; ``None`` where there is no smooth loss."""
        if self.smooth is None:
            return None
        own = scores[: self.rows.n]
        at = self.smooth.expand(own)
        return Curve(at.value, at.slopes, at.bend)

    def smooth_value(self, scores: FloatArray) -> float:
        """f at the scores of the samples."""
        return self.smooth.evaluate(scores).value if self.smooth is not None else 0.0

    def candidate(self, w: FloatArray, u: FloatArray, v: FloatArray, share: float) -> FloatArray:
        """w within its bounds, and exactly zero where the slopes u, v of its kink at zero are both large.

        ``share`` is the relative size of w that counts as zero where the slopes are equal.
        """
        if self.terms is None or not self.rows.signs:
            return w
        slack = np.minimum(u[0], v[0])[self.rows.n : self.rows.n + self.rows.d]
        zero = np.abs(w) * self.terms.l1 <= share * float(np.abs(w).max(initial=0.0)) * slack
        return self.terms.clipped(np.where(zero & (slack > 0.0), 0.0, w))

    def plane(self, scores: FloatArray, g: FloatArray, a: FloatArray, inside: FloatArray) -> Plane:
        """The plane of slopes g; a is their ``A' g`` of the samples.

        With a free intercept the slopes are made to sum to zero.
        """
        value, below, along_u, along_v = barrier.heights(
            self.kinks.left, by_kink(self.packed), scores, by_kink(inside), self.rows.n
        )
        size = abs(value) + below + float(np.abs(g[: self.rows.n]) @ np.abs(scores[: self.rows.n]))
        if not self.rows.fit_intercept:
            return Plane(a, value - below, size)
        total = a[-1]
        if total > 0.0:  # u -> (1 - share) u
            share = total / (total - self._low[-1])
            return Plane((a + share * (self._low - a))[:-1], float(value - below - share * along_u), size)
        share = total / (total - self._high[-1]) if total < 0.0 else 0.0  # v -> (1 - share) v
        return Plane((a + share * (self._high - a))[:-1], float(value - below + share * along_v), size)

    def balanced(self, g: FloatArray) -> FloatArray:
        """The slopes of the samples in the plane above: with a free intercept they sum to zero."""
        own, left = g[: self.rows.n], self.data.left
        total = float(own.sum())
        if not self.rows.fit_intercept or total == 0.0:
            return own
        limit = left if total > 0.0 else left + self.data.caps.sum(axis=0)
        return np.asarray(own + total / (total - float(limit.sum())) * (limit - own))

    def gradient(self, x: FloatArray) -> FloatArray:
        """Of q."""
        slope = np.zeros_like(x)
        w = x[: self.rows.d]
        if self.terms is not None:
            slope[: w.size] = self.terms.l2 * (w - self.terms.center)
        elif isinstance(self.reg, QuadraticRegularizer):
            slope[: w.size] = self.reg.gradient(w)
        return slope


def by_kink(array: FloatArray) -> FloatArray:
    """An array (.., K, N) with a column per kink, as compiled functions see it (``_jit/barrier.py``)."""
    return array.reshape(array.shape[0], -1)


def check_penalty(solver: str, risk: LinearRisk, reg: Regularizer) -> None:
    """Raise ``CapabilityError`` unless a program can hold the penalty."""
    is_smooth = isinstance(risk.loss, SmoothLoss)
    if isinstance(reg, QuadraticRegularizer):
        if is_smooth:
            raise CapabilityError(f"{solver} needs a kink in the loss or in the penalty: use Newton as the solver")
        return
    if not has_terms(reg):
        raise CapabilityError(
            f"{solver} needs a penalty that is quadratic or a sum of absolute values, squares and bounds, and "
            f"{type(reg).__name__} is neither: use L2, L1, ElasticNet or Boxed, or LevelBundle as the solver"
        )


def check_size(solver: str, risk: LinearRisk, reg: Regularizer) -> None:
    """Raise ``CapabilityError`` where the equations of a step are too many for a dense matrix."""
    n, d = risk.design.shape
    if d <= MOST_EQUATIONS:
        return
    size = n if n < d and KinkedProgram(risk, reg, 1.0).is_dual else d
    if size > MOST_EQUATIONS:
        raise CapabilityError(
            f"{solver} solves {size} linear equations in every step, for X of {n} x {d}, and is for at most "
            f"{MOST_EQUATIONS}: use 'auto' as the solver, or LineSearchBundle (LevelBundle for L1 and bounds)"
        )


def _smooth_mean(risk: LinearRisk) -> FixedSmooth | None:
    if not isinstance(risk.loss, SmoothLoss) or is_rounded(risk.loss):
        return None
    return fixed_smooth(risk.loss, risk.y, risk.weight)


def is_rounded(loss: Loss) -> bool:
    """Whether a smooth loss is made of lines and parabolas."""
    return type(loss) in (SquaredHinge, HuberHinge, Huber, Squared)


def loss_kinks(risk: LinearRisk, start: float) -> Kinks:
    """The kinks of the losses; none of them where the loss is smooth."""
    loss, weight = risk.loss, risk.weight
    if is_rounded(loss):
        return _rounded(risk, start)
    if not isinstance(risk.phi, FixedPiecewise):
        return no_kinks(weight.size)
    pieces = risk.phi.pieces
    caps = pieces.jumps[:, None] * weight
    caps[caps <= NEGLIGIBLE * caps.sum() / caps.size] = 0.0
    return Kinks(pieces.left * weight, np.ascontiguousarray(pieces.kinks), caps, np.zeros(caps.shape))


def _rounded(risk: LinearRisk, start: float) -> Kinks:
    """A rounded kink per sample, from the conjugate ``-target u + ridge/2 u^2`` of its loss on ``low <= u <= high``.

    Where u has no bound, none is met that exceeds the slope of a loss as large as J at the start.
    """
    weight = risk.weight
    known = conjugate_of(risk.loss, risk.y)
    with np.errstate(divide="ignore"):
        steepest = 2.0 * np.sqrt(2.0 * max(start - risk.lower_bound, TINY) / (weight * known.ridge))
        soft = np.where(weight > 0.0, known.ridge / weight, 0.0)
    low, high = np.maximum(known.low, -steepest), np.minimum(known.high, steepest)
    places = known.target - known.ridge * high
    left, caps = np.where(weight > 0.0, [-high * weight, (high - low) * weight], 0.0)
    return Kinks(left, places[None, :], caps[None, :], soft[None, :])


def packed(data: Kinks, penalty: Kinks | None, weight: FloatArray) -> tuple[FloatArray, FloatArray]:
    """``left`` of the kinks of the samples, then of the penalty, and (4, K, N): the rest, and shares in the gap.

    A kink may contribute its cap to the gap, or that of a usual sample if the kink is one of the penalty: the largest
    cap, or the largest weight where samples have no kinks.
    """
    count, n = data.caps.shape
    more, size = (0, 0) if penalty is None else penalty.caps.shape
    both = np.zeros((4, max(count, more), n + size))
    both[0, :count, :n] = data.kinks
    both[1, :count, :n] = both[3, :count, :n] = data.caps
    both[2, :count, :n] = data.soft
    if penalty is None:
        return data.left, both
    both[0, :more, n:] = penalty.kinks
    both[1, :more, n:] = penalty.caps
    both[3, :more, n:] = (penalty.caps > 0.0) * (data.caps.max(initial=0.0) or weight.max())
    return np.concatenate((data.left, penalty.left)), both
