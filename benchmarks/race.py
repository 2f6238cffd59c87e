"""What ``auto`` costs beside the best single solver.

    python benchmarks/race.py                  # some three minutes
    python benchmarks/race.py --jobs hinge

Seconds of processor time on one thread to a certified gap, the least of two or three runs; a solver alone has three
times what ``auto`` took.  The price is the time of ``auto`` over that of the best of three solvers for linear models,
by the clock, and where it is a race also by counts of passes (``deterministic``).
"""

from __future__ import annotations

import argparse
import re
import time
from typing import Any, NamedTuple

import numba
import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import norm
from threadpoolctl import threadpool_limits

from common import Table, print_machine
from peers_jobs import Job, available, data, lam_of, regularizer, risk_of
from undercut import Result, Status, Stop, minimize
from undercut.solvers import DualCoordinate, LineSearchBundle, Race, Relay, TruncatedNewton
from undercut.solvers.auto import resolve
from undercut.solvers.choice.conditions import accepts

SECONDS = 10.0
LIMIT = 3.0  # for a solver alone, in times of auto
SOLVERS = DualCoordinate(), TruncatedNewton(), LineSearchBundle()
REPEATS, SHORT = 3, 0.5  # two runs, and another where they take at most so many seconds
TEXT = "made-up text"
MANY = ("hinge", 2, 1e-3), ("hinge", 4, 1e-3), ("hinge", 3, 1e-6), ("squared hinge", 3, 1e-3), ("logistic", 4, 1e-6)
CLASSES = ("softmax", 3, 1e-3), ("Crammer-Singer", 2, 1e-3)


def jobs() -> list[Job]:
    """Two made-up sets and two real ones, the same losses and lambdas for each; and images."""
    found = [
        Job(loss, "L2", False, name, level, gap)
        for name in (TEXT, "wide", "rcv1-sample", "20news")
        for loss, level, gap in (*MANY, *CLASSES)
        if name != "rcv1-sample" or loss not in ("softmax", "Crammer-Singer")
    ]
    return [*found, Job("logistic", "L2", True, TEXT, 3, 1e-3), Job("squared hinge", "L2", False, "mnist", 1, 1e-3)]


def samples(job: Job) -> tuple[Any, np.ndarray]:
    return text(job.targets) if job.set == TEXT else data(job.set, job.targets)


def text(targets: str) -> tuple[sp.csr_matrix, np.ndarray]:
    """8000 documents of 80 words out of 20000, with Zipf's frequencies; scores of a random model with noise."""
    rng = np.random.default_rng(0)
    n, d, length = 8000, 20000, 80
    frequency = 1.0 / np.arange(1.0, d + 1.0)
    words = rng.choice(d, size=n * length, p=frequency / frequency.sum())
    X = sp.csr_matrix((np.ones(n * length), (np.repeat(np.arange(n), length), words)), shape=(n, d))
    X = X @ sp.diags(1.0 + np.log(n / (1.0 + X.getnnz(axis=0))))
    X = sp.csr_matrix(sp.diags(1.0 / norm(X, axis=1)) @ X)
    scores = X @ rng.standard_normal((d, 10))
    scores = (scores - scores.mean(axis=0)) / scores.std() + 0.7 * rng.standard_normal((n, 10))
    return X, scores.argmax(axis=1) if targets == "classes" else np.where(scores[:, 0] > 0.0, 1.0, -1.0)


class Timed(NamedTuple):
    """The least time of some runs; infinite where they do not arrive."""

    seconds: float
    result: Result


def timed(job: Job, X: Any, y: np.ndarray, solver: Any, limit: float) -> Timed:
    spent = []
    while len(spent) < 2 or (len(spent) < REPEATS and min(spent) <= SHORT):
        began = time.process_time()
        risk = risk_of(job, X, y)
        reg = regularizer(job.penalty, lam_of(job, risk))
        end = began + limit
        late = [lambda progress, end=end: time.process_time() > end]  # a busy machine has less processor time
        result = minimize(risk, reg, solver, stop=Stop(gap_rel=job.gap), callbacks=late)
        spent.append(time.process_time() - began)
    return Timed(min(spent) if result.status is Status.CONVERGED else float("inf"), result)


def run(job: Job, table: Table) -> None:
    X, y = samples(job)
    risk = risk_of(job, X, y)
    reg = regularizer(job.penalty, lam_of(job, risk))
    chosen = resolve("auto", risk, reg)
    solvers = [solver for solver in SOLVERS if accepts(solver, risk, reg)]
    for solver in solvers:  # compilation
        timed(job, X, y, solver, 0.5)
    clock = timed(job, X, y, "auto", SECONDS)
    counts = timed(job, X, y, "deterministic", SECONDS) if isinstance(chosen, Race) else clock
    limit = min(SECONDS, max(LIMIT * clock.seconds, SHORT))
    alone = [timed(job, X, y, solver, limit).seconds for solver in solvers]
    best = min(alone)
    table.row(
        job.loss, "yes" if job.intercept else "no", job.set, f"{lam_of(job, risk):.0e}", f"{job.gap:.0e}",
        ", ".join(f"{solver.name} {_shown(seconds, limit)}" for solver, seconds in zip(solvers, alone, strict=True)),
        _described(chosen), f"{clock.seconds:.3g}", clock.result.detail or "-",
        f"{clock.seconds / best:.2f}", f"{counts.seconds / best:.2f}",
    )  # fmt: skip


def _described(solver: Any) -> str:
    if not isinstance(solver, Race | Relay):
        return str(solver.name)
    return f"{solver.name} of " + ", ".join(each.name for each in solver.candidates)


def _shown(seconds: float, limit: float) -> str:
    return f"{seconds:.3g}" if seconds < float("inf") else f"not in {limit:.2g}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", default="", metavar="PATTERN", help="regular expression that the names must contain")
    pattern = parser.parse_args().jobs
    numba.set_num_threads(1)
    with threadpool_limits(1):
        print_machine()
        table = Table(
            "The price of auto",
            [
                "loss", "intercept", "set", "lambda", "gap", "alone, seconds", "auto takes", "its seconds", "shares",
                "price", "price by counts",
            ],
        )  # fmt: skip
        chosen = [job for job in jobs() if re.search(pattern, job.name)]
        here = {job.set for job in available([job for job in chosen if job.set != TEXT])} | {TEXT}
        for job in chosen:
            if job.set in here:
                run(job, table)


if __name__ == "__main__":
    main()
