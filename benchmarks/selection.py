"""Choosing lambda: paths of 20 lambdas from 1e-2 to 1e-8, and five-fold cross-validation over them.

    J(w) = lam/2 |w|^2 + 1/n sum_i max(0, 1 - y_i <w, x_i>),        C = 1 / (n lam) in LIBLINEAR's notation

    python benchmarks/selection.py --processes 9 --minutes 9    # all that is done by then
    python benchmarks/selection.py --sets a9a --tables 2     # one set and one table

Table 1 compares a path, whose points hand on their planes, scores and dual points, with 20 fits that know nothing of
each other, both to a certified relative gap of 1e-3.  Table 2 compares the choice by cross-validation with
``GridSearchCV(LinearSVC)``, ``LogisticRegressionCV`` and LIBLINEAR's own search (``-C``), which doubles C from that of
our largest lambda and knows no hinge loss.  How far a rival is off is measured on the first fold against our lower
bounds; how far ours are is that of the lambdas of which no fit ended early.  Table 3 has paths of L1 beside celer and
skglm.  Table 4 checks a certified path at 1000 random lambdas.

Times are processor seconds of one thread.  A row that takes more than ``--limit`` seconds, and a search of another
library that takes ten times as long as ours, is ended and tells how far it came.  A fit of ours ends after
``--max-seconds`` and says so by its gap.  The cross-validation of mnist (ten classes, one against the rest; jointly for
the logistic loss) is on its first 5000 rows.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from common import Table, load, on_this_machine, print_machine, warm_up
from limited import Job, Outcome, Report, run_jobs
from selection_methods import GAP, LAMS, METHODS, how_far
from undercut import L2, Hinge, LinearRisk, Logistic, Stop, minimize
from undercut.regularizers.named import named_regularizer
from undercut.selection import regularization_path

SETS = ("a9a", "ijcnn1", "w8a", "rcv1-sample", "mnist", "covtype")
SPARSE_SETS = ("rcv1-sample", "w8a")
CHOICE_ROWS = {"mnist": 5_000}  # of the cross-validation
RIVAL, LEAST_LIMIT = 10.5, 10.0  # a rival is ended after this many times our seconds, but not before so many seconds
QUICK_ROWS, QUICK_SETS = 4000, ("a9a", "ijcnn1")
LONGEST = ("mnist", "rcv1-sample", "covtype")  # sets whose jobs begin first


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    began = time.process_time()
    found = work()
    return found, time.process_time() - began


# -------------------------------------------------------------------------------------------------------------- paths


def path_row(report: Report, name: str, n_rows: int | None, max_seconds: float) -> list[str]:
    """A path beside fits of their own, one class against the rest."""
    warm_up()
    X, y = load(name)
    risk = LinearRisk(X[:n_rows], y[:n_rows], Hinge())
    stop = Stop(gap_rel=GAP, max_seconds=max_seconds)
    regularization_path(LinearRisk(X[:500], y[:500], Hinge()), LAMS[::6])  # compiles
    report.begin()
    path, ours = timed(lambda: regularization_path(risk, LAMS, stop=stop))
    fits = []
    for lam in LAMS:
        fits.append(timed(lambda lam=lam: minimize(risk, L2(lam), stop=stop)))
        report(f"path {ours:.2f} s, {len(fits)} of {LAMS.size} fits {sum(spent for _, spent in fits):.1f} s")
    seconds = np.array([spent for _, spent in fits])
    alone, hardest = seconds.sum(), np.sort(seconds)[-3:].sum()
    evaluations = f"{path.n_evaluations.sum()} / {sum(fit.n_evaluations for fit, _ in fits)}"
    gaps = f"{(path.gaps / path.objectives).max():.1e} / {max(fit.gap / fit.objective for fit, _ in fits):.1e}"
    met = "yes" if ours <= 0.25 * alone and ours < hardest else "no"
    times = [f"{each:.2f}" for each in (ours, alone, ours / alone, hardest)]
    return [str(risk.y.size), *times, evaluations, gaps, met]


def table_paths(found: dict[tuple[Any, ...], Outcome], names: Sequence[str]) -> None:
    table = Table(
        "1. Paths: 20 lambdas beside 20 fits of their own",
        ["set", "n", "path, s", "20 fits, s", "ratio", "3 hardest fits, s", "evaluations: path / fits",
         "largest gap: path / fits", "a quarter, and less than the 3 hardest"],
    )  # fmt: skip
    for name in names:
        outcome = found["path", name]
        row = outcome.value or [outcome.failure, outcome.so_far or "-", *["-"] * 6]
        table.row(name, *row)


# ------------------------------------------------------------------------------------------------------------- choice


def table_choice(found: dict[tuple[Any, ...], Outcome], names: Sequence[str]) -> None:
    table = Table(
        "2. Five-fold cross-validation over 20 lambdas",
        ["set", "method", "seconds", "ratio", "lambda", "score of the folds", "test accuracy", "fits that did not "
         "converge", "how far off", "ended early"],
    )  # fmt: skip
    for name in names:
        for method, (_, our) in METHODS.items():
            outcome, ours = found["choice", name, method], found["choice", name, our]
            table.row(name, method, *(choice_cells(outcome, ours) if outcome.is_done else late_cells(outcome, ours)))


def choice_cells(outcome: Outcome, ours: Outcome) -> list[str]:
    found = outcome.value
    ratio = f"{found.seconds / ours.value.seconds:.2g}" if ours.is_done else "-"
    return [
        f"{found.seconds:.1f}", ratio, f"{found.lam:.2g}", f"{found.score:.4f}", f"{found.test:.4f}", found.failed,
        found.off, found.decided,
    ]  # fmt: skip


def late_cells(outcome: Outcome, ours: Outcome) -> list[str]:
    """A search that was ended."""
    came, failed, off = outcome.so_far or ("-", "-", "-")
    late = outcome.failure.startswith("over the limit of ")
    ratio = f"> {float(outcome.failure.split()[4]) / ours.value.seconds:.2g}" if late and ours.is_done else "-"
    return [f"{outcome.failure}: {how_far(came)}", ratio, "-", "-", "-", failed, off, "-"]


# ----------------------------------------------------------------------------------------------------------------- L1


def sparse_row(report: Report, name: str, n_rows: int | None, method: str, max_seconds: float) -> list[str]:
    """A path of L1 with the logistic loss; the bounds that a rival is measured by are not part of its time."""
    X, y = (part[:n_rows] for part in load(name))
    risk = LinearRisk(X, y, Logistic())
    top = float(np.abs(risk.cut(np.zeros(risk.n_params)).a).max())
    lams = np.geomspace(0.99 * top, 0.0099 * top, 20)
    stop = Stop(gap_rel=GAP, max_seconds=max_seconds)
    regularization_path(LinearRisk(X[:500], y[:500], Logistic()), lams[:3], penalty="l1")  # compiles
    own = partial(regularization_path, risk, lams, penalty="l1", stop=stop)
    if method == "ours":
        report.begin()
        path, seconds = timed(own)
        gap = float((path.gaps / path.lower_bounds).max())
        return [f"{seconds:.2f}", str(path.n_nonzero[-1]), f"{gap:.1e}, certified"]
    run = SPARSE_PEERS[method]
    run(X[:500], y[:500], lams[:3])  # compiles
    report.begin()
    coefs, seconds = timed(lambda: run(X, y, lams))
    values = [named_regularizer("l1", lam).value(w) + risk.value(w) for lam, w in zip(lams, coefs, strict=True)]
    off = float((np.array(values) / own().lower_bounds).max() - 1.0)
    return [f"{seconds:.2f}", str(np.count_nonzero(coefs[-1])), f"{off:.1e}"]


def celer_path(X: Any, y: np.ndarray, lams: np.ndarray) -> np.ndarray:
    import celer

    columns = X.tocsc()
    return np.asarray(celer.celer_path(columns, y, pb="logreg", alphas=y.size * lams, tol=GAP)[1].T)


def skglm_path(X: Any, y: np.ndarray, lams: np.ndarray) -> np.ndarray:
    from skglm import SparseLogisticRegression

    columns, coefs = X.tocsc(), []
    model = SparseLogisticRegression(tol=GAP * lams[-1], fit_intercept=False, warm_start=True)
    for lam in lams:
        model.alpha = lam
        coefs.append(model.fit(columns, y).coef_.ravel().copy())
    return np.array(coefs)


SPARSE_PEERS: dict[str, Callable[..., np.ndarray]] = {"celer_path": celer_path, "skglm, warm": skglm_path}


def table_sparse(found: dict[tuple[Any, ...], Outcome], names: Sequence[str]) -> None:
    table = Table(
        "3. L1 with the logistic loss: 20 lambdas from the largest to a hundredth of it",
        ["set", "method", "seconds", "nonzeros at the end", "largest excess over our lower bound"],
    )
    for name in names:
        for method in ("ours", *SPARSE_PEERS):
            outcome = found["sparse", name, method]
            table.row(name, method, *(outcome.value or [outcome.failure, "-", "-"]))


# ----------------------------------------------------------------------------------------------------- certified path


def promise_row(report: Report, name: str, n_rows: int | None, loss: type, epsilon: float) -> list[str]:
    """A certified path from 1e-2 to 1e-6, looked at between its lambdas."""
    warm_up()
    X, y = (part[:n_rows] for part in load(name))
    lams = np.exp(np.random.default_rng(0).uniform(np.log(1e-6), np.log(1e-2), 1000))
    risk = LinearRisk(X, y, loss())
    path, seconds = timed(lambda: regularization_path(risk, [1e-2, 1e-6], epsilon=epsilon))
    nearest = [path.at(lam) for lam in lams]
    proved = np.array([each.gap / each.objective for each in nearest])
    others = regularization_path(risk, lams)  # sorts its lambdas
    bounds = np.interp(lams, others.lams[::-1], others.lower_bounds[::-1])
    values = np.array([L2(lam).value(each.w) + risk.value(each.w) for lam, each in zip(lams, nearest, strict=True)])
    off = (values - bounds) / values
    broken = np.count_nonzero(np.maximum(proved, off - GAP) > epsilon * (1.0 + 1e-12))
    return [str(len(path)), f"{seconds:.2f}", f"{proved.max():.2e}", f"{off.max():.2e}", str(broken)]


def table_promise(found: dict[tuple[Any, ...], Outcome], name: str) -> None:
    table = Table(
        f"4. The certified path of {name} at 1000 random lambdas from 1e-2 to 1e-6",
        ["loss", "epsilon", "lambdas", "seconds", "largest proved gap", "largest excess over the bounds of "
         "fits at these lambdas", "promises broken"],
    )  # fmt: skip
    for loss in (Hinge, Logistic):
        for epsilon in (0.05, 0.01):
            outcome = found["promise", loss.__name__, epsilon]
            table.row(loss.__name__, epsilon, *(outcome.value or [outcome.failure, *["-"] * 4]))


# --------------------------------------------------------------------------------------------------------------- main


def own_jobs(args: argparse.Namespace, names: Sequence[str], n_rows: int | None) -> list[Job]:
    """Our cross-validations, which set the limits of the others."""
    if 2 not in args.tables:
        return []
    own = [(name, method) for name in names for method, (_, our) in METHODS.items() if method == our]
    return longest_first(
        Job(
            ("choice", *pair),
            METHODS[pair[1]][0],
            (pair[0], choice_rows(pair[0], n_rows), args.max_seconds),
            args.limit,
        )
        for pair in own
    )


def other_jobs(
    args: argparse.Namespace, names: Sequence[str], n_rows: int | None, own: dict[tuple[Any, ...], Outcome]
) -> list[Job]:
    """Every other row of the tables; a rival may take ``RIVAL`` times as long as our search."""
    jobs, limit = [], args.limit
    if 1 in args.tables:
        jobs += [Job(("path", name), path_row, (name, n_rows, args.max_seconds), limit) for name in names]
    if 2 in args.tables:
        for name in names:
            for method, (work, our) in METHODS.items():
                settings = (name, choice_rows(name, n_rows))
                if method == our:
                    continue
                if method.startswith("ours"):
                    settings = (*settings, args.max_seconds)
                jobs.append(Job(("choice", name, method), work, settings, rival_limit(own["choice", name, our], limit)))
    if 3 in args.tables:
        pairs = [(name, method) for name in sparse_names(names) for method in ("ours", *SPARSE_PEERS)]
        jobs += [
            Job(("sparse", *pair), sparse_row, (pair[0], n_rows, pair[1], args.max_seconds), limit) for pair in pairs
        ]
    if 4 in args.tables:
        kinds = [(loss, epsilon) for loss in (Hinge, Logistic) for epsilon in (0.05, 0.01)]
        jobs += [
            Job(("promise", loss.__name__, e), promise_row, (names[0], n_rows, loss, e), limit) for loss, e in kinds
        ]
    return longest_first(jobs)


def choice_rows(name: str, n_rows: int | None) -> int | None:
    return n_rows or CHOICE_ROWS.get(name)


def rival_limit(ours: Outcome, limit: float) -> float:
    return min(limit, max(RIVAL * ours.value.seconds, LEAST_LIMIT)) if ours.is_done else limit


def longest_first(jobs: Iterable[Job]) -> list[Job]:
    return sorted(jobs, key=lambda job: LONGEST.index(job.key[1]) if job.key[1] in LONGEST else len(LONGEST))


def sparse_names(names: Sequence[str]) -> list[str]:
    return [name for name in names if name in SPARSE_SETS]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help=f"the first {QUICK_ROWS} samples of a9a and ijcnn1")
    parser.add_argument("--sets", nargs="*", default=list(SETS), choices=SETS, metavar="SET", help="of all")
    parser.add_argument("--tables", nargs="*", type=int, default=[1, 2, 3, 4], choices=[1, 2, 3, 4], metavar="NUMBER")
    parser.add_argument("--processes", type=int, default=1, metavar="N", help="rows at a time, each with one thread")
    parser.add_argument("--limit", type=float, default=240.0, help="seconds of one row")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="of the whole, without the first lines")
    parser.add_argument("--max-seconds", type=float, default=60.0, help="of every fit of ours")
    args = parser.parse_args()
    n_rows = QUICK_ROWS if args.quick else None
    names = on_this_machine(QUICK_SETS if args.quick else args.sets)
    if not names:
        print(f"{Path(__file__).name} skipped: no data")
        return 1
    warnings.simplefilter("ignore", ConvergenceWarning)
    print_machine()
    warm_up()
    end = time.time() + 60.0 * args.minutes
    own = run_jobs(own_jobs(args, names, n_rows), args.processes, end)
    found = own | run_jobs(other_jobs(args, names, n_rows, own), args.processes, end)
    if 1 in args.tables:
        table_paths(found, names)
    if 2 in args.tables:
        table_choice(found, names)
    if 3 in args.tables and sparse_names(names):
        table_sparse(found, sparse_names(names))
    if 4 in args.tables:
        table_promise(found, names[0])
    return 0


if __name__ == "__main__":
    sys.exit(main())
