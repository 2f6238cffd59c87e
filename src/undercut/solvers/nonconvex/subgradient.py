"""The subgradient method: the simplest baseline, for any risk, without a bound.

    w_{t+1} = w_t - eta_t g_t,        eta_t = step_size / (1 + step_size m t),        m the strong convexity of reg

The steps start at ``step_size`` and approach ``1 / (m t)``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from typing_extensions import override

from undercut.contracts import QuadraticRegularizer, Risk, Solver
from undercut.errors import require
from undercut.trace import Certificate, Progress, Status
from undercut.types import FloatArray


@dataclass(frozen=True)
class SubgradientState:
    w: FloatArray
    solution: FloatArray
    progress: Progress


@final
@dataclass(frozen=True, kw_only=True)
class Subgradient(Solver[SubgradientState, Risk, QuadraticRegularizer]):
    """``n_steps`` subgradient steps; the best point is kept.

    >>> import numpy as np
    >>> from undercut import FunctionRisk, L2, minimize
    >>> risk = FunctionRisk(lambda w: (abs(w - 1.0).sum(), np.sign(w - 1.0)), n_params=2)
    >>> result = minimize(risk, L2(0.1), Subgradient(n_steps=2000))
    >>> result.status.name, result.certificate, result.w.round(1)
    ('MAX_STEPS', 'none', array([1., 1.]))
    """

    needs_convex = False
    may_stall = False

    step_size: float = 1.0
    n_steps: int = 1000

    def __post_init__(self) -> None:
        require(self.step_size > 0.0, "`step_size` must be positive", self.step_size)
        require(self.n_steps >= 1, "`n_steps` must be at least 1", self.n_steps)

    @override
    def certificate(self, risk: Risk) -> Certificate:
        return "none"

    @override
    def init(self, risk: Risk, reg: QuadraticRegularizer, w0: FloatArray) -> SubgradientState:
        return SubgradientState(w0, w0, Progress())

    @override
    def step(self, risk: Risk, reg: QuadraticRegularizer, state: SubgradientState) -> SubgradientState:
        last, cut = state.progress, risk.cut(state.w)
        objective, solution = last.objective, state.solution
        if (candidate := reg.value(state.w) + cut.value) < objective:
            objective, solution = candidate, state.w
        eta = self.step_size / (1.0 + self.step_size * reg.strong_convexity * last.step)
        w = state.w - eta * (cut.a + reg.gradient(state.w))
        progress = Progress(last.step + 1, objective, n_evaluations=last.n_evaluations + 1)
        return SubgradientState(w, solution, progress)

    @override
    def ended(self, state: SubgradientState) -> Status | None:
        return Status.MAX_STEPS if state.progress.step >= self.n_steps else None
