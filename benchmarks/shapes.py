"""Tables of unusual shapes: does ``auto`` certify every loss with every penalty, whatever the features are like?

    python benchmarks/shapes.py
    python benchmarks/shapes.py --sets genes,lags --seconds 10

Eleven losses, with and without intercept, L2 at four lambdas, L1 and the elastic net at three shares of the largest
lambda, each to a relative gap of 1e-4 by ``minimize(risk, reg, "auto")``.  Processor time of one thread, compilation
included.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.random import Generator
from sklearn.preprocessing import PolynomialFeatures
from threadpoolctl import threadpool_limits

from common import Table, print_machine
from undercut import L1, L2, ElasticNet, LinearRisk, MulticlassRisk, Result, Stop, minimize
from undercut.contracts import MarginLoss, Regularizer
from undercut.losses import (
    Absolute,
    CrammerSinger,
    EpsilonInsensitive,
    Hinge,
    Huber,
    Logistic,
    Poisson,
    Quantile,
    Softmax,
    Squared,
    SquaredHinge,
)

GAP = 1e-4
SEED = 7
LAMBDAS, SHARES = (1e-1, 1e-3, 1e-5, 1e-7), (0.3, 0.03, 0.003)
LOSSES = (
    Hinge(), SquaredHinge(), Logistic(), Squared(), Absolute(), Quantile(0.9), EpsilonInsensitive(0.1), Huber(),
    Poisson(), Softmax(), CrammerSinger(),
)  # fmt: skip


def genes(rng: Generator) -> Any:
    """Dense 120 x 8000: some twenty factors that all features share, and noise."""
    return rng.standard_normal((120, 20)) @ rng.standard_normal((20, 8000)) + 2.0 * rng.standard_normal((120, 8000))


def unscaled(rng: Generator) -> Any:
    """5000 x 12: flags, ages, incomes and measurements in units that differ by a factor of 1e8."""
    n = 5000
    usual = [rng.integers(0, 2, n), rng.integers(18, 90, n), np.exp(rng.normal(10.0, 1.2, n)), rng.poisson(3.0, n)]
    units = 10.0 ** rng.integers(-3, 5, 6)
    return np.column_stack([*usual, 1e-3 * rng.standard_normal(n), rng.uniform(0.0, 1e5, n),
                            units * rng.standard_normal((n, 6))])  # fmt: skip


def lags(rng: Generator) -> Any:
    """6000 x 60: the last values of a random walk, which are nearly equal."""
    walk = 0.1 * np.cumsum(rng.standard_normal(6059))
    return np.stack([walk[at : at + 6000] for at in range(60)], axis=1)


def polynomials(rng: Generator) -> Any:
    """4000 x 209: all products of at most four of six features."""
    return PolynomialFeatures(4, include_bias=False).fit_transform(rng.uniform(-1.0, 1.0, (4000, 6)))


def repeated(rng: Generator) -> Any:
    """6000 x 12: forty different rows."""
    return rng.integers(0, 3, (40, 12)).astype(float)[rng.integers(0, 40, 6000)]


def mixed(rng: Generator) -> Any:
    """Sparse 8000 x 3008: rare flags, and eight dense columns."""
    flags = sp.random_array((8000, 3000), density=0.004, rng=rng, format="csr")
    flags.data[:] = 1.0
    return sp.hstack([flags, sp.csr_array(3.0 * rng.standard_normal((8000, 8)))], format="csr")


def counts(rng: Generator) -> Any:
    """Sparse 6000 x 10000: how often words with frequencies of a power law occur, not scaled."""
    columns = np.minimum(rng.zipf(1.4, 360_000) - 1, 9999)
    X = sp.csr_array((np.ones(columns.size), (np.repeat(np.arange(6000), 60), columns)), shape=(6000, 10_000))
    X.sum_duplicates()
    return X


SETS: dict[str, Callable[[Generator], Any]] = {
    made.__name__: made for made in (genes, unscaled, lags, polynomials, repeated, mixed, counts)
}


def targets(rng: Generator, X: Any) -> dict[str, np.ndarray]:
    """Signs, classes, numbers and counts from a random linear model of the columns, each scaled to a size of 1."""
    n, d = X.shape
    sizes = np.sqrt(np.asarray((X.multiply(X) if sp.issparse(X) else X**2).mean(axis=0)).reshape(-1))
    scores = X @ (rng.standard_normal(d) / np.where(sizes > 0.0, sizes, 1.0))
    scores = (scores - scores.mean()) / scores.std()
    return {
        "signs": np.where(scores + 0.5 * rng.standard_normal(n) > np.quantile(scores, 0.7), 1.0, -1.0),
        "classes": np.digitize(scores + 0.3 * rng.standard_normal(n), np.quantile(scores, [0.25, 0.5, 0.75])),
        "numbers": scores + 0.3 * rng.standard_t(3, n),
        "counts": rng.poisson(np.exp(np.clip(0.7 * scores, -3.0, 3.0))).astype(float),
    }


def risk_of(X: Any, y: dict[str, np.ndarray], loss: Any, intercept: bool) -> Any:
    if isinstance(loss, Softmax | CrammerSinger):
        return MulticlassRisk(X, y["classes"], loss, fit_intercept=intercept)
    kind = "counts" if isinstance(loss, Poisson) else "signs" if isinstance(loss, MarginLoss) else "numbers"
    return LinearRisk(X, y[kind], loss, fit_intercept=intercept)


def regularizers(risk: Any) -> Iterator[Regularizer]:
    yield from (L2(lam) for lam in LAMBDAS)
    largest = float(np.abs(risk.cut(np.zeros(risk.n_params)).a).max())
    for share in SHARES:
        yield from (L1(share * largest), ElasticNet(share * largest, 0.5))


@dataclass(frozen=True)
class Outcome:
    job: str
    result: Result
    seconds: float

    @property
    def is_certified(self) -> bool:
        return self.result.status.name == "CONVERGED"


def outcomes(name: str, limit: float) -> tuple[tuple[int, ...], list[Outcome]]:
    """The size of a set, and what every job on it showed."""
    rng = np.random.default_rng(SEED)
    X = SETS[name](rng)
    y, found = targets(rng, X), []
    for loss, intercept in product(LOSSES, (False, True)):
        for reg in regularizers(risk_of(X, y, loss, intercept)):
            began = time.process_time()
            stop = Stop(gap_rel=GAP, max_seconds=limit)
            result = minimize(risk_of(X, y, loss, intercept), reg, "auto", stop=stop)
            seconds = time.process_time() - began
            kind = type(reg).__name__ + (f" {reg.lam:.1e}" if isinstance(reg, L2 | L1 | ElasticNet) else "")
            job = f"{type(loss).__name__}, {kind}{', intercept' if intercept else ''}"
            found.append(Outcome(job, result, seconds))
    return X.shape, found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", default=",".join(SETS), help="some of the sets, separated by commas")
    parser.add_argument("--seconds", type=float, default=5.0, metavar="LIMIT", help="for one run")
    args = parser.parse_args()
    missed: list[tuple[str, Outcome]] = []
    with threadpool_limits(1):
        print_machine()
        titles = ["set", "size", "jobs", "certified", "ms, median", "worst, s", "which"]
        table = Table(f"Certified to {GAP:g} in {args.seconds:g} s", titles)
        for name in args.sets.split(","):
            shape, found = outcomes(name, args.seconds)
            missed += [(name, outcome) for outcome in found if not outcome.is_certified]
            worst = max(found, key=lambda outcome: outcome.seconds)
            median = 1e3 * float(np.median([outcome.seconds for outcome in found]))
            n_certified = sum(outcome.is_certified for outcome in found)
            size = " x ".join(map(str, shape))
            table.row(name, size, len(found), n_certified, f"{median:.1f}", f"{worst.seconds:.2f}", worst.job)
    if missed:
        table = Table("Not certified", ["set", "job", "status", "gap"])
    for name, outcome in missed:
        gap = outcome.result.gap / abs(outcome.result.objective)
        table.row(name, outcome.job, outcome.result.status.name, f"{gap:.1e}")


if __name__ == "__main__":
    main()
