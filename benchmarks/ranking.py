"""Ranking by query beside LightGBM, LIBLINEAR on pairs and ridge; Figure 3 of Do, Le, Foo (2009); a million documents.

Each method chooses its setting by NDCG@10 on validation queries and is then tested once; ``ranking_sets`` has the sets,
``ranking_methods`` the methods.  The mean is over five folds or seeds, beside its standard error.  A method has won
against another on a set where the mean of their differences is above its standard error.  Our fits go down the path of
lambdas from the last solution to a certified relative gap of 1e-2.  To reach on every set, by one default: no loss to
a linear method.

The paper's ranking data are not public: the figure shows fold 1 of MQ2008, ProximalBundle beside CuttingPlane, until a
certified relative gap of 1e-2 or a limit.  The optimum is the line search bundle's objective at a gap of 1e-3.
LightGBM is left out where it is not installed, and on one query of 8000 documents with 62000 features.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from common import DataMissing, Table, peak_memory, print_machine, reset_peak_memory, run_apart, save_figure
from figure3 import SOLVERS
from ranking_methods import DEFAULT, LINEAR_RIVALS, METHODS, OURS, TREES, Method, Scorer
from ranking_sets import N_FOLDS, SETS, Documents, Fold, folds, made_up, mq2008
from undercut import L2, NdcgRisk, PairwiseRisk, Progress, Result, Stop, minimize
from undercut.estimators.ranking.retrieval import ranking_score

MEASURES = ("ndcg@10", "exponential_ndcg@10", "map", "mrr")
FIGURE_LAMBDAS = (1e-2, 1e-4, 1e-6)
FIGURE_RISKS = {"NDCG@10": NdcgRisk, "pairwise": PairwiseRisk}
MILLION = 1_000_000


class Outcome(NamedTuple):
    """A method on one fold, with its best setting in validation."""

    measures: tuple[float, ...]  # by MEASURES
    seconds: float  # of the whole grid


def ndcg(score: Scorer, on: Documents) -> float:
    return ranking_score("ndcg@10", on.y, score(on.X), on.qid)


def measure(method: Method, fold: Fold) -> Outcome:
    began = time.process_time()
    scorers = list(method(fold))
    seconds = time.process_time() - began
    best = max(scorers, key=lambda scorer: ndcg(scorer, fold.validation))
    scores = best(fold.test.X)
    return Outcome(tuple(ranking_score(name, fold.test.y, scores, fold.test.qid) for name in MEASURES), seconds)


def methods_for(name: str) -> dict[str, Method]:
    """Those that a set is not too large for."""
    return {title: method for title, method in METHODS.items() if title not in TREES or "newsgroup" not in name}


def compare(names: list[str], n_folds: int) -> None:
    table = Table(
        f"Rankings: mean in test over {n_folds} folds or seeds ± standard error",
        ["set", "method", *MEASURES, "seconds, whole grid"],
    )
    found: dict[str, dict[str, np.ndarray]] = {}
    for name in names:
        try:
            outcomes = {
                title: [measure(method, fold) for fold in folds(name, n_folds)]
                for title, method in methods_for(name).items()
            }
        except DataMissing as reason:
            print(f"{name} skipped: {reason}")
            continue
        found[name] = {title: np.array([one.measures for one in all_]) for title, all_ in outcomes.items()}
        for title, values in found[name].items():
            cells = [f"{m:.4f} ± {e:.4f}" for m, e in zip(values.mean(axis=0), error(values), strict=True)]
            table.row(name, title, *cells, f"{np.mean([one.seconds for one in outcomes[title]]):.1f}")
    judge(found)


def error(values: np.ndarray) -> np.ndarray:
    """The standard error of the mean over folds."""
    return values.std(axis=0, ddof=1) / np.sqrt(len(values))


def judge(found: dict[str, dict[str, np.ndarray]]) -> None:
    """Wins and losses of ours, by NDCG@10, and how our fits ended."""
    rivals = [title for title in METHODS if title not in OURS]
    table = Table("Wins, draws and losses on the sets, by NDCG@10", ["ours", *rivals])
    for ours in OURS:
        table.row(ours, *[tally([one for one in found.values() if rival in one], ours, rival) for rival in rivals])
    print()
    for ours, method in OURS.items():
        print(f"- {ours}: {method.n_fits} fits, {method.n_open} without a gap of 1e-2, {method.n_constant} constant")
    lost = [
        f"{name} ({rival})"
        for name, one in found.items()
        for rival in LINEAR_RIVALS
        if sign(one[DEFAULT], one[rival]) < 0
    ]
    print(f"- {DEFAULT} lost to a linear method: {', '.join(lost) or 'nowhere'}", flush=True)


def tally(of_sets: list[dict[str, np.ndarray]], ours: str, rival: str) -> str:
    signs = [sign(one[ours], one[rival]) for one in of_sets]
    return " / ".join(str(signs.count(which)) for which in (1, 0, -1))


def sign(ours: np.ndarray, rival: np.ndarray) -> int:
    """1 where ours is better by more than the standard error of the difference, -1 where it is worse by that."""
    difference = ours[:, :1] - rival[:, :1]
    return int(np.sign(difference.mean()) * (abs(difference.mean()) > error(difference)[0]))


# ------------------------------------------------------------------------------------------------------------ figure 3


def figure3(stop: Stop) -> Figure:
    """A row per lambda, and per risk a column with the best objective and one with the gap."""
    table = Table(
        f"Figure 3, web ranking: evaluations, at most {stop.max_evaluations:g} and {stop.max_seconds:g} s",
        ["risk", "lambda", "optimum", *[f"to 1 %: {s}" for s in SOLVERS], *[f"to gap 1e-2: {s}" for s in SOLVERS]],
    )
    figure = Figure(figsize=(14.0, 9.0), layout="constrained")
    grid = figure.subplots(len(FIGURE_LAMBDAS), 2 * len(FIGURE_RISKS))
    for column, (name, make_risk) in enumerate(FIGURE_RISKS.items()):
        risk = make_risk(*mq2008(0).train)
        for row, lam in enumerate(FIGURE_LAMBDAS):
            optimum = minimize(risk, L2(lam), stop=Stop(max_seconds=60.0)).objective
            runs = {label: minimize(risk, L2(lam), solver, stop=stop) for label, solver in SOLVERS.items()}
            cells = [arrival(run, lambda at, level=1.01 * optimum: at.objective <= level) for run in runs.values()]
            cells += [arrival(run, lambda at: at.gap <= 1e-2 * at.objective) for run in runs.values()]
            table.row(name, f"{lam:.0e}", f"{optimum:.5f}", *cells)
            draw(grid[row, 2 * column : 2 * column + 2], f"{name}, λ = {lam:.0e}", optimum, runs)
    grid[0, 0].legend(fontsize=8)
    return figure


def arrival(run: Result, is_there: Callable[[Progress], bool]) -> str:
    """Evaluations until a row of the trace is there."""
    found = next((row.n_evaluations for row in run.trace if is_there(row)), None)
    return f"> {run.n_evaluations}" if found is None else str(found)


def draw(axes: Sequence[Axes], title: str, optimum: float, runs: dict[str, Result]) -> None:
    for (label, run), style in zip(runs.items(), ("-", "-", "--"), strict=True):
        evaluations = [row.n_evaluations for row in run.trace]
        axes[0].plot(evaluations, [row.objective - optimum for row in run.trace], style, label=label)
        axes[1].plot(evaluations, [row.gap for row in run.trace], style)
    for ax, what in zip(axes, ("best objective - optimum", "gap"), strict=True):
        ax.set(xscale="log", yscale="log", xlabel="evaluations", ylabel=what)
        ax.set_title(title, fontsize=10)
        ax.grid(alpha=0.3)


# -------------------------------------------------------------------------------------------------- a million documents


def evaluate_million(n_grades: int, size: int) -> tuple[float, float, float]:
    """Seconds to build a PairwiseRisk and for a plane, and the peak of memory above X, y and qid in MB."""
    rng = np.random.default_rng(0)
    X, w = rng.standard_normal((MILLION, 10)), rng.standard_normal(10)
    y, qid = rng.integers(0, n_grades, MILLION), rng.permutation(MILLION) // size
    PairwiseRisk(X[:100], y[:100]).cut(w)
    before = reset_peak_memory()
    began = time.perf_counter()
    risk = PairwiseRisk(X, y, qid)
    built = time.perf_counter()
    times = []
    for _ in range(5):
        start = time.perf_counter()
        risk.cut(w)
        times.append(time.perf_counter() - start)
    return built - began, min(times), peak_memory() - before


def table_million() -> None:
    table = Table(
        "PairwiseRisk on 1e6 documents (a vector of scores takes 8 MB)",
        ["documents in a query", "grades", "pairs", "seconds to build", "seconds per evaluation", "peak memory, MB"],
    )
    for size in (50, MILLION):
        for n_grades in (2, 5, MILLION):
            built, seconds, memory = run_apart(evaluate_million, n_grades, size)
            pairs = 0.5 * MILLION * (size - 1) * (1.0 - 1.0 / n_grades)
            table.row(size, n_grades, f"{pairs:.1e}", f"{built:.2f}", f"{seconds:.2f}", f"{memory:.0f}")


def warm_up() -> None:
    """Compile, or load what is compiled."""
    for method in OURS.values():
        next(method(made_up(8, -1)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="two folds, and only the comparison")
    parser.add_argument("--compare-only", action="store_true", help="neither the figure nor a million documents")
    parser.add_argument("--sets", nargs="*", default=list(SETS), choices=list(SETS), metavar="SET", help="of all")
    parser.add_argument("--max-evaluations", type=int, default=500, help="of a run of the figure")
    parser.add_argument("--max-seconds", type=float, default=10.0, help="of a run of the figure")
    parser.add_argument("--out", default="benchmarks/figures", help="folder for the picture")
    args = parser.parse_args()
    print_machine()
    warm_up()
    compare(args.sets, 2 if args.quick else N_FOLDS)
    if args.quick or args.compare_only:
        return
    stop = Stop(gap_rel=1e-2, max_evaluations=args.max_evaluations, max_seconds=args.max_seconds)
    save_figure(figure3(stop), args.out, "ranking_figure3.png")
    table_million()


if __name__ == "__main__":
    main()
