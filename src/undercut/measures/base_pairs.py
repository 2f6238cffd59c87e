"""How well predicted base pairs agree with true ones.

sensitivity = right / true      ppv = right / predicted      f = 2 right / (true + predicted)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from undercut.errors import DataError
from undercut.types import Array


class PairScores(NamedTuple):
    """Shares of pairs; a share of nothing is 1."""

    sensitivity: float
    ppv: float
    f: float


def pair_scores(Y: Sequence[Array], Y_hat: Sequence[Array]) -> PairScores:
    """The scores of all pairs of all structures together; a structure is an array of partners, -1 for none.

    >>> true, predicted = np.array([5, 4, -1, -1, 1, 0]), np.array([5, -1, -1, -1, -1, 0])
    >>> scores = pair_scores([true], [predicted])
    >>> scores.sensitivity, scores.ppv, round(scores.f, 3)
    (0.5, 1.0, 0.667)
    """
    counts = np.array([_counts(y, y_hat) for y, y_hat in zip(Y, Y_hat, strict=True)])
    return _scores(*counts.sum(axis=0))


def mean_pair_scores(Y: Sequence[Array], Y_hat: Sequence[Array]) -> PairScores:
    """The means of the scores of single structures."""
    each = [_scores(*_counts(y, y_hat)) for y, y_hat in zip(Y, Y_hat, strict=True)]
    return PairScores(*np.mean(each, axis=0).tolist())


def _counts(y: Array, y_hat: Array) -> tuple[int, int, int]:
    if y.size != y_hat.size:
        raise DataError(f"two structures of a sequence must have the same length; got {y.size} and {y_hat.size}")
    paired = y >= 0
    return int((paired & (y == y_hat)).sum()), int(paired.sum()), int((y_hat >= 0).sum())


def _scores(right: int, true: int, predicted: int) -> PairScores:
    def share(part: int, whole: int) -> float:
        return float(part / whole) if whole else 1.0

    return PairScores(share(right, true), share(right, predicted), share(2 * right, true + predicted))
