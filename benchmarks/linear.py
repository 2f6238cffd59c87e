"""Linear SVMs without intercept: ours to a certified relative gap of 1e-3, LIBLINEAR to the objective we reached.

    J(w) = lam/2 |w|^2 + 1/n sum_i max(0, 1 - y_i <w, x_i>),        C = 1 / (n lam) in LIBLINEAR's notation

Times are the best of three runs, of ten where one takes less than 0.2 s; ours include building the risk but not
compilation.  LIBLINEAR cannot be stopped by time, so it is run from scratch with growing ``max_iter`` until it reaches
our objective or has had ten times our time (or as many times as the target asks for, if that is more).  The ratio is
its time over ours; where it does not arrive, its excess is the best of all its runs, as the primal objective of a
dual method may rise again.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from unittest.mock import patch

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC

from common import (
    DATA_VARIABLE,
    SETS,
    PartClock,
    Table,
    load,
    on_this_machine,
    peak_memory,
    print_machine,
    reset_peak_memory,
    run_apart,
    warm_up,
)
from undercut import L2, Hinge, LinearRisk, LineSearchBundle, Result, Stop, minimize
from undercut.maps import design
from undercut.risks.scores import mean_loss as scores
from undercut.risks.scores.score_risk import ScoreLine
from undercut.solvers.bundle.bundle import Bundle

GAP = 1e-3
PATIENCE = 10.0  # LIBLINEAR gets this many times our time
SHORT = 0.2  # seconds
GROWTH = 3  # of max_iter from one LIBLINEAR run to the next
MEMORY_ALLOWANCE = 200.0  # MB besides the data, their transpose and the bundle
MB = 2.0**20


# ---------------------------------------------------------------------------------------------------------- our side


def solve(X: sp.csr_matrix, y: np.ndarray, lam: float, max_planes: int | None = None) -> Result:
    solver = LineSearchBundle(max_planes=max_planes)
    return minimize(LinearRisk(X, y, Hinge()), L2(lam), solver, stop=Stop(gap_rel=GAP, max_seconds=300.0))


def best_time(first: float, again: Callable[[], float], repeats: int) -> float:
    """The least of ``repeats`` times, the first of which is known; of ten if they are short and so noisy."""
    if repeats > 1 and first < SHORT:
        repeats = 10
    return min([first, *[again() for _ in range(repeats - 1)]])


def timed_solve(X: sp.csr_matrix, y: np.ndarray, lam: float, repeats: int) -> tuple[Result, float]:
    """The result and the best time."""

    def run() -> tuple[Result, float]:
        began = time.perf_counter()
        result = solve(X, y, lam)
        return result, time.perf_counter() - began

    result, first = run()
    return result, best_time(first, lambda: run()[1], repeats)


def shares(X: sp.csr_matrix, y: np.ndarray, lam: float) -> str:
    """Percent of the time in products with X, the master problem, the loss on cached scores, and the rest."""
    clock = PartClock()
    losses = [value for value in vars(scores).values() if isinstance(value, type)]
    designs = [value for value in vars(design).values() if isinstance(value, type)]
    watched = [(owner, name, "matvec") for owner in designs for name in ("matvec", "rmatvec")]
    watched += [(Bundle, name, "QP") for name in ("add", "minimize")]
    watched += [(owner, name, "line search") for owner in losses for name in ("evaluate", "minimizer")]
    watched += [(ScoreLine, "scores_at", "line search")]
    with ExitStack() as stack:
        for owner, name, part in watched:
            if name in vars(owner):
                stack.enter_context(patch.object(owner, name, clock.wrap(vars(owner)[name], part)))
        with clock.part("rest"):
            solve(X, y, lam)
    total = sum(clock.seconds.values())
    return " / ".join(f"{100.0 * clock.seconds[part] / total:.0f}" for part in ("matvec", "QP", "line search", "rest"))


def memory_above_data(X: sp.csr_matrix, y: np.ndarray, lam: float) -> tuple[float, float]:
    """Peak memory of a run above the loaded data, and the allowance for it: transpose + bundle + 200 MB."""
    before = reset_peak_memory()
    result = solve(X, y, lam)
    peak = peak_memory() - before
    transpose = X.data.nbytes + X.indices.nbytes + 4 * X.shape[1]
    planes = max(row.n_cuts for row in result.trace)
    bundle = 8 * planes * (planes + X.shape[1])
    return peak, (transpose + bundle) / MB + MEMORY_ALLOWANCE


# ---------------------------------------------------------------------------------------------------------- LIBLINEAR


@dataclass(frozen=True)
class Fit:
    """One run of LIBLINEAR from scratch."""

    max_iter: int
    seconds: float
    excess: float  # of its objective over ours, relative
    exhausted: bool  # it met its own tolerance: more iterations change nothing


@dataclass(frozen=True)
class Race:
    """The cheapest fit that reached our objective, or the longest of those that did not with the best excess of all."""

    fit: Fit
    ours: float
    patience: float

    @property
    def is_reached(self) -> bool:
        return self.fit.excess <= 0.0

    @property
    def ratio(self) -> float:
        return self.fit.seconds / self.ours

    def cells(self) -> tuple[str, str, str]:
        """Seconds, excess and ratio as text."""
        spent = f"{self.fit.seconds:.3g} s ({self.fit.max_iter} its)"
        if self.is_reached:
            return spent, "0", f"{self.ratio:.2g}"
        return spent, f"{self.fit.excess:+.1e}", f"> {self.patience:g}"


def objective(X: sp.csr_matrix, y: np.ndarray, lam: float, w: np.ndarray) -> float:
    return 0.5 * lam * float(w @ w) + float(np.maximum(0.0, 1.0 - y * (X @ w)).mean())


def fit_liblinear(X: sp.csr_matrix, y: np.ndarray, lam: float, max_iter: int, goal: float) -> Fit:
    model = LinearSVC(
        loss="hinge", dual=True, fit_intercept=False, C=1.0 / (y.size * lam), tol=1e-12, max_iter=max_iter,
        random_state=0,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        began = time.perf_counter()
        model.fit(X, y)
        seconds = time.perf_counter() - began
    reached = objective(X, y, lam, model.coef_[0])
    return Fit(max_iter, seconds, (reached - goal) / goal, bool(model.n_iter_ < max_iter))


def race(fit: Callable[[int], Fit], ours: float, repeats: int, patience: float = PATIENCE) -> Race:
    """Give LIBLINEAR ``patience`` times our time to reach our objective, and report the best it did with it."""
    budget = patience * ours
    fits = [fit(GROWTH)]
    while fits[-1].excess > 0.0 and fits[-1].seconds < budget and not fits[-1].exhausted:
        fits.append(fit(_next_max_iter(fits, 1.1 * budget)))
    if fits[-1].excess > 0.0:
        return Race(replace(fits[-1], excess=min(tried.excess for tried in fits)), ours, patience)
    winner = _cheapest(fit, fits)
    seconds = best_time(winner.seconds, lambda: fit(winner.max_iter).seconds, repeats)
    return Race(replace(winner, seconds=seconds), ours, patience)


def _next_max_iter(fits: list[Fit], budget: float) -> int:
    """Grow by ``GROWTH``, or by what the budget is expected to allow if that is less."""
    last = fits[-1]
    cost = last.seconds / last.max_iter
    if len(fits) > 1:  # later iterations are cheaper, as LIBLINEAR shrinks
        before = fits[-2]
        cost = max(0.3 * cost, (last.seconds - before.seconds) / (last.max_iter - before.max_iter))
    affordable = last.max_iter + math.ceil((budget - last.seconds) / cost)
    return max(last.max_iter + 1, min(GROWTH * last.max_iter, affordable))


def _cheapest(fit: Callable[[int], Fit], fits: list[Fit]) -> Fit:
    """Close in on the fewest iterations that reach our objective, between the last fit and the one before."""
    winner = fits[-1]
    low = fits[-2].max_iter if len(fits) > 1 else 1
    for _ in range(3):
        middle = round(math.sqrt(low * winner.max_iter))
        if not low < middle < winner.max_iter:
            break
        tried = fit(middle)
        if tried.excess <= 0.0:
            winner = tried
        else:
            low = middle
    return winner


# ------------------------------------------------------------------------------------------------------------- tables


def measure_set(name: str, repeats: int) -> list[str]:
    """One row of the first table; runs in a process of its own."""
    which = SETS[name]
    X, y = load(name)
    warm_up()
    peak, allowed = memory_above_data(X, y, which.lam)
    result, ours = timed_solve(X, y, which.lam, repeats)
    assert math.isclose(objective(X, y, which.lam, result.w), result.objective, rel_tol=1e-9)
    rival = race(
        lambda max_iter: fit_liblinear(X, y, which.lam, max_iter, result.objective),
        ours,
        repeats,
        max(PATIENCE, which.target),
    )
    is_fast = rival.ratio >= which.target
    return [
        name, *map(str, X.shape), str(X.nnz), f"{which.lam:.0e}", str(result.n_steps), str(which.prototype_steps),
        f"{result.objective:.6f}", f"{result.lower_bound:.6f}", f"{result.gap / result.objective:.1e}",
        f"{ours:.3f}", shares(X, y, which.lam),
        f"{peak:.0f} of {allowed:.0f}{'' if peak <= allowed else ' EXCEEDED'}",
        *rival.cells(), f"{which.target:g}", "ok" if is_fast else "MISSED",
    ]  # fmt: skip


def table_sets(names: list[str], repeats: int) -> None:
    table = Table(
        "1. Six sets at the lambda that generalizes best",
        [
            "set", "n", "d", "nnz", "lambda", "steps", "prototype's steps", "objective", "bound", "relative gap",
            "seconds", "matvec / QP / line search / rest, %", "peak MB above the data, of those allowed",
            "LIBLINEAR", "its best excess", "ratio", "target", "",
        ],
    )  # fmt: skip
    for name in names:
        table.row(*run_apart(measure_set, name, repeats))


def table_lambdas(names: list[str], repeats: int, with_liblinear: bool) -> None:
    rival = ["LIBLINEAR", "its best excess", "ratio"] if with_liblinear else []
    table = Table(
        "2. From strong to weak regularization",
        ["set", "lambda", "steps", "seconds", "objective", "relative gap", "status", *rival],
    )
    for name in names:
        X, y = load(name)
        for lam in 10.0 ** np.arange(-2, -10, -1):
            result, ours = timed_solve(X, y, lam, repeats)
            cells = [name, f"{lam:.0e}", result.n_steps, f"{ours:.3f}", f"{result.objective:.6f}"]
            cells += [f"{result.gap / result.objective:.1e}", result.status.name]
            if with_liblinear:
                cells += _race_at(X, y, lam, result.objective, ours, repeats).cells()
            table.row(*cells)


def _race_at(X: sp.csr_matrix, y: np.ndarray, lam: float, goal: float, ours: float, repeats: int) -> Race:
    return race(lambda max_iter: fit_liblinear(X, y, lam, max_iter, goal), ours, repeats)


def table_sizes(name: str, repeats: int) -> None:
    lam = SETS[name].lam
    table = Table(
        f"3. Sample size: {name} at lambda {lam:.0e}",
        ["n", "steps", "seconds", "microseconds per step and 1000 samples", "relative to the smallest n"],
    )
    X, y = load(name)
    first = None
    for n in [y.size // part for part in (8, 4, 2, 1)]:
        result, ours = timed_solve(X[:n], y[:n], lam, repeats)
        cost = ours / result.n_steps / n * 1e9
        first = first or cost
        table.row(n, result.n_steps, f"{ours:.3f}", f"{cost:.1f}", f"{cost / first:.2f}")


def table_steps(name: str, repeats: int) -> None:
    lam = SETS[name].lam
    table = Table(
        f"4. Milliseconds per step in tenths of the run: {name} at lambda {lam:.0e}",
        ["planes", "steps", "relative gap", "most planes", "seconds", *[f"tenth {k}" for k in range(1, 11)]],
    )
    X, y = load(name)
    for max_planes in (None, 100):
        runs = [solve(X, y, lam, max_planes) for _ in range(repeats)]
        seconds = np.array([np.diff([row.seconds for row in run.trace]) for run in runs]).min(axis=0)
        tenths = [f"{1e3 * part.mean():.2f}" for part in np.array_split(seconds, 10)]
        last, most = runs[-1], max(row.n_cuts for row in runs[-1].trace)
        kept = f"at most {max_planes}" if max_planes else "unlimited"
        gap = f"{last.gap / last.objective:.1e}"
        table.row(kept, last.n_steps, gap, most, f"{statistics.median(r.trace[-1].seconds for r in runs):.3f}", *tenths)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one run each, not the best; LIBLINEAR in table 1 only")
    parser.add_argument("--sets", nargs="*", default=list(SETS), choices=list(SETS), metavar="SET", help="of all")
    args = parser.parse_args()
    names = on_this_machine(args.sets)
    if not names:
        sys.exit(f"no data set was found: see {DATA_VARIABLE}")
    repeats = 1 if args.quick else 3
    print_machine()
    table_sets(names, repeats)
    warm_up()
    if swept := [name for name in ("ijcnn1", "w8a") if name in names]:
        table_lambdas(swept, repeats, with_liblinear=not args.quick)
    if "covtype" in names:
        table_sizes("covtype", repeats)
    if "w8a" in names:
        table_steps("w8a", repeats)


if __name__ == "__main__":
    main()
