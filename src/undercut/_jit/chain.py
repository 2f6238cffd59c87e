"""Dynamic programs on chains, one block of sequences at a time.

Sequence s holds the tokens ``offsets[s] ... offsets[s + 1] - 1``.  A labeling p of n tokens has the score

    start[p_1] + scores[1, p_1] + sum_{t > 1} (trans[p_{t-1}, p_t] + scores[t, p_t]) + end[p_n]

Every block releases the interpreter's lock, and writes to rows and to a matrix of its own.
"""

from __future__ import annotations

import math

import numpy as np

from undercut._jit.compile import njit

SAFE_SPREAD = 500.0  # scores that differ by less have exponentials that neither overflow nor vanish beside each other


@njit(cache=True, nogil=True)
def best_paths(scores, trans, start, end, offsets, first, last, labels):
    """The labeling of the highest score of every sequence of a block (Viterbi)."""
    nodes = np.empty((_longest(offsets, first, last), trans.shape[0]))
    backward, best = np.ascontiguousarray(trans.T), np.empty(trans.shape[0])
    for s in range(first, last):
        low, high = offsets[s], offsets[s + 1]
        _fill(nodes[: high - low], scores[low:high], start, end)
        _viterbi(nodes[: high - low], trans, backward, best, 0, 0, labels[low:high])


@njit(cache=True, nogil=True)
def marginals(scores, trans, start, end, offsets, first, last, out):
    """The probability of every label at every token of a block, for ``p(labeling) ~ exp(score)``."""
    unused, path = np.zeros(trans.shape), np.zeros(_longest(offsets, first, last), np.int64)
    room = _room(path.size, trans)
    for s in range(first, last):
        low, high = offsets[s], offsets[s + 1]
        _fill(out[low:high], scores[low:high], start, end)
        _forward_backward(out[low:high], path, trans, room, 0.0, unused, unused)


@njit(cache=True, nogil=True)
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
        if weight[s] == 0.0:  # may overflow without counting
            nodes[:] = 0.0
            continue
        _fill(nodes, scores[low:high], start, end)
        _shift_to(nodes, path)
        value = _forward_backward(nodes, path, trans, room, weight[s], scaled, pairs)
        total += 0.0 if value < 0.0 else weight[s] * value
        nodes *= weight[s]
        for t in range(path.size):
            nodes[t, path[t]] -= weight[s]
    pairs += scaled * room[0]
    return total


@njit(cache=True, nogil=True)
def m3n(scores, trans, start, end, label_loss, y, weight, offsets, first, last, slopes, pairs):
    """``sum_s weight_s max_p (score of p + sum_t label_loss[y_t, p_t] - score of y_s)`` over a block.

    Fills ``slopes`` with a subgradient in the block's scores and adds to ``pairs`` the weighted numbers of transitions
    of the maximizing p; those of y are the caller's.  Labels that tie win in turn from token to token: at w = 0, where
    all of them do, the sum is then about the mean of all subgradients, which says more than any one of them.
    """
    total = 0.0
    room = np.empty(_longest(offsets, first, last), np.int64)
    backward, best = np.ascontiguousarray(trans.T), np.empty(trans.shape[0])
    for s in range(first, last):
        low, high = offsets[s], offsets[s + 1]
        nodes, gold, path = slopes[low:high], y[low:high], room[: high - low]
        if weight[s] == 0.0:
            nodes[:] = 0.0
            continue
        _fill(nodes, scores[low:high], start, end)
        for t in range(gold.size):
            nodes[t] += label_loss[gold[t]]
        _viterbi(nodes, trans, backward, best, low, 1, path)
        value = _excess(scores[low:high], trans, start, end, label_loss, gold, path)
        total += 0.0 if value < 0.0 else weight[s] * value
        nodes[:] = 0.0
        for t in range(path.size):
            nodes[t, path[t]] += weight[s]
            nodes[t, gold[t]] -= weight[s]
            if t > 0:
                pairs[path[t - 1], path[t]] += weight[s]
    return total


@njit(cache=True, nogil=True)
def _longest(offsets, first, last):
    longest = 0
    for s in range(first, last):
        longest = max(longest, offsets[s + 1] - offsets[s])
    return longest


@njit(cache=True, nogil=True)
def _fill(nodes, scores, start, end):
    """The scores of a sequence's tokens, those of its ends included."""
    nodes[:] = scores
    nodes[0] += start
    nodes[-1] += end


@njit(cache=True, nogil=True)
def _shift_to(nodes, path):
    """Subtract the score of a path's label from every token's: its sum would cancel later, and less exactly."""
    for t in range(path.size):
        nodes[t] -= nodes[t, path[t]]


@njit(cache=True, nogil=True)
def _viterbi(nodes, trans, backward, best, first, turn, path):
    """The best path; ``nodes`` becomes the score of the best way to each label, up to a constant per token.

    Of labels that tie at token t the first from ``first + turn t`` on wins.
    """
    n, K = nodes.shape
    for t in range(1, n):
        before, here = nodes[t - 1], nodes[t]
        before -= before.max()  # long sums would lose the digits that tell paths apart
        best[:] = -np.inf
        for i in range(K):
            so_far, row = before[i], trans[i]
            for j in range(K):
                way = so_far + row[j]
                best[j] = way if way > best[j] else best[j]
        for j in range(K):
            here[j] += best[j]
    best[:] = 0.0
    path[n - 1] = _winner(nodes[n - 1], best, first + turn * (n - 1))
    for t in range(n - 1, 0, -1):  # the same sums as above: which won is cheaper to ask again than to remember
        path[t - 1] = _winner(nodes[t - 1], backward[path[t]], first + turn * (t - 1))


@njit(cache=True, nogil=True)
def _winner(scores, others, start):
    """``argmax_i scores[i] + others[i]``; of several the first from ``start`` on, as on a clock."""
    K = scores.size
    winner = at = start % K
    for _ in range(K):
        if scores[at] + others[at] > scores[winner] + others[winner]:
            winner = at
        at = at + 1 if at + 1 < K else 0
    return winner


@njit(cache=True, nogil=True)
def _excess(scores, trans, start, end, label_loss, gold, path):
    """Score and loss of a path above the score of the true one."""
    n = path.size
    value = start[path[0]] - start[gold[0]] + end[path[n - 1]] - end[gold[n - 1]]
    for t in range(n):
        value += scores[t, path[t]] - scores[t, gold[t]] + label_loss[gold[t], path[t]]
        if t > 0:
            value += trans[path[t - 1], path[t]] - trans[gold[t - 1], gold[t]]
    return value


@njit(cache=True, nogil=True)
def _room(longest, trans):
    """Exponentials of the transitions, those transposed, and room for: factors, norms, and three vectors of labels."""
    K = trans.shape[0]
    factors = np.exp(trans - trans.max())
    return factors, np.ascontiguousarray(factors.T), np.empty((longest, K)), np.empty(longest), np.empty((3, K))


@njit(cache=True, nogil=True)
def _forward_backward(nodes, path, trans, room, weight, scaled, pairs):
    """The log of the sum over all labelings, less the transitions of ``path``; ``nodes`` becomes their probabilities.

    Expected transitions times ``weight`` are added to ``pairs``, or divided by ``exp(trans - max trans)`` to
    ``scaled``.
    """
    spread = 0.0
    for t in range(nodes.shape[0]):
        spread = max(spread, nodes[t].max() - nodes[t].min())
    if trans.max() - trans.min() + spread <= SAFE_SPREAD:
        return _scaled(nodes, path, trans, room, weight, scaled)
    return _logarithmic(nodes, path, trans, room, weight, pairs)


@njit(cache=True, nogil=True)
def _scaled(nodes, path, trans, room, weight, pairs):
    """Forward-backward on exponentials, normalized at every token.

    Ratios of forward weights at a token are at least ``exp(-spread)``, so nothing that counts can vanish.
    """
    n, K = nodes.shape
    factors, backward, own, norms, vectors = room
    beta, move = vectors[0], vectors[1]
    value, top = 0.0, trans.max()
    for t in range(n):
        here, e, high = nodes[t], own[t], nodes[t].max()
        for j in range(K):
            e[j] = math.exp(here[j] - high)
        if t > 0:
            _times(nodes[t - 1], factors, here)
            here *= e
            value += top - trans[path[t - 1], path[t]]
        else:
            here[:] = e
        norms[t] = here.sum()
        here /= norms[t]
        value += high + math.log(norms[t])
    beta[:] = 1.0
    for t in range(n - 1, 0, -1):
        for j in range(K):
            nodes[t, j] *= beta[j]
            move[j] = own[t, j] * beta[j] / norms[t]
        for i in range(K):
            share, row = weight * nodes[t - 1, i], pairs[i]
            for j in range(K):
                row[j] += share * move[j]
        _times(move, backward, beta)
    nodes[0] *= beta
    return value


@njit(cache=True, nogil=True)
def _times(v, M, out):
    """``out = M' v``, without the reductions that could not be vectorized."""
    out[:] = 0.0
    for i in range(v.size):
        factor, row = v[i], M[i]
        for j in range(out.size):
            out[j] += factor * row[j]


@njit(cache=True, nogil=True)
def _logarithmic(nodes, path, trans, room, weight, pairs):
    """Forward-backward on logarithms: slower, for scores of any size."""
    n, K = nodes.shape
    _, _, own, _, vectors = room
    beta, move, ways = vectors[0], vectors[1], vectors[2]
    value = 0.0
    for t in range(n):
        own[t] = nodes[t]
        if t > 0:
            for j in range(K):
                for i in range(K):
                    ways[i] = nodes[t - 1, i] + trans[i, j]
                nodes[t, j] += log_sum(ways)
            value -= trans[path[t - 1], path[t]]
        norm = log_sum(nodes[t])
        nodes[t] -= norm
        value += norm
    beta[:] = 0.0
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
        beta -= norm  # now the forward and backward weights of a token multiply to probabilities, without drift
        for i in range(K):
            for j in range(K):
                pairs[i, j] += weight * math.exp(nodes[t - 1, i] + trans[i, j] + move[j] - norm)
    for j in range(K):
        nodes[0, j] = math.exp(nodes[0, j] + beta[j])
    return value


@njit(cache=True, nogil=True)
def log_sum(values):
    """``log sum exp``."""
    high, total = values.max(), 0.0
    for value in values:
        total += math.exp(value - high)
    return high + math.log(total)
