"""What the bundle solvers share: the accuracy of a master problem, their settings, and the best point so far."""

from __future__ import annotations

import math
from typing import NamedTuple, Protocol, TypeVar

from typing_extensions import override

from undercut.contracts import Cut, Regularizer, Risk, Solver, State
from undercut.errors import require
from undercut.solvers.bounds import check_below, check_floor, check_plane
from undercut.solvers.bundle.bundle import PlaneModel
from undercut.types import FloatArray


class BundleState(State, Protocol):
    """The state of a bundle solver."""

    @property
    def bundle(self) -> PlaneModel: ...


S = TypeVar("S", bound=BundleState)
K = TypeVar("K", bound=Risk)
G = TypeVar("G", bound=Regularizer)


class BundleSolver(Solver[S, K, G]):
    """A solver whose planes must all lie below the best value, which is checked again before a bound is reported."""

    @override
    def finish(self, risk: K, reg: G, state: S) -> S:
        objective = state.progress.objective
        if risk.is_convex and math.isfinite(objective):
            planes, penalty = state.bundle.planes, reg.value(state.solution)
            live = planes.live
            scale = abs(objective) + abs(penalty)
            check_below(planes.A[live], planes.b[live], state.solution, objective - penalty, scale)
        return state


class Best(NamedTuple):
    """The best point so far and the objective there."""

    w: FloatArray
    objective: float


def best_of(state: State, w: FloatArray, cut: Cut, risk: Risk, reg: Regularizer) -> Best:
    """The better of the best point so far and w, where the plane ``cut`` of a convex risk was taken.

    ``NonconvexError`` if the plane, or the lower bound that the risk declares, lies above a value already seen.
    """
    last = Best(state.solution, state.progress.objective)
    candidate = Best(w, reg.value(w) + cut.value)
    check_floor(risk.lower_bound, cut)
    if candidate.objective < last.objective:
        return candidate
    if math.isfinite(last.objective):
        check_plane(cut, last.w, last.objective, reg.value(last.w))
    return last


def master_tolerance(share: float, objective: float, lower_bound: float) -> float:
    """A share of the gap, or of the objective while there is no bound yet; never below rounding."""
    gap = objective - lower_bound
    return max(share * min(gap, abs(objective)), 1e-15 * abs(objective))


def check_bundle_settings(max_planes: int | None, max_idle: int, master_accuracy: float) -> None:
    """The domains of the settings of every bundle method."""
    require(max_planes is None or max_planes >= 1, "`max_planes` must be at least 1", max_planes)
    require(max_idle >= 0, "`max_idle` must be non-negative", max_idle)
    require(0.0 <= master_accuracy < 1.0, "`master_accuracy` must be in [0, 1)", master_accuracy)
