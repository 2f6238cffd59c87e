"""Measures of all labels by dual sweeps: the risk is the least of many hinge risks.

The risk of a measure Delta is a maximum over sets of mistakes, and so the minimum over the sums that bound Delta:

    R(w)  =  min over majorants  constant + sum_i max(0, cost_i - price_i y_i <w, x_i>)

where ``constant + sum_{i in mistakes} cost_i >= Delta(mistakes)`` for every set of mistakes.  For fixed costs this is a
hinge risk with weights and margins, which dual coordinate descent minimizes at any lambda.  Its dual variables are
probabilities beta of mistakes, and with the concave envelope h of Delta (``undercut.measures.envelope``) they bracket
the optimum:

    h(beta) - reg*(-X' (beta y price))  <=  min_w J(w)  <=  J(best)

The costs move towards the majorants that touch h at beta, as in the conditional gradient method (Frank and Wolfe 1956)
on the convex function  costs -> minimum of the hinge problem,  and at the mean of all beta so far: where beta jumps
from one step to the next, the mean is nearer to the optimum than any of them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import final

import numpy as np
from typing_extensions import override

from undercut._jit.dual_coordinate import TARGET
from undercut.contracts import Regularizer, Risk, Solver, StoredDesign
from undercut.errors import CapabilityError, require
from undercut.losses import Hinge
from undercut.measures.contingency import CurvedMeasure
from undercut.measures.envelope import envelope
from undercut.regularizers import L2
from undercut.risks import LinearRisk, MultivariateRisk
from undercut.risks.scores.score_risk import ScoreLine
from undercut.solvers.bounds import LINE_ACCURACY, ROUNDING, least, tighter
from undercut.solvers.coordinate.dual.pointwise_descent import PointwiseDescent, pointwise_descent
from undercut.solvers.coordinate.dual.pointwise_dual import PointwiseDual, pointwise_dual
from undercut.solvers.coordinate.dual_coordinate import FARTHEST, RAY_ACCURACY
from undercut.trace import Progress
from undercut.types import FloatArray

MOST_PASSES = 100.0  # of sweeps from one majorant to the next
LONGER = 1.1  # sweeps from one majorant to the next, relative to those before: smaller changes of costs need more


@dataclass(frozen=True)
class Mistakes:
    """Probabilities of mistakes and what follows from them."""

    beta: FloatArray
    z: FloatArray  # ``X' a``, which is the w of the hinge problem
    scores: FloatArray  # ``X z``

    def toward(self, other: Mistakes, share: float) -> Mistakes:
        """The point at a share of the way to another."""
        return Mistakes(
            self.beta + share * (other.beta - self.beta),
            self.z + share * (other.z - self.z),
            self.scores + share * (other.scores - self.scores),
        )


@dataclass(frozen=True)
class MajorantState:
    descent: PointwiseDescent  # never changed: a step works on a copy
    at: Mistakes  # of the descent
    mean: Mistakes
    costs: FloatArray  # of the majorant
    line: ScoreLine  # passes through the solution at ``t``
    t: float
    solution: FloatArray
    passes: float  # of the next sweeps
    progress: Progress


@final
@dataclass(frozen=True, kw_only=True)
class MajorantSweeps(Solver[MajorantState, MultivariateRisk, L2]):
    """Dual sweeps on hinge majorants: F-measures of sparse and of wide data, at small lambda too.

    >>> from undercut import MultivariateRisk, Stop, minimize
    >>> X, y = np.random.default_rng(0).standard_normal((60, 200)), np.repeat([1.0, -1.0], [20, 40])
    >>> result = minimize(MultivariateRisk(X, y, "f1"), L2(1e-4), MajorantSweeps(), stop=Stop(gap_rel=0.01))
    >>> result.status.name, result.certificate
    ('CONVERGED', 'global')
    """

    passes: float = 2.0  # of sweeps over all samples from the first majorant to the second

    pass_cost = 3.0  # rows in random order, each read and then added to v

    def __post_init__(self) -> None:
        require(self.passes > 0.0, "`passes` must be positive", self.passes)

    @override
    def check(self, risk: Risk, reg: Regularizer) -> None:
        if not isinstance(risk, MultivariateRisk) or not isinstance(risk.measure, CurvedMeasure):
            kind = type(risk.measure).__name__ if isinstance(risk, MultivariateRisk) else type(risk).__name__
            raise CapabilityError(
                f"MajorantSweeps needs the MultivariateRisk of FBeta or BalancedError; got {kind}: use LevelBundle"
            )
        if not isinstance(reg, L2) or reg.center is not None or reg.weights is not None:
            raise CapabilityError(f"MajorantSweeps needs L2 without `center` and `weights`; got {reg}: use LevelBundle")
        if not isinstance(risk.design, StoredDesign):
            raise CapabilityError(
                "MajorantSweeps needs X as an array or a sparse matrix, whose rows it reads: use LevelBundle"
            )
        super().check(risk, reg)

    @override
    def init(self, risk: MultivariateRisk, reg: L2, w0: FloatArray) -> MajorantState:
        scores = risk.scores(w0)
        objective = reg.value(w0) + risk.phi.evaluate(scores).value
        descent = _descent(risk, reg, np.zeros(risk.y.size))
        none = Mistakes(np.zeros(risk.y.size), np.zeros(risk.n_params), np.zeros(risk.y.size))
        _, costs = _touching(risk, none)
        line = ScoreLine(risk, scores, np.zeros_like(scores))
        progress = Progress(0, objective, least(risk, reg), n_evaluations=1)
        return MajorantState(descent, none, none, costs, line, 0.0, w0, self.passes, progress)

    @override
    def step(self, risk: MultivariateRisk, reg: L2, state: MajorantState) -> MajorantState:
        # 1. Sweeps on the hinge problem of the present costs.
        last, share = state.progress, 2.0 / (state.progress.step + 2.0)
        descent = state.descent.copy()
        descent.dual = _with_costs(risk, descent.dual, state.costs)
        descent.look_around(state.at.scores, last.gap)
        descent.run(int(state.passes * descent.dual.pass_work))

        # 2. What their probabilities of mistakes prove, and the mean of all.
        at = _mistakes(risk, descent)
        mean = state.mean.toward(at, share)
        (h, costs), (mean_h, mean_costs) = _touching(risk, at), _touching(risk, mean)
        bound = max(_bound(reg, h, at), _bound(reg, mean_h, mean))

        # 3. The best point moves to the minimum of J on the way to the best multiple of w.
        w, scores = _scaled(risk, reg, at)
        line, direction = state.line.toward(state.t, scores), w - state.solution
        t = min(line.minimizer(*reg.along(state.solution, direction), accuracy=LINE_ACCURACY), FARTHEST)
        trials = [(reg.value(v) + line.value(t), t, v) for t, v in ((t, state.solution + t * direction), (1.0, w))]
        objective, t, solution = min(trials, key=lambda trial: trial[0])
        if not objective < last.objective:
            line, t, solution, objective = state.line, state.t, state.solution, last.objective

        # 4. The costs move towards both majorants, with shorter and shorter steps: their mean is a majorant too.
        passes = min(LONGER * state.passes, MOST_PASSES)
        next_costs = state.costs + share * (0.5 * (costs + mean_costs) - state.costs)
        progress = Progress(
            last.step + 1, objective, tighter(last.lower_bound, bound, objective), last.n_evaluations + 1,
            n_passes=descent.work / descent.dual.pass_work,
        )  # fmt: skip
        return MajorantState(descent, at, mean, next_costs, line, t, solution, passes, progress)

    @override
    def carry(self, risk: MultivariateRisk, reg: L2, state: MajorantState) -> MajorantState:
        descent = _descent(risk, reg, state.at.beta)
        at = _mistakes(risk, descent)
        _, costs = _touching(risk, at)
        objective = reg.value(state.solution) + state.line.value(state.t)
        progress = Progress(0, objective, least(risk, reg))
        return replace(state, descent=descent, at=at, mean=at, costs=costs, passes=self.passes, progress=progress)

    @override
    def restored(self, risk: MultivariateRisk, reg: L2, state: MajorantState) -> MajorantState:
        dual = _with_costs(risk, pointwise_dual(*_hinge_problem(risk, reg)), state.costs)
        return replace(state, descent=state.descent.with_dual(dual))


def _hinge_problem(risk: MultivariateRisk, reg: L2) -> tuple[LinearRisk, L2]:
    """The hinge risk whose weights are the prices, which it scales to sum to one, and the penalty scaled alike."""
    prices = _by_sample(risk, *risk.phi.prices)
    hinge = LinearRisk(risk.design, risk.y, Hinge(), prices / prices.mean(), risk.fit_intercept)
    return hinge, L2(reg.lam / float(prices.sum()))


def _descent(risk: MultivariateRisk, reg: L2, beta: FloatArray) -> PointwiseDescent:
    """Sweeps from these probabilities of mistakes, or from a share of them that is better."""
    hinge, inner = _hinge_problem(risk, reg)
    descent = pointwise_descent(hinge, inner, -hinge.weight * risk.y * beta)
    descent.wanted = 0.0  # sweeps go on as long as there is something to gain
    return descent


def _by_sample(risk: MultivariateRisk, positive: FloatArray | float, negative: FloatArray | float) -> FloatArray:
    values = np.empty(risk.y.size)
    values[risk.y > 0.0], values[risk.y < 0.0] = positive, negative
    return values


def _with_costs(risk: MultivariateRisk, dual: PointwiseDual, costs: FloatArray) -> PointwiseDual:
    """The same dual with margins: ``max(0, cost - price y s) = price max(0, y (target - s))``."""
    terms = dual.terms.copy()
    terms[:, TARGET] = risk.y * costs / _by_sample(risk, *risk.phi.prices)
    return replace(dual, terms=terms)


def _mistakes(risk: MultivariateRisk, descent: PointwiseDescent) -> Mistakes:
    """Those of the feasible point nearest to that of the sweeps."""
    a = descent.dual.inside(descent.settled().a)
    z = descent.dual.products(a)
    cap = descent.dual.cap
    beta = np.divide(np.abs(a), cap, out=np.zeros_like(a), where=cap > 0.0)
    return Mistakes(np.minimum(beta, 1.0), z, risk.design.matvec(z))


def _touching(risk: MultivariateRisk, at: Mistakes) -> tuple[float, FloatArray]:
    """A lower bound of h, and the costs of the majorant that touches it there."""
    assert isinstance(risk.measure, CurvedMeasure)
    positive = risk.y > 0.0
    found = envelope(risk.measure, at.beta[positive], at.beta[~positive], at.scores[positive])
    return found.value, _by_sample(risk, found.misses, found.alarms)


def _bound(reg: L2, h: float, at: Mistakes) -> float:
    """``h(beta) - reg*(-z)``, less what rounding may have added."""
    penalty = reg.value(at.z)
    return h - penalty - ROUNDING * (1.0 + penalty)


def _scaled(risk: MultivariateRisk, reg: L2, at: Mistakes) -> tuple[FloatArray, FloatArray]:
    """The best multiple of w that is not shorter, and its scores: it meets the margins that the sweeps just miss."""
    t = 1.0 + ScoreLine(risk, at.scores, at.scores).minimizer(*reg.along(at.z, at.z), accuracy=RAY_ACCURACY)
    return t * at.z, t * at.scores
