"""Tables 2 and 3 of Do and Artières (2012): chained Mifflin 2 and chained Crescent 2 up to 100 000 dimensions.

    J(w) = lam/2 |w - w0|^2 + f(w),        relative tolerance 1e-3, at most 500 evaluations after the first

NBM is ``ClassicBundle``, NRBM ``NonconvexBundle()``, NRBMLS ``NonconvexBundle(line_search="greedy")``.  The paper's
numbers stand beside ours.  Expected:

    NRBM at lambda >= 0.5 needs no more evaluations than the paper's;
    NRBMLS needs no more than the paper's, at an objective no worse by 0.1 %, in at least 12 cells of each table;
    at D = 1e5 and lambda = 1 a run takes at most a few times the time of its evaluations.

The tolerances of the methods do not mean the same: NRBM's is the gap of a model of J, NBM's that of a model with a
proximal term, which is the smaller the stronger that term is.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass

import numpy as np

from common import Table, print_machine, warm_up
from undercut import L2, FunctionRisk, NonconvexBundle, Result, Stop, minimize
from undercut.contracts import Solver
from undercut.problems import PROBLEMS, Problem
from undercut.solvers import ClassicBundle

DIMENSIONS = (100, 1_000, 10_000, 100_000)
LAMBDAS = (0.1, 0.2, 0.5, 1.0)
SOLVERS: dict[str, Solver] = {
    "NBM": ClassicBundle(),
    "NRBM": NonconvexBundle(),
    "NRBMLS": NonconvexBundle(line_search="greedy"),
}
# Objective and evaluations as printed, by dimension and method; one pair per lambda.
PAPER = {
    "chained_mifflin_2": {
        100: {
            "NBM": [(-55.68, 254), (-41.32, 29), (-8.167, 12), (24.92, 10)],
            "NRBM": [(-54.19, 501), (-41.31, 280), (-8.163, 20), (24.93, 8)],
            "NRBMLS": [(-55.66, 45), (-41.32, 18), (-8.165, 7), (24.93, 5)],
        },
        1_000: {
            "NBM": [(-560.9, 157), (-416.3, 48), (-83.17, 30), (249.9, 23)],
            "NRBM": [(-556.2, 501), (-416.3, 163), (-83.16, 19), (250.0, 7)],
            "NRBMLS": [(-560.7, 43), (-416.3, 19), (-83.16, 7), (250.0, 4)],
        },
        10_000: {
            "NBM": [(-5613, 431), (-4166, 123), (-833.2, 91), (2500, 73)],
            "NRBM": [(-5609, 501), (-4166, 67), (-832.8, 34), (2500, 6)],
            "NRBMLS": [(-5611, 24), (-4166, 13), (-833.2, 7), (2500, 3)],
        },
        100_000: {
            "NBM": [(-56138, 407), (-41666, 363), (-8333, 284), (25000, 214)],
            "NRBM": [(-56119, 172), (-41661, 33), (-8332, 32), (25000, 6)],
            "NRBMLS": [(-56097, 30), (-41664, 17), (-8333, 7), (25000, 3)],
        },
    },
    "chained_crescent_2": {
        100: {
            "NBM": [(15.75, 58), (31.23, 105), (77.84, 124), (152.2, 145)],
            "NRBM": [(15.64, 334), (31.23, 132), (77.93, 66), (152.3, 21)],
            "NRBMLS": [(15.63, 111), (31.21, 103), (79.15, 49), (152.2, 29)],
        },
        1_000: {
            "NBM": [(156.3, 180), (312.5, 194), (780.9, 146), (1531, 163)],
            "NRBM": [(157.1, 501), (312.8, 104), (781.6, 41), (1532, 15)],
            "NRBMLS": [(156.3, 105), (313.0, 82), (781.5, 36), (1531, 17)],
        },
        10_000: {
            "NBM": [(1563, 276), (3125, 311), (7812, 194), (15316, 289)],
            "NRBM": [(1564, 218), (3128, 72), (7818, 29), (15319, 14)],
            "NRBMLS": [(1564, 75), (3127, 42), (7829, 22), (15327, 16)],
        },
        100_000: {
            "NBM": [(15625, 628), (31251, 660), (78126, 636), (1.562e5, 628)],
            "NRBM": [(15635, 106), (31272, 48), (78146, 21), (1.532e5, 14)],
            "NRBMLS": [(15638, 62), (31269, 48), (78247, 21), (1.532e5, 16)],
        },
    },
}


@dataclass
class Watched:
    """A problem's function that knows how long it has been at work."""

    problem: Problem
    seconds: float = 0.0

    def __call__(self, w: np.ndarray) -> tuple[float, np.ndarray]:
        began = time.perf_counter()
        result = self.problem.fun(w)
        self.seconds += time.perf_counter() - began
        return result


@dataclass(frozen=True)
class Cell:
    """One run beside the paper's."""

    result: Result
    seconds: float
    evaluating: float
    paper_objective: float
    paper_evaluations: int

    @property
    def excess(self) -> float:
        return (self.result.objective - self.paper_objective) / abs(self.paper_objective)

    @property
    def reached(self) -> bool:
        return self.result.n_evaluations <= self.paper_evaluations and self.excess <= 1e-3


def measure(name: str, n_params: int, lam: float, solver: Solver, paper: tuple[float, int]) -> Cell:
    problem = PROBLEMS[name]
    watched, w0 = Watched(problem), problem.start(n_params)
    risk = FunctionRisk(watched, n_params, convex=problem.convex)
    began = time.perf_counter()
    result = minimize(risk, L2(lam, center=w0), solver, w0=w0, stop=Stop(gap_rel=1e-3, max_evaluations=501))
    return Cell(result, time.perf_counter() - began, watched.seconds, *paper)


def print_table(name: str, title: str, dimensions: list[int]) -> None:
    columns = ["D", "lambda", "method", "objective", "paper's", "evaluations", "paper's", "descent / null / NullStep2"]
    table = Table(f"{title}: {name}", [*columns, "status", "seconds", "times its evaluations", ""])
    reached: dict[str, int] = dict.fromkeys(SOLVERS, 0)
    for n_params in dimensions:
        for at, lam in enumerate(LAMBDAS):
            for method, solver in SOLVERS.items():
                cell = measure(name, n_params, lam, solver, PAPER[name][n_params][method][at])
                reached[method] += cell.reached
                last = cell.result.trace[-1]
                table.row(
                    n_params, lam, method, f"{cell.result.objective:.6g}", f"{cell.paper_objective:.6g}",
                    cell.result.n_evaluations, cell.paper_evaluations,
                    f"{last.n_descent} / {last.n_null} / {last.n_null2}", cell.result.status.name,
                    f"{cell.seconds:.3f}", f"{cell.seconds / cell.evaluating:.1f}", "ok" if cell.reached else "more",
                )  # fmt: skip
    total = len(dimensions) * len(LAMBDAS)
    counts = ", ".join(f"{method} {count} of {total}" for method, count in reached.items())
    print(f"\nNo more evaluations than the paper's at an objective no worse by 0.1 %: {counts}.", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--largest", type=int, default=DIMENSIONS[-1], help="leave out larger dimensions")
    dimensions = [n for n in DIMENSIONS if n <= parser.parse_args().largest]
    print_machine()
    warm_up()
    print_table("chained_mifflin_2", "Table 2", dimensions)
    print_table("chained_crescent_2", "Table 3", dimensions)


if __name__ == "__main__":
    main()
