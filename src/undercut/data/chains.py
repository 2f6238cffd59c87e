"""Sequences end to end, and where the scores of their labels lie in one vector.

scores = [emissions (tokens x K), transitions (K x K), start (K), end (K)]
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from undercut.arrays import Array, FloatArray, in_threads
from undercut.data.design import Design, LinearMap
from undercut.kernels import chain

BLOCK_TOKENS = 2048  # tokens that one thread takes at a time; fixed, so that sums do not depend on the machine


class Potentials(NamedTuple):
    """What a labeling's score is made of, or derivatives with respect to it."""

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

    def _blocks(self) -> list[tuple[int, int]]:
        """The first and last sequence of every block: as few as make ``BLOCK_TOKENS``, or the rest."""
        numbers = self.offsets[:-1] // BLOCK_TOKENS
        edges = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), self.n_chains]
        return list(pairwise(edges))

    def split(self, scores: FloatArray) -> Potentials:
        """The parts of a vector of scores, which they share."""
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
        """The best labeling of every sequence, end to end."""
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
    """What the parameters of a chain model mean; zeros for those that it does not have."""

    emissions: FloatArray  # label by feature
    transitions: FloatArray  # label by next label
    start: FloatArray
    end: FloatArray
    bias: FloatArray


class ChainDesign(LinearMap):
    """All scores as a linear map of ``w = [emissions (K x d), transitions (K x K), start, end, bias (K each)]``.

    The last three are there or not.
    """

    def __init__(self, features: Design, chains: Chains, *, start: bool, end: bool, bias: bool) -> None:
        K, d = chains.n_labels, features.shape[1]
        self.features, self.chains = features, chains
        self.has = {"start": start, "end": end, "bias": bias}
        self.sizes = {"emissions": K * d, "transitions": K * K, **{name: K * has for name, has in self.has.items()}}
        self.shape = (chains.n_scores, sum(self.sizes.values()))

    def unpack(self, w: FloatArray) -> ChainWeights:
        """The named parts of w, which they share."""
        K = self.chains.n_labels
        parts = np.split(w, np.cumsum(list(self.sizes.values()))[:-1])
        emissions, transitions, *vectors = parts
        ends = [vector if vector.size else np.zeros(K) for vector in vectors]
        return ChainWeights(emissions.reshape(K, -1), transitions.reshape(K, K), *ends)

    def pack(self, weights: ChainWeights) -> FloatArray:
        """The w of named parts; those that the model does not have are left out."""
        named = zip(weights._asdict().values(), self.sizes.values(), strict=True)
        return np.concatenate([part.reshape(-1) for part, size in named if size])

    @override
    def matvec(self, w: FloatArray) -> FloatArray:
        weights, scores = self.unpack(w), np.empty(self.shape[0])
        parts = self.chains.split(scores)
        with np.errstate(over="ignore", invalid="ignore"):  # the risk says where its value is infinite
            np.add(self.features.matmat(weights.emissions), weights.bias, out=parts.emissions)
        parts.transitions[:], parts.start[:], parts.end[:] = weights[1:4]
        return scores

    @override
    def rmatvec(self, g: FloatArray) -> FloatArray:
        parts = self.chains.split(g)
        emissions = self.features.rmatmat(parts.emissions)
        bias = parts.emissions.sum(axis=0) if self.has["bias"] else parts.start
        return self.pack(ChainWeights(emissions, *parts[1:], bias))
