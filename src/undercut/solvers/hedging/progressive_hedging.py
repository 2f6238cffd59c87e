"""Progressive hedging (Defourny and Wehenkel 2009, Definition 1) over the shards of any convex risk.

    min_w  reg(w) + sum_k p_k R_k(w)

Every shard has its own copy ``w_k`` of w, a price ``mu_k`` with ``sum_k p_k mu_k = 0``, and the program

    P_k:  min_{w_k}  reg(w_k) + R_k(w_k) + <mu_k, w_k> + c/2 |w_k - w|^2

which is an ordinary problem of this library: with L2 the last terms are part of the regularizer, else of the risk.
With ``rho`` the over-relaxation,

    w' = w + rho (mean_k w_k - w),        mu_k' = mu_k + rho c (w_k - mean_k w_k)

The prices give a lower bound: ``min J >= sum_k p_k min_v [reg(v) + R_k(v) + <mu_k, v>]``, one more round of programs.

A free intercept b that all shards share has copies ``b_k`` and prices ``beta_k`` too, and no penalty.  In the bound its
prices are moved to where ``min_b R_k(v, b) + beta_k b`` is finite.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, final

import numpy as np
from typing_extensions import override

from undercut.contracts import Regularizer
from undercut.risks.combined.sharded import ShardedRisk
from undercut.solvers.hedging.consensus import Residuals, balanced, check_hedging_settings, settled
from undercut.solvers.hedging.programs import Order, Programs
from undercut.solvers.hedging.scenario_hedging import ScenarioHedging, ScenarioState, counted
from undercut.solvers.schedule import is_due
from undercut.trace import Status
from undercut.types import FloatArray


@final
@dataclass(frozen=True, kw_only=True)
class ProgressiveHedging(ScenarioHedging):
    """Progressive hedging over a ``ShardedRisk`` and a strongly convex regularizer.

    ``c`` is the price of leaving the mean, adapted by residual balancing if ``adaptive``; ``intercept_weight`` is
    ``c_b / c`` for the intercept.  ``inner`` solves the programs, to ``accuracy`` times the gap and ever more
    accurately.  With a single shard its program is the problem itself.  A run ends at the gap of ``Stop``, or, with
    ``epsilon``, by the ``criterion`` of the paper.

    The scenarios of a risk on a cluster stay on its workers: w is sent, and the mean of the copies comes back.

    >>> from undercut import Hinge, L2, LinearRisk, minimize
    >>> X, y = np.array([[2.0, 0.0], [0.0, 1.0], [1.0, 0.0]]), np.array([1.0, -1.0, 1.0])
    >>> risk = ShardedRisk.of(LinearRisk(X, y, Hinge()), 3)
    >>> result = minimize(risk, L2(0.1), ProgressiveHedging())
    >>> result.status.name, result.certificate, round(result.objective, 3)
    ('CONVERGED', 'global', 0.1)
    """

    adaptive: bool = True
    epsilon: float = 0.0
    criterion: Literal["exact", "approximate"] = "exact"

    def __post_init__(self) -> None:
        check_hedging_settings(
            self.c, self.relaxation, self.accuracy, self.intercept_weight, self.epsilon, self.criterion
        )

    @override
    def step(self, risk: ShardedRisk, reg: Regularizer, state: ScenarioState) -> ScenarioState:
        last, programs, n = state.progress, self.programs(risk, reg), risk.weights.size
        c = 0.0 if n == 1 else state.c

        # 1. Solve every shard's program, no more accurately than the gap deserves, and move its point z.
        order = Order(state.center, c, self.tolerance(state), state.scale / state.c)
        scenarios, means = state.scenarios.advanced(programs, order)

        # 2. The mean of the points is the next w; the prices are their distances from it.
        *center, dissent, price, spent = means
        moved = replace(
            state,
            center=np.array(center),
            scale=state.c,
            scenarios=scenarios,
            tol=order.tol,
            progress=counted(replace(last, step=last.step + 1), spent),
        )
        if n > 1:
            moved = replace(moved, residuals=self._residuals(programs, state.center, moved.center, dissent, price))

        # 3. Now and then: what is known of the optimum, and whether c balances the residuals.
        if not is_due(last.step + 1, state.certified):
            return moved
        moved = self.with_bound(risk, reg, moved)
        if self.adaptive and moved.residuals is not None:
            moved = replace(moved, c=balanced(c, moved.residuals, n, last.step + 1))
        return moved

    @override
    def ended(self, state: ScenarioState) -> Status | None:
        return settled(state.residuals, self.criterion, self.epsilon) or super().ended(state)

    def _residuals(
        self, programs: Programs, last: FloatArray, center: FloatArray, dissent: float, price: float
    ) -> Residuals:
        """From means over the scenarios: of ``|x_k - w|^2`` and of the squared prices."""
        move = programs.square(center - last)
        spread = max(dissent - move / self.relaxation**2, 0.0)
        return Residuals(self.relaxation**2 * spread, move, programs.square(last), price, spread)
