"""Proximal bundle method (Do, Le, Foo 2009, Alg. 4): cutting planes that stay near, for small lambda.

Where lambda is small the minimizer of the model is far from where the model is any good.  A proximal term keeps the
next point near a center, and is no part of the problem:

    w_{t+1} = argmin_w  reg(w) + R_t(w) + tau/2 (w - center)' M (w - center)         (M the metric of reg)

The planes are ordinary planes of R, so the ordinary master problem over them, which costs no evaluation, proves the
same kind of bound as in ``CuttingPlane``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal, final

import numpy as np
from typing_extensions import override

from undercut.contracts import Cut, QuadraticRegularizer, Risk
from undercut.errors import require
from undercut.solvers.bounds import tighter
from undercut.solvers.bundle.bundle import Bundle
from undercut.solvers.bundle.common import BundleSolver, best_of, check_bundle_settings, master_tolerance
from undercut.trace import Progress
from undercut.types import FloatArray

SERIOUS = 0.1  # share of the predicted decrease that moves the center
GOOD = 0.5  # lengthen the step if at least this share was reached
PREDICTION_ACCURACY = 1e-3
MAX_TAU = 1e12


@dataclass(frozen=True)
class Pull:
    """The proximal term."""

    center: FloatArray
    tau: float  # in units of the metric M: what multiplies it


@dataclass(frozen=True)
class Averaged(Pull):
    """As printed: every w_i pulls with its own tau_i, and all together like their weighted mean (eq. 10)."""

    R: float
    round: int = 0
    tau_sum: float = 0.0  # absolute, as in the paper

    def after(self, w: FloatArray, cut: Cut, lam: float) -> Averaged:
        """The sums after round t; they start anew with a larger R when w has left the ball of radius R (Sec. 3.4)."""
        if float(np.linalg.norm(w)) >= self.R:
            return Averaged(w, 0.0, self.R * math.sqrt(2.0)).after_inside(w, cut, lam)
        return self.after_inside(w, cut, lam)

    def after_inside(self, w: FloatArray, cut: Cut, lam: float) -> Averaged:
        t = self.round + 1
        before = lam * t + self.tau_sum
        reach = lam + float(np.linalg.norm(cut.a)) / self.R  # (lambda R + A_t) / R
        tau = 0.5 * (math.sqrt(before**2 + reach**2) - before)
        total = self.tau_sum + tau
        center = self.center + (tau / total) * (w - self.center) if total > 0.0 else w
        return Averaged(center, total / (t * lam), self.R, t, total)


@dataclass(frozen=True)
class Descent(Pull):
    """The best point pulls, and tau follows how well the model predicts (Kiwiel's serious and null steps)."""

    def after(self, w: FloatArray, objective: float, last: float, predicted: float) -> Descent:
        decrease = last - objective
        if decrease >= SERIOUS * predicted:
            return Descent(w, 0.5 * self.tau if decrease >= GOOD * predicted else self.tau)
        return replace(self, tau=min(2.0 * self.tau, MAX_TAU) if decrease <= -predicted else self.tau)


@dataclass(frozen=True)
class ProximalState:
    w: FloatArray  # where the next plane is taken
    predicted: float  # decrease of J there, by the model
    pull: Averaged | Descent | None  # None before the first plane
    solution: FloatArray
    bundle: Bundle
    progress: Progress


@final
@dataclass(frozen=True, kw_only=True)
class ProximalBundle(BundleSolver[ProximalState, Risk, QuadraticRegularizer]):
    """Cutting planes with a proximal term.

    ``variant="printed"`` is Algorithm 4 with the optimistic R: the center is the mean of all iterates, and the sums of
    tau only grow until R does, so it starts fast and ends slowly.  ``variant="descent"`` keeps the planes, the proximal
    term and the bound, but centers on the best point and lets tau follow the model's predictions; it starts with the
    tau at which the first plane alone predicts half the objective.

    >>> import numpy as np
    >>> from undercut import FunctionRisk, L2, minimize
    >>> risk = FunctionRisk(lambda w: (abs(w - 1.0).sum(), np.sign(w - 1.0)), n_params=3, lower_bound=0.0)
    >>> result = minimize(risk, L2(1e-6), ProximalBundle())
    >>> result.status.name, result.certificate
    ('CONVERGED', 'global')
    """

    variant: Literal["descent", "printed"] = "descent"
    max_idle: int = 50  # drop a plane whose dual weight has been zero this long
    master_accuracy: float = 0.1  # solve each master problem to this fraction of the gap

    def __post_init__(self) -> None:
        check_bundle_settings(None, self.max_idle, self.master_accuracy)
        require(self.variant in ("descent", "printed"), "`variant` is 'descent' or 'printed'", self.variant)

    @override
    def init(self, risk: Risk, reg: QuadraticRegularizer, w0: FloatArray) -> ProximalState:
        return ProximalState(w0, 0.0, None, w0, Bundle(reg, risk.n_params, risk.lower_bound), Progress())

    @override
    def step(self, risk: Risk, reg: QuadraticRegularizer, state: ProximalState) -> ProximalState:
        last, bundle = state.progress, state.bundle

        # 1. The plane at w_t, and the best value so far.
        cut = risk.cut(state.w)
        bundle.add(cut)
        solution, objective = best_of(state, state.w, cut, risk, reg)

        # 2. What the planes prove, by the ordinary master problem.
        tol = master_tolerance(self.master_accuracy, objective, last.lower_bound)
        model = bundle.minimize(tol)
        lower_bound = tighter(last.lower_bound, model.lower_bound, objective, model.size)

        # 3. The next point, near the center.
        pull = self._pull(state, reg, cut, reg.value(state.w) + cut.value)
        #    The prediction is as accurate as this solution: solve it to a small share of the last prediction.
        tol = max(PREDICTION_ACCURACY * state.predicted, 1e-10 * abs(objective))
        near = bundle.minimize_near(pull.center, pull.tau, tol)
        bundle.drop_idle(self.max_idle)
        progress = Progress(last.step + 1, objective, lower_bound, last.n_evaluations + 1, len(bundle))
        return ProximalState(near.w, objective - near.value, pull, solution, bundle, progress)

    @override
    def carry(self, risk: Risk, reg: QuadraticRegularizer, state: ProximalState) -> ProximalState:
        if not isinstance(state.pull, Descent):
            return self.init(risk, reg, state.solution)
        bundle, best, penalty = state.bundle, state.solution, state.bundle.reg.value(state.solution)
        objective = state.progress.objective - penalty + reg.value(best)
        bundle.regularize(reg)
        bound = min(bundle.proved().lower_bound, objective)
        near = bundle.minimize_near(best, state.pull.tau, PREDICTION_ACCURACY * (objective - bound))
        progress = Progress(0, objective, bound, n_cuts=len(bundle))
        return ProximalState(near.w, objective - near.value, replace(state.pull, center=best), best, bundle, progress)

    def _pull(self, state: ProximalState, reg: QuadraticRegularizer, cut: Cut, candidate: float) -> Averaged | Descent:
        """The proximal term after the plane ``cut`` at ``state.w``, where J is ``candidate``."""
        last = state.pull
        if isinstance(last, Descent):
            return last.after(state.w, candidate, state.progress.objective, state.predicted)
        if isinstance(last, Averaged):
            return last.after(state.w, cut, reg.strong_convexity)
        if self.variant == "printed":
            return Averaged(state.w, 0.0, R=1.0).after(state.w, cut, reg.strong_convexity)
        steepness = float(reg.dual_inner(cut.a, cut.a))  # twice the decrease that the plane predicts without tau
        return Descent(state.w, max(steepness / abs(candidate) - 1.0, 0.0) if candidate else 0.0)
