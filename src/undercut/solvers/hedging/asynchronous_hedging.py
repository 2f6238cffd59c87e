"""Progressive hedging in which no scenario waits for another.

A program is solved with the mean that is known when it begins, and the mean moves as soon as an answer arrives:

    x_k = argmin_x  reg(x) + R_k(x) + c/2 |x - (2 w - z_k)|^2
    z_k' = z_k + rho (x_k - w),     w' = w + p_k (z_k' - z_k)

with w, and the ``z_k`` in the program, as old as the program.

**When it converges.**  Let z be the points of all N scenarios, with the norm ``sum_k p_k |z_k|^2``.  Reflections at the
mean and at the proximal points make ``T z = z + 2 (x - w)``, which is non-expansive and whose fixed points have the
solution as their mean.  So ``S = I - T`` satisfies ``<Sz - Sz', z - z'> >= 1/2 |Sz - Sz'|^2``, and an answer is a step
``z_k -= eta (S z^)_k`` with ``eta = rho / 2``, where z^ is z without the moves that were still on their way when the
question left.  Count steps by the questions, in the order in which they leave.  If

    scenarios are drawn independently, all N with the same probability,
    at most ``at_once`` questions are on their way together, and
    at most ``behind`` questions leave while another one is on its way,

then z^ is known before its scenario is drawn.  With a fixed point z*, the moves ``D_d`` on their way and ``gamma > 0``

    E |z' - z*|^2 <= |z - z*|^2 - eta/N (1 - eta - (at_once - 1) / gamma) |S z^|^2 + eta gamma / N sum_d |D_d|^2

with ``E |D|^2 = eta^2 / N |S z^|^2``.  Each D occurs in at most ``behind`` of these sums.  So the decrease makes up for
them with ``gamma = sqrt(N (at_once - 1) / behind) / eta``, and z converges almost surely, if

    rho < 2 / (1 + 2 sqrt((at_once - 1) behind / N)).

That is the argument and, for ``at_once - 1 = behind = tau``, the bound of ARock (Peng, Xu, Yan, Yin 2016, SIAM J. Sci.
Comput. 38), which counts steps by answers and assumes that the age of an answer does not depend on its scenario.
Programs that are not solved exactly add errors, which must have a finite sum: they are solved more accurately from
step to step.

So c, which T depends on, must not change on the way, and the criterion of the paper, which compares all scenarios at
one mean, has no meaning: this class has neither.  Unbounded delays are not covered: a worker that does not answer holds
the others up after ``behind`` questions.  The bound on the optimum needs none of this, because any prices that sum to
zero prove one; it is that of ``ProgressiveHedging``, taken when no program is on its way.
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
    so that a worker may take twice as long as the others before they wait for it; in this process they follow one
    another.  ``relaxation``, below 2, is divided by ``1 + 2 sqrt((at_once - 1) behind / N)``, so that it converges
    whatever the delays within these limits are.  Other settings are as in ``ProgressiveHedging``.

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
        delay = risk.parts.delay
        shorter = self.relaxation / (1.0 + 2.0 * math.sqrt((delay.at_once - 1) * delay.behind / n))
        programs = replace(self.programs(risk, reg), relaxation=shorter)
        scenarios, center, spent = state.scenarios.drawn(programs, order, draws, delay)
        progress = counted(replace(last, step=last.step + 1), spent)
        moved = replace(state, center=center, scenarios=scenarios, tol=order.tol, progress=progress)

        # 2. Now and then: what is known of the optimum.
        return self.with_bound(risk, reg, moved) if is_due(last.step + 1, state.certified) else moved
