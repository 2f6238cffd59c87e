"""The state of proximal points by dual sweeps, and what some parameters and shares say about the optimum."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple, TypeAlias

import numpy as np

from undercut.errors import NonfiniteError
from undercut.regularizers import L1, L2, ElasticNet
from undercut.risks import MulticlassRisk
from undercut.risks.scores.classes.class_scores import ClassScores
from undercut.solvers.bounds import LINE_ACCURACY, tighter
from undercut.solvers.coordinate.class_parts import Part, constant_of, design_of
from undercut.solvers.coordinate.dual.share_dual import ShareDual, Steepness
from undercut.trace import Progress
from undercut.types import Array, FloatArray

SweptReg: TypeAlias = L1 | L2 | ElasticNet

FEW_CLASSES = 20  # up to here the best intercepts of a point cost less than a sweep or two
PATIENCE = 30.0  # interior point steps that take as long as the sweeps before the first of them


@dataclass(frozen=True)
class ProximalSweepsState:
    derived: ClassVar = ("risk", "part")

    risk: MulticlassRisk  # with the features that can be used, ...
    features: Array  # ... int64, ascending; all else is about these
    part: Part
    columns: Array  # those in use, int64, ascending
    classes: Array  # int32 (n_samples, n_classes): those whose shares move come first ...
    counts: Array  # ... and how many they are, int32 (n_samples,)
    Q: FloatArray
    C: FloatArray  # a row per column, and one for free intercepts
    eps: float
    scores: FloatArray  # of the averages of the last step, the intercepts included
    b: FloatArray  # intercepts of the solution, near the best ones
    norms: FloatArray  # of the columns of X, weighted
    n_sweeps: int  # so far ...
    work: float  # ... and what they have read
    solution: FloatArray  # with the parameters of all features
    progress: Progress
    patience: float = PATIENCE


class Found(NamedTuple):
    """J at some parameters, and what some shares prove."""

    w: FloatArray
    objective: float
    loss: float
    proved: float
    scores: FloatArray  # without intercepts
    b: FloatArray
    Q: FloatArray  # feasible shares ...
    steepness: Steepness  # ... and their forces on all features


def evaluated(
    dual: ShareDual, reg: SweptReg, state: ProximalSweepsState, W: FloatArray, Q: FloatArray, b: FloatArray
) -> Found:
    """``W`` : of the features in use.  ``b`` : intercepts near the best ones."""
    risk = dual.risk
    by_class = np.zeros((risk.n_classes, risk.features.shape[1]))
    by_class[:, state.columns] = W.T
    w = by_class.reshape(-1)
    scores = state.part.design.matmat(np.ascontiguousarray(W.T))
    if risk.fit_intercept and risk.n_classes <= FEW_CLASSES:
        risk.phi.begin_at(b)
        at = risk.phi.settle(scores)
        loss, b = at.value, at.b
    else:
        loss = mean_loss(risk, scores, b)
    objective = reg.value(w) + loss
    if not math.isfinite(objective):
        raise NonfiniteError(f"the value of the risk is {objective}")
    Q = dual.feasible(Q)
    steepness = dual.steepness(Q, dual.forces(Q, design_of(risk)))
    proved = dual.bound(Q, steepness, b, min(objective, state.progress.objective))
    return Found(w, objective, loss, proved, scores, b, Q, steepness)


def mean_loss(risk: MulticlassRisk, scores: FloatArray, b: FloatArray) -> float:
    """The mean loss at these intercepts, which are zero unless they are free."""
    return float(risk.weight @ risk.loss.value_slope(risk.y, scores + b)[0])


def advanced(state: ProximalSweepsState, found: Found) -> ProximalSweepsState:
    """The state with the better point and the better bound."""
    last, objective = state.progress, min(found.objective, state.progress.objective)
    lower_bound = tighter(last.lower_bound, found.proved, objective)
    progress = Progress(last.step + 1, objective, lower_bound, last.n_evaluations + 1)
    if found.objective >= last.objective:
        return replace(state, progress=progress)
    return replace(state, solution=with_all_features(state, found.w), b=found.b, progress=progress)


def with_all_features(state: ProximalSweepsState, w: FloatArray) -> FloatArray:
    """The parameters of all features; memory that stays zero costs no time."""
    every, n_features = np.zeros(state.solution.size), state.solution.size // state.risk.n_classes
    of_class, of_feature = np.nonzero(w.reshape(state.risk.n_classes, -1))
    every[of_class * n_features + state.features[of_feature]] = w[of_class * state.features.size + of_feature]
    return every


def parameters_in_use(state: ProximalSweepsState) -> FloatArray:
    """The best parameters of the features in use, a row per feature."""
    return state.solution.reshape(state.risk.n_classes, -1).T[state.features[state.columns]]


def best_share(dual: ShareDual, reg: SweptReg, state: ProximalSweepsState, start: FloatArray, end: Found) -> float:
    """How far to go from the best parameters of the features in use to others, from 0 to 1."""
    risk = dual.risk
    scores = state.part.design.matmat(np.ascontiguousarray(start.T)) + state.b
    direction = end.scores + end.b - scores
    rise = reg.value(end.w) - reg.value(state.solution)  # convex: reg is below this line, and squares by their own bend
    change = end.w.reshape(risk.n_classes, -1).T[state.columns] - start
    bend = dual.l2 * float(np.vdot(change, change))
    phi = ClassScores(risk.loss, risk.y, risk.weight, risk.n_classes)
    t = phi.minimizer(scores.reshape(-1), direction.reshape(-1), rise - 0.5 * bend, bend, LINE_ACCURACY)
    return min(t, 1.0)


def by_feature(risk: MulticlassRisk, w: FloatArray) -> FloatArray:
    """The parameters, a row per feature."""
    return w.reshape(risk.n_classes, -1).T


def center_at(dual: ShareDual, W: FloatArray, b: FloatArray) -> FloatArray:
    """C at some parameters and intercepts."""
    return np.vstack([W, *([b / constant_of(dual.norms)] if dual.risk.fit_intercept else [])])
