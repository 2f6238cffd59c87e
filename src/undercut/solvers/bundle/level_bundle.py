"""Level bundle method: cutting planes that stay near the best point, for every regularizer.

Where lambda is small, or the regularizer not strongly convex, the minimizer of the model is far from where the model
is accurate.  A proximal term D, which is not part of the problem, keeps the next point near the best one:

    w_{t+1} = argmin_w  reg(w) + R_t(w) + D(w),        D(w) >= tau/2 |w - best|^2

As in level methods (Lemaréchal, Nemirovskii, Nesterov 1995; de Oliveira and Solodov 2016) the length of a step follows
the gap: tau is changed until the decrease that the model predicts at w_{t+1} is a given share of it.  A proximal
method that follows the decrease alone soon finds a good point, and then takes steps too short to prove that it is.

Planes near the best point prove little about points far from it.  Where lambda is small and the model fits all samples,
the penalty is most of the objective; the bound then hardly rises, and no trial point is better than the best one.  So,
once several steps in a row have found no better point there, every other one of those is followed by a step of
``LineSearchBundle``, where the risk has a line search and the regularizer is quadratic:

    best   <- argmin_{t >= 0} J(best + t (minimizer - best)),     plane at  (1 - beyond) best + beyond minimizer

Such steps end where many of them have not halved the gap.

The planes are ordinary planes of R, so the ordinary master problem over them proves the same kind of bound as in
``CuttingPlane``.  Under L1 and the elastic net every point is exactly sparse, the best one included.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import final

from typing_extensions import override

from undercut.contracts import LineRisk, ProximalRegularizer, QuadraticRegularizer, Regularizer, Risk
from undercut.errors import CapabilityError, DataError, NonfiniteError, require
from undercut.solvers.bounds import tighter
from undercut.solvers.bundle.bundle import Bundle, Model
from undercut.solvers.bundle.common import Best, BundleSolver, best_of, check_bundle_settings, master_tolerance
from undercut.solvers.bundle.dual_bundle import DualBundle, bundle_for
from undercut.trace import Progress
from undercut.types import FloatArray

PREDICTION_ACCURACY = 1e-2  # solve the proximal problem to this share of the last predicted decrease
LONGER, SHORTER = 0.3, 2.0  # bounds on the factor by which tau changes in one step
RETREAT = 100.0  # what tau is multiplied by where the risk overflows
FIRST_STEPS = 10  # every one of them proves a bound
GOOD = 0.5  # lengthen the step if at least this share of the predicted decrease was reached
MANY_NULLS = 4  # steps in a row without a better point, from which on some are searches along a line
CLOSE = 2.0  # only where the objective is below this many times the penalty of the best point: R is close to 0 there
BEYOND = 0.3  # where between the best point and the model's minimizer the plane of such a step is taken
MANY_SEARCHES = 100  # that have not halved the gap: no more of them
SEARCH_ACCURACY = 0.1  # share of the decrease that such a search may leave: a point on the line may cost a sort


@dataclass(frozen=True)
class LevelState:
    w: FloatArray  # where the next plane is taken
    predicted: float  # decrease of J there, by the model; NaN beyond the minimum of a line
    tau: float
    solution: FloatArray
    bundle: Bundle | DualBundle
    progress: Progress
    n_null: int = 0  # steps in a row without a better point; not counted beyond ``MANY_NULLS``
    n_searches: int = 0  # since the gap was last halved ...
    last_gap: float = math.inf  # ... to this

    @property
    def has_searched(self) -> bool:
        """Whether the last step was a search along a line."""
        return math.isnan(self.predicted)


@final
@dataclass(frozen=True, kw_only=True)
class LevelBundle(BundleSolver[LevelState, Risk, Regularizer]):
    """Cutting planes near the best point: the solver for L1, elastic net, entropy, bounds and blocks.

    >>> import numpy as np
    >>> from undercut import L1, FunctionRisk, minimize
    >>> risk = FunctionRisk(lambda w: (abs(w - 1.0).sum(), np.sign(w - 1.0)), n_params=3, lower_bound=0.0)
    >>> result = minimize(risk, L1(1e-3), LevelBundle())
    >>> round(result.objective, 5), result.status.name, result.certificate
    (0.003, 'CONVERGED', 'global')
    """

    least: float = 0.1  # lengthen the step if the predicted decrease is below this share of the gap
    most: float = 0.4  # shorten it if it is above this share
    max_idle: int = 50  # drop a plane whose dual weight has been zero this long
    master_accuracy: float = 0.1  # solve each master problem to this fraction of the gap
    bound_every: int = 1  # steps from one master problem, which proves the bound, to the next

    def __post_init__(self) -> None:
        check_bundle_settings(None, self.max_idle, self.master_accuracy)
        require(self.bound_every >= 1, "`bound_every` must be at least 1", self.bound_every)
        require(0.0 < self.least < self.most < 1.0, "0 < `least` < `most` < 1 must hold", (self.least, self.most))

    @override
    def check(self, risk: Risk, reg: Regularizer) -> None:
        super().check(risk, reg)
        if not isinstance(reg, ProximalRegularizer):
            raise CapabilityError(
                f"LevelBundle needs a ProximalRegularizer; got {type(reg).__name__}: "
                "implement `near`, or use CuttingPlane"
            )

    @override
    def init(self, risk: Risk, reg: Regularizer, w0: FloatArray) -> LevelState:
        if reg.value(w0) == math.inf:
            raise DataError(f"w0 must be a point where {type(reg).__name__} is finite")
        bundle = bundle_for(reg, risk.n_params, risk.lower_bound)
        return LevelState(w0, math.inf, math.nan, w0, bundle, Progress())

    @override
    def step(self, risk: Risk, reg: Regularizer, state: LevelState) -> LevelState:
        last, bundle = state.progress, state.bundle

        # 1. The plane at w_t, and the best point so far.
        try:
            cut = risk.cut(state.w)
        except NonfiniteError:
            if last.step:
                return self._retreated(state)
            raise
        bundle.add(cut)
        best, objective = best_of(state, state.w, cut, risk, reg)

        # 2. What the planes prove, by the ordinary master problem; the last bound still holds where it is left out.
        decrease = last.objective - (reg.value(state.w) + cut.value)
        n_null = _n_null(state, decrease)
        is_stuck = n_null >= MANY_NULLS and decrease < 0.0 and not state.has_searched
        may_search = state.n_searches < MANY_SEARCHES and _has_line_search(risk, reg)
        searches = is_stuck and may_search and objective < CLOSE * reg.value(best)
        lower_bound, model = min(last.lower_bound, objective), None
        if searches or last.step < FIRST_STEPS or last.step % self.bound_every == 0:
            model = self._minimized(bundle, objective, last.lower_bound)
            lower_bound = tighter(last.lower_bound, model.lower_bound, objective, model.size)
        else:
            bundle.grow_older()

        # 3. The next point near the best one, at a distance that follows the gap, or on the way to the minimizer.
        gap = objective - lower_bound
        tau = _first_tau(reg, cut.a, objective) if math.isnan(state.tau) else self._tau(state, decrease, gap)
        if searches and model is not None:
            (best, objective), w = _searched(risk, reg, Best(best, objective), model.w)
            predicted = math.nan
        else:
            expected = gap if state.has_searched else min(state.predicted, gap)
            near = bundle.minimize_near(best, tau, max(PREDICTION_ACCURACY * expected, 1e-10 * abs(objective)))
            w, predicted = near.w, objective - near.value
        bundle.drop_idle(self.max_idle)
        progress = Progress(last.step + 1, objective, lower_bound, last.n_evaluations + 1, len(bundle))
        is_closer = gap <= 0.5 * state.last_gap
        n_searches, last_gap = (0, gap) if is_closer else (state.n_searches + searches, state.last_gap)
        return LevelState(w, predicted, tau, best, bundle, progress, n_null, n_searches, last_gap)

    @override
    def carry(self, risk: Risk, reg: Regularizer, state: LevelState) -> LevelState:
        bundle, best, last = state.bundle, state.solution, state.bundle.reg
        objective = state.progress.objective - last.value(best) + reg.value(best)
        same = last.strong_convexity / reg.strong_convexity if isinstance(reg, QuadraticRegularizer) else 1.0
        tau = same * state.tau  # the metric of a quadratic regularizer is a part of its proximal term
        bundle.regularize(reg)  # type: ignore[arg-type]  # of the same kind as the last one
        known = bundle.proved().lower_bound
        model = self._minimized(bundle, objective, known)
        lower_bound = tighter(known, model.lower_bound, objective, model.size)
        near = bundle.minimize_near(best, tau, PREDICTION_ACCURACY * (objective - lower_bound))
        progress = Progress(0, objective, lower_bound, n_cuts=len(bundle))
        return LevelState(near.w, objective - near.value, tau, best, bundle, progress)

    def _minimized(self, bundle: Bundle | DualBundle, objective: float, last: float) -> Model:
        """The solution of the master problem to a share of the gap."""
        return bundle.minimize(master_tolerance(self.master_accuracy, objective, last))

    def _retreated(self, state: LevelState) -> LevelState:
        """A point much nearer to the best one, after one at which the risk overflows."""
        last, tau = state.progress, RETREAT * state.tau
        near = state.bundle.minimize_near(state.solution, tau, 1e-10 * abs(last.objective))
        progress = replace(last, step=last.step + 1, n_evaluations=last.n_evaluations + 1)
        return replace(state, w=near.w, predicted=last.objective - near.value, tau=tau, progress=progress)

    def _tau(self, state: LevelState, decrease: float, gap: float) -> float:
        """Shorten the step if the predicted decrease was too optimistic, lengthen it if it was too cautious."""
        if state.has_searched:
            return state.tau
        share = state.predicted / gap if gap > 0.0 else self.least
        if share > self.most or decrease < -gap:
            return state.tau * SHORTER
        if share < self.least:
            return state.tau * max(LONGER, math.sqrt(max(share, 0.0) / self.least))
        return state.tau * LONGER if decrease >= GOOD * state.predicted else state.tau


def _n_null(state: LevelState, decrease: float) -> int:
    """How many steps in a row have found no better point; ``MANY_NULLS`` once there were so many."""
    if state.n_null >= MANY_NULLS:
        return state.n_null
    return state.n_null + 1 if decrease <= 0.0 else 0


def _has_line_search(risk: Risk, reg: Regularizer) -> bool:
    return isinstance(risk, LineRisk) and isinstance(reg, QuadraticRegularizer)


def _searched(risk: Risk, reg: Regularizer, best: Best, minimizer: FloatArray) -> tuple[Best, FloatArray]:
    """The best point on the way to the model's minimizer, and the point beyond it where the next plane is taken."""
    assert isinstance(risk, LineRisk)
    assert isinstance(reg, QuadraticRegularizer)
    direction = minimizer - best.w
    line = risk.along(best.w, direction)
    t = line.minimizer(*reg.along(best.w, direction), accuracy=SEARCH_ACCURACY)
    w = best.w + t * direction
    found = Best(w, reg.value(w) + line.value(t))
    return found if found.objective < best.objective else best, w + BEYOND * (1.0 - t) * direction


def _first_tau(reg: Regularizer, a: FloatArray, objective: float) -> float:
    """The tau at which the first plane alone predicts half the objective, in units of a quadratic metric."""
    steepness = float(reg.dual_inner(a, a) if isinstance(reg, QuadraticRegularizer) else a @ a)
    return steepness / abs(objective) if steepness and objective else 1.0
