"""Large-margin training of hidden Markov models (Do and Artières 2012, eq. (21); Do and Artières 2009).

    R(w) = sum_i weight_i max_y (F(x_i, y, w) + Delta(y_i, y) - F(x_i, y_i, w))
    F(x, y, w) = max over states s and Gaussians m of log p(x, y, s, m | w), divided by the number of frames of x

F is the largest of linear functions of the natural parameters, so R is a difference of convex functions: not convex.
A cut has the gradient wherever the best paths are unique; where paths tie it has the slope of one path per utterance.
For single words that is a limit of gradients around w, hence a Clarke subgradient, because ties are broken alike in all
utterances: for the earliest word, the latest state and the first Gaussian.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from typing_extensions import override

from undercut._jit import hmm
from undercut.contracts import BatchedRisk, Cut, Risk
from undercut.errors import require
from undercut.risks.checks import normalized_weights
from undercut.risks.structured.hmm.frames import Block, Frames
from undercut.risks.structured.hmm.layout import HmmWeights
from undercut.types import Array, FloatArray


class HmmRisk(BatchedRisk):
    """A mean over utterances of the margin of their words; ``margin`` scales Delta."""

    lower_bound, is_convex = 0.0, False

    def __init__(self, frames: Frames, weight: FloatArray, margin: float) -> None:
        require(0.0 < margin < np.inf, "`margin` must be positive and finite", margin)
        self.frames, self.weight, self.margin = frames, weight, margin
        self.n_params, self.n_samples = frames.layout.n_params, frames.n_utterances

    @abstractmethod
    def add_block(self, block: Block, weights: HmmWeights, slopes: FloatArray, moves: FloatArray) -> float:
        """The weighted losses of a block; a subgradient is added to ``slopes`` and ``moves``."""

    @override
    def value(self, w: FloatArray) -> float:
        return self._evaluate(w)[0]

    @override
    def cut(self, w: FloatArray) -> Cut:
        value, a = self._evaluate(w)
        return Cut(a, value - float(a @ w), value)

    def _evaluate(self, w: FloatArray) -> tuple[float, FloatArray]:
        layout = self.frames.layout
        weights = layout.unpack(w)
        n_moves = 2 * layout.n_all_states + layout.n_words

        def work(block: Block) -> tuple[float, FloatArray, FloatArray]:
            slopes, moves = np.zeros(weights.gaussians.shape), np.zeros(n_moves)
            return self.add_block(block, weights, slopes, moves), slopes, moves

        values, slopes, moves = zip(*self.frames.each_block(weights, work), strict=True)
        return float(sum(values)), np.concatenate([sum(slopes).ravel(), sum(moves)])


class WordRisk(HmmRisk):
    """Utterances of one word each: Delta is ``margin`` for a wrong word.

    >>> from undercut.risks.structured.hmm.layout import HmmLayout
    >>> layout = HmmLayout(n_words=2, n_states=1, n_mixtures=1, n_features=1)
    >>> risk = WordRisk(Frames(np.array([[-1.0], [-1.0], [1.0]]), np.array([2, 1]), layout), np.array([0, 1]))
    >>> risk.value(np.zeros(risk.n_params)), risk.cut(np.zeros(risk.n_params)).a[:6]
    (1.0, array([ 0.,  1., 0.,  0., -1.,  0.]))
    """

    def __init__(self, frames: Frames, y: Array, sample_weight: Any = None, margin: float = 1.0) -> None:
        super().__init__(frames, normalized_weights(sample_weight, frames.n_utterances), margin)
        self.y = y

    @override
    def add_block(self, block: Block, weights: HmmWeights, slopes: FloatArray, moves: FloatArray) -> float:
        return float(
            hmm.isolated(
                block.nodes, block.which, block.moments, *weights[1:], self.y, self.weight, self.margin,
                self.frames.offsets, block.first, block.last, slopes, moves,
            )
        )  # fmt: skip

    @override
    def batch(self, rows: Array) -> Risk:
        part = WordRisk(self.frames.take(rows), self.y[rows], margin=self.margin)
        part.weight = self.weight[rows] * (self.n_samples / len(rows))
        return part


class ConnectedRisk(HmmRisk):
    """Utterances of several words: Delta is ``margin`` times the share of frames in a wrong word.

    ``labels`` are the true words of all frames, ``words`` those of all utterances, and utterance s has the words
    ``words[ends[s] : ends[s + 1]]``.  The true path is the best one through the true words, wherever they begin.
    """

    def __init__(
        self,
        frames: Frames,
        labels: Array,
        words: Array,
        ends: Array,
        sample_weight: Any = None,
        margin: float = 1.0,
    ) -> None:
        super().__init__(frames, normalized_weights(sample_weight, frames.n_utterances), margin)
        self.labels, self.words, self.ends = labels, words, ends

    @override
    def add_block(self, block: Block, weights: HmmWeights, slopes: FloatArray, moves: FloatArray) -> float:
        return float(
            hmm.connected(
                block.nodes, block.which, block.moments, *weights[1:], self.labels, self.words, self.ends, self.weight,
                self.margin, self.frames.offsets, block.first, block.last, slopes, moves,
            )
        )  # fmt: skip

    @override
    def batch(self, rows: Array) -> Risk:
        frames = self.frames.take(rows)
        labels = np.concatenate([self.labels[self.frames.offsets[s] : self.frames.offsets[s + 1]] for s in rows])
        words = [self.words[self.ends[s] : self.ends[s + 1]] for s in rows]
        ends = np.concatenate([[0], np.cumsum([part.size for part in words])])
        part = ConnectedRisk(frames, labels, np.concatenate(words), ends, margin=self.margin)
        part.weight = self.weight[rows] * (self.n_samples / len(rows))
        return part
