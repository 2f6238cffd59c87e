"""Maximum likelihood of left-to-right hidden Markov models: segmental k-means, then expectation maximization.

Segmental k-means (Rabiner 1990) divides every utterance evenly among the states, clusters the frames of each state, and
then alternates between best paths and Gaussians.  Baum and Welch's iterations go on from there, one word at a time.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from undercut._jit import hmm, hmm_sums
from undercut.errors import DataError, require
from undercut.risks.structured.hmm.layout import HmmLayout
from undercut.threads import in_threads
from undercut.types import Array, FloatArray

LLOYD_STEPS = 8  # of k-means after each split of a cluster
SPLIT = 0.5  # halves of a cluster start this many standard deviations from its mean
RARE = 1e-6  # the least probability of a Gaussian or a move
KEEP = 1.5  # frames: with fewer, a Gaussian keeps its mean and covariance
FALLBACK = 1e-6  # variance floor, relative to a unit variance, where a feature is constant


@dataclass(frozen=True)
class Likelihood:
    """How the models of a start are found.

    n_segmental : rounds of segmental k-means
    n_em : the most iterations of expectation maximization
    tol : stop once the log-likelihood per frame grows by less
    variance_floor : the least variance, relative to that of all frames
    """

    n_segmental: int = 4
    n_em: int = 10
    tol: float = 1e-3
    variance_floor: float = 1e-2

    def __post_init__(self) -> None:
        require(self.n_segmental >= 1, "`n_segmental` must be at least 1", self.n_segmental)
        require(self.n_em >= 0, "`n_em` must not be negative", self.n_em)
        require(self.variance_floor > 0.0, "`variance_floor` must be positive", self.variance_floor)


class Word(NamedTuple):
    """The model of one word: its Gaussians as natural parameters, and log-probabilities of its moves."""

    gaussians: FloatArray  # (states x mixtures, moments)
    stay: FloatArray  # (states,)
    leave: FloatArray  # (states,)


class Fit(NamedTuple):
    """What came of a start."""

    w: FloatArray
    log_likelihood: float  # of all utterances


def fit_words(
    X: FloatArray, lengths: Array, y: Array, layout: HmmLayout, settings: Likelihood, weight: FloatArray | None = None
) -> Fit:
    """The models of all words, from utterances of one word each; a weight of 2 equals duplicating the utterance."""
    weight = np.ones(y.size) if weight is None else weight * (y.size / weight.sum())
    counts = np.bincount(y, weight, minlength=layout.n_words)
    if not counts.all():
        raise DataError(f"every word must have an utterance; word {int(np.argmin(counts))} has none: leave it out")
    one = HmmLayout(1, layout.n_states, layout.n_mixtures, layout.n_features, layout.covariance)
    mean = np.average(X, axis=0, weights=np.repeat(weight, lengths))
    floor = settings.variance_floor * np.average((X - mean) ** 2, axis=0, weights=np.repeat(weight, lengths))
    floor[floor <= 0.0] = FALLBACK
    offsets = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])

    def fit(c: int) -> tuple[Word, float]:
        chosen = np.flatnonzero((y == c) & (weight > 0.0))
        frames = np.concatenate([np.arange(offsets[s], offsets[s + 1]) for s in chosen])
        return _Trainer(X[frames], lengths[chosen], weight[chosen], one, floor).fit(settings)

    words, values = zip(*in_threads(fit, layout.n_words), strict=True)
    parts = [np.concatenate(part) for part in zip(*words, strict=True)]
    w = np.concatenate([*(part.ravel() for part in parts), np.log(counts / counts.sum())])
    return Fit(w, float(sum(values)))


class _Trainer:
    """The utterances of one word."""

    def __init__(self, X: FloatArray, lengths: Array, weight: FloatArray, layout: HmmLayout, floor: FloatArray) -> None:
        self.X, self.lengths, self.weight, self.layout, self.floor = X, lengths, weight, layout, floor
        self.offsets = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
        self.of_frame = np.repeat(weight, lengths)
        self.moments = layout.moments(X)

    def fit(self, settings: Likelihood) -> tuple[Word, float]:
        """The model after both phases, and the log-likelihood before the last iteration."""
        word = self._segmental(settings.n_segmental)
        last = -np.inf
        for _ in range(settings.n_em):
            word, value = self._maximized(word)
            if value - last <= settings.tol * self.of_frame.sum():
                return word, value
            last = value
        return word, last

    def _segmental(self, n_rounds: int) -> Word:
        S = self.layout.n_states
        at = np.concatenate([np.arange(n) * S // n for n in self.lengths])
        word = self._from_paths(at)
        for _ in range(n_rounds - 1):
            path = self._paths(word)
            if np.array_equal(path, at):
                break
            at, word = path, self._from_paths(path)
        return word

    def _from_paths(self, at: Array) -> Word:
        """Clusters of the frames of each state as Gaussians, and moves by their counts."""
        M, S = self.layout.n_mixtures, self.layout.n_states
        shares = np.zeros((at.size, S * M))
        for q in range(S):
            rows = np.flatnonzero(at == q)
            shares[rows, q * M + clusters(self.X[rows], M, self.of_frame[rows])] = self.of_frame[rows]
        leaves = np.full(S, self.weight.sum())
        return self._word(shares, np.array([np.bincount(at, self.of_frame, minlength=S) - leaves, leaves]))

    def _paths(self, word: Word) -> Array:
        """The state of every frame on the best path of its utterance."""
        scores = self.moments @ word.gaussians.T
        nodes = np.empty((scores.shape[0], self.layout.n_states))
        hmm.largest(scores, nodes, np.empty(nodes.shape, np.int64))
        path, begins = np.empty(nodes.shape[0], np.int64), np.empty(nodes.shape[0], np.bool_)
        for low, high in pairwise(self.offsets):
            moves = (word.stay, word.leave, np.zeros(1), np.zeros(1, np.int64), self.layout.n_states)
            hmm.align(nodes[low:high], *moves, path[low:high], begins[low:high])
        return path

    def _maximized(self, word: Word) -> tuple[Word, float]:
        """One iteration of expectation maximization, and the log-likelihood before it."""
        shares = self.moments @ word.gaussians.T
        moves = np.zeros((2, self.layout.n_states))
        value = hmm_sums.expect(shares, word.stay, word.leave, self.offsets, self.weight, moves)
        return self._word(shares, moves, word), float(value)

    def _word(self, shares: FloatArray, moves: FloatArray, last: Word | None = None) -> Word:
        """The model that maximizes the likelihood for given probabilities of Gaussians and numbers of moves."""
        M = self.layout.n_mixtures
        counts = shares.sum(axis=0)
        in_state = np.repeat(np.maximum(counts.reshape(-1, M).sum(axis=1), RARE), M)
        means, covariances = self._estimates(shares.T @ self.moments, counts)
        gaussians = self.layout.natural(np.maximum(counts / in_state, RARE), means, covariances)
        kept = counts < KEEP
        if last is not None and kept.any():
            gaussians[kept] = last.gaussians[kept]
        odds = np.clip(moves[0] / np.maximum(moves.sum(axis=0), RARE), RARE, 1.0 - RARE)
        return Word(gaussians, np.log(odds), np.log1p(-odds))

    def _estimates(self, sums: FloatArray, counts: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Means and covariances from sums of moments, no variance below the floor."""
        d = self.layout.n_features
        mean = sums / np.maximum(counts, RARE)[:, None]
        means, squares = mean[:, 1 : d + 1], mean[:, d + 1 :]
        if self.layout.covariance == "diag":
            return means, np.maximum(squares - means**2, self.floor)
        rows, columns = np.triu_indices(d)
        full = np.empty((counts.size, d, d))
        full[:, rows, columns] = full[:, columns, rows] = squares - means[:, rows] * means[:, columns]
        return means, floored(full, self.floor)


def floored(covariances: FloatArray, floor: FloatArray) -> FloatArray:
    """Covariances whose eigenvalues, in units of the floor, are at least one."""
    units = np.sqrt(floor)
    values, vectors = np.linalg.eigh(covariances / np.outer(units, units))
    values = np.maximum(values, 1.0)
    return np.asarray((vectors * values[:, None, :]) @ vectors.transpose(0, 2, 1) * np.outer(units, units))


def clusters(X: FloatArray, n: int, weight: FloatArray) -> Array:
    """The number of the cluster of every row: k-means from splits of the cluster with the largest scatter."""
    at = np.zeros(X.shape[0], np.int64)
    scale = _deviation(X, weight)
    Z = X / np.where(scale > 0.0, scale, 1.0)
    centers = np.average(Z, axis=0, weights=weight)[None]
    for _ in range(1, min(n, X.shape[0])):
        scatter = np.bincount(at, weight * ((Z - centers[at]) ** 2).sum(axis=1), minlength=len(centers))
        widest = int(np.argmax(scatter))
        offset = SPLIT * _deviation(Z[at == widest], weight[at == widest])
        centers = np.vstack([centers, centers[widest] + offset])
        centers[widest] -= offset
        at = _lloyd(Z, centers, weight)
    return at


def _deviation(X: FloatArray, weight: FloatArray) -> FloatArray:
    """Standard deviations of the columns."""
    mean = np.average(X, axis=0, weights=weight)
    return np.asarray(np.sqrt(np.average((X - mean) ** 2, axis=0, weights=weight)))


def _lloyd(Z: FloatArray, centers: FloatArray, weight: FloatArray) -> Array:
    """The nearest center of every row, after some steps that move ``centers``."""
    at = np.zeros(len(Z), np.int64)
    for _ in range(LLOYD_STEPS):
        at[:] = np.argmin((centers**2).sum(axis=1) - 2.0 * Z @ centers.T, axis=1)
        for i in np.unique(at):
            centers[i] = np.average(Z[at == i], axis=0, weights=weight[at == i])
    return at
