"""What a solver is: settings, a state, and one step from state to state."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Generic, Protocol, TypeVar, get_args

from undercut.contracts.regularizer import QuadraticRegularizer, Regularizer
from undercut.contracts.risk import LineRisk, MajorizedRisk, Risk, SmoothRisk
from undercut.errors import CapabilityError
from undercut.trace import Certificate, Progress, Status
from undercut.types import FloatArray


class State(Protocol):
    """What every state carries: the best solution so far and the numbers that describe it."""

    @property
    def solution(self) -> FloatArray: ...
    @property
    def progress(self) -> Progress: ...


RISK_KINDS: dict[type, str] = {  # the need, the lack and the remedy; subtypes first
    SmoothRisk: "a smooth risk with a Hessian, and {} is not smooth: use CuttingPlane",
    LineRisk: "a risk with an exact line search, and {} has no `along(w, direction)`: use CuttingPlane",
    MajorizedRisk: (
        "a risk with a convex and a concave part, and {} has no `majorizer(w)`: "
        "make it a DifferenceRisk, or use NonconvexBundle"
    ),
}


def is_smooth(risk: Risk) -> bool:
    """Whether a risk has second derivatives."""
    return isinstance(risk, SmoothRisk) and getattr(risk, "is_smooth", True)


def _is_a(risk: Risk, kind: type) -> bool:
    return is_smooth(risk) if kind is SmoothRisk else isinstance(risk, kind)


S = TypeVar("S", bound=State)
K = TypeVar("K", bound=Risk)
G = TypeVar("G", bound=Regularizer)


class Solver(ABC, Generic[S, K, G]):
    """An iterative method; its fields are settings, everything that changes is in the state.

    The types of risk and regularizer it is written for say what it needs: ``Solver[MyState, LineRisk, L2]`` takes no
    risk without a line search.  A problem that does not offer it is refused before the first pass over the data.
    """

    risk_type: ClassVar[type] = Risk
    reg_type: ClassVar[type] = Regularizer
    needs_convex: ClassVar[bool] = True
    may_stall: ClassVar[bool] = True  # a run without any change for long is over

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for base in cls.__dict__.get("__orig_bases__", ()):
            types = get_args(base)
            if len(types) == 3 and isinstance(types[1], type) and isinstance(types[2], type):
                cls.risk_type, cls.reg_type = types[1:]

    def certificate(self, risk: K) -> Certificate:
        """What the lower bound of a run on this risk is worth."""
        return "global"

    @abstractmethod
    def init(self, risk: K, reg: G, w0: FloatArray) -> S:
        """The state before the first step; ``w0`` is where the search starts."""

    @abstractmethod
    def step(self, risk: K, reg: G, state: S) -> S:
        """One iteration as published.  ``state`` stays valid if the step is interrupted."""

    def ended(self, state: S) -> Status | None:
        """The status with which the method itself declares the run over, ``None`` to go on."""
        return None

    def finish(self, risk: K, reg: G, state: S) -> S:
        """The state to report once the run is over."""
        return state

    def remark(self, state: S) -> str:
        """What a user should know about the solution beyond the status."""
        return ""

    def check(self, risk: Risk, reg: Regularizer) -> None:
        """Raise ``CapabilityError`` if the method cannot handle this problem, before the first pass over the data."""
        solver, given, penalty = type(self).__name__, type(risk).__name__, type(reg).__name__
        if self.needs_convex and not risk.is_convex:
            raise CapabilityError(
                f"{solver} needs a convex risk, and {given} says it is not: its planes may cut through the risk; "
                "use NonconvexBundle, or declare the risk convex if it is after all"
            )
        for kind, lack in RISK_KINDS.items():
            if kind in self.risk_type.__mro__ and not _is_a(risk, kind):
                raise CapabilityError(f"{solver} needs {lack.format(given)}")
        if issubclass(self.reg_type, QuadraticRegularizer) and not isinstance(reg, QuadraticRegularizer):
            raise CapabilityError(
                f"{solver} needs a quadratic regularizer, and {penalty} is not: use L2, or LevelBundle as the solver"
            )
        if reg.strong_convexity <= 0.0 and not reg.is_proximal:
            raise CapabilityError(
                f"{solver} needs a regularizer that is strongly convex or knows its proximal form, and {penalty} is "
                "neither: implement `near`"
            )
        if not reg.has_finite_dual and risk.lower_bound == -math.inf:
            raise CapabilityError(
                f"{penalty} needs a risk with a known lower bound, and {given} has none: without it the model has no "
                "minimum; set `lower_bound`, bound w by Boxed, or use ElasticNet"
            )
