"""What a run reports: one ``Progress`` row per step, a ``Status`` at its end, and the ``Result``.

lower_bound  <=  min_w J(w)  <=  objective,        gap = objective - lower_bound

Where the risk is not convex ``lower_bound`` is the minimum of a model of J around the best point, and says nothing
about the optimum: the certificate is then ``"local"`` and the gap is called the model gap.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from enum import Enum
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, runtime_checkable

from undercut.errors import DataError
from undercut.types import FloatArray

Certificate = Literal["global", "local", "none"]
TEXTS = ("certificate", "solver")  # the fields of a row that are no numbers
BOUND_NAMES: dict[str, str] = {"global": "lower bound", "local": "model minimum", "none": "no bound"}

LOCALLY_CONVERGED = (
    "converged: the model gap is within the tolerance, near a stationary point or on a plateau; a smaller gap_rel or "
    "another start may lead further down"
)


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
    DECIDED = (
        "a smaller gap cannot change the choice of lambda any more: use early='never' for accurate scores of all "
        "lambdas"
    )
    STALLED = (
        "rounding stops further progress: loosen gap_rel, scale the features, or use a larger lambda (a smaller C)"
    )
    STOPPED = (
        "stopped by a callback or a signal: the best solution so far is kept; "
        "continue with a checkpoint, or from the solution with w0, warm_start or --start"
    )
    NONCONVEX = (
        "the risk is not what it declares: a plane or its lower_bound lies above a value already seen, so there is no "
        "bound; check the subgradient and lower_bound, or declare the risk not convex"
    )
    UNBOUNDED = (
        "the objective falls without end: check the sign of the risk and its lower_bound, or use a regularizer that "
        "grows faster"
    )
    LOST = (
        "the cluster cannot answer any more: the best solution so far is kept; repair the cluster, and continue with a "
        "checkpoint, or from the solution with w0, warm_start or --start"
    )
    NONFINITE = "the risk returned NaN or infinity: check the data and the risk, or use a larger lambda (a smaller C)"


@dataclass(frozen=True)
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

    def changed(self, **fields: Any) -> Progress:
        """The row with other values of some fields; every step makes a few, and ``replace`` takes five times as long.

        >>> Progress(step=1, objective=2.0).changed(lower_bound=1.5).gap
        0.5
        """
        row = object.__new__(Progress)
        row.__dict__.update(self.__dict__, **fields)
        return row

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


class Run(NamedTuple):
    """What a callback may know before the first step."""

    risk: Any
    reg: Any
    solver: Any
    stop: Any
    trace: list[Progress]  # the steps so far, of a run that is resumed


@runtime_checkable
class Starting(Protocol):
    """A callback that is told about a run before its first step."""

    def started(self, run: Run) -> None:
        """Called once per run."""


@runtime_checkable
class Ending(Protocol):
    """A callback that is told how a run ended."""

    def ended(self, result: Result) -> None:
        """Called once per run, with the row that the last move may have added to the trace."""


@runtime_checkable
class Looking(Protocol):
    """A callback that looks at the solutions of a run, and may prefer an earlier one to the last."""

    def look(self, progress: Progress, solution: FloatArray) -> bool | None:
        """Called with every step in place of the callback itself; ``True`` ends the run."""

    def chosen(self, result: Result) -> Result:
        """The result to report."""


class Session(Protocol):
    """What a callback keeps during one fit, which may have several problems, and several at once.

    ``done`` are the seconds of the runs of a fit that is resumed, by the names of their problems.
    """

    @property
    def done(self) -> Mapping[str, float]: ...

    def part(self, problem: str) -> Callback:
        """The callback of one problem; names are different, and the same when a fit is repeated."""

    def close(self) -> None:
        """The fit is over."""


@runtime_checkable
class Recorder(Protocol):
    """A callback that records whole fits, such as a file does."""

    def session(self) -> Session:
        """A new fit begins."""


class _Same(NamedTuple):
    """The session of a callback that takes every step of every problem alike."""

    callback: Callback

    @property
    def done(self) -> Mapping[str, float]:
        return {}

    def part(self, problem: str) -> Callback:
        return self.callback

    def close(self) -> None:
        """Nothing was opened."""


def open_sessions(callbacks: Iterable[Any]) -> list[Session]:
    """The sessions of one fit, one per callback."""
    return [callback.session() if isinstance(callback, Recorder) else _Same(callback) for callback in callbacks]


def tell_start(callbacks: Iterable[Any], run: Run) -> None:
    """Tell the callbacks that want to know that a run begins."""
    for callback in callbacks:
        if isinstance(callback, Starting):
            callback.started(run)


def tell_step(callbacks: Iterable[Any], progress: Progress, solution: FloatArray) -> bool:
    """Tell every callback of a step; whether one of them wants to end the run."""
    asked = [
        callback.look(progress, solution) if isinstance(callback, Looking) else callback(progress)
        for callback in callbacks
    ]
    return any(asked)


def chosen(callbacks: Iterable[Any], result: Result) -> Result:
    """The result that the callbacks prefer."""
    for callback in callbacks:
        result = callback.chosen(result) if isinstance(callback, Looking) else result
    return result


def tell_end(callbacks: Iterable[Any], result: Result) -> None:
    """Tell the callbacks that want to know that a run is over."""
    for callback in callbacks:
        if isinstance(callback, Ending):
            callback.ended(result)


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
    interrupted: bool = False  # whether a signal ended the run
    baseline: float = math.inf  # the objective of a constant model, where it is known and not perfect

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
        is_local = self.status is Status.CONVERGED and self.certificate == "local"
        words = LOCALLY_CONVERGED if is_local else self.status.value
        return f"{words} ({self.detail})" if self.detail else words


def row_as_json(row: Progress) -> dict[str, Any]:
    """A row with its gap; an unknown bound is ``None``."""
    known = {key: None if value in (math.inf, -math.inf) else value for key, value in asdict(row).items()}
    return known | {"gap": row.gap if math.isfinite(row.gap) else None}


def write_trace(path: str | Path, trace: Iterable[Progress]) -> None:
    """Write one JSON object per step and line; an unknown bound is ``null``."""
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(row_as_json(row)) + "\n" for row in trace)


def read_trace(path: str | Path) -> list[Progress]:
    """Read the trace of the only problem of a fit, from which a run that found it a start is left out.

    A malformed line is a ``DataError`` with file name and line number.
    """
    traces = read_traces(path)
    if "" in traces:
        return traces[""]
    if len(traces) > 1:
        raise DataError(f"{path} holds the traces of {len(traces)} problems: read them with read_traces")
    return next(iter(traces.values()), [])


def read_traces(path: str | Path) -> dict[str, list[Progress]]:
    """Read the traces of a file by the names of their problems; a run whose bound was refuted has none.

    A malformed line is a ``DataError`` with file name and line number; a last line that is not complete, of a run that
    is being written or was killed, is left out.
    """
    traces: dict[str, list[Progress]] = {}
    with open(path, encoding="utf-8", errors="replace") as file:
        for number, line in enumerate(file, start=1):
            if not line.endswith("\n") and not line.rstrip().endswith("}"):
                break
            try:
                row: dict[str, Any] = json.loads(line)
                if "status" in row and row["certificate"] == "none":
                    traces[row.get("problem", "")] = [unproved(at) for at in traces.get(row.get("problem", ""), [])]
                elif "status" not in row and not (number == 1 and "undercut" in row):
                    traces.setdefault(row.get("problem", ""), []).append(_row(row))
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise DataError(f"{path}:{number}: not a row of a trace ({error})") from error
    return traces


def unproved(row: Progress) -> Progress:
    """The same numbers without the bound."""
    return row.changed(lower_bound=-math.inf, certificate="none")


def _row(given: dict[str, Any]) -> Progress:
    """One step; ``KeyError``, ``TypeError`` or ``ValueError`` say what is wrong with it."""
    unknown = {"objective": math.inf, "lower_bound": -math.inf}
    names = [f.name for f in fields(Progress)]
    row = {"solver": ""} | given  # older traces do not name it
    known: dict[str, Any] = {name: unknown[name] if row[name] is None else row[name] for name in names}
    if known["certificate"] not in BOUND_NAMES:
        raise ValueError(f"the certificate is one of {', '.join(BOUND_NAMES)}")
    if not isinstance(known["solver"], str):
        raise ValueError("the solver is a name")
    if not all(type(known[name]) in (int, float) for name in names if name not in TEXTS):
        raise ValueError("every other field is a number or null")
    return Progress(**known)
