"""Traces as files of JSON lines, written while the run goes on.

The first line says what is solved and by whom, each following one is a step, and the last one of each problem says how
its run ended:

    {"undercut": "0.1.0", "data": "train.svm", "risk": "LinearRisk", "regularizer": "L2(lam=0.001)", ...}
    {"problem": "class 3", "step": 0, "objective": 1.0, ...}
    {"problem": "class 3", "status": "CONVERGED", "certificate": "global"}
"""

from __future__ import annotations

import importlib
import json
import warnings
from collections.abc import Mapping
from threading import Lock
from typing import Any

from undercut.trace import Progress, Result, Run, row_as_json
from undercut.types import FilePath


class TraceFile:
    """A callback that writes every step to a file at once, so that ``tail -f`` shows them.

    ``about`` is added to the first line.  A fit that is resumed writes the steps before it again.

    >>> import tempfile
    >>> from undercut import FunctionRisk, L2, minimize
    >>> from undercut.trace import read_traces
    >>> risk = FunctionRisk(lambda w: (float(w @ w), 2 * w), n_params=2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     result = minimize(risk, L2(1.0), callbacks=[TraceFile(f"{folder}/run.jsonl")])
    ...     read_traces(f"{folder}/run.jsonl") == {"": result.trace}
    True
    """

    def __init__(self, path: FilePath, about: Mapping[str, Any] | None = None) -> None:
        self.path, self.about = path, dict(about or {})

    def __call__(self, progress: Progress) -> None:
        """A step is written by the part of a session that it belongs to."""

    def session(self) -> TraceSession:
        """A new file."""
        return TraceSession(self.path, self.about)

    def __repr__(self) -> str:
        return f"TraceFile({str(self.path)!r})"


class TraceSession:
    """The file of one fit."""

    done: Mapping[str, float] = {}

    def __init__(self, path: FilePath, about: dict[str, Any]) -> None:
        self._file = open(path, "w", encoding="utf-8")  # noqa: SIM115  (closed at the end of the fit)
        self._about = about
        self._lock = Lock()
        self._is_full = self._has_begun = False

    def part(self, problem: str) -> TracePart:
        """The lines of one problem."""
        return TracePart(self, problem)

    def close(self) -> None:
        """The fit is over."""
        self._file.close()

    def __del__(self) -> None:  # of a fit that an error ended
        self._file.close()

    def begin(self, about: Mapping[str, Any]) -> None:
        """Write the first line, unless it is there."""
        with self._lock:
            if not self._has_begun:
                self._has_begun = True
                version = str(importlib.import_module("undercut").__version__)
                self._write({"undercut": version, **about, **self._about})

    def write(self, line: Mapping[str, Any]) -> None:
        """One line, at once; a full disk ends the trace, not the run."""
        with self._lock:
            self._write(line)

    def _write(self, line: Mapping[str, Any]) -> None:
        if self._is_full or self._file.closed:
            return
        try:
            self._file.write(json.dumps(line, default=str) + "\n")
            self._file.flush()
        except OSError as error:
            self._is_full = True
            warnings.warn(
                f"cannot write the trace to {self._file.name}: {error}; the run goes on without it",
                RuntimeWarning,
                stacklevel=2,
            )


class TracePart:
    """The callback of one run."""

    def __init__(self, session: TraceSession, problem: str) -> None:
        self._session = session
        self._about = {"problem": problem} if problem else {}
        self._count = 0

    def started(self, run: Run) -> None:
        """The first line, and the steps of a run that is resumed."""
        parts = {"regularizer": run.reg, "solver": run.solver, "stop": run.stop}
        about = {"risk": type(run.risk).__name__, "n_params": run.risk.n_params}
        self._session.begin(about | {name: _short(part) for name, part in parts.items()})
        for progress in run.trace:
            self(progress)

    def __call__(self, progress: Progress) -> None:
        self._count += 1
        self._session.write(self._about | row_as_json(progress))

    def ended(self, result: Result) -> None:
        """How the run ended, after what its last move has added."""
        for progress in result.trace[self._count :]:
            self(progress)
        self._session.write(self._about | {"status": result.status.name, "certificate": result.certificate})


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 200 else type(value).__name__
