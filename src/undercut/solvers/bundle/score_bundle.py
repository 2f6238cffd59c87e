"""Level bundle in the space of the scores, for risks ``R(w) = phi(X w)`` with fewer samples than features.

Every point that a bundle method visits is ``w = X' beta``, where the start is one more row of X.  With ``K = X X'``

    |w|^2 = beta' K beta,        X w = K beta,        <X' s, w> = <s, K beta>

so a point is the pair ``(beta, K beta)``, and a plane of slope ``X' s`` the pair ``(K s, s) / 2``: their inner product
is ``<s, K beta>``, because K is symmetric.  In these coordinates the penalty is a quadratic form like any other.  A
plane has two entries per sample instead of one per feature, and costs the same two products with X as before.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import final

import numpy as np
from typing_extensions import override

from undercut.contracts import Cut, Line, LineRisk, QuadraticRegularizer, Regularizer, Risk, Solver
from undercut.errors import CapabilityError
from undercut.regularizers import L2
from undercut.risks import ScoreRisk
from undercut.risks.scores.score_risk import ScoreLine
from undercut.solvers.bundle.bundle import Bundle
from undercut.solvers.bundle.level_bundle import LevelBundle, LevelState
from undercut.solvers.bundle.plane_rows import PlaneRows
from undercut.trace import Progress
from undercut.types import FloatArray

LONG_STEPS = LevelBundle(least=0.3, most=0.7, bound_every=4)  # fewer steps for measures where lambda is small


class PairRisk(LineRisk):
    """R as a function of pairs ``(beta, K beta)``; the last of their samples is the start, which has no loss."""

    def __init__(self, risk: ScoreRisk, start: FloatArray) -> None:
        self.risk, self.start = risk, start
        self.n_params = 2 * (risk.design.shape[0] + 1)
        self.lower_bound, self.is_convex = risk.lower_bound, risk.is_convex

    def first(self) -> FloatArray:
        """The pair of the start itself."""
        beta = np.zeros(self.n_params // 2)
        beta[-1] = 1.0
        return np.concatenate([beta, self._scores(self.start)])

    def weights(self, pair: FloatArray) -> FloatArray:
        """``w = X' beta``."""
        beta = pair[: pair.size // 2]
        w: FloatArray = self.risk.design.rmatvec(beta[:-1]) + beta[-1] * self.start
        return w

    @override
    def value(self, w: FloatArray) -> float:
        return self.risk.phi.evaluate(w[w.size // 2 : -1]).value

    @override
    def cut(self, w: FloatArray) -> Cut:
        scores = w[w.size // 2 : -1]
        at = self.risk.phi.evaluate(scores)
        plane = self.risk.plane(scores, at)
        return Cut(0.5 * np.concatenate([self._scores(plane.a), at.slopes, [0.0]]), plane.b, plane.value)

    @override
    def along(self, w: FloatArray, direction: FloatArray) -> PairLine:
        return PairLine(self, w, direction)

    def _scores(self, w: FloatArray) -> FloatArray:
        return np.append(self.risk.design.matvec(w), self.start @ w)


class PairLine(Line):
    """R along a line of pairs, which hold the scores already."""

    def __init__(self, pairs: PairRisk, w: FloatArray, direction: FloatArray) -> None:
        self.pairs, self.w, self.direction = pairs, w, direction
        half = slice(w.size // 2, -1)
        self.line = ScoreLine(pairs.risk, w[half], direction[half])

    @override
    def minimizer(self, slope: float, curvature: float, accuracy: float = 0.0) -> float:
        return self.line.minimizer(slope, curvature, accuracy)

    @override
    def value(self, t: float) -> float:
        return self.line.value(t)

    @override
    def cut(self, t: float) -> Cut:
        return self.pairs.cut(self.w + t * self.direction)

    @override
    def turn(self, t: float, direction: FloatArray) -> PairLine:
        return PairLine(self.pairs, self.w + t * self.direction, direction)


@dataclass(frozen=True)
class PairNorm(QuadraticRegularizer):
    """``lam/2 beta' K beta`` of pairs ``(beta, K beta)``: ``1/2 v' M v`` with ``M = lam/2 (0 I; I 0)``."""

    lam: float

    @property
    @override
    def strong_convexity(self) -> float:
        return self.lam

    @override
    def value(self, w: FloatArray) -> float:
        return 0.5 * float(w @ self.gradient(w))

    @override
    def gradient(self, w: FloatArray) -> FloatArray:
        return 0.5 * self.lam * _exchanged(w)

    @override
    def add_hessian(self, H: FloatArray) -> None:
        H += self.gradient(np.eye(len(H)))

    @override
    def conjugate_argmax(self, z: FloatArray) -> FloatArray:
        return (2.0 / self.lam) * _exchanged(z)

    @override
    def dual_inner(self, A: FloatArray, a: FloatArray) -> FloatArray:
        return A @ self.conjugate_argmax(a)

    @override
    def at_center(self, a: FloatArray) -> float:
        return 0.0

    @override
    def multiple_of(self, other: QuadraticRegularizer) -> float:
        return self.lam / other.lam if isinstance(other, PairNorm) else np.nan


class PairRows(PlaneRows):
    """Planes as pairs; both halves of an inner product are equal, so one is enough."""

    @override
    def products(self, w: FloatArray, top: int) -> FloatArray:
        half = w.size // 2
        products: FloatArray = self.A[:top, half:] @ (2.0 * w[half:])
        return products

    @override
    def dual_products(self, reg: QuadraticRegularizer, a: FloatArray, top: int) -> FloatArray:
        return self.products(reg.conjugate_argmax(a), top)


def _exchanged(pair: FloatArray) -> FloatArray:
    return np.roll(pair, pair.shape[-1] // 2, axis=-1)


@dataclass(frozen=True)
class ScoreState:
    inner: LevelState
    start: FloatArray
    solution: FloatArray
    progress: Progress


@final
@dataclass(frozen=True, kw_only=True)
class ScoreBundle(Solver[ScoreState, ScoreRisk, L2]):
    """``LevelBundle`` with planes of two entries per sample, for measures and rankings of wide X.

    >>> from undercut import MultivariateRisk, minimize
    >>> X, y = np.random.default_rng(0).standard_normal((30, 500)), np.repeat([1.0, -1.0], 15)
    >>> solvers = ScoreBundle(), LONG_STEPS
    >>> pairs, plain = (minimize(MultivariateRisk(X, y, "f1"), L2(1e-3), solver) for solver in solvers)
    >>> pairs.n_steps == plain.n_steps, bool(np.allclose(pairs.w, plain.w))
    (True, True)
    """

    level: LevelBundle = LONG_STEPS

    @override
    def check(self, risk: Risk, reg: Regularizer) -> None:
        if not isinstance(risk, ScoreRisk):
            raise CapabilityError(
                f"ScoreBundle needs a function of scores X w; got {type(risk).__name__}: use LevelBundle"
            )
        super().check(risk, reg)
        if not isinstance(reg, L2) or reg.center is not None or reg.weights is not None:
            raise CapabilityError(f"ScoreBundle needs L2 without `center` and `weights`; got {reg}: use LevelBundle")

    @override
    def init(self, risk: ScoreRisk, reg: L2, w0: FloatArray) -> ScoreState:
        pairs, norm = PairRisk(risk, w0), PairNorm(reg.lam)
        bundle = Bundle(norm, pairs.n_params, risk.lower_bound, PairRows(pairs.n_params))
        inner = replace(self.level.init(pairs, norm, pairs.first()), bundle=bundle)
        return ScoreState(inner, w0, w0, inner.progress)

    @override
    def step(self, risk: ScoreRisk, reg: L2, state: ScoreState) -> ScoreState:
        pairs = PairRisk(risk, state.start)
        return _moved(pairs, state, self.level.step(pairs, PairNorm(reg.lam), state.inner))

    @override
    def finish(self, risk: ScoreRisk, reg: L2, state: ScoreState) -> ScoreState:
        self.level.finish(PairRisk(risk, state.start), PairNorm(reg.lam), state.inner)
        return state

    @override
    def carry(self, risk: ScoreRisk, reg: L2, state: ScoreState) -> ScoreState:
        pairs = PairRisk(risk, state.start)
        return _moved(pairs, state, self.level.carry(pairs, PairNorm(reg.lam), state.inner))


def _moved(pairs: PairRisk, state: ScoreState, inner: LevelState) -> ScoreState:
    is_same = inner.solution is state.inner.solution
    solution = state.solution if is_same else pairs.weights(inner.solution)
    return replace(state, inner=inner, solution=solution, progress=inner.progress)
