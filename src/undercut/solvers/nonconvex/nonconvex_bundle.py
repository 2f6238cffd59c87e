"""Regularized bundle method for risks that need be neither convex nor smooth (Do and Artières 2012, Alg. 4-6).

Cutting planes as in ``CuttingPlane``, lowered until they lie below the risk around the best point w*:

    g_t(w) = reg(w) + max_j <a_j, w> + b_j,        w_{t+1} = argmin g_t,        model gap = J(w*) - min g_t

A model gap of zero means that w* is a stationary point of J.  On a convex risk no plane is ever lowered, the method is
the limited memory CRBM (Alg. 3), and the gap bounds the distance to the optimum.
"""

from __future__ import annotations

import math
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, final

import numpy as np
from typing_extensions import override

from undercut.contracts import QuadraticRegularizer, Risk
from undercut.errors import NonfiniteError, require
from undercut.solvers.bounds import tighter
from undercut.solvers.bundle.bundle import Bundle
from undercut.solvers.bundle.common import BundleSolver, check_bundle_settings, master_tolerance
from undercut.solvers.bundle.plane_rows import Precision, plane_rows
from undercut.solvers.nonconvex.local_bundle import Kind, LocalBundle, Trial
from undercut.solvers.nonconvex.wolfe import Sample, next_step, search
from undercut.trace import Certificate, Progress
from undercut.types import FloatArray

MAX_FAILED = 3  # searches in a row without descent before a plain step, which is sure to improve the model
LEAST_SHARE = 0.015  # of the way to the model's minimizer: nearer planes find good points, but hardly raise the bound
COLLAPSE = 0.1  # of the model gap in one step before any descent: planes from far away flattened the model
RESTART_TRIALS = 12  # of the search of "single" after such a step
SHRINK, MAX_SHRINKS = 0.1, 9  # of a trial step where the risk overflows: by 0.1, 0.01, 0.0001, ...
FAR = 1e8  # an objective larger by this factor, relative to value and slope at the best point, counts as infinite


@dataclass(frozen=True)
class NonconvexState:
    best: Trial
    target: FloatArray  # the model's minimizer
    reach: float  # length of the last step; for "single" the share of the way that the next one goes
    n_failed: int  # searches in a row without descent
    bundle: Bundle | LocalBundle
    progress: Progress
    restarted: bool = False  # whether the planes before the first descent were dropped

    @property
    def solution(self) -> FloatArray:
        return self.best.w


class _Move(NamedTuple):
    """The points where a step evaluates the risk, and what the next search should know."""

    trials: list[Trial]
    reach: float
    n_failed: int


@final
@dataclass(frozen=True, kw_only=True)
class NonconvexBundle(BundleSolver[NonconvexState, Risk, QuadraticRegularizer]):
    """NRBM, with ``line_search`` NRBMLS.

    Without line search every plane is taken at the model's minimizer.  ``"greedy"`` searches between the best point
    and the minimizer, from the last step's length, for one or two evaluations; ``"full"`` also takes the plane at the
    minimizer; ``"single"`` spends one evaluation and learns from its slope how far the next should go, which suits
    risks that have kinks everywhere.  The planes of all evaluated points are kept.  ``precision="single"`` stores them
    in half the memory, beside the data of the risk if these are on a device; it is for risks that are not convex, and
    for relative gaps down to some 1e-5.

    >>> import numpy as np
    >>> from undercut import FunctionRisk, L2, minimize
    >>> two_wells = FunctionRisk(lambda w: (float(min(abs(w[0] - 1), abs(w[0] + 1))), np.sign(w - np.sign(w))), 1,
    ...                          lower_bound=0.0, convex=False)
    >>> result = minimize(two_wells, L2(0.1), NonconvexBundle(line_search="greedy"), w0=np.array([2.0]))
    >>> result.w.round(3), result.certificate
    (array([1.]), 'local')
    """

    needs_convex = False

    max_planes: int = 200  # planes kept besides the flat and the aggregated one
    line_search: Literal["greedy", "full", "single"] | None = None
    max_trials: int = 2  # evaluations that a search other than "single" may spend
    master_accuracy: float = 1e-3  # solve each master problem to this fraction of the gap
    precision: Precision = "double"  # of stored planes

    def __post_init__(self) -> None:
        check_bundle_settings(self.max_planes, 0, self.master_accuracy)
        known = self.line_search in (None, "greedy", "full", "single")
        require(known, "`line_search` is None, 'greedy', 'full' or 'single'", self.line_search)
        require(self.max_trials >= 1, "`max_trials` must be at least 1", self.max_trials)
        require(self.precision in ("double", "single"), "`precision` is 'double' or 'single'", self.precision)

    @override
    def certificate(self, risk: Risk) -> Certificate:
        return "global" if risk.is_convex else "local"

    @override
    def init(self, risk: Risk, reg: QuadraticRegularizer, w0: FloatArray) -> NonconvexState:
        best = _evaluate(risk, reg, w0)
        return self._from(risk, reg, best, Progress(0, best.objective, n_evaluations=1))

    def _from(self, risk: Risk, reg: QuadraticRegularizer, best: Trial, progress: Progress) -> NonconvexState:
        """The state that knows the plane of the best point alone."""
        bundle: Bundle | LocalBundle
        if risk.is_convex:  # a bound is only as exact as its planes
            bundle = Bundle(reg, risk.n_params, risk.lower_bound)
        else:
            bundle = LocalBundle(reg, risk.n_params, risk.lower_bound, plane_rows(risk, self.precision))
        bundle.add(best.cut)
        model = bundle.minimize(master_tolerance(self.master_accuracy, best.objective, -math.inf))
        if isinstance(bundle, LocalBundle):
            bundle.aggregate()
        bound = tighter(-math.inf, model.lower_bound, best.objective, model.size)
        progress = replace(progress, lower_bound=bound, n_cuts=len(bundle))
        return NonconvexState(best, model.w, math.inf, 0, bundle, progress)

    @override
    def carry(self, risk: Risk, reg: QuadraticRegularizer, state: NonconvexState) -> NonconvexState:
        bundle, best = state.bundle, state.best
        if isinstance(bundle, LocalBundle):  # its planes were lowered for the best point of the last run
            return self.init(risk, reg, best.w)
        best = best._replace(objective=reg.value(best.w) + best.cut.value)
        bundle.regularize(reg)
        bound = min(bundle.proved().lower_bound, best.objective)
        model = bundle.minimize(master_tolerance(self.master_accuracy, best.objective, bound))
        bound = tighter(bound, model.lower_bound, best.objective, model.size)
        return NonconvexState(best, model.w, state.reach, 0, bundle, Progress(0, best.objective, bound, 0, len(bundle)))

    @override
    def step(self, risk: Risk, reg: QuadraticRegularizer, state: NonconvexState) -> NonconvexState:
        last, bundle, best = state.progress, state.bundle, state.best

        # 1. Evaluate the risk at the model's minimizer, or on the way to it.
        move = self._move(risk, reg, state)

        # 2. Resolve conflicts between the planes and the best point (Alg. 5 and 6).
        kinds: Counter[Kind] = Counter()
        for trial in move.trials:
            bundle.make_room(self.max_planes)
            try:
                kinds[_absorb(bundle, trial, best)] += 1
            except NonfiniteError:  # a plane that overflows is skipped if there is another
                if trial is move.trials[-1] and not kinds:
                    raise
                continue
            if trial.objective < best.objective:
                best = trial

        # 3. Minimize the model; its aggregated plane keeps the gap from widening when planes are dropped.
        model = bundle.minimize(master_tolerance(self.master_accuracy, best.objective, last.lower_bound))
        if isinstance(bundle, LocalBundle):
            bundle.aggregate()
        proved = last.lower_bound if risk.is_convex else -math.inf  # the minimum of a local model goes up and down
        progress = Progress(
            last.step + 1, best.objective, tighter(proved, model.lower_bound, best.objective, model.size),
            last.n_evaluations + len(move.trials), len(bundle),
            n_descent=last.n_descent + kinds[Kind.DESCENT], n_null=last.n_null + kinds[Kind.NULL],
            n_null2=last.n_null2 + kinds[Kind.NULL2],
        )  # fmt: skip
        if self._has_collapsed(risk, state, progress):
            return replace(self._from(risk, reg, best, progress), restarted=True)
        return NonconvexState(best, model.w, move.reach, move.n_failed, bundle, progress, state.restarted)

    def _has_collapsed(self, risk: Risk, state: NonconvexState, progress: Progress) -> bool:
        """Whether planes of "single" from far away, lowered around the start, made the model flat there.

        It then looks like a stationary point.  The planes are dropped once, and a search finds the scale of the risk.
        """
        if self.line_search != "single" or risk.is_convex or state.restarted or progress.n_descent:
            return False
        return progress.gap < COLLAPSE * state.progress.gap

    def _move(self, risk: Risk, reg: QuadraticRegularizer, state: NonconvexState) -> _Move:
        """The plain step, or a line search towards the model's minimizer."""
        if self.line_search is None:
            return _Move([_evaluate(risk, reg, state.target)], state.reach, 0)
        best, direction = state.best, state.target - state.best.w
        length = float(np.linalg.norm(direction))
        if not 0.0 < length < math.inf:  # at the minimizer already, or it overflows
            return _Move([_evaluate(risk, reg, state.target)], state.reach, 0)
        sample = _Objective(risk, reg, best, direction)
        if state.n_failed >= MAX_FAILED:
            with suppress(NonfiniteError):
                return _Move([sample.at(1.0).trial], state.reach, 0)
        if state.restarted and state.reach == math.inf:
            return self._restart_search(sample, best)
        if self.line_search == "single":
            at = sample(min(1.0, max(state.reach, LEAST_SHARE)))
            n_failed = 0 if at.value < best.objective else state.n_failed + 1
            return _Move([at.trial], next_step(sample.start, at), n_failed)
        return self._search(sample, state, length)

    def _restart_search(self, sample: _Objective, best: Trial) -> _Move:
        """The trials of a search from the model's minimizer back to the start."""
        samples = search(sample, sample.start, 1.0, min(RESTART_TRIALS, self.max_planes))
        lowest = min(samples, key=lambda at: at.value)
        n_failed = 0 if lowest.value < best.objective else 1
        return _Move([at.trial for at in samples], lowest.t, n_failed)

    def _search(self, sample: _Objective, state: NonconvexState, length: float) -> _Move:
        """The trials of a line search by Wolfe's conditions."""
        max_trials = min(self.max_trials, self.max_planes)  # evaluate no more planes than can be stored
        first = min(1.0, state.reach / length)
        samples = search(sample, sample.start, first if sample.moves(first) else 1.0, max_trials)
        lowest = min(samples, key=lambda at: at.value)
        descends = lowest.value < state.best.objective
        reach = (lowest if descends else samples[-1]).t * length
        trials = [at.trial for at in samples]
        if self.line_search == "full" and all(at.t < 1.0 for at in samples):
            with suppress(NonfiniteError):
                trials.append(sample.at(1.0).trial)
        return _Move(trials, reach, 0 if descends else state.n_failed + 1)


class _Objective:
    """``J(w* + t direction)`` for a line search; a step at which J overflows or is far too large is shortened."""

    def __init__(self, risk: Risk, reg: QuadraticRegularizer, best: Trial, direction: FloatArray) -> None:
        self.risk, self.reg, self.best, self.direction = risk, reg, best, direction
        self.start = Sample(0.0, self.slope(best), best)
        self.far = best.objective + FAR * (abs(best.objective) + abs(self.start.slope))

    def __call__(self, t: float) -> Sample:
        if not self.moves(t):
            return self.start
        shrink = SHRINK
        for _ in range(MAX_SHRINKS):
            with suppress(NonfiniteError):
                return self.at(t)
            t, shrink = t * shrink, shrink**2
        return self.at(t)

    def moves(self, t: float) -> bool:
        """Whether a step of t is not lost in rounding."""
        return not np.array_equal(self.best.w + t * self.direction, self.best.w)

    def at(self, t: float) -> Sample:
        """The sample at t itself; ``NonfiniteError`` where J is too large."""
        if not self.moves(t):
            raise NonfiniteError("the risk is not finite next to the best point")
        trial = _evaluate(self.risk, self.reg, self.best.w + t * self.direction)
        if trial.objective > self.far:
            raise NonfiniteError(f"the objective is {trial.objective}")
        return Sample(t, self.slope(trial), trial)

    def slope(self, at: Trial) -> float:
        """The derivative of J along the line."""
        return float((at.cut.a + self.reg.gradient(at.w)) @ self.direction)


def _evaluate(risk: Risk, reg: QuadraticRegularizer, w: FloatArray) -> Trial:
    if not np.isfinite(w).all():
        raise NonfiniteError("the model's minimizer overflows: use a larger lambda")
    cut = risk.cut(w)
    objective = reg.value(w) + cut.value
    if not math.isfinite(objective):
        raise NonfiniteError(f"the objective is {objective}")
    return Trial(w, cut, objective)


def _absorb(bundle: Bundle | LocalBundle, trial: Trial, best: Trial) -> Kind:
    if isinstance(bundle, LocalBundle):
        return bundle.absorb(trial, best)
    bundle.add(trial.cut)
    return Kind.DESCENT if trial.objective < best.objective else Kind.NULL
