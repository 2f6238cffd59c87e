"""Primal and dual of the support vector machine in the space of a kernel, ``x = y alpha``:

    J(x)  =  lam/2 x' K x + min_b sum_i weight_i max(0, 1 - y_i ((K x)_i + b))
    D(x)  =  lam (sum_i y_i x_i - 1/2 x' K x),      0 <= y_i x_i <= cap_i = weight_i / lam,      sum_i x_i = 0

``D(x) <= min J`` for every feasible x; without an intercept the sum is free.

Where K is stored in float32, ``K x`` is known up to an error in every entry.  J and D are then reported with the effect
of that error added to the gap, so that both hold for K in double precision.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

import numpy as np

from undercut.contracts import Regularizer, Risk
from undercut.errors import CapabilityError
from undercut.maps.gram import not_definite
from undercut.regularizers.kernel_norm import KernelNorm
from undercut.risks.kernel.gram_risk import GramRisk
from undercut.solvers.bounds import ROUNDING, tighter
from undercut.solvers.schedule import has_gained
from undercut.trace import Progress
from undercut.types import FloatArray

MAX_SHIFTS = 20
ROUNDED_SHARE = 0.5  # of the gap: where the rounding of K makes up more, K is evaluated in double precision
INDEFINITE = 1e-6  # how negative x' K x may be, relative to its terms, before K is called indefinite


class Point(NamedTuple):
    """Coefficients x and their scores ``K x``, each of which may be off by ``error``."""

    x: FloatArray
    scores: FloatArray
    error: float = 0.0


@dataclass(frozen=True, kw_only=True)
class KernelState:
    """What the state of every solver of this problem carries."""

    solution: FloatArray
    progress: Progress
    slack: float = 0.0  # what the rounding of K may have added to the objective
    certified: int = 0  # the last step with a certificate
    gained: int = 0  # the last step that reduced the gap


S = TypeVar("S", bound=KernelState)


@dataclass(frozen=True)
class KernelDual:
    """The primal and the dual problem; all vectors are in main memory."""

    risk: GramRisk
    lam: float

    @property
    def cap(self) -> FloatArray:
        """What alpha is bounded by: C times the weight of a sample in other notations."""
        return self.risk.weight / self.lam

    def objective(self, x: FloatArray, scores: FloatArray, error: float = 0.0) -> float:
        """``J(x)`` at the best intercept or more, given ``K x`` up to an error in every entry."""
        value = 0.5 * self.lam * float(x @ scores) + self.risk.at_scores(scores).value
        return value + self.slack(x, error)

    def bound(self, x: FloatArray, scores: FloatArray, error: float = 0.0) -> float:
        """``D(t x)`` at the best t in [0, 1] or less, given ``K x`` up to an error in every entry for a feasible x."""
        linear, square = float(self.risk.y @ x), float(x @ scores)
        size = float(np.abs(x) @ np.abs(scores))
        if square < -INDEFINITE * size - error * float(np.abs(x).sum()):
            raise not_definite(f"x' K x is {square:.6g} for some x")
        t = min(1.0, max(linear, 0.0) / square) if square > 0.0 else 1.0
        rounding = ROUNDING * (linear + size)
        return self.lam * (t * linear - 0.5 * t * t * square - rounding) - self.slack(x, error)

    def slack(self, x: FloatArray, error: float) -> float:
        """What an error in every entry of ``K x`` may change J and D by, at most."""
        return error * (1.0 + 0.5 * self.lam * float(np.abs(x).sum()))

    def is_rounded(self, state: KernelState, point: Point) -> bool:
        """Whether rounding makes up so much of the gap that the point should be evaluated in double precision."""
        return 2.0 * self.slack(point.x, point.error) > ROUNDED_SHARE * state.progress.gap

    def proved(self, state: S, *points: Point) -> S:
        """The state with the best of some points, and with the bound of the last one, which must be feasible."""
        last, objective, best = state.progress, state.progress.objective, state
        for point in points:
            if (candidate := self.objective(*point)) < objective:
                objective = candidate
                best = replace(best, solution=point.x, slack=self.slack(point.x, point.error))
        lower_bound = tighter(last.lower_bound, self.bound(*points[-1]), objective)
        progress = replace(last, objective=objective, lower_bound=lower_bound)
        gained = last.step if has_gained(progress, last) else state.gained
        return replace(best, progress=progress, certified=last.step, gained=gained)

    def finished(self, state: S) -> S:
        """The state with its objective in double precision; rounding had only been added to it."""
        if state.slack == 0.0:
            return state
        objective = self.objective(state.solution, self.risk.scores(state.solution))
        lower_bound = min(state.progress.lower_bound, objective)
        return replace(state, slack=0.0, progress=replace(state.progress, objective=objective, lower_bound=lower_bound))

    def feasible(self, x: FloatArray) -> FloatArray:
        """x clipped to its box and balanced: first by the variables between their bounds, which costs D least."""
        y, cap = self.risk.y, self.cap
        alpha = np.clip(y * x, 0.0, cap)
        if not self.risk.fit_intercept:
            return y * alpha
        for _ in range(MAX_SHIFTS):
            excess = float(y @ alpha)
            room = np.where(cap > 0.0, alpha * (cap - alpha), 0.0)
            total = float(room.sum())
            if excess == 0.0 or total == 0.0:
                break
            alpha = np.clip(alpha - y * room * (excess / total), 0.0, cap)
        return _scaled(y, alpha)


def _scaled(y: FloatArray, alpha: FloatArray) -> FloatArray:
    """``y alpha`` with the heavier class scaled down to the weight of the other."""
    positive, negative = float(alpha[y > 0.0].sum()), float(alpha[y < 0.0].sum())
    least, most = min(positive, negative), max(positive, negative)
    if most > least:
        heavier = y > 0.0 if positive > negative else y < 0.0
        alpha = np.where(heavier, alpha * (least / most), alpha)
    return y * alpha


def check_kernel_problem(solver: str, risk: Risk, reg: Regularizer) -> None:
    """Raise ``CapabilityError`` unless the problem is given by a Gram matrix."""
    if not isinstance(risk, GramRisk):
        raise CapabilityError(
            f"{solver} needs the hinge risk of a Gram matrix; got {type(risk).__name__}: make it a GramRisk"
        )
    if not isinstance(reg, KernelNorm) or reg.gram is not risk.gram:
        raise CapabilityError(
            f"{solver} needs the norm of the risk's own kernel, and {type(reg).__name__} is not that: "
            "use KernelNorm(lam, risk.gram)"
        )
