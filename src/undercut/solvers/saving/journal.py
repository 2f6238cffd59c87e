"""What the driver needs to save a run and to go on with a saved one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from undercut.contracts import Regularizer, Risk, Solver
from undercut.solvers.saving.checkpoint import CheckpointPart
from undercut.solvers.saving.fingerprint import Fingerprints
from undercut.solvers.saving.saved_run import Moment, SavedRun, fingerprint_of, saved_run
from undercut.solvers.saving.snapshot import Problem
from undercut.trace import Callback, Progress, Result, Status


class Journal:
    """The checkpoints of one run, which may be none, and the saved run that it goes on with, if any.

    A run without checkpoints costs nothing here.
    """

    def __init__(
        self,
        risk: Risk,
        reg: Regularizer,
        solver: Solver[Any, Any, Any],
        callbacks: Sequence[Callback],
        resume: SavedRun | None,
        others: Iterable[Solver[Any, Any, Any]] = (),
    ) -> None:
        """``others`` : solvers that the saved run may have begun with, if not with ``solver``."""
        self._parts = [callback for callback in callbacks if isinstance(callback, CheckpointPart)]
        self._watchers = [callback for callback in callbacks if getattr(type(callback), "carried", ())]
        self.saved, self.solver = resume, solver
        if not self._parts and resume is None:
            return
        known = self._parts[0].fingerprints if self._parts else Fingerprints()
        self._fingerprint = fingerprint_of(risk, reg, solver, known)
        for part in self._parts:
            self.saved = part.claim(resume) or self.saved
        if self.saved is not None:
            for other in others:
                now = fingerprint_of(risk, reg, other, known)
                if self.saved.header["problem"] == now:
                    self.solver, self._fingerprint = other, now
            self.saved.check(self._fingerprint)
        self._problem = Problem(risk=risk, reg=reg, solver=self.solver)

    @property
    def seconds(self) -> float:
        """How long the saved run had lasted."""
        return self.saved.seconds if self.saved is not None else 0.0

    def result(self) -> Result | None:
        """Of a run that is over, if nothing else of it was kept."""
        return None if self.saved is None else self.saved.finished()

    def state(self) -> Any:
        """The state in which the saved run goes on, but for its derived parts; ``None`` if there is no such run."""
        if self.saved is None or "state" not in self.saved.header:
            return None
        return self.saved.state(self._problem, self._watchers)

    def offer(self, state: Any, trace: list[Progress], watch: Callable[[], Any]) -> None:
        """Save the run where it is time."""
        for part in self._parts:
            part.offer(lambda: self._taken(state, trace, None, watch()))

    def end(self, state: Any, trace: list[Progress], watch: Any, ended: Status, result: Result) -> None:
        """Save the run as it was before its last move, ``Solver.finish``."""
        status = None if result.interrupted or ended is Status.LOST else ended
        for part in self._parts:
            part.end(lambda: self._taken(state, trace, status, watch), result)

    def _taken(self, state: Any, trace: list[Progress], status: Status | None, watch: Any) -> SavedRun:
        moment = Moment(state, trace, status, watch, self._watchers)
        return saved_run(self._problem, self._fingerprint, moment)
