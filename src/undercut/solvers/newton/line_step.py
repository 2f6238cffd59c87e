"""What methods of Newton type share: the minimum of J along a direction, and the bound that the plane there proves."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from undercut.contracts import Cut, Line, LineRisk, QuadraticRegularizer
from undercut.solvers.bounds import LINE_ACCURACY, check_plane, cut_bound, cut_size, tighter
from undercut.trace import Progress
from undercut.types import FloatArray


@dataclass(frozen=True)
class NewtonState:
    line: Line  # passes through the solution at ``t``
    t: float
    solution: FloatArray
    cut: Cut  # at the solution
    progress: Progress


State = TypeVar("State", bound=NewtonState)


def start(risk: LineRisk, reg: QuadraticRegularizer, w0: FloatArray) -> NewtonState:
    """The state before the first step."""
    line = risk.along(w0, np.zeros_like(w0))
    cut = line.cut(0.0)
    objective = reg.value(w0) + cut.value
    bound = tighter(-np.inf, cut_bound(risk, reg, cut), objective, cut_size(cut))
    return NewtonState(line, 0.0, w0, cut, Progress(0, objective, bound, n_evaluations=1))


def restart(risk: LineRisk, reg: QuadraticRegularizer, state: State) -> State:
    """The state before the first step with another regularizer, at the solution of a run on the same risk."""
    objective = reg.value(state.solution) + state.cut.value
    bound = tighter(-np.inf, cut_bound(risk, reg, state.cut), objective, cut_size(state.cut))
    return replace(state, progress=Progress(0, objective, bound))


def descend(risk: LineRisk, reg: QuadraticRegularizer, state: State, direction: FloatArray) -> State:
    """The state at the minimum of J along a direction."""
    last, w = state.progress, state.solution
    line = state.line.turn(state.t, direction)
    t = line.minimizer(*reg.along(w, direction), accuracy=LINE_ACCURACY)
    solution, cut = w + t * direction, line.cut(t)
    objective = reg.value(solution) + cut.value
    if not objective < last.objective:  # rounding: stay, but keep what the plane proves
        t, solution, objective = 0.0, w, last.objective
    check_plane(cut, w, last.objective, reg.value(w))
    lower_bound = tighter(last.lower_bound, cut_bound(risk, reg, cut), objective, cut_size(cut))
    progress = Progress(last.step + 1, objective, lower_bound, last.n_evaluations + 1)
    return replace(state, line=line, t=t, solution=solution, cut=cut if t else state.cut, progress=progress)
