"""The one loop of the library: it owns the clock, the callbacks, the trace and the status."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from signal import SIGTERM
from typing import Any

import numpy as np

from undercut.accuracy import gap_allowed
from undercut.contracts import Regularizer, Risk, Solver, State
from undercut.deadline import time_limit
from undercut.errors import ClusterError, DataError, NonconvexError, NonfiniteError, require
from undercut.interrupts import graceful, raise_for, requested
from undercut.solvers.saving.checkpoint import load_run
from undercut.solvers.saving.journal import Journal
from undercut.threads import exclusive, one_thread
from undercut.trace import (
    Callback,
    Certificate,
    Progress,
    Result,
    Run,
    Status,
    chosen,
    open_sessions,
    tell_end,
    tell_start,
    tell_step,
    unproved,
)
from undercut.types import FilePath, FloatArray

ZERO = 1e-10  # an objective below this share of the first one counts as zero
STALLED_STEPS: dict[Certificate, int] = {"global": 100, "local": 500, "none": 100}  # without any change
LEAST_GAIN = 1e-3  # a smaller gain over the baseline, relative to the objective, counts as this much
ENDLESS = 1e15  # an objective that many times below zero, relative to the first one, has no minimum
FALLING = 0.9  # share of the last model gap: of the decrease, and of the gap that is left
REFUTED = (Status.NONCONVEX, Status.UNBOUNDED)  # statuses that leave no bound
LOCAL_PROGRESS = 0.999  # how much smaller a model gap must be to count as a change
_NESTED: ContextVar[bool] = ContextVar("nested", default=False)  # whether this is a step of another run


@dataclass(frozen=True, kw_only=True)
class Stop:
    """When a run ends: at the first limit it meets; relative means relative to ``|objective|``.

    With a ``baseline``, an objective that is reached without learning, it is relative to what can be gained over that
    too, ``baseline - lower_bound``: an objective of 0.99 that cannot fall below 0.985 is not converged at 1 %.

    >>> Stop(gap_rel=1e-2).reached(Progress(objective=1.0, lower_bound=0.995)).name
    'CONVERGED'
    >>> Stop(gap_rel=1e-2, baseline=1.0).reached(Progress(objective=1.0, lower_bound=0.995)) is None
    True
    """

    gap_abs: float = 0.0
    gap_rel: float = 1e-3
    max_steps: float = math.inf
    max_passes: float = math.inf
    max_evaluations: float = math.inf
    max_seconds: float = math.inf
    baseline: float = math.inf

    def __post_init__(self) -> None:
        require(self.gap_abs >= 0.0, "`gap_abs` must be non-negative", self.gap_abs)
        require(self.gap_rel >= 0.0, "`gap_rel` must be non-negative", self.gap_rel)
        for name in ("max_steps", "max_passes", "max_evaluations", "max_seconds"):
            require(getattr(self, name) > 0, f"`{name}` must be positive", getattr(self, name))

    @property
    def usual(self) -> float:
        """The gap at which a run ends at an objective of 1."""
        return self.allowed(Progress(objective=1.0))

    def allowed(self, at: Progress, start: float = 0.0) -> float:
        """The gap at which a run ends at this point; ``start`` as for ``reached``."""
        gain = max(self.baseline - at.lower_bound, LEAST_GAIN * abs(at.objective))
        scale = max(min(abs(at.objective), gain), ZERO * abs(start))
        return max(self.gap_abs, self.gap_rel * scale)

    def reached(self, at: Progress, start: float = 0.0) -> Status | None:
        """The status a run ends with at this point, ``None`` to go on.

        ``start`` is the first objective: an optimum of zero counts as found at a tiny share of it.
        """
        if math.isfinite(at.gap) and at.gap <= self.allowed(at, start):
            return Status.CONVERGED
        limits = (
            (at.step >= self.max_steps, Status.MAX_STEPS),
            (at.n_passes >= self.max_passes, Status.MAX_PASSES),
            (at.n_evaluations >= self.max_evaluations, Status.MAX_EVALUATIONS),
            (at.seconds >= self.max_seconds, Status.MAX_SECONDS),
        )
        return next((status for hit, status in limits if hit), None)


def minimize(
    risk: Risk,
    reg: Regularizer,
    solver: Solver[Any, Any, Any] | str = "auto",
    *,
    w0: FloatArray | None = None,
    stop: Stop | None = None,
    callbacks: Iterable[Callback] = (),
    resume: FilePath | None = None,
) -> Result:
    """Minimize ``J(w) = reg(w) + R(w)``.

    ``resume`` is a checkpoint of the same problem: the run goes on as if it had not stopped, and the limits of ``stop``
    count from its first step.

    Ctrl-C, or a callback that returns ``True``, ends the run after the step in hand with ``Status.STOPPED`` and the
    best solution so far; a second Ctrl-C is raised at once.  SIGTERM does the same and then ends the process.  A
    risk that returns NaN or infinity ends it with ``Status.NONFINITE`` and the last good solution; one whose own planes
    prove that it is not convex ends it with ``Status.NONCONVEX`` and without a bound.  A cluster that cannot answer
    any more ends it with ``Status.LOST`` and the best solution so far.  Runs on the same risk from
    several threads wait for each other.

    >>> from undercut import Hinge, L2, LinearRisk
    >>> X, y = np.array([[2.0, 0.0], [0.0, 1.0]]), np.array([1.0, -1.0])
    >>> result = minimize(LinearRisk(X, y, Hinge()), L2(0.1))
    >>> result.status.name, round(result.objective, 4), result.gap <= 1e-3 * result.objective
    ('CONVERGED', 0.0625, True)
    """
    _check_kinds(risk, reg, stop, callbacks)
    from undercut.solvers.auto import resolve  # here: solvers may call ``minimize`` in turn

    given, stop = solver, stop or Stop()
    solver = resolve(given, risk, reg, stop.usual)
    solver.check(risk, reg)
    reg.check_size(risk.n_params)
    start = _start(w0, risk, reg)
    quiet = np.errstate(over="ignore", invalid="ignore")  # values that are not finite are found where they matter
    with exclusive(risk), one_thread(), quiet, graceful() as signals, _sessions(callbacks) as parts:
        saved = None if resume is None else load_run(resume)
        others = (resolve(given, risk, reg, gap_rel) for gap_rel in (0.0, math.inf))  # a run goes on with its own
        journal = Journal(risk, reg, solver, parts, saved, others)
        result, solver = journal.result(), journal.solver
        if result is None or not _is_over(result, stop):
            result = _driven(_Run(solver, stop, parts), risk, reg, start, journal)
        else:
            tell_start(parts, Run(risk, reg, solver, stop, result.trace))
        tell_end(parts, result)
    if signals.number == SIGTERM and requested() is None:
        raise_for(SIGTERM)
    return result


@contextmanager
def _sessions(callbacks: Iterable[Callback]) -> Iterator[list[Callback]]:
    """The callbacks of a single problem."""
    sessions = open_sessions(callbacks)
    try:
        yield [one.part("") for one in sessions]
    finally:
        for one in sessions:
            one.close()


def _is_over(result: Result, stop: Stop) -> bool:
    """Whether a saved result is as accurate as wanted, or a callback ended its run."""
    reached = stop.reached(result.trace[-1], result.trace[0].objective)
    return reached is not None or result.status is Status.STOPPED


def _driven(run: _Run, risk: Risk, reg: Regularizer, start: FloatArray, journal: Journal) -> Result:
    """The result of a run, in the time that is left."""
    done = journal.result()
    token = _NESTED.set(True)
    try:
        with time_limit(max(run.stop.max_seconds - journal.seconds, 0.0)), gap_allowed(run.stop.allowed):
            return run(risk, reg, start if done is None else done.w.copy(), journal)
    finally:
        _NESTED.reset(token)


def _check_kinds(risk: Any, reg: Any, stop: Any, callbacks: Any) -> None:
    """Refuse arguments of the wrong type, naming the one that was meant."""
    hint = "wrap a function in FunctionRisk(fun, n_params)" if callable(risk) else "such as LinearRisk or FunctionRisk"
    rules = (
        (isinstance(risk, Risk), f"`risk` must be a Risk: {hint}", risk),
        (isinstance(reg, Regularizer), "`reg` must be a Regularizer such as L2(lam)", reg),
        (stop is None or isinstance(stop, Stop), "`stop` must be a Stop such as Stop(gap_rel=1e-3)", stop),
        (not callable(callbacks), "`callbacks` must be a list of functions", callbacks),
    )
    for holds, rule, value in rules:
        require(holds, rule, value)


def _start(w0: FloatArray | None, risk: Risk, reg: Regularizer) -> FloatArray:
    if w0 is None:
        return reg.conjugate_argmax(np.zeros(risk.n_params))
    try:
        w0 = np.array(w0, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"w0 must be an array of {risk.n_params} numbers; got {w0!r}") from error
    if w0.shape != (risk.n_params,) or not np.isfinite(w0).all():
        raise DataError(f"w0 must be finite and of shape ({risk.n_params},); got shape {w0.shape}")
    return w0


class _Run:
    """One run of a solver, from the clock's start to the result."""

    def __init__(self, solver: Solver[State, Any, Any], stop: Stop, callbacks: Sequence[Callback]) -> None:
        self.solver, self.stop, self.callbacks = solver, stop, callbacks
        self.trace: list[Progress] = []
        self.certificate: Certificate = "none"
        self._began = time.perf_counter()
        self._unchanged = 0
        self._smallest_gap = math.inf
        self._interrupted = False
        self._may_stop = requested() is None and not _NESTED.get()  # a signal is for the outermost run

    def __call__(self, risk: Risk, reg: Regularizer, w0: FloatArray, journal: Journal) -> Result:
        state: State | None = None
        detail = ""
        self.certificate = self.solver.certificate(risk)
        try:
            state = self._first(risk, reg, w0, journal)
            status = self._first_status(state)
            journal.offer(state, self.trace, self._watch)
            while status is None:
                state = self.solver.step(risk, reg, state)
                status = self._record(state) or self.solver.ended(state)
                if status is None:
                    journal.offer(state, self.trace, self._watch)
            last, steps, ended = state, self.trace.copy(), status
            state, status = self._finished(risk, reg, state, status)
        except KeyboardInterrupt:
            if requested() is not None:  # the second signal
                raise
            self._interrupted = True
            return self._result(state, w0, Status.STOPPED, detail)
        except (NonfiniteError, NonconvexError) as error:
            status = Status.NONFINITE if isinstance(error, NonfiniteError) else Status.NONCONVEX
            detail = f"at step {state.progress.step + 1 if state else 0}: {error}"
            return self._result(state, w0, status, detail)
        except ClusterError as error:
            if state is None:  # there is no solution to keep
                raise
            last, steps, ended = state, self.trace.copy(), Status.LOST
            status, detail = Status.LOST, f"at step {state.progress.step + 1}: {error}"
        result = self._result(state, w0, status, detail)
        journal.end(last, steps, self._watch(), ended, result)
        return result

    def _first(self, risk: Risk, reg: Regularizer, w0: FloatArray, journal: Journal) -> State:
        """The state before the next step: that of a saved run, or the solver's first."""
        state: State | None = journal.state()
        if state is None or journal.saved is None:
            tell_start(self.callbacks, Run(risk, reg, self.solver, self.stop, []))
            return self.solver.init(risk, reg, w0)
        self._began -= journal.seconds
        self.trace = journal.saved.trace
        self._unchanged, self._smallest_gap = journal.saved.header["watch"]
        tell_start(self.callbacks, Run(risk, reg, self.solver, self.stop, self.trace.copy()))
        return self.solver.restored(risk, reg, state)

    def _first_status(self, state: State) -> Status | None:
        """Whether to stop before the next step."""
        if self.trace:
            return self._judged(*_last_two(self.trace)) or self.solver.ended(state)
        return self._record(state) if math.isfinite(state.progress.objective) else None

    def _finished(self, risk: Risk, reg: Regularizer, state: State, status: Status) -> tuple[State, Status]:
        """The state to report, and the status after it."""
        final = self.solver.finish(risk, reg, state)
        if final is state:
            return state, status
        self.trace.append(self._timed(final))
        converged = self.stop.reached(self.trace[-1], self._scale) is Status.CONVERGED
        return final, Status.CONVERGED if converged else status

    def _watch(self) -> tuple[int, float]:
        """What decides about the end of the run beside the trace."""
        return self._unchanged, self._smallest_gap

    def _timed(self, state: State) -> Progress:
        progress = state.progress
        return progress.changed(
            seconds=time.perf_counter() - self._began,
            certificate=self.certificate,
            solver=progress.solver or self.solver.name,
        )

    def _record(self, state: State) -> Status | None:
        """Add a row to the trace, tell the callbacks, and say whether to stop."""
        now = self._timed(state)
        last = self.trace[-1] if self.trace else Progress()
        changed = now.objective < last.objective or self._closer(now, last)
        self._unchanged = 0 if changed else self._unchanged + 1
        self.trace.append(now)
        asked = tell_step(self.callbacks, now, state.solution)
        status = self._judged(now, last)
        self._interrupted = status is None and self._may_stop and requested() is not None
        return Status.STOPPED if status is None and (asked or self._interrupted) else status

    def _judged(self, now: Progress, last: Progress) -> Status | None:
        status = self._status(now, last)
        if status is None and self.solver.may_stall and self._unchanged >= STALLED_STEPS[self.certificate]:
            return Status.STALLED
        return status

    def _status(self, now: Progress, last: Progress) -> Status | None:
        """What ``Stop`` says, unless the objective falls without end.

        The gap of a local model means little while steps keep all that it predicts and leave it as wide as it was.
        """
        status = self.stop.reached(now, self._scale)
        if self.certificate == "global" and status is Status.CONVERGED:
            return status
        if now.objective < -ENDLESS * max(1.0, abs(self._scale)):
            return Status.UNBOUNDED
        decrease = last.objective - now.objective
        if status is Status.CONVERGED and decrease >= FALLING * last.gap and now.gap >= FALLING * last.gap:
            return self.stop.reached(now.changed(lower_bound=-math.inf))
        return status

    @property
    def _scale(self) -> float:
        """The first objective, if it is a number."""
        first = self.trace[0].objective
        return first if math.isfinite(first) else 0.0

    def _closer(self, now: Progress, last: Progress) -> bool:
        """Whether the bound has improved; the minimum of a local model goes up and down, so its gap must shrink."""
        if self.certificate != "local":
            return now.lower_bound > last.lower_bound
        closer = now.gap < LOCAL_PROGRESS * self._smallest_gap
        self._smallest_gap = min(self._smallest_gap, now.gap)
        return closer

    def _result(self, state: State | None, w0: FloatArray, status: Status, detail: str) -> Result:
        if state and not detail:
            detail = self.solver.remark(state)
        progress = state.progress if state else Progress()
        solution = state.solution if state else w0
        if status in REFUTED:
            self.certificate = "none"
            self.trace = [unproved(row) for row in self.trace]
            progress = unproved(progress)
        numbers = progress.objective, progress.lower_bound
        result = Result(solution, *numbers, self.certificate, status, self.trace, detail, self._interrupted)
        return chosen(self.callbacks, result)


def _last_two(trace: list[Progress]) -> tuple[Progress, Progress]:
    """The last row and the one before it."""
    return trace[-1], trace[-2] if len(trace) > 1 else Progress()
