"""Runs of one solver on one risk for several lambdas, each from the state of the last one.

Planes of the risk, scores and dual points do not depend on lambda, so they are carried along.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, final

from typing_extensions import override

from undercut.contracts import QuadraticRegularizer, Regularizer, Risk, SmoothRisk, Solver, State
from undercut.solvers import minimize
from undercut.solvers.auto import resolve
from undercut.solvers.choice.conditions import is_strongest
from undercut.solvers.driver import Stop
from undercut.solvers.registry import AnySolver
from undercut.trace import Certificate, Progress, Result, Status
from undercut.types import FloatArray

Decide = Callable[[State], bool]  # whether a state is good enough, whatever its gap


def never(state: State) -> bool:
    """No state is good enough before its gap is."""
    return False


@final
@dataclass(eq=False)
class Carried(Solver[State, Risk, Regularizer]):
    """A solver that begins where its last run ended, which it remembers."""

    solver: AnySolver
    last: Any = None
    decide: Decide = never

    def __post_init__(self) -> None:
        self.may_stall = self.solver.may_stall  # type: ignore[misc]  # as the solver says

    @property
    @override
    def name(self) -> str:
        return self.solver.name

    @override
    def check(self, risk: Risk, reg: Regularizer) -> None:
        self.solver.check(risk, reg)

    @override
    def certificate(self, risk: Risk) -> Certificate:
        return self.solver.certificate(risk)

    @override
    def init(self, risk: Risk, reg: Regularizer, w0: FloatArray) -> State:
        if self.last is None:
            return self._remembered(self.solver.init(risk, reg, w0))
        return self._remembered(self.solver.carry(risk, reg, self.last))

    @override
    def step(self, risk: Risk, reg: Regularizer, state: State) -> State:
        return self._remembered(self.solver.step(risk, reg, state))

    @override
    def ended(self, state: State) -> Status | None:
        return self.solver.ended(state) or (Status.DECIDED if self.decide(state) else None)

    @override
    def finish(self, risk: Risk, reg: Regularizer, state: State) -> State:
        return self._remembered(self.solver.finish(risk, reg, state))

    @override
    def remark(self, state: State) -> str:
        return self.solver.remark(state)

    def _remembered(self, state: State) -> State:
        self.last = state
        return state


class Start(NamedTuple):
    """The solution of one regularizer as a first point for another."""

    solution: FloatArray
    progress: Progress

    def as_result(self) -> Result:
        """The result of a run that is over before its first step."""
        at = self.progress
        return Result(self.solution, at.objective, at.lower_bound, "global", Status.DECIDED, [at])


class WarmRuns:
    """Minimizes ``reg + risk`` for one regularizer after the other.

    >>> import numpy as np
    >>> from undercut import Hinge, L2, LinearRisk
    >>> runs = WarmRuns(LinearRisk(np.array([[2.0, 0.0], [0.0, 1.0]]), np.array([1.0, -1.0]), Hinge()))
    >>> [round(runs(L2(lam)).objective, 6) for lam in (0.1, 0.05)]
    [0.0625, 0.03125]
    """

    def __init__(self, risk: Risk, solver: AnySolver | str = "auto", w0: FloatArray | None = None) -> None:
        self.risk, self.w0 = risk, w0
        self._given = solver
        self._solver: Carried | None = None
        self._last: tuple[Regularizer, Result] | None = None
        self._is_open = True  # whether the solver in hand may be the wrong one for the next lambda

    def __call__(self, reg: Regularizer, stop: Stop | None = None, decide: Decide = never) -> Result:
        """The solution for the next regularizer; ``decide`` may end the run before its gap is reached, or begins."""
        start = self.start(reg)
        if start is not None and decide(start):
            return start.as_result()
        result = self._run(reg, stop, decide)
        self._last = reg, result
        return result

    def start(self, reg: Regularizer) -> Start | None:
        """What the last run says about another regularizer; ``None`` where there was none."""
        if self._last is None:
            return None
        before, last = self._last
        objective = last.objective - before.value(last.w) + reg.value(last.w)
        bound = min(self._bound(before, last.lower_bound, reg), objective)
        return Start(last.w, Progress(0, objective, bound, solver=last.trace[-1].solver if last.trace else ""))

    def _bound(self, before: Regularizer, lower_bound: float, reg: Regularizer) -> float:
        """For a weaker ``reg``: the optimum is concave in lambda, and at lambda 0 at least the least risk."""
        floor = self.risk.lower_bound
        if not 0.0 < reg.strong_convexity <= before.strong_convexity or not math.isfinite(floor):
            return -math.inf
        return floor + reg.strong_convexity / before.strong_convexity * (lower_bound - floor)

    def _run(self, reg: Regularizer, stop: Stop | None, decide: Decide) -> Result:
        solver = self._chosen(reg, (stop or Stop()).usual)
        solver.decide = decide
        w0 = self.w0 if self._last is None else self._last[1].w
        return minimize(self.risk, reg, solver, w0=w0, stop=stop)

    def _chosen(self, reg: Regularizer, gap_rel: float) -> Carried:
        """The solver in hand, unless it may be the wrong one for this lambda."""
        if self._solver is None or self._is_open:
            solver = resolve(self._given, self.risk, reg, gap_rel)
            if self._solver is None or solver != self._solver.solver:
                self._solver = Carried(solver)
            self._is_open = _is_open(self.risk, reg)
        return self._solver


def _is_open(risk: Risk, reg: Regularizer) -> bool:
    """Whether the choice for this lambda says nothing about smaller ones, or a solution is all there is to carry.

    Planes are kept: they need few more at the next lambda, where a fit of its own would need many.
    """
    is_smooth = isinstance(risk, SmoothRisk) and isinstance(reg, QuadraticRegularizer)
    return is_smooth or is_strongest(risk, reg)
