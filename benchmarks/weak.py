"""Very weak regularization: the hinge loss without intercept, certified.

    python benchmarks/weak.py

1. covtype, a few features and many samples: ``auto`` to a fine gap, beside planes to a coarse one.
2. Text: dual sweeps with and without conjugate gradients on the face of the dual, each to a certified 1e-3 or for
   ``SECONDS``.

Times are medians of five runs, of three from 0.5 s on, single from 3 s on; they include building the risk but not
compilation.
"""

from __future__ import annotations

import time
from contextlib import nullcontext
from typing import Any
from unittest.mock import patch

import numba
import numpy as np
from threadpoolctl import threadpool_limits

from common import Table, print_machine
from peers import median_time
from peers_jobs import data
from undercut import L2, Hinge, LinearRisk, LineSearchBundle, Result, Stop, minimize
from undercut.solvers import DualCoordinate
from undercut.solvers.coordinate.dual.pointwise_descent import PointwiseDescent

COARSE, FINE = 1e-3, 1e-6
SECONDS = 120.0
TALL_LAMBDAS = (1e-6, 1e-7, 1e-8)
TEXT_LAMBDAS = (1e-5, 1e-6, 1e-7)
TEXTS = {"rcv1-sample": 0, "20news": 0, "text": 11}  # and the seed of the one that is made up


def timed(X: Any, y: np.ndarray, lam: float, solver: Any, gap: float) -> tuple[Result, float]:
    def once(limit: float = SECONDS) -> tuple[Result, float]:
        began = time.perf_counter()
        result = minimize(LinearRisk(X, y, Hinge()), L2(lam), solver, stop=Stop(gap_rel=gap, max_seconds=limit))
        return result, time.perf_counter() - began

    once(1.0)  # compiles
    result, first = once()
    return result, median_time(first, lambda: once()[1])


def shown(seconds: float, result: Result) -> str:
    return f"{seconds:.3g}" if result.status.name == "CONVERGED" else f"{seconds:.3g}, gap {result.gap:.1e}"


def tall() -> None:
    titles = [
        "lambda",
        f"planes to {COARSE:g}, s",
        f"auto to {COARSE:g}, s",
        f"auto to {FINE:g}, s",
        "its gap",
        "fine / coarse planes",
    ]
    table = Table("1. covtype", titles)
    X, y = data("covtype", "signs", 0)
    for lam in TALL_LAMBDAS:
        planes, its_seconds = timed(X, y, lam, LineSearchBundle(), COARSE)
        coarse, coarse_seconds = timed(X, y, lam, "auto", COARSE)
        fine, fine_seconds = timed(X, y, lam, "auto", FINE)
        gap = f"{fine.gap / fine.objective:.1e}"
        ratio = f"{fine_seconds / its_seconds:.2f}"
        table.row(
            f"{lam:.0e}",
            shown(its_seconds, planes),
            shown(coarse_seconds, coarse),
            shown(fine_seconds, fine),
            gap,
            ratio,
        )


def text() -> None:
    titles = ["set", "lambda", "s", "passes", "sweeps alone, s", "passes", "time / that of sweeps alone"]
    table = Table(f"2. Text, dual sweeps to {COARSE:g}", titles)
    for name, seed in TEXTS.items():
        X, y = data(name, "signs", seed)
        for lam in TEXT_LAMBDAS:
            cells, seconds = [], []
            for steps in (nullcontext(), patch.object(PointwiseDescent, "has_face", False)):
                with steps:
                    result, taken = timed(X, y, lam, DualCoordinate(), COARSE)
                cells += [shown(taken, result), f"{result.trace[-1].n_passes:.0f}"]
                seconds.append(taken)
            table.row(name, f"{lam:.0e}", *cells, f"{seconds[0] / seconds[1]:.2f}")


def main() -> None:
    numba.set_num_threads(1)
    with threadpool_limits(1):
        print_machine()
        tall()
        text()


if __name__ == "__main__":
    main()
