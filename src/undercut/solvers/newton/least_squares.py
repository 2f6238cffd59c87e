"""Squared loss with a quadratic penalty: the optimum by one system of linear equations.

    (X' diag(weight) X + M) (w - w_0)  =  -J'(w_0)

by a matrix of the size of w, or of the number of samples if that is smaller (``SampleSystem``).  A free intercept is
eliminated.  Further steps remove what rounding has left.  The plane at w proves the bound.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, TypeAlias, final

import numpy as np
from typing_extensions import override

from undercut.contracts import Cut, QuadraticRegularizer, Regularizer, Risk, Solver, WeightedGramDesign
from undercut.errors import CapabilityError
from undercut.losses import Squared
from undercut.risks import LinearRisk
from undercut.solvers.bounds import cut_bound, cut_size, tighter
from undercut.solvers.newton.factor import Factor
from undercut.solvers.newton.interior.penalty_terms import PenaltyTerms
from undercut.solvers.newton.interior.rows import Rows, as_array
from undercut.solvers.newton.interior.systems import SampleSystem
from undercut.trace import Progress
from undercut.types import FloatArray

Solve: TypeAlias = Callable[[FloatArray], FloatArray]  # from a gradient of J to the step that makes it zero


@dataclass(frozen=True)
class LeastSquaresState:
    derived: ClassVar = ("solve",)

    solution: FloatArray
    cut: Cut  # at the solution
    solve: Solve | None  # None: not factored yet
    progress: Progress


@final
@dataclass(frozen=True)
class LeastSquares(Solver[LeastSquaresState, LinearRisk, QuadraticRegularizer]):
    """Ridge regression in closed form.

    >>> from undercut import L2, minimize
    >>> risk = LinearRisk(np.eye(2), np.array([1.0, -1.0]), Squared())
    >>> minimize(risk, L2(0.5), LeastSquares()).w
    array([ 0.5, -0.5])
    """

    @override
    def check(self, risk: Risk, reg: Regularizer) -> None:
        super().check(risk, reg)
        if not isinstance(risk, LinearRisk) or type(risk.loss) is not Squared:
            raise CapabilityError(
                f"LeastSquares needs a LinearRisk with the loss Squared, and this {type(risk).__name__} is not one: "
                "use Newton if the risk is smooth, or LineSearchBundle"
            )
        if not isinstance(risk.design, WeightedGramDesign):
            raise CapabilityError(
                f"LeastSquares needs a design that makes X' D X, and {type(risk.design).__name__} has no "
                "`weighted_gram(g)`: use LineSearchBundle"
            )

    @override
    def init(self, risk: LinearRisk, reg: QuadraticRegularizer, w0: FloatArray) -> LeastSquaresState:
        scores = risk.design.matvec(w0) if w0.any() else np.zeros(risk.n_samples)
        cut = risk.plane(scores, risk.phi.evaluate(scores))
        objective = reg.value(w0) + cut.value
        bound = tighter(-np.inf, cut_bound(risk, reg, cut), objective, cut_size(cut))
        return LeastSquaresState(w0, cut, None, Progress(0, objective, bound, n_evaluations=1))

    @override
    def step(self, risk: LinearRisk, reg: QuadraticRegularizer, state: LeastSquaresState) -> LeastSquaresState:
        last, solve = state.progress, state.solve or _equations(risk, reg)

        # 1. To the optimum.
        w = state.solution + solve(reg.gradient(state.solution) + state.cut.a)

        # 2. The plane there proves the bound.
        cut = risk.cut(w)
        lower_bound = cut_bound(risk, reg, cut)
        objective, solution, best = reg.value(w) + cut.value, w, cut
        if not objective < last.objective:  # rounding
            objective, solution, best = last.objective, state.solution, state.cut
        lower_bound = tighter(last.lower_bound, lower_bound, objective, cut_size(cut))
        progress = Progress(last.step + 1, objective, lower_bound, last.n_evaluations + 1)
        return LeastSquaresState(solution, best, solve, progress)


def _equations(risk: LinearRisk, reg: QuadraticRegularizer) -> Solve:
    """By the smaller matrix; that of the samples needs a diagonal M and X as an array."""
    assert isinstance(risk.design, WeightedGramDesign)
    terms = PenaltyTerms.of(reg, risk.n_params) if risk.n_samples < risk.n_params else None
    X = as_array(risk.design) if terms is not None else None
    if terms is None or X is None:
        return _by_parameters(risk, risk.design, reg)
    rows = Rows(risk.design, fit_intercept=risk.fit_intercept, signs=())
    system = SampleSystem(rows, terms.l2, risk.weight, X)

    def solve(gradient: FloatArray) -> FloatArray:
        whole = np.append(gradient, 0.0) if risk.fit_intercept else gradient
        return system.solve(whole, np.zeros(rows.n))[0][: rows.d]

    return solve


def _by_parameters(risk: LinearRisk, design: WeightedGramDesign, reg: QuadraticRegularizer) -> Solve:
    mean = design.rmatvec(risk.weight) if risk.fit_intercept else np.zeros(risk.n_params)
    H = design.weighted_gram(risk.weight)
    if risk.fit_intercept:
        H -= np.outer(mean, mean)  # the weights sum to one
    reg.add_hessian(H)
    factor = Factor(H)

    def product(v: FloatArray) -> FloatArray:
        return reg.hessian_product(v) + design.rmatvec(risk.weight * design.matvec(v)) - float(mean @ v) * mean

    return lambda gradient: -factor.solve(gradient, product)
