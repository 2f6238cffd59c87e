"""The made-up sets of ``peers.py``: features of a kind that occurs, and targets from a random model of them.

``wide`` and ``tall`` belong to the fixed selection; the others are raced with ``--made-up``.  ``RESULTS.md`` says which
constants of the library were chosen after a look at them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.random import Generator

Made = tuple[Any, np.ndarray]  # X; scores of a random model, a column per class

N_CLASSES, MANY_CLASSES = 5, 105
NOISE = 0.5  # standard deviation, in those of the scores


def random_rows(rng: Generator) -> Made:
    """Sparse 2000 x 20000 with 50 random entries a row."""
    X = sp.random(2000, 20000, density=50 / 20000, format="csr", random_state=rng, data_rvs=rng.standard_normal)
    X.data /= np.sqrt(50.0)
    return X, _linear(rng, X, N_CLASSES)


def tall(rng: Generator) -> Made:
    """Dense 100000 x 30, independent features."""
    X = rng.standard_normal((100000, 30))
    return X, _linear(rng, X, N_CLASSES)


def text(rng: Generator, n_documents: int, n_words: int, n_classes: int, length: int = 120) -> Made:
    """Documents of a topic each: word frequencies fall as 1 / rank, topics prefer their own words; unit rows."""
    frequency = 1.0 / (np.arange(n_words) + 10.0)
    topic = rng.integers(n_classes, size=n_documents)
    lengths = 1 + rng.poisson(length * rng.gamma(2.0, 0.5, n_documents))
    rows, words = [], []
    for which in range(n_classes):
        weight = frequency * rng.gamma(0.3, 1.0 / 0.3, n_words)  # uneven: few words tell most
        cumulative = np.cumsum(weight)
        members = np.flatnonzero(topic == which)
        total = int(lengths[members].sum())
        rows.append(np.repeat(members, lengths[members]))
        words.append(np.searchsorted(cumulative, rng.random(total) * cumulative[-1]))
    counts = sp.csr_matrix(
        (np.ones(sum(map(len, rows))), (np.concatenate(rows), np.concatenate(words))), shape=(n_documents, n_words)
    )
    counts.sum_duplicates()
    seen = np.bincount(counts.indices, minlength=n_words)
    X = counts.copy()
    X.data = (1.0 + np.log(counts.data)) * np.log(n_documents / np.maximum(seen, 1))[counts.indices]
    X = sp.csr_matrix(sp.diags(1.0 / np.maximum(np.sqrt(X.multiply(X).sum(axis=1).A1), 1e-12)) @ X)
    return X, 2.0 * np.eye(n_classes)[topic] - 1.0 + 0.5 * _linear(rng, X, n_classes)


def groups(rng: Generator) -> Made:
    """30000 x 200: 25 questions with eight answers each, of which some are common; one feature per answer."""
    shares = rng.dirichlet(np.full(8, 0.7), size=25).cumsum(axis=1)
    answers = (rng.random((30000, 25, 1)) > shares[None]).sum(axis=2).clip(max=7)
    X = _binary(np.repeat(np.arange(30000), 25), (answers + 8 * np.arange(25)).ravel(), (30000, 200))
    return X, _linear(rng, X, N_CLASSES)


def rare(rng: Generator) -> Made:
    """20000 x 300 rare binary features in clusters; one sample in twenty is positive."""
    cluster = rng.integers(40, size=20000)
    rates = 0.02 * rng.gamma(0.3, 1.0, (40, 300)) + 0.01 * rng.gamma(0.5, 1.0, 300)
    X = sp.csr_matrix((rng.random((20000, 300)) < rates[cluster]).astype(float))
    scores = _linear(rng, X, N_CLASSES)
    return X, scores - np.quantile(scores, 0.95, axis=0)


def strokes(rng: Generator) -> Made:
    """20000 x 784: blurred lines of ten shapes on a grid of 28 x 28 points, three quarters of which are zero."""
    place = np.arange(28.0)
    shape = rng.integers(10, size=20000)
    ends = rng.uniform(4.0, 24.0, (10, 3, 2))[shape] + 1.5 * rng.standard_normal((20000, 3, 2))
    way = np.linspace(0.0, 1.0, 12)[:, None]
    X = np.zeros((20000, 784))
    for start in range(0, 20000, 2000):
        part = ends[start : start + 2000]
        points = np.concatenate(
            [part[:, None, k] + way[None] * (part[:, None, k + 1] - part[:, None, k]) for k in (0, 1)], axis=1
        )
        near = [np.exp(-0.5 * (points[..., axis, None] - place) ** 2) for axis in (0, 1)]
        X[start : start + 2000] = np.einsum("spi,spj->sij", *near).clip(max=1.0).reshape(-1, 784)
    X[X < 0.1] = 0.0
    return sp.csr_matrix(X), np.eye(10)[shape] - 0.5 + 0.1 * _linear(rng, X, 10)


def images(rng: Generator) -> Made:
    """Dense 7300 x 256 in [-1, 1]: ten smooth shapes, deformed by forty smooth patterns."""
    smooth = np.exp(-0.05 * (np.arange(256)[:, None] % 16 - np.arange(256) % 16) ** 2)
    smooth *= np.exp(-0.05 * (np.arange(256)[:, None] // 16 - np.arange(256) // 16) ** 2)
    shape = rng.integers(10, size=7300)
    patterns = rng.standard_normal((50, 256)) @ smooth
    X = patterns[shape] + 0.25 * rng.standard_normal((7300, 40)) @ patterns[10:]
    X = np.tanh(X / X.std())
    return X, np.eye(10)[shape] - 0.5 + 0.1 * _linear(rng, X, 10)


def correlated(rng: Generator) -> Made:
    """Dense 20000 x 60: factors that features share, in units that differ by a factor of a hundred."""
    X = rng.standard_normal((20000, 15)) @ rng.standard_normal((15, 60)) + 0.5 * rng.standard_normal((20000, 60))
    X *= 10.0 ** rng.uniform(-1.0, 1.0, 60) / X.std(axis=0)
    return X, _linear(rng, X / X.std(axis=0), N_CLASSES)


def _linear(rng: Generator, X: Any, n_classes: int) -> np.ndarray:
    """Scores of a random linear model, of variance 1."""
    scores = X @ rng.standard_normal((X.shape[1], n_classes))
    return np.asarray(scores / scores.std())


def _binary(rows: np.ndarray, columns: np.ndarray, shape: tuple[int, int]) -> sp.csr_matrix:
    return sp.csr_matrix((np.ones(rows.size), (rows, columns)), shape=shape)


MAKERS: dict[str, Callable[[Generator], Made]] = {
    "wide": random_rows,
    "tall": tall,
    "text": partial(text, n_documents=15000, n_words=50000, n_classes=6),
    "short text": partial(text, n_documents=30000, n_words=12000, n_classes=4, length=15),
    "many classes": partial(text, n_documents=8000, n_words=55000, n_classes=MANY_CLASSES),
    "groups": groups,
    "rare": rare,
    "strokes": strokes,
    "images": images,
    "correlated": correlated,
}
SETS_OF = {
    "signs": ("text", "short text", "groups", "rare", "strokes", "images", "correlated"),
    "classes": ("many classes", "text", "groups", "strokes", "images"),
    "numbers": ("short text", "rare", "images", "correlated"),
    "counts": ("groups", "correlated"),
}


def made_up(name: str, targets: str, seed: int = 0) -> tuple[Any, np.ndarray]:
    """A made-up set with signs, classes, numbers or counts."""
    rng = np.random.default_rng(seed)
    X, scores = MAKERS[name](rng)
    scores = scores + NOISE * scores.std() * rng.standard_normal(scores.shape)
    y = {
        "signs": np.where(scores[:, 0] > 0.0, 1.0, -1.0),
        "classes": scores.argmax(axis=1),
        "numbers": scores[:, 0],
        "counts": rng.poisson(np.exp(0.5 * scores[:, 0])).astype(float),
    }
    return X, y[targets]
