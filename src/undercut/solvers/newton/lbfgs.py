"""Limited-memory BFGS with SciPy's line search, for smooth risks, with a certificate where they are convex.

A single plane already bounds the optimum of a convex risk, and ever more tightly as the gradient vanishes:

    b - reg*(-a)  =  J(w) - |gradient of J at w|^2 / (2 lam)      for L2

A risk that is not convex is minimized the same way, without a bound.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from scipy.optimize import line_search
from scipy.optimize._linesearch import LineSearchWarning
from typing_extensions import override

from undercut.contracts import Cut, QuadraticRegularizer, Risk, Solver
from undercut.errors import NonfiniteError, require
from undercut.solvers.bounds import check_plane, cut_bound, cut_size, tighter
from undercut.trace import Certificate, Progress, Status
from undercut.types import FloatArray


@dataclass(frozen=True)
class LbfgsState:
    solution: FloatArray
    gradient: FloatArray
    moves: tuple[FloatArray, ...]
    changes: tuple[FloatArray, ...]  # of the gradient, one per move
    progress: Progress
    is_stuck: bool = False  # steepest descent found no step either


@final
@dataclass(frozen=True, kw_only=True)
class Lbfgs(Solver[LbfgsState, Risk, QuadraticRegularizer]):
    """Quasi-Newton steps with a Wolfe line search; a kink of the risk may stall it.

    >>> import numpy as np
    >>> from undercut import L2, LinearRisk, Squared, minimize
    >>> risk = LinearRisk(np.eye(2), np.array([1.0, -1.0]), Squared())
    >>> minimize(risk, L2(0.5), Lbfgs()).w.round(3)
    array([ 0.5, -0.5])
    """

    needs_convex = False

    memory: int = 10

    def __post_init__(self) -> None:
        require(self.memory >= 1, "`memory` must be at least 1", self.memory)

    @override
    def certificate(self, risk: Risk) -> Certificate:
        return "global" if risk.is_convex else "none"

    @override
    def init(self, risk: Risk, reg: QuadraticRegularizer, w0: FloatArray) -> LbfgsState:
        cut = risk.cut(w0)
        objective = reg.value(w0) + cut.value
        bound = _proved(risk, reg, cut, objective, -np.inf)
        progress = Progress(0, objective, bound, n_evaluations=1)
        return LbfgsState(w0, reg.gradient(w0) + cut.a, (), (), progress)

    @override
    def step(self, risk: Risk, reg: QuadraticRegularizer, state: LbfgsState) -> LbfgsState:
        last, w, gradient = state.progress, state.solution, state.gradient
        evaluate = _Objective(risk, reg)

        # 1. The quasi-Newton direction, steepest descent while there is no memory.
        direction = -gradient / max(1.0, float(np.linalg.norm(gradient)))
        if state.moves:
            direction = _quasi_newton(state.moves, state.changes, gradient)

        # 2. A step that obeys the Wolfe conditions if there is one; without any, forget the curvature and start over.
        t = _step_length(evaluate, w, direction, gradient, last.objective)
        if t is None:
            progress = Progress(
                last.step + 1, last.objective, last.lower_bound, last.n_evaluations + evaluate.count, n_cuts=0
            )
            return LbfgsState(w, gradient, (), (), progress, is_stuck=not state.moves)
        solution = w + t * direction
        objective, new_gradient, cut = evaluate(solution)

        # 3. Remember the curvature met on the way, and what the newest plane proves.
        moves, changes = state.moves, state.changes
        move, change = solution - w, new_gradient - gradient
        if _is_curved(move, change):
            moves, changes = (*moves, move)[-self.memory :], (*changes, change)[-self.memory :]
        if risk.is_convex:
            check_plane(cut, w, last.objective, reg.value(w))
        lower_bound = _proved(risk, reg, cut, objective, last.lower_bound)
        progress = Progress(last.step + 1, objective, lower_bound, last.n_evaluations + evaluate.count)
        return LbfgsState(solution, new_gradient, moves, changes, progress)

    @override
    def ended(self, state: LbfgsState) -> Status | None:
        return Status.STALLED if state.is_stuck else None


def _proved(risk: Risk, reg: QuadraticRegularizer, cut: Cut, objective: float, last: float) -> float:
    """The bound of the newest plane, if it is higher than the last; there is none unless the risk is convex."""
    return tighter(last, cut_bound(risk, reg, cut), objective, cut_size(cut)) if risk.is_convex else -np.inf


def _is_curved(move: FloatArray, change: FloatArray) -> bool:
    """Whether the gradient changed along a move by more than rounding, and by a number that can be squared."""
    with np.errstate(over="ignore", invalid="ignore"):
        along, square = float(move @ change), float(change @ change)
    return 0.0 < along < np.inf and 0.0 < square < np.inf and 0.0 < along / square < np.inf and 1.0 / along < np.inf


def _quasi_newton(moves: Sequence[FloatArray], changes: Sequence[FloatArray], gradient: FloatArray) -> FloatArray:
    """``-H gradient`` by the two loops of Nocedal (1980).

    H is ``<s, y> / <y, y>`` times the identity for the newest move s and change y, updated by every pair in turn:
    ``H <- (I - rho s y') H (I - rho y s') + rho s s'`` with ``rho = 1 / <s, y>``.
    """
    direction = -gradient
    rho = [1.0 / float(y @ s) for s, y in zip(moves, changes, strict=True)]
    steps = list(zip(moves, changes, rho, strict=True))
    shares = []
    for s, y, r in reversed(steps):
        shares.append(r * float(s @ direction))
        direction -= shares[-1] * y
    direction *= 1.0 / (rho[-1] * float(changes[-1] @ changes[-1]))
    for (s, y, r), share in zip(steps, reversed(shares), strict=True):
        direction += (share - r * float(y @ direction)) * s
    return direction


def _step_length(
    evaluate: _Objective, w: FloatArray, direction: FloatArray, gradient: FloatArray, objective: float
) -> float | None:
    """SciPy's Wolfe step; where it finds none, or J overflows on the way, a step of plain sufficient decrease."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LineSearchWarning)
        try:
            t = line_search(evaluate.value, evaluate.gradient, w, direction, gradient, objective, maxiter=30)[0]
        except _OverflowError:
            t = None
    if t is not None:
        return float(t)
    slope = float(gradient @ direction)
    trials = (0.5**k for k in range(80))
    return next((t for t in trials if evaluate.finite_value(w + t * direction) < objective + 1e-4 * t * slope), None)


class _OverflowError(ArithmeticError):
    """J is too large for a float."""


class _Objective:
    """J and its gradient for SciPy, which asks for them one at a time at the same point."""

    def __init__(self, risk: Risk, reg: QuadraticRegularizer) -> None:
        self.risk, self.reg = risk, reg
        self.count = 0
        self._last: tuple[FloatArray, tuple[float, FloatArray, Cut]] | None = None

    def __call__(self, w: FloatArray) -> tuple[float, FloatArray, Cut]:
        if self._last is None or not np.array_equal(self._last[0], w):
            self.count += 1
            try:
                cut = self.risk.cut(w)
            except NonfiniteError as error:
                if self.risk.value(w) == np.inf:
                    raise _OverflowError from error
                raise
            self._last = w.copy(), (self.reg.value(w) + cut.value, self.reg.gradient(w) + cut.a, cut)
        return self._last[1]

    def value(self, w: FloatArray) -> float:
        return self(w)[0]

    def gradient(self, w: FloatArray) -> FloatArray:
        return self(w)[1]

    def finite_value(self, w: FloatArray) -> float:
        """J, or infinity where it overflows."""
        try:
            return self(w)[0]
        except _OverflowError:
            return np.inf
