"""A run as a checkpoint holds it: the state between two steps, the trace so far, and the problem that it belongs to."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np

from undercut.errors import CheckpointError
from undercut.io.checkpoint import DAMAGE
from undercut.solvers.saving.fingerprint import Fingerprints, differences
from undercut.solvers.saving.snapshot import Decoder, Encoder, Problem
from undercut.trace import TEXTS, Certificate, Progress, Result, Status
from undercut.types import Array, FloatArray

NUMBERS = [entry.name for entry in fields(Progress) if entry.name not in TEXTS]
COUNTS = {entry.name for entry in fields(Progress) if entry.type == "int"}


@dataclass(frozen=True)
class SavedRun:
    """JSON and arrays."""

    header: dict[str, Any]
    arrays: dict[str, Array]
    path: str = ""  # where it was read

    @property
    def trace(self) -> list[Progress]:
        """The steps so far."""
        texts, rows = self.header["texts"], zip(self.arrays["trace"], self.arrays["text"], strict=True)
        return [_row(numbers, *texts[at]) for numbers, at in rows]

    @property
    def status(self) -> Status | None:
        """How the run ended, ``None`` if it was stopped or killed."""
        name = self.header["status"]
        return None if name is None else Status[name]

    @property
    def seconds(self) -> float:
        """How long it has run."""
        return float(self.header["seconds"])

    def check(self, problem: dict[str, str]) -> None:
        """``CheckpointError`` unless it is the run of this problem."""
        if found := differences(self.header["problem"], problem):
            raise CheckpointError(f"{self.path} holds a run of another problem: {found}")

    def finished(self) -> Result | None:
        """The result, if only that was kept."""
        kept = self.header.get("result")
        if kept is None:
            return None
        status, certificate = Status[kept["status"]], kept["certificate"]
        return Result(
            self.arrays["w"], kept["objective"], kept["lower_bound"], certificate, status, self.trace, kept["detail"]
        )

    def state(self, problem: Problem, callbacks: list[Any]) -> Any:
        """The state between two steps; what the problem's own objects and some callbacks remembered is put back."""
        try:
            decoder = Decoder(problem, self.arrays)
            for path, held in self.header["carried"].items():
                _put_back(decoder, held, problem.at(path))
            for callback, held in zip(callbacks, self.header["callbacks"], strict=False):
                _put_back(decoder, held, callback)
            return decoder.value(self.header["state"])
        except DAMAGE as error:
            raise CheckpointError(f"the state of the run cannot be made again: {error}") from error


class Moment(NamedTuple):
    """A run between two steps."""

    state: Any
    trace: list[Progress]
    status: Status | None
    watch: Any  # numbers of the driver
    callbacks: list[Any]  # those that remember something


def saved_run(problem: Problem, fingerprint: dict[str, str], at: Moment) -> SavedRun:
    """A copy of everything that the rest of a run depends on."""
    encoder = Encoder(problem)
    header = {
        "problem": fingerprint,
        "status": None if at.status is None else at.status.name,
        "state": encoder.tree(at.state),
        "carried": {path: _carried(encoder, value) for path, value in problem.carried()},
        "callbacks": [_carried(encoder, callback) for callback in at.callbacks],
        "watch": at.watch,
    }
    return SavedRun(header | _about(at.trace), encoder.arrays | _columns(at.trace))


def _carried(encoder: Encoder, value: Any) -> dict[str, Any]:
    """What an object remembers, by the names in its class."""
    return {name: encoder.tree(getattr(value, name)) for name in type(value).carried}


def _put_back(decoder: Decoder, held: dict[str, Any], value: Any) -> None:
    for name in type(value).carried:
        object.__setattr__(value, name, decoder.value(held[name]))


def saved_result(run: SavedRun, result: Result) -> SavedRun:
    """The result alone of a run that is over."""
    kept = {name: getattr(result, name) for name in ("objective", "lower_bound", "certificate", "detail")}
    header = {name: run.header[name] for name in ("problem", "status")} | _about(result.trace)
    return SavedRun(
        header | {"result": kept | {"status": result.status.name}}, _columns(result.trace) | {"w": result.w.copy()}
    )


def fingerprint_of(risk: Any, reg: Any, solver: Any, known: Fingerprints | None = None) -> dict[str, str]:
    """What must be the same when a run is resumed."""
    return (known or Fingerprints()).of(risk=risk, reg=reg, solver=solver)


def _about(trace: list[Progress]) -> dict[str, Any]:
    """What a reader wants to know first, and the texts of the trace."""
    last = trace[-1] if trace else Progress()
    texts = sorted({(row.certificate, row.solver) for row in trace})
    about = {name: getattr(last, name) for name in ("step", "objective", "lower_bound", "seconds", *TEXTS)}
    return about | {"texts": texts}


def _columns(trace: list[Progress]) -> dict[str, Array]:
    texts = sorted({(row.certificate, row.solver) for row in trace})
    numbers = np.array([[getattr(row, name) for name in NUMBERS] for row in trace], dtype=np.float64)
    at = np.array([texts.index((row.certificate, row.solver)) for row in trace], dtype=np.int64)
    return {"trace": numbers.reshape(len(trace), len(NUMBERS)), "text": at}


def _row(numbers: FloatArray, certificate: Certificate, solver: str) -> Progress:
    values: dict[str, Any] = dict(zip(NUMBERS, numbers.tolist(), strict=True))
    counts = {name: int(values[name]) for name in COUNTS}
    return Progress(**(values | counts), certificate=certificate, solver=solver)
