"""What synchronous and asynchronous progressive hedging share: the first state, the certificate, the refusals."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from typing_extensions import override

from undercut.contracts import Regularizer, Risk, Solver
from undercut.errors import CapabilityError, NonfiniteError
from undercut.risks.combined.sharded import ShardedRisk
from undercut.risks.combined.sharded_free import FreeShardedRisk
from undercut.solvers.bounds import least, tighter
from undercut.solvers.hedging.consensus import Residuals
from undercut.solvers.hedging.programs import Order, Programs, Scenario, feasible_prices
from undercut.solvers.hedging.stores import Store, stored
from undercut.solvers.schedule import has_gained, stalled
from undercut.trace import Progress, Status
from undercut.types import FloatArray

TIGHTEN = 0.9  # the programs' gap from step to step, so that the errors add up to a finite sum (Eq. 5)
TIGHTEST = 1e-12  # relative to the objective
BALANCED = 1e-10  # how far the points may be from their mean, relative to it: rounding


@dataclass(frozen=True)
class ScenarioState:
    solution: FloatArray
    progress: Progress
    c: float  # of the next programs
    scale: float  # of the last ones: mu_k = scale (z_k - w)
    center: FloatArray  # w, followed by b where shards share an intercept
    scenarios: Store
    tol: float  # gap of the last programs
    residuals: Residuals | None = None
    certified: int = 0  # the last step with a bound
    gained: int = 0  # the last step that narrowed the gap

    @property
    def dual(self) -> FloatArray:
        """The prices mu_k, one row per shard."""
        return self.scale * (np.stack(self.scenarios.each(_point, Order(self.center, 0.0, 0.0))) - self.center)


@dataclass(frozen=True, kw_only=True)
class ScenarioHedging(Solver[ScenarioState, ShardedRisk, Regularizer]):
    """Progressive hedging over shards, in whatever order they answer."""

    may_stall = False

    c: float | None = None  # None: lambda times the square root of the number of shards, at least 3
    relaxation: float = 1.8
    intercept_weight: float = 1.0
    accuracy: float = 0.1
    inner: Any = "deterministic"

    @override
    def check(self, risk: Risk, reg: Regularizer) -> None:
        super().check(risk, reg)
        if not isinstance(risk, ShardedRisk):
            raise CapabilityError(
                f"{self.name} needs a ShardedRisk; got {type(risk).__name__}: use ShardedRisk.of(risk, n_shards)"
            )
        if reg.strong_convexity == 0.0:
            raise CapabilityError(
                f"{self.name} needs a strongly convex regularizer, or its prices prove no bound; "
                f"got {type(reg).__name__}: use L2 or ElasticNet"
            )

    @override
    def init(self, risk: ShardedRisk, reg: Regularizer, w0: FloatArray) -> ScenarioState:
        objective = reg.value(w0) + risk.value(w0)
        if not math.isfinite(objective):
            raise NonfiniteError(f"the value of the risk is {objective}")
        n = risk.weights.size
        c = self.c or reg.strong_convexity * max(3.0, math.sqrt(n))
        start = np.append(w0, risk.intercept(w0) if w0.any() else 0.0) if isinstance(risk, FreeShardedRisk) else w0
        scenarios = stored(risk, start)
        progress = Progress(0, objective, least(risk, reg), n_evaluations=1)
        return ScenarioState(w0, progress, c, c, start, scenarios, 0.1 * abs(objective))

    @override
    def ended(self, state: ScenarioState) -> Status | None:
        return stalled(state.progress.step, state.gained)

    @override
    def finish(self, risk: ShardedRisk, reg: Regularizer, state: ScenarioState) -> ScenarioState:
        return state if state.certified == state.progress.step else self.with_bound(risk, reg, state)

    def programs(self, risk: ShardedRisk, reg: Regularizer) -> Programs:
        """How the scenarios of a run are moved."""
        weight = self.intercept_weight if isinstance(risk, FreeShardedRisk) else 0.0
        return Programs(reg, self.inner, self.relaxation, weight)

    def tolerance(self, state: ScenarioState) -> float:
        """The gap to which the next programs are solved."""
        at = state.progress
        wanted = self.accuracy * at.gap if math.isfinite(at.gap) else state.tol
        return max(min(wanted, TIGHTEN * state.tol), TIGHTEST * abs(at.objective))

    def with_bound(self, risk: ShardedRisk, reg: Regularizer, state: ScenarioState) -> ScenarioState:
        """The objective at the mean, and the bound of the prices."""
        last, objective, solution = state.progress, state.progress.objective, state.solution
        programs, d = self.programs(risk, reg), risk.n_params
        mean = state.center[:d]
        if not math.isfinite(reg.value(mean)):  # over-relaxation may leave the domain, a mean of copies does not
            mean = state.scenarios.mean(programs.copy, Order(state.center, 0.0, 0.0), [None] * risk.weights.size)[:d]
        if (candidate := reg.value(mean) + risk.value(mean)) < objective:
            objective, solution = candidate, mean
        proved, spent = self._proved(risk, programs, state)
        lower_bound = tighter(last.lower_bound, proved, objective)
        progress = replace(counted(last, spent), objective=objective, lower_bound=lower_bound)
        gained = last.step if has_gained(progress, last) else state.gained
        return replace(state, solution=solution, progress=progress, certified=last.step, gained=gained)

    def _proved(self, risk: ShardedRisk, programs: Programs, state: ScenarioState) -> tuple[float, float]:
        """The bound of the prices, and the evaluations that it took."""
        order = Order(state.center, state.scale, state.tol)
        betas = np.zeros(risk.weights.size)
        if programs.n_free:
            betas = feasible_prices(state.scenarios.each(programs.tie, order), risk.weights)
        proved, spent, *center = state.scenarios.mean(programs.bound, order, betas.tolist())
        if not np.allclose(center, state.center, rtol=BALANCED, atol=BALANCED * float(np.abs(state.center).max())):
            proved = -math.inf  # a worker has answered with an earlier point: the prices do not sum to zero
        return float(proved), float(spent)


def counted(progress: Progress, spent: float) -> Progress:
    """With the evaluations of the programs: so many of the whole risk."""
    return replace(progress, n_evaluations=progress.n_evaluations + math.ceil(spent))


def _point(shard: Risk, scenario: Scenario, order: Order) -> FloatArray:
    return scenario.z
