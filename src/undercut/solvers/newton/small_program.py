"""All of a small problem by one compiled call: an interior point method from the data to the optimum.

A step of a solver takes most of a millisecond in Python however small the problem is; the compiled path takes less for
all of its steps (``_jit/central_path.py``).  The slopes of the losses at its end prove the bound, as any slopes do:

    R(w)  >=  <X'g, w> - sum_i weight_i l*(y_i, g_i / weight_i)          (sum g = 0 with a free intercept)
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, final

import numpy as np
from typing_extensions import override

from undercut._jit.central_path import follow
from undercut._jit.pointwise import NO_LOSS, curve
from undercut._jit.small_program import at_kinks, move_inside, plane
from undercut.contracts import PiecewiseLinearLoss, QuadraticRegularizer, Regularizer, Risk, Solver
from undercut.errors import CapabilityError, NonfiniteError
from undercut.losses import Exponential, Logistic, Poisson, Squared
from undercut.maps.csr import SparseDesign
from undercut.maps.dense import DenseDesign
from undercut.regularizers import Entropy, SquaredLp
from undercut.risks import LinearRisk
from undercut.risks.scores.mean_loss import FreeSmooth
from undercut.solvers.bounds import ROUNDING, least, plane_bound, tighter
from undercut.solvers.newton.interior.crossover import crossed
from undercut.solvers.newton.interior.kinked_program import KinkedProgram, by_kink, is_rounded, loss_kinks, packed
from undercut.solvers.newton.interior.mehrotra import Iterate
from undercut.solvers.newton.interior.penalty_terms import PenaltyTerms, filled_terms, has_terms, no_kinks
from undercut.solvers.newton.interior.rows import as_array
from undercut.solvers.newton.interior.slopes_bound import slopes_bound
from undercut.trace import Progress, Status
from undercut.types import FloatArray

MOST_WORK = 20_000_000  # products of entries of X in a step
OTHER_WORK = 20_000_000  # cube of the larger size of X: up to here the equations of that size are tried too
ACCURACY = 1e-9  # relative gap that is aimed at
ENOUGH = 1e-8  # relative gap with which the sparsest point is taken
MAX_STEPS = 100
OFF_FACES = 0.1  # share of the prior in the start on a simplex
SPARSER = np.array([1.0, 1e-2, 1e-4, 0.0])  # how readily parameters are taken to be at a kink, in the order of trial
CURVED = (Logistic, Exponential, Poisson, Squared)


@dataclass(frozen=True)
class SmallState:
    solution: FloatArray
    progress: Progress
    start: FloatArray
    intercept: float  # at the start
    objective: float  # at the start
    attempts: int  # paths that may be followed
    dense: Iterate | None = None  # the end of the path, where fewer parameters could do


class _Arrays(NamedTuple):
    """A problem as compiled functions see it (``_jit/central_path.py``)."""

    A: FloatArray
    At: FloatArray
    left: FloatArray
    kinks: FloatArray
    penalty: FloatArray
    entropy: float | None
    power: float | None
    strength: float
    number: int
    targets: FloatArray


class _Found(NamedTuple):
    """Points, those with more parameters at zero or a bound first, and a bound with the size of its terms."""

    end: Iterate
    points: FloatArray
    lower_bound: float
    size: float


@final
@dataclass(frozen=True)
class SmallProgram(Solver[SmallState, LinearRisk, Regularizer]):
    """Problems of some hundred samples and parameters in one step.

    >>> from undercut import L1, Hinge, minimize
    >>> risk = LinearRisk(np.eye(2), np.array([1.0, -1.0]), Hinge())
    >>> result = minimize(risk, L1(0.1), SmallProgram())
    >>> result.w.round(2), round(result.objective, 2), result.n_steps
    (array([ 1., -1.]), 0.2, 1)
    """

    @override
    def check(self, risk: Risk, reg: Regularizer) -> None:
        if not isinstance(risk, LinearRisk) or not _has_form(risk):
            raise CapabilityError(
                f"SmallProgram needs a LinearRisk with a piecewise-linear loss or a smooth one of this library, and "
                f"this {type(risk).__name__} is not one: use InteriorPoint or LineSearchBundle"
            )
        if not isinstance(risk.design, DenseDesign | SparseDesign):
            raise CapabilityError(
                f"SmallProgram needs X as an array or a sparse matrix; got {type(risk.design).__name__}: "
                "use LineSearchBundle"
            )
        n, d = risk.design.shape
        if n * d * min(n, d) > MOST_WORK:
            raise CapabilityError(f"SmallProgram is for small problems; got {n} x {d}: use InteriorPoint")
        if not (has_terms(reg) or isinstance(reg, Entropy | SquaredLp)):
            raise CapabilityError(
                f"SmallProgram needs a penalty that is a sum of absolute values, squares and bounds, an Entropy or a "
                f"SquaredLp, and {type(reg).__name__} is none of them: use LevelBundle as the solver"
            )

    @override
    def init(self, risk: LinearRisk, reg: Regularizer, w0: FloatArray) -> SmallState:
        at = risk.phi.evaluate(risk.scores(w0))
        objective = reg.value(w0) + at.value
        if not math.isfinite(objective):
            raise NonfiniteError(f"the value of the risk is {objective}")
        progress = Progress(0, objective, min(least(risk, reg), objective), n_evaluations=1)
        attempts = 2 if max(risk.design.shape) ** 3 <= OTHER_WORK else 1
        return SmallState(w0, progress, w0, at.intercept, objective, attempts)

    @override
    def step(self, risk: LinearRisk, reg: Regularizer, state: SmallState) -> SmallState:
        last = state.progress
        if last.step >= state.attempts:  # rounding does not allow more
            return replace(state, progress=replace(last, step=last.step + 1))

        # 1. The optimum, and what the slopes there prove; by the equations of the other size, if they cost no more than
        #    those of a small problem, where that was not enough.
        n, d = risk.design.shape
        found = _solved(risk, reg, state, is_dual=(n <= d) == (last.step == 0))

        # 2. The sparsest point that is as good as the bound says, else the best.
        objective, solution, tried = last.objective, state.solution, 0
        for at, w in enumerate(found.points):
            if at > 0 and np.array_equal(w, found.points[at - 1]):
                continue
            value = reg.value(w) + risk.value(w)
            if value < objective:
                objective, solution = value, w
            if value - found.lower_bound <= ENOUGH * abs(value):
                break
            tried += 1
        is_dense = tried > 0 and np.count_nonzero(solution) > np.count_nonzero(found.points[0])
        dense = found.end if is_dense and has_terms(reg) and type(risk.loss) not in CURVED else None
        lower_bound = tighter(last.lower_bound, found.lower_bound, objective, found.size)
        progress = Progress(last.step + 1, objective, lower_bound, n_evaluations=last.n_evaluations + 1)
        return replace(state, solution=solution, progress=progress, dense=dense)

    @override
    def finish(self, risk: LinearRisk, reg: Regularizer, state: SmallState) -> SmallState:
        """A solution on fewer parameters, where those that should be zero cannot be set to zero without the others."""
        if state.dense is None:
            return state
        program = KinkedProgram(risk, reg, state.objective)
        end = crossed(program, state.dense._replace(scores=program.rows.matvec(state.dense.x)))
        w = end.x[: risk.n_params] if end is not None else state.solution
        value = reg.value(w) + risk.value(w)
        if not value <= state.progress.objective or np.count_nonzero(w) >= np.count_nonzero(state.solution):
            return state
        return replace(state, solution=w, progress=replace(state.progress, objective=value))

    @override
    def ended(self, state: SmallState) -> Status | None:
        return Status.STALLED if state.progress.step > state.attempts else None


def _has_form(risk: LinearRisk) -> bool:
    return isinstance(risk.loss, PiecewiseLinearLoss) or type(risk.loss) in CURVED or is_rounded(risk.loss)


def _arrays(risk: LinearRisk, reg: Regularizer, terms: FloatArray, objective: float) -> _Arrays:
    number = risk.loss.compiled_slope.number if type(risk.loss) in CURVED and risk.loss.compiled_slope else NO_LOSS
    own = no_kinks(risk.n_samples) if number != NO_LOSS else loss_kinks(risk, objective)
    left, kinks = packed(own, PenaltyTerms(*terms).kinks(), risk.weight)
    entropy, log_prior = _entropy(reg, risk.n_params)
    power, strength = (reg.q, reg.lam) if isinstance(reg, SquaredLp) else (None, 0.0)
    penalty = np.empty(terms.shape)
    penalty[:3], penalty[3], penalty[4] = terms[:3], terms[4] - terms[3], log_prior
    A, targets = _with_intercept(risk), np.array([risk.y, risk.weight])
    At = np.ascontiguousarray(A.T)
    return _Arrays(A, At, left, by_kink(kinks), penalty, entropy, power, strength, number, targets)


def _with_intercept(risk: LinearRisk) -> FloatArray:
    """X as an array, with a column of ones where the intercept is free: compiled code needs it contiguous, writable."""
    X: Any = as_array(risk.design)
    if not risk.fit_intercept:
        return X if X.flags.carray else np.array(X, order="C")
    A = np.ones((X.shape[0], X.shape[1] + 1))
    A[:, :-1] = X
    return A


def _solved(risk: LinearRisk, reg: Regularizer, state: SmallState, *, is_dual: bool) -> _Found:
    """The end of the path from the first point; ``is_dual`` : by equations of the size of the samples."""
    terms = _terms(reg, risk.n_params)
    arrays = _arrays(risk, reg, terms, state.objective)
    x, inside = _path(arrays, terms, state, is_dual=is_dual)
    size = arrays.left.size
    end = Iterate(x, np.zeros(0), inside.reshape(4, -1, size), 0.0)
    points = np.empty((SPARSER.size, risk.n_params))
    if not np.isfinite(x).all():
        return _Found(end, points[:0], -np.inf, 0.0)
    at_kinks(risk.n_samples, size, arrays.kinks, terms, SPARSER, x, inside, points)
    if arrays.entropy is not None:
        points /= points.sum(axis=1)[:, None]
    if isinstance(risk.phi, FreeSmooth):
        risk.phi.search_from(x[-1])
    g = np.empty(risk.n_samples)
    if arrays.number != NO_LOSS:
        curve(arrays.number, arrays.targets, arrays.A @ x, g, np.empty_like(g))
    else:
        height, extent = plane(risk.fit_intercept, arrays.left, arrays.kinks, inside, g)
    if isinstance(risk.loss, PiecewiseLinearLoss):
        return _Found(end, points, _plane_bound(reg, risk.design.rmatvec(g), height, extent, risk.lower_bound), extent)
    return _Found(end, points, *slopes_bound(risk, reg, points[-1], g))


def _path(arrays: _Arrays, terms: FloatArray, state: SmallState, *, is_dual: bool) -> tuple[FloatArray, FloatArray]:
    """x with the intercept, and the slacks and slopes of all kinks, at the end of the path."""
    A, d = arrays.A, terms.shape[1]
    x = np.full(A.shape[1], state.intercept)
    x[:d] = state.start
    is_bounded = arrays.left.size > A.shape[0] + d  # rows of I and of -I
    if arrays.entropy is not None:
        x[:d] += OFF_FACES * (np.exp(arrays.penalty[4]) - x[:d])
    elif is_bounded:
        move_inside(A, terms, x)
    gap = state.objective - state.progress.lower_bound
    is_dual = is_dual and arrays.entropy is None and (is_bounded or arrays.power is not None or _is_stiff(terms))
    best_x, best = np.empty_like(x), np.empty_like(arrays.kinks)
    follow(*arrays, x, best_x, best, gap, is_dual, ACCURACY, MAX_STEPS)
    return best_x, best


def _is_stiff(terms: FloatArray) -> bool:
    """Whether every parameter has a square or an absolute value."""
    return bool((terms[0] + terms[1] > 0.0).all())


def _plane_bound(reg: Regularizer, a: FloatArray, height: float, size: float, floor: float) -> float:
    """What a plane and the risk's own lower bound prove, less what rounding may have added."""
    if isinstance(reg, QuadraticRegularizer):
        return plane_bound(reg, a, height, size)
    share = reg.shrinkage(-a, ROUNDING * float(np.abs(a).sum()))
    mixed = share * height + ((1.0 - share) * floor if share < 1.0 else 0.0)
    penalty = reg.conjugate(-share * a)
    return mixed - penalty - ROUNDING * (size + abs(penalty))


def _terms(reg: Regularizer, n_params: int) -> FloatArray:
    """l1, l2, center, lower and upper of all parameters: (5, n_params)."""
    if isinstance(reg, Entropy | SquaredLp):
        lower = 0.0 if isinstance(reg, Entropy) else -np.inf
        return np.repeat([[0.0], [0.0], [0.0], [lower], [np.inf]], n_params, axis=1)
    return filled_terms(reg, n_params)


def _entropy(reg: Regularizer, n_params: int) -> tuple[float | None, FloatArray | float]:
    """The factor of an entropy, None if there is none, and its log prior."""
    if not isinstance(reg, Entropy):
        return None, 0.0
    return reg.lam, np.full(n_params, -np.log(n_params)) if reg.prior is None else np.log(reg.prior)
