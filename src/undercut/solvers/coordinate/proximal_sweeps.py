"""Proximal points by dual sweeps, for the Crammer-Singer loss with L1, L2 or the elastic net.

    W <- argmin_W  l1 |W|_1 + l2/2 |W|^2 + R(W) + eps/2 |W - C|^2,        then   C <- W

tends to a minimum of J whatever eps is (Rockafellar 1976), also with moves of C up to twice as long.  The square makes
the dual problem smooth: its variables are the shares q_ik of the classes in each sample (``share_dual.py``), and the
optimum of one sample's shares with all others fixed is a projection on a simplex.  One sweep over the samples per move
of C is enough in practice, because the next one goes on with its shares.  The averages of W and Q over some sweeps are
closer to the optimum than the last ones, and give J and its bound, which holds for any shares.

The last digits come from interior point steps on the classes in use (``class_end.py``).  Intercepts are those of the
sweeps where classes are many, and the best ones only at the end: they cost as much as dozens of sweeps.

What a step leaves out costs it nothing: features that are zero and whose forces are not near l1, and classes of samples
that have no share and scores far below the largest one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple, final

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
from undercut.solvers.bounds import least
from undercut.solvers.coordinate import class_end
from undercut.solvers.coordinate.class_end import ClassEnd, Point
from undercut.solvers.coordinate.class_features import features_in_use, possible_features, restricted
from undercut.solvers.coordinate.class_parts import design_of, part_of, unit_of
from undercut.solvers.coordinate.dual.share_dual import ShareDual
from undercut.solvers.coordinate.sweep_state import (
    ProximalSweepsState,
    SweptReg,
    advanced,
    best_share,
    by_feature,
    center_at,
    evaluated,
    mean_loss,
    parameters_in_use,
)
from undercut.solvers.coordinate.working.columns import column_norms
from undercut.trace import Progress
from undercut.types import Array, FloatArray

LEAST_SWEEPS, MOST_SWEEPS = 5, 100_000  # of a step: a share of all work, without which averages do not settle
INVESTED = 0.5  # entries of X times classes that they read, at least, as a share of all of them ...
MORE = 0.1  # ... and of what all steps so far have read
MISSED = 0.5  # what the sweeps leave of the gap, in units of what the distance to C adds to it: eps aims at that
TOWARDS, FASTEST = 0.25, 2.0  # eps changes by this power of the ratio, and at most by this factor
LEAST_SHARE = 0.01  # of eps in l2 + eps
FEW_SAMPLES = 3000  # up to here the first eps may be far too small
NEAR_END = 0.7  # relative gap from which on interior point steps are worthwhile
HALVED, LATER = 0.5, 4.0  # where they leave more than this share of the gap, the next ones wait longer by this factor
LARGEST = 4000  # samples of their problem, at most
MOST_NUMBERS = 1e8  # that they store, at most: 800 MB
MOST_STEPS = 30  # of theirs at a time
STUCK, STUCK_WITH_L1 = 1e-3, 0.1  # length of one that ends them; with absolute values rounding follows short ones
WARM = 50.0  # gap of the point where they start with absolute values, in that so far: steps are longer then
MAY_MOVE = 0.9  # share of l1 from which on the force on a parameter lets it move in these steps
SHARED = 0.01  # share over slack, in those of a whole sample: below this they take a share for zero
CLOSER, ENOUGH = 0.01, 0.1  # they leave this share of the gap, or of that at which the run ends
BEYOND = 1.3  # length of the moves of C with absolute values, in those to W; squares alone do not bear longer moves
FIRST = 1000  # features that are taken up at first, at most
SURPLUS = 1.5  # features in use, in units of those that are needed, before they are reduced
FAR = 0.3  # distance from the largest score beyond which a class is left out, in changes of scores in the last step
BESIDE = 0.1  # the same after such steps with absolute values, at least, in units of the largest cost


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
        return self._begun(dual, features, dual.near(scores), _first_eps(dual), (w0, b), scores, progress)

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
        found = evaluated(dual, reg, state, W, swept.mean_Q, b)

        # 3. The eps with which sweeps and distances contribute to the gap alike.
        missed = found.loss - dual.gain(found.Q) + float(np.vdot(W, found.steepness.V[state.columns]))
        eps = _balanced(dual, state.eps, missed, found.objective - found.proved)
        after = replace(
            advanced(state, found), Q=swept.Q, C=swept.C, eps=eps, n_sweeps=state.n_sweeps + swept.n_sweeps,
            work=state.work + swept.work,
        )  # fmt: skip

        # 4. The features and classes that the next step uses.
        return self._with_others(dual, after, W, found.steepness.peaks, found.scores + b)

    def _interior_step(self, dual: ShareDual, reg: SweptReg, state: ProximalSweepsState) -> ProximalSweepsState:
        """Interior point steps on the classes in use, from the best point so far."""
        # 1. Almost to the optimum with these classes.
        risk, last, used, start = dual.risk, state.progress, _used(dual, state), parameters_in_use(state)
        forces = dual.forces(state.Q, state.part.design)
        end = ClassEnd(dual, state.part.design, state.Q, used, (start != 0.0) | (np.abs(forces) > MAY_MOVE * dual.l1))
        at = end.start(start, state.b, (WARM if dual.l1 > 0.0 else 1.0) * last.gap)
        at, n_steps = _ended(end, at, last)
        state = replace(state, work=state.work + n_steps * _operations(dual, state, used))
        if not all(np.isfinite(part).all() for part in at):
            progress = replace(last, step=last.step + 1)
            return replace(state, patience=LATER * state.patience, progress=progress)

        # 2. J at the best point on the way there, and the bound of the shares.
        Q = end.shares(at, risk.weight)
        found = evaluated(dual, reg, state, at.W, Q, at.b)
        if found.objective > last.objective:
            t = best_share(dual, reg, state, start, found)
            found = evaluated(dual, reg, state, start + t * (at.W - start), Q, state.b + t * (at.b - state.b))
        W, b, after = by_feature(risk, found.w)[state.columns], found.b, advanced(state, found)

        # 3. The classes that the next step uses: those with a share, and others near them.
        kept = at.q * float(dual.costs.max()) >= SHARED * at.z * risk.weight[end.row_of]
        Q = end.shares(at._replace(q=np.where(kept, at.q, 0.0)), risk.weight)
        is_closer = after.progress.gap <= HALVED * last.gap
        patience = state.patience if is_closer else LATER * state.patience
        after = replace(after, Q=Q, C=center_at(dual, W, b), patience=patience)
        return self._with_others(
            dual, after, W, found.steepness.peaks, found.scores + b, BESIDE if dual.l1 > 0.0 else 0.0
        )

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
        columns = features_in_use(np.asarray(W.any(axis=1)), peaks, dual.l1, self.first)
        every = np.tile(np.arange(risk.n_classes, dtype=np.int32), (risk.n_samples, 1))
        counts = np.full(risk.n_samples, risk.n_classes, np.int32)
        part, C = part_of(risk, columns, dual.norms), center_at(dual, W[columns], b)
        return ProximalSweepsState(
            risk, features, part, columns, every, counts, Q, C, eps, scores, b, dual.norms, 0, 0.0, w, progress
        )

    def _with_others(
        self,
        dual: ShareDual,
        state: ProximalSweepsState,
        W: FloatArray,
        peaks: FloatArray,
        scores: FloatArray,
        beside: float = 0.0,
    ) -> ProximalSweepsState:
        """The state with other classes, and with other features where some are missing or too many are in use.

        ``W`` : of the features in use.  ``peaks`` : the largest forces on all.
        """
        moved = np.abs(scores - state.scores).max(axis=1)
        reach = FAR * (moved + math.sqrt(float(np.mean(moved**2))))
        reach = np.maximum(reach, beside * float(dual.costs.max()))
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
        return b, scores, mean_loss(risk, scores, b)
    at = risk.phi.settle(scores := risk.phi.rows(risk.design.matvec(w)))
    return at.b, scores + at.b, at.value


def _is_swept(reg: Regularizer) -> bool:
    if isinstance(reg, L2):
        return reg.center is None and reg.weights is None
    return isinstance(reg, L1 | ElasticNet) and bool(reg.terms.l1 > 0.0)


def _is_end(dual: ShareDual, state: ProximalSweepsState) -> bool:
    """Whether the sweeps so far have taken as long as interior point steps on the classes in use would take."""
    if state.progress.gap > NEAR_END * abs(state.progress.objective):
        return False
    used = _used(dual, state)
    if not 0 < np.count_nonzero(used.any(axis=1)) <= LARGEST:
        return False
    row_length = state.part.design.rows().values.size / dual.risk.n_samples
    if class_end.n_numbers(used, row_length) > MOST_NUMBERS:
        return False
    return state.work >= state.patience * _operations(dual, state, used)


def _ended(end: ClassEnd, at: Point, last: Progress) -> tuple[Point, int]:
    """The point where interior point steps end, and how many they are."""
    goal, stuck = max(ENOUGH * wanted_gap(last), CLOSER * last.gap), STUCK_WITH_L1 if end.l1 > 0.0 else STUCK
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        for n_steps in range(1, MOST_STEPS + 1):
            ahead, length = end.step(at)
            if end.rounding(ahead) > ahead.total:
                return at, n_steps
            at = ahead
            if length <= stuck or expired() or max(at.total, end.beyond(at) * last.objective) <= goal:
                break
    return at, n_steps


def _operations(dual: ShareDual, state: ProximalSweepsState, used: Array) -> float:
    """What an interior point step costs, in entries that sweeps read."""
    row_length = state.part.design.rows().values.size / dual.risk.n_samples
    return class_end.n_operations(used, row_length, dual.l1 > 0.0)


def _used(dual: ShareDual, state: ProximalSweepsState) -> Array:
    """Which classes of which samples have shares that move."""
    used = np.zeros_like(state.Q, bool)
    moving = (state.counts > 1) & (dual.risk.weight > 0.0)
    rows, ranks = np.nonzero(moving[:, None] & (np.arange(dual.risk.n_classes) < state.counts[:, None]))
    used[rows, state.classes[rows, ranks]] = True
    return used


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
    length = BEYOND if dual.l1 > 0.0 else 1.0
    totals = np.zeros_like(Q), np.zeros_like(C)
    rng, n_sweeps, work = np.random.default_rng(state.n_sweeps), 0, 0.0
    due = max(INVESTED * risk.n_classes * design_of(risk).rows().values.size, MORE * state.work)
    while n_sweeps == 0 or not (expired() or n_sweeps >= MOST_SWEEPS or (n_sweeps >= LEAST_SWEEPS and work >= due)):
        work += kernels.sweep_soft(
            *part.rows, part.squares, risk.y, dual.costs, risk.weight, rng.permutation(order), state.classes,
            state.counts, dual.l1, 1.0 / m, Q, U, totals[0],
        )  # fmt: skip
        kernels.move_center(l1, 1.0 / m, weight, length, C, U, totals[1])
        n_sweeps += 1
    kernels.average_shares(order, state.classes, state.counts, n_sweeps, Q, totals[0])
    W = totals[1] / n_sweeps
    return Swept(Q, C, totals[0], W[:d], part.rows.constant * W[d:].sum(axis=0), n_sweeps, work)


def _first_eps(dual: ShareDual) -> float:
    """At least the size of what one sample adds to the dual's Hessian, where samples are many.

    A smaller one makes many sweeps necessary.  With few samples these are so short that a better eps is soon found.
    """
    unit, weight = unit_of(dual.norms), dual.risk.weight
    swept = unit**2 * float(weight @ weight) if weight.size > FEW_SAMPLES else 0.0
    return max(dual.l1 * unit, dual.l2, swept)


def _balanced(dual: ShareDual, eps: float, missed: float, gap: float) -> float:
    """The next eps.

    ``missed`` : how much the shares are worse than the best ones for the scores.  The rest of the gap is due to the
    distance from C, and smaller with a smaller eps, while the sweeps miss less with a larger one.
    """
    rest = max(gap - missed, 1e-12 * gap, 1e-300)
    factor = math.pow(max(missed, 0.0) / (MISSED * rest), TOWARDS)
    m = (dual.l2 + eps) * min(max(factor, 1.0 / FASTEST), FASTEST)
    return max(m - dual.l2, LEAST_SHARE * m)
