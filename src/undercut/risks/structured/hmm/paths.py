"""Best paths of utterances: through given words, or through any words."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from undercut._jit import hmm
from undercut.risks.structured.hmm.frames import Block, Frames
from undercut.risks.structured.hmm.layout import HmmLayout, HmmWeights
from undercut.types import Array


class Path(NamedTuple):
    """The state of every frame, numbered over all words, and whether a word begins there."""

    states: Array
    begins: Array

    def words(self, layout: HmmLayout) -> Array:
        """The words on the path."""
        return np.asarray(self.states[self.begins] // layout.n_states)


def aligned(frames: Frames, weights: HmmWeights, words: Array, ends: Array) -> list[Path]:
    """The best paths through the words of each utterance, ``words[ends[s] : ends[s + 1]]``."""
    moves, n_states = weights[1:], frames.layout.n_states
    return _each(
        frames, weights,
        lambda s, nodes, path: hmm.align(nodes, *moves, words[ends[s] : ends[s + 1]], n_states, *path),
    )  # fmt: skip


def looped(frames: Frames, weights: HmmWeights) -> list[Path]:
    """The best paths through any words, one after the other."""
    moves, n_states = weights[1:], frames.layout.n_states
    return _each(frames, weights, lambda s, nodes, path: hmm.loop(nodes, *moves, n_states, *path))


def _each(frames: Frames, weights: HmmWeights, find: Callable[[int, Any, Path], float]) -> list[Path]:
    def work(block: Block) -> list[Path]:
        paths, base = [], frames.offsets[block.first]
        for s in range(block.first, block.last):
            nodes = block.nodes[frames.offsets[s] - base : frames.offsets[s + 1] - base]
            path = Path(np.empty(len(nodes), np.int64), np.empty(len(nodes), np.bool_))
            find(s, nodes, path)
            paths.append(path)
        return paths

    return list(chain.from_iterable(frames.each_block(weights, work)))
