"""Checkpoints: the whole state of a run, written to a file while the run goes on."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import Any

from undercut.errors import CheckpointError, require
from undercut.io.checkpoint import (
    Content,
    check_writable,
    named_parts,
    read_checkpoint,
    read_header,
    write_checkpoint,
)
from undercut.solvers.saving.fingerprint import Fingerprints
from undercut.solvers.saving.saved_run import SavedRun, saved_result
from undercut.trace import Progress, Result, Status
from undercut.types import FilePath

CHEAP = 20.0  # times the cost of a write: so long after the last one a finished problem is written at once


class Checkpoint:
    """A callback that keeps a file from which a run can go on, of a fit with several problems too.

    The file is written before the first step, every ``every`` seconds and at the end, in one piece: whatever ends the
    process, the file is as it was at most ``every`` seconds and a step before.  With ``resume=True`` a fit goes on from
    the file if there is one, with ``resume=other`` from another file, which must be there.

    >>> import tempfile
    >>> from undercut import Hinge, L2, LinearRisk, Stop, minimize
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> risk, reg = LinearRisk(rng.normal(size=(300, 7)), rng.choice([-1.0, 1.0], 300), Hinge()), L2(1e-3)
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = f"{folder.name}/run.ck"
    >>> solver = "line_search_bundle"
    >>> first = minimize(risk, reg, solver, stop=Stop(max_steps=5), callbacks=[Checkpoint(path)])
    >>> second = minimize(risk, reg, solver, resume=path)
    >>> whole = minimize(risk, reg, solver)
    >>> (first.n_steps, second.n_steps) == (5, whole.n_steps), second.lower_bound == whole.lower_bound
    (True, True)
    >>> folder.cleanup()
    """

    def __init__(self, path: FilePath, every: float = 60.0, *, resume: bool | FilePath = False) -> None:
        require(every >= 0.0, "`every` must be a non-negative number of seconds", every)
        self.path, self.every, self.resume = Path(path), every, resume

    def __call__(self, progress: Progress) -> None:
        """A step is no news: the driver offers the whole state to the parts of a session."""

    def session(self) -> CheckpointSession:
        """What keeps the file during one fit."""
        if isinstance(self.resume, bool):
            runs = load_runs(self.path) if self.resume and self.path.exists() else None
        else:
            runs = load_runs(self.resume)
        return CheckpointSession(self.path, self.every, runs)

    def __repr__(self) -> str:
        return f"Checkpoint({str(self.path)!r}, every={self.every:g})"


class CheckpointSession:
    """The file of one fit, and the runs in it by the names of their problems."""

    def __init__(self, path: Path, every: float, runs: dict[str, SavedRun] | None) -> None:
        self.path, self.every = path, every
        self.fingerprints = Fingerprints()
        self.runs = {} if runs is None else runs
        self._is_ours = runs is not None  # what is in the file may be replaced
        self._lock = Lock()
        self._written = 0  # times
        self._at = self._cost = 0.0
        self._pending = False

    @property
    def done(self) -> dict[str, float]:
        """The seconds of the runs in the file."""
        return {name: run.seconds for name, run in self.runs.items()}

    def part(self, problem: str) -> CheckpointPart:
        """The run of one problem."""
        return CheckpointPart(self, problem)

    def claim(self, resumed: SavedRun | None, name: str) -> SavedRun | None:
        """The run to go on with; refuses to replace a file that holds something else."""
        with self._lock:
            if resumed is not None:
                self.runs[name] = resumed
            elif not self._is_ours:
                check_free(self.path)
            if not self._is_ours:
                check_writable(self.path, "checkpoint")
            self._is_ours = True
            return self.runs.get(name)

    def keep(self, name: str, run: SavedRun, *, now: bool) -> None:
        """Hold a run; write the file ``now``, or if that is cheap."""
        with self._lock:
            self.runs[name] = run
            self._pending = True
            if now or time.perf_counter() - self._at >= min(self.every, CHEAP * self._cost):
                self._write()

    def close(self) -> None:
        """The fit is over."""
        with self._lock:
            if self._pending:
                self._write()

    def _write(self) -> None:
        began = time.perf_counter()
        header = {"runs": {name: run.header for name, run in self.runs.items()}}
        arrays = {
            f"{at}/{key}": array for at, run in enumerate(self.runs.values()) for key, array in run.arrays.items()
        }
        try:
            write_checkpoint(self.path, Content(header, arrays))
        except OSError as error:
            if not self._written:  # nothing is lost yet
                raise
            warnings.warn(
                f"{error}; the last checkpoint is as it was, and the run goes on", RuntimeWarning, stacklevel=2
            )
        self._written += 1
        self._pending = False
        if set(self.runs) == {""}:  # the only run is on the disk, and the next write replaces it
            self.runs = {}
        self._at = time.perf_counter()
        self._cost = self._at - began


class CheckpointPart:
    """The callback of one run."""

    def __init__(self, session: CheckpointSession, name: str) -> None:
        self._session, self._name = session, name
        self._due = 0.0

    def __call__(self, progress: Progress) -> None:
        """A step is no news: the driver offers the whole state."""

    @property
    def fingerprints(self) -> Fingerprints:
        """Those of the fit."""
        return self._session.fingerprints

    def claim(self, resumed: SavedRun | None) -> SavedRun | None:
        """Where the run goes on: at ``resumed``, or at what the file holds of it."""
        return self._session.claim(resumed, self._name)

    def offer(self, take: Callable[[], SavedRun]) -> None:
        """Save the run if it is time."""
        if time.perf_counter() >= self._due:
            self._session.keep(self._name, take(), now=True)
            self._due = time.perf_counter() + self._session.every

    def end(self, take: Callable[[], SavedRun], result: Result) -> None:
        """Save the run as it ended; of several problems, those that are solved are kept by their results."""
        run = take()
        is_over = result.status in (Status.CONVERGED, Status.STOPPED) and not result.interrupted
        if self._name and is_over:
            run = saved_result(run, result)
        self._session.keep(self._name, run, now=result.status is Status.STOPPED or not self._name)


def load_runs(path: FilePath) -> dict[str, SavedRun]:
    """The runs of a checkpoint, by the names of their problems."""
    content = read_checkpoint(Path(path))
    return {
        name: SavedRun(header, named_parts(content.arrays, f"{at}/"), str(path))
        for at, (name, header) in enumerate(content.header["runs"].items())
    }


def load_run(path: FilePath) -> SavedRun:
    """The run of a checkpoint with one problem."""
    runs = load_runs(path)
    if set(runs) != {""}:
        raise CheckpointError(f"{path} holds a fit of several problems: go on with the estimator that wrote it")
    return runs[""]


def describe_checkpoint(path: FilePath) -> dict[str, dict[str, Any]]:
    """How far the runs of a checkpoint had come, by the names of their problems, without reading its arrays."""
    shown = ("step", "objective", "lower_bound", "seconds", "certificate", "solver", "status")
    runs = read_header(Path(path))["runs"]
    return {name: {key: run[key] for key in shown} for name, run in runs.items()}


def check_free(path: Path) -> None:
    """``CheckpointError`` if a new run would replace one that is not over, or a file of another kind."""
    if not path.exists():
        return
    try:
        runs = describe_checkpoint(path)
    except CheckpointError as error:
        raise CheckpointError(f"{error}; it is not replaced: delete it, or name another file") from error
    for run in runs.values():
        if run["status"] is None:
            raise CheckpointError(
                f"{path} holds a run that is not over (step {run['step']}): go on with `resume`, or delete the file"
            )
