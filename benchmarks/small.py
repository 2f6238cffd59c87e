"""Small random problems of every loss with every penalty, to a certified 1e-6, beside Clarabel and HiGHS.

Every problem has at most 200 samples and 200 features and a lambda between 1e-9 and 1e3.  The libraries are given the
same problem as a conic or linear program (``conic.py``).  Their time is that of the solver, and of the solver and the
matrices that it is given: ours begins with X and y too.  The libraries are asked for 1e-6, and for more where J at
their point is farther from the optimum; the time is that of the last run alone.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from common import Table, print_machine
from conic import LOSSES, Program, clarabel_solution, conic_program, highs_solution
from undercut import L1, L2, ElasticNet, LinearRisk, Stop, losses, minimize
from undercut.contracts import MarginLoss, PiecewiseLinearLoss, Regularizer
from undercut.regularizers import BlockSum, Boxed, Entropy, SquaredLp
from undercut.trace import Result, Status

LARGEST, MAX_SECONDS, ACCURACY = 200, 15.0, 1e-6
TIGHTER, TIGHTEST = 1e-2, 1e-12  # what a library is asked for next, where it has not arrived
REPEATS = 3  # the least of these times counts, for all

PENALTIES: dict[str, Callable[[float, int], Regularizer]] = {
    "L2": lambda lam, d: L2(lam),
    "L1": lambda lam, d: L1(lam),
    "elastic net": lambda lam, d: ElasticNet(lam, 0.5),
    "L2, w >= 0": lambda lam, d: Boxed(L2(lam), lower=0.0),
    "L1 in a box": lambda lam, d: Boxed(L1(lam), lower=-0.5, upper=1.0),
    "entropy": lambda lam, d: Entropy(lam),
    "squared 1.5-norm": lambda lam, d: SquaredLp(lam, 1.5),
    "L1 and L2 blocks": lambda lam, d: BlockSum([(d // 2, L1(lam)), (d - d // 2, L2(lam))]),
}
PROJECTIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {  # into the domain, from nearby
    "L2, w >= 0": lambda w: np.maximum(w, 0.0),
    "L1 in a box": lambda w: np.clip(w, -0.5, 1.0),
    "entropy": lambda w: np.maximum(w, 0.0) / np.maximum(w, 0.0).sum(),
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

    @property
    def risk(self) -> LinearRisk:
        return LinearRisk(self.X, self.y, losses.named(self.loss), fit_intercept=self.fit_intercept)

    @property
    def reg(self) -> Regularizer:
        return PENALTIES[self.penalty](self.lam, self.X.shape[1])

    def ours(self, solver: Any = "auto") -> Result:
        return minimize(self.risk, self.reg, solver, stop=Stop(gap_rel=ACCURACY, max_seconds=MAX_SECONDS))

    def program(self) -> Program:
        return conic_program(self.loss, self.penalty, self.X, self.y, self.lam, fit_intercept=self.fit_intercept)

    @property
    def is_linear(self) -> bool:
        """Whether it is a linear program."""
        return issubclass(losses.NAMES[self.loss], PiecewiseLinearLoss) and self.penalty in ("L1", "L1 in a box")

    def arrives(self, w: np.ndarray, result: Result) -> bool:
        """Whether J at w is as near to the optimum as asked for."""
        w = PROJECTIONS.get(self.penalty, np.asarray)(w)
        value = self.reg.value(w) + self.risk.value(w)
        return bool(value - result.lower_bound <= 2.0 * ACCURACY * abs(value) + 1e-300)


@dataclass(frozen=True)
class Peer:
    """Milliseconds of a library, without and with the matrices; infinity where it does not arrive."""

    solver: float
    whole: float


@dataclass(frozen=True)
class Outcome:
    """How one problem went."""

    is_certified: bool
    ms: float
    clarabel: Peer | None = None
    highs: Peer | None = None


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Milliseconds of processor time, the least of several, and what the work returns."""
    best, found = math.inf, None
    for _ in range(REPEATS):
        began = time.process_time()
        found = work()
        best = min(best, 1e3 * (time.process_time() - began))
    return best, found


def clarabel(problem: Problem, result: Result) -> Peer:
    """At the loosest accuracy at which it arrives."""
    making, (program, parts) = timed(lambda: (made := problem.program(), made.matrices()))
    accuracy = ACCURACY
    while accuracy >= TIGHTEST:
        ms, w = timed(lambda: clarabel_solution(program, parts, accuracy))  # noqa: B023
        if w is not None and problem.arrives(w, result):
            return Peer(ms, making + ms)
        accuracy *= TIGHTER
    return Peer(math.inf, math.inf)


def highs(problem: Problem, result: Result) -> Peer:
    making, (program, parts) = timed(lambda: (made := problem.program(), made.matrices()))
    ms, w = timed(lambda: highs_solution(program, parts))
    return Peer(ms, making + ms) if w is not None and problem.arrives(w, result) else Peer(math.inf, math.inf)


def run(problem: Problem, *, beside: bool) -> Outcome:
    ms, result = timed(problem.ours)
    is_certified = result.status is Status.CONVERGED
    if not beside:
        return Outcome(is_certified, ms)
    return Outcome(is_certified, ms, clarabel(problem, result), highs(problem, result) if problem.is_linear else None)


def row(table: Table, loss: str, penalty: str, outcomes: list[Outcome]) -> None:
    ms = np.array([one.ms for one in outcomes])
    certified = sum(one.is_certified for one in outcomes)
    numbers = [f"{certified} of {len(outcomes)}", f"{np.median(ms):.2f}", f"{ms.max():.1f}"]
    for name in ("clarabel", "highs"):
        numbers += _ratios([(peer, one.ms) for one in outcomes if (peer := getattr(one, name))])
    table.row(loss, penalty, *numbers)


def _ratios(pairs: list[tuple[Peer, float]]) -> list[str]:
    """Median and least of their time over ours, with the matrices and without, and how often they do not arrive."""
    if not pairs:
        return ["", ""]
    whole, alone = (np.array([getattr(peer, name) / ms for peer, ms in pairs]) for name in ("whole", "solver"))
    failed, faster = int(np.isinf(whole).sum()), int((whole < 1.0).sum())
    missed = f", {failed} missed" if failed else ""
    return [
        f"{np.median(whole):.2f} (least {whole.min():.2f}); faster {faster}{missed} of {len(pairs)}",
        f"{np.median(alone):.2f} (least {alone.min():.2f})",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problems", type=int, default=6, help="random problems of every loss and penalty")
    parser.add_argument("--beside", type=int, default=2, help="how many of them Clarabel and HiGHS solve too")
    options = parser.parse_args()
    print_machine()
    for loss in LOSSES:  # compile
        for penalty in PENALTIES:
            Problem.drawn(loss, penalty, 10**6).ours()
    columns = ["loss", "penalty", "certified", "ms, median", "worst"]
    columns += ["Clarabel's time over ours", "solver alone", "HiGHS's", "solver alone"]
    table = Table(f"Random problems up to {LARGEST} x {LARGEST}, to a certified {ACCURACY:.0e}", columns)
    everything = []
    for penalty in PENALTIES:
        for loss in LOSSES:
            seeds = range(options.problems)
            outcomes = [run(Problem.drawn(loss, penalty, at), beside=at < options.beside) for at in seeds]
            row(table, loss, penalty, outcomes)
            everything += outcomes
    row(table, "all", "all", everything)
    slow = sum(one.ms > 1000.0 for one in everything)
    print(f"\n{slow} of {len(everything)} took more than a second.")


if __name__ == "__main__":
    main()
