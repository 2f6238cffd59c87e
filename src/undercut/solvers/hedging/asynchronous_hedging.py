"""Progressive hedging in which no scenario waits for another.

A program is solved with the mean that is known when it begins, and the mean moves as soon as an answer arrives:

    x_k = argmin_x  reg(x) + R_k(x) + c/2 |x - (2 w - z_k)|^2
    z_k' = z_k + rho (x_k - w),     w' = w + p_k (z_k' - z_k)

with w as old as the program.  ``z -> z + rho (x - w)`` is a step towards a fixed point of a non-expansive operator, so
that steps on blocks drawn at random converge with delays too (ARock: Peng, Xu, Yan, Yin 2016), if no delay exceeds
``tau`` other answers, the operator stays the same, and

    rho < 2 / (1 + 2 tau / sqrt(N))        for N scenarios drawn with equal probabilities.

So c must not change on the way, and the criterion of the paper, which compares all scenarios at one mean, has no
meaning: this class has neither.  The bound is that of ``ProgressiveHedging``, taken when no program is on its way.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import final

import numpy as np
from typing_extensions import override

from undercut.contracts import Regularizer
from undercut.risks.combined.sharded import ShardedRisk
from undercut.solvers.hedging.consensus import check_hedging_settings
from undercut.solvers.hedging.programs import Order
from undercut.solvers.hedging.scenario_hedging import ScenarioHedging, ScenarioState, counted
from undercut.solvers.schedule import is_due


@final
@dataclass(frozen=True, kw_only=True)
class AsynchronousHedging(ScenarioHedging):
    """Progressive hedging over a ``ShardedRisk`` whose shards answer in any order; c is fixed.

    A step draws as many scenarios as there are, at random by ``seed``.  On a cluster every worker has one on its way,
    so that a slow worker delays only its own; in this process they follow one another.  ``relaxation`` is divided by
    ``1 + 2 tau / sqrt(N)``, tau the longest delay.  Other settings are as in ``ProgressiveHedging``.

    >>> from undercut import Hinge, L2, LinearRisk, minimize
    >>> X, y = np.array([[2.0, 0.0], [0.0, 1.0], [1.0, 0.0]]), np.array([1.0, -1.0, 1.0])
    >>> risk = ShardedRisk.of(LinearRisk(X, y, Hinge()), 3)
    >>> result = minimize(risk, L2(0.1), AsynchronousHedging())
    >>> result.status.name, result.certificate, round(result.objective, 3)
    ('CONVERGED', 'global', 0.1)
    """

    seed: int = 0

    def __post_init__(self) -> None:
        check_hedging_settings(self.c, self.relaxation, self.accuracy, self.intercept_weight)

    @override
    def step(self, risk: ShardedRisk, reg: Regularizer, state: ScenarioState) -> ScenarioState:
        last, n = state.progress, risk.weights.size

        # 1. Draw scenarios; each answer moves the mean by which the next ones are solved.
        order = Order(state.center, state.c, self.tolerance(state))
        draws = np.random.default_rng((self.seed, last.step)).integers(n, size=n).tolist()
        shorter = self.relaxation / (1.0 + 2.0 * risk.parts.longest_delay / math.sqrt(n))
        programs = replace(self.programs(risk, reg), relaxation=shorter)
        scenarios, center, spent = state.scenarios.drawn(programs, order, draws)
        progress = counted(replace(last, step=last.step + 1), spent)
        moved = replace(state, center=center, scenarios=scenarios, tol=order.tol, progress=progress)

        # 2. Now and then: what is known of the optimum.
        return self.with_bound(risk, reg, moved) if is_due(last.step + 1, state.certified) else moved
