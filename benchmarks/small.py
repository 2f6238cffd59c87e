"""Small random problems of every loss with every penalty, to a certified 1e-6, beside Clarabel and HiGHS.

Every problem has at most 200 samples and 200 features and a lambda between 1e-9 and 1e3.  Clarabel is given the same
problem by CVXPY, HiGHS by SciPy where it is a linear program; only the time inside the solver counts, and neither
library proves a bound for the point it returns.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import cvxpy as cp
import numpy as np
from scipy.optimize import linprog

from common import Table, print_machine
from undercut import L1, L2, ElasticNet, LinearRisk, Stop, losses, minimize
from undercut.contracts import MarginLoss, PiecewiseLinearLoss, Regularizer
from undercut.regularizers import BlockSum, Boxed, Entropy, SquaredLp
from undercut.trace import Result, Status

LARGEST, MAX_SECONDS, ACCURACY = 200, 15.0, 1e-6


def _margin(shape: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda y, s: shape(cp.multiply(y, s))


LOSSES: dict[str, Callable[[Any, Any], Any]] = {
    "hinge": _margin(lambda m: cp.pos(1.0 - m)),
    "squared_hinge": _margin(lambda m: cp.square(cp.pos(1.0 - m))),
    "huber_hinge": _margin(lambda m: cp.huber(cp.pos(1.5 - m), 1.0) / 2.0),
    "logistic": _margin(lambda m: cp.logistic(-m)),
    "exponential": _margin(lambda m: cp.exp(-m)),
    "squared": lambda y, s: 0.5 * cp.square(s - y),
    "absolute": lambda y, s: cp.abs(s - y),
    "epsilon_insensitive": lambda y, s: cp.pos(cp.abs(s - y) - 0.1),
    "quantile": lambda y, s: cp.maximum(0.5 * (y - s), 0.5 * (s - y)),
    "huber": lambda y, s: 0.5 * cp.huber(s - y, 1.35),
    "poisson": lambda y, s: cp.exp(s) - cp.multiply(y, s),
}


@dataclass(frozen=True)
class Penalty:
    """A penalty, the same in CVXPY without lambda, and its domain there."""

    make: Callable[[float, int], Regularizer]
    atom: Callable[[Any], Any]
    domain: Callable[[Any], list[Any]] = lambda w: []


PENALTIES = {
    "L2": Penalty(lambda lam, d: L2(lam), lambda w: 0.5 * cp.sum_squares(w)),
    "L1": Penalty(lambda lam, d: L1(lam), cp.norm1),
    "elastic net": Penalty(lambda lam, d: ElasticNet(lam, 0.5), lambda w: 0.5 * cp.norm1(w) + 0.25 * cp.sum_squares(w)),
    "L2, w >= 0": Penalty(
        lambda lam, d: Boxed(L2(lam), lower=0.0), lambda w: 0.5 * cp.sum_squares(w), lambda w: [w >= 0.0]
    ),
    "L1 in a box": Penalty(
        lambda lam, d: Boxed(L1(lam), lower=-0.5, upper=1.0), cp.norm1, lambda w: [w >= -0.5, w <= 1.0]
    ),
    "entropy": Penalty(
        lambda lam, d: Entropy(lam),
        lambda w: cp.sum(cp.rel_entr(w, np.full(w.size, 1.0 / w.size))),
        lambda w: [cp.sum(w) == 1.0],
    ),
    "squared 1.5-norm": Penalty(lambda lam, d: SquaredLp(lam, 1.5), lambda w: 0.5 * cp.square(cp.pnorm(w, 1.5))),
    "L1 and L2 blocks": Penalty(
        lambda lam, d: BlockSum([(d // 2, L1(lam)), (d - d // 2, L2(lam))]),
        lambda w: cp.norm1(w[: w.size // 2]) + 0.5 * cp.sum_squares(w[w.size // 2 :]),
    ),
}


@dataclass(frozen=True)
class Problem:
    """One random problem; everything follows from the seed."""

    loss: str
    penalty: str
    X: np.ndarray
    y: np.ndarray
    lam: float
    fit_intercept: bool

    @classmethod
    def drawn(cls, loss: str, penalty: str, seed: int) -> Problem:
        rng = np.random.default_rng([seed, list(LOSSES).index(loss), list(PENALTIES).index(penalty)])
        n, d = (int(size) for size in np.exp(rng.uniform(np.log(2.5), np.log(LARGEST + 1), 2)))
        X = rng.standard_normal((n, d)) * (rng.random((n, d)) < rng.choice([0.2, 1.0]))
        if rng.random() < 0.25:
            X = X.round()
        scores = X @ (rng.standard_normal(d) * (rng.random(d) < 0.3)) + rng.standard_normal(n) * rng.choice([0.1, 2.0])
        if issubclass(losses.NAMES[loss], MarginLoss):
            y = np.where(scores > 0.0, 1.0, -1.0)
        elif loss == "poisson":
            y = rng.poisson(np.exp(np.clip(scores, -3.0, 3.0))).astype(np.float64)
        else:
            y = scores
        return cls(loss, penalty, X, y, 10.0 ** rng.uniform(-9.0, 3.0), bool(rng.random() < 0.5))

    def ours(self, solver: Any = "auto") -> Result:
        risk = LinearRisk(self.X, self.y, losses.named(self.loss), fit_intercept=self.fit_intercept)
        reg = PENALTIES[self.penalty].make(self.lam, self.X.shape[1])
        return minimize(risk, reg, solver, stop=Stop(gap_rel=ACCURACY, max_seconds=MAX_SECONDS))

    def clarabel(self) -> float:
        """Seconds inside Clarabel; infinity where it fails."""
        w, b, penalty = cp.Variable(self.X.shape[1]), cp.Variable(), PENALTIES[self.penalty]
        mean = cp.sum(LOSSES[self.loss](self.y, self.X @ w + (b if self.fit_intercept else 0.0))) / self.y.size
        program = cp.Problem(cp.Minimize(self.lam * penalty.atom(w) + mean), penalty.domain(w))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            data, chain, _ = program.get_problem_data(cp.CLARABEL)
            settings = {"tol_gap_abs": 1e-12, "tol_gap_rel": ACCURACY}
            began = time.process_time()
            found = chain.solve_via_data(program, data, solver_opts=settings)
            seconds = time.process_time() - began
        return seconds if str(found.status) == "Solved" else np.inf

    @property
    def is_linear(self) -> bool:
        """Whether it is a linear program."""
        return issubclass(losses.NAMES[self.loss], PiecewiseLinearLoss) and self.penalty == "L1"

    def highs(self) -> float:
        """Seconds of SciPy's HiGHS, with a variable for every kink and for the size of every parameter."""
        left, kinks, jumps = losses.named(self.loss).pieces(self.y)
        n, d = self.X.shape
        A = np.hstack([self.X, np.ones((n, 1))]) if self.fit_intercept else self.X
        free, count = A.shape[1], jumps.size * n
        cost = np.concatenate([A.T @ left / n, np.repeat(jumps, n) / n, np.full(d, self.lam)])
        above = np.hstack([np.tile(A, (jumps.size, 1)), -np.eye(count), np.zeros((count, d))])
        sizes = np.vstack([np.hstack([s * np.eye(d, free), np.zeros((d, count)), -np.eye(d)]) for s in (1.0, -1.0)])
        bounds = [(None, None)] * free + [(0.0, None)] * (count + d)
        limits = np.concatenate([kinks.ravel(), np.zeros(2 * d)])
        began = time.process_time()
        found = linprog(cost, np.vstack([above, sizes]), limits, bounds=bounds, method="highs")
        return time.process_time() - began if found.status == 0 else np.inf


@dataclass(frozen=True)
class Outcome:
    """How one problem went; seconds of processor time, infinity for a library that failed or was not asked."""

    is_certified: bool
    seconds: float
    clarabel: float
    highs: float


def run(problem: Problem, *, beside: bool) -> Outcome:
    began = time.process_time()
    result = problem.ours()
    seconds = time.process_time() - began
    clarabel = problem.clarabel() if beside else np.nan
    highs = problem.highs() if beside and problem.is_linear else np.nan
    return Outcome(result.status is Status.CONVERGED, seconds, clarabel, highs)


def row(table: Table, loss: str, penalty: str, outcomes: list[Outcome]) -> None:
    ms = np.array([1e3 * one.seconds for one in outcomes])
    certified = sum(one.is_certified for one in outcomes)
    ratios = [_ratio(ms, np.array([1e3 * getattr(one, name) for one in outcomes])) for name in ("clarabel", "highs")]
    table.row(loss, penalty, f"{certified} of {len(outcomes)}", f"{np.median(ms):.1f}", f"{ms.max():.0f}", *ratios)


def _ratio(ours: np.ndarray, theirs: np.ndarray) -> str:
    """Median of their time over ours, how often they were faster and how often they failed."""
    ratios = (theirs / ours)[~np.isnan(theirs)]
    if not ratios.size:
        return ""
    failed, faster = int(np.isinf(ratios).sum()), int((ratios < 1.0).sum())
    return f"{np.median(ratios):.2f}; faster {faster}, failed {failed} of {ratios.size}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problems", type=int, default=6, help="random problems of every loss and penalty")
    parser.add_argument("--beside", type=int, default=2, help="how many of them Clarabel and HiGHS solve too")
    options = parser.parse_args()
    print_machine()
    for loss in LOSSES:  # compile
        for penalty in PENALTIES:
            Problem.drawn(loss, penalty, 10**6).ours()
    columns = ["loss", "penalty", "certified", "ms, median", "worst", "Clarabel's time over ours", "HiGHS's"]
    table = Table(f"Random problems up to {LARGEST} x {LARGEST}, to a certified {ACCURACY:.0e}", columns)
    everything = []
    for penalty in PENALTIES:
        for loss in LOSSES:
            seeds = range(options.problems)
            outcomes = [run(Problem.drawn(loss, penalty, at), beside=at < options.beside) for at in seeds]
            row(table, loss, penalty, outcomes)
            everything += outcomes
    row(table, "all", "all", everything)
    slow = sum(one.seconds > 1.0 for one in everything)
    print(f"\n{slow} of {len(everything)} took more than a second.")


if __name__ == "__main__":
    main()
