"""Several solvers on one problem, each in turn, and then the one that closes the gap fastest.

Every certified solver says how far it is from the optimum, so solvers can be compared while they run.  The first
candidate is the most promising; each of the others starts from the best point found so far and has a first turn of
``TRIAL`` times what the first one has spent.  Then the one goes on that would be the first to make the gap ``AHEAD``
times smaller if it went on as in the second half of what it has spent; whenever it has spent ``PATIENCE`` times as much
as another, that one's time is doubled, and all are compared again.  They share the best point and the best bound:

    max_k lower_bound_k  <=  min_w J(w)  <=  min_k objective_k

The cost of a step is the time it takes, or with ``deterministic`` the passes over the data that it reports, each at the
``pass_cost`` of its solver.
"""

from __future__ import annotations

import math
import time
from bisect import bisect_right
from dataclasses import dataclass, field, replace
from typing import Any, final

from typing_extensions import override

from undercut.accuracy import gap_allowed
from undercut.contracts import Regularizer, Risk, Solver, State
from undercut.errors import NonfiniteError
from undercut.solvers.team import Team
from undercut.trace import Progress, Status
from undercut.types import FloatArray

FIRST_STEPS, FIRST_SECONDS = 10, 0.02  # the first turn lasts at least that long
TRIAL = 0.25
TURN = 1.25  # the leader is compared again when it has spent that many times as much: predictions are often wrong
PATIENCE = 4.0
AHEAD = 10.0
FASTEST = 7.0  # the largest logarithm of a gap's decrease that a prediction may be based on
AGAIN = 4.0  # the winner of a run begins the next one and goes on until that takes this many times as long
IDLE = 100  # steps without any change after which a candidate is out


@dataclass(frozen=True)
class Runner:
    """One candidate and how it is doing; a step makes a new one."""

    solver: Solver[State, Any, Any]
    state: State | None = None  # None: not started
    last: State | None = None  # at the end of a run with another regularizer
    spent: float = 0.0
    idle: int = 0  # steps without any change
    status: Status | None = None  # why it is out
    costs: tuple[float, ...] = ()  # what had been spent, ascending, when its gap ...
    gaps: tuple[float, ...] = field(default=(), repr=False)  # ... was this

    @property
    def progress(self) -> Progress:
        return Progress() if self.state is None else self.state.progress

    def outlook(self, gap: float) -> float:
        """What it would have to spend to reach a gap, if the logarithm of its own went on falling as steeply."""
        now, before = self.progress.gap, self.gaps[max(bisect_right(self.costs, 0.5 * self.spent) - 1, 0)]
        if not math.isfinite(now):
            return math.inf
        if now <= gap:
            return 0.0
        fall = min(math.log(before / now), FASTEST) if before > now else 0.0
        return 0.5 * self.spent * math.log(now / gap) / fall if fall > 0.0 else math.inf


@dataclass(frozen=True)
class RaceState:
    runners: tuple[Runner, ...]
    at: int  # whose turn it is
    until: float  # what it may have spent at the end of its turn
    solution: FloatArray
    progress: Progress
    by: int = 0  # who has made the last step


@final
@dataclass(frozen=True, kw_only=True)
class Race(Team[RaceState]):
    """The best of several certified solvers, found while they run.

    >>> import numpy as np
    >>> from undercut import Hinge, L2, LinearRisk, LineSearchBundle, minimize
    >>> from undercut.solvers import DualCoordinate
    >>> X, y = np.array([[2.0, 0.0], [0.0, 1.0]]), np.array([1.0, -1.0])
    >>> race = Race(candidates=(LineSearchBundle(), DualCoordinate()))
    >>> result = minimize(LinearRisk(X, y, Hinge()), L2(0.1), race)
    >>> result.w.round(6), {row.solver for row in result.trace}
    (array([ 0.5, -1. ]), {'LineSearchBundle'})
    """

    deterministic: bool = False

    @override
    def init(self, risk: Risk, reg: Regularizer, w0: FloatArray) -> RaceState:
        runners = tuple(Runner(solver) for solver in self.candidates)
        began = time.perf_counter()
        with gap_allowed():
            first = replace(runners[0], state=self.candidates[0].init(risk, reg, w0))
        first = self._charged(first, Progress(), time.perf_counter() - began)
        progress = replace(first.progress, solver=_name(first))
        return RaceState((first, *runners[1:]), 0, math.inf, w0, progress)

    @override
    def carry(self, risk: Risk, reg: Regularizer, state: RaceState) -> RaceState:
        winner = state.runners[state.by]
        others = [runner for at, runner in enumerate(state.runners) if at != state.by]
        first, *rest = (Runner(runner.solver, last=runner.state or runner.last) for runner in (winner, *others))
        began = time.perf_counter()
        first = self._charged(
            replace(first, state=_started(first, risk, reg, state.solution)), Progress(), time.perf_counter() - began
        )
        progress = replace(first.progress, solver=_name(first))
        assert first.state is not None
        return RaceState((first, *rest), 0, first.spent + AGAIN * winner.spent, first.state.solution, progress)

    @override
    def step(self, risk: Risk, reg: Regularizer, state: RaceState) -> RaceState:
        # 1. One step of the candidate whose turn it is, which looks at its gap often, to be compared.
        with gap_allowed():
            runner = self._moved(risk, reg, state)
        runners = (*state.runners[: state.at], runner, *state.runners[state.at + 1 :])

        # 2. The best point and the best bound of all.
        progress = _merged(state.progress, state.runners[state.at], runner)
        better = runner.state is not None and runner.progress.objective < state.progress.objective
        solution = runner.state.solution if better and runner.state is not None else state.solution

        # 3. At the end of a turn, who is next and for how long.
        moved = replace(state, runners=runners, solution=solution, progress=progress, by=state.at)
        return _next_turn(moved) if self._is_over(moved) else moved

    @override
    def restored(self, risk: Risk, reg: Regularizer, state: RaceState) -> RaceState:
        def restored(runner: Runner) -> Runner:
            if runner.state is None:
                return runner
            return replace(runner, state=runner.solver.restored(risk, reg, runner.state))

        return replace(state, runners=tuple(restored(runner) for runner in state.runners))

    @override
    def ended(self, state: RaceState) -> Status | None:
        return None if any(runner.status is None for runner in state.runners) else state.runners[state.at].status

    @override
    def remark(self, state: RaceState) -> str:
        shares = [(runner.spent, _name(runner)) for runner in state.runners if runner.spent > 0.0]
        total = sum(spent for spent, _ in shares)
        return ", ".join(f"{100.0 * spent / total:.0f} % {name}" for spent, name in shares) if len(shares) > 1 else ""

    def _moved(self, risk: Risk, reg: Regularizer, state: RaceState) -> Runner:
        """The candidate after its next step, or out of the race if that is not possible."""
        runner = state.runners[state.at]
        before, began = runner.progress, time.perf_counter()
        try:
            if runner.state is None:
                after = _started(runner, risk, reg, state.solution)
            else:
                after = runner.solver.step(risk, reg, runner.state)
        except NonfiniteError:
            if sum(other.status is None for other in state.runners) == 1:
                raise
            return replace(runner, status=Status.NONFINITE)
        changed = after.progress.objective < before.objective or after.progress.lower_bound > before.lower_bound
        idle = 0 if changed else runner.idle + 1
        status = runner.solver.ended(after)
        if runner.solver.may_stall and idle >= IDLE:
            status = Status.STALLED
        moved = replace(runner, state=after, idle=idle, status=status)
        return self._charged(moved, before, time.perf_counter() - began)

    def _charged(self, runner: Runner, before: Progress, seconds: float) -> Runner:
        """The cost of its last step; gaps are remembered at costs that grow by a tenth."""
        after, cost = runner.progress, seconds
        if self.deterministic:
            cost = runner.solver.pass_cost * (after.n_passes - before.n_passes)
            cost += 2.0 * (after.n_evaluations - before.n_evaluations) + 1e-9
        spent = runner.spent + cost
        if runner.costs and spent < 1.1 * runner.costs[-1]:
            return replace(runner, spent=spent)
        return replace(runner, spent=spent, costs=(*runner.costs, spent), gaps=(*runner.gaps, after.gap))

    def _is_over(self, state: RaceState) -> bool:
        runner = state.runners[state.at]
        if runner.status is not None or runner.spent >= state.until:
            return True
        first = math.isinf(state.until) and len(state.runners) > 1
        least = 0.0 if self.deterministic else FIRST_SECONDS
        return first and runner.progress.step >= FIRST_STEPS and runner.spent >= least


def _next_turn(state: RaceState) -> RaceState:
    """Who goes on, and until what it has spent."""
    running = [at for at, runner in enumerate(state.runners) if runner.status is None]
    waiting = [at for at in running if state.runners[at].state is None]
    if waiting:
        return replace(state, at=waiting[0], until=TRIAL * max(runner.spent for runner in state.runners))
    return _led(state, running) if running else state


def _led(state: RaceState, running: list[int]) -> RaceState:
    """The turn of the candidate that would be first, or of one that has had too little time to be compared with it."""
    wanted = state.progress.gap / AHEAD
    leader = min(running, key=lambda at: state.runners[at].outlook(wanted))
    spent = {at: state.runners[at].spent for at in running}
    others = sorted((at for at in running if at != leader), key=lambda at: spent[at])
    if others and spent[leader] >= PATIENCE * spent[others[0]]:
        return replace(state, at=others[0], until=2.0 * spent[others[0]])
    until = min(PATIENCE * spent[others[0]], TURN * spent[leader]) if others else math.inf
    return replace(state, at=leader, until=until)


def _merged(last: Progress, before: Runner, after: Runner) -> Progress:
    """The progress of all, after one of them has moved."""
    was, now = before.progress, after.progress
    return replace(
        last,
        step=last.step + 1,
        objective=min(last.objective, now.objective),
        lower_bound=max(last.lower_bound, now.lower_bound),
        n_evaluations=last.n_evaluations + now.n_evaluations - was.n_evaluations,
        n_passes=last.n_passes + now.n_passes - was.n_passes,
        n_cuts=now.n_cuts,
        solver=_name(after),
    )


def _started(runner: Runner, risk: Risk, reg: Regularizer, w0: FloatArray) -> State:
    """The first state of a candidate: from its run with another regularizer, or from w0."""
    if runner.last is not None:
        return runner.solver.carry(risk, reg, runner.last)
    return runner.solver.init(risk, reg, w0)


def _name(runner: Runner) -> str:
    return runner.solver.name
