"""The jobs of ``peers.py``: which problems are raced, and their data.

A job is a loss, a penalty, with or without intercept, a set, one of six lambdas and an accuracy.  There are some five
thousand that make sense; ``covering`` selects few of them in which every pair of values occurs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass
from functools import lru_cache
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.feature_extraction.text import TfidfTransformer

from common import DataMissing, data_file, data_path, load
from peers_found import FINDERS
from peers_made_up import MAKERS, made_up
from undercut import (
    L1,
    L2,
    Absolute,
    ElasticNet,
    EpsilonInsensitive,
    Hinge,
    Huber,
    LinearRisk,
    Logistic,
    MulticlassRisk,
    Poisson,
    Quantile,
    Squared,
    SquaredHinge,
)
from undercut.io import load_svmlight
from undercut.losses import CrammerSinger, Softmax

EPSILON, QUANTILE, WIDTH = 0.1, 0.9, 1.35
L1_RATIO = 0.5
LOSSES = {
    "hinge": Hinge(),
    "squared hinge": SquaredHinge(),
    "logistic": Logistic(),
    "softmax": Softmax(),
    "Crammer-Singer": CrammerSinger(),
    "squared": Squared(),
    "epsilon-insensitive": EpsilonInsensitive(EPSILON),
    "absolute": Absolute(),
    "quantile": Quantile(QUANTILE),
    "Huber": Huber(WIDTH),
    "Poisson": Poisson(),
}
PENALTIES = ("L2", "L1", "elastic net")
L2_LAMBDAS = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7)
L1_SHARES = (0.5, 0.1, 0.03, 0.01, 0.003, 0.001)  # of the smallest lambda at which w = 0 is optimal
LEVELS = range(len(L2_LAMBDAS))
GAPS = (1e-3, 1e-6)

TARGETS = {"softmax": "classes", "Crammer-Singer": "classes", "Poisson": "counts"}
TARGETS |= dict.fromkeys(("hinge", "squared hinge", "logistic"), "signs")
BINARY_SETS = ("rcv1-sample", "20news", "a9a", "w8a", "ijcnn1", "connect-4", "mnist", "covtype", "wide", "tall")
REGRESSION = {"cadata": "cadata.gz", "abalone": "abalone_scale.gz", "bike_hour": "bike_hour.gz"}
SETS_OF = {
    "signs": BINARY_SETS,
    "classes": ("20news", "connect-4", "mnist", "wide", "tall"),
    "numbers": (*REGRESSION, "wide", "tall"),
    "counts": ("abalone", "bike_hour", "wide", "tall"),
}
NEWS_FILE = Path("text", "20news-bydate.bz2")


@dataclass(frozen=True)
class Job:
    """One problem and the accuracy that is asked for."""

    loss: str
    penalty: str
    intercept: bool
    set: str
    level: int  # of lambda, from strong to weak
    gap: float
    seed: int = 0  # of a made-up set

    @property
    def name(self) -> str:
        kind = "intercept" if self.intercept else "no intercept"
        return f"{self.loss}/{self.penalty}/{kind}/{self.set}/{self.level + 1}/{self.gap:.0e}"

    @property
    def targets(self) -> str:
        """What y holds: signs, classes, numbers or counts."""
        return TARGETS.get(self.loss, "numbers")


@dataclass(frozen=True)
class Problem:
    """The data of a job; ``seconds`` is the time limit for methods that accept one."""

    X: Any
    y: np.ndarray
    lam: float
    intercept: bool
    seconds: float

    @property
    def C(self) -> float:
        """LIBLINEAR's weight of the sum of losses."""
        return 1.0 / (self.y.size * self.lam)


# ---------------------------------------------------------------------------------------------------------- selection


def all_jobs(sets_of: Mapping[str, Sequence[str]] = SETS_OF, seed: int = 0) -> list[Job]:
    """Every combination that makes sense; ``sets_of`` lists the sets with signs, classes, numbers and counts."""
    return [
        Job(loss, penalty, intercept, name, level, gap, seed)
        for loss in LOSSES
        for name in sets_of[TARGETS.get(loss, "numbers")]
        for penalty, intercept, level, gap in product(PENALTIES, (False, True), LEVELS, GAPS)
    ]


def covering(jobs: Sequence[Job], count: int, orders: tuple[int, ...] = (2, 3), seed: int = 0) -> list[Job]:
    """``count`` jobs, each the one with the most combinations of values that the earlier ones lack.

    Combinations of ``orders[0]`` values come first; those of the next order decide between jobs with as many, and the
    seed between what is left.
    """
    jobs = [jobs[at] for at in np.random.default_rng(seed).permutation(len(jobs))]
    tables = [_combinations(jobs, order) for order in orders]
    missing = [np.ones(table.max() + 1) for table in tables]
    chosen = []
    for _ in range(min(count, len(jobs))):
        gains = [left[table].sum(axis=1) for left, table in zip(missing, tables, strict=True)]
        gains[0][chosen] = -1.0
        best = int(np.lexsort(gains[::-1])[-1])
        chosen.append(best)
        for left, table in zip(missing, tables, strict=True):
            left[table[best]] = 0.0
    return sorted((jobs[at] for at in chosen), key=lambda job: (job.set, job.targets, job.name))


def _combinations(jobs: Iterable[Job], order: int) -> np.ndarray:
    """One row per job: the numbers of its combinations of ``order`` values; all have the same seed."""
    numbers: dict[object, int] = {}
    values = [astuple(job)[:-1] for job in jobs]
    return np.array(
        [[numbers.setdefault(part, len(numbers)) for part in combinations(enumerate(row), order)] for row in values]
    )


# --------------------------------------------------------------------------------------------------------------- data


@lru_cache(maxsize=1)
def data(name: str, targets: str, seed: int = 0) -> tuple[Any, np.ndarray]:
    """The samples of a set and its targets; ``DataMissing`` where the file is not here."""
    if name in MAKERS:
        return made_up(name, targets, seed)
    if name in FINDERS:
        X, found = FINDERS[name]()
        return X, found[targets]
    if name in REGRESSION:
        return _regression(name, targets)
    if name == "20news":
        X, y, _ = load_svmlight(data_file(NEWS_FILE))
        X = TfidfTransformer(sublinear_tf=True).fit_transform(X)
        return X, (y.astype(int) if targets == "classes" else np.where(y == y.max(), 1.0, -1.0))
    if targets == "classes":
        X, y, _ = load_svmlight(data_path(name))
        return X, np.unique(y, return_inverse=True)[1]
    return load(name)


def _regression(name: str, targets: str) -> tuple[np.ndarray, np.ndarray]:
    """Dense features of mean 0 and variance 1; numbers likewise, counts divided by their mean."""
    X, y, _ = load_svmlight(data_file(Path("regression", REGRESSION[name])))
    X = X.toarray()
    spread = X.std(axis=0)
    X = (X - X.mean(axis=0)) / np.where(spread > 0.0, spread, 1.0)
    return X, (y / y.mean() if targets == "counts" else (y - y.mean()) / y.std())


def available(jobs: Sequence[Job]) -> list[Job]:
    """The jobs whose data are here; a line for each set that is not."""
    missing = {}
    for name in dict.fromkeys(job.set for job in jobs):
        try:
            _check_file(name)
        except DataMissing as reason:
            missing[name] = reason
            print(f"{name} skipped: {reason}")
    return [job for job in jobs if job.set not in missing]


def _check_file(name: str) -> None:
    if name in REGRESSION:
        data_file(Path("regression", REGRESSION[name]))
    elif name == "20news":
        data_file(NEWS_FILE)
    elif name not in MAKERS and name not in FINDERS:
        data_path(name)


# -------------------------------------------------------------------------------------------------------- our problem


def risk_of(job: Job, X: Any, y: np.ndarray) -> LinearRisk | MulticlassRisk:
    kind = MulticlassRisk if job.targets == "classes" else LinearRisk
    return kind(X, y, LOSSES[job.loss], fit_intercept=job.intercept)


def regularizer(penalty: str, lam: float) -> L1 | L2 | ElasticNet:
    return {"L2": L2, "L1": L1, "elastic net": ElasticNet}[penalty](lam)


def lam_of(job: Job, risk: LinearRisk | MulticlassRisk) -> float:
    """The lambda of the job's level, two digits of it."""
    if job.penalty == "L2":
        return L2_LAMBDAS[job.level]
    slope = np.abs(risk.cut(np.zeros(risk.n_params)).a).max()
    ratio = 1.0 if job.penalty == "L1" else L1_RATIO
    return float(f"{L1_SHARES[job.level] * slope / ratio:.1e}")
