"""Restricted Boltzmann machines by contrastive divergence, stacked (Hinton et al. 2006; Hinton 2010 for the settings).

A machine of binary units v and h has ``p(v, h) ~ exp(h'Wv + b'h + c'v)``.  One step of Gibbs sampling from the data
gives a direction that approximates the gradient of the likelihood:

    v -> h ~ p(h | v) -> v' = p(v | h) -> h' = p(h | v'),        W += step (h v' - h' v'')

The next machine learns from the probabilities of the hidden units of the last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from undercut.devices import cast, dtype_name, on_host, sent, sigmoid, to_host, uniform_like
from undercut.errors import DataError, require, require_count
from undercut.maps.networks import Layer, checked_sizes
from undercut.threads import all_threads

FIRST_SCALE = 0.01  # standard deviation of the first weights
FIRST_PASSES, FIRST_MOMENTUM = 5, 0.5
LEAST_SHARE = 0.01  # of a unit that is on, and of one that is off, in its first bias


@dataclass(frozen=True)
class ContrastiveDivergence:
    """Stochastic steps of contrastive divergence, one pass after the other over batches in random order.

    ``momentum`` holds from the sixth pass on, and is 0.5 before.

    >>> rng = np.random.default_rng(0)
    >>> X = np.repeat(np.eye(2), 50, axis=0)
    >>> (first, second) = ContrastiveDivergence(n_passes=5).layers(X, (3, 2), rng)
    >>> first.W.shape, second.W.shape, second.b.shape
    ((3, 2), (2, 3), (2,))
    """

    n_passes: int = 20
    step_size: float = 0.1
    momentum: float = 0.9
    batch_size: int = 100
    decay: float = 2e-4  # of the weights, relative to the step

    def __post_init__(self) -> None:
        require_count("n_passes", self.n_passes)
        require_count("batch_size", self.batch_size)
        require(0.0 < self.step_size < np.inf, "`step_size` must be positive and finite", self.step_size)
        require(0.0 <= self.momentum < 1.0, "`momentum` must be in [0, 1)", self.momentum)
        require(0.0 <= self.decay < np.inf, "`decay` must be at least 0 and finite", self.decay)

    def layers(self, X: Any, hidden: Sequence[int], rng: np.random.Generator) -> list[Layer]:
        """The stacked layers from the rows of X to the hidden units; on the device of X and in its precision."""
        X = X.toarray() if sp.issparse(X) else X
        check_binary(X)
        layers = []
        with all_threads(X.shape[0] * X.shape[1]):
            for size in checked_sizes(hidden):
                layers.append(_Machine(X, size, rng).learned(self, rng))
                X = layers[-1].probabilities(X)
        return [Layer(machine.W, machine.b) for machine in layers]


def check_binary(X: Any) -> None:
    """Refuse values that are no probabilities of a binary unit."""
    low, high = float(X.min()), float(X.max())
    if not 0.0 <= low <= high <= 1.0:
        raise DataError(
            f"a binary Boltzmann machine needs features in [0, 1]; got values from {low:g} to {high:g}: scale them, "
            "or start without pretraining"
        )


class _Machine:
    """Weights of one machine: W of hidden by visible units, the biases b of hidden and c of visible ones."""

    def __init__(self, X: Any, size: int, rng: np.random.Generator) -> None:
        self.X = X
        share = np.clip(to_host(X.sum(0)) / X.shape[0], LEAST_SHARE, 1.0 - LEAST_SHARE)
        self.W = sent(FIRST_SCALE * rng.standard_normal((size, X.shape[1])), X)
        self.b = sent(np.zeros(size), X)
        self.c = sent(np.log(share / (1.0 - share)), X)

    def probabilities(self, v: Any) -> Any:
        """``p(h | v)``."""
        return sigmoid(v @ self.W.T + self.b)

    def learned(self, settings: ContrastiveDivergence, rng: np.random.Generator) -> _Machine:
        """The machine after all passes."""
        n = self.X.shape[0]
        speed = [0.0 * part for part in (self.W, self.b, self.c)]
        for number in range(settings.n_passes):
            momentum = settings.momentum if number >= FIRST_PASSES else min(FIRST_MOMENTUM, settings.momentum)
            order = rng.permutation(n)
            for at in range(0, n, settings.batch_size):
                rows = order[at : at + settings.batch_size]
                v = self.X[rows if on_host(self.X) else sent(rows, self.X, "int64")]
                for part, moved, push in zip((self.W, self.b, self.c), speed, self._push(v, rng), strict=True):
                    moved *= momentum
                    moved += settings.step_size * push
                    if part is self.W:
                        moved -= (settings.step_size * settings.decay) * part
                    part += moved
        return self

    def _push(self, v: Any, rng: np.random.Generator) -> tuple[Any, Any, Any]:
        """The direction of one step of contrastive divergence on a batch."""
        h = self.probabilities(v)
        sampled = cast(uniform_like(h, rng) < h, dtype_name(h))
        v_back = sigmoid(sampled @ self.W + self.c)
        h_back = self.probabilities(v_back)
        n = v.shape[0]
        return (h.T @ v - h_back.T @ v_back) / n, (h - h_back).sum(0) / n, (v - v_back).sum(0) / n
