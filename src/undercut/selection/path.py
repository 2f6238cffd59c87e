"""Regularization paths: ``min_w lam Omega(w) + R(w)`` for many lambdas, from strong to weak, each with a certificate.

The planes of R do not depend on lambda, so one bundle serves the whole path; other methods pass on their dual point,
their scores or their working set (``Solver.carry``).

The optimum is a concave function of lambda, the minimum over w of the lines ``lam Omega(w) + R(w)``.  So lower bounds
at two lambdas prove one for every lambda between them, their chord, and every computed w has its line there:

    chord(lam)  <=  optimum(lam)  <=  min_k lam Omega(w_k) + R(w_k)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from undercut.contracts import Risk
from undercut.errors import CapabilityError, DataError, require
from undercut.selection.grid import MakeRegularizer, first_lambda, given_grid, next_lambda, penalty_of
from undercut.selection.warm import WarmRuns
from undercut.solvers.driver import Stop
from undercut.solvers.registry import AnySolver
from undercut.trace import Result, Status
from undercut.types import Array, FloatArray


class Point(NamedTuple):
    """One lambda of a path."""

    lam: float
    result: Result
    risk: float  # R at the solution
    size: float  # Omega there

    def line(self, lam: float) -> float:
        """The objective of the solution at another lambda."""
        return self.risk + lam * self.size


class Nearest(NamedTuple):
    """The best computed solution for a lambda, and what is known about it there."""

    at: int  # its place in the path
    w: FloatArray
    objective: float
    lower_bound: float

    @property
    def gap(self) -> float:
        """How far it is from the optimum, at most."""
        return self.objective - self.lower_bound


@dataclass(frozen=True)
class Path:
    """The solutions of a path, from strong to weak; every array has one entry or row per lambda.

    ``lower_bounds <= optimum <= objectives``, and ``at(lam)`` says what follows for any other lambda.
    """

    lams: FloatArray
    coefficients: FloatArray  # (n_lams, n_params)
    objectives: FloatArray
    lower_bounds: FloatArray
    risks: FloatArray  # R at the solutions
    n_nonzero: Array
    n_evaluations: Array
    seconds: FloatArray
    results: tuple[Result, ...] = field(repr=False)
    floor: float = -np.inf  # a lower bound of R
    epsilon: float | None = None
    certified: tuple[float, float] | None = None  # the lambdas for which ``epsilon`` is proved, low and high

    @property
    def gaps(self) -> FloatArray:
        """How far each solution is from the optimum, at most."""
        return self.objectives - self.lower_bounds

    @property
    def statuses(self) -> tuple[Status, ...]:
        """How the run of each lambda ended."""
        return tuple(result.status for result in self.results)

    def __len__(self) -> int:
        return int(self.lams.size)

    def at(self, lam: float) -> Nearest:
        """The best computed solution for any lambda, with its objective there and a lower bound on the optimum.

        >>> from undercut import Hinge, LinearRisk
        >>> X, y = np.array([[2.0, 0.0], [0.0, 1.0], [1.0, 1.0]]), np.array([1.0, -1.0, 1.0])
        >>> path = regularization_path(LinearRisk(X, y, Hinge()), [1.0, 0.5])
        >>> nearest = path.at(0.7)
        >>> nearest.at, nearest.lower_bound < nearest.objective
        (0, True)
        """
        require(0.0 < lam < np.inf, "`lam` must be positive and finite", lam)
        lines = self.risks + lam / self.lams * (self.objectives - self.risks)
        at = int(np.argmin(lines))
        known = np.append(self.lower_bounds, self.floor)  # at lambda 0 the optimum is at least that of R
        bound = float(np.interp(lam, np.append(self.lams, 0.0)[::-1], known[::-1]))
        return Nearest(at, self.coefficients[at], float(lines[at]), bound)

    @classmethod
    def sum(cls, paths: list[Path]) -> Path:
        """Several problems at the same lambdas as one: objectives and bounds add up, coefficients stand side by side.

        >>> from undercut import Hinge, LinearRisk
        >>> path = regularization_path(LinearRisk(np.eye(2), np.array([1.0, -1.0]), Hinge()), [1.0, 0.5])
        >>> Path.sum([path, path]).coefficients.shape
        (2, 4)
        """
        first, *rest = paths
        if not rest:
            return first
        names = ("objectives", "lower_bounds", "risks", "n_nonzero", "n_evaluations", "seconds")
        sums = {name: np.sum([getattr(path, name) for path in paths], axis=0) for name in names}
        coefficients = np.hstack([path.coefficients for path in paths])
        results = tuple(result for path in paths for result in path.results)
        floor = sum(path.floor for path in paths)
        return replace(first, coefficients=coefficients, results=results, floor=floor, **sums)

    @classmethod
    def of(cls, points: list[Point], floor: float) -> Path:
        """The arrays of computed points, in the order of their lambdas."""
        points = sorted(points, key=lambda point: -point.lam)
        results = tuple(point.result for point in points)
        return cls(
            lams=np.array([point.lam for point in points]),
            coefficients=np.stack([result.w for result in results]),
            objectives=np.array([result.objective for result in results]),
            lower_bounds=np.array([result.lower_bound for result in results]),
            risks=np.array([point.risk for point in points]),
            n_nonzero=np.array([np.count_nonzero(result.w) for result in results]),
            n_evaluations=np.array([result.n_evaluations for result in results]),
            seconds=np.array([result.trace[-1].seconds for result in results]),
            results=results,
            floor=floor,
        )


def regularization_path(
    risk: Risk,
    lams: Any = None,
    *,
    penalty: str | MakeRegularizer = "l2",
    l1_ratio: float = 0.5,
    solver: AnySolver | str = "auto",
    stop: Stop | None = None,
    epsilon: float | None = None,
) -> Path:
    """Minimize ``lam Omega(w) + R(w)`` for many lambdas, each from what the last one left; every point is certified.

    Parameters
    ----------
    risk : a convex ``Risk``
    lams : the lambdas, or None for a grid from where w = 0 is nearly optimal to where the risk stops falling
    penalty : "l2", "l1", "elasticnet", or a function that makes the ``Regularizer`` ``lam Omega`` of lambda
    l1_ratio : share of the absolute values in "elasticnet"
    solver : as in ``minimize``
    stop : the rule of every point
    epsilon : float or None
        Choose the lambdas so that for *every* lambda between the largest and the smallest of ``lams`` the best
        computed solution is proved to be within ``epsilon`` of the optimum, relative to its objective: ``Path.at``.

    >>> from undercut import Hinge, LinearRisk
    >>> X, y = np.array([[2.0, 0.0], [0.0, 1.0], [1.0, 1.0]]), np.array([1.0, -1.0, 1.0])
    >>> path = regularization_path(LinearRisk(X, y, Hinge()), [0.1, 1.0, 0.01])
    >>> path.lams, path.objectives.round(3), bool((path.gaps <= 1e-3 * path.objectives).all())
    (array([1.  , 0.1 , 0.01]), array([0.625, 0.25 , 0.025]), True)
    """
    check_convex(risk)
    make, stop, grid = penalty_of(penalty, l1_ratio), stop or Stop(), None if lams is None else given_grid(lams)
    if epsilon is not None:
        from undercut.selection.certified import certified_path  # here: it builds on this module

        return certified_path(risk, grid, make, solver, stop, epsilon)
    return Path.of(list(path_points(risk, grid, make, solver, stop)), risk.lower_bound)


def check_convex(risk: Risk) -> None:
    """Refuse a risk without certificates."""
    if not risk.is_convex:
        raise CapabilityError(
            f"a path needs a convex risk, and {type(risk).__name__} says it is not: minimize it for each lambda, with "
            "the last solution as w0"
        )


def path_points(
    risk: Risk, grid: FloatArray | None, penalty: MakeRegularizer, solver: AnySolver | str, stop: Stop
) -> Iterator[Point]:
    """The points of a path, each as soon as it is there; Ctrl-C ends the path after the point that it meets."""
    runs = WarmRuns(risk, solver)
    if grid is None:
        points = _until_still(runs, penalty, stop)
    else:
        points = (point_at(runs, float(lam), penalty, stop) for lam in grid)
    for point in points:
        yield point
        if point.result.status is Status.STOPPED:
            return


def point_at(runs: WarmRuns, lam: float, penalty: MakeRegularizer, stop: Stop) -> Point:
    """The next point of a path."""
    reg = penalty(lam)
    result = runs(reg, stop)
    if not np.isfinite(result.objective) or not result.trace:
        raise DataError(f"the path ends at lambda {lam:.3g}: {result.message}")
    value = reg.value(result.w)
    return Point(lam, result, result.objective - value, value / lam)


def _until_still(runs: WarmRuns, penalty: MakeRegularizer, stop: Stop) -> Iterator[Point]:
    lam: float | None = first_lambda(runs.risk, penalty)
    risks = [runs.risk.value(np.zeros(runs.risk.n_params))]
    while lam is not None:
        point = point_at(runs, lam, penalty, stop)
        risks.append(point.risk)
        yield point
        lam = next_lambda(lam, risks, runs.risk.lower_bound)
