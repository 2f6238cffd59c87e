"""Progressive hedging for kernel machines (Defourny and Wehenkel 2009, Definition 2).

    min_f  lam/2 |f|^2 + min_b sum_i weight_i max(0, 1 - y_i (f(x_i) + b))

The samples are divided among N scenarios.  Scenario k has its own ``(w_k, b_k)`` and a price for leaving the
mean; ``consensus.py`` says how both follow its pull ``x = y a``.  All vectors have length n.  The mean and the prices
move towards x and so do their scores: only the change of x is multiplied by K, and the exact stopping
criterion costs no product.

At the solution ``x / N = y alpha``.  Clipped and balanced that is dual feasible on the way, too: a true lower bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, final

import numpy as np
from typing_extensions import override

from undercut.contracts import Regularizer, Risk, Solver
from undercut.devices import beside, library, to_host
from undercut.errors import CapabilityError, require
from undercut.regularizers import KernelNorm
from undercut.risks import GramRisk
from undercut.solvers.hedging.consensus import Consensus, Residuals, balanced, check_hedging_settings, settled
from undercut.solvers.hedging.scenarios import Blocks, Expansion, Samples, Scenarios
from undercut.solvers.kernel_dual import KernelDual, KernelState, Point, check_kernel_problem
from undercut.solvers.schedule import is_due, stalled
from undercut.trace import Progress, Status
from undercut.types import FloatArray

LOOSEST, TIGHTEST = 0.1, 1e-10  # how far derivatives may violate their bounds in a block's program
TIGHTEN = 0.95  # from step to step, so that the errors add up to a finite sum (Eq. 5)


@dataclass(frozen=True, kw_only=True)
class KernelHedgingState(KernelState):
    derived: ClassVar = ("scenarios",)

    scenarios: Scenarios
    c: float
    consensus: Consensus
    pull: Expansion  # x
    tol: float  # of the last programs
    residuals: Residuals | None = None


@final
@dataclass(frozen=True, kw_only=True)
class KernelHedging(Solver[KernelHedgingState, GramRisk, KernelNorm]):
    """Progressive hedging over samples, or over ``blocks`` of them, on ``GramRisk`` and ``KernelNorm``.

    ``c`` is the price of leaving the mean.  With ``adaptive`` it is multiplied, ever more rarely, by the square root of
    ``[primal residual / |w|] / [dual residual / (|u| / c)]``.  ``intercept_weight`` is ``c_b / c``, 1 in the paper: the
    multipliers of the intercepts are sums over samples, and c moves them too slowly.  ``relaxation`` is 1 in the paper.
    Blocks are solved by coordinate descent, to ``accuracy`` times the relative gap; for a single block, the whole
    problem, there is ``PairDescent``.

    A run ends at the gap of ``Stop``, or, with ``epsilon``, by the ``criterion`` of the paper.

    >>> import numpy as np
    >>> from undercut.maps.gram import DenseGram
    >>> from undercut import minimize
    >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([1.0, -1.0, -1.0, 1.0])
    >>> risk = GramRisk(DenseGram(np.exp(-((X - X.T) ** 2))), y)
    >>> result = minimize(risk, KernelNorm(0.1, risk.gram), KernelHedging())
    >>> result.status.name, result.certificate, round(result.objective, 3)
    ('CONVERGED', 'global', 0.251)
    """

    may_stall = False

    blocks: int | None = None  # None: every sample a scenario
    c: float | None = None  # None: the square root of the number of scenarios, at least 3
    adaptive: bool = True
    relaxation: float = 1.8
    intercept_weight: float = 10.0
    accuracy: float = 0.1
    epsilon: float = 0.0
    criterion: Literal["exact", "approximate"] = "exact"

    def __post_init__(self) -> None:
        rule = "`blocks` must be at least 2, or None for single samples; for the whole problem use PairDescent"
        require(self.blocks is None or self.blocks >= 2, rule, self.blocks)
        check_hedging_settings(
            self.c, self.relaxation, self.accuracy, self.intercept_weight, self.epsilon, self.criterion
        )

    @override
    def check(self, risk: Risk, reg: Regularizer) -> None:
        check_kernel_problem("KernelHedging", risk, reg)
        if self.blocks is not None and isinstance(risk, GramRisk):
            require(self.blocks <= risk.n_params, f"`blocks` must be at most {risk.n_params} samples", self.blocks)
            if not risk.gram.on_host:
                raise CapabilityError("blocks need the Gram matrix in main memory: use blocks=None on a device")

    @override
    def init(self, risk: GramRisk, reg: KernelNorm, w0: FloatArray) -> KernelHedgingState:
        both = KernelDual(risk, reg.lam)
        scenarios = self._scenarios(risk, both.cap)
        center = _expansion(risk, scenarios, w0).exact(beside(risk.scores(w0), risk.gram.diagonal))
        n, scores = scenarios.n_scenarios, to_host(center.scores)
        pull = _expansion(risk, scenarios, n * both.feasible(w0))
        dual = center.towards(center, 1.0, n)
        b = risk.at_scores(scores).intercept if w0.any() else 0.0
        consensus = Consensus(center, dual, b, scenarios.totals(dual.coef) * risk.fit_intercept)
        progress = Progress(0, both.objective(w0, scores), risk.lower_bound, n_evaluations=1)
        c = self.c or max(3.0, math.sqrt(n))
        return KernelHedgingState(
            solution=w0, progress=progress, scenarios=scenarios, c=c, consensus=consensus, pull=pull, tol=LOOSEST
        )

    @override
    def step(self, risk: GramRisk, reg: KernelNorm, state: KernelHedgingState) -> KernelHedgingState:
        last, scenarios, agreed = state.progress, state.scenarios, state.consensus
        c, rho = state.c, self.relaxation
        c_b = self.intercept_weight * c
        tol = self._tolerance(state)

        # 1. Solve every scenario's program, no more accurately than the gap deserves.
        pull = self._solved(risk, state, c, c_b, tol)
        totals = scenarios.totals(pull.coef) * risk.fit_intercept

        # 2. The mean follows the scenarios, and the prices their dissent.
        due = is_due(last.step + 1, state.certified)
        asked = due or self.epsilon > 0.0
        residuals = agreed.residuals(pull, totals, c, self.intercept_weight, rho) if asked else None
        moved = replace(
            state,
            pull=pull,
            tol=tol,
            consensus=agreed.moved(pull, totals, c, c_b, rho),
            residuals=residuals,
            progress=replace(last, step=last.step + 1, n_evaluations=last.n_evaluations + 1),
        )

        # 3. Now and then: what is known of the optimum, and whether c balances the residuals.
        if not due:
            return moved
        if self.adaptive and residuals is not None:
            moved = replace(moved, c=balanced(c, residuals, scenarios.n_scenarios, last.step + 1))
        return self._certified(risk, KernelDual(risk, reg.lam), moved)

    @override
    def restored(self, risk: GramRisk, reg: KernelNorm, state: KernelHedgingState) -> KernelHedgingState:
        return replace(state, scenarios=self._scenarios(risk, KernelDual(risk, reg.lam).cap))

    @override
    def ended(self, state: KernelHedgingState) -> Status | None:
        return settled(state.residuals, self.criterion, self.epsilon) or stalled(state.progress.step, state.gained)

    @override
    def finish(self, risk: GramRisk, reg: KernelNorm, state: KernelHedgingState) -> KernelHedgingState:
        both = KernelDual(risk, reg.lam)
        return both.finished(state if state.certified == state.progress.step else self._certified(risk, both, state))

    def _scenarios(self, risk: GramRisk, cap: FloatArray) -> Scenarios:
        if self.blocks is None:
            return Samples(risk.gram, risk.y, cap)
        return Blocks(risk.gram, risk.y, cap, self.blocks)

    def _solved(self, risk: GramRisk, state: KernelHedgingState, c: float, c_b: float, tol: float) -> Expansion:
        """The pulls x = y alpha of Eq. 10, and their scores by the change alone."""
        scenarios, last = state.scenarios, state.pull
        ridge = 1.0 / c_b if risk.fit_intercept else 0.0
        coef, own = scenarios.solve(state.consensus.seen(scenarios, c, c_b), 1.0 / (1.0 + c), ridge, last, tol)
        return Expansion.of(coef, last.scores + risk.gram.product(coef - last.coef), own, last.anchor)

    def _tolerance(self, state: KernelHedgingState) -> float:
        """Of the next programs: a share of the relative gap, and less than of the last ones."""
        last = state.progress
        wanted = self.accuracy * last.gap / max(abs(last.objective), math.ulp(0.0))
        return max(min(wanted, TIGHTEN * state.tol), TIGHTEST)

    def _certified(self, risk: GramRisk, both: KernelDual, state: KernelHedgingState) -> KernelHedgingState:
        """The best of the mean and of the function rebuilt from a dual feasible point, and the bound of the latter.

        In double precision on a device, where products are too coarse for a bound, and where the rounding of a stored K
        makes up too much of the gap.
        """
        n = state.scenarios.n_scenarios
        feasible = both.feasible(to_host(state.pull.coef) / n)
        if risk.gram.on_host:
            pull, rounding = state.pull, risk.gram.rounding
            scores = (pull.scores + risk.gram.product(n * feasible - pull.coef)) / n
            point = Point(feasible, scores, rounding * float(np.abs(feasible - pull.anchor / n).sum()))
            center = state.consensus.center
            off = rounding * float(np.abs(center.coef - center.anchor).sum())
            attempt = both.proved(state, Point(center.coef, center.scores, off), point)
            if not both.is_rounded(attempt, point):
                return attempt
        state, scores = _exact(risk, state, feasible)
        center = state.consensus.center
        return both.proved(state, Point(to_host(center.coef), to_host(center.scores)), Point(feasible, scores))


def _exact(risk: GramRisk, state: KernelHedgingState, feasible: FloatArray) -> tuple[KernelHedgingState, FloatArray]:
    """With all scores in double precision, and those of a dual feasible point."""
    expansions = (state.pull, state.consensus.center, state.consensus.dual)
    columns = [*(old.coef for old in expansions), beside(feasible, state.pull.coef)]
    *scores, last = risk.gram.exact_product(library(columns[0]).stack(columns, 1)).T
    pull, center, dual = (old.exact(new) for old, new in zip(expansions, scores, strict=True))
    consensus = replace(state.consensus, center=center, dual=dual)
    return replace(state, pull=pull, consensus=consensus), to_host(last)


def _expansion(risk: GramRisk, scenarios: Scenarios, coef: FloatArray) -> Expansion:
    here = beside(coef, risk.gram.diagonal)
    own = scenarios.own(here) if coef.any() else 0.0 * here
    return Expansion.of(here, risk.gram.product(here), own, 0.0 * here)
