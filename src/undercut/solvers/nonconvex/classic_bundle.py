"""Proximal bundle method for non-convex functions (Mäkelä and Neittaanmäki 1992, after Kiwiel 1985): the baseline.

It sees J = reg + R as one function.  From the center x it moves along the minimizer d of

    max_j (<g_j, d> - e_j) + u/2 |d|^2,        e_j = max(|J(x) - linearization_j(x)|, gamma s_j^omega)

where s_j is the length of the path from where plane j was taken to x.  A line search makes d a serious step, which
moves x, or finds a null step, whose plane changes the model.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple, final

import numpy as np
from typing_extensions import override

from undercut.contracts import Cut, QuadraticRegularizer, Risk, Solver
from undercut.errors import require
from undercut.regularizers import L2
from undercut.solvers.bundle.common import check_bundle_settings
from undercut.solvers.nonconvex.local_bundle import LocalBundle, Trial
from undercut.trace import Certificate, Progress
from undercut.types import FloatArray

SERIOUS = 0.01  # share of the predicted decrease that moves the center
GOOD = 0.5  # lengthen the step if at least this share was reached
NULL = 0.5  # share of the predicted decrease that the plane of a null step must remove
LEAST_STEP = 0.01  # a shorter serious step is also a null step
MAX_TRIALS = 12


class Direction(NamedTuple):
    """The step to the model's minimizer."""

    d: FloatArray
    predicted: float  # decrease of J by the model, > 0
    optimality: float  # |p|^2 / 2u + aggregated error: zero at a stationary point


class ProximalPlanes(LocalBundle):
    """Planes of J with the length of the path to the center, in the Euclidean metric."""

    def __init__(self, n_params: int) -> None:
        super().__init__(L2(1.0), n_params, -np.inf)

    def add_plane(self, cut: Cut, path: float) -> None:
        """Take in a plane that lies ``path`` away from the center."""
        self._add(cut.a, cut.b, path)

    def move_center(self, length: float) -> None:
        """The center has moved: all paths are longer."""
        self.locality[self.planes.live] += length

    def direction(self, center: Trial, u: float, gamma: float, omega: float) -> Direction:
        """Solve the direction-finding problem and keep its aggregated plane."""
        planes, master, live = self.planes, self.bundle.master, self.planes.live
        A = planes.A[live]
        errors = np.maximum(
            np.abs(center.objective - A @ center.w - planes.b[live]), gamma * self.locality[live] ** omega
        )
        linear = np.zeros(planes.capacity)
        linear[live] = -u * errors
        master.reset(master.alpha)
        master.solve(self.bundle.H, linear, live, 1e-10 * u * (abs(center.objective) + float(errors.max())))
        planes.age(master.alpha, 1)
        alpha = master.alpha[live]
        p, error = alpha @ A, float(alpha @ errors)
        squared = float(p @ p) / u
        self.aggregate()
        return Direction(-p / u, squared + error, 0.5 * squared + error)


@dataclass(frozen=True)
class ClassicState:
    center: Trial  # ``cut`` is the plane of J there
    direction: Direction
    u: float
    planes: ProximalPlanes
    progress: Progress

    @property
    def solution(self) -> FloatArray:
        return self.center.w


class _Found(NamedTuple):
    """What a line search ended with."""

    t: float
    trial: Trial
    serious: bool
    n_evaluations: int


@final
@dataclass(frozen=True, kw_only=True)
class ClassicBundle(Solver[ClassicState, Risk, QuadraticRegularizer]):
    """NBM: the standard bundle method for functions that are neither convex nor smooth.

    The gap is that of the proximal model, also where the risk is convex.

    >>> import numpy as np
    >>> from undercut import FunctionRisk, L2, minimize
    >>> risk = FunctionRisk(lambda w: (abs(w - 1.0).sum(), np.sign(w - 1.0)), n_params=3)
    >>> minimize(risk, L2(0.1), ClassicBundle()).w.round(3)
    array([1., 1., 1.])
    """

    needs_convex = False

    max_planes: int = 100  # planes kept besides the aggregated one
    gamma: float = 0.5  # how fast trust in a plane fades with distance; 0 for convex functions
    omega: float = 2.0

    def __post_init__(self) -> None:
        check_bundle_settings(self.max_planes, 0, 0.0)
        require(self.gamma >= 0.0, "`gamma` must be non-negative", self.gamma)
        require(self.omega >= 1.0, "`omega` must be at least 1", self.omega)

    @override
    def certificate(self, risk: Risk) -> Certificate:
        return "local"

    @override
    def init(self, risk: Risk, reg: QuadraticRegularizer, w0: FloatArray) -> ClassicState:
        center = _evaluate(risk, reg, w0)
        planes = ProximalPlanes(risk.n_params)
        planes.add_plane(center.cut, 0.0)
        squared = float(center.cut.a @ center.cut.a)
        u = 2.0 * squared / (abs(center.objective) or 1.0) or 1.0  # the first plane predicts half of J
        direction = planes.direction(center, u, self.gamma, self.omega)
        progress = Progress(0, center.objective, center.objective - direction.optimality, 1, len(planes))
        return ClassicState(center, direction, u, planes, progress)

    @override
    def step(self, risk: Risk, reg: QuadraticRegularizer, state: ClassicState) -> ClassicState:
        last, planes, center = state.progress, state.planes, state.center

        # 1. Search along d for a serious or a null step.
        found = self._search(risk, reg, state)
        length = found.t * float(np.linalg.norm(state.direction.d))

        # 2. Take in the plane; a serious step moves the center.
        planes.make_room(self.max_planes)
        if found.serious:
            planes.move_center(length)
            center = found.trial
        planes.add_plane(found.trial.cut, 0.0 if found.serious else length)

        # 3. Adapt the weight to the accuracy of the prediction, and minimize the model again.
        u = _next_weight(state, found)
        direction = planes.direction(center, u, self.gamma, self.omega)
        progress = replace(
            last, step=last.step + 1, objective=center.objective, lower_bound=center.objective - direction.optimality,
            n_evaluations=last.n_evaluations + found.n_evaluations, n_cuts=len(planes),
            n_descent=last.n_descent + found.serious, n_null=last.n_null + (not found.serious),
        )  # fmt: skip
        return ClassicState(center, direction, u, planes, progress)

    def _search(self, risk: Risk, reg: QuadraticRegularizer, state: ClassicState) -> _Found:
        """Shorten d until the step is serious or its plane refutes the prediction."""
        center, (d, predicted, _) = state.center, state.direction
        t, count = 1.0, 0
        while True:
            trial = _evaluate(risk, reg, center.w + t * d)
            count += 1
            if trial.objective <= center.objective - SERIOUS * t * predicted and t >= LEAST_STEP:
                return _Found(t, trial, True, count)
            error = max(
                abs(center.objective - float(trial.cut.a @ center.w) - trial.cut.b),
                self.gamma * (t * float(np.linalg.norm(d))) ** self.omega,
            )
            if float(trial.cut.a @ d) - error >= -NULL * predicted or count >= MAX_TRIALS:
                return _Found(t, trial, trial.objective < center.objective, count)
            t *= _shrink(center.objective, trial.objective, t * predicted)


def _shrink(start: float, value: float, predicted: float) -> float:
    """Where the parabola through both values with slope ``-predicted`` at the start is smallest, within bounds."""
    rise = value - start + predicted
    return min(max(0.5 * predicted / rise, 0.1), 0.5) if rise > 0.0 else 0.5


def _next_weight(state: ClassicState, found: _Found) -> float:
    """Kiwiel's (1990) interpolated weight, at most ten times larger or smaller."""
    u, predicted = state.u, state.direction.predicted
    decrease = state.center.objective - found.trial.objective
    wanted = 2.0 * u * (1.0 - decrease / predicted) if predicted > 0.0 else u
    if found.serious:
        return max(min(wanted, u), 0.1 * u) if found.t == 1.0 and decrease >= GOOD * predicted else u
    return min(max(wanted, u), 10.0 * u) if found.t < 1.0 or decrease < -predicted else u


def _evaluate(risk: Risk, reg: QuadraticRegularizer, w: FloatArray) -> Trial:
    """J and its plane at w."""
    cut = risk.cut(w)
    a, objective = cut.a + reg.gradient(w), cut.value + reg.value(w)
    return Trial(w, Cut(a, objective - float(a @ w), objective), objective)
