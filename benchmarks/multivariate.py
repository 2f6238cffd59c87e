"""Measures of all labels together: trained for the measure, or LIBLINEAR with class weights and a threshold.

    J(w) = lam/2 |w|^2 + R(w),        C = 1 / (n lam) in LIBLINEAR's notation

    python benchmarks/multivariate.py --processes 14

Each seed draws rows to fit on and rows to choose by from the training file; the test rows are those of the test file,
or rows that are left where there is none.  Lambda (both sides, one grid), the class weights (LIBLINEAR: none or
balanced) and, for measures that depend on it, the rivals' threshold are chosen by the measure itself on the rows to
choose by; the model is then tested once.  "ours" is ``MultivariateClassifier`` with its defaults: surrogate and
threshold are chosen inside every fit, on folds of the rows to fit on.  "ours, own bound" is trained by the bound of the
measure alone, and the rows to choose by choose its threshold, as for the rivals.  P is the number of positives of
whatever rows are looked at.  Ours goes down the grid with warm starts, each fit to a certified relative gap of 1e-2 or
a limit of seconds.  A method has won where the mean of the differences is above its standard error.  A draw of a set
that takes more than ``--limit`` seconds is ended; measures that are done by then count.

Constants of the library were chosen on made-up problems.  Decisions that were prompted by these sets: two lambdas per
decade from 1 on for both sides, since with one per decade from 0.1 on the best of the bounds was between two of them on
CCAT (F1) and perhaps above the first on connect-4 (top half); class prices, after equal ones had learned nothing on
connect-4 and covtype; surrogates beside the bound of the measure, after connect-4, and the squared hinge among them,
after alt.atheism, as are the average precision where a top k does not decide and a limit to the steps of a surrogate
that is tried; thresholds averaged over bootstrap samples, after CCAT.  The step lengths of the solver were looked
at on mnist too.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from common import Table, print_machine
from limited import Job, Report, run_jobs
from multivariate_sets import SETS, Samples, Split, available, split
from undercut import MultivariateClassifier, Status
from undercut.errors import ConstantModelWarning
from undercut.estimators.linear.thresholds import best_threshold
from undercut.measures import (
    AveragePrecision,
    BalancedError,
    BreakEven,
    FBeta,
    Matthews,
    Measure,
    PartialRocArea,
    PrecisionAt,
    RecallAt,
    RocArea,
    ThresholdMeasure,
)

LAMBDAS = (1.0, 3e-1, 1e-1, 3e-2, 1e-2, 3e-3, 1e-3, 3e-4, 1e-4, 3e-5, 1e-5)
GAP = 1e-2


Make = Callable[[np.ndarray], Measure]


def half_positives(y: np.ndarray) -> int:
    return max(1, int(np.sum(y > 0.0)) // 2)


MEASURES: dict[str, Make] = {
    "F1": lambda y: FBeta(),
    "Matthews": lambda y: Matthews(),
    "balanced error": lambda y: BalancedError(),
    "precision@P/2": lambda y: PrecisionAt(half_positives(y)),
    "recall@2P": lambda y: RecallAt(min(y.size, 4 * half_positives(y))),
    "break-even": lambda y: BreakEven(),
    "ROC area": lambda y: RocArea(),
    "ROC area to 0.1": lambda y: PartialRocArea(0.1),
    "average precision": lambda y: AveragePrecision(),
}
OWN_BOUND = ("F1", "precision@P/2")  # trained by their own bound too, whatever the default would do
RIVALS = ("LinearSVC", "LogisticRegression")


class Trained(NamedTuple):
    """A linear model."""

    w: np.ndarray
    b: float
    lam: float

    def scores(self, X: sp.csr_matrix) -> np.ndarray:
        return np.asarray(X @ self.w + self.b).ravel()


Grid = tuple[list[Trained], float]  # models and the seconds that they took
Found = dict[str, tuple[float, float]]  # the measure in test and seconds, by method


@dataclass
class Fits:
    """How our fits ended; ``patience`` is what the whole grid of a rival takes."""

    patience: float = float("inf")
    n: int = 0
    n_slow: int = 0  # that took longer than that
    n_open: int = 0  # before the gap was reached
    n_constant: int = 0  # with a warning of a constant model
    n_silent: int = 0  # with equal scores and without that warning

    def fit(self, model: MultivariateClassifier, data: Samples) -> MultivariateClassifier:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            began = time.process_time()
            model.fit(*data)
        self.n += 1
        self.n_slow += time.process_time() - began > self.patience
        self.n_open += model.result_.status is not Status.CONVERGED
        warned = any(issubclass(one.category, ConstantModelWarning) for one in caught)
        self.n_constant += warned
        self.n_silent += not warned and bool(np.ptp(data.X @ model.coef_[0]) <= 1e-9)
        return model


class Row(NamedTuple):
    """One draw of a set."""

    share: float  # of positives
    found: dict[str, Found]  # by measure
    fits: Fits


# ------------------------------------------------------------------------------------------------------------ methods


def ours(data: Samples, measure: Measure, max_seconds: float, fits: Fits, choice: str = "auto") -> Iterator[Trained]:
    """The default, or with "own" the bound of the measure with its threshold."""
    settings = {"gap_rel": GAP, "max_seconds": max_seconds, "warm_start": True}
    model = MultivariateClassifier(measure, surrogate=choice, threshold=choice, **settings)
    for lam in LAMBDAS:
        fits.fit(model.set_params(lam=lam), data)
        yield Trained(model.coef_[0].copy(), float(model.intercept_[0]), lam)


def liblinear(data: Samples, kind: str) -> Iterator[Trained]:
    for lam in LAMBDAS:
        for weight in (None, "balanced"):
            C = 1.0 / (lam * data.y.size)
            model = (
                LinearSVC(C=C, class_weight=weight)
                if kind == "LinearSVC"
                else LogisticRegression(C=C, class_weight=weight, solver="liblinear")
            )
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                model.fit(*data)
            yield Trained(model.coef_.ravel(), float(model.intercept_[0]), lam)


def loss(title: str, model: Trained, on: Samples, *, tuned: bool = False) -> float:
    """Of the measure; with a threshold for exactly these rows if ``tuned``."""
    measure, scores = MEASURES[title](on.y), model.scores(on.X)
    return measure.label_loss(on.y, scores - (best_threshold(measure, on.y, scores) if tuned else 0.0))


def chosen(title: str, models: list[Trained], on: Samples, *, tuned: bool = False) -> Trained:
    """The best model of a grid, with the best threshold if ``tuned``."""
    best = min(models, key=lambda model: loss(title, model, on, tuned=tuned))
    if not tuned:
        return best
    return best._replace(b=best.b - best_threshold(MEASURES[title](on.y), on.y, best.scores(on.X)))


def timed(models: Iterator[Trained]) -> tuple[list[Trained], float]:
    began = time.process_time()
    return list(models), time.process_time() - began


def outcomes(title: str, data: Split, rivals: dict[str, Grid], max_seconds: float, fits: Fits) -> Found:
    """The measure in test and the seconds of the whole grid, by method."""
    found: dict[str, tuple[Trained, float]] = {}
    measure = MEASURES[title](data.fit.y)
    grid, seconds = timed(ours(data.fit, measure, max_seconds, fits))
    found["ours"] = chosen(title, grid, data.choose), seconds
    is_cut = isinstance(measure, ThresholdMeasure)
    if title in OWN_BOUND:
        grid, seconds = timed(ours(data.fit, measure, max_seconds, fits, "own"))
        found["ours, own bound"] = chosen(title, grid, data.choose, tuned=is_cut), seconds
    for name, (grid, seconds) in rivals.items():
        found[name] = chosen(title, grid, data.choose, tuned=is_cut), seconds
    return {name: (1.0 - loss(title, model, data.test), seconds) for name, (model, seconds) in found.items()}


# -------------------------------------------------------------------------------------------------------------- tables


def run(report: Report, name: str, seed: int, titles: Sequence[str], max_seconds: float) -> Row:
    """All measures on one draw of a set; what is there is told after each of them."""
    warm_up(titles)
    data = split(name, seed)
    report.begin()
    rivals = {kind: timed(liblinear(data.fit, kind)) for kind in RIVALS}
    fits = Fits(patience=rivals["LinearSVC"][1])
    row = Row(float(np.mean(data.fit.y > 0.0)), {}, fits)
    for title in titles:
        row.found[title] = outcomes(title, data, rivals, max_seconds, fits)
        report(row)
    return row


def compare(args: argparse.Namespace, names: Sequence[str], n_seeds: int) -> None:
    jobs = [
        Job((name, seed), run, (name, seed, args.measures, args.max_seconds), args.limit)
        for seed in range(n_seeds)
        for name in names
    ]
    done = run_jobs(jobs, args.processes, time.time() + 60.0 * args.minutes)
    rows = {key: outcome.value or outcome.so_far for key, outcome in done.items()}
    table = Table(
        f"Measures of all labels together, mean in test over {n_seeds} seeds ± standard error; ours to a relative gap "
        f"of {GAP:g} or {args.max_seconds:g} s a fit",
        ["set", "positives", "measure", "method", "test", "seconds, whole grid"],
    )
    values: dict[tuple[str, str], dict[str, np.ndarray]] = {}
    for name in names:
        of_seeds = [row for seed in range(n_seeds) if (row := rows[name, seed]) is not None]
        for title in args.measures:
            found = [row.found[title] for row in of_seeds if title in row.found]
            if len(found) < 2:
                print(f"{name}, {title}: {len(found)} seeds in time")
                continue
            values[name, title] = {method: np.array([one[method][0] for one in found]) for method in found[0]}
            for method, each in values[name, title].items():
                seconds = np.mean([one[method][1] for one in found])
                few = f" ({each.size} seeds)" if each.size < n_seeds else ""
                cells = f"{each.mean():.4f} ± {error(each):.4f}{few}", f"{seconds:.1f}"
                table.row(name, f"{of_seeds[0].share:.3f}", title, method, *cells)
    judge(values, args.measures)
    report_fits([row.fits for row in rows.values() if row is not None])


def error(values: np.ndarray) -> float:
    """The standard error of the mean."""
    return float(values.std(ddof=1) / np.sqrt(values.size))


def judge(values: dict[tuple[str, str], dict[str, np.ndarray]], titles: Sequence[str]) -> None:
    table = Table("Wins, draws and losses on the sets", ["measure", "ours", *RIVALS, "better of both"])
    lost = []
    for title in titles:
        of_sets = {name: found for (name, measure), found in values.items() if measure == title}
        for method in [one for one in next(iter(of_sets.values()), {}) if one not in RIVALS]:
            signs = {rival: {name: sign(found, method, rival) for name, found in of_sets.items()} for rival in RIVALS}
            worst = {name: min(signs[rival][name] for rival in RIVALS) for name in of_sets}
            table.row(title, method, *[tally(each) for each in (*signs.values(), worst)])
            lost += [f"{title}, {method}: {name}" for name, which in worst.items() if which < 0]
    print(f"\nLost: {'; '.join(lost) or 'nowhere'}.")


def sign(found: dict[str, np.ndarray], method: str, rival: str) -> int:
    """1 where a method is better by more than the standard error of the difference, -1 where it is worse by that."""
    difference = found[method] - found[rival]
    return int(np.sign(difference.mean()) * (abs(difference.mean()) > error(difference)))


def tally(signs: dict[str, int]) -> str:
    return " / ".join(str(list(signs.values()).count(which)) for which in (1, 0, -1))


def report_fits(fits: Sequence[Fits]) -> None:
    n, n_slow, n_open, n_constant, n_silent = (sum(getattr(one, f.name) for one in fits) for f in fields(Fits)[1:])
    print(
        f"\nOf {n} fits {n_open} ended before a gap of {GAP:g}, {n_slow} took longer than the whole grid of LinearSVC, "
        f"{n_constant} warned of a constant model, and {n_silent} had equal scores without a warning."
    )


def warm_up(titles: Sequence[str]) -> None:
    """Compile, or load what is compiled."""
    rng = np.random.default_rng(0)
    data = Samples(sp.random(200, 20, density=0.5, format="csr", random_state=rng), np.repeat([1.0, -1.0], 100))
    for title in titles:
        list(ours(data, MEASURES[title](data.y), 1.0, Fits()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="two seeds")
    parser.add_argument("--sets", nargs="*", default=list(SETS), choices=list(SETS), metavar="SET", help="of all")
    parser.add_argument("--measures", nargs="*", default=list(MEASURES), choices=list(MEASURES), metavar="MEASURE")
    parser.add_argument("--processes", type=int, default=1, metavar="N", help="rows at a time, each with one thread")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds of one seed of a set")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="of the whole")
    parser.add_argument("--max-seconds", type=float, default=10.0, help="of one of our fits")
    args = parser.parse_args()
    print_machine()
    warm_up(args.measures)
    compare(args, available(args.sets), 2 if args.quick else args.seeds)


if __name__ == "__main__":
    main()
