"""A primal-dual interior point method for the Crammer-Singer loss with L2 and few parameters, or few samples.

The steps are those of ``interior/class_program.py``; their number depends little on lambda, on the sizes of the
features and on the number of samples.  The shares of an iterate prove a bound (``share_dual.py``), and J at its
parameters and intercepts is an upper one:

    sum_ik q_ik costs[y_i, k] - |X' (own - Q)|^2 / (2 lam)  <=  min J  <=  J(W, b)

Where X has more features than samples the parameters are combinations of the samples: with ``X' = B R`` and orthonormal
columns of B the problem is that of the features R', and ``W = U B'``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, final

import numpy as np
from typing_extensions import override

from undercut.contracts import Regularizer, Risk, Solver
from undercut.errors import CapabilityError, NonfiniteError
from undercut.losses import CrammerSinger
from undercut.maps.csr import SparseDesign
from undercut.maps.dense import DenseDesign
from undercut.regularizers import L2
from undercut.risks import MulticlassRisk
from undercut.solvers.bounds import least, tighter
from undercut.solvers.coordinate.dual.share_dual import ShareDual
from undercut.solvers.coordinate.working.columns import column_norms
from undercut.solvers.newton.interior.class_program import ClassProgram, Point
from undercut.solvers.newton.interior.rows import as_array
from undercut.trace import Progress, Status
from undercut.types import FloatArray

MOST_EQUATIONS = 6000  # a step with more takes several seconds
MOST_ENTRIES = 10_000_000  # of a dense copy of X
PASSES = 0.05  # over the data in the time of a step, for every equation
SHORTEST = 1e-6  # a step shorter than this gains nothing


class Reduced:
    """The problem of the samples with positive weight, on as many features as it needs."""

    def __init__(self, risk: MulticlassRisk, reg: L2) -> None:
        kept = np.flatnonzero(risk.weight > 0.0)
        self.risk = risk if kept.size == risk.n_samples else risk.part(kept)
        design = self.risk.features
        assert isinstance(design, SparseDesign | DenseDesign)
        self.design = design
        self.dual = ShareDual(self.risk, reg, column_norms(design, self.risk.weight))
        self.basis: FloatArray | None = None  # a column per combination of the samples
        used: SparseDesign | DenseDesign = design
        if design.shape[1] > design.shape[0]:
            rows = as_array(design)
            assert rows is not None
            self.basis, R = np.linalg.qr(rows.T)
            used = DenseDesign(np.ascontiguousarray(R.T))
        free = self.risk.fit_intercept
        self.program = ClassProgram(used, self.dual.margins, self.dual.own, self.dual.l2, free=free)

    def within(self, W: FloatArray, b: FloatArray) -> FloatArray:
        """Parameters of the program; W is a row per class, of which the mean of all classes is left out."""
        W = W - W.mean(axis=0)
        W = W if self.basis is None else W @ self.basis
        return np.hstack([W, b[:, None]]) if self.program.free else W

    def parameters(self, W: FloatArray) -> tuple[FloatArray, FloatArray]:
        """W of all features, and intercepts."""
        d = self.program.design.shape[1]
        b = W[:, d] if self.program.free else np.zeros(W.shape[0])
        return (W[:, :d] if self.basis is None else W[:, :d] @ self.basis.T), b

    def loss(self, W: FloatArray, b: FloatArray) -> float:
        """The mean loss at these intercepts."""
        scores = self.design.matmat(np.ascontiguousarray(W)) + b
        return float(self.risk.weight @ self.risk.loss.value_slope(self.risk.y, scores)[0])

    def bound(self, at: Point, b: FloatArray, objective: float) -> float:
        """What the shares of an iterate prove."""
        Q = np.maximum(at.q, 0.0)
        Q *= (self.risk.weight / Q.sum(axis=1))[:, None]
        Q = self.dual.feasible(Q)
        steepness = self.dual.steepness(Q, self.dual.forces(Q, self.design))
        return self.dual.bound(Q, steepness, b, objective)


@dataclass(frozen=True)
class ClassInteriorPointState:
    derived: ClassVar = ("problem",)

    problem: Reduced
    at: Point
    b: FloatArray  # intercepts of the solution, near the best ones
    solution: FloatArray
    progress: Progress
    length: float = 1.0  # of the last step


@final
@dataclass(frozen=True)
class ClassInteriorPoint(Solver[ClassInteriorPointState, MulticlassRisk, L2]):
    """Interior point steps for the Crammer-Singer loss with L2, with or without free intercepts.

    >>> from undercut import minimize
    >>> risk = MulticlassRisk(np.eye(3), np.arange(3), CrammerSinger())
    >>> minimize(risk, L2(0.01), ClassInteriorPoint()).w.reshape(3, 3).diagonal().round(2)
    array([0.67, 0.67, 0.67])
    """

    @override
    def check(self, risk: Risk, reg: Regularizer) -> None:
        if not isinstance(risk, MulticlassRisk) or not isinstance(risk.loss, CrammerSinger):
            raise CapabilityError(
                "ClassInteriorPoint needs a MulticlassRisk with the CrammerSinger loss, and this "
                f"{type(risk).__name__} is not one: use InteriorPoint if there is one score, or LineSearchBundle"
            )
        if not isinstance(reg, L2) or reg.center is not None or reg.weights is not None:
            raise CapabilityError(f"ClassInteriorPoint needs L2 without center and weights; got {reg}: use LevelBundle")
        if not isinstance(risk.features, SparseDesign | DenseDesign):
            raise CapabilityError(
                f"ClassInteriorPoint needs X as an array or a sparse matrix; got {type(risk.features).__name__}: "
                "use LineSearchBundle"
            )
        if risk.fit_intercept and not np.bincount(risk.y, risk.weight, risk.n_classes).all():
            raise CapabilityError(
                "with free intercepts ClassInteriorPoint needs a sample with positive weight for every class: "
                "use LineSearchBundle"
            )
        n_samples, n_features = risk.features.shape
        if n_samples < n_features and n_samples * n_features > MOST_ENTRIES:
            raise CapabilityError(
                f"ClassInteriorPoint makes a dense copy of X where features are more than samples, of at most "
                f"{MOST_ENTRIES} entries; got {n_samples} x {n_features}: use ProximalSweeps or DualCoordinate"
            )
        n_equations = risk.n_classes * (min(risk.features.shape) + risk.fit_intercept)
        if n_equations > MOST_EQUATIONS:
            raise CapabilityError(
                f"ClassInteriorPoint solves {n_equations} linear equations in every step, and is for at most "
                f"{MOST_EQUATIONS}: use ProximalSweeps"
            )
        super().check(risk, reg)

    @override
    def init(self, risk: MulticlassRisk, reg: L2, w0: FloatArray) -> ClassInteriorPointState:
        problem, W = Reduced(risk, reg), w0.reshape(risk.n_classes, -1)
        b = risk.intercepts(w0) if w0.any() else np.zeros(risk.n_classes)
        objective = reg.value(w0) + problem.loss(W, b)
        if not math.isfinite(objective):
            raise NonfiniteError(f"the value of the risk is {objective}")
        known = min(least(risk, reg), objective)
        at = problem.program.start(problem.within(W, b), max(objective - known, abs(objective) * 1e-6, 1e-300))
        return ClassInteriorPointState(problem, at, b, w0, Progress(0, objective, known, n_evaluations=1))

    @override
    def step(self, risk: MulticlassRisk, reg: L2, state: ClassInteriorPointState) -> ClassInteriorPointState:
        problem, last = state.problem, state.progress

        # 1. Towards the optimum along the central path.
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            at, length = problem.program.step(state.at)
        if not all(np.isfinite(part).all() for part in at):
            return replace(state, length=0.0, progress=replace(last, step=last.step + 1))

        # 2. J there, and the bound that its shares prove.
        W, b = problem.parameters(at.W)
        objective = reg.value(W.reshape(-1)) + problem.loss(W, b)
        proved = problem.bound(at, b, min(objective, last.objective))
        best, solution = (b, W.reshape(-1)) if objective < last.objective else (state.b, state.solution)
        objective = min(objective, last.objective)
        lower_bound = tighter(last.lower_bound, proved, objective, abs(objective))
        progress = Progress(
            last.step + 1, objective, lower_bound, last.n_evaluations + 1,
            n_passes=last.n_passes + PASSES * at.W.size,
        )  # fmt: skip
        return ClassInteriorPointState(problem, at, best, solution, progress, length)

    @override
    def finish(self, risk: MulticlassRisk, reg: L2, state: ClassInteriorPointState) -> ClassInteriorPointState:
        """J at the best intercepts."""
        if not risk.fit_intercept:
            return state
        risk.phi.begin_at(state.b)
        try:
            objective = reg.value(state.solution) + risk.value(state.solution)
        except NonfiniteError:  # rounding prevents exact intercepts
            return state
        return replace(state, progress=replace(state.progress, objective=min(objective, state.progress.objective)))

    @override
    def restored(self, risk: MulticlassRisk, reg: L2, state: ClassInteriorPointState) -> ClassInteriorPointState:
        return replace(state, problem=Reduced(risk, reg))

    @override
    def ended(self, state: ClassInteriorPointState) -> Status | None:
        return Status.STALLED if state.length < SHORTEST else None
