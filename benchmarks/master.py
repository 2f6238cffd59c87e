"""How to solve the master problem ``min 1/2 alpha' H alpha - b' alpha`` on the simplex: the measurement that decides.

The master problems of real runs are recorded with the tolerance each was solved to, then given to other solvers.
The residual is ``g' alpha - min g`` for the gradient ``g = H alpha - b`` at the solver's alpha, clipped and
renormalized as the lower bound needs it; it bounds the error of the dual value.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from unittest.mock import patch

import daqp
import numpy as np
import piqp
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import minmax_scale

from common import SETS, DataMissing, Table, load, print_machine, warm_up
from undercut import L2, Hinge, LinearRisk, LineSearchBundle, Stop, minimize
from undercut.solvers.bundle import master
from undercut.solvers.bundle.master import Master

RECORD_EVERY = {"a9a": 1, "covtype": 3, "w8a": 12}
STAGES = ("first", "middle", "last")  # thirds of a run


@dataclass(frozen=True)
class Problem:
    """A master problem over its live planes, and what our solver did with it inside the run."""

    H: np.ndarray
    b: np.ndarray
    tol: float
    start: np.ndarray  # the weights of the master problem before, 0 for the newest plane
    alpha: np.ndarray
    seconds: float

    def residual(self, alpha: np.ndarray) -> float:
        gradient = self.H @ alpha - self.b
        return float(gradient @ alpha - gradient.min())

    @property
    def scale(self) -> float:
        return max(float(self.H.diagonal().max()), float(np.abs(self.b).max()))


class Recorder:
    """Stands in for ``Master.solve``: times every master problem and keeps a copy of every k-th."""

    def __init__(self, every: int) -> None:
        self.every = every
        self.problems: list[Problem] = []
        self.seconds: list[float] = []
        self.n_fallbacks = 0

    def __enter__(self) -> Recorder:
        solve, interior_point = Master.solve, master._interior_point

        def timed(self_: Master, H: np.ndarray, b: np.ndarray, live: np.ndarray, tol: float) -> None:
            start = self_.alpha[live]
            began = time.perf_counter()
            solve(self_, H, b, live, tol)
            self.seconds.append(time.perf_counter() - began)
            if len(self.seconds) % self.every == 0:
                copies = H[np.ix_(live, live)], b[live], tol, start, self_.alpha[live]
                self.problems.append(Problem(*copies, self.seconds[-1]))

        def counted(*args: np.ndarray) -> np.ndarray:
            self.n_fallbacks += 1
            return interior_point(*args)

        self._patches = [patch.object(Master, "solve", timed), patch.object(master, "_interior_point", counted)]
        for each in self._patches:
            each.start()
        return self

    def __exit__(self, *error: object) -> None:
        for each in self._patches:
            each.stop()


# ------------------------------------------------------------------------------------------------------------ solvers


def ours_warm(problem: Problem) -> tuple[np.ndarray, float]:
    """What happened inside the run."""
    return problem.alpha, problem.seconds


def ours_cold(problem: Problem) -> tuple[np.ndarray, float]:
    """The same active set from the first plane, as if there had been no problem before."""
    fresh, live = Master(problem.b.size), np.arange(problem.b.size)
    fresh.alpha[0] = 1.0
    _, seconds = _timed(lambda: fresh.solve(problem.H, problem.b, live, problem.tol))
    return fresh.alpha, seconds


def piqp_cold(problem: Problem, eps: float) -> tuple[np.ndarray, float]:
    def solve() -> np.ndarray:
        n, scale, solver = problem.b.size, problem.scale, piqp.DenseSolver()
        solver.settings.eps_abs = solver.settings.eps_duality_gap_abs = eps
        solver.settings.eps_rel = solver.settings.eps_duality_gap_rel = 0.0
        solver.setup(
            problem.H / scale, -problem.b / scale, np.ones((1, n)), np.ones(1), None, None, None, np.zeros(n), None
        )
        solver.solve()
        return _feasible(solver.result.x)

    return _timed(solve)


def piqp_loose(problem: Problem) -> tuple[np.ndarray, float]:
    """No more accurate than asked for: residuals and gap to half the tolerance, in the scaled problem."""
    return piqp_cold(problem, max(0.5 * problem.tol / problem.scale, 1e-15))


def piqp_tight(problem: Problem) -> tuple[np.ndarray, float]:
    return piqp_cold(problem, 1e-13)


def daqp_solve(problem: Problem, start: np.ndarray | None) -> tuple[np.ndarray, float]:
    """Bounds ``alpha >= 0`` and one equality, H with a ridge of 1e-12 of its mean diagonal.

    The settings are those of eleven tried that served DAQP best on these very problems.  It still takes H for singular
    and adds proximal steps: forbidden them (``eps_prox=0``) it refuses most problems with exit flag -5, and at its
    default ``eta_prox`` it ends them up to 1e4 tolerances from the optimum with exit flag 1.
    """

    def solve() -> np.ndarray:
        n, H = problem.b.size, problem.H / problem.scale
        H.flat[:: n + 1] += 1e-12 * np.trace(H) / n
        upper, lower = np.r_[np.full(n, 1e30), 1.0], np.r_[np.zeros(n), 1.0]
        sense = np.r_[np.zeros(n, np.int32), np.int32(5)]
        linear, sums = -problem.b / problem.scale, np.ones((1, n))
        x, *_ = daqp.solve(H, linear, sums, upper, lower, sense, primal_start=start, eta_prox=1e-12)
        return _feasible(x)

    return _timed(solve)


def daqp_cold(problem: Problem) -> tuple[np.ndarray, float]:
    return daqp_solve(problem, None)


def daqp_warm(problem: Problem) -> tuple[np.ndarray, float]:
    """From the weights of the problem before; DAQP takes its active set from their zeros."""
    return daqp_solve(problem, problem.start)


SOLVERS: dict[str, Callable[[Problem], tuple[np.ndarray, float]]] = {
    "ours, warm": ours_warm,
    "ours, cold": ours_cold,
    "PIQP to tol/2": piqp_loose,
    "PIQP to 1e-13": piqp_tight,
    "DAQP, cold": daqp_cold,
    "DAQP, warm": daqp_warm,
}


def _timed(solve: Callable[[], np.ndarray]) -> tuple[np.ndarray, float]:
    began = time.perf_counter()
    alpha = solve()
    return alpha, time.perf_counter() - began


def _feasible(x: np.ndarray) -> np.ndarray:
    alpha = np.nan_to_num(np.maximum(x, 0.0))
    total = float(alpha.sum())
    return alpha / total if total > 0.0 else np.full(alpha.size, 1.0 / alpha.size)


# ------------------------------------------------------------------------------------------------------------- tables


@dataclass(frozen=True)
class Run:
    """A recorded run."""

    name: str
    n_steps: int
    seconds: float
    recorder: Recorder


def record(name: str, X: object, y: np.ndarray, lam: float, every: int) -> Run:
    risk, reg = LinearRisk(X, y, Hinge()), L2(lam)
    with Recorder(every) as recorder:
        began = time.perf_counter()
        result = minimize(risk, reg, LineSearchBundle(), stop=Stop(gap_rel=1e-3))
        seconds = time.perf_counter() - began
    return Run(name, result.n_steps, seconds, recorder)


def record_all() -> list[Run]:
    """The sets there are; a small one that ships with scikit-learn if there is none."""
    runs = []
    for name, every in RECORD_EVERY.items():
        try:
            X, y = load(name)
        except DataMissing as reason:
            print(f"{name} skipped: {reason}")
            continue
        runs.append(record(name, X, y, SETS[name].lam, every))
    if not runs:
        print("breast_cancer of scikit-learn, scaled to [0, 1], at lambda 1e-06 stands in")
        X, y = load_breast_cancer(return_X_y=True)
        runs.append(record("breast_cancer", minmax_scale(X), 2.0 * y - 1.0, 1e-6, 1))
    return runs


def table_stages(runs: list[Run]) -> dict[tuple[str, str], float]:
    """Print what every solver does in the thirds of every run; the mean seconds per run and solver."""
    table = Table(
        "Recorded master problems",
        [
            "set", "third of the run", "planes", "planes with weight", "solver", "ms per solve, median", "worst ms",
            "residual, median", "residual / tolerance, median", "worst", "above the tolerance",
        ],
    )  # fmt: skip
    means = {}
    for run in runs:
        problems = run.recorder.problems
        answers = {label: _answers(solver, problems) for label, solver in SOLVERS.items()}
        means |= {(run.name, label): float(np.mean([s for _, s in answers[label]])) for label in SOLVERS}
        for stage, part in zip(STAGES, np.array_split(np.arange(len(problems)), 3), strict=True):
            planes = f"{np.median([problems[i].b.size for i in part]):.0f}"
            weighty = f"{np.median([(problems[i].alpha > 0.0).sum() for i in part]):.0f}"
            for label in SOLVERS:
                cells = _judge([problems[i] for i in part], [answers[label][i] for i in part])
                table.row(run.name, stage, planes, weighty, label, *cells)
    return means


def _answers(solver: Callable[..., tuple[np.ndarray, float]], problems: list[Problem]) -> list:
    solver(problems[0])  # the first call may compile or allocate
    return [solver(problem) for problem in problems]


def _judge(problems: list[Problem], answers: list[tuple[np.ndarray, float]]) -> list[str]:
    residuals = np.array([p.residual(alpha) for p, (alpha, _) in zip(problems, answers, strict=True)])
    relative = residuals / [p.tol for p in problems]
    ms = [1e3 * seconds for _, seconds in answers]
    return [
        f"{np.median(ms):.3f}", f"{max(ms):.3f}", f"{np.median(residuals):.1e}", f"{np.median(relative):.1e}",
        f"{relative.max():.1e}", f"{(relative > 1.0).sum()} of {len(problems)}",
    ]  # fmt: skip


def table_totals(runs: list[Run], means: dict[tuple[str, str], float]) -> None:
    others = [label for label in SOLVERS if label != "ours, warm"]
    table = Table(
        "Seconds of a whole run in the master problem: ours measured, the others mean time by number of steps",
        ["set", "steps", "whole run", "ours, warm", "of it fallbacks to PIQP", *others],
    )
    for run in runs:
        ours, n_fallbacks = sum(run.recorder.seconds), run.recorder.n_fallbacks
        expected = [f"{means[run.name, label] * run.n_steps:.3f}" for label in others]
        table.row(run.name, run.n_steps, f"{run.seconds:.3f}", f"{ours:.3f}", n_fallbacks, *expected)


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    print_machine()
    warm_up()
    runs = record_all()
    table_totals(runs, table_stages(runs))


if __name__ == "__main__":
    main()
