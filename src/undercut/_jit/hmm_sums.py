"""The forward-backward recursion of a left-to-right hidden Markov model, on logarithms."""

from __future__ import annotations

import math

import numpy as np

from undercut._jit.chain import log_sum
from undercut._jit.compile import njit


@njit(cache=True, nogil=True)
def expect(scores, stay, leave, offsets, weight, moves):
    """The weighted sum of the log-likelihoods of utterances of one word.

    ``scores`` of frames and Gaussians become the weighted probabilities of the Gaussians; ``moves`` (2 x states) gets
    the expected numbers of times that a path stays in a state and leaves it added.
    """
    n_states, total = stay.size, 0.0
    n_mixtures = scores.shape[1] // n_states
    for s in range(weight.size):
        here = scores[offsets[s] : offsets[s + 1]]
        n = here.shape[0]
        nodes = np.empty((n, n_states))
        for t in range(n):
            for q in range(n_states):
                nodes[t, q] = log_sum(here[t, q * n_mixtures : (q + 1) * n_mixtures])
        forward, backward = np.full((n, n_states), -np.inf), np.full((n, n_states), -np.inf)
        forward[0, 0] = nodes[0, 0]
        for t in range(1, n):
            for q in range(min(n_states, t + 1)):
                way = forward[t - 1, q] + stay[q]
                if q > 0:
                    way = _log_add(way, forward[t - 1, q - 1] + leave[q - 1])
                forward[t, q] = way + nodes[t, q]
        backward[n - 1, n_states - 1] = leave[n_states - 1]
        value = forward[n - 1, n_states - 1] + leave[n_states - 1]
        for t in range(n - 2, -1, -1):
            for q in range(n_states):
                on = stay[q] + nodes[t + 1, q] + backward[t + 1, q]
                move = leave[q] + nodes[t + 1, q + 1] + backward[t + 1, q + 1] if q + 1 < n_states else -np.inf
                backward[t, q] = _log_add(on, move)
                moves[0, q] += weight[s] * math.exp(forward[t, q] + on - value)
                moves[1, q] += weight[s] * math.exp(forward[t, q] + move - value)
        moves[1, n_states - 1] += weight[s]
        total += weight[s] * value
        for t in range(n):
            for q in range(n_states):
                share = forward[t, q] + backward[t, q] - value - nodes[t, q]
                for k in range(q * n_mixtures, (q + 1) * n_mixtures):
                    here[t, k] = weight[s] * math.exp(share + here[t, k])
    return total


@njit(cache=True, nogil=True)
def _log_add(a, b):
    high, low = max(a, b), min(a, b)
    return high if low == -np.inf else high + math.log1p(math.exp(low - high))
