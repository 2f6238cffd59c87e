"""Queries to train on, to choose settings by and to test on: LETOR collections, made-up ones, newsgroups as queries.

No constant of the library was chosen on them, except that an earlier form of the structured NDCG hinge was looked at on
fold 1 of MQ2008.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.feature_extraction.text import TfidfTransformer

from common import data_file
from undercut.io import load_svmlight

N_FOLDS = 5
N_FEATURES = 20
TOTAL = {8: 3200, 30: 3600, 150: 6000, 1000: 16000}  # documents of a made-up collection to train on, by query size
NOISE = 2.0
N_NEWSGROUPS = 20
SHARES = {0: 0.7, 1: 0.16, 2: 0.14}  # of the grades


class Documents(NamedTuple):
    X: Any
    y: np.ndarray
    qid: np.ndarray


class Fold(NamedTuple):
    train: Documents
    validation: Documents
    test: Documents


# -------------------------------------------------------------------------------------------------------------- LETOR


@cache
def part(number: int) -> Documents:
    """One of the five parts of MQ2008; ``DataMissing`` names the variable and the file."""
    return letor(Path("letor", "MQ2008", f"S{number + 1}.txt.gz"))


def letor(file: Path, n_features: int = 46) -> Documents:
    X, y, qid = load_svmlight(data_file(file), n_features=n_features)
    return Documents(X.toarray(), y, qid)


def joined(first: int, n: int) -> Documents:
    """n parts of MQ2008 from the first on, in a circle."""
    parts = [part((first + at) % N_FOLDS) for at in range(n)]
    return Documents(*[np.concatenate(columns) for columns in zip(*parts, strict=True)])


def mq2008(number: int) -> Fold:
    return Fold(joined(number, 3), joined(number + 3, 1), joined(number + 4, 1))


def web_sample(number: int) -> Fold:
    """The small web sample: a quarter of the training queries for validation, another one in every fold."""
    train, test = (letor(Path("letor", f"lambdarank.{name}.gz"), 300) for name in ("train", "test"))
    queries = np.random.default_rng(number).permutation(np.unique(train.qid))
    held = np.isin(train.qid, queries[: queries.size // 4])
    return Fold(rows_of(train, ~held), rows_of(train, held), test)


def rows_of(documents: Documents, rows: np.ndarray) -> Documents:
    return Documents(*[column[rows] for column in documents])


# ------------------------------------------------------------------------------------------------------------- made up


def made_up(size: int, seed: int) -> Fold:
    """Queries of one size: a linear merit, a product and noise, graded by its quantiles; features have offsets."""
    rng = np.random.default_rng(1000 + seed)
    w = rng.standard_normal(N_FEATURES) / np.sqrt(N_FEATURES)
    return Fold(*[_drawn(rng, w, size, n) for n in (TOTAL[size], TOTAL[size] // 2, TOTAL[size])])


def _drawn(rng: np.random.Generator, w: np.ndarray, size: int, n: int) -> Documents:
    qid = np.repeat(np.arange(n // size), size)
    X = rng.standard_normal((qid.size, N_FEATURES))
    merit = X @ w + 0.5 * X[:, 0] * X[:, 1] + NOISE * rng.standard_normal(qid.size)
    bounds = np.quantile(merit, np.cumsum(list(SHARES.values()))[:-1])
    X += rng.standard_normal((n // size, N_FEATURES))[qid]  # which compares only within a query
    return Documents(X, np.searchsorted(bounds, merit).astype(float), qid)


# ---------------------------------------------------------------------------------------------------------- newsgroups


@cache
def newsgroups() -> tuple[Any, np.ndarray, Any, np.ndarray]:
    train, test = (
        load_svmlight(data_file(Path("text", f"20news-bydate{t}.bz2")), n_features=61822) for t in ("", ".t")
    )
    weigh = TfidfTransformer(sublinear_tf=True).fit(train.X)
    return weigh.transform(train.X), train.y, weigh.transform(test.X), test.y


def newsgroup_folds(number: int) -> list[Fold]:
    """A class as a query: its documents are relevant, those of all others are not; one model per query."""
    X, y, X_test, y_test = newsgroups()
    held = np.random.default_rng(number).random(y.size) < 0.25

    def query(X: Any, labels: np.ndarray, label: int) -> Documents:
        return Documents(X, (labels == label) * 1.0, np.zeros(labels.size))

    return [
        Fold(query(X[~held], y[~held], label), query(X[held], y[held], label), query(X_test, y_test, label))
        for label in range(N_NEWSGROUPS)
    ]


def alone(make: Callable[[int], Fold]) -> Callable[[int], list[Fold]]:
    """A collection with one model."""
    return lambda number: [make(number)]


NEWSGROUPS = "20 newsgroups"
SETS: dict[str, Callable[[int], list[Fold]]] = {  # the problems of a fold, whose measures are averaged
    "MQ2008": alone(mq2008),
    "web sample": alone(web_sample),
    **{f"made up, {size} documents a query": alone(partial(made_up, size)) for size in TOTAL},
    NEWSGROUPS: newsgroup_folds,
}
