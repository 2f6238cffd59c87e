"""Runs of one solver on one risk for several lambdas, each from the state of the last one.

Planes of the risk, scores and dual points do not depend on lambda, so they are carried along.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, final

from typing_extensions import override

from undercut.contracts import Regularizer, Risk, Solver, State
from undercut.solvers import minimize
from undercut.solvers.auto import resolve
from undercut.solvers.driver import Stop
from undercut.solvers.registry import AnySolver
from undercut.trace import Callback, Certificate, Result, Status
from undercut.types import FloatArray


@dataclass
class Memory:
    """The state of the last run."""

    state: Any = None


@final
@dataclass(frozen=True)
class Carried(Solver[State, Risk, Regularizer]):
    """A solver that begins where its memory ends, and remembers every step."""

    solver: AnySolver
    memory: Memory = field(default_factory=Memory)

    def __post_init__(self) -> None:
        object.__setattr__(self, "may_stall", self.solver.may_stall)

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
        last = self.memory.state
        return self._remembered(self.solver.init(risk, reg, w0) if last is None else self.carry(risk, reg, last))

    @override
    def carry(self, risk: Risk, reg: Regularizer, state: State) -> State:
        carried: State = self.solver.carry(risk, reg, state)
        return carried

    @override
    def step(self, risk: Risk, reg: Regularizer, state: State) -> State:
        return self._remembered(self.solver.step(risk, reg, state))

    @override
    def ended(self, state: State) -> Status | None:
        return self.solver.ended(state)

    @override
    def finish(self, risk: Risk, reg: Regularizer, state: State) -> State:
        return self._remembered(self.solver.finish(risk, reg, state))

    @override
    def remark(self, state: State) -> str:
        return self.solver.remark(state)

    def _remembered(self, state: State) -> State:
        self.memory.state = state
        return state


class WarmRuns:
    """Minimizes ``reg + risk`` for one regularizer after the other, from strong to weak.

    >>> import numpy as np
    >>> from undercut import Hinge, L2, LinearRisk
    >>> runs = WarmRuns(LinearRisk(np.array([[2.0, 0.0], [0.0, 1.0]]), np.array([1.0, -1.0]), Hinge()))
    >>> [round(runs(L2(lam)).objective, 4) for lam in (0.1, 0.05)]
    [0.0625, 0.0312]
    """

    def __init__(self, risk: Risk, solver: AnySolver | str = "auto") -> None:
        self.risk = risk
        self._given = solver
        self._solver: Carried | None = None

    def __call__(self, reg: Regularizer, stop: Stop | None = None, callbacks: tuple[Callback, ...] = ()) -> Result:
        """The solution for the next regularizer."""
        if self._solver is None:
            self._solver = Carried(resolve(self._given, self.risk, reg))
        return minimize(self.risk, reg, self._solver, stop=stop, callbacks=callbacks)
