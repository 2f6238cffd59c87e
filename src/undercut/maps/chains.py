"""Concatenated sequences, and the layout of the scores of their labels in one vector.

scores = [emissions (tokens x K), transitions (K x K), start (K), end (K)]
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from undercut._jit import chain
from undercut.contracts import Design
from undercut.maps.emissions import Emissions, pairs_in
from undercut.threads import in_threads
from undercut.types import Array, FloatArray

BLOCK_TOKENS = 2048  # tokens per block of work; fixed, so that sums do not depend on the number of threads


class Potentials(NamedTuple):
    """The terms of the score of a labeling, or derivatives with respect to them."""

    emissions: FloatArray  # token by label
    transitions: FloatArray  # label by next label
    start: FloatArray
    end: FloatArray


class Chains:
    """Sequences of the given lengths over K labels."""

    def __init__(self, lengths: Array, n_labels: int) -> None:
        self.lengths, self.n_labels = lengths, n_labels
        self.offsets = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
        self.n_tokens, self.n_chains = int(self.offsets[-1]), lengths.size
        self.n_scores = (self.n_tokens + n_labels + 2) * n_labels
        self.blocks = self._blocks()

    @property
    def later(self) -> Array:
        """The tokens that are not the first of their sequence."""
        inside = np.ones(self.n_tokens, dtype=bool)
        inside[self.offsets[:-1]] = False
        return np.flatnonzero(inside)

    def _blocks(self) -> list[tuple[int, int]]:
        """The first and last sequence of every block: the fewest with ``BLOCK_TOKENS`` tokens, or the rest."""
        numbers = self.offsets[:-1] // BLOCK_TOKENS
        edges = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), self.n_chains]
        return list(pairwise(edges))

    def split(self, scores: FloatArray) -> Potentials:
        """The parts of a vector of scores, as views."""
        K, T = self.n_labels, self.n_tokens
        emissions, transitions, start, end = np.split(scores, np.cumsum([T * K, K * K, K]))
        return Potentials(emissions.reshape(T, K), transitions.reshape(K, K), start, end)

    def each_block(self, work: Callable[[int, int, int], float]) -> float:
        """The sum of ``work(block, first, last)`` over all blocks, in their order."""
        return sum(in_threads(lambda i: work(i, *self.blocks[i]), len(self.blocks)))

    def tokens_of(self, rows: Array) -> Array:
        """The tokens of some of the sequences, in their order."""
        lengths = self.lengths[rows]
        before = np.cumsum(lengths) - lengths
        return np.repeat(self.offsets[rows] - before, lengths) + np.arange(int(lengths.sum()))

    def decode(self, scores: FloatArray) -> NDArray[np.int64]:
        """The best labeling of every sequence, concatenated."""
        labels = np.empty(self.n_tokens, np.int64)
        self._run(chain.best_paths, scores, labels)
        return labels

    def marginals(self, scores: FloatArray) -> FloatArray:
        """The probability of every label at every token."""
        out = np.empty((self.n_tokens, self.n_labels))
        self._run(chain.marginals, scores, out)
        return out

    def _run(self, kernel: Callable[..., Any], scores: FloatArray, out: Array) -> None:
        parts = self.split(scores)
        in_threads(lambda i: kernel(*parts, self.offsets, *self.blocks[i], out), len(self.blocks))


class ChainWeights(NamedTuple):
    """The parameters of a chain model by name; zeros for those that it does not have."""

    emissions: FloatArray  # label by feature
    transitions: FloatArray  # label by next label
    start: FloatArray
    end: FloatArray
    bias: FloatArray


class ChainMask(NamedTuple):
    """Which weights a chain model has."""

    transitions: Array
    start: Array
    end: Array
    bias: Array

    @classmethod
    def full(cls, n_labels: int, *, start: bool, end: bool, bias: bool) -> ChainMask:
        """All transitions, and all or none of the others."""
        return cls(np.ones((n_labels, n_labels), bool), *(np.full(n_labels, has) for has in (start, end, bias)))

    def seen(self, y: Array, counts: Array, chains: Chains) -> ChainMask:
        """Those of them that occur in the true labelings of the selected tokens."""
        later = chains.later[counts[chains.later]]
        transitions, ends = np.zeros_like(self.transitions), np.zeros((3, chains.n_labels), bool)
        transitions[y[later - 1], y[later]] = True
        for labels, tokens in zip(ends, (chains.offsets[:-1], chains.offsets[1:] - 1, np.arange(y.size)), strict=True):
            labels[y[tokens][counts[tokens]]] = True
        return ChainMask(self.transitions & transitions, *np.logical_and(self[1:], ends))


class SeenPairs(NamedTuple):
    """The pairs of feature and label, and of label and next label, that occur in true labelings."""

    emissions: Array  # feature * n_labels + label, increasing
    has: ChainMask

    @classmethod
    def of(cls, X: Any, y: Array, counts: Array, chains: Chains, has: ChainMask) -> SeenPairs:
        """Those of the selected tokens among the weights that a model may have."""
        return cls(pairs_in(X, y, counts, chains.n_labels), has.seen(y, counts, chains))

    def joined(self, other: SeenPairs) -> SeenPairs:
        """Those that occur here or there."""
        both = ChainMask(*(one | another for one, another in zip(self.has, other.has, strict=True)))
        return SeenPairs(np.union1d(self.emissions, other.emissions), both)


class ChainDesign(Design):
    """All scores as a linear map of ``w = [emissions, transitions (K x K), start (K), end (K), bias (K)]``.

    ``has`` tells which weights are parameters; the others are zero.
    """

    def __init__(self, emissions: Emissions, chains: Chains, has: ChainMask) -> None:
        self.emissions, self.chains, self.has = emissions, chains, has
        self._kept = np.flatnonzero(np.concatenate([part.reshape(-1) for part in has]))
        self.shape = (chains.n_scores, emissions.n_params + self._kept.size)

    def unpack(self, w: FloatArray) -> ChainWeights:
        """The named parts of w."""
        return ChainWeights(self.emissions.unpack(w[: self.emissions.n_params]), *self._chain(w))

    def _chain(self, w: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Transitions, start, end and bias."""
        K = self.chains.n_labels
        parts = np.zeros((K + 3, K))
        parts.reshape(-1)[self._kept] = w[self.emissions.n_params :]
        return parts[:K], parts[K], parts[K + 1], parts[K + 2]

    def pack(self, weights: ChainWeights) -> FloatArray:
        """The w of named parts, without those that the model does not have."""
        return self._joined(self.emissions.pack(weights.emissions), *weights[1:])

    def _joined(self, emissions: FloatArray, *chain: FloatArray) -> FloatArray:
        return np.concatenate([emissions, np.concatenate([part.reshape(-1) for part in chain])[self._kept]])

    @override
    def matvec(self, w: FloatArray) -> FloatArray:
        scores = np.empty(self.shape[0])
        parts, (transitions, start, end, bias) = self.chains.split(scores), self._chain(w)
        with np.errstate(over="ignore", invalid="ignore"):  # the value of the risk is infinite then
            self.emissions.fill(w[: self.emissions.n_params], parts.emissions)
            if bias.any():
                np.add(parts.emissions, bias, out=parts.emissions)
        parts.transitions[:], parts.start[:], parts.end[:] = transitions, start, end
        return scores

    @override
    def rmatvec(self, g: FloatArray) -> FloatArray:
        parts = self.chains.split(g)
        return self._joined(self.emissions.gradient(parts.emissions), *parts[1:], parts.emissions.sum(axis=0))
