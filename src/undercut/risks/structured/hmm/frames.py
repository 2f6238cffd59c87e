"""Utterances in one matrix of frames, and the scores of their frames block by block."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from undercut._jit import hmm
from undercut.devices import beside, on_host, to_host
from undercut.risks.structured.hmm.layout import HmmLayout, HmmWeights
from undercut.threads import in_threads
from undercut.types import Array, FloatArray

BLOCK_FRAMES = 2048  # frames per block of work; fixed, so that sums do not depend on the number of threads
T = TypeVar("T")


class Block(NamedTuple):
    """The utterances ``first ... last - 1`` and what was computed for their frames."""

    first: int
    last: int
    moments: FloatArray  # (frames, moments)
    nodes: FloatArray  # (frames, states): the largest score of a Gaussian
    which: NDArray[np.int64]  # (frames, states): the number of that Gaussian in its state


class Frames:
    """Utterances of the given lengths; X is float64 in main memory, or a tensor on a device.

    On a device the scores of all frames are one product; the paths are found in main memory.
    """

    def __init__(self, X: Any, lengths: Array, layout: HmmLayout) -> None:
        self.X, self.lengths, self.layout = X, lengths, layout
        self.offsets = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
        self.n_utterances = lengths.size
        numbers = self.offsets[:-1] // BLOCK_FRAMES
        edges = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), self.n_utterances]
        self.blocks = list(pairwise(edges))
        self._on_device = None if on_host(X) else layout.moments(X)
        self.host = X if on_host(X) else to_host(X)

    def each_block(self, weights: HmmWeights, work: Callable[[Block], T]) -> list[T]:
        """What ``work`` makes of every block, in their order; the blocks are divided among threads."""
        scores = self._device_scores(weights)

        def run(i: int) -> T:
            first, last = self.blocks[i]
            rows = slice(self.offsets[first], self.offsets[last])
            moments = self.layout.moments(self.host[rows])
            with np.errstate(over="ignore", invalid="ignore"):  # the value of the risk is not finite then
                here = moments @ weights.gaussians.T if scores is None else scores[rows]
            nodes = np.empty((here.shape[0], self.layout.n_all_states))
            which = np.empty(nodes.shape, np.int64)
            hmm.largest(here, nodes, which)
            return work(Block(first, last, moments, nodes, which))

        return in_threads(run, len(self.blocks))

    def _device_scores(self, weights: HmmWeights) -> FloatArray | None:
        if self._on_device is None:
            return None
        return to_host(self._on_device @ beside(weights.gaussians.T, self._on_device).to(self._on_device.dtype))

    def take(self, rows: Array) -> Frames:
        """Some of the utterances."""
        lengths = self.lengths[rows]
        before = np.cumsum(lengths) - lengths
        frames = np.repeat(self.offsets[rows] - before, lengths) + np.arange(int(lengths.sum()))
        return Frames(self.X[frames], lengths, self.layout)

    def word_scores(self, weights: HmmWeights) -> FloatArray:
        """The score of the best path through every single word, (utterances, words)."""
        out = np.empty((self.n_utterances, self.layout.n_words))

        def work(block: Block) -> None:
            moves = (weights.stay, weights.leave, weights.enter)
            hmm.word_scores(block.nodes, *moves, self.offsets, block.first, block.last, out)

        self.each_block(weights, work)
        return out
