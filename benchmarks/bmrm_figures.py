"""Figures 2 and 3 of Smola, Vishwanathan, Le (2007): how the gap falls with lambda, and four methods at one lambda.

    epsilon_t = min_i J(w_i) - min_w J_t(w),        J(w) = lam/2 |w|^2 + mean hinge loss

The paper's reuters-ccat and astro-ph are replaced by a sample of RCV1 (CCAT) and by a9a.  The master problems of the
first figure are solved to a thousandth of the gap.  The second figure shows the best objective so far; the black line
is the optimum (line search bundle, relative gap 1e-6) + 0.001.  A step of Pegasos is a pass over the samples, and its
time leaves out the evaluations of J, which it does not need; a bundle method's step is an evaluation.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from common import Table, iterates, load, on_this_machine, print_machine, save_figure
from undercut import L2, CuttingPlane, Hinge, LinearRisk, LineSearchBundle, Result, Stop, minimize
from undercut.contracts import Solver
from undercut.solvers import DualAscent
from undercut.solvers.online import Pegasos

NAMES = ("a9a", "rcv1-sample")  # from left to right
LAMBDAS = (1e-2, 3e-3, 1e-3, 3e-4, 1e-4)
GAPS = (1e-1, 1e-2, 1e-3, 1e-4)
LAM = 1e-4  # of the second figure
WITHIN = 1e-3
SOLVERS: dict[str, Solver] = {
    "CuttingPlane": CuttingPlane(),
    "DualAscent": DualAscent(),
    "LineSearchBundle": LineSearchBundle(),
}


@dataclass(frozen=True)
class Curve:
    """The best objective after each step."""

    steps: np.ndarray
    seconds: np.ndarray
    objectives: np.ndarray

    @classmethod
    def of(cls, result: Result) -> Curve:
        rows = [(row.step, row.seconds, row.objective) for row in result.trace]
        return cls(*np.array(rows).T)

    def arrival(self, level: float) -> int | None:
        """The first row at or below a level."""
        reached = np.flatnonzero(self.objectives <= level)
        return int(reached[0]) if reached.size else None


# ------------------------------------------------------------------------------------------------------------ figure 2


def gap_runs(names: list[str], max_steps: int) -> dict[tuple[str, float], Result]:
    stop = Stop(gap_abs=min(GAPS), gap_rel=0.0, max_steps=max_steps)
    solver = CuttingPlane(master_accuracy=1e-3)
    return {
        (name, lam): minimize(LinearRisk(*load(name), Hinge()), L2(lam), solver, stop=stop)
        for name in names
        for lam in LAMBDAS
    }


def table_gaps(runs: dict[tuple[str, float], Result]) -> None:
    table = Table(
        "Figure 2: steps of CuttingPlane until epsilon_t is at most",
        ["set", "lambda", *[f"{gap:g}" for gap in GAPS], "objective", "seconds"],
    )
    for (name, lam), run in runs.items():
        arrivals = [next((row.step for row in run.trace if row.gap <= gap), None) for gap in GAPS]
        cells = [f"> {run.n_steps}" if step is None else step for step in arrivals]
        table.row(name, f"{lam:.0e}", *cells, f"{run.objective:.5f}", f"{run.trace[-1].seconds:.2f}")


def draw_gaps(runs: dict[tuple[str, float], Result], names: list[str]) -> Figure:
    figure = Figure(figsize=(4.5 * len(names), 4.0), layout="constrained")
    for name, ax in zip(names, figure.subplots(1, len(names), squeeze=False)[0], strict=True):
        for at, lam in enumerate(LAMBDAS):
            rows = [row for row in runs[name, lam].trace if math.isfinite(row.gap)]
            steps, gaps = [row.step for row in rows], [row.gap for row in rows]
            ax.semilogy(steps, gaps, color=f"C{at}", lw=1.3, label=f"λ = {lam:.0e}")
        ax.set(title=name, xlabel="steps", ylabel="gap $ε_t$")
        ax.grid(alpha=0.3)
        ax.legend(fontsize=8)
    return figure


# ------------------------------------------------------------------------------------------------------------ figure 3


def follow_pegasos(risk: LinearRisk, reg: L2, n_passes: int) -> Curve:
    seconds, objectives = [0.0], [risk.value(np.zeros(risk.n_params))]
    run = iterates(Pegasos(n_passes=n_passes), risk, reg)
    while True:
        began = time.perf_counter()
        w = next(run, None)
        if w is None:
            break
        seconds.append(time.perf_counter() - began)
        objectives.append(reg.value(w) + risk.value(w))
    return Curve(np.arange(len(seconds)), np.cumsum(seconds), np.minimum.accumulate(objectives))


def race(name: str, max_steps: int, n_passes: int) -> tuple[float, dict[str, Curve]]:
    """The optimum and the four curves; every method runs a moment before it is timed, to be compiled."""
    risk, reg = LinearRisk(*load(name), Hinge()), L2(LAM)
    optimum = minimize(risk, reg, stop=Stop(gap_rel=1e-6)).objective
    stop = Stop(gap_rel=1e-4, max_steps=max_steps)
    curves = {}
    for label, solver in SOLVERS.items():
        minimize(risk, reg, solver, stop=Stop(max_steps=2))
        curves[label] = Curve.of(minimize(risk, reg, solver, stop=stop))
    follow_pegasos(risk, reg, 1)
    return optimum, curves | {"Pegasos": follow_pegasos(risk, reg, n_passes)}


def table_race(races: dict[str, tuple[float, dict[str, Curve]]]) -> None:
    table = Table(
        f"Figure 3: to the optimum + {WITHIN:g} at lambda {LAM:.0e}",
        ["set", "optimum", "method", "steps", "seconds", "best objective of the run", "its steps", "its seconds"],
    )
    for name, (optimum, curves) in races.items():
        for label, curve in curves.items():
            at = curve.arrival(optimum + WITHIN)
            cells = ("not reached", "-") if at is None else (f"{curve.steps[at]:.0f}", f"{curve.seconds[at]:.4f}")
            last = f"{curve.objectives[-1]:.5f}", f"{curve.steps[-1]:.0f}", f"{curve.seconds[-1]:.3f}"
            table.row(name, f"{optimum:.5f}", label, *cells, *last)


def draw_race(races: dict[str, tuple[float, dict[str, Curve]]]) -> Figure:
    """Time above, steps below; a column per set."""
    figure = Figure(figsize=(4.5 * len(races), 7.0), layout="constrained")
    grid = figure.subplots(2, len(races), squeeze=False)
    for column, (name, (optimum, curves)) in enumerate(races.items()):
        for row, what in enumerate(("seconds", "steps")):
            draw_curves(grid[row, column], what, optimum, curves)
            grid[row, column].set(title=name, xlabel=f"{what} (Pegasos: passes)" if row else what)
    grid[0, 0].legend(fontsize=8, loc="upper right")
    return figure


def draw_curves(ax: Axes, what: str, optimum: float, curves: dict[str, Curve]) -> None:
    for label, curve in curves.items():
        x = getattr(curve, what)
        ax.plot(x[x > 0], curve.objectives[x > 0], lw=1.3, label=label)
    ax.axhline(optimum + WITHIN, color="k", lw=1, label="optimum + 0.001")
    ax.set(xscale="log", yscale="log", ylabel="best objective", ylim=(0.98 * optimum, 1.1))
    ticks = [tick for tick in (0.1, 0.15, 0.2, 0.3, 0.4, 0.6, 1.0) if tick >= 0.98 * optimum]
    ax.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    ax.set_yticks([], minor=True)
    ax.grid(alpha=0.3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--max-steps", type=int, default=3000, help="of a bundle method")
    parser.add_argument("--passes", type=int, default=100, help="of Pegasos")
    parser.add_argument("--out", default="benchmarks/figures", help="folder for the pictures")
    args = parser.parse_args()
    names = on_this_machine(NAMES)
    if not names:
        sys.exit(1)
    print_machine()
    runs = gap_runs(names, args.max_steps)
    table_gaps(runs)
    save_figure(draw_gaps(runs, names), args.out, "bmrm_figure2.png")
    races = {name: race(name, args.max_steps, args.passes) for name in names}
    table_race(races)
    save_figure(draw_race(races), args.out, "bmrm_figure3.png")


if __name__ == "__main__":
    main()
