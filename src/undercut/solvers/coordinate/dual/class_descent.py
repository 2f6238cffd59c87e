"""Sweeps for losses of several classes, and conjugate gradients for the shares strictly inside their simplex."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Self, TypeVar

import numpy as np
from typing_extensions import override

from undercut._jit.class_blocks import select_classes, sweep_classes
from undercut._jit.class_face import add_class_rows, class_residual, class_steps, lift_classes, project_shares
from undercut._jit.entropy_blocks import sweep_entropies
from undercut.contracts import ScoreFunction
from undercut.regularizers import L2
from undercut.risks import MulticlassRisk
from undercut.risks.scores.classes.class_scores import ClassScores
from undercut.risks.scores.classes.softmax_scores import FreeSoftmax
from undercut.solvers.coordinate.dual.class_dual import ClassDual, EntropyDual, MarginDual, class_dual
from undercut.solvers.coordinate.dual.clusters import Clusters, suspects
from undercut.solvers.coordinate.dual.descent import Descent, row_work
from undercut.solvers.coordinate.dual.face import ACCURACY, FacedDescent, Pace, Point, Search
from undercut.solvers.coordinate.dual.pointwise_dual import FIRST_RHO, SMALLEST
from undercut.solvers.coordinate.dual.start import End, best_start, halved
from undercut.types import Array, FloatArray

WINDOW = 5  # sweeps whose growth of the dual is compared with that of as many before
SLOW = 0.4  # share of that growth: where more is left, sweeps alone take long
FAR = 0.1  # estimate of the gap, relative to the objective, from which on attempts do not wait
RELAXED = 1.5  # length of the moves of a sample from then on, in those to its own optimum
CONSTRAINED = 0.3  # share of the gap that sweeps could close: where it is less, multipliers move, ...
LATEST = 100  # ... and after so many passes in any case, where the estimate may be too large
LONG = 50  # entries of X per number of a vector of scores or weights, several of which a certificate handles
RARELY = 5  # times the work of looking for clusters that is done before the next look
LIFTS = 3  # sweeps that lift scores to their margins
EMPTY = 1e-12  # share of a sample's weight up to which a class has none: rounding leaves as much

C = TypeVar("C", bound=ClassDual)


@dataclass(frozen=True, eq=False, kw_only=True)
class ClassSearch(Search):
    """Over some classes of some samples, class by class: entries ``starts[k] : starts[k + 1]`` belong to class k."""

    owner: Array  # sample of every entry
    which: Array  # class of every entry
    starts: Array
    counts: Array  # entries of every sample


@dataclass(eq=False, kw_only=True)
class ClassDescent(Descent[C]):
    """Sweeps with multipliers of free intercepts, which move between them."""

    rho: float = 0.0  # of the augmented Lagrangian; 0 without free intercepts
    b: FloatArray  # multipliers
    excess: float = math.inf  # largest |sum_i A_ik| when these were last changed ...
    moved: int = -1  # ... and the work until then

    @override
    def with_dual(self, dual: C) -> Self:
        return super().with_dual(dual.shifted(self.rho, self.b) if self.rho > 0.0 else dual)

    @override
    def on_rays(self, v: FloatArray) -> tuple[ScoreFunction, FloatArray | float]:
        """The best intercepts of a point cost as much as several sweeps; those of the dual point are near."""
        if self.rho == 0.0:
            return super().on_rays(v)
        risk = self.dual.risk
        return ClassScores(risk.loss, risk.y, risk.weight, risk.n_classes), np.tile(self._intercepts(v), risk.n_samples)

    def _intercepts(self, v: FloatArray) -> FloatArray:
        """Those that the sweeps see, given their vector."""
        return np.asarray(self.b + math.sqrt(self.rho) * v[-1])

    def move_multipliers(self) -> None:
        """The present intercepts become the multipliers; a rho that has not halved the excess is too small."""
        if self.work == self.moved:  # no sweep has shown what the last move does
            return
        excess = self.a.sum(axis=0)
        largest = float(np.abs(excess).max())
        self.b = self.b + self.rho * excess
        if largest > 0.5 * self.excess:
            self._double_rho()
        self.dual = self.dual.shifted(self.rho, self.b)
        self.excess, self.moved = largest, self.work

    def _double_rho(self) -> None:
        self.rho *= 2.0
        self.v[-1] *= math.sqrt(2.0)


@dataclass(eq=False, kw_only=True)
class MarginDescent(ClassDescent[MarginDual], FacedDescent[MarginDual]):
    """Sweeps that leave out samples, and classes of samples."""

    pace = Pace(first=20, sweeps=5, longest_wait=20, fewest=20)
    closer = 0.2  # a certificate costs as much as several sweeps over the active classes

    classes: Array  # int32 (n_samples, n_classes); the active ones of a sample come first
    counts: Array  # int32 (n_samples,): how many those are
    is_slow: bool = False  # whether the growth from sweep to sweep has hardly fallen ...
    is_far: bool = False  # ... and that while the gap was large
    in_window: int = 0  # sweeps
    growth: float = 0.0  # of the dual in these
    last_growth: float = math.inf  # in the window before
    clusters: Clusters | None = None  # samples whose moves slow each other down ...
    next_gather: int = 0  # ... and the work at which they are next looked for

    @override
    def copy(self) -> Self:
        return replace(super().copy(), classes=self.classes.copy(), counts=self.counts.copy())

    @property
    @override
    def has_face(self) -> bool:
        return True

    @override
    def is_hard(self, first: float) -> bool:
        return self.is_far or super().is_hard(first)

    @override
    def value(self) -> float:
        return self._point(self.a, self.v).value

    def _point(self, a: FloatArray, v: FloatArray) -> Point:
        return Point(self.dual.gain(a) - 0.5 * float(np.vdot(v, v)), a, v)

    @override
    def search(self, steps: int) -> ClassSearch | None:
        dual = self.dual
        inside = dual.shares(self.a) > EMPTY * dual.cap[:, None]
        counts = inside.sum(axis=1)
        inside[counts < 2] = False
        counts[counts < 2] = 0
        which, owner = np.nonzero(inside.T)
        if owner.size == 0:
            return None
        starts, residual = np.searchsorted(which, np.arange(inside.shape[1] + 1)), np.empty(owner.size)
        class_residual(*dual.rows, dual.risk.y, dual.costs, owner, starts, counts, self.v, residual)
        return ClassSearch(
            owner=owner, which=which, starts=starts, counts=counts, change=np.zeros(owner.size), residual=residual,
            direction=residual.copy(), product=row_work(dual.rows, owner),
            goal=ACCURACY**2 * float(residual @ residual), left=steps, began=self.work,
        )  # fmt: skip

    @override
    def follow(self, search: Search, max_steps: int) -> tuple[int, bool]:
        assert isinstance(search, ClassSearch)
        vectors = search.change, search.residual, search.direction
        taken, ends = class_steps(
            *self.dual.rows, search.owner, search.starts, search.counts, *vectors, np.empty(self.v.shape[0]),
            search.goal, max_steps,
        )  # fmt: skip
        return int(taken), bool(ends)

    @override
    def trial(self, search: Search, share: float) -> Point:
        assert isinstance(search, ClassSearch)
        dual, entries = self.dual, (search.owner, search.which)
        by_sample = np.argsort(search.owner, kind="stable")
        moved = share * search.change[by_sample]
        project_shares(search.counts, dual.shares(self.a)[entries][by_sample], moved)
        changes = np.empty_like(moved)
        changes[by_sample] = -moved
        a, v = self.a.copy(), self.v.copy()
        a[entries] += changes
        add_class_rows(*dual.rows, search.owner, search.starts, changes, v)
        return self._point(a, v)

    @override
    def take(self, point: Point) -> None:
        self.a, self.v = point.a, point.v

    @override
    def settle(self, search: Search) -> None:
        """After a long search a sweep over everything costs little, and the next search should not miss a class."""
        if self.work - search.began > self.dual.pass_work:
            self._bring_back()

    @override
    def lifted(self, scores: FloatArray) -> FloatArray:
        if not self.face.has_begun:
            return self.v
        # where regularization is weak, margins that are missed by a little cost most of the gap
        dual, v = self.dual, self.v.copy()
        at = np.arange(dual.cap.size), dual.risk.y
        g, moved = dual.costs[dual.risk.y], self.a[at]
        g += scores.reshape(g.shape) + math.sqrt(self.rho) * v[-1]
        lack = g.max(axis=1) > g[at]
        chosen = np.flatnonzero((lack | (moved > EMPTY * dual.cap)) & (moved < (1.0 - EMPTY) * dual.cap))
        for _ in range(LIFTS):
            lift_classes(*dual.rows, dual.squares, dual.risk.y, dual.costs, chosen, v)
        return v

    @override
    def _sweep(self, budget: int) -> int:
        dual = self.dual
        relax = RELAXED if self.is_slow else 1.0
        self.position, self.active, most, growth, gain, work = sweep_classes(
            *dual.rows, dual.squares, dual.risk.y, dual.costs, dual.cap,
            self.order, self.position, self.active, self.classes, self.counts, relax, budget, self.a, self.v,
        )  # fmt: skip
        self.most = max(self.most, most)
        self.growth += growth
        self.gain += gain
        return int(work)

    @override
    def _end_sweep(self) -> None:
        if self.clusters is not None:
            self.growth += self.clusters.sweep(self.dual, self.counts, self.a, self.v)
            self.work += self.clusters.work
        self.in_window += 1
        if self.in_window == WINDOW:
            if self.growth > SLOW * self.last_growth:
                self.is_slow = True
                self.is_far = self.is_far or self.gain > FAR * (self.gain + self.value())
            if self.is_far and self.work >= self.next_gather:
                self._gather()
            self._begin_window(self.growth)
        super()._end_sweep()

    def _gather(self) -> None:
        """Find the clusters among the samples that matter most by now."""
        chosen = suspects(self.dual, self.a)
        self.clusters = Clusters.among(self.dual, chosen)
        cost = chosen.size * row_work(self.dual.rows, chosen) // 2
        self.work += cost
        self.next_gather = self.work + RARELY * cost

    def _begin_window(self, last_growth: float) -> None:
        self.in_window, self.growth, self.last_growth = 0, 0.0, last_growth

    @override
    def _restart(self) -> None:
        if self._looks_are_cheap and 2 * int(self.counts[self.order[: self.active]].sum()) < self.classes.size:
            self.is_ripe = True  # all scores tell what is to come back
        else:
            self._bring_back()

    @property
    def _looks_are_cheap(self) -> bool:
        """Whether a certificate costs about as much as a sweep over everything."""
        n, width = self.a.shape[0], self.v.shape[0]
        return self.rho == 0.0 and self.dual.rows.values.size > LONG * (n + width)

    def _bring_back(self) -> None:
        """Every class of every sample becomes active."""
        self.active, self.counts[:] = self.order.size, self.classes.shape[1]
        self._begin_window(math.inf)

    @override
    def look_around(self, scores: FloatArray, gap: float) -> float:
        gain = self._selected(scores)
        is_late = self.work - self.moved > LATEST * self.dual.pass_work
        if self.rho > 0.0 and (gain < CONSTRAINED * gap or is_late):
            self.move_multipliers()  # the rest of the gap is that of the constraints
        # sweeps measure a gain before each move, so that theirs is larger unless they have left out who could gain
        return max(gain, self.last_gain)

    def _selected(self, scores: FloatArray) -> float:
        """What all samples could gain; their classes that could take part in a move come back."""
        dual = self.dual
        intercepts = math.sqrt(self.rho) * self.v[-1]
        self.active, gain = select_classes(
            scores.reshape(self.a.shape), intercepts, dual.risk.y, dual.costs, dual.cap,
            self.order, self.classes, self.counts, self.a,
        )  # fmt: skip
        if self.position > 0:
            self.begin_sweep()
            self.gain = 0.0
        return float(gain)

    @override
    def _double_rho(self) -> None:
        super()._double_rho()
        self.clusters = None  # their inner products are those of rows with the old rho


@dataclass(eq=False, kw_only=True)
class EntropyDescent(ClassDescent[EntropyDual]):
    """Sweeps over all samples: no probability is ever zero."""

    @override
    def seen(self, scores: FloatArray, gap: float, goal: float) -> None:
        if self.rho > 0.0 and self._gain(scores) < CONSTRAINED * gap:
            self.move_multipliers()  # the rest of the gap is that of the constraints

    def _gain(self, scores: FloatArray) -> float:
        """What sweeps could gain at these multipliers, at most: ``sum_i cap_i (l(s_i) - gain_i(p_i)) + <a_i, s_i>``."""
        dual, S = self.dual, scores.reshape(self.a.shape) + self._intercepts(self.v)
        values, _ = dual.risk.loss.value_slope(dual.risk.y, S)
        return float(dual.cap @ values) - dual.own_gain(self.a)[0] + float(np.vdot(self.a, S))

    @override
    def _sweep(self, budget: int) -> int:
        dual = self.dual
        self.position, most, work = sweep_entropies(
            *dual.rows, dual.squares, dual.risk.y, dual.b, dual.cap, self.order, self.position, self.active, budget,
            self.a, self.v,
        )  # fmt: skip
        self.most = max(self.most, most)
        return int(work)


def class_descent(risk: MulticlassRisk, reg: L2, slopes: FloatArray) -> MarginDescent | EntropyDescent:
    """The sweeps over such a problem, from ``lam A = -slopes``."""
    dual = class_dual(risk, reg)
    if risk.fit_intercept:
        dual = dual.shifted(max(FIRST_RHO * float(risk.weight @ dual.lengths), SMALLEST), _first_b(risk))
    return _descent(dual, *halved(dual, dual.settled(-slopes.reshape(risk.n_samples, -1) / reg.lam)))


def followed_classes(
    risk: MulticlassRisk, reg: L2, last: Descent[Any], ends: tuple[End, End | None]
) -> MarginDescent | EntropyDescent:
    """The same after a run with another lambda, from the ends of the last two."""
    assert isinstance(last, ClassDescent)
    dual = class_dual(risk, reg)
    if last.rho > 0.0:
        dual = dual.shifted(last.rho, last.b)
    descent = _descent(dual, *best_start(dual, *ends))
    if isinstance(descent, MarginDescent) and isinstance(last, MarginDescent):
        descent.face = last.face.followed()
    return descent


def _first_b(risk: MulticlassRisk) -> FloatArray:
    """The best intercepts where all weights are zero."""
    return risk.phi.first_b if isinstance(risk.phi, FreeSoftmax) else np.zeros(risk.n_classes)


def _descent(dual: ClassDual, a: FloatArray, z: FloatArray) -> MarginDescent | EntropyDescent:
    n, n_classes = a.shape
    v, order = dual.kernel_vector(z), np.arange(n)
    if isinstance(dual, EntropyDual):
        return EntropyDescent(dual=dual, a=a, v=v, order=order, active=n, b=dual.b, rho=dual.rho)
    assert isinstance(dual, MarginDual)
    classes, counts = np.tile(np.arange(n_classes, dtype=np.int32), (n, 1)), np.full(n, n_classes, dtype=np.int32)
    return MarginDescent(
        dual=dual, a=a, v=v, order=order, active=n, b=dual.b, rho=dual.rho, classes=classes, counts=counts
    )
