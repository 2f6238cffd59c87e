"""The everyday ground: ours to a certified gap beside every package that solves the same problem.

    python benchmarks/peers.py                 # some 150 jobs, at most two hours
    python benchmarks/peers.py --quick         # 20 jobs, at most ten minutes
    python benchmarks/peers.py --processes 12  # as many jobs at a time, for a machine with more idle cores than that
    python benchmarks/peers.py --jobs 'hinge/L2/no intercept/rcv1'
    python benchmarks/peers.py --made-up       # 150 jobs on other, made-up sets
    python benchmarks/peers.py --found         # 150 jobs on real sets that come with Python and its packages
    python benchmarks/peers.py --seed 1        # another selection of jobs, other draws of made-up sets

A job is named loss/penalty/intercept/set/level of lambda/gap.  The selection is fixed by the seed, and every pair
of values that makes sense occurs in it.  Under L2 the levels are lambda = 1e-2 ... 1e-7; under L1 and the elastic net
they are 1/2 ... 1/1000 of the smallest lambda at which w = 0 is optimal.

We stop at a certified relative gap.  A peer arrives when its objective, evaluated by us at the best intercept, is
within the same gap of our lower bound (or, where we end without a certificate, at our objective).  Peers cannot be
stopped there, so each runs from scratch with growing numbers of iterations, and its time is that of the cheapest run
that arrives.  Each has ten times our time, less where that is more than ``--seconds`` (but at least 1.5 times our
time), and not more than the best peer before it.  Times are medians of five runs, of three from 0.5 s on, single from
3 s on; ours include building the risk but not compilation.  Ratio: the best peer's time over ours; a job is open where
neither we nor a peer arrives in time.
"""

from __future__ import annotations

import argparse
import re
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import groupby
from multiprocessing import get_context
from typing import Any

import numba
import numpy as np
import scipy.sparse as sp
from threadpoolctl import threadpool_limits

from common import Table, print_machine
from linear import PATIENCE, Fit, race
from peers_found import SETS_OF as FOUND_SETS_OF
from peers_jobs import (
    L1_SHARES,
    L2_LAMBDAS,
    SETS_OF,
    Job,
    Problem,
    all_jobs,
    available,
    covering,
    data,
    lam_of,
    regularizer,
    risk_of,
)
from peers_made_up import SETS_OF as MADE_UP_SETS_OF
from peers_rivals import SKIPPED, Rival, fit, rivals
from undercut import Result, Stop, minimize

N_JOBS, N_QUICK = 150, 20
SECONDS, QUICK_SECONDS = 10.0, 5.0  # for one run of ours
MINUTES, QUICK_MINUTES = 120.0, 10.0  # for all jobs; those that are left are named
LEAST_PATIENCE = 1.5
WON, EVEN = 1.25, 0.8
VERDICTS = ("won", "even", "lost", "open", "no peer")
WARM_UP_SECONDS = 5.0
PART = 4  # jobs that a process takes at a time


@dataclass(frozen=True)
class Outcome:
    """What a job showed; ``ratio`` is a lower bound where no peer arrived."""

    job: Job
    certified: bool
    ratio: float | None = None
    arrived: bool = False

    @property
    def verdict(self) -> str:
        if self.ratio is None:
            return "no peer"
        if self.ratio < EVEN:
            return "lost"
        if not self.certified:
            return "open"
        return "won" if self.ratio > WON else "even"


@dataclass(frozen=True)
class Best:
    """The fastest peer so far."""

    name: str = "none arrives"
    seconds: float = float("inf")


def median_time(first: float, again: Callable[[], float]) -> float:
    repeats = 5 if first < 0.5 else 3 if first < 3.0 else 1
    return statistics.median([first, *[again() for _ in range(repeats - 1)]])


TITLES = [
    "loss", "penalty", "intercept", "set", "lambda", "gap asked", "our seconds", "our gap", "status", "certified",
    "best peer", "its seconds", "ratio", "",
]  # fmt: skip


class Bench:
    """Runs jobs, and tells the outcome and the row of the table."""

    def __init__(self, solver: str, seconds: float) -> None:
        self.solver, self.seconds = solver, seconds
        self.compiled: set[tuple[object, ...]] = set()
        self.failures: dict[str, str] = {}

    def run(self, job: Job) -> tuple[Outcome, list[str]]:
        X, y = data(job.set, job.targets, job.seed)
        risk = risk_of(job, X, y)
        lam = lam_of(job, risk)
        result, ours = self._ours(job, X, y, lam)
        certified = result.certificate == "global" and result.status.name == "CONVERGED"
        reg = regularizer(job.penalty, lam)
        goal = result.objective
        if certified:
            goal = max(goal, result.lower_bound + job.gap * abs(result.objective))

        def excess(w: np.ndarray) -> float:
            return (reg.value(w) + risk.cut(w).value - goal) / abs(goal)

        patience = min(PATIENCE, max(LEAST_PATIENCE, self.seconds / ours))
        problem = Problem(X, y, lam, job.intercept, patience * ours)
        best = self._fastest(job, problem, excess, ours, patience)
        outcome = self._outcome(job, certified, best, ours, patience)
        return outcome, self._row(outcome, lam, result, ours, best)

    def _ours(self, job: Job, X: Any, y: np.ndarray, lam: float) -> tuple[Result, float]:
        def once(limit: float) -> tuple[Result, float]:
            began = time.perf_counter()
            stop = Stop(gap_rel=job.gap, max_seconds=limit)
            result = minimize(risk_of(job, X, y), regularizer(job.penalty, lam), self.solver, stop=stop)
            return result, time.perf_counter() - began

        once(min(WARM_UP_SECONDS, self.seconds))
        result, first = once(self.seconds)
        return result, median_time(first, lambda: once(self.seconds)[1])

    def _fastest(
        self, job: Job, problem: Problem, excess: Callable[[np.ndarray], float], ours: float, patience: float
    ) -> Best | None:
        """Race the peers one after the other; ``None`` where there are none."""
        best = None
        for rival in rivals(job):
            if rival.name in SKIPPED:
                continue
            allowed = patience if best is None else min(patience, best.seconds / ours)
            try:
                self._compile(rival, job, problem)
                seconds = self._time(rival, problem, excess, ours, allowed)
            except Exception as error:  # whatever another package raises must not end the benchmark
                self.failures[f"{rival.name} on {job.name}"] = f"{type(error).__name__}: {error}"
                continue
            best = min(best or Best(), Best(rival.name, seconds), key=lambda peer: peer.seconds)
        return best

    def _compile(self, rival: Rival, job: Job, problem: Problem) -> None:
        """A first run of packages that compile."""
        key = (rival.name, job.loss, job.penalty, sp.issparse(problem.X))
        if rival.compiles and key not in self.compiled:
            fit(rival, problem, 1, lambda w: 0.0)
            self.compiled.add(key)

    @staticmethod
    def _time(
        rival: Rival, problem: Problem, excess: Callable[[np.ndarray], float], ours: float, patience: float
    ) -> float:
        """The time a peer takes to arrive; infinite where it does not."""

        def attempt(iterations: int) -> Fit:
            return fit(rival, problem, iterations, excess)

        found = race(attempt, ours, 1, patience)
        if not found.is_reached:
            return float("inf")
        return median_time(found.fit.seconds, lambda: attempt(found.fit.max_iter).seconds)

    @staticmethod
    def _outcome(job: Job, certified: bool, best: Best | None, ours: float, patience: float) -> Outcome:
        if best is None:
            return Outcome(job, certified)
        arrived = best.seconds < float("inf")
        return Outcome(job, certified, best.seconds / ours if arrived else patience, arrived)

    @staticmethod
    def _row(outcome: Outcome, lam: float, result: Result, ours: float, best: Best | None) -> list[str]:
        job = outcome.job
        peer = ("-", "-", "-") if best is None else (best.name, *_times(outcome, best))
        return [
            job.loss, job.penalty, "yes" if job.intercept else "no", job.set, f"{lam:.1e}", f"{job.gap:.0e}",
            f"{ours:.3g}", f"{result.gap / abs(result.objective):.1e}", result.status.name,
            "yes" if outcome.certified else "NO", *peer, outcome.verdict,
        ]  # fmt: skip


def _times(outcome: Outcome, best: Best) -> tuple[str, str]:
    if outcome.arrived:
        return f"{best.seconds:.3g}", f"{outcome.ratio:.2g}"
    return f"not in {outcome.ratio:.2g}x", f"> {outcome.ratio:.2g}"


# ------------------------------------------------------------------------------------------------------------ summary


def summarize(outcomes: Sequence[Outcome]) -> None:
    levels = [f"{lam:.0e}, or {share:g} of the largest" for lam, share in zip(L2_LAMBDAS, L1_SHARES, strict=True)]
    columns: dict[str, Callable[[Job], object]] = {
        "all": lambda job: "",
        "loss": lambda job: job.loss,
        "penalty": lambda job: job.penalty,
        "intercept": lambda job: "yes" if job.intercept else "no",
        "set": lambda job: job.set,
        "lambda": lambda job: levels[job.level],
        "gap": lambda job: f"{job.gap:.0e}",
    }
    titles = ["column", "value", "jobs", *VERDICTS, "not certified", "worst ratio"]
    table = Table(f"Summary: won above {WON}, even from {EVEN}", titles)
    for name, value in columns.items():
        for which in dict.fromkeys(sorted((value(outcome.job) for outcome in outcomes), key=str)):
            part = [outcome for outcome in outcomes if value(outcome.job) == which]
            verdicts = [outcome.verdict for outcome in part]
            ratios = [outcome.ratio for outcome in part if outcome.ratio is not None]
            counts = [verdicts.count(verdict) for verdict in VERDICTS]
            uncertified = sum(not outcome.certified for outcome in part)
            table.row(name, which, len(part), *counts, uncertified, f"{min(ratios):.2g}" if ratios else "-")


# --------------------------------------------------------------------------------------------------------------- main


def quick(jobs: Sequence[Job]) -> list[Job]:
    """The few that show most, with a peer."""
    return covering([job for job in jobs if rivals(job)], N_QUICK, orders=(1, 2))


@dataclass(frozen=True)
class Part:
    """Jobs on one set for one process, none of which begins after ``end``."""

    jobs: Sequence[Job]
    solver: str
    seconds: float
    end: float  # of the clock that all processes share

    def run(self) -> tuple[list[tuple[Outcome, list[str]]], dict[str, str]]:
        numba.set_num_threads(1)
        with threadpool_limits(1):
            bench = Bench(self.solver, self.seconds)
            return list(run_some(bench, self.jobs, self.end)), bench.failures


def run_some(bench: Bench, jobs: Sequence[Job], end: float) -> Iterator[tuple[Outcome, list[str]]]:
    for job in jobs:
        if time.time() > end:
            return
        yield bench.run(job)


def run_apart(bench: Bench, jobs: Sequence[Job], end: float, n_processes: int) -> Iterator[tuple[Outcome, list[str]]]:
    """The same in several processes; each part reads its set anew."""
    sets = groupby(sorted(jobs, key=lambda job: (job.set, job.targets)), key=lambda job: (job.set, job.targets))
    parts = [group[at : at + PART] for group in (list(group) for _, group in sets) for at in range(0, len(group), PART)]
    with ProcessPoolExecutor(n_processes, mp_context=get_context("spawn")) as pool:
        tasks = [Part(part, bench.solver, bench.seconds, end) for part in parts]
        for found, failures in pool.map(Part.run, tasks):
            bench.failures |= failures
            yield from found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help=f"{N_QUICK} jobs, {QUICK_SECONDS:g} s for ours")
    parser.add_argument("--jobs", default="", metavar="PATTERN", help="regular expression that the names must contain")
    sets = parser.add_mutually_exclusive_group()
    sets.add_argument(
        "--made-up", dest="sets_of", action="store_const", const=MADE_UP_SETS_OF, default=SETS_OF,
        help="other sets, all made up",
    )  # fmt: skip
    sets.add_argument(
        "--found", dest="sets_of", action="store_const", const=FOUND_SETS_OF, default=SETS_OF,
        help="other sets, those that come with Python and its packages",
    )  # fmt: skip
    parser.add_argument("--seed", type=int, default=0, help="of the selection and of made-up sets")
    parser.add_argument("--all-jobs", action="store_true", help="choose from every job that makes sense")
    parser.add_argument("--seconds", type=float, metavar="LIMIT", help="for one run of ours")
    parser.add_argument("--minutes", type=float, metavar="LIMIT", help="no job begins later")
    parser.add_argument(
        "--threads", choices=("1", "all"), default="1", help="all is for a machine with idle cores only"
    )
    parser.add_argument("--processes", type=int, default=1, metavar="N", help="jobs at a time, each with one thread")
    parser.add_argument("--solver", default="auto", help="of ours, by name")
    parser.add_argument("--list", action="store_true", help="print the names of the jobs and end")
    args = parser.parse_args()
    jobs = all_jobs(args.sets_of, args.seed)
    jobs = jobs if args.all_jobs else covering(jobs, N_JOBS, seed=args.seed)
    jobs = [job for job in (quick(jobs) if args.quick else jobs) if re.search(args.jobs, job.name)]
    if not jobs:
        parser.error(f"--jobs must match the name of a job (--list prints them); got {args.jobs}")
    if args.list:
        print("\n".join(job.name for job in jobs))
        return
    if args.threads == "1":
        numba.set_num_threads(1)
    with threadpool_limits(1 if args.threads == "1" else None):
        print_machine()
        for name in SKIPPED:
            print(f"{name} skipped: not installed")
        here = available(jobs)
        seconds, minutes = (QUICK_SECONDS, QUICK_MINUTES) if args.quick else (SECONDS, MINUTES)
        bench, end = Bench(args.solver, args.seconds or seconds), time.time() + 60.0 * (args.minutes or minutes)
        table = Table(f"Ours ({bench.solver}) beside peers, at most {bench.seconds:g} s for ours", TITLES)
        apart = args.processes > 1
        found = run_apart(bench, here, end, args.processes) if apart else run_some(bench, here, end)
        outcomes = []
        for outcome, row in found:
            table.row(*row)
            outcomes.append(outcome)
    summarize(outcomes)
    for what, error in bench.failures.items():
        print(f"\nfailed: {what}: {error}")
    begun = {outcome.job for outcome in outcomes}
    if left := [job.name for job in here if job not in begun]:
        print(f"\n{len(left)} jobs did not begin in time: {', '.join(left)}")


if __name__ == "__main__":
    main()
