"""Dual coordinate descent (Hsieh et al. 2008) with a certificate, for linear models with squares in their penalty.

Each sample has one dual variable, and its optimum with all others fixed is a formula, so that a sweep over the samples
costs about as much as one product with X and makes far more progress.  Two numbers bracket the optimum:

    D(a)  <=  min_w J(w)  <=  J(best),        best <- argmin_t J(best + t (w(a) - best))

where ``w(a)`` belongs to the dual point a.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, final

import numpy as np
from typing_extensions import override

from undercut.accuracy import wanted_gap
from undercut.contracts import Regularizer, Risk, ScoreFunction, Solver, StoredDesign
from undercut.errors import CapabilityError
from undercut.losses import CrammerSinger, Softmax
from undercut.maps.design import WithConstant
from undercut.regularizers import L2, ElasticNet
from undercut.risks import LinearRisk, MulticlassRisk
from undercut.risks.scores.score_risk import ScoreLine
from undercut.solvers.bounds import LINE_ACCURACY, least, tighter
from undercut.solvers.coordinate.dual.class_descent import class_descent, followed_classes
from undercut.solvers.coordinate.dual.class_dual import class_dual
from undercut.solvers.coordinate.dual.conjugates import KNOWN_LOSSES, has_conjugate
from undercut.solvers.coordinate.dual.descent import Descent, Dual
from undercut.solvers.coordinate.dual.pointwise_descent import PointwiseDescent, followed_pointwise, pointwise_descent
from undercut.solvers.coordinate.dual.pointwise_dual import pointwise_dual
from undercut.solvers.coordinate.dual.start import End
from undercut.trace import Progress, Status
from undercut.types import FloatArray

DualRisk: TypeAlias = LinearRisk | MulticlassRisk
DualReg: TypeAlias = L2 | ElasticNet

SLICE = 15_000_000  # entries of X that one step may use: a fraction of a second
COPIED = 20  # entries of X per number that the step copies, at least
LONGEST = 20  # passes after which a certificate is due
FAR = 0.03  # share of the objective: a larger gap is far from any tolerance
DRIFT = 1e-3  # share of the gap that the sweeps' rounding may cost a bound
RAY_ACCURACY = 1e-6  # share of the decrease that may be left: at w itself J may be far above its minimum
FARTHEST = 10.0  # steps on a line, relative to its length: the difference of two scores is rounded
MAX_IDLE, IDLE_PASSES = 20, 80  # certificates and passes without any change before rounding is to blame


@dataclass(frozen=True)
class DualCoordinateState:
    descent: Descent[Any]  # never changed: a step works on a copy
    line: ScoreLine  # passes through the solution at ``t``
    t: float
    solution: FloatArray
    certified: int  # work at the last certificate
    idle: int  # certificates since the bracket has changed ...
    changed: int  # ... and the work until then
    progress: Progress
    before: End | None = None  # of the run with another lambda that was carried on


@final
@dataclass(frozen=True)
class DualCoordinate(Solver[DualCoordinateState, DualRisk, DualReg]):
    """Dual coordinate descent: the fastest certified solver for wide and sparse data.

    >>> from undercut import Hinge, LinearRisk, minimize
    >>> X, y = np.array([[2.0, 0.0], [0.0, 1.0]]), np.array([1.0, -1.0])
    >>> minimize(LinearRisk(X, y, Hinge()), L2(0.1), DualCoordinate()).w.round(6)
    array([ 0.5, -1. ])
    """

    may_stall = False  # most steps take no certificate; ``ended`` counts those that do
    pass_cost = 3.0  # rows in random order, each read and then added to v

    @override
    def init(self, risk: DualRisk, reg: DualReg, w0: FloatArray) -> DualCoordinateState:
        scores = risk.scores(w0)
        at = risk.phi.evaluate(scores)
        objective = reg.value(w0) + at.value
        descent = _descent(risk, reg, at.slopes.copy())  # the next evaluation, at zero, overwrites them
        line = ScoreLine(risk, scores, np.zeros_like(scores))
        progress = Progress(0, objective, least(risk, reg), n_evaluations=1)
        descent.aim(wanted_gap(progress) / objective if objective > 0.0 else 0.0)
        return DualCoordinateState(descent, line, 0.0, w0, 0, 0, 0, progress)

    @override
    def carry(self, risk: DualRisk, reg: DualReg, state: DualCoordinateState) -> DualCoordinateState:
        last: Descent[Any] = state.descent
        end = End(last.dual.strength, last.a, last.dual.at_end(last.a))
        descent = _followed(risk, reg, last, (end, state.before))
        objective = reg.value(state.solution) + state.line.value(state.t)
        progress = Progress(0, objective, least(risk, reg))
        before = state.before if end.strength == descent.dual.strength else end
        return replace(state, descent=descent, certified=0, idle=0, changed=0, progress=progress, before=before)

    @override
    def step(self, risk: DualRisk, reg: DualReg, state: DualCoordinateState) -> DualCoordinateState:
        # 1. A slice of sweeps, short enough for a clock.
        last, descent = state.progress, state.descent.copy()
        dual: Dual = descent.dual
        due = state.certified + _patience(state)
        rest = max(due - descent.work, dual.pass_work)
        descent.run(int(min(rest, max(SLICE, COPIED * (descent.a.size + descent.v.size)))))
        progress = replace(last, step=last.step + 1, n_passes=descent.work / dual.pass_work)
        after = replace(state, descent=descent, progress=progress)

        # 2. What it proves, if that is likely to be worth a product with X.
        return self._certified(risk, reg, after) if descent.work >= due or descent.is_ripe else after

    def _certified(self, risk: DualRisk, reg: DualReg, state: DualCoordinateState) -> DualCoordinateState:
        """The bound of the dual point, and the best point on the way to its w."""
        # 1. The bound needs the exact products where the sweeps' rounding would cost too much of it.
        last, descent = state.progress, state.descent
        point = descent.settled()
        bound = point.bound(DRIFT * last.gap)

        # 2. The best point moves to the minimum of J on the way to the point of a.
        scores = descent.dual.scores(point.v)
        lifted = point.lifted(scores)
        found = _toward(risk, reg, state, point.v, scores.copy())
        if lifted is not point.v:  # far from the optimum, lifting makes the point worse
            other = _toward(risk, reg, state, lifted, descent.dual.scores(lifted))
            found = min(found, other, key=lambda one: one[3])
        line, t, solution, objective = found
        lower_bound = tighter(last.lower_bound, bound, objective)
        is_closer = objective < last.objective or lower_bound > last.lower_bound
        progress = replace(last, objective=objective, lower_bound=lower_bound, n_evaluations=last.n_evaluations + 1)
        idle, changed = (0, descent.work) if is_closer else (state.idle + 1, state.changed)
        m, goal = descent.dual.strength, wanted_gap(progress)
        if point is descent and progress.gap > goal:  # otherwise the run ends, and no sweep needs to know
            descent.seen(scores, progress.gap / m, goal / m)
        return DualCoordinateState(descent, line, t, solution, descent.work, idle, changed, progress, state.before)

    @override
    def finish(self, risk: DualRisk, reg: DualReg, state: DualCoordinateState) -> DualCoordinateState:
        if state.descent.work == state.certified:
            return state
        return self._certified(risk, reg, replace(state, descent=state.descent.copy()))

    @override
    def restored(self, risk: DualRisk, reg: DualReg, state: DualCoordinateState) -> DualCoordinateState:
        return replace(state, descent=state.descent.with_dual(_dual(risk, reg)))

    @override
    def ended(self, state: DualCoordinateState) -> Status | None:
        passes = (state.descent.work - state.changed) / state.descent.dual.pass_work
        return Status.STALLED if state.idle >= MAX_IDLE and passes >= IDLE_PASSES else None

    @override
    def check(self, risk: Risk, reg: Regularizer) -> None:
        name = type(risk).__name__
        if isinstance(risk, MulticlassRisk):
            _check_classes(risk, reg)
        elif not isinstance(risk, LinearRisk):
            raise CapabilityError(
                f"DualCoordinate needs a LinearRisk or a MulticlassRisk, and {name} is neither: use LineSearchBundle"
            )
        elif not has_conjugate(risk.loss):
            raise CapabilityError(
                f"DualCoordinate needs a loss whose conjugate it knows ({KNOWN_LOSSES}), and "
                f"{type(risk.loss).__name__} is not among them: use LineSearchBundle"
            )
        elif not isinstance(reg, L2 | ElasticNet) or reg.strong_convexity <= 0.0:
            raise CapabilityError(
                f"DualCoordinate needs L2, or ElasticNet with l1_ratio below 1, and got {reg}: use LevelBundle"
            )
        if not isinstance(risk.features if isinstance(risk, MulticlassRisk) else risk.design, StoredDesign):
            raise CapabilityError(
                "DualCoordinate needs X as an array or a sparse matrix, whose rows it reads: use LineSearchBundle"
            )
        super().check(risk, reg)


def _check_classes(risk: MulticlassRisk, reg: Regularizer) -> None:
    """Several classes: a loss with known conjugate, and plain squares."""
    if not isinstance(risk.loss, CrammerSinger | Softmax):
        raise CapabilityError(
            "DualCoordinate needs the CrammerSinger or the Softmax loss for several classes, and got "
            f"{type(risk.loss).__name__}: use Lbfgs"
        )
    if risk.fit_intercept and isinstance(risk.features, WithConstant):
        raise CapabilityError(
            "DualCoordinate has no room for a constant feature beside free intercepts: leave one of them out"
        )
    if not isinstance(reg, L2) or reg.center is not None or reg.weights is not None:
        raise CapabilityError(
            f"DualCoordinate needs L2 without center and weights for several classes, and got {reg}: "
            "use LineSearchBundle"
        )


def _descent(risk: DualRisk, reg: DualReg, slopes: FloatArray) -> Descent[Any]:
    """The sweeps, from the dual point of the slopes at w0."""
    if isinstance(risk, LinearRisk):
        return pointwise_descent(risk, reg, slopes)
    assert isinstance(reg, L2)
    return class_descent(risk, reg, slopes)


def _followed(risk: DualRisk, reg: DualReg, last: Descent[Any], ends: tuple[End, End | None]) -> Descent[Any]:
    """The sweeps after a run with another lambda."""
    if isinstance(risk, LinearRisk):
        assert isinstance(last, PointwiseDescent)
        return followed_pointwise(risk, reg, last, ends)
    assert isinstance(reg, L2)
    return followed_classes(risk, reg, last, ends)


def _dual(risk: DualRisk, reg: DualReg) -> Dual:
    """The problem that the sweeps solve."""
    if isinstance(risk, LinearRisk):
        return pointwise_dual(risk, reg)
    assert isinstance(reg, L2)
    return class_dual(risk, reg)


def _patience(state: DualCoordinateState) -> float:
    """The work from one certificate to the next."""
    due, one = state.descent.due, state.descent.dual.pass_work
    share = due.early if state.progress.gap > FAR * abs(state.progress.objective) else due.late
    return float(max(due.first * one, min(share * state.certified, max(LONGEST * one, 2 * SLICE))))


def _toward(
    risk: DualRisk, reg: DualReg, state: DualCoordinateState, v: FloatArray, scores: FloatArray
) -> tuple[ScoreLine, float, FloatArray, float]:
    """(line, t, solution, objective) at the minimum of J on the line from the solution to a multiple of v's w."""
    best, objective, dual = state.solution, state.progress.objective, state.descent.dual
    w, scores = _scaled(reg, dual.primal(v), scores, *state.descent.on_rays(v))
    line, direction = state.line.toward(state.t, scores), w - best
    farthest = FARTHEST if isinstance(reg, L2) else 1.0  # beyond w the rise of another reg is not known
    t = min(line.minimizer(*_along(reg, best, w, direction), accuracy=LINE_ACCURACY), farthest)
    for trial in (t, 1.0):
        solution = w if trial == 1.0 else _moved(best, trial, direction)
        found = reg.value(solution) + line.value(trial)
        if found < objective:
            return line, trial, solution, found
    return line, 0.0, best, objective


def _moved(w: FloatArray, t: float, direction: FloatArray) -> FloatArray:
    """``w + t direction`` with one new array: memory for long ones takes longer than the sum."""
    moved = t * direction
    moved += w
    return moved


def _scaled(
    reg: DualReg, w: FloatArray, scores: FloatArray, phi: ScoreFunction, shift: FloatArray | float
) -> tuple[FloatArray, FloatArray]:
    """The best multiple of w and its scores: a little longer, w meets the margins that the sweeps just miss.

    Both are overwritten.  ``phi`` is the risk as a function of scores to which ``shift`` is added.
    """
    shifted = scores + shift
    for sign, (slope, curvature) in _both_ways(reg, w):
        t = phi.minimizer(shifted, sign * shifted, slope, curvature, RAY_ACCURACY)
        if t > 0.0:
            w *= 1.0 + sign * t
            scores *= 1.0 + sign * t
            break
    return w, scores


def _both_ways(reg: DualReg, w: FloatArray) -> Iterator[tuple[float, tuple[float, float]]]:
    """Slope and curvature of reg on the way from w to 2 w, the sign 1, and to 0, the sign -1; see ``_along``."""
    if isinstance(reg, L2):
        slope, curvature = reg.along(w, w)
        yield from ((sign, (sign * slope, curvature)) for sign in (1.0, -1.0))
    else:
        yield from ((sign, _along(reg, w, (1.0 + sign) * w, sign * w)) for sign in (1.0, -1.0))


def _along(reg: DualReg, w: FloatArray, end: FloatArray, direction: FloatArray) -> tuple[float, float]:
    """Slope and curvature of reg on the way from w to ``end = w + direction``, or of a function above it there.

    ``reg(w + t d) <= reg(w) + t (reg(end) - reg(w)) - m/2 t (1 - t) |d|^2`` for t in [0, 1] and d the direction, with
    equality for all t where reg is L2 without weights, and for t >= 0 where ``end`` is a multiple of w.
    """
    if isinstance(reg, L2):
        return reg.along(w, direction)
    curvature = reg.strong_convexity * float(direction @ direction)
    return reg.value(end) - reg.value(w) - 0.5 * curvature, curvature
