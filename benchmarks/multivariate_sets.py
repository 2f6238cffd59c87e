"""Rare classes to fit, to choose settings by and to test on.

The file of covtype tells only class 2 from the rest, which is not rare: a made-up rare class keeps 3 % of the rows of
class 2 and all others.  Draws of connect-4 are a rare class of their own (10 %).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.feature_extraction.text import TfidfTransformer

from common import DataMissing, data_file
from undercut.io import load_svmlight

N_FIT, N_CHOOSE, N_TEST = 4000, 1500, 10_000  # rows at most


@dataclass(frozen=True)
class DataSet:
    """One class against the rest; the test file has ``.t`` in its name."""

    file: str
    positive: float
    counts: bool = False  # whether the features are raw counts of terms
    is_whole: bool = False  # whether there is no test file
    kept: float = 1.0  # share of the positives that is kept

    @property
    def test_file(self) -> str:
        return self.file.replace(".bz2", ".t.bz2") if self.file.endswith(".bz2") else f"{self.file}.t"


SETS = {
    "a9a": DataSet("libsvm/a9a", 1),
    "w8a": DataSet("libsvm/w8a", 1),
    "rcv1 sample, CCAT": DataSet("text/rcv1-sample.ccat.bz2", 1),
    "20news, talk.religion.misc": DataSet("text/20news-bydate.bz2", 19, counts=True),
    "20news, talk.politics.misc": DataSet("text/20news-bydate.bz2", 18, counts=True),
    "20news, alt.atheism": DataSet("text/20news-bydate.bz2", 0, counts=True),
    "mnist, 8": DataSet("libsvm/mnist.scale.bz2", 8),
    "mnist, 5": DataSet("libsvm/mnist.scale.bz2", 5),
    "connect-4, draw": DataSet("libsvm/connect-4.bz2", 0, is_whole=True),
    "covtype, 3 % of class 2": DataSet("libsvm/covtype.libsvm.binary.scale.bz2", 2, is_whole=True, kept=0.03),
}


class Samples(NamedTuple):
    X: sp.csr_matrix
    y: np.ndarray


class Split(NamedTuple):
    fit: Samples
    choose: Samples
    test: Samples


class Pool(NamedTuple):
    """The rows of a set, drawn from by seed."""

    train: Samples
    test: Samples | None


@cache
def load(name: str) -> Pool:
    which = SETS[name]
    files = [which.file] if which.is_whole else [which.file, which.test_file]
    parts = [load_svmlight(data_file(Path(file))) for file in files]
    width = max(part.X.shape[1] for part in parts)
    Xs = [sp.csr_matrix((p.X.data, p.X.indices, p.X.indptr), (p.X.shape[0], width)) for p in parts]
    if which.counts:
        weigh = TfidfTransformer(sublinear_tf=True).fit(Xs[0])
        Xs = [weigh.transform(X) for X in Xs]
    samples = [Samples(X, np.where(part.y == which.positive, 1.0, -1.0)) for X, part in zip(Xs, parts, strict=True)]
    kept = np.random.default_rng(0).random(samples[0].y.size) < np.where(samples[0].y > 0.0, which.kept, 1.0)
    return Pool(Samples(samples[0].X[kept], samples[0].y[kept]), None if which.is_whole else samples[1])


def split(name: str, seed: int) -> Split:
    """Rows to fit on, rows to choose by and rows to test on."""
    train, test = load(name)
    rng = np.random.default_rng(seed)
    rows = rng.permutation(train.y.size)
    n_choose = min(N_CHOOSE, train.y.size // 4)
    parts = rows[n_choose : n_choose + N_FIT], rows[:n_choose]
    if test is None:
        return Split(*[taken(train, part) for part in (*parts, rows[n_choose + N_FIT :][:N_TEST])])
    return Split(*[taken(train, part) for part in parts], taken(test, rng.permutation(test.y.size)[:N_TEST]))


def taken(samples: Samples, rows: np.ndarray) -> Samples:
    return Samples(samples.X[rows], samples.y[rows])


def available(names: Sequence[str]) -> list[str]:
    """The sets that are here; a line for each that is not."""
    found = []
    for name in names:
        try:
            data_file(Path(SETS[name].file))
            found.append(name)
        except DataMissing as reason:
            print(f"{name} skipped: {reason}")
    return found
