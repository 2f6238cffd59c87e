"""Proximal Newton steps in one compiled call: small dense tables, smooth losses, L1 and the elastic net.

Each step minimizes the quadratic model of the risk plus the penalty by its Gram matrix (Lee, Sun, Saunders 2014).  The
slopes u at the end prove ``-sum_i weight_i l_i*(u_i / weight_i) - reg*(-X' u)``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np
from typing_extensions import override

from undercut._jit import proximal_newton as kernels
from undercut.accuracy import wanted_gap
from undercut.contracts import Regularizer, Risk, Solver
from undercut.errors import CapabilityError, NonfiniteError
from undercut.maps.dense import DenseDesign
from undercut.regularizers import L1, ElasticNet
from undercut.risks import LinearRisk
from undercut.risks.scores.mean_loss import FreeSmooth
from undercut.solvers.bounds import balanced, least, tighter
from undercut.solvers.coordinate.dual.conjugates import smooth_conjugate
from undercut.solvers.coordinate.working.columns import column_norms
from undercut.solvers.coordinate.working.pointwise_problem import PointwiseProblem
from undercut.trace import Progress, Status
from undercut.types import FloatArray

MOST_WORK = 20_000_000  # entries of X times features: a Gram matrix takes some ten milliseconds
SHARE = 0.6  # of the gap asked for, at which the slopes are expected to end the run
FINER = 1e-3  # of that after a step that did not
LEAST = 1e-13  # relative gap that rounding allows to expect
MAX_NEWTON = 50  # in a step
BALANCED = 1e-8  # share of the slopes that their sum may be: where it is more, a search finds the best intercept
STUCK = 0.5  # share of the gap: where more is left after a second attempt, rounding or a singular model is in the way


@dataclass(frozen=True)
class ProximalNewtonState:
    solution: FloatArray
    progress: Progress
    intercept: float
    norms: FloatArray  # of the columns of X, weighted
    share: float = SHARE
    is_stuck: bool = False


@final
@dataclass(frozen=True)
class ProximalNewton(Solver[ProximalNewtonState, LinearRisk, Regularizer]):
    """Small dense problems with a smooth loss and L1 or the elastic net, mostly in one step.

    >>> from undercut import L1, Squared, minimize
    >>> risk = LinearRisk(np.eye(3), np.array([3.0, -0.5, 1.5]), Squared())
    >>> result = minimize(risk, L1(1 / 3), ProximalNewton())
    >>> result.w.round(6), result.n_steps
    (array([2. , 0. , 0.5]), 1)
    """

    @override
    def check(self, risk: Risk, reg: Regularizer) -> None:
        if not isinstance(reg, L1 | ElasticNet) or reg.terms.l1 <= 0.0:
            raise CapabilityError(
                f"ProximalNewton needs L1 or ElasticNet with a positive l1_ratio; got {reg}: use LevelBundle or L2"
            )
        if not isinstance(risk, LinearRisk) or smooth_conjugate(risk.loss) is None:
            raise CapabilityError(
                f"ProximalNewton needs a LinearRisk with a smooth loss of this library, and this "
                f"{type(risk).__name__} is not one: use WorkingSet or LevelBundle"
            )
        if not isinstance(risk.design, DenseDesign):
            raise CapabilityError(
                f"ProximalNewton needs X as an array; got {type(risk.design).__name__}: use WorkingSet"
            )
        n, d = risk.design.shape
        if n * d * d > MOST_WORK:
            raise CapabilityError(f"ProximalNewton is for small problems; got {n} x {d}: use WorkingSet")
        super().check(risk, reg)

    @override
    def init(self, risk: LinearRisk, reg: Regularizer, w0: FloatArray) -> ProximalNewtonState:
        norms = column_norms(risk.design, risk.weight)
        w = np.where(norms > 0.0, w0, 0.0)
        at = risk.phi.evaluate(risk.scores(w))
        objective = reg.value(w) + at.value
        if not math.isfinite(objective):
            raise NonfiniteError(f"the value of the risk is {objective}")
        progress = Progress(0, objective, min(least(risk, reg), objective), n_evaluations=1)
        return ProximalNewtonState(w, progress, at.intercept, norms)

    @override
    def step(self, risk: LinearRisk, reg: Regularizer, state: ProximalNewtonState) -> ProximalNewtonState:
        last, problem = state.progress, PointwiseProblem(risk, reg, state.norms)

        # 1. Newton steps, until the slopes at their end are expected to prove enough.
        w, slopes = state.solution.copy(), np.empty(risk.n_samples)
        accuracy = max(state.share * wanted_gap(last) / max(abs(last.objective), 1e-300), LEAST)
        value, intercept = kernels.minimize(
            *problem.compiled_loss, problem.smoothness, *_arrays(risk), risk.fit_intercept, problem.penalty, accuracy,
            MAX_NEWTON, w, state.intercept, slopes,
        )  # fmt: skip
        if isinstance(risk.phi, FreeSmooth):
            risk.phi.search_from(intercept)
            if abs(float(slopes.sum())) > BALANCED * float(np.abs(slopes).sum()):
                at = risk.phi.evaluate(risk.scores(w))
                value, slopes, intercept = at.value, at.slopes, at.intercept

        # 2. What they prove.
        slopes = balanced(slopes) if risk.fit_intercept else slopes
        found = problem.penalty.value(w) + value
        is_better = found <= last.objective  # false for NaN too
        objective = found if is_better else last.objective
        bound = problem.bound(slopes, risk.design.rmatvec(slopes), state.norms > 0.0, objective)
        lower_bound = tighter(last.lower_bound, bound.value, objective)
        progress = Progress(last.step + 1, objective, lower_bound, last.n_evaluations + 1)
        is_stuck = last.step > 0 and progress.gap > STUCK * last.gap
        moved = replace(state, progress=progress, share=FINER * state.share, is_stuck=is_stuck)
        return replace(moved, solution=w, intercept=intercept) if is_better else moved

    @override
    def ended(self, state: ProximalNewtonState) -> Status | None:
        return Status.STALLED if state.is_stuck else None


def _arrays(risk: LinearRisk) -> tuple[FloatArray, FloatArray]:
    """X' and the targets with their weights, as compiled code sees them."""
    design: Any = risk.design
    return np.array(design.X.T, dtype=np.float64, order="C"), np.array([risk.y, risk.weight])
