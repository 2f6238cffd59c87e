"""What a run reports: one ``Progress`` row per step, a ``Status`` at its end, and the ``Result``.

lower_bound  <=  min_w J(w)  <=  objective,        gap = objective - lower_bound

Where the risk is not convex ``lower_bound`` is the minimum of a model of J around the best point, and says nothing
about the optimum: the certificate is then ``"local"`` and the gap is called the model gap.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field, fields
from enum import Enum
from pathlib import Path
from typing import Any, Literal, TypeAlias

from undercut.errors import DataError
from undercut.types import FloatArray

Certificate = Literal["global", "local", "none"]
TEXTS = ("certificate", "solver")  # the fields of a row that are no numbers
BOUND_NAMES: dict[str, str] = {"global": "lower bound", "local": "model minimum", "none": "no bound"}


class Status(Enum):
    """How a run ended; the value tells the user what to do about it."""

    CONVERGED = "converged: the gap is within the tolerance"
    MAX_STEPS = (
        "the step limit was reached first: raise max_steps, loosen gap_rel, or use a larger lambda (a smaller C)"
    )
    MAX_EVALUATIONS = "the evaluation limit was reached first: raise max_evaluations, or loosen gap_rel"
    MAX_PASSES = "the pass limit was reached: raise max_passes for a better solution"
    MAX_SECONDS = (
        "the time limit was reached first: raise max_seconds, loosen gap_rel, or use a larger lambda (a smaller C)"
    )
    GUARANTEED = "the method's own guarantee holds: epsilon-optimal with probability 1 - delta"
    SETTLED = "the iterates move less than epsilon: use a smaller epsilon, or gap_rel alone"
    STALLED = (
        "rounding stops further progress: loosen gap_rel, scale the features, or use a larger lambda (a smaller C)"
    )
    STOPPED = (
        "stopped by a callback or Ctrl-C: the best solution so far is kept; "
        "continue from it with w0, warm_start or --start"
    )
    NONCONVEX = (
        "the risk is not what it declares: a plane or its lower_bound lies above a value already seen, so there is no "
        "bound; check the subgradient and lower_bound, or declare the risk not convex"
    )
    UNBOUNDED = (
        "the objective falls without end: check the sign of the risk and its lower_bound, or use a regularizer that "
        "grows faster"
    )
    NONFINITE = "the risk returned NaN or infinity: check the data and the risk, or use a larger lambda (a smaller C)"


@dataclass(frozen=True, slots=True)
class Progress:
    """One row of the trace."""

    step: int = 0
    objective: float = math.inf
    lower_bound: float = -math.inf
    n_evaluations: int = 0
    n_cuts: int = 0
    n_passes: float = 0.0
    n_descent: int = 0  # steps that improved the solution, where a method tells them apart
    n_null: int = 0  # steps that only improved the model
    n_null2: int = 0  # those whose plane had to be replaced (Do and Artières 2012, Alg. 6)
    seconds: float = 0.0
    certificate: Certificate = "global"
    solver: str = ""  # who made the step

    @property
    def gap(self) -> float:
        """How far the best solution is from the optimum, at most; from the model's minimum without convexity."""
        return self.objective - self.lower_bound

    @property
    def bound_name(self) -> str:
        """What ``lower_bound`` may be called."""
        return BOUND_NAMES[self.certificate]

    @property
    def gap_name(self) -> str:
        """What ``gap`` may be called."""
        return "model gap" if self.certificate == "local" else "gap"


Callback: TypeAlias = Callable[[Progress], bool | None]  # called with every step; True ends the run
Callbacks: TypeAlias = Sequence[Callback] | None


@dataclass(frozen=True)
class Result:
    """The best solution of a run and what is known about it.

    ``certificate`` says what ``lower_bound`` is worth: ``"global"`` bounds the optimum from below up to rounding,
    ``"local"`` belongs to a model of a non-convex risk, ``"none"`` is no bound at all.
    """

    w: FloatArray
    objective: float
    lower_bound: float
    certificate: Certificate
    status: Status
    trace: list[Progress] = field(repr=False)
    detail: str = ""

    @property
    def gap(self) -> float:
        return self.objective - self.lower_bound

    @property
    def n_evaluations(self) -> int:
        return self.trace[-1].n_evaluations if self.trace else 0

    @property
    def n_steps(self) -> int:
        return self.trace[-1].step if self.trace else 0

    @property
    def message(self) -> str:
        """The status in words, with what is known beyond it."""
        return f"{self.status.value} ({self.detail})" if self.detail else self.status.value


def write_trace(path: str | Path, trace: Iterable[Progress]) -> None:
    """Write one JSON object per step and line; an unknown bound is ``null``."""
    with open(path, "w", encoding="utf-8") as file:
        for row in trace:
            known = {key: None if value in (math.inf, -math.inf) else value for key, value in asdict(row).items()}
            gap = row.gap if math.isfinite(row.gap) else None
            file.write(json.dumps(known | {"gap": gap}) + "\n")


def read_trace(path: str | Path) -> list[Progress]:
    """Read what ``write_trace`` wrote; a malformed line is a ``DataError`` with file name and line number."""
    unknown = {"objective": math.inf, "lower_bound": -math.inf}
    names = [f.name for f in fields(Progress)]
    trace = []
    with open(path, encoding="utf-8", errors="replace") as file:
        for number, line in enumerate(file, start=1):
            try:
                row: dict[str, Any] = {"solver": ""} | json.loads(line)  # older traces do not name it
                known: dict[str, Any] = {name: unknown[name] if row[name] is None else row[name] for name in names}
                if known["certificate"] not in BOUND_NAMES:
                    raise ValueError(f"the certificate is one of {', '.join(BOUND_NAMES)}")
                if not isinstance(known["solver"], str):
                    raise ValueError("the solver is a name")
                if not all(type(known[name]) in (int, float) for name in names if name not in TEXTS):
                    raise ValueError("every other field is a number or null")
                trace.append(Progress(**known))
            except (ValueError, KeyError, TypeError) as error:
                raise DataError(f"{path}:{number}: not a row of a trace ({error})") from error
    return trace
