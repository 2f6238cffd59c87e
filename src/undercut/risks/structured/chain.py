"""Structured prediction on chains (Smola et al. 2007, Sec. 3.4; Do and Artières 2012, Sec. 5.2, 5.3).

A labeling p of the tokens x_1 ... x_n has the score

    F(p) = start[p_1] + sum_t (<W[p_t], x_t> + bias[p_t]) + sum_{t > 1} A[p_{t-1}, p_t] + end[p_n]

which is linear in all parameters, and the loss of a sequence is convex in the scores of all labelings:

    M3N   max_p F(p) + sum_t label_loss[y_t, p_t] - F(y)         CRF   log sum_p exp(F(p)) - F(y)
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Literal, final

import numpy as np
from typing_extensions import override

from undercut._jit import chain
from undercut.contracts import BatchedRisk, Evaluation, Line, Risk, ScoreFunction
from undercut.devices import in_memory
from undercut.errors import require
from undercut.maps.chains import ChainDesign, ChainMask, Chains, ChainWeights, Potentials, SeenPairs
from undercut.maps.design import as_matrix
from undercut.maps.emissions import AllPairs, Emissions, some_pairs
from undercut.maps.sequences import label_codes, label_count, stack_sequences
from undercut.risks.checks import normalized_weights
from undercut.risks.scores.score_risk import ScoreRisk
from undercut.risks.structured.chain_line import ChainLine
from undercut.risks.structured.device_chain import DeviceCRFScores, HostScores
from undercut.types import Array, FloatArray


class ChainLoss(ABC):
    """A loss of the scores of a sequence's labelings."""

    @abstractmethod
    def bind(self, y: Array, weight: FloatArray, chains: Chains) -> ChainScores:
        """The weighted sum of the losses of some sequences as a function of their scores."""

    def bind_on(self, device: Any, y: Array, weight: FloatArray, chains: Chains) -> ScoreFunction:
        """The same for scores that are tensors on the device of the tensor ``device``."""
        return HostScores(self.bind(y, weight, chains))


@final
@dataclass(frozen=True)
class M3N(ChainLoss):
    """Max-margin Markov network: the margin of every labeling is its loss (Taskar et al. 2004).

    ``label_loss[k][l] >= 0`` is the loss of label l where k is true, with zeros on the diagonal; without it every wrong
    label costs 1: the Hamming loss.

    >>> from undercut import L2, ChainRisk, minimize
    >>> risk = ChainRisk([np.eye(2), np.eye(2)[:1]], [[0, 1], [0]], M3N())
    >>> risk.value(np.zeros(risk.n_params)), round(minimize(risk, L2(0.1)).objective, 3)
    (1.5, 0.039)
    """

    label_loss: tuple[tuple[float, ...], ...] | None = None

    def __post_init__(self) -> None:
        if self.label_loss is None:
            return
        table = np.asarray(self.label_loss, dtype=np.float64)
        square = table.ndim == 2 and table.shape[0] == table.shape[1]
        require(square, "`label_loss` must be a square table, true label by predicted label", table.shape)
        fine = bool(np.isfinite(table).all() and (table >= 0.0).all() and (np.diag(table) == 0.0).all())
        require(fine, "`label_loss` must be finite, non-negative and zero on its diagonal", table.tolist())
        object.__setattr__(self, "label_loss", tuple(tuple(row) for row in table.tolist()))

    @override
    def bind(self, y: Array, weight: FloatArray, chains: Chains) -> ChainScores:
        return M3NScores(y, weight, chains, self.table(chains.n_labels))

    def table(self, n_labels: int) -> FloatArray:
        """``label_loss`` as an array."""
        table = 1.0 - np.eye(n_labels) if self.label_loss is None else np.array(self.label_loss)
        require(len(table) == n_labels, f"`label_loss` must have one row for each of {n_labels} labels", len(table))
        return table


class SmoothChainLoss(ChainLoss):
    """A differentiable loss of a sequence."""


@final
@dataclass(frozen=True)
class CRF(SmoothChainLoss):
    """Conditional random field: the negative log-likelihood of the true labeling (Lafferty et al. 2001).

    >>> from undercut import L2, ChainRisk, minimize
    >>> risk = ChainRisk([np.eye(2), np.eye(2)[:1]], [[0, 1], [0]], CRF())
    >>> round(risk.value(np.zeros(risk.n_params)) / math.log(2.0), 3), round(minimize(risk, L2(0.1)).objective, 3)
    (1.5, 0.313)
    """

    @override
    def bind(self, y: Array, weight: FloatArray, chains: Chains) -> ChainScores:
        return CRFScores(y, weight, chains)

    @override
    def bind_on(self, device: Any, y: Array, weight: FloatArray, chains: Chains) -> ScoreFunction:
        return DeviceCRFScores(y, weight, chains, device)


class ChainScores(ScoreFunction):
    """``phi(scores) = sum_s weight_s l_s(scores)``, one dynamic program per sequence."""

    def __init__(self, y: Array, weight: FloatArray, chains: Chains) -> None:
        self.y, self.weight, self.chains = y, weight, chains
        self._slopes = np.empty(chains.n_scores)
        self._pairs = np.empty((len(chains.blocks), chains.n_labels, chains.n_labels))
        self._true_pairs = self._count_true_pairs()

    def _count_true_pairs(self) -> FloatArray:
        """The weighted numbers of transitions of the true labelings."""
        at = self.chains.later
        pairs = np.zeros((self.chains.n_labels, self.chains.n_labels))
        np.add.at(pairs, (self.y[at - 1], self.y[at]), np.repeat(self.weight, self.chains.lengths)[at])
        return pairs

    @override
    def evaluate(self, scores: FloatArray) -> Evaluation:
        parts, slopes = self.chains.split(scores), self.chains.split(self._slopes)
        self._pairs[:] = 0.0

        def block(i: int, first: int, last: int) -> float:
            return self.add_block(parts, first, last, slopes.emissions, self._pairs[i])

        with np.errstate(over="ignore", invalid="ignore"):
            value = self.chains.each_block(block)
            np.subtract(self._pairs.sum(axis=0), self._true_pairs, out=slopes.transitions)
            slopes.start[:] = slopes.emissions[self.chains.offsets[:-1]].sum(axis=0)
            slopes.end[:] = slopes.emissions[self.chains.offsets[1:] - 1].sum(axis=0)
        return Evaluation(value if math.isfinite(value) else math.inf, self._slopes)

    @abstractmethod
    def add_block(self, parts: Potentials, first: int, last: int, emissions: FloatArray, pairs: FloatArray) -> float:
        """The weighted losses of a block of sequences.

        Fills in their rows of the slopes of ``emissions`` and adds the transitions of the labelings that compete with
        the true ones to ``pairs``.
        """


class M3NScores(ChainScores):
    """Losses of an ``M3N``; a subgradient is the difference of the best labeling and the true one."""

    def __init__(self, y: Array, weight: FloatArray, chains: Chains, label_loss: FloatArray) -> None:
        super().__init__(y, weight, chains)
        self.label_loss = label_loss

    @override
    def add_block(self, parts: Potentials, first: int, last: int, emissions: FloatArray, pairs: FloatArray) -> float:
        offsets = self.chains.offsets
        return float(chain.m3n(*parts, self.label_loss, self.y, self.weight, offsets, first, last, emissions, pairs))


class CRFScores(ChainScores):
    """Losses of a ``CRF``; the gradient is the difference of expected and true labels and transitions."""

    @override
    def add_block(self, parts: Potentials, first: int, last: int, emissions: FloatArray, pairs: FloatArray) -> float:
        return float(chain.crf(*parts, self.y, self.weight, self.chains.offsets, first, last, emissions, pairs))


class ChainRisk(ScoreRisk, BatchedRisk):
    """``R(w) = sum_s weight_s l(sequence s)``, the weights scaled to sum to one.

    ``X`` is a list of sequences, one row per token, with a list of their labels 0 ... K-1 as ``y``; or one matrix of
    all tokens, dense or CSR, with all labels in one array and the ``lengths`` of the sequences.  The parameters are
    ``w = [emissions (K x d), transitions (K x K), start (K), end (K), bias (K)]``, where the last three exist only on
    request; ``unpack(w)`` names them.  With ``pairs="seen"`` only those pairs of feature and label, and of label and
    next label, that occur in a true labeling have weights, and all other weights are zero; ``SeenPairs`` are those of
    other sequences too.

    >>> risk = ChainRisk([[[1.0], [2.0]], [[-1.0]]], [[0, 1], [1]], CRF())
    >>> risk.n_params, risk.decode(np.array([-1.0, 1.0, 0.0, 0.0, 0.0, 0.0]))
    (6, array([1, 1, 0]))
    """

    def __init__(
        self,
        X: Any,
        y: Any,
        loss: ChainLoss,
        lengths: Any = None,
        sample_weight: Any = None,
        *,
        start: bool = False,
        end: bool = False,
        bias: bool = False,
        n_labels: int | None = None,
        pairs: Literal["all", "seen"] | SeenPairs = "all",
    ) -> None:
        known = isinstance(pairs, SeenPairs)
        require(known or pairs in ("all", "seen"), "`pairs` is 'all' or 'seen'", pairs)
        stacked = stack_sequences(X, lengths)
        stacked = stacked._replace(X=in_memory(stacked.X))
        codes = label_codes(y, stacked.lengths, flat=lengths is not None)
        n_labels = label_count(codes, n_labels)
        chains = Chains(stacked.lengths, n_labels)
        weight = normalized_weights(sample_weight, chains.n_chains)
        has = ChainMask.full(n_labels, start=start, end=end, bias=bias)
        emissions: Emissions
        if pairs == "seen":
            pairs = SeenPairs.of(stacked.X, codes, np.repeat(weight > 0.0, chains.lengths), chains, has)
        if isinstance(pairs, SeenPairs):
            emissions, has = some_pairs(stacked.X, n_labels, pairs.emissions), pairs.has
        else:
            emissions = AllPairs(as_matrix(stacked.X), n_labels)
        self._set(ChainDesign(emissions, chains, has), codes, loss, weight)

    def _set(self, design: ChainDesign, y: Array, loss: ChainLoss, weight: FloatArray) -> None:
        self.y, self.loss, self.weight = y, loss, weight
        super().__init__(design, loss.bind(y, weight, design.chains))
        self.design: ChainDesign = design
        self.n_samples = design.chains.n_chains

    @override
    def along(self, w: FloatArray, direction: FloatArray) -> Line:
        return ChainLine(self, self.design.matvec(w), self.design.matvec(direction))

    @property
    def weights_shape(self) -> tuple[int, int]:
        """Labels and features."""
        return self.design.chains.n_labels, self.design.emissions.n_features

    def unpack(self, w: FloatArray) -> ChainWeights:
        """The named parts of w."""
        return self.design.unpack(w)

    def pack(self, weights: ChainWeights) -> FloatArray:
        """The w of named parts, without those that the model does not have."""
        return self.design.pack(weights)

    def decode(self, w: FloatArray) -> Array:
        """The best labelings of the sequences, concatenated."""
        return self.design.chains.decode(self.design.matvec(w))

    def marginals(self, w: FloatArray) -> FloatArray:
        """The probabilities of the labels, one row per token."""
        return self.design.chains.marginals(self.design.matvec(w))

    @override
    def batch(self, rows: Array) -> Risk:
        whole, part = self.design.chains, ChainRisk.__new__(ChainRisk)
        tokens = whole.tokens_of(rows)
        chains = Chains(whole.lengths[rows], whole.n_labels)
        design = ChainDesign(self.design.emissions.take(tokens), chains, self.design.has)
        part._set(design, self.y[tokens], self.loss, self.weight[rows] * (self.n_samples / len(rows)))
        return part
