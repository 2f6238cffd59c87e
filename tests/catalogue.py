"""The catalogue: every loss with a formula of its own, and small problems whose optimum a conic solver knows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import cvxpy as cp
import numpy as np
import scipy.sparse as sp

from undercut import (
    L2,
    Absolute,
    CuttingPlane,
    EpsilonInsensitive,
    Exponential,
    Hinge,
    Huber,
    HuberHinge,
    Lbfgs,
    LinearRisk,
    LineSearchBundle,
    Logistic,
    Newton,
    Poisson,
    Quantile,
    Ramp,
    Squared,
    SquaredHinge,
)
from undercut.contracts import Loss, PiecewiseLinearLoss, SmoothLoss
from undercut.losses import TransductiveHinge
from undercut.solvers import DualAscent, TruncatedNewton


@dataclass(frozen=True)
class LossCase:
    """A loss, the same loss in NumPy and in CVXPY, and the scores where it is not smooth."""

    name: str
    loss: Loss
    targets: str  # "signs", "reals" or "counts"
    formula: Callable[[Any, Any], Any]
    atom: Callable[[Any, Any], Any]
    kinks: Callable[[float], tuple[float, ...]]

    @property
    def is_smooth(self) -> bool:
        return isinstance(self.loss, SmoothLoss)

    def draw_targets(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """Random targets of the right kind, both classes among them."""
        if self.targets == "signs":
            return np.where(np.arange(n) % 2 == 0, 1.0, -1.0)[rng.permutation(n)]
        if self.targets == "counts":
            return rng.poisson(1.5, n).astype(np.float64)
        return rng.standard_normal(n)


def own(loss: Loss) -> Loss:
    """The same loss as a user's own, which has no compiled slope."""
    kind = type("Own", (type(loss),), {})
    copy = kind.__new__(kind)
    copy.__dict__.update(loss.__dict__)
    return copy


def _huber_hinge(width: float) -> Callable[[Any, Any], Any]:
    def formula(y: Any, s: Any) -> Any:
        margin = y * s
        inside = (1.0 + width - margin) ** 2 / (4.0 * width)
        return np.where(margin > 1.0 + width, 0.0, np.where(margin < 1.0 - width, 1.0 - margin, inside))

    return formula


def _huber(width: float) -> Callable[[Any, Any], Any]:
    def formula(y: Any, s: Any) -> Any:
        distance = np.abs(s - y)
        return np.where(distance <= width, 0.5 * distance**2, width * (distance - 0.5 * width))

    return formula


LOSSES = {
    case.name: case
    for case in (
        LossCase(
            "hinge",
            Hinge(),
            "signs",
            lambda y, s: np.maximum(0.0, 1.0 - y * s),
            lambda y, s: cp.pos(1.0 - cp.multiply(y, s)),
            lambda y: (y,),
        ),
        LossCase(
            "squared_hinge",
            SquaredHinge(),
            "signs",
            lambda y, s: np.maximum(0.0, 1.0 - y * s) ** 2,
            lambda y, s: cp.square(cp.pos(1.0 - cp.multiply(y, s))),
            lambda y: (y,),
        ),
        LossCase(
            "huber_hinge",
            HuberHinge(width=0.3),
            "signs",
            _huber_hinge(0.3),
            lambda y, s: cp.huber(cp.pos(1.3 - cp.multiply(y, s)), 0.6) / 1.2,
            lambda y: (0.7 * y, 1.3 * y),
        ),
        LossCase(
            "logistic",
            Logistic(),
            "signs",
            lambda y, s: np.logaddexp(0.0, -y * s),
            lambda y, s: cp.logistic(-cp.multiply(y, s)),
            lambda y: (),
        ),
        LossCase(
            "exponential",
            Exponential(),
            "signs",
            lambda y, s: np.exp(-y * s),
            lambda y, s: cp.exp(-cp.multiply(y, s)),
            lambda y: (),
        ),
        LossCase(
            "squared",
            Squared(),
            "reals",
            lambda y, s: 0.5 * (s - y) ** 2,
            lambda y, s: 0.5 * cp.square(s - y),
            lambda y: (),
        ),
        LossCase(
            "absolute",
            Absolute(),
            "reals",
            lambda y, s: np.abs(s - y),
            lambda y, s: cp.abs(s - y),
            lambda y: (y,),
        ),
        LossCase(
            "epsilon_insensitive",
            EpsilonInsensitive(epsilon=0.4),
            "reals",
            lambda y, s: np.maximum(0.0, np.abs(s - y) - 0.4),
            lambda y, s: cp.pos(cp.abs(s - y) - 0.4),
            lambda y: (y - 0.4, y + 0.4),
        ),
        LossCase(
            "quantile",
            Quantile(quantile=0.8),
            "reals",
            lambda y, s: np.maximum(0.8 * (y - s), 0.2 * (s - y)),
            lambda y, s: cp.maximum(0.8 * (y - s), 0.2 * (s - y)),
            lambda y: (y,),
        ),
        LossCase(
            "huber",
            Huber(width=0.5),
            "reals",
            _huber(0.5),
            lambda y, s: 0.5 * cp.huber(s - y, 0.5),
            lambda y: (y - 0.5, y + 0.5),
        ),
        LossCase(
            "poisson",
            Poisson(),
            "counts",
            lambda y, s: np.exp(s) - y * s,
            lambda y, s: cp.exp(s) - cp.multiply(y, s),
            lambda y: (),
        ),
    )
}


class NonconvexCase(NamedTuple):
    """A loss that no conic solver takes, and the same loss in NumPy."""

    loss: Loss
    targets: str  # "signs", or "unlabelled": signs and 0
    formula: Callable[[Any, Any], Any]


NONCONVEX = {
    "ramp": NonconvexCase(Ramp(floor=-0.5), "signs", lambda y, s: np.minimum(1.5, np.maximum(0.0, 1.0 - y * s))),
    "transductive_hinge": NonconvexCase(
        TransductiveHinge(), "unlabelled", lambda y, s: np.maximum(0.0, 1.0 - np.where(y == 0.0, np.abs(s), y * s))
    ),
}
ALL = tuple(LOSSES)
SMOOTH = tuple(name for name, case in LOSSES.items() if case.is_smooth)
PIECEWISE = tuple(name for name, case in LOSSES.items() if isinstance(case.loss, PiecewiseLinearLoss))
MARGIN = tuple(name for name, case in LOSSES.items() if case.targets == "signs")


class Optimum(NamedTuple):
    """The oracle's point and J there: never below the optimum, and above it by little."""

    w: np.ndarray
    b: float
    value: float


@dataclass(frozen=True)
class Problem:
    """``J(w, b) = lam/2 |(w - center) * weights|^2 + sum_i weight_i l(y_i, <w, x_i> + b)`` on random data."""

    loss: str
    fit_intercept: bool = False
    weighted: bool = False
    shifted: bool = False  # whether the regularizer has a center and weights
    lam: float = 0.05
    n: int = 30
    d: int = 5
    seed: int = 0

    @property
    def case(self) -> LossCase:
        return LOSSES[self.loss]

    @property
    def X(self) -> np.ndarray:
        rng = np.random.default_rng([self.seed, 1])
        return rng.standard_normal((self.n, self.d)) * (rng.random((self.n, self.d)) < 0.7)

    @property
    def y(self) -> np.ndarray:
        rng = np.random.default_rng([self.seed, 2])
        scores = self.X @ rng.standard_normal(self.d) + 0.5 + rng.standard_normal(self.n)
        if self.case.targets == "signs":
            return np.where(scores > 0.0, 1.0, -1.0)
        return rng.poisson(np.exp(0.3 * scores)).astype(np.float64) if self.case.targets == "counts" else scores

    @property
    def sample_weight(self) -> np.ndarray | None:
        return np.random.default_rng([self.seed, 3]).random(self.n) + 0.1 if self.weighted else None

    @property
    def reg(self) -> L2:
        if not self.shifted:
            return L2(self.lam)
        rng = np.random.default_rng([self.seed, 4])
        return L2(self.lam, center=rng.standard_normal(self.d), weights=rng.random(self.d) + 0.5)

    def risk(self, *, sparse: bool = False) -> LinearRisk:
        X = sp.csr_array(self.X) if sparse else self.X
        return LinearRisk(X, self.y, self.case.loss, self.sample_weight, fit_intercept=self.fit_intercept)

    def objective(self, w: np.ndarray, b: float) -> float:
        """J by its formula, without the library."""
        center, weights = self._center_and_weights()
        losses = self.case.formula(self.y, self.X @ w + b)
        return float(0.5 * self.lam * np.sum(((w - center) * weights) ** 2) + self._shares() @ losses)

    def optimum(self) -> Optimum:
        """The minimizer according to Clarabel."""
        return _optimum(self)

    def _center_and_weights(self) -> tuple[Any, Any]:
        return (self.reg.center, self.reg.weights) if self.shifted else (0.0, 1.0)

    def _shares(self) -> np.ndarray:
        weight = np.ones(self.n) if self.sample_weight is None else self.sample_weight
        return weight / weight.sum()


@cache
def _optimum(problem: Problem) -> Optimum:
    center, weights = problem._center_and_weights()
    w, b = cp.Variable(problem.d), cp.Variable()
    penalty = 0.5 * problem.lam * cp.sum_squares(cp.multiply(weights * np.ones(problem.d), w - center))
    losses = problem.case.atom(problem.y, problem.X @ w + (b if problem.fit_intercept else 0.0))
    program = cp.Problem(cp.Minimize(penalty + problem._shares() @ losses))
    program.solve(solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    assert program.status == cp.OPTIMAL, program.status
    intercept = float(b.value) if problem.fit_intercept else 0.0
    return Optimum(w.value, intercept, problem.objective(w.value, intercept))


class SolverCase(NamedTuple):
    """A solver, the relative gap it is asked for, and the losses it is made for."""

    solver: Any
    gap_rel: float
    losses: tuple[str, ...] = ALL


SOLVERS = {
    "line_search": SolverCase(LineSearchBundle(), 1e-6),
    "line_search_limited": SolverCase(LineSearchBundle(max_planes=8), 1e-5),
    "cutting_plane": SolverCase(CuttingPlane(), 1e-6),
    "cutting_plane_limited": SolverCase(CuttingPlane(max_planes=8), 1e-5),
    "dual_ascent": SolverCase(DualAscent(), 1e-2),
    "lbfgs": SolverCase(Lbfgs(), 1e-6, SMOOTH),
    "newton": SolverCase(Newton(), 1e-6, SMOOTH),
    "truncated_newton": SolverCase(TruncatedNewton(), 1e-6, SMOOTH),
}
