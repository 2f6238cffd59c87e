"""Figure 3 of Do, Le, Foo (2009): the proximal bundle method beside cutting planes while lambda falls.

The paper's structured problems are replaced by linear SVMs.  Curves show the best objective so far against evaluations
of the risk; a run ends at a certified relative gap of 1e-2 or at a limit.  The optimum is the line search bundle's
objective at a gap of 1e-3.  Expected of ``descent``:

    at lambda <= 1e-5, within 10 % of the optimum in at most half of CuttingPlane's evaluations;
    at every lambda, the gap of 1e-2 in no more evaluations than CuttingPlane.
"""

from __future__ import annotations

import argparse
import math
import sys
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from common import Table, load, on_this_machine, print_machine, save_figure
from undercut import (
    L2,
    CuttingPlane,
    Hinge,
    LinearRisk,
    LineSearchBundle,
    ProximalBundle,
    Result,
    Status,
    Stop,
    minimize,
)
from undercut.contracts import Solver

NAMES = ("w8a", "ijcnn1")
LAMBDAS = (1e-3, 1e-4, 1e-5, 1e-6, 1e-7)
SMALL = 1e-5  # the lambda from which on the start must be twice as fast
SOLVERS: dict[str, Solver] = {
    "CuttingPlane": CuttingPlane(),
    "ProximalBundle, descent": ProximalBundle(),
    "ProximalBundle, printed": ProximalBundle(variant="printed"),
}
LIMITS = {Status.MAX_EVALUATIONS: "evaluations", Status.MAX_SECONDS: "seconds"}


@dataclass(frozen=True)
class Panel:
    """The runs on one set at one lambda."""

    name: str
    lam: float
    optimum: float
    runs: dict[str, Result]

    def near(self, solver: str) -> float:
        """Evaluations until within 10 % of the optimum."""
        rows = self.runs[solver].trace
        return next((row.n_evaluations for row in rows if row.objective <= 1.1 * self.optimum), math.inf)

    def certified(self, solver: str) -> float:
        """Evaluations until the certified gap."""
        run = self.runs[solver]
        return run.n_evaluations if run.status is Status.CONVERGED else math.inf

    @property
    def verdict(self) -> str:
        plain, descent = "CuttingPlane", "ProximalBundle, descent"
        missed = []
        if self.lam <= SMALL and not _at_most(2.0 * self.near(descent), self.near(plain)):
            missed.append("10 %")
        if not _at_most(self.certified(descent), self.certified(plain)):
            missed.append("gap")
        return f"MISSED ({', '.join(missed)})" if missed else "ok"


def _at_most(ours: float, theirs: float) -> bool:
    """Whether we arrive, and no later than they do; they may not arrive at all."""
    return math.isfinite(ours) and ours <= theirs


def measure(name: str, lam: float, stop: Stop) -> Panel:
    risk, reg = LinearRisk(*load(name), Hinge()), L2(lam)
    optimum = minimize(risk, reg, LineSearchBundle(), stop=Stop(gap_rel=1e-3)).objective
    return Panel(name, lam, optimum, {label: minimize(risk, reg, s, stop=stop) for label, s in SOLVERS.items()})


def print_row(table: Table, panel: Panel) -> None:
    near, certified = [], []
    for solver, run in panel.runs.items():
        limit = f"> {run.n_evaluations} ({LIMITS.get(run.status, run.status.name)})"
        near.append(_count(panel.near(solver), limit))
        certified.append(_count(panel.certified(solver), limit))
    table.row(panel.name, f"{panel.lam:.0e}", f"{panel.optimum:.5f}", *near, *certified, panel.verdict)


def _count(evaluations: float, otherwise: str) -> str:
    return str(evaluations) if math.isfinite(evaluations) else otherwise


def draw(panels: list[Panel], names: list[str]) -> Figure:
    """A row per lambda, a column per set."""
    figure = Figure(figsize=(4.5 * len(names), 11.0), layout="constrained")
    grid = figure.subplots(len(LAMBDAS), len(names), squeeze=False)
    for panel in panels:
        draw_panel(grid[LAMBDAS.index(panel.lam), names.index(panel.name)], panel)
    for ax in grid[-1]:
        ax.set_xlabel("evaluations")
    for ax in grid[:, 0]:
        ax.set_ylabel("best objective")
    handles, labels = grid[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, fontsize=9)
    return figure


def draw_panel(ax: Axes, panel: Panel) -> None:
    for (label, run), style in zip(panel.runs.items(), ("-", "-", "--"), strict=True):
        ax.plot([row.n_evaluations for row in run.trace], [row.objective for row in run.trace], style, label=label)
    ax.axhline(panel.optimum, color="k", ls=":", lw=1, label="optimum")
    ax.set(xscale="log", yscale="log", ylim=(0.9 * panel.optimum, 1.15))
    ax.set_title(f"{panel.name}, λ = {panel.lam:.0e}", fontsize=10)
    ticks = [tick for tick in (0.1, 0.2, 0.3, 0.5, 1.0) if tick >= 0.9 * panel.optimum]
    ax.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    ax.set_yticks([], minor=True)
    ax.grid(alpha=0.3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--max-evaluations", type=int, default=3000)
    parser.add_argument("--max-seconds", type=float, default=60.0, help="of one run")
    parser.add_argument("--out", default="benchmarks/figures", help="folder for the picture")
    args = parser.parse_args()
    names = on_this_machine(NAMES)
    if not names:
        sys.exit(1)
    print_machine()
    stop = Stop(gap_rel=1e-2, max_evaluations=args.max_evaluations, max_seconds=args.max_seconds)
    table = Table(
        f"Figure 3: evaluations, at most {args.max_evaluations} and {args.max_seconds:g} s",
        ["set", "lambda", "optimum", *[f"to 10 %: {s}" for s in SOLVERS], *[f"to gap 1e-2: {s}" for s in SOLVERS], ""],
    )
    panels = []
    for name in names:
        for lam in LAMBDAS:
            panels.append(measure(name, lam, stop))
            print_row(table, panels[-1])
    save_figure(draw(panels, names), args.out, "figure3.png")


if __name__ == "__main__":
    main()
