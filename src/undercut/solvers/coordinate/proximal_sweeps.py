"""Proximal points by dual sweeps, for the Crammer-Singer loss with L1, L2 or the elastic net.

    W <- argmin_W  l1 |W|_1 + l2/2 |W|^2 + R(W) + eps/2 |W - C|^2,        then   C <- W

tends to a minimum of J whatever eps is (Rockafellar 1976).  The square makes the dual problem smooth: its variables are
the shares q_ik of the classes in each sample (``share_dual.py``), and the optimum of one sample's shares with all
others fixed is a projection on a simplex.  One sweep over the samples per move of C is enough in practice, because the
next one goes on with its shares.  The averages of W and Q over some sweeps are closer to the optimum than the last
ones, and give J and its bound, which holds for any shares.

With L2 the last digits come from interior point steps on the classes in use (``class_end.py``).

What a step leaves out costs it nothing: features that are zero and whose forces are not near l1, and classes of samples
that have no share and scores far below the largest one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple, TypeAlias, final

import numpy as np
from typing_extensions import override

from undercut._jit import proximal_blocks as kernels
from undercut.accuracy import wanted_gap
from undercut.contracts import Regularizer, Risk, Solver
from undercut.deadline import expired
from undercut.errors import CapabilityError, NonfiniteError, require
from undercut.losses import CrammerSinger
from undercut.maps.csr import SparseDesign
from undercut.maps.dense import DenseDesign
from undercut.regularizers import L1, L2, ElasticNet
from undercut.regularizers.boxed import terms_of
from undercut.risks import MulticlassRisk
from undercut.solvers.bounds import LINE_ACCURACY, least, tighter
from undercut.solvers.coordinate import class_end
from undercut.solvers.coordinate.class_end import ClassEnd
from undercut.solvers.coordinate.class_features import features_in_use, possible_features, restricted
from undercut.solvers.coordinate.class_parts import Part, design_of, part_of, unit_of
from undercut.solvers.coordinate.dual.share_dual import ShareDual, Steepness
from undercut.solvers.coordinate.working.columns import column_norms
from undercut.trace import Progress
from undercut.types import Array, FloatArray

SweptReg: TypeAlias = L1 | L2 | ElasticNet

LEAST_SWEEPS, MOST_SWEEPS = 5, 100_000  # of a step: a share of all work, without which averages do not settle
INVESTED = 0.5  # entries of X times classes that they read, at least, as a share of all of them ...
MORE = 0.1  # ... and of what all steps so far have read
MISSED = 0.5  # what the sweeps leave of the gap, in units of what the distance to C adds to it: eps aims at that
TOWARDS, FASTEST = 0.25, 2.0  # eps changes by this power of the ratio, and at most by this factor
LEAST_SHARE = 0.01  # of eps in l2 + eps
NEAR_END = 0.7  # relative gap from which on interior point steps are worthwhile
PATIENCE = 30.0  # steps of theirs that take as long as the work before them ...
HALVED, LATER = 0.5, 4.0  # ... times this factor, where they leave more than this share of the gap
LARGEST = 4000  # samples of their problem, at most
MOST_NUMBERS = 1e8  # that they store, at most: 800 MB
MOST_STEPS, STUCK = 30, 1e-3  # of theirs at a time; length of one that ends them
SHARED = 0.01  # share over slack, in those of a whole sample: below this they take a share for zero
CLOSER, ENOUGH = 0.01, 0.1  # they leave this share of the gap, or of that at which the run ends
FIRST = 1000  # features that are taken up at first, at most
SURPLUS = 1.5  # features in use, in units of those that are needed, before they are reduced
FAR = 0.3  # distance from the largest score beyond which a class is left out, in changes of scores in the last step


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


@final
@dataclass(frozen=True, kw_only=True)
class ProximalSweeps(Solver[ProximalSweepsState, MulticlassRisk, SweptReg]):
    """Proximal points by dual sweeps: the Crammer-Singer loss with L1, L2 or the elastic net.

    >>> from undercut import minimize
    >>> risk = MulticlassRisk(np.eye(3), np.arange(3), CrammerSinger())
    >>> minimize(risk, L1(0.1), ProximalSweeps()).w.reshape(3, 3).diagonal().round(2)
    array([1., 1., 1.])
    """

    first: int = FIRST  # features that are taken up at first, at most

    def __post_init__(self) -> None:
        require(self.first >= 1, "`first` must be at least 1", self.first)

    @override
    def check(self, risk: Risk, reg: Regularizer) -> None:
        if not _is_swept(reg):
            raise CapabilityError(
                "ProximalSweeps needs L1, ElasticNet with a positive l1_ratio, or L2 without center and weights; got "
                f"{reg}: use LevelBundle"
            )
        if not isinstance(risk, MulticlassRisk) or not isinstance(risk.loss, CrammerSinger):
            raise CapabilityError(
                "ProximalSweeps needs a MulticlassRisk with the CrammerSinger loss, and this "
                f"{type(risk).__name__} is not one: use WorkingSet if the loss is smooth, or LevelBundle"
            )
        if not isinstance(risk.features, SparseDesign | DenseDesign):
            raise CapabilityError(
                f"ProximalSweeps needs X as an array or a sparse matrix; got {type(risk.features).__name__}: "
                "use LevelBundle"
            )
        if risk.fit_intercept and not np.bincount(risk.y, risk.weight, risk.n_classes).all():
            raise CapabilityError(
                "with free intercepts ProximalSweeps needs a sample with positive weight for every class: "
                "use LevelBundle"
            )
        super().check(risk, reg)

    @override
    def init(self, risk: MulticlassRisk, reg: SweptReg, w0: FloatArray) -> ProximalSweepsState:
        features = possible_features(risk, float(terms_of(reg).l1))
        small = restricted(risk, features)
        dual = ShareDual(small, reg, column_norms(small.features, risk.weight))
        b, scores, loss = _start(risk, w0)
        progress = Progress(0, reg.value(w0) + loss, least(risk, reg), 1)
        eps = max(dual.l1 * unit_of(dual.norms), dual.l2)
        return self._begun(dual, features, dual.near(scores), eps, (w0, b), scores, progress)

    @override
    def carry(self, risk: MulticlassRisk, reg: SweptReg, state: ProximalSweepsState) -> ProximalSweepsState:
        features = possible_features(risk, float(terms_of(reg).l1))
        small = restricted(risk, features)
        dual = ShareDual(small, reg, column_norms(small.features, risk.weight))
        risk.phi.begin_at(state.b)
        b, scores, loss = _start(risk, state.solution)
        progress = Progress(0, reg.value(state.solution) + loss, least(risk, reg), 1)
        return self._begun(dual, features, state.Q, state.eps, (state.solution, b), scores, progress)

    @override
    def step(self, risk: MulticlassRisk, reg: SweptReg, state: ProximalSweepsState) -> ProximalSweepsState:
        dual = ShareDual(state.risk, reg, state.norms)
        if _is_end(dual, state):
            return self._interior_step(dual, reg, state)

        # 1. Sweeps on the features and classes in use.
        swept = _swept(dual, state)
        W, b = swept.W, swept.b

        # 2. J at the averages, and the bound that they prove.
        found = _evaluated(dual, reg, state, W, swept.mean_Q, b)

        # 3. The eps with which sweeps and distances contribute to the gap alike.
        missed = found.loss - dual.gain(found.Q) + float(np.vdot(W, found.steepness.V[state.columns]))
        eps = _balanced(dual, state.eps, missed, found.objective - found.proved)
        after = replace(
            _after(state, found), Q=swept.Q, C=swept.C, eps=eps, n_sweeps=state.n_sweeps + swept.n_sweeps,
            work=state.work + swept.work,
        )  # fmt: skip

        # 4. The features and classes that the next step uses.
        return self._with_others(dual, after, W, found.steepness.peaks, found.scores + b)

    def _interior_step(self, dual: ShareDual, reg: SweptReg, state: ProximalSweepsState) -> ProximalSweepsState:
        """Interior point steps on the classes in use, from the best point so far."""
        # 1. Almost to the optimum with these classes.
        risk, last, used = dual.risk, state.progress, _used(dual, state)
        end = ClassEnd(dual, state.part.design, state.Q, used)
        at = end.start(_by_feature(risk, state.solution)[state.columns], state.b, last.gap)
        goal, n_steps, length = max(ENOUGH * wanted_gap(last), CLOSER * last.gap), 0, 1.0
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            while at.total > goal and n_steps < MOST_STEPS and length > STUCK and not expired():
                at, length = end.step(at)
                n_steps += 1
        state = replace(state, work=state.work + n_steps * class_end.n_operations(used))
        if not all(np.isfinite(part).all() for part in at):
            progress = replace(last, step=last.step + 1)
            return replace(state, patience=LATER * state.patience, progress=progress)

        # 2. J at the best point on the way there, and the bound of the shares.
        Q = end.shares(at, risk.weight)
        found = _evaluated(dual, reg, state, at.W, Q, at.b)
        if found.objective > last.objective:
            w = _between(risk, reg, state.solution, found.w)
            found = _evaluated(dual, reg, state, _by_feature(risk, w)[state.columns], Q, at.b)
        W, b, after = _by_feature(risk, found.w)[state.columns], found.b, _after(state, found)

        # 3. The classes that the next step uses: those with a share, and others near them.
        kept = at.q * float(dual.costs.max()) >= SHARED * at.z * risk.weight[end.row_of]
        Q = end.shares(at._replace(q=np.where(kept, at.q, 0.0)), risk.weight)
        is_closer = after.progress.gap <= HALVED * last.gap
        patience = state.patience if is_closer else LATER * state.patience
        after = replace(after, Q=Q, C=_center(dual, W, b), patience=patience)
        return self._with_others(dual, after, W, found.steepness.peaks, found.scores + b)

    @override
    def restored(self, risk: MulticlassRisk, reg: SweptReg, state: ProximalSweepsState) -> ProximalSweepsState:
        small = restricted(risk, state.features)
        return replace(state, risk=small, part=part_of(small, state.columns, state.norms))

    @override
    def finish(self, risk: MulticlassRisk, reg: SweptReg, state: ProximalSweepsState) -> ProximalSweepsState:
        """J at the best intercepts, which cost as much as many sweeps where classes are many."""
        if not risk.fit_intercept:
            return state
        risk.phi.begin_at(state.b)
        try:
            objective = reg.value(state.solution) + risk.value(state.solution)
        except NonfiniteError:  # rounding prevents exact intercepts
            return state
        return replace(state, progress=replace(state.progress, objective=min(objective, state.progress.objective)))

    def _begun(
        self, dual: ShareDual, features: Array, Q: FloatArray, eps: float, center: tuple[FloatArray, FloatArray],
        scores: FloatArray, progress: Progress,
    ) -> ProximalSweepsState:  # fmt: skip
        """All classes and the features with the largest forces, from shares, parameters and intercepts."""
        (w, b), risk = center, dual.risk
        W, peaks = w.reshape(risk.n_classes, -1).T[features], dual.steepness(Q, dual.forces(Q, design_of(risk))).peaks
        columns = features_in_use(W.any(axis=1), peaks, dual.l1, self.first)
        every = np.tile(np.arange(risk.n_classes, dtype=np.int32), (risk.n_samples, 1))
        counts = np.full(risk.n_samples, risk.n_classes, np.int32)
        part, C = part_of(risk, columns, dual.norms), _center(dual, W[columns], b)
        return ProximalSweepsState(
            risk, features, part, columns, every, counts, Q, C, eps, scores, b, dual.norms, 0, 0.0, w, progress
        )

    def _with_others(
        self, dual: ShareDual, state: ProximalSweepsState, W: FloatArray, peaks: FloatArray, scores: FloatArray
    ) -> ProximalSweepsState:
        """The state with other classes, and with other features where some are missing or too many are in use.

        ``W`` : of the features in use.  ``peaks`` : the largest forces on all.
        """
        moved = np.abs(scores - state.scores).max(axis=1)
        reach = FAR * (moved + math.sqrt(float(np.mean(moved**2))))
        classes, counts = np.empty_like(state.classes), np.empty_like(state.counts)
        kernels.choose_classes(dual.margins + scores, state.Q, reach, classes, counts)
        after = replace(state, classes=classes, counts=counts, scores=scores)

        outside, used = peaks > dual.l1, np.zeros(peaks.size, bool)
        outside[state.columns] = False
        used[state.columns] = W.any(axis=1)
        columns, last = features_in_use(used, peaks, dual.l1, self.first), state.columns
        if not outside.any() and last.size <= SURPLUS * columns.size:
            return after
        _, mine, theirs = np.intersect1d(columns, last, assume_unique=True, return_indices=True)
        C = np.zeros((columns.size + state.C.shape[0] - last.size, dual.risk.n_classes))
        C[mine] = state.C[theirs]
        C[columns.size :] = state.C[last.size :]
        return replace(after, part=part_of(dual.risk, columns, state.norms), columns=columns, C=C)


def _start(risk: MulticlassRisk, w: FloatArray) -> tuple[FloatArray, FloatArray, float]:
    """Intercepts for w, scores with them, and the mean loss; the best intercepts, or zero if all parameters are."""
    if not w.any():
        b, scores = np.zeros(risk.n_classes), np.zeros((risk.n_samples, risk.n_classes))
        return b, scores, _loss(risk, scores, b)
    at = risk.phi.settle(scores := risk.phi.rows(risk.design.matvec(w)))
    return at.b, scores + at.b, at.value


def _is_swept(reg: Regularizer) -> bool:
    if isinstance(reg, L2):
        return reg.center is None and reg.weights is None
    return isinstance(reg, L1 | ElasticNet) and bool(reg.terms.l1 > 0.0)


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


def _evaluated(
    dual: ShareDual, reg: SweptReg, state: ProximalSweepsState, W: FloatArray, Q: FloatArray, b: FloatArray
) -> Found:
    """``W`` : of the features in use.  ``b`` : intercepts near the best ones."""
    risk = dual.risk
    by_class = np.zeros((risk.n_classes, risk.features.shape[1]))
    by_class[:, state.columns] = W.T
    w = by_class.reshape(-1)
    scores = state.part.design.matmat(np.ascontiguousarray(W.T))
    loss = _loss(risk, scores, b)
    objective = reg.value(w) + loss
    if not math.isfinite(objective):
        raise NonfiniteError(f"the value of the risk is {objective}")
    Q = dual.feasible(Q)
    steepness = dual.steepness(Q, dual.forces(Q, design_of(risk)))
    proved = dual.bound(Q, steepness, b, min(objective, state.progress.objective))
    return Found(w, objective, loss, proved, scores, b, Q, steepness)


def _loss(risk: MulticlassRisk, scores: FloatArray, b: FloatArray) -> float:
    """The mean loss at these intercepts, which are zero unless they are free."""
    return float(risk.weight @ risk.loss.value_slope(risk.y, scores + b)[0])


def _after(state: ProximalSweepsState, found: Found) -> ProximalSweepsState:
    """The state with the better point and the better bound."""
    last, objective = state.progress, min(found.objective, state.progress.objective)
    lower_bound = tighter(last.lower_bound, found.proved, objective)
    progress = Progress(last.step + 1, objective, lower_bound, last.n_evaluations + 1)
    if found.objective >= last.objective:
        return replace(state, progress=progress)
    by_class = np.zeros((state.risk.n_classes, state.solution.size // state.risk.n_classes))
    by_class[:, state.features] = found.w.reshape(state.risk.n_classes, -1)
    return replace(state, solution=by_class.reshape(-1), b=found.b, progress=progress)


def _is_end(dual: ShareDual, state: ProximalSweepsState) -> bool:
    """Whether the sweeps so far have taken as long as interior point steps on the classes in use would take."""
    if dual.l1 > 0.0 or state.progress.gap > NEAR_END * abs(state.progress.objective):
        return False
    used = _used(dual, state)
    if not 0 < np.count_nonzero(used.any(axis=1)) <= LARGEST:
        return False
    row_length = state.part.design.rows().values.size / dual.risk.n_samples
    if class_end.n_numbers(used, row_length) > MOST_NUMBERS:
        return False
    return state.work >= state.patience * class_end.n_operations(used)


def _used(dual: ShareDual, state: ProximalSweepsState) -> Array:
    """Which classes of which samples have shares that move."""
    used = np.zeros_like(state.Q, bool)
    moving = (state.counts > 1) & (dual.risk.weight > 0.0)
    rows, ranks = np.nonzero(moving[:, None] & (np.arange(dual.risk.n_classes) < state.counts[:, None]))
    used[rows, state.classes[rows, ranks]] = True
    return used


def _between(risk: MulticlassRisk, reg: SweptReg, w: FloatArray, end: FloatArray) -> FloatArray:
    """The best point on the way from w to ``end``."""
    assert isinstance(reg, L2)
    direction = end - w
    t = risk.along(w, direction).minimizer(*reg.along(w, direction), accuracy=LINE_ACCURACY)
    return np.asarray(w + min(t, 1.0) * direction)


def _by_feature(risk: MulticlassRisk, w: FloatArray) -> FloatArray:
    """The parameters, a row per feature."""
    return w.reshape(risk.n_classes, -1).T


def _center(dual: ShareDual, W: FloatArray, b: FloatArray) -> FloatArray:
    """C at some parameters and intercepts."""
    return np.vstack([W, *([b / unit_of(dual.norms)] if dual.risk.fit_intercept else [])])


class Swept(NamedTuple):
    """Where some sweeps have led, and the averages on the way."""

    Q: FloatArray
    C: FloatArray
    mean_Q: FloatArray
    W: FloatArray  # average parameters
    b: FloatArray  # average intercepts
    n_sweeps: int
    work: float


def _swept(dual: ShareDual, state: ProximalSweepsState) -> Swept:
    """Sweeps, each followed by a move of C, as long as a step should take or there is time for."""
    risk, part, order = dual.risk, state.part, np.flatnonzero((state.counts > 1) & (dual.risk.weight > 0.0))
    Q, C, m, d = state.Q.copy(), state.C.copy(), dual.l2 + state.eps, state.columns.size
    free = C.shape[0] - d  # the intercepts have no penalty: their distances are weighted as if they had l2
    l1 = np.append(np.full(d, dual.l1), np.zeros(free))
    weight = np.append(np.full(d, state.eps), np.full(free, m))
    U = weight[:, None] * C
    U[:d] += dual.forces(Q, part.design)
    U[d:] += part.rows.constant * dual.excess(Q)
    totals = np.zeros_like(Q), np.zeros_like(C)
    rng, n_sweeps, work = np.random.default_rng(state.n_sweeps), 0, 0.0
    due = max(INVESTED * risk.n_classes * design_of(risk).rows().values.size, MORE * state.work)
    while n_sweeps == 0 or not (expired() or n_sweeps >= MOST_SWEEPS or (n_sweeps >= LEAST_SWEEPS and work >= due)):
        work += kernels.sweep_soft(
            *part.rows, part.squares, risk.y, dual.costs, risk.weight, rng.permutation(order), state.classes,
            state.counts, dual.l1, 1.0 / m, Q, U, totals[0],
        )  # fmt: skip
        kernels.move_center(l1, 1.0 / m, weight, C, U, totals[1])
        n_sweeps += 1
    kernels.average_shares(order, state.classes, state.counts, n_sweeps, Q, totals[0])
    W = totals[1] / n_sweeps
    return Swept(Q, C, totals[0], W[:d], part.rows.constant * W[d:].sum(axis=0), n_sweeps, work)


def _balanced(dual: ShareDual, eps: float, missed: float, gap: float) -> float:
    """The next eps.

    ``missed`` : how much the shares are worse than the best ones for the scores.  The rest of the gap is due to the
    distance from C, and smaller with a smaller eps, while the sweeps miss less with a larger one.
    """
    rest = max(gap - missed, 1e-12 * gap, 1e-300)
    factor = math.pow(max(missed, 0.0) / (MISSED * rest), TOWARDS)
    m = (dual.l2 + eps) * min(max(factor, 1.0 / FASTEST), FASTEST)
    return max(m - dual.l2, LEAST_SHARE * m)
