"""Primal and dual of the support vector machine in the space of a kernel, ``x = y alpha``:

    J(x)  =  lam/2 x' K x + min_b sum_i weight_i max(0, 1 - y_i ((K x)_i + b))
    D(x)  =  lam (sum_i y_i x_i - 1/2 x' K x),      0 <= y_i x_i <= cap_i = weight_i / lam,      sum_i x_i = 0

``D(x) <= min J`` for every feasible x; without an intercept the sum is free.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from undercut.contracts import Regularizer, Risk
from undercut.errors import CapabilityError, DataError
from undercut.regularizers.kernel_norm import KernelNorm
from undercut.risks.kernel.gram_risk import GramRisk
from undercut.solvers.bounds import ROUNDING
from undercut.types import FloatArray

MAX_SHIFTS = 20
INDEFINITE = 1e-6  # how negative x' K x may be, relative to its terms, before rounding is no excuse


@dataclass(frozen=True)
class KernelDual:
    """One problem, seen from both sides; all vectors are in main memory."""

    risk: GramRisk
    lam: float

    @property
    def cap(self) -> FloatArray:
        """What alpha is bounded by: C times the weight of a sample in other notations."""
        return self.risk.weight / self.lam

    def objective(self, x: FloatArray, scores: FloatArray) -> float:
        """``J(x)`` at the best intercept, given ``K x``."""
        return 0.5 * self.lam * float(x @ scores) + self.risk.at_scores(scores).value

    def bound(self, x: FloatArray, scores: FloatArray) -> float:
        """``D(t x)`` at the best t in [0, 1], less what rounding may have added, given ``K x`` for a feasible x."""
        linear, square = float(self.risk.y @ x), float(x @ scores)
        size = float(np.abs(x) @ np.abs(scores))
        if square < -INDEFINITE * size:
            raise DataError(
                f"the Gram matrix must be positive semidefinite; x' K x is {square:.6g} for some x, the problem is not "
                "convex and has no certificate: use another kernel, or add to its diagonal"
            )
        t = min(1.0, max(linear, 0.0) / square) if square > 0.0 else 1.0
        slack = ROUNDING * (linear + size)
        return self.lam * (t * linear - 0.5 * t * t * square - slack)

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
            f"{solver} needs the hinge risk of a Gram matrix, and {type(risk).__name__} is another: make it a GramRisk"
        )
    if not isinstance(reg, KernelNorm) or reg.gram is not risk.gram:
        raise CapabilityError(
            f"{solver} needs the norm of the risk's own kernel, and {type(reg).__name__} is not that: "
            "use KernelNorm(lam, risk.gram)"
        )
