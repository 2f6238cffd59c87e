"""The Crammer-Singer loss with L1 or the elastic net, by softmax losses of falling temperature.

    min_W  l1 |W|_1 + l2/2 |W|^2 + sum_i weight_i t log sum_k exp((costs[y_i, k] + s_ik - s_iy) / t)

tends to the problem with the maximum over k for ``t -> 0`` (Nesterov 2005).  With ``W = t U`` it is, divided by t, the
sparse softmax problem of U with shifted scores, on which ``WorkingSet`` takes Newton steps.  The probabilities p of
these losses are a point of the dual of the exact problem as well, whatever t is:

    sum_i weight_i <costs[y_i], p_i>  <=  min J       where |X' (weight (p - e_y))| <= l1, to which p is scaled
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import final

import numpy as np
from typing_extensions import override

from undercut.accuracy import gap_allowed
from undercut.contracts import Regularizer, Risk, Solver
from undercut.errors import CapabilityError
from undercut.losses import CrammerSinger
from undercut.maps.csr import SparseDesign
from undercut.maps.dense import DenseDesign
from undercut.regularizers import L1, ElasticNet
from undercut.risks import MulticlassRisk
from undercut.solvers.bounds import least, tighter
from undercut.solvers.coordinate.working.class_problem import ClassProblem
from undercut.solvers.coordinate.working.shifted_softmax import ShiftedSoftmax
from undercut.solvers.coordinate.working_set import WorkingSet, WorkingSetState
from undercut.trace import Progress
from undercut.types import FloatArray

FIRST = 0.1  # temperature, in units of the largest cost
COOLER = 0.3  # the temperature is multiplied by this ...
SETTLED = 0.3  # ... where the gap of the smooth problem is at most this share of that of the exact one
INNER = WorkingSet()


@dataclass(frozen=True)
class SmoothingState:
    temperature: float
    inner: WorkingSetState  # of the smooth problem, in units of the temperature
    solution: FloatArray
    progress: Progress


@final
@dataclass(frozen=True, kw_only=True)
class Smoothing(Solver[SmoothingState, MulticlassRisk, L1 | ElasticNet]):
    """Softmax losses of falling temperature: the Crammer-Singer loss with L1 or the elastic net.

    >>> from undercut import Stop, minimize
    >>> risk = MulticlassRisk(np.eye(3), np.arange(3), CrammerSinger())
    >>> minimize(risk, L1(0.1), Smoothing(), stop=Stop(gap_rel=1e-2)).w.reshape(3, 3).diagonal().round(1)
    array([1., 1., 1.])
    """

    @override
    def check(self, risk: Risk, reg: Regularizer) -> None:
        if not isinstance(reg, L1 | ElasticNet) or reg.terms.l1 <= 0.0:
            raise CapabilityError(
                f"Smoothing needs L1 or ElasticNet with a positive l1_ratio; got {reg}: use LevelBundle or L2"
            )
        if not isinstance(risk, MulticlassRisk) or not isinstance(risk.loss, CrammerSinger):
            raise CapabilityError(
                f"Smoothing needs a MulticlassRisk with the CrammerSinger loss, and this {type(risk).__name__} is not "
                "one: use WorkingSet if the loss is smooth, or LevelBundle"
            )
        if not isinstance(risk.features, SparseDesign | DenseDesign):
            raise CapabilityError(
                f"Smoothing needs X as an array or a sparse matrix; got {type(risk.features).__name__}: use LevelBundle"
            )
        if risk.fit_intercept and not np.bincount(risk.y, risk.weight, risk.n_classes).all():
            raise CapabilityError(
                "with free intercepts Smoothing needs a sample with positive weight for every class: use LevelBundle"
            )
        super().check(risk, reg)

    @override
    def init(self, risk: MulticlassRisk, reg: L1 | ElasticNet, w0: FloatArray) -> SmoothingState:
        scores = risk.phi.rows(risk.design.matvec(w0))
        at = risk.phi.settle(scores)
        temperature = FIRST * float(_costs(risk).max()) or 1.0
        inner = _started(risk, reg, np.zeros_like(w0), 0.0, temperature)  # w0 may be far from its minimum, and dense
        objective = reg.value(w0) + at.value
        return SmoothingState(temperature, inner, w0, Progress(0, objective, least(risk, reg), 1))

    @override
    def step(self, risk: MulticlassRisk, reg: L1 | ElasticNet, state: SmoothingState) -> SmoothingState:
        # 1. Newton steps on a working set of the smooth problem.
        last, temperature = state.progress, state.temperature
        smooth = _smoothed(risk, temperature, state.inner.point.intercept)
        with gap_allowed():  # the run does not end at a gap of the smooth problem
            inner = INNER.step(smooth, _scaled(reg, temperature), state.inner)

        # 2. The exact objective there, and what the probabilities prove about its minimum.
        w, point = temperature * inner.w, inner.point
        risk.phi.begin_at(temperature * (point.intercept + np.zeros(risk.n_classes)))
        found = reg.value(w) + risk.phi.settle(temperature * point.scores).value
        objective, solution = min((last.objective, state.solution), (found, w), key=lambda pair: pair[0])
        exact = ExactDual(smooth, reg, inner.norms, temperature)
        proved = exact.bound(point.slopes, point.gradient, inner.norms > 0.0, objective).value
        lower_bound = tighter(last.lower_bound, proved, objective)
        progress = Progress(last.step + 1, objective, lower_bound, last.n_evaluations + 2)

        # 3. A lower temperature, once the rest of the smooth problem is small beside the error of the smoothing.
        if temperature * inner.progress.gap <= SETTLED * (found - lower_bound):
            cooler = COOLER * temperature
            inner = _started(risk, reg, w, temperature * point.intercept, cooler)
            return SmoothingState(cooler, inner, solution, progress)
        return replace(state, inner=inner, solution=solution, progress=progress)

    @override
    def restored(self, risk: MulticlassRisk, reg: L1 | ElasticNet, state: SmoothingState) -> SmoothingState:
        smooth = _smoothed(risk, state.temperature, state.inner.point.intercept)
        return replace(state, inner=INNER.restored(smooth, _scaled(reg, state.temperature), state.inner))


class ExactDual(ClassProblem):
    """The bound that slopes of the smooth losses prove for the exact ones."""

    def __init__(self, smooth: MulticlassRisk, reg: Regularizer, norms: FloatArray, temperature: float) -> None:
        super().__init__(smooth, reg, norms)
        self.temperature = temperature

    @override
    def conjugate(self, slopes: FloatArray, share: float) -> FloatArray:
        loss = self.risk.loss
        assert isinstance(loss, ShiftedSoftmax)
        return -share * self.temperature * loss.gains(slopes, self.risk.y)


def _costs(risk: MulticlassRisk) -> FloatArray:
    assert isinstance(risk.loss, CrammerSinger)
    return risk.loss.costs(risk.n_classes)


def _smoothed(risk: MulticlassRisk, temperature: float, intercept: FloatArray | float) -> MulticlassRisk:
    """The smooth risk of ``W / temperature``; its search for intercepts begins at the given ones."""
    smooth = MulticlassRisk(
        risk.features, risk.y, ShiftedSoftmax(_costs(risk) / temperature), risk.weight, risk.fit_intercept,
        risk.n_classes,
    )  # fmt: skip
    smooth.phi.begin_at(intercept + np.zeros(risk.n_classes))
    return smooth


def _scaled(reg: L1 | ElasticNet, temperature: float) -> ElasticNet:
    """The penalty of ``W / temperature``, divided by the temperature."""
    l1, l2 = float(reg.terms.l1), temperature * float(reg.terms.l2)
    return ElasticNet(l1 + l2, l1_ratio=l1 / (l1 + l2))


def _started(
    risk: MulticlassRisk, reg: L1 | ElasticNet, w: FloatArray, intercept: FloatArray | float, temperature: float
) -> WorkingSetState:
    smooth = _smoothed(risk, temperature, intercept / temperature)
    return INNER.init(smooth, _scaled(reg, temperature), w / temperature)
