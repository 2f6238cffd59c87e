"""Certified paths: the lambdas are chosen so that the solutions are proved to be good between them too.

Two neighbours k and k + 1 bracket the optimum for every lambda between them,

    chord(lam)  <=  optimum(lam)  <=  min(P_k(lam), P_k+1(lam)),        P_k(lam) = R(w_k) + lam Omega(w_k)

and the bracket is widest where the two lines cross: one comparison there proves ``upper - lower <= epsilon upper`` for
the whole interval, whatever the risk and the solver (for the idea: Giesen, Jaggi, Laue 2010; for the choice of the
lambdas: Ndiaye et al. 2019).  Its width grows with the square of the interval, which gives the length of the next one;
one that is too long is divided.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import replace

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from undercut.contracts import Risk
from undercut.errors import CapabilityError, require
from undercut.selection.grid import MakeRegularizer, first_lambda, next_lambda
from undercut.selection.path import Path, Point, point_at
from undercut.selection.warm import WarmRuns
from undercut.solvers.driver import Stop
from undercut.solvers.registry import AnySolver
from undercut.trace import Status
from undercut.types import FloatArray

SHARE = 0.3  # of epsilon: the gap at a computed lambda
AIM = 0.85  # share of epsilon that the next interval should use up
FIRST_STEP = 0.3  # of the logarithm of lambda
FACTORS = 0.3, 2.5  # bounds on the change of that step


def certified_path(
    risk: Risk, grid: FloatArray | None, penalty: MakeRegularizer, solver: AnySolver | str, stop: Stop, epsilon: float
) -> Path:
    """The path from the largest to the smallest lambda of the grid, or of the grid that is found."""
    require(0.0 < epsilon < 1.0, "`epsilon` must be between 0 and 1", epsilon)
    if risk.lower_bound < 0.0:
        raise CapabilityError(
            f"`epsilon` is relative to the objective, so the risk must not be negative, and this {type(risk).__name__} "
            f"has the lower bound {risk.lower_bound:g}: set its `lower_bound`"
        )
    walk = _Walk(risk, penalty, solver, replace(stop, gap_rel=min(stop.gap_rel, SHARE * epsilon)), epsilon)
    if grid is None:
        walk.down_until_still()
    else:
        walk.start(float(grid[0]))
        walk.down_to(float(grid[-1]))
    path = Path.of(walk.points, risk.lower_bound)
    return replace(path, epsilon=epsilon, certified=(walk.lowest.lam, float(path.lams[0])))


class _Walk:
    """The points so far; the promise holds for every lambda from the first one down to that of ``lowest``."""

    lowest: Point

    def __init__(
        self, risk: Risk, penalty: MakeRegularizer, solver: AnySolver | str, stop: Stop, epsilon: float
    ) -> None:
        self.risk, self.penalty, self.stop, self.epsilon = risk, penalty, stop, epsilon
        self.runs = WarmRuns(risk, solver)
        self.points: list[Point] = []
        self.step = FIRST_STEP

    def start(self, lam: float) -> None:
        """The first point."""
        self.lowest = self._solve(lam)

    def down_until_still(self) -> None:
        """As ``down_to``, and the end is where the risk stops falling."""
        lam: float | None = first_lambda(self.risk, self.penalty)
        risks = [self.risk.value(np.zeros(self.risk.n_params))]
        self.start(lam or 1.0)
        while lam is not None and self.down_to(lam):
            risks.append(self.lowest.risk)
            lam = next_lambda(lam, risks, self.risk.lower_bound)

    def down_to(self, low: float) -> bool:
        """Visit lambdas until all of them down to ``low`` are proved; whether that was possible."""
        while self.lowest.lam > low:
            target = max(low, self.lowest.lam * math.exp(-self.step))
            if not self._join(self.lowest, self._solve(target)):
                return False
        return self._is_good(self.lowest)

    def _join(self, above: Point, below: Point) -> bool:
        """Prove what lies between two points, by more of them where necessary; whether that was possible."""
        if not (self._is_good(above) and self._is_good(below)):
            return False
        width = self._width(above, below)
        if width <= self.epsilon:
            length = math.log(above.lam / below.lam)
            own = max(point.result.gap / point.result.objective for point in (above, below))
            factor = math.sqrt(max(AIM * self.epsilon - own, 0.0) / max(width - own, 1e-3 * self.epsilon))
            self.step = length * min(max(factor, FACTORS[0]), FACTORS[1])
            self.lowest = below
            return True
        middle = self._solve(math.sqrt(above.lam * below.lam))
        return self._join(above, middle) and self._join(middle, below)

    def _width(self, above: Point, below: Point) -> float:
        """The widest bracket between two points, relative to its upper end."""
        rise = below.size - above.size  # weaker regularization, larger w
        cross = (above.risk - below.risk) / rise if rise > 0.0 else above.lam
        lam = min(max(cross, below.lam), above.lam)
        share = (lam - below.lam) / (above.lam - below.lam)
        lower = share * above.result.lower_bound + (1.0 - share) * below.result.lower_bound
        upper = min(above.line(lam), below.line(lam))
        return (upper - lower) / upper if upper > 0.0 else 0.0

    def _is_good(self, point: Point) -> bool:
        return point.result.gap <= self.epsilon * point.result.objective

    def _solve(self, lam: float) -> Point:
        point = point_at(self.runs, lam, self.penalty, self.stop)
        self.points.append(point)
        if point.result.status is not Status.CONVERGED:
            warnings.warn(f"lambda {lam:.3g}: {point.result.message}", ConvergenceWarning, stacklevel=2)
        return point
