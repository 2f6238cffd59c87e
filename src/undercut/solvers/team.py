"""What solvers that are made of other solvers share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from typing_extensions import override

from undercut.contracts import Regularizer, Risk, Solver, State
from undercut.errors import require
from undercut.trace import Certificate

S = TypeVar("S", bound=State)


@dataclass(frozen=True, kw_only=True)
class Team(Solver[S, Risk, Regularizer]):
    """Solvers of one problem, each of which must be able to solve it alone."""

    may_stall: ClassVar[bool] = False  # the candidates are watched one by one

    candidates: tuple[Solver[Any, Any, Any], ...]

    def __post_init__(self) -> None:
        require(len(self.candidates) >= 1, "`candidates` must name at least one solver", self.candidates)

    @override
    def check(self, risk: Risk, reg: Regularizer) -> None:
        for solver in self.candidates:
            solver.check(risk, reg)

    @override
    def certificate(self, risk: Risk) -> Certificate:
        return self.candidates[0].certificate(risk)
