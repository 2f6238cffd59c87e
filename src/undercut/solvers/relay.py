"""Solvers in a row: the next one takes over where the last one no longer gets closer, or gives way.

All start from the best point found so far, and the bounds of all hold:

    max_k lower_bound_k  <=  min_w J(w)  <=  min_k objective_k
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import final

from typing_extensions import override

from undercut.contracts import Regularizer, Risk, State
from undercut.errors import NonfiniteError, require
from undercut.solvers.driver import STALLED_STEPS
from undercut.solvers.team import Team
from undercut.trace import Progress, Status
from undercut.types import FloatArray

CLOSER = 0.5  # share of the gap that must be left for a step to count
NEAR = 0.3  # gap, relative to the objective, within which the first solver must be at the end of its trial


@dataclass(frozen=True)
class RelayState:
    at: int  # which solver runs
    inner: State
    gap: float  # when the last step counted
    idle: int  # steps with an evaluation since then
    solution: FloatArray
    progress: Progress
    status: Status | None = None
    unchanged: int = 0  # steps of the last solver without a better point or bound of its own


@final
@dataclass(frozen=True, kw_only=True)
class Relay(Team[RelayState]):
    """One certified solver after the other, each until it stalls.

    >>> import numpy as np
    >>> from undercut import L1, Hinge, LinearRisk, minimize
    >>> from undercut.solvers import InteriorPoint, LevelBundle
    >>> risk = LinearRisk(np.eye(2), np.array([1.0, -1.0]), Hinge())
    >>> result = minimize(risk, L1(0.1), Relay(candidates=(InteriorPoint(), LevelBundle())))
    >>> result.w.round(2), {row.solver for row in result.trace}
    (array([ 1., -1.]), {'InteriorPoint'})
    """

    patience: int = 60  # steps with an evaluation within which the gap must be halved; the last solver has no limit
    trial: float = math.inf  # passes after which the first solver goes on only if it is near the optimum

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.patience >= 1, "`patience` must be at least 1", self.patience)
        require(self.trial > 0.0, "`trial` must be positive", self.trial)

    @override
    def init(self, risk: Risk, reg: Regularizer, w0: FloatArray) -> RelayState:
        inner = self.candidates[0].init(risk, reg, w0)
        progress = inner.progress.changed(solver=self.candidates[0].name)
        return RelayState(0, inner, progress.gap, 0, inner.solution, progress)

    @override
    def carry(self, risk: Risk, reg: Regularizer, state: RelayState) -> RelayState:
        solver = self.candidates[state.at]
        inner = solver.carry(risk, reg, state.inner)
        progress = inner.progress.changed(solver=solver.name)
        return RelayState(state.at, inner, progress.gap, 0, inner.solution, progress)

    @override
    def step(self, risk: Risk, reg: Regularizer, state: RelayState) -> RelayState:
        # 1. One step of the solver that runs.
        solver, is_last = self.candidates[state.at], state.at + 1 == len(self.candidates)
        step = state.progress.step + 1
        try:
            inner = solver.step(risk, reg, state.inner)
        except NonfiniteError:
            if is_last:
                raise
            return self._handed_over(risk, reg, state, step)

        # 2. The best point and the best bound of all.
        moved = _merged(state, inner, solver.name, step)

        # 3. The next solver, where this one has stalled or leaves the rest to it.
        status = solver.ended(inner)
        if is_last:
            unchanged = state.unchanged + 1 if _is_same(inner.progress, state.inner.progress) else 0
            stalled = solver.may_stall and unchanged >= STALLED_STEPS["global"]
            return replace(moved, status=Status.STALLED if stalled else status, unchanged=unchanged)
        stays = status is None and moved.idle < self.patience and not solver.gives_way(inner)
        stays = stays and not self._has_failed(moved, state.inner)
        return moved if stays else self._handed_over(risk, reg, moved, step)

    @override
    def ended(self, state: RelayState) -> Status | None:
        return state.status

    @override
    def restored(self, risk: Risk, reg: Regularizer, state: RelayState) -> RelayState:
        return replace(state, inner=self.candidates[state.at].restored(risk, reg, state.inner))

    @override
    def finish(self, risk: Risk, reg: Regularizer, state: RelayState) -> RelayState:
        solver = self.candidates[state.at]
        final = solver.finish(risk, reg, state.inner)
        return state if final is state.inner else _merged(state, final, solver.name, state.progress.step + 1)

    def _has_failed(self, state: RelayState, last: State) -> bool:
        """Whether an evaluation at the end of the trial shows that the first solver is still far from the optimum."""
        is_evaluated = state.inner.progress.n_evaluations > last.progress.n_evaluations
        if state.at > 0 or not is_evaluated or state.progress.n_passes < self.trial:
            return False
        return state.progress.gap > NEAR * abs(state.progress.objective)

    def _handed_over(self, risk: Risk, reg: Regularizer, state: RelayState, step: int) -> RelayState:
        at = state.at + 1
        inner = self.candidates[at].init(risk, reg, state.solution)
        fresh = replace(state, at=at, inner=_Unused(state.solution, Progress()), idle=0)
        return _merged(fresh, inner, self.candidates[at].name, step)


def _is_same(now: Progress, last: Progress) -> bool:
    return now.objective == last.objective and now.lower_bound == last.lower_bound


@dataclass(frozen=True)
class _Unused:
    """The state of a solver that has done nothing yet."""

    solution: FloatArray
    progress: Progress


def _merged(state: RelayState, inner: State, solver: str, step: int) -> RelayState:
    """The state of all, after the one that runs has moved."""
    last, was, now = state.progress, state.inner.progress, inner.progress
    is_better = now.objective < last.objective
    progress = now.changed(
        step=step,
        objective=min(last.objective, now.objective),
        lower_bound=max(last.lower_bound, now.lower_bound),
        n_evaluations=last.n_evaluations + now.n_evaluations - was.n_evaluations,
        n_passes=last.n_passes + now.n_passes - was.n_passes,
        solver=solver,
    )
    counts = progress.gap <= CLOSER * state.gap
    waited = state.idle + (now.n_evaluations > was.n_evaluations)  # a step without an evaluation cannot close the gap
    gap, idle = (progress.gap, 0) if counts else (state.gap, waited)
    return RelayState(state.at, inner, gap, idle, inner.solution if is_better else state.solution, progress)
