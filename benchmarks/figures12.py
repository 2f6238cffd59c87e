"""Figures 1 and 2 of Do, Le, Foo (2009), covtype: objective and test error per pass while lambda falls.

Curves show the last iterate after each pass; the dashed line is the optimum (certified relative gap 1e-3) and what it
errs on the test set.  The test set is what the training set leaves of covtype.  The paper's other set, combined
(SensIT), is not to be had here.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import scipy.sparse as sp
from matplotlib.figure import Figure

from common import Table, iterates, load, load_rest, on_this_machine, print_machine, save_figure
from undercut import L2, Hinge, LinearRisk, Stop, minimize
from undercut.solvers.online import Adaptive, OnlineSolver, OptimisticProximal, Pegasos

NAME = "covtype"
LAMBDAS = (1e-6, 1e-7, 1e-8)  # from top to bottom: 100, 10 and 1 times the best
METHODS: dict[str, tuple[type[OnlineSolver], str]] = {
    "Pegasos": (Pegasos, "o-"),
    "Adaptive": (Adaptive, "s-"),
    "OptimisticProximal": (OptimisticProximal, "^-"),
}


@dataclass
class Curve:
    """One run, pass by pass."""

    objectives: list[float] = field(default_factory=list)
    errors: list[float] = field(default_factory=list)


@dataclass
class Panel:
    """The runs at one lambda."""

    lam: float
    optimum: float
    optimum_error: float
    curves: dict[str, Curve]


def error_on(X: sp.csr_matrix, y: np.ndarray) -> Callable[[np.ndarray], float]:
    return lambda w: float((y * (X @ w) <= 0.0).mean())


def follow(solver: OnlineSolver, risk: LinearRisk, reg: L2, error: Callable[[np.ndarray], float]) -> Curve:
    curve = Curve()
    for w in iterates(solver, risk, reg):
        curve.objectives.append(reg.value(w) + risk.value(w))
        curve.errors.append(error(w))
    return curve


def measure(lam: float, n_passes: int, risk: LinearRisk, error: Callable[[np.ndarray], float]) -> Panel:
    reg = L2(lam)
    best = minimize(risk, reg, stop=Stop(gap_rel=1e-3))
    curves = {name: follow(method(n_passes=n_passes), risk, reg, error) for name, (method, _) in METHODS.items()}
    return Panel(lam, best.objective, error(best.w), curves)


def draw(panels: list[Panel], what: str, label: str, log: bool) -> Figure:
    """A row per lambda; ``what`` is a field of ``Curve``."""
    figure = Figure(figsize=(6.0, 8.0), layout="constrained")
    axes = figure.subplots(len(panels), 1, sharex=True)
    for panel, ax in zip(panels, axes, strict=True):
        for name, curve in panel.curves.items():
            values = getattr(curve, what)
            ax.plot(range(1, len(values) + 1), values, METHODS[name][1], ms=3, lw=1.2, label=name)
        level = panel.optimum if what == "objectives" else panel.optimum_error
        ax.axhline(level, color="k", ls="--", lw=1, label="optimum")
        ax.set(ylabel=label, title=f"{NAME}, λ = {panel.lam:.0e}", yscale="log" if log else "linear")
        ax.grid(alpha=0.3, which="both" if log else "major")
    axes[0].legend(fontsize=8, loc="upper right")
    axes[-1].set_xlabel("passes over the training set")
    return figure


def print_table(panels: list[Panel]) -> None:
    table = Table(
        f"Figures 1 and 2: {NAME}",
        ["lambda", "method", "passes", "optimum", "best objective", "last objective", "test error at the optimum",
         "lowest test error", "last test error"],
    )  # fmt: skip
    for panel in panels:
        for name, curve in panel.curves.items():
            objectives, errors = curve.objectives, curve.errors
            table.row(
                f"{panel.lam:.0e}", name, len(errors), f"{panel.optimum:.4f}", f"{min(objectives):.4f}",
                f"{objectives[-1]:.4f}", f"{panel.optimum_error:.4f}", f"{min(errors):.4f}", f"{errors[-1]:.4f}",
            )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--passes", type=int, default=30)
    parser.add_argument("--out", default="benchmarks/figures", help="folder for the pictures")
    args = parser.parse_args()
    if not on_this_machine([NAME]):
        sys.exit(1)
    print_machine()
    risk, error = LinearRisk(*load(NAME), Hinge()), error_on(*load_rest(NAME))
    panels = [measure(lam, args.passes, risk, error) for lam in LAMBDAS]
    print_table(panels)
    save_figure(draw(panels, "objectives", "objective", log=True), args.out, "figure1.png")
    save_figure(draw(panels, "errors", "test error", log=False), args.out, "figure2.png")


if __name__ == "__main__":
    main()
