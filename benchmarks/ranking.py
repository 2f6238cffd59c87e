"""Ranking by query beside trees, LIBLINEAR on pairs and ridge; Figure 3 of Do, Le, Foo (2009); a million documents.

    python benchmarks/ranking.py --processes 14 --compare-only

Each method chooses its setting by NDCG@10 on validation queries and is then tested once; ``ranking_sets`` has the sets,
``ranking_methods`` the methods.  The mean is over five folds or seeds, beside its standard error; of 20 newsgroups it
is over the 20 classes too, each of them a query, and settings are chosen by MAP.  A method has won against another on a
set where the mean of their differences is above its standard error.  Our fits go down the path of lambdas from the
last solution to a certified relative gap of 1e-2.  To reach on every set, by one default: no loss to a linear method.
A row that takes more than ``--limit`` seconds is ended.

The paper's ranking data are not public: the figure shows fold 1 of MQ2008, ProximalBundle beside CuttingPlane, until a
certified relative gap of 1e-2 or a limit.  The optimum is the line search bundle's objective at a gap of 1e-3.
LightGBM and XGBoost are left out where they are not installed.
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
from limited import Job, Report, run_jobs
from ranking_methods import DEFAULT, LINEAR_RIVALS, METHODS, OURS, SKIPPED, TREES, Method
from ranking_sets import N_FOLDS, NEWSGROUPS, SETS, Fold, made_up, mq2008
from undercut import L2, NdcgRisk, PairwiseRisk, Progress, Result as Run, Stop, minimize
from undercut.estimators.ranking.retrieval import ranking_score

MEASURES = ("ndcg@10", "exponential_ndcg@10", "map", "mrr")
FIGURE_LAMBDAS = (1e-2, 1e-4, 1e-6)
FIGURE_RISKS = {"NDCG@10": NdcgRisk, "pairwise": PairwiseRisk}
MILLION = 1_000_000


class Result(NamedTuple):
    """A method on some folds of a set, with its best setting in validation; the mean over the problems of a fold."""

    measures: np.ndarray  # (folds, MEASURES)
    seconds: float  # of the whole grid, mean over the folds
    n_fits: int
    n_open: int  # fits without a certified gap
    n_constant: int  # warnings of a constant model


def judged_by(name: str) -> str:
    """The measure that settings are chosen and methods compared by; NDCG@10 of a newsgroup is 1 for nearly all."""
    return "map" if name == NEWSGROUPS else "ndcg@10"


def measure(method: Method, fold: Fold, by: str) -> tuple[list[float], float]:
    """The measures in test, and the seconds of the grid."""
    began = time.process_time()
    scorers = list(method(fold))
    seconds = time.process_time() - began
    held = fold.validation
    best = max(scorers, key=lambda scorer: ranking_score(by, held.y, scorer(held.X), held.qid))
    scores = best(fold.test.X)
    return [ranking_score(name, fold.test.y, scores, fold.test.qid) for name in MEASURES], seconds


def run(report: Report, name: str, title: str, n_folds: int) -> Result:
    """A method on the folds of a set."""
    method = METHODS[title]
    warm_up(title)
    report.begin()
    found, seconds = [], []
    for number in range(n_folds):
        each = [measure(method, fold, judged_by(name)) for fold in SETS[name](number)]
        found.append(np.mean([measures for measures, _ in each], axis=0))
        seconds.append(sum(spent for _, spent in each))
        counts = [getattr(method, what, 0) for what in ("n_fits", "n_open", "n_constant")]
        result = Result(np.array(found), float(np.mean(seconds)), *counts)
        report(result)
    return result


def warm_up(title: str) -> None:
    """Compile, or load what is compiled."""
    if title in OURS:
        for _ in OURS[title](made_up(8, -1)):
            pass
        OURS[title].forget()


def compare(names: Sequence[str], n_folds: int, n_processes: int, limit: float, end: float) -> None:
    """Every method on every set; the slowest jobs begin first."""
    pairs = [(name, title) for name in names for title in METHODS]
    pairs.sort(key=lambda pair: (pair[0] != NEWSGROUPS, pair[1] not in TREES))
    outcomes = run_jobs([Job(pair, run, (*pair, n_folds), limit) for pair in pairs], n_processes, end)
    table = Table(
        f"Rankings: mean in test over {n_folds} folds or seeds ± standard error",
        ["set", "method", *MEASURES, "seconds, whole grid"],
    )
    found = {pair: each for pair, outcome in outcomes.items() if (each := outcome.value or outcome.so_far) is not None}
    for name in names:
        for title in METHODS:
            if (name, title) not in found:
                table.row(name, title, *["-"] * len(MEASURES), outcomes[name, title].failure)
                continue
            values = found[name, title].measures
            cells = [f"{m:.4f} ± {e:.4f}" for m, e in zip(values.mean(axis=0), error(values), strict=True)]
            late = "" if len(values) == n_folds else f", {len(values)} of {n_folds} folds in {limit:g} s"
            table.row(name, title, *cells, f"{found[name, title].seconds:.1f}{late}")
    judge({pair: each for pair, each in found.items() if len(each.measures) == n_folds}, names)


def error(values: np.ndarray) -> np.ndarray:
    """The standard error of the mean over folds; NaN for a single one."""
    if len(values) < 2:
        return np.full(values.shape[1:], np.nan)
    return values.std(axis=0, ddof=1) / np.sqrt(len(values))


def judge(found: dict[tuple[str, str], Result], names: Sequence[str]) -> None:
    """Wins and losses of ours, and how our fits ended."""
    rivals = [title for title in METHODS if title not in OURS]
    table = Table("Wins, draws and losses on the sets, by NDCG@10 (20 newsgroups: MAP)", ["ours", *rivals])
    for ours in OURS:
        table.row(ours, *[tally(found, names, ours, rival) for rival in rivals])
    print()
    for ours in OURS:
        all_ = [result for (_, title), result in found.items() if title == ours]
        n_fits, n_open, n_constant = (sum(getattr(one, f) for one in all_) for f in Result._fields[2:])
        print(f"- {ours}: {n_fits} fits, {n_open} without a gap of 1e-2, {n_constant} warned of a constant model")
    for kind, titles in (("a linear method", LINEAR_RIVALS), ("trees", TREES)):
        lost = [f"{name} ({rival})" for name in names for rival in titles if sign(found, name, DEFAULT, rival) == -1]
        print(f"- {DEFAULT} lost to {kind}: {', '.join(lost) or 'nowhere'}", flush=True)


def tally(found: dict[tuple[str, str], Result], names: Sequence[str], ours: str, rival: str) -> str:
    signs = [sign(found, name, ours, rival) for name in names]
    return " / ".join(str(signs.count(which)) for which in (1, 0, -1))


def sign(found: dict[tuple[str, str], Result], name: str, ours: str, rival: str) -> int | None:
    """1 where ours is better by more than the standard error of the difference, -1 where it is worse by that."""
    if (name, ours) not in found or (name, rival) not in found:
        return None
    at = MEASURES.index(judged_by(name))
    difference = (found[name, ours].measures - found[name, rival].measures)[:, at]
    return int(np.sign(difference.mean()) * (abs(difference.mean()) > error(difference)))


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


def arrival(run: Run, is_there: Callable[[Progress], bool]) -> str:
    """Evaluations until a row of the trace is there."""
    found = next((row.n_evaluations for row in run.trace if is_there(row)), None)
    return f"> {run.n_evaluations}" if found is None else str(found)


def draw(axes: Sequence[Axes], title: str, optimum: float, runs: dict[str, Run]) -> None:
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="two folds, and only the comparison")
    parser.add_argument("--compare-only", action="store_true", help="neither the figure nor a million documents")
    parser.add_argument("--sets", nargs="*", default=list(SETS), choices=list(SETS), metavar="SET", help="of all")
    parser.add_argument("--processes", type=int, default=1, metavar="N", help="rows at a time, each with one thread")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds of one row")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="of the comparison")
    parser.add_argument("--max-evaluations", type=int, default=500, help="of a run of the figure")
    parser.add_argument("--max-seconds", type=float, default=10.0, help="of a run of the figure")
    parser.add_argument("--out", default="benchmarks/figures", help="folder for the picture")
    args = parser.parse_args()
    print_machine()
    for title in SKIPPED:
        print(f"{title} skipped: not installed")
    for title in OURS:
        warm_up(title)
    end = time.time() + 60.0 * args.minutes
    compare(available(args.sets), 2 if args.quick else N_FOLDS, args.processes, args.limit, end)
    if args.quick or args.compare_only:
        return
    stop = Stop(gap_rel=1e-2, max_evaluations=args.max_evaluations, max_seconds=args.max_seconds)
    save_figure(figure3(stop), args.out, "ranking_figure3.png")
    table_million()


def available(names: Sequence[str]) -> list[str]:
    """The sets that are here; a line for each that is not."""
    found = []
    for name in names:
        try:
            SETS[name](0)
            found.append(name)
        except DataMissing as reason:
            print(f"{name} skipped: {reason}")
    return found


if __name__ == "__main__":
    main()
