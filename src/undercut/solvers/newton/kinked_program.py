"""The problem that an interior point method sees: a smooth quadratic and a sum of kinks of linear functions.

    min_x  q(w) + sum_i left_i (s_i - kinks_0i) + sum_ki caps_ki max(0, s_i - kinks_ki),      s = A x

x is w, or (w, b) with a free intercept.  The rows of A are those of X, with a constant column for b.  The terms
``l1_j |w_j|`` of a penalty are kinks too: A then ends with the identity.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from typing_extensions import override

from undercut._jit import barrier
from undercut.contracts import Pieces, PiecewiseLinearLoss, QuadraticRegularizer, Regularizer, WeightedGramDesign
from undercut.errors import CapabilityError
from undercut.regularizers import SeparableRegularizer
from undercut.risks import LinearRisk
from undercut.types import FloatArray

TINY = 1e-200  # instead of zero, where a problem is empty
NEGLIGIBLE = 1e-18  # kinks below this share of the mean have a fixed slope: they change J by less than rounding


class Kinks(NamedTuple):
    """The kinks of all rows of A; see the formula above.  ``caps`` is zero where a row has no kink."""

    left: FloatArray  # (N,)
    kinks: FloatArray  # (K, N)
    caps: FloatArray  # (K, N)


class Plane(NamedTuple):
    """A plane below the risk: its slope in w, its height at the current w, and the size of the terms of the height."""

    a: FloatArray
    height: float
    size: float


class Rows:
    """``A``: the rows of X, with a constant column if the intercept is free."""

    def __init__(self, design: WeightedGramDesign, *, fit_intercept: bool) -> None:
        self.design, self.fit_intercept = design, fit_intercept
        self.n, self.d = design.shape

    def matvec(self, x: FloatArray) -> FloatArray:
        """``A x``."""
        scores = self.design.matvec(x[: self.d])
        if self.fit_intercept:
            scores += x[-1]
        return scores

    def on_samples(self, g: FloatArray) -> FloatArray:
        """``A' g`` of the rows of samples."""
        a = self.design.rmatvec(g[: self.n])
        return np.append(a, g[: self.n].sum()) if self.fit_intercept else a

    def with_identity(self, a: FloatArray, g: FloatArray) -> FloatArray:
        """``A' g``, where a is that of the samples."""
        return a

    def rmatvec(self, g: FloatArray) -> FloatArray:
        """``A' g``."""
        return self.with_identity(self.on_samples(g), g)

    def weighted_gram(self, g: FloatArray) -> FloatArray:
        """``A' diag(g) A``."""
        own = g[: self.n]
        gram = self.design.weighted_gram(own)
        if not self.fit_intercept:
            return gram
        mixed = self.design.rmatvec(own)[:, None]
        return np.block([[gram, mixed], [mixed.T, np.array([[own.sum()]])]])


class RowsAndIdentity(Rows):
    """``A`` with a row for every parameter after the samples."""

    @override
    def matvec(self, x: FloatArray) -> FloatArray:
        return np.concatenate([super().matvec(x), x[: self.d]])

    @override
    def with_identity(self, a: FloatArray, g: FloatArray) -> FloatArray:
        a = a.copy()
        a[: self.d] += g[self.n :]
        return a

    @override
    def weighted_gram(self, g: FloatArray) -> FloatArray:
        gram = super().weighted_gram(g)
        gram[np.arange(self.d), np.arange(self.d)] += g[self.n :]
        return gram


class KinkedProgram:
    """A ``LinearRisk`` with a piecewise-linear loss, and a penalty that is quadratic or separable without bounds."""

    def __init__(self, risk: LinearRisk, reg: Regularizer) -> None:
        self.reg = reg
        loss, design = risk.loss, risk.design
        assert isinstance(loss, PiecewiseLinearLoss)
        assert isinstance(design, WeightedGramDesign)
        self.data = _weighted(loss.pieces(risk.y), risk.weight)
        absolute = _absolute_values(reg, risk.n_params)
        self.kinks = self.data if absolute is None else _stacked(self.data, absolute)
        kind = Rows if absolute is None else RowsAndIdentity
        self.rows = kind(design, fit_intercept=risk.fit_intercept)
        self.curvature = _curvature(reg, risk.n_params, risk.n_params + risk.fit_intercept)
        self.most = float(self.data.caps.max(initial=0.0)) or 1.0
        if risk.fit_intercept:
            self._low = self.rows.on_samples(self.data.left)
            self._high = self.rows.on_samples(self.data.left + self.data.caps.sum(axis=0))

    def start(self, w: FloatArray, intercept: float) -> FloatArray:
        """x at w."""
        return np.append(w, intercept) if self.rows.fit_intercept else w

    def mu(self, total: float) -> float:
        """The mu for which ``r u = t v = min(cap, most) mu`` of all kinks sum to ``total``."""
        return total / (2.0 * max(float(np.minimum(self.kinks.caps, self.most).sum()), TINY))

    def size(self, scores: FloatArray) -> float:
        """The size of the numbers whose differences make the losses; positive."""
        sizes = self.kinks.caps * (np.abs(scores) + np.abs(self.kinks.kinks))
        return max(float(sizes.sum()), TINY)

    def slopes(self, u: FloatArray) -> FloatArray:
        """``g = left + sum_k u_k``."""
        g: FloatArray = self.kinks.left + u.sum(axis=0)
        return g

    def plane(self, scores: FloatArray, g: FloatArray, a: FloatArray, u: FloatArray, v: FloatArray) -> Plane:
        """The plane of slopes g; a is their ``A' g`` of the samples.

        With a free intercept the slopes are made to sum to zero.
        """
        value, below, along_u, along_v = barrier.heights(*self.kinks, scores, u, v, self.rows.n)
        size = abs(value) + below + float(np.abs(g[: self.rows.n]) @ np.abs(scores[: self.rows.n]))
        if not self.rows.fit_intercept:
            return Plane(a, value - below, size)
        total = a[-1]
        if total > 0.0:  # u -> (1 - share) u
            share = total / (total - self._low[-1])
            return Plane((a + share * (self._low - a))[:-1], value - below - share * along_u, size)
        share = total / (total - self._high[-1]) if total < 0.0 else 0.0  # v -> (1 - share) v
        return Plane((a + share * (self._high - a))[:-1], value - below + share * along_v, size)

    def gradient(self, x: FloatArray) -> FloatArray:
        """Of q."""
        slope = np.zeros_like(x)
        w = x[: self.rows.d]
        if isinstance(self.reg, SeparableRegularizer):
            slope[: w.size] = self.reg.terms.l2 * (w - self.reg.terms.center)
        elif isinstance(self.reg, QuadraticRegularizer):
            slope[: w.size] = self.reg.gradient(w)
        return slope


def check_penalty(solver: str, reg: Regularizer) -> None:
    """Raise ``CapabilityError`` unless a program can hold the penalty."""
    if not isinstance(reg, QuadraticRegularizer) and not _is_unbounded(reg):
        raise CapabilityError(
            f"{solver} needs a penalty that is quadratic or a sum of absolute values and squares, and "
            f"{type(reg).__name__} is neither: use L2, L1 or ElasticNet, or LevelBundle as the solver"
        )


def _is_unbounded(reg: Regularizer) -> bool:
    """Whether the penalty is separable and finite everywhere."""
    if not isinstance(reg, SeparableRegularizer):
        return False
    return not (np.isfinite(reg.terms.lower).any() or np.isfinite(reg.terms.upper).any())


def _curvature(reg: Regularizer, n_params: int, size: int) -> FloatArray:
    """``q''`` as a matrix of the size of x."""
    H = np.zeros((size, size))
    if isinstance(reg, SeparableRegularizer):
        H[np.arange(n_params), np.arange(n_params)] = reg.terms.l2
    elif isinstance(reg, QuadraticRegularizer):
        reg.add_hessian(H[:n_params, :n_params])
    return H


def _weighted(pieces: Pieces, weight: FloatArray) -> Kinks:
    caps = pieces.jumps[:, None] * weight
    caps[caps <= NEGLIGIBLE * caps.mean()] = 0.0
    return Kinks(pieces.left * weight, np.ascontiguousarray(pieces.kinks), caps)


def _absolute_values(reg: Regularizer, n_params: int) -> FloatArray | None:
    """The coefficients l1 of a penalty, ``None`` where it has none."""
    if not isinstance(reg, SeparableRegularizer) or not np.any(reg.terms.l1):
        return None
    return np.broadcast_to(np.asarray(reg.terms.l1, dtype=np.float64), (n_params,))


def _stacked(data: Kinks, absolute: FloatArray) -> Kinks:
    """The kinks of the samples, then ``l1 |w| = -l1 w + 2 l1 max(0, w)`` of every parameter."""
    others = np.zeros((data.caps.shape[0], absolute.size))
    first = others.copy()
    first[0] = 2.0 * absolute
    return Kinks(np.append(data.left, -absolute), np.hstack([data.kinks, others]), np.hstack([data.caps, first]))
