"""What a step costs on 1000 workers with 1e11 rows: a model, a simulation of it, and a cluster with injected delays.

    step = rounds x (dispatch + stragglers' share) + broadcast of w + compute + reduction of (value, subgradient)

The model is a handful of formulas; the simulation follows every message of every worker; the measurement runs a real
``LocalCluster`` whose partitions sleep.  ``docs/thousand-workers.md`` holds what this script prints:

    python benchmarks/thousand_workers.py            # the tables of the page, without the measurement
    python benchmarks/thousand_workers.py --measure  # the seconds of a task of the scheduler, and injected delays
    python benchmarks/thousand_workers.py --write    # put the tables into the page
"""

from __future__ import annotations

import argparse
import math
import re
import sys
import time
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import NormalDist, median
from typing import Any

import numpy as np

PAGE = Path(__file__).parent.parent / "docs" / "thousand-workers.md"
BLOCK = re.compile(r"<!-- printed by thousand_workers -->\n(.*?)<!-- end -->", re.DOTALL)
STEPS = 60  # of a simulation
SEED = 0


@dataclass(frozen=True)
class Setting:
    """A cluster, a problem and how even the workers are."""

    n_workers: int = 1000
    n_rows: float = 1e11
    entries: int = 50  # stored in a row
    n_params: int = 1_000_000
    rate: float = 2.5e8  # entries that a worker multiplies in a second, for X w and X' g together
    bandwidth: float = 1.25e9  # bytes a second into a worker: 10 Gbit/s
    latency: float = 5e-4  # of a message, the software included
    task: float = 1e-3  # of the scheduler, for each task, one after another; measured
    fan_in: int = 4  # answers that one task of the reduction adds up
    vector_rounds: int = 2  # of a step, whose questions or answers are vectors: the direction, and the plane
    small_rounds: int = 3  # of a step, with a few numbers: trial points and values of the line search
    small_share: float = 0.02  # of the time of an evaluation: a pass over the scores in place of one over X
    spread: float = 0.05  # standard deviation of the logarithm of a worker's time
    slow: float = 0.0  # probability that a worker is late in a round
    late: float = 10.0  # seconds it is late by

    @property
    def compute(self) -> float:
        """Seconds of a value and a subgradient on a worker of average speed."""
        return self.n_rows / self.n_workers * self.entries / self.rate

    @property
    def vector(self) -> float:
        """Seconds to receive a vector of the size of the parameters."""
        return 8.0 * self.n_params / self.bandwidth + self.latency

    @property
    def levels(self) -> list[int]:
        """Tasks of each level of the reduction."""
        levels, n = [], self.n_workers
        while n > self.fan_in:
            n = -(-n // self.fan_in)
            levels.append(n)
        return levels


# The model


def slowest(setting: Setting, seconds: float) -> float:
    """The expected time of the slowest worker: the largest of n, at the quantile ``1 - 0.56 / n`` (Blom).

    With late workers: ``late`` seconds more with the probability that any is.
    """
    z = NormalDist().inv_cdf(1.0 - 0.56146 / setting.n_workers) if setting.n_workers > 1 else 0.0
    any_late = 1.0 - (1.0 - setting.slow) ** setting.n_workers
    return seconds * math.exp(setting.spread * z) + setting.late * any_late


def dispatch(setting: Setting, seconds: float) -> float:
    """The scheduler's time for the tasks of a round: one per worker, and those of the reduction beyond the work."""
    return setting.n_workers * setting.task + max(0.0, sum(setting.levels) * setting.task - seconds)


def broadcast(setting: Setting) -> float:
    """Workers that hold the vector pass it on: their number doubles with every transfer."""
    return math.ceil(math.log2(setting.n_workers + 1)) * setting.vector


def reduction(setting: Setting, vector: float) -> float:
    """Every level receives ``fan_in`` answers one after another, the client the last ones."""
    return (len(setting.levels) + 1) * setting.fan_in * vector + len(setting.levels) * setting.task


def step(setting: Setting) -> dict[str, float]:
    """The parts of a step in seconds."""
    rounds = setting.vector_rounds + setting.small_rounds
    half, small = setting.compute / setting.vector_rounds, setting.small_share * setting.compute
    work = setting.vector_rounds * slowest(setting, half)
    work += setting.small_rounds * slowest(setting, small)
    return {
        "computing": setting.compute + setting.small_rounds * small,
        "waiting for the slowest": work - setting.compute - setting.small_rounds * small,
        "dispatch": setting.vector_rounds * dispatch(setting, half) + setting.small_rounds * dispatch(setting, small),
        "broadcast": broadcast(setting),
        "reduction": reduction(setting, setting.vector) + (rounds - 1) * reduction(setting, setting.latency),
    }


# The simulation


def simulated_round(setting: Setting, rng: Any, seconds: float, *, sends: bool, answers: bool) -> float:
    """One question to all workers: when the client has the sum."""
    n, message = setting.n_workers, setting.latency
    told = setting.task * np.arange(1, n + 1)  # the scheduler starts one task after another
    if sends:
        told = np.maximum(told, _spread(setting, told))
    work = seconds * np.exp(setting.spread * rng.standard_normal(n))
    work += setting.late * (rng.random(n) < setting.slow)
    ready = np.sort(told + message + work)
    vector = setting.vector if answers else message
    free = float(told[-1])  # when the scheduler has time again
    rng.shuffle(ready)
    for _ in setting.levels:
        groups = (ready[at : at + setting.fan_in] for at in range(0, ready.size, setting.fan_in))
        merged = [_received(group, vector) for group in groups]
        for at in np.argsort(merged):
            free = max(free, merged[at]) + setting.task
            merged[at] = free
        ready = np.array(merged)
    return _received(ready, vector)


def _received(ready: Any, vector: float) -> float:
    """When answers have come in over one link, one after another."""
    done = 0.0
    for at in np.sort(ready):
        done = max(done, float(at)) + vector
    return done


def _spread(setting: Setting, told: Any) -> Any:
    """When every worker has the vector: any that has it gives it to one other at a time."""
    waves = np.ceil(np.log2(np.arange(1, setting.n_workers + 1) + 1))
    return told[0] + waves * setting.vector


def simulated(setting: Setting, n_steps: int = STEPS) -> float:
    """The mean time of a step."""
    rng = np.random.default_rng(SEED)
    total = 0.0
    half = setting.compute / setting.vector_rounds
    for _ in range(n_steps):
        total += simulated_round(setting, rng, half, sends=True, answers=False)
        total += simulated_round(setting, rng, half, sends=False, answers=True)
        for _ in range(setting.small_rounds):
            total += simulated_round(setting, rng, setting.small_share * setting.compute, sends=False, answers=False)
    return total / n_steps


# The tables of the page

STEADY = Setting()
CASES = {
    "1000 workers, 1e11 rows, 1e6 features": STEADY,
    "1e4 features": replace(STEADY, n_params=10_000),
    "1e7 features": replace(STEADY, n_params=10_000_000),
    "10 times the workers": replace(STEADY, n_workers=10_000),
    "a tenth of the rows": replace(STEADY, n_rows=1e10),
    "a hundredth of the rows": replace(STEADY, n_rows=1e9),
    "uneven workers, spread 0.2": replace(STEADY, spread=0.2),
    "1 in 1000 is late by 10 s": replace(STEADY, slow=1e-3),
    "1 in 100000 is late by 10 s": replace(STEADY, slow=1e-5),
    "a scheduler five times as fast": replace(STEADY, task=2e-4),
    "100 workers ten times as fast": replace(STEADY, n_workers=100, rate=10 * STEADY.rate),
}


def tables(n_steps: int = STEPS) -> str:
    """Seconds of a step by the model, part by part, and by simulation."""
    names = [*step(STEADY), "sum", "simulated", "efficiency"]
    lines = [f"| case | {' | '.join(names)} |", "| --- |" + " --- |" * len(names)]
    for name, setting in CASES.items():
        parts = step(setting)
        total = sum(parts.values())
        cells = [*parts.values(), total, simulated(setting, n_steps)]
        shown = " | ".join(f"{cell:.2f}" for cell in cells)
        lines.append(f"| {name} | {shown} | {100 * parts['computing'] / total:.0f} % |")
    return "\n".join(lines)


def write(text: str) -> None:
    """Put the tables into the page."""
    block = f"<!-- printed by thousand_workers -->\n\n{text}\n\n<!-- end -->"
    PAGE.write_text(BLOCK.sub(lambda _: block, PAGE.read_text(encoding="utf-8")), encoding="utf-8")


# The measurement


class Sleeper:
    """A risk whose evaluation sleeps: all of it is delay."""

    n_params, n_samples, lower_bound, is_convex = 1000, 1, 0.0, True

    def __init__(self, delays: list[float]) -> None:
        self.delays = delays

    def value(self, w: Any) -> float:
        return 0.0

    def cut(self, w: Any) -> Any:
        from undercut import Cut

        time.sleep(self.delays[int(w[0]) % len(self.delays)])
        return Cut(np.zeros(self.n_params), 0.0, 0.0)


def measure(n_workers: int, n_rounds: int) -> None:
    """Rounds on a real cluster beside what the model expects of the injected delays."""
    from undercut.maps.cluster import Cluster
    from undercut.risks import ShardedRisk

    rng = np.random.default_rng(SEED)
    delays = 0.2 * np.exp(0.2 * rng.standard_normal((n_workers, n_rounds)))
    delays[rng.random(delays.shape) < 0.1] += 0.5
    with Cluster(n_workers) as cluster:
        risk = ShardedRisk.of(cluster.keep([list(map(float, row)) for row in delays]), Sleeper)
        quiet = ShardedRisk.of(cluster.keep([[0.0]] * n_workers), Sleeper)
        w, overheads, seconds = np.zeros(risk.n_params), [], []
        quiet.cut(w)
        for at in range(n_rounds):
            began = time.perf_counter()
            quiet.cut(w)
            overheads.append(time.perf_counter() - began)
            w[0] = at
            began = time.perf_counter()
            risk.cut(w)
            seconds.append(time.perf_counter() - began)
            w[0] = 0
        task = _task_seconds(cluster.client)
    expected = float(delays.max(axis=0).mean()) + median(overheads)
    print(f"{n_workers} workers, {n_rounds} rounds with injected delays, each {delays.mean():.3f} s on average:")
    print(f"a round took {np.mean(seconds):.3f} s; the slowest delay and a round without delays {expected:.3f} s")
    print(
        f"a round without delays {1e3 * median(overheads):.1f} ms; a task of the scheduler {1e3 * task:.2f} ms of CPU"
    )


def _task_seconds(client: Any, n_tasks: int = 1000) -> float:
    """CPU seconds of client and scheduler, which are this process, for one task."""
    client.gather(client.map(partial(pow, 1), range(100), pure=False))
    began = time.process_time()
    client.gather(client.map(partial(pow, 1), range(n_tasks), pure=False))
    return (time.process_time() - began) / n_tasks


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--measure", action="store_true", help="run a real cluster with injected delays")
    parser.add_argument("--write", action="store_true", help="write the tables into the page")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=20)
    args = parser.parse_args()
    if args.measure:
        measure(args.workers, args.rounds)
        return
    text = tables()
    print(text)
    if args.write:
        write(text)


if __name__ == "__main__":
    sys.exit(main())
