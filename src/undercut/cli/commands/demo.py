"""``undercut demo``: the main job on real data that scikit-learn ships."""

from __future__ import annotations

import time
import warnings
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.svm import LinearSVC

from undercut._jit.compile import on_compile
from undercut.callbacks import LiveProgress
from undercut.cli.reports.report import Row, console, print_report
from undercut.losses import Hinge
from undercut.plotting import plot_convergence
from undercut.regularizers import L2
from undercut.risks import LinearRisk
from undercut.solvers import CuttingPlane, LineSearchBundle, Stop, minimize
from undercut.trace import Result
from undercut.types import FloatArray

LAM = 1e-6
DIGIT = 8
NAMES = ("solver", "steps", "seconds", "objective", "bound", "gap", "accuracy")


class Data(NamedTuple):
    X: FloatArray
    y: FloatArray
    X_test: FloatArray
    y_test: FloatArray


class Entry(NamedTuple):
    """How one solver fared."""

    solver: str
    steps: int
    seconds: float
    objective: float
    lower_bound: float | None
    gap: float | None
    status: str
    accuracy: float


def run(plot: Path, *, as_json: bool = False) -> None:
    """Train an SVM on handwritten digits, certify it, compare it with LIBLINEAR, and plot the run."""
    out = Console(quiet=True) if as_json else console()
    data = _digits()
    sizes = f"{data.X.shape[0]} training and {data.X_test.shape[0]} test samples"
    out.print(f"Handwritten digits, {DIGIT} against the rest: {sizes}.")
    out.print(f"{data.X.shape[1]} features, hinge loss, lambda = {LAM:g}, no intercept.\n")
    risk, reg = LinearRisk(data.X, data.y, Hinge()), L2(LAM)
    runs = _runs(risk, reg, out)
    entries = [_entry(name, result, data) for name, result in runs.items()]
    entries.append(_liblinear(risk, reg, data))
    table = Table(*NAMES, box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for entry in entries:
        table.add_row(*_cells(entry))
    out.print(table)
    best = runs["LineSearchBundle"]
    out.print(f"\nNo w has an objective below {best.lower_bound:.6f}; ours is {best.objective:.6f}: {best.message}.")
    plot_convergence({name: result.trace for name, result in runs.items()}, plot)
    out.print(f"convergence plot: {plot}")
    if as_json:
        print_report([Row("runs", [entry._asdict() for entry in entries]), Row("plot", plot)], as_json=True)


def _runs(risk: LinearRisk, reg: L2, out: Console) -> dict[str, Result]:
    """The same problem by two solvers."""
    runs: dict[str, Result] = {}
    solvers = (LineSearchBundle(), CuttingPlane())
    with on_compile(cache(lambda: out.print("Compiling, once on this machine: some seconds.\n"))):
        for solver in solvers:  # so that the seconds below are the solvers' own
            minimize(risk, reg, solver, stop=Stop(max_steps=40))
    stop = Stop(gap_rel=1e-3, max_seconds=20.0)
    for solver in solvers:
        name = type(solver).__name__
        with LiveProgress(name, after=0.0, gap_rel=stop.gap_rel) as live:
            runs[name] = minimize(risk, reg, solver, stop=stop, callbacks=[live])
    return runs


def _entry(name: str, result: Result, data: Data) -> Entry:
    seconds, accuracy = result.trace[-1].seconds, _accuracy(result.w, data)
    status = result.status.name.lower()
    return Entry(name, result.n_steps, seconds, result.objective, result.lower_bound, result.gap, status, accuracy)


def _cells(entry: Entry) -> tuple[str, ...]:
    """A line of the table."""
    bound, gap = "-", entry.status
    if entry.lower_bound is not None and entry.gap is not None:
        bound, gap = f"{entry.lower_bound:.6f}", f"{100 * entry.gap / entry.objective:.3f} %"
    numbers = (str(entry.steps), f"{entry.seconds:.2f}", f"{entry.objective:.6f}")
    return (entry.solver, *numbers, bound, gap, f"{entry.accuracy:.4f}")


def _digits() -> Data:
    X, y = load_digits(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X / 16.0, np.where(y == DIGIT, 1.0, -1.0), random_state=0, stratify=y)
    return Data(X, y, X_test, y_test)


def _accuracy(w: FloatArray, data: Data) -> float:
    return float(np.mean(np.where(data.X_test @ w > 0.0, 1.0, -1.0) == data.y_test))


def _liblinear(risk: LinearRisk, reg: L2, data: Data) -> Entry:
    """The same problem by LIBLINEAR, with scikit-learn's default number of iterations."""
    svc = LinearSVC(loss="hinge", C=1.0 / (LAM * data.X.shape[0]), fit_intercept=False, random_state=0)
    began = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        svc.fit(data.X, data.y)
    seconds = time.perf_counter() - began
    w = svc.coef_.ravel()
    verdict = "not converged" if caught else "unknown"
    objective = reg.value(w) + risk.value(w)
    return Entry("LIBLINEAR", int(svc.n_iter_), seconds, objective, None, None, verdict, _accuracy(w, data))
