"""What a solver is: settings, a state, and one step from state to state."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Generic, Protocol, TypeVar, get_args

from undercut.contracts.regularizer import ProximalRegularizer, QuadraticRegularizer, Regularizer
from undercut.contracts.risk import CurvedRisk, LineRisk, MajorizedRisk, Risk, SmoothRisk
from undercut.errors import CapabilityError
from undercut.trace import Certificate, Progress, Status
from undercut.types import FloatArray


class State(Protocol):
    """What every state carries: the best solution so far and the numbers that describe it.

    A frozen dataclass will do.  The driver keeps the last state only.  A checkpoint holds all that it is made of:
    numbers, arrays, tuples, and classes of the solver's own module or of this library; what it shares with the risk,
    such as X, is not written.

    >>> from dataclasses import dataclass
    >>> import numpy as np
    >>> from undercut import Progress
    >>> @dataclass(frozen=True)
    ... class DescentState:
    ...     solution: np.ndarray
    ...     progress: Progress
    >>> DescentState(np.zeros(2), Progress(step=0, objective=1.0)).progress.objective
    1.0
    """

    @property
    def solution(self) -> FloatArray:
        """The best point so far: float64, shape (n_params,), not modified by later steps."""

    @property
    def progress(self) -> Progress:
        """Step, objective and bound at ``solution``, and the work so far; the driver adds the time."""


RISK_KINDS: dict[type, str] = {  # the need, the lack and the remedy; subtypes first
    SmoothRisk: "a smooth risk with a Hessian, and {} is not smooth: use CuttingPlane",
    CurvedRisk: "a smooth risk with Hessian products, and {} has no `curvature(w)`: use CuttingPlane",
    LineRisk: "a risk with an exact line search, and {} has no `along(w, direction)`: use CuttingPlane",
    MajorizedRisk: (
        "a risk with a convex and a concave part, and {} has no `majorizer(w)`: "
        "make it a DifferenceRisk, or use NonconvexBundle"
    ),
}


S = TypeVar("S", bound=State)
K = TypeVar("K", bound=Risk)
G = TypeVar("G", bound=Regularizer)


class Solver(ABC, Generic[S, K, G]):
    """An iterative method: a frozen dataclass of settings; everything that changes is in the state.

    The types of risk and regularizer it is written for say what it needs: ``Solver[MyState, LineRisk, L2]`` takes no
    risk without a line search.  ``check`` refuses a problem that lacks it before the first pass over the data.
    Callers give ``w0``, ``risk`` and ``reg`` for the length of a run; ``w0`` belongs to the solver.  A solver holds no
    data of a run, so any number of runs and threads may share one.

    >>> from dataclasses import dataclass
    >>> import numpy as np
    >>> from undercut import L2, FunctionRisk, Progress, minimize
    >>> from undercut.contracts import QuadraticRegularizer, Risk, Solver
    >>> @dataclass(frozen=True)
    ... class DescentState:
    ...     solution: np.ndarray
    ...     progress: Progress
    >>> @dataclass(frozen=True)
    ... class Descent(Solver[DescentState, Risk, QuadraticRegularizer]):
    ...     step_size: float = 0.1
    ...     def certificate(self, risk):
    ...         return "none"  # its progress carries no bound
    ...     def init(self, risk, reg, w0):
    ...         return DescentState(w0, Progress(0, reg.value(w0) + risk.value(w0), n_evaluations=1))
    ...     def step(self, risk, reg, state):
    ...         w = state.solution - self.step_size * (reg.gradient(state.solution) + risk.cut(state.solution).a)
    ...         step = state.progress.step + 1
    ...         return DescentState(w, Progress(step, reg.value(w) + risk.value(w), n_evaluations=2 * step + 1))
    >>> bowl = FunctionRisk(lambda w: (0.5 * float((w - 1.0) @ (w - 1.0)), w - 1.0), n_params=2)
    >>> minimize(bowl, L2(1.0), Descent()).w.round(3)
    array([0.5, 0.5])
    """

    risk_type: ClassVar[type] = Risk
    reg_type: ClassVar[type] = Regularizer
    needs_convex: ClassVar[bool] = True
    may_stall: ClassVar[bool] = True  # a run without any change for long is over
    pass_cost: ClassVar[float] = 1.0  # of one of ``Progress.n_passes``, in products with X

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for base in cls.__dict__.get("__orig_bases__", ()):
            types = get_args(base)
            if len(types) == 3 and isinstance(types[1], type) and isinstance(types[2], type):
                cls.risk_type, cls.reg_type = types[1:]

    @property
    def name(self) -> str:
        """What a trace calls the method."""
        return type(self).__name__

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

    def gives_way(self, state: S) -> bool:
        """Whether another solver, where there is one, is likely to get there sooner from here; it may go on itself."""
        return False

    def finish(self, risk: K, reg: G, state: S) -> S:
        """The state to report once the run is over."""
        return state

    def restored(self, risk: K, reg: G, state: S) -> S:
        """A state read from a checkpoint with the parts made again that follow from the problem.

        These are the attributes that a class names in ``derived``: a checkpoint holds ``None`` for them.
        """
        return state

    def remark(self, state: S) -> str:
        """What a user should know about the solution beyond the status."""
        return ""

    def carry(self, risk: K, reg: G, state: S) -> S:
        """The state before the first step with another ``reg``, from a run on the same risk that has ended.

        The planes of a risk do not depend on lambda.  ``state`` belongs to the new run.  A method that keeps more than
        its solution, such as planes, scores or a dual point, passes that on.
        """
        return self.init(risk, reg, state.solution)

    def check(self, risk: Risk, reg: Regularizer) -> None:
        """Raise ``CapabilityError`` if the method cannot handle this problem, before the first pass over the data."""
        solver, given, penalty = type(self).__name__, type(risk).__name__, type(reg).__name__
        if self.needs_convex and not risk.is_convex:
            raise CapabilityError(
                f"{solver} needs a convex risk, and {given} says it is not: its planes may cut through the risk; "
                "use NonconvexBundle, or declare the risk convex if it is after all"
            )
        for kind, lack in RISK_KINDS.items():
            if kind in self.risk_type.__mro__ and not isinstance(risk, kind):
                raise CapabilityError(f"{solver} needs {lack.format(given)}")
        if issubclass(self.reg_type, QuadraticRegularizer) and not isinstance(reg, QuadraticRegularizer):
            raise CapabilityError(
                f"{solver} needs a quadratic regularizer, and {penalty} is not: use L2, or LevelBundle as the solver"
            )
        if reg.strong_convexity <= 0.0 and not isinstance(reg, ProximalRegularizer):
            raise CapabilityError(
                f"{solver} needs a regularizer that is strongly convex or knows its proximal form, and {penalty} is "
                "neither: implement `near`"
            )
        if not reg.has_finite_dual and risk.lower_bound == -math.inf:
            raise CapabilityError(
                f"{penalty} needs a risk with a known lower bound, and {given} has none: without it the model has no "
                "minimum; set `lower_bound`, bound w by Boxed, or use ElasticNet"
            )
