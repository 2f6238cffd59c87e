"""Features of speech: normalization of cepstra, and their slopes in time."""

from __future__ import annotations

from typing import Any

import numpy as np

from undercut.errors import DataError, require
from undercut.types import Array, FloatArray

WIDTH = 2  # frames before and after that a slope is fitted to


def normalized(X: FloatArray, lengths: Array, groups: Any = None) -> FloatArray:
    """Cepstral mean and variance normalization: every feature has mean 0 and variance 1 in every utterance.

    ``groups``, one per utterance, are normalized together instead: utterances of one speaker share one channel, and
    keep what is typical of a word.  A feature that is constant becomes zero.

    >>> normalized(np.array([[1.0], [3.0], [5.0], [5.0]]), np.array([2, 2])).ravel()
    array([-1.,  1.,  0.,  0.])
    """
    numbers = np.arange(lengths.size) if groups is None else np.unique(groups, return_inverse=True)[1]
    if numbers.shape != lengths.shape:
        raise DataError(f"`groups` must have one entry per utterance, {lengths.size}; got {numbers.shape}")
    of_frame = np.repeat(numbers, lengths)
    counts = np.bincount(of_frame)[:, None]
    mean = _sums(X, of_frame, counts.size) / counts
    centered = X - mean[of_frame]
    variance = _sums(centered**2, of_frame, counts.size) / counts
    tiny = variance <= (1e-12 * np.abs(mean)) ** 2  # constant up to rounding
    return np.asarray(centered * np.where(tiny, 0.0, 1.0 / np.sqrt(np.where(tiny, 1.0, variance)))[of_frame])


def _sums(X: FloatArray, groups: Array, n: int) -> FloatArray:
    """Sums of the rows of each group."""
    total = np.zeros((n, X.shape[1]))
    np.add.at(total, groups, X)
    return total


def with_deltas(X: FloatArray, lengths: Array, orders: int = 2) -> FloatArray:
    """The features and their slopes in time, and the slopes of these, by regression over two frames on either side.

    >>> with_deltas(np.arange(6.0)[:, None], np.array([6]), orders=1)[2]
    array([2., 1.])
    """
    require(orders >= 1, "`orders` must be at least 1", orders)
    parts = [X]
    for _ in range(orders):
        parts.append(_slopes(parts[-1], lengths))
    return np.hstack(parts)


def _slopes(X: FloatArray, lengths: Array) -> FloatArray:
    starts = np.repeat(np.cumsum(lengths) - lengths, lengths)
    ends = np.repeat(np.cumsum(lengths) - 1, lengths)
    at = np.arange(X.shape[0])
    steps = range(1, WIDTH + 1)
    pairs = (k * (X[np.minimum(at + k, ends)] - X[np.maximum(at - k, starts)]) for k in steps)
    return np.asarray(sum(pairs) / (2.0 * sum(k * k for k in steps)))
