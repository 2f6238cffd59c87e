"""Losses of chains whose scores are tensors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from typing_extensions import override

from undercut.contracts import Evaluation, ScoreFunction
from undercut.devices import library, sent, to_host
from undercut.maps.chains import Chains
from undercut.types import Array, FloatArray


class HostScores(ScoreFunction):
    """A function of scores in main memory, for scores on a device: they are copied, and the slopes are copied back."""

    def __init__(self, phi: ScoreFunction) -> None:
        self.phi = phi

    @override
    def evaluate(self, scores: Any) -> Evaluation:
        at = self.phi.evaluate(to_host(scores))
        return Evaluation(at.value, sent(at.slopes, scores, "float64"))


class DeviceCRFScores(ScoreFunction):
    """Losses of a ``CRF`` on the device of the scores, all sequences at once, with slopes by automatic differentiation.

    The sequences are sorted by length, longest first: step t of the forward recursion then concerns the first n_t of
    them, and no token is padded.

        log alpha_t = e_t + log sum_i exp(log alpha_{t-1}[i] + trans[i, :])
    """

    def __init__(self, y: Array, weight: FloatArray, chains: Chains, near: Any) -> None:
        self.n_labels, self.n_tokens = chains.n_labels, chains.n_tokens
        order = np.argsort(-chains.lengths, kind="stable")
        order = order[weight[order] > 0.0]
        lengths = chains.lengths[order]
        self.counts = [int((lengths > t).sum()) for t in range(int(lengths.max()))]
        tokens = np.concatenate([chains.offsets[order[:n]] + t for t, n in enumerate(self.counts)])
        self.tokens = sent(tokens, near, "int64")
        self.weight = sent(weight[order], near, "float64")
        self.true = sent(_true_counts(y, weight, chains), near, "float64")

    @override
    def evaluate(self, scores: Any) -> Evaluation:
        torch = library(scores)
        leaf = scores.detach().requires_grad_()
        with torch.enable_grad():
            total = self._log_partition(torch, leaf)
            (slopes,) = torch.autograd.grad(total, leaf)
        value = float(total.detach() - self.true @ scores)
        slopes -= self.true
        return Evaluation(max(value, 0.0) if math.isfinite(value) else math.inf, slopes)

    def _log_partition(self, torch: Any, scores: Any) -> Any:
        """``sum_s weight_s log Z_s``."""
        K, T = self.n_labels, self.n_tokens
        emissions, trans, start, end = torch.split(scores, [T * K, K * K, K, K])
        steps = torch.split(emissions.reshape(T, K).index_select(0, self.tokens), self.counts)
        trans, total = trans.reshape(K, K), 0.0
        alpha = steps[0] + start
        for t, n in enumerate(self.counts):
            if t > 0:
                alpha = steps[t] + torch.logsumexp(alpha[:n, :, None] + trans, 1)
            later = self.counts[t + 1] if t + 1 < len(self.counts) else 0
            if later < n:  # sequences that end here
                total = total + self.weight[later:n] @ torch.logsumexp(alpha[later:n] + end, 1)
        return total


def _true_counts(y: Array, weight: FloatArray, chains: Chains) -> FloatArray:
    """The derivatives of ``sum_s weight_s F(y_s)`` in all scores."""
    counts = np.zeros(chains.n_scores)
    parts, each = chains.split(counts), np.repeat(weight, chains.lengths)
    parts.emissions[np.arange(y.size), y] = each
    later = chains.later
    np.add.at(parts.transitions, (y[later - 1], y[later]), each[later])
    np.add.at(parts.start, y[chains.offsets[:-1]], weight)
    np.add.at(parts.end, y[chains.offsets[1:] - 1], weight)
    return counts
