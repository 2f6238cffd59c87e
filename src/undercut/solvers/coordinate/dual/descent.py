"""Sweeps over the samples of a dual problem, with shrinking (Hsieh et al. 2008, Alg. 3).

A sample that a sweep finds stuck, by more than the largest move of the sweep before, is left out of the next ones.
Where the derivatives of the others are below a tolerance, every sample comes back, or those that a certificate, which
computes all scores, finds free, and the tolerance is lowered: no decision is final.

Every visit of a sample adds rounding to the sweeps' vector v.  A bound is taken at v itself, without a pass over X, as
long as all that rounding may have added costs it little; otherwise v is computed anew.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar, Generic, NamedTuple, Protocol, Self, TypeVar

from undercut._jit.dual_coordinate import ROW_COST, shuffle
from undercut.contracts import Rows, ScoreFunction
from undercut.deadline import expired
from undercut.risks import ScoreRisk
from undercut.solvers.bounds import ROUNDING
from undercut.types import Array, FloatArray

FIRST_TOLERANCE = 0.03  # of the derivatives in the first sweep: what comes back earlier is left out again
LOWER = 0.1  # the tolerance is multiplied by this when it is met


class Due(NamedTuple):
    """When the next certificate is due, at the latest."""

    first: float  # passes after the last one, at least
    early: float  # share of the work up to the last one, while the gap is far from any tolerance
    late: float  # the same later


class Dual(Protocol):
    """The constants of a dual problem; a point a of it gives ``z = X' a``, the sweeps' vector v and the primal w."""

    @property
    def risk(self) -> ScoreRisk:
        """The risk of the primal problem."""

    @property
    def pass_work(self) -> int:
        """What one sweep over all samples costs, in entries of X."""

    @property
    def strength(self) -> float:
        """How much of minus a slope of the risk is one unit of a, and the factor of ``1/2 |z|^2`` in the dual."""

    @property
    def reach(self) -> float:
        """A bound of |v| at all points whose dual is not negative; infinite where none is known, or v is not z."""

    def settled(self, a: FloatArray) -> FloatArray:
        """a in its domain, where the rounding of many sweeps may have moved it out."""

    def inside(self, a: FloatArray) -> FloatArray:
        """A feasible point near a, which may be far outside of the domain."""

    def at_end(self, a: FloatArray) -> Array:
        """Which variables are at an end of their interval; of the shape of a, or one that is broadcast to it."""

    def products(self, a: FloatArray) -> FloatArray:
        """``z = X' a``."""

    def value(self, a: FloatArray, z: FloatArray) -> float:
        """The dual at a, given ``z = X' a``."""

    def kernel_vector(self, z: FloatArray) -> FloatArray:
        """What the sweeps keep up to date in place of z, in an array of its own."""

    def primal(self, v: FloatArray) -> FloatArray:
        """The w that belongs to a dual point, given the sweeps' vector, in an array of its own."""

    def scores(self, v: FloatArray) -> FloatArray:
        """Those of that w."""

    def bound(self, a: FloatArray, z: FloatArray, drift: float) -> float:
        """A lower bound on the optimum that holds in spite of rounding, from the feasible point nearest to a.

        ``drift`` : a bound of ``|z - X' a|``.
        """


D = TypeVar("D", bound=Dual)


def row_work(rows: Rows, chosen: Array) -> int:
    """What the rows of some samples cost, in entries; a sample may occur several times."""
    if rows.dense:
        entries = chosen.size * rows.columns.size
    else:
        entries = int((rows.indptr[chosen + 1] - rows.indptr[chosen]).sum())
    return entries + ROW_COST * chosen.size


@dataclass(eq=False, kw_only=True)
class Descent(ABC, Generic[D]):
    """A point of the dual and how far the sweeps over it have come."""

    derived: ClassVar = ("dual",)

    dual: D
    a: FloatArray
    v: FloatArray
    order: Array  # the samples; the active ones come first
    active: int
    work: int = 0  # entries of X used
    exact: int = 0  # work when v was last computed from a
    sweeps: int = 0
    position: int = 0  # of the next sample in ``order``
    most: float = 0.0  # largest and least derivative that the present sweep could use
    least: float = 0.0
    tolerance: float = math.inf
    is_ripe: bool = False  # whether the last piece of work has made a certificate worthwhile

    @property
    def due(self) -> Due:
        """When the next certificate is due, unless ``is_ripe`` comes first."""
        return Due(1, 0.6, 0.3)

    def with_dual(self, dual: D) -> Self:
        """The same state, of which a file holds all but the dual."""
        return replace(self, dual=dual)

    def settled(self) -> Self:
        """The best feasible point that the work done so far gives; itself where that is ``a``."""
        return self

    def aim(self, goal: float) -> None:
        """Before the first certificate: the gap at which the run ends, relative to the objective; 0: unknown."""

    def seen(self, scores: FloatArray, gap: float, goal: float) -> None:
        """What a certificate at ``a`` tells the sweeps: all scores, the gap over m, and that at which the run ends."""

    def on_rays(self, v: FloatArray) -> tuple[ScoreFunction, FloatArray | float]:
        """The risk as a function of the scores of v, and what to add to these, for many points of little cost each."""
        return self.dual.risk.phi, 0.0

    def lifted(self, scores: FloatArray) -> FloatArray:
        """The v of a point near that of ``a`` which may have a smaller objective, given the scores at ``a``."""
        return self.v

    def copy(self) -> Self:
        """The same state in arrays of its own."""
        return replace(self, a=self.a.copy(), v=self.v.copy(), order=self.order.copy())

    def run(self, budget: int) -> None:
        """Sweep until the work exceeds ``budget``, a certificate is worthwhile, or the time of the run is over."""
        end, self.is_ripe = self.work + budget, False
        while self.work < end and not self.is_ripe:
            self._advance(end - self.work)
            if expired():
                break

    def bound(self, allowance: float) -> float:
        """A lower bound on the optimum; v is computed anew where its rounding could cost more than ``allowance``."""
        dual = self.dual
        drift = ROUNDING * dual.reach * (self.work - self.exact) / ROW_COST  # an update costs ROW_COST at least
        if dual.strength * drift * (dual.reach + drift) <= allowance:
            return dual.bound(self.a, self.v, drift)
        self.a = dual.settled(self.a)
        z = dual.products(self.a)
        self.v, self.exact = dual.kernel_vector(z), self.work
        return dual.bound(self.a, z, 0.0)

    def _advance(self, budget: int) -> None:
        """One sweep, or as much of it as ``budget`` allows."""
        if self.position == 0:
            shuffle(self.order, self.active, self.sweeps)
        self.work += 1 + self._sweep(budget)  # a sweep over no sample counts too
        if self.position >= self.active:
            self._end_sweep()

    @abstractmethod
    def _sweep(self, budget: int) -> int:
        """Visit active samples from ``position`` on; the work done."""

    def _end_sweep(self) -> None:
        if self.tolerance == math.inf:
            self.tolerance = FIRST_TOLERANCE * (self.most - self.least)
        if self.most - self.least <= self.tolerance:
            self.tolerance *= LOWER
            self._restart()
        self.begin_sweep()

    def begin_sweep(self) -> None:
        """The next samples are the first of another sweep."""
        self.sweeps += 1
        self.position, self.most, self.least = 0, 0.0, 0.0

    def _restart(self) -> None:
        """Bring every sample back."""
        self.active = self.order.size
