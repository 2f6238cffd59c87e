"""Progressive hedging (Defourny and Wehenkel 2009, Definition 1) over the shards of any convex risk.

    min_w  reg(w) + sum_k p_k R_k(w)

Every shard has its own copy ``w_k`` of w, a price ``mu_k`` with ``sum_k p_k mu_k = 0``, and the program

    P_k:  min_{w_k}  reg(w_k) + R_k(w_k) + <mu_k, w_k> + c/2 |w_k - w|^2

which is an ordinary problem of this library: with L2 the last terms are part of the regularizer, else of the risk.
With ``rho`` the over-relaxation,

    w' = w + rho (mean_k w_k - w),        mu_k' = mu_k + rho c (w_k - mean_k w_k)

The prices give a lower bound: ``min J >= sum_k p_k min_v [reg(v) + R_k(v) + <mu_k, v>]``, one more round of programs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal, final

import numpy as np
from typing_extensions import override

from undercut.contracts import Regularizer, Risk, Solver
from undercut.errors import CapabilityError, NonfiniteError
from undercut.regularizers import L2
from undercut.regularizers.proximal import Proximal
from undercut.risks.combined.sharded import ShardedRisk
from undercut.risks.combined.tilted import TiltedRisk
from undercut.solvers.bounds import least, tighter
from undercut.solvers.driver import Stop, minimize
from undercut.solvers.hedging.consensus import Residuals, balanced, check_hedging_settings, settled
from undercut.solvers.schedule import has_gained, is_due, stalled
from undercut.trace import Progress, Result, Status
from undercut.types import FloatArray

TIGHTEN = 0.9  # the programs' gap from step to step, so that the errors add up to a finite sum (Eq. 5)
TIGHTEST = 1e-12  # relative to the objective
MAX_INNER_STEPS = 10_000


@dataclass(frozen=True)
class ProgressiveHedgingState:
    solution: FloatArray
    progress: Progress
    c: float
    center: FloatArray  # w
    dual: FloatArray  # mu_k, one row per shard
    copies: FloatArray  # w_k
    tol: float  # gap of the last programs
    residuals: Residuals | None = None
    certified: int = 0  # the last step with a bound
    gained: int = 0  # the last step that narrowed the gap


@final
@dataclass(frozen=True, kw_only=True)
class ProgressiveHedging(Solver[ProgressiveHedgingState, ShardedRisk, Regularizer]):
    """Progressive hedging over a ``ShardedRisk`` and a strongly convex regularizer.

    ``c`` is the price of leaving the mean, adapted by residual balancing if ``adaptive``.  ``inner`` solves the
    programs, to ``accuracy`` times the gap and ever more accurately.  With a single shard its program is
    the problem itself.  A run ends at the gap of ``Stop``, or, with ``epsilon``, by the ``criterion`` of the paper.

    >>> from undercut import Hinge, LinearRisk
    >>> X, y = np.array([[2.0, 0.0], [0.0, 1.0], [1.0, 0.0]]), np.array([1.0, -1.0, 1.0])
    >>> risk = ShardedRisk.of(LinearRisk(X, y, Hinge()), 3)
    >>> result = minimize(risk, L2(0.1), ProgressiveHedging())
    >>> result.status.name, result.certificate, round(result.objective, 3)
    ('CONVERGED', 'global', 0.1)
    """

    may_stall = False

    c: float | None = None  # None: lambda times the square root of the number of shards, at least 3
    adaptive: bool = True
    relaxation: float = 1.8
    accuracy: float = 0.1
    inner: Any = "auto"
    epsilon: float = 0.0
    criterion: Literal["exact", "approximate"] = "exact"

    def __post_init__(self) -> None:
        check_hedging_settings(self.c, self.relaxation, self.accuracy, self.epsilon, self.criterion)

    @override
    def check(self, risk: Risk, reg: Regularizer) -> None:
        super().check(risk, reg)
        if not isinstance(risk, ShardedRisk):
            raise CapabilityError(
                f"ProgressiveHedging needs a ShardedRisk; got {type(risk).__name__}: use ShardedRisk.of(risk, n_shards)"
            )
        if reg.strong_convexity == 0.0:
            raise CapabilityError(
                f"ProgressiveHedging needs a strongly convex regularizer, or its prices prove no bound; "
                f"got {type(reg).__name__}: use L2 or ElasticNet"
            )

    @override
    def init(self, risk: ShardedRisk, reg: Regularizer, w0: FloatArray) -> ProgressiveHedgingState:
        n = len(risk.shards)
        objective = reg.value(w0) + risk.value(w0)
        if not math.isfinite(objective):
            raise NonfiniteError(f"the value of the risk is {objective}")
        c = self.c or reg.strong_convexity * max(3.0, math.sqrt(n))
        progress = Progress(0, objective, least(risk, reg), n_evaluations=1)
        copies = np.tile(w0, (n, 1))
        return ProgressiveHedgingState(w0, progress, c, w0, np.zeros_like(copies), copies, 0.1 * abs(objective))

    @override
    def step(self, risk: ShardedRisk, reg: Regularizer, state: ProgressiveHedgingState) -> ProgressiveHedgingState:
        last, alone = state.progress, len(risk.shards) == 1
        c, rho = (0.0, 1.0) if alone else (state.c, self.relaxation)

        # 1. Solve every shard's program, no more accurately than the gap deserves.
        tol = self._tolerance(state)
        results = self._solve(risk, reg, state, c, tol)
        copies = np.stack([result.w for result in results])

        # 2. The mean follows the copies, and the prices their dissent.
        mean = risk.weights @ copies
        dissent = copies - mean
        moved = replace(
            state,
            center=state.center + rho * (mean - state.center),
            dual=state.dual + rho * c * dissent,
            copies=copies,
            tol=tol,
            residuals=None if alone else self._residuals(risk, reg, state, mean, dissent),
            progress=_counted(replace(last, step=last.step + 1), results),
        )

        # 3. Now and then: what is known of the optimum, and whether c balances the residuals.
        if not is_due(last.step + 1, state.certified):
            return moved
        if self.adaptive and moved.residuals is not None:
            moved = replace(moved, c=balanced(c, moved.residuals, len(risk.shards), last.step + 1))
        return self._certified(risk, reg, moved)

    @override
    def ended(self, state: ProgressiveHedgingState) -> Status | None:
        return settled(state.residuals, self.criterion, self.epsilon) or stalled(state.progress.step, state.gained)

    @override
    def finish(self, risk: ShardedRisk, reg: Regularizer, state: ProgressiveHedgingState) -> ProgressiveHedgingState:
        return state if state.certified == state.progress.step else self._certified(risk, reg, state)

    def _tolerance(self, state: ProgressiveHedgingState) -> float:
        """The gap to which the next programs are solved."""
        at = state.progress
        wanted = self.accuracy * at.gap if math.isfinite(at.gap) else state.tol
        return max(min(wanted, TIGHTEN * state.tol), TIGHTEST * abs(at.objective))

    def _solve(
        self, risk: ShardedRisk, reg: Regularizer, state: ProgressiveHedgingState, c: float, tol: float
    ) -> list[Result]:
        """The programs P_k; without their proximal terms if c is zero."""
        stop = Stop(gap_abs=tol, gap_rel=0.0, max_steps=MAX_INNER_STEPS)

        def solve(shard: Risk, price: FloatArray, start: FloatArray) -> Result:
            if not isinstance(reg, L2):
                return minimize(TiltedRisk(shard, price, c, state.center), reg, self.inner, w0=start, stop=stop)
            proximal = Proximal.of(reg, state.center, c, price)
            result = minimize(shard, proximal.reg, self.inner, w0=start, stop=stop)
            return replace(result, lower_bound=result.lower_bound + proximal.constant)

        results = risk.map(solve, state.dual, state.copies)
        for result in results:
            if result.status is Status.STOPPED:  # Ctrl-C is for the run, not for a program
                raise KeyboardInterrupt
            if result.status is Status.NONFINITE:
                raise NonfiniteError(result.detail)
        return results

    def _residuals(
        self, risk: ShardedRisk, reg: Regularizer, state: ProgressiveHedgingState, mean: FloatArray, dissent: FloatArray
    ) -> Residuals:
        move, rho, weights = mean - state.center, self.relaxation, risk.weights
        pulls = state.dual + (reg.gradient(state.center) if isinstance(reg, L2) else 0.0)
        spread = float(weights @ (dissent**2).sum(axis=1))
        return Residuals(
            rho**2 * spread,
            rho**2 * float(move @ move),
            float(state.center @ state.center),
            float(weights @ (pulls**2).sum(axis=1)),
            spread,
        )

    def _certified(
        self, risk: ShardedRisk, reg: Regularizer, state: ProgressiveHedgingState
    ) -> ProgressiveHedgingState:
        """The objective at the mean, and the bound of the prices."""
        last, objective, solution = state.progress, state.progress.objective, state.solution
        allowed = math.isfinite(reg.value(state.center))  # over-relaxation may leave the domain, a mean does not
        mean = state.center if allowed else risk.weights @ state.copies
        if (candidate := reg.value(mean) + risk.value(mean)) < objective:
            objective, solution = candidate, mean
        results = self._solve(risk, reg, state, 0.0, state.tol)
        bounds = [result.lower_bound if result.certificate == "global" else -math.inf for result in results]
        proved = float(risk.weights @ np.array(bounds))
        lower_bound = tighter(last.lower_bound, proved, objective)
        progress = replace(_counted(last, results), objective=objective, lower_bound=lower_bound)
        gained = last.step if has_gained(progress, last) else state.gained
        return replace(state, solution=solution, progress=progress, certified=last.step, gained=gained)


def _counted(progress: Progress, results: list[Result]) -> Progress:
    """With the evaluations of the programs: so many of the whole risk."""
    spent = sum(result.n_evaluations for result in results) / len(results)
    return replace(progress, n_evaluations=progress.n_evaluations + math.ceil(spent))
