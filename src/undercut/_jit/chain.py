"""Dynamic programs on chains, one block of sequences at a time.

Sequence s holds the tokens ``offsets[s] ... offsets[s + 1] - 1``.  A labeling p of n tokens has the score

    start[p_1] + scores[1, p_1] + sum_{t > 1} (trans[p_{t-1}, p_t] + scores[t, p_t]) + end[p_n]

Every block releases the interpreter's lock, and writes to rows and to a matrix of its own.  Arithmetic with whole rows
is written as loops: it takes several times as long to compile otherwise, with messages on shapes that do not fit.
"""

from __future__ import annotations

import math

import numpy as np

from undercut._jit.compile import INNER_ONLY, njit

OPTIONS = {"cache": True, "nogil": True}
INNER = OPTIONS | INNER_ONLY
SAFE_SPREAD = 500.0  # scores that differ by less have exponentials that neither overflow nor vanish beside each other


@njit(**OPTIONS)
def best_paths(scores, trans, start, end, offsets, first, last, labels):
    """The labeling of the highest score of every sequence of a block (Viterbi)."""
    room, best = np.empty((_longest(offsets, first, last), trans.shape[0])), np.empty(trans.shape[0])
    for s in range(first, last):
        low, high = offsets[s], offsets[s + 1]
        nodes = room[: high - low]
        _fill(nodes, scores[low:high], start, end)
        _viterbi(nodes, trans, best, np.int64(0), np.int64(0), labels[low:high])


@njit(**OPTIONS)
def marginals(scores, trans, start, end, offsets, first, last, out):
    """The probability of every label at every token of a block, for ``p(labeling) ~ exp(score)``."""
    unused, path = np.zeros(trans.shape), np.zeros(_longest(offsets, first, last), np.int64)
    room = _room(path.size, trans)
    for s in range(first, last):
        low, high = offsets[s], offsets[s + 1]
        nodes = out[low:high]
        _fill(nodes, scores[low:high], start, end)
        _forward_backward(nodes, path, trans, room, 0.0, unused, unused)


@njit(**OPTIONS)
def crf(scores, trans, start, end, y, weight, offsets, first, last, slopes, pairs):
    """``sum_s weight_s log(Z_s / exp(score of y_s))`` over a block.

    Fills ``slopes`` with its derivatives in the block's scores and adds to ``pairs`` the weighted expected numbers of
    transitions; those of y itself are the caller's.
    """
    total, scaled = 0.0, np.zeros(trans.shape)
    room = _room(_longest(offsets, first, last), trans)
    for s in range(first, last):
        low, high = offsets[s], offsets[s + 1]
        nodes, path = slopes[low:high], y[low:high]
        value = 0.0
        if weight[s] != 0.0:  # without weight it may overflow
            _fill(nodes, scores[low:high], start, end)
            _shift_to(nodes, path)
            value = _forward_backward(nodes, path, trans, room, weight[s], scaled, pairs)
        total += 0.0 if value < 0.0 else weight[s] * value
        for t in range(path.size):
            for j in range(trans.shape[0]):
                nodes[t, j] = weight[s] * nodes[t, j] if weight[s] != 0.0 else 0.0
            nodes[t, path[t]] -= weight[s]
    for i in range(trans.shape[0]):
        for j in range(trans.shape[0]):
            pairs[i, j] += scaled[i, j] * room[0][i, j]
    return total


@njit(**OPTIONS)
def m3n(scores, trans, start, end, label_loss, y, weight, offsets, first, last, slopes, pairs):
    """``sum_s weight_s max_p (score of p + sum_t label_loss[y_t, p_t] - score of y_s)`` over a block.

    Fills ``slopes`` with a subgradient in the block's scores and adds to ``pairs`` the weighted numbers of transitions
    of the maximizing p; those of y are the caller's.  Labels that tie win in turn from token to token: at w = 0, where
    all of them do, the sum is then about the mean of all subgradients, which says more than any one of them.
    """
    total, K = 0.0, trans.shape[0]
    room, best = np.empty(_longest(offsets, first, last), np.int64), np.empty(K)
    for s in range(first, last):
        low, high = offsets[s], offsets[s + 1]
        nodes, own, gold, path = slopes[low:high], scores[low:high], y[low:high], room[: high - low]
        if weight[s] != 0.0:
            _fill(nodes, own, start, end)
            for t in range(gold.size):
                for j in range(K):
                    nodes[t, j] += label_loss[gold[t], j]
            _viterbi(nodes, trans, best, low, np.int64(1), path)
            value = _excess(own, trans, start, end, label_loss, gold, path)
            total += 0.0 if value < 0.0 else weight[s] * value
        for t in range(gold.size):
            for j in range(K):
                nodes[t, j] = 0.0
            if weight[s] != 0.0:
                nodes[t, path[t]] += weight[s]
                nodes[t, gold[t]] -= weight[s]
                if t > 0:
                    pairs[path[t - 1], path[t]] += weight[s]
    return total


@njit(**INNER)
def _longest(offsets, first, last):
    longest = 0
    for s in range(first, last):
        longest = max(longest, offsets[s + 1] - offsets[s])
    return longest


@njit(**INNER)
def _fill(nodes, scores, start, end):
    """The scores of a sequence's tokens, those of its ends included."""
    n, K = nodes.shape
    for t in range(n):
        for j in range(K):
            nodes[t, j] = scores[t, j]
    for j in range(K):
        nodes[0, j] += start[j]
        nodes[n - 1, j] += end[j]


@njit(**INNER)
def _shift_to(nodes, path):
    """Subtract the score of a path's label from every token's: its sum would cancel later, and less exactly."""
    for t in range(path.size):
        own = nodes[t, path[t]]
        for j in range(nodes.shape[1]):
            nodes[t, j] -= own


@njit(**INNER)
def _viterbi(nodes, trans, best, first, turn, path):
    """The best path; ``nodes`` becomes the score of the best way to each label, up to a constant per token.

    Of labels that tie at token t the first from ``first + turn t`` on wins.
    """
    n, K = nodes.shape
    for t in range(1, n):
        highest = nodes[t - 1, 0]
        for j in range(K):
            best[j] = -math.inf
            highest = nodes[t - 1, j] if nodes[t - 1, j] > highest else highest
        for i in range(K):
            nodes[t - 1, i] -= highest  # long sums would lose the digits that tell paths apart
            so_far = nodes[t - 1, i]
            for j in range(K):
                way = so_far + trans[i, j]
                best[j] = way if way > best[j] else best[j]
        for j in range(K):
            nodes[t, j] += best[j]
    for t in range(n - 1, -1, -1):  # the same sums as above: which won is cheaper to ask again than to remember
        if t == n - 1:
            for i in range(K):
                best[i] = nodes[t, i]
        else:
            for i in range(K):
                best[i] = nodes[t, i] + trans[i, path[t + 1]]
        path[t] = _winner(best, first + turn * t)


@njit(**INNER)
def _winner(scores, start):
    """``argmax_i scores[i]``; of several the first from ``start`` on, as on a clock."""
    K = scores.size
    winner = at = start % K
    for _ in range(K):
        if scores[at] > scores[winner]:
            winner = at
        at = at + 1 if at + 1 < K else 0
    return winner


@njit(**INNER)
def _excess(scores, trans, start, end, label_loss, gold, path):
    """Score and loss of a path above the score of the true one."""
    n = path.size
    value = start[path[0]] - start[gold[0]] + end[path[n - 1]] - end[gold[n - 1]]
    for t in range(n):
        value += scores[t, path[t]] - scores[t, gold[t]] + label_loss[gold[t], path[t]]
        if t > 0:
            value += trans[path[t - 1], path[t]] - trans[gold[t - 1], gold[t]]
    return value


@njit(**INNER)
def _room(longest, trans):
    """Exponentials of the transitions, those transposed, and room for: factors, norms, and three vectors of labels."""
    K = trans.shape[0]
    _, top = _range(trans)
    factors, backward = np.empty((K, K)), np.empty((K, K))
    for i in range(K):
        for j in range(K):
            factors[i, j] = backward[j, i] = math.exp(trans[i, j] - top)
    return factors, backward, np.empty((longest, K)), np.empty(longest), np.empty((3, K))


@njit(**INNER)
def _range(table):
    """The least and the greatest entry."""
    low, high = math.inf, -math.inf
    for t in range(table.shape[0]):
        for j in range(table.shape[1]):
            low, high = min(low, table[t, j]), max(high, table[t, j])
    return low, high


@njit(**INNER, inline="always")
def _forward_backward(nodes, path, trans, room, weight, scaled, pairs):
    """The log of the sum over all labelings, less the transitions of ``path``; ``nodes`` becomes their probabilities.

    Expected transitions times ``weight`` are added to ``pairs``, or divided by ``exp(trans - max trans)`` to
    ``scaled``.
    """
    spread, (least, top) = 0.0, _range(trans)
    for t in range(nodes.shape[0]):
        low, high = math.inf, -math.inf
        for j in range(nodes.shape[1]):
            low, high = min(low, nodes[t, j]), max(high, nodes[t, j])
        spread = max(spread, high - low)
    if top - least + spread <= SAFE_SPREAD:
        return _scaled(nodes, path, trans, top, room, weight, scaled)
    return _logarithmic(nodes, path, trans, room, weight, pairs)


@njit(**INNER)
def _scaled(nodes, path, trans, top, room, weight, pairs):
    """Forward-backward on exponentials, normalized at every token.

    Ratios of forward weights at a token are at least ``exp(-spread)``, so nothing that counts can vanish.
    """
    n, K = nodes.shape
    factors, backward, own, norms, vectors = room
    value = 0.0
    for t in range(n):
        high, norm = nodes[t, 0], 0.0
        for j in range(K):
            high = max(high, nodes[t, j])
        for j in range(K):
            own[t, j] = math.exp(nodes[t, j] - high)
            nodes[t, j] = 1.0 if t == 0 else 0.0
        if t > 0:
            _add_times(nodes, t - 1, factors, nodes, t)
            value += top - trans[path[t - 1], path[t]]
        for j in range(K):
            nodes[t, j] *= own[t, j]
            norm += nodes[t, j]
        for j in range(K):
            nodes[t, j] /= norm
        norms[t] = norm
        value += high + math.log(norm)
    for j in range(K):
        vectors[0, j] = 1.0
    for t in range(n - 1, 0, -1):
        for j in range(K):
            nodes[t, j] *= vectors[0, j]
            vectors[1, j] = own[t, j] * vectors[0, j] / norms[t]
            vectors[0, j] = 0.0
        for i in range(K):
            share = weight * nodes[t - 1, i]
            for j in range(K):
                pairs[i, j] += share * vectors[1, j]
        _add_times(vectors, np.int64(1), backward, vectors, np.int64(0))
    for j in range(K):
        nodes[0, j] *= vectors[0, j]
    return value


@njit(**INNER)
def _add_times(V, at, M, out, to):
    """Add ``M' v`` to a row, for another row v: without reductions, which could not be vectorized."""
    for i in range(M.shape[0]):
        factor = V[at, i]
        for j in range(M.shape[1]):
            out[to, j] += factor * M[i, j]


@njit(**INNER)
def _logarithmic(nodes, path, trans, room, weight, pairs):
    """Forward-backward on logarithms: slower, for scores of any size."""
    n, K = nodes.shape
    _, _, own, _, vectors = room
    beta, move, ways = vectors[0], vectors[1], vectors[2]
    value = 0.0
    for t in range(n):
        for j in range(K):
            own[t, j] = nodes[t, j]
        if t > 0:
            for j in range(K):
                for i in range(K):
                    ways[i] = nodes[t - 1, i] + trans[i, j]
                nodes[t, j] += log_sum(ways)
            value -= trans[path[t - 1], path[t]]
        norm = log_sum(nodes[t])
        for j in range(K):
            nodes[t, j] -= norm
            beta[j] = 0.0
        value += norm
    for t in range(n - 1, 0, -1):
        for j in range(K):
            move[j] = own[t, j] + beta[j]
            nodes[t, j] = math.exp(nodes[t, j] + beta[j])
        for i in range(K):
            for j in range(K):
                ways[j] = trans[i, j] + move[j]
            beta[i] = log_sum(ways)
        for i in range(K):
            ways[i] = nodes[t - 1, i] + beta[i]
        norm = log_sum(ways)
        for i in range(K):
            beta[i] -= norm  # now the forward and backward weights of a token multiply to probabilities, without drift
            for j in range(K):
                pairs[i, j] += weight * math.exp(nodes[t - 1, i] + trans[i, j] + move[j] - norm)
    for j in range(K):
        nodes[0, j] = math.exp(nodes[0, j] + beta[j])
    return value


@njit(**OPTIONS)
def log_sum(values):
    """``log sum exp``."""
    high, total = -math.inf, 0.0
    for j in range(values.size):
        high = max(high, values[j])
    for j in range(values.size):
        total += math.exp(values[j] - high)
    return high + math.log(total)
