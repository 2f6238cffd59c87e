"""Best paths through left-to-right hidden Markov models of words.

Word c has the states ``c S ... c S + S - 1``.  A path enters a word in its first state, stays or moves on to the next
state from frame to frame, and leaves the word from its last one.  Its score is

    sum_t nodes[t, q_t] + sum of stay[q] where it stays, leave[q] where it moves on from q, enter[c] where it enters c

``nodes`` are the scores of the frames in the states, the largest over the Gaussians of a state; ``which`` tells which
Gaussian.  Kernels work on one block of utterances, write to arrays of their own and release the interpreter's lock.
"""

from __future__ import annotations

import numpy as np

from undercut._jit.compile import njit


@njit(cache=True, nogil=True)
def largest(scores, nodes, which):
    """The largest of the scores of a state's Gaussians, which are neighbours, and its number among them."""
    n, n_states = nodes.shape
    n_mixtures = scores.shape[1] // n_states
    for t in range(n):
        for q in range(n_states):
            best = 0
            for m in range(1, n_mixtures):
                if scores[t, q * n_mixtures + m] > scores[t, q * n_mixtures + best]:
                    best = m
            which[t, q] = best
            nodes[t, q] = scores[t, q * n_mixtures + best]


@njit(cache=True, nogil=True)
def word_scores(nodes, stay, leave, enter, offsets, first, last, out):
    """The score of the best path of every utterance of a block through every single word."""
    n_words, base = enter.size, offsets[first]
    n_states = stay.size // n_words
    for s in range(first, last):
        _score_words(nodes[offsets[s] - base : offsets[s + 1] - base], stay, leave, enter, n_states, out[s])


@njit(cache=True, nogil=True)
def _score_words(nodes, stay, leave, enter, n_states, out):
    ways = np.empty(n_states)
    for c in range(enter.size):
        q0 = c * n_states
        ways[:] = -np.inf
        ways[0] = enter[c] + nodes[0, q0]
        for t in range(1, nodes.shape[0]):
            for s in range(n_states - 1, 0, -1):
                on, moved = ways[s] + stay[q0 + s], ways[s - 1] + leave[q0 + s - 1]
                ways[s] = (on if on >= moved else moved) + nodes[t, q0 + s]
            ways[0] += stay[q0] + nodes[t, q0]
        out[c] = ways[n_states - 1] + leave[q0 + n_states - 1]


@njit(cache=True, nogil=True)
def align(nodes, stay, leave, enter, words, n_states, path, begins):
    """The best path through the given words, one after the other, and its score.

    ``path`` gets the state of every frame, ``begins`` whether the frame is the first of a word.
    """
    n, length = nodes.shape[0], words.size * n_states
    ways, moved = np.full(length, -np.inf), np.zeros((n, length), np.bool_)
    ways[0] = enter[words[0]] + nodes[0, words[0] * n_states]
    for t in range(1, n):
        for at in range(min(t, length - 1), 0, -1):
            word, s = words[at // n_states], at % n_states
            if s > 0:
                before, bonus = word * n_states + s - 1, 0.0
            else:
                before, bonus = words[at // n_states - 1] * n_states + n_states - 1, enter[word]
            on, move = ways[at] + stay[word * n_states + s], ways[at - 1] + leave[before] + bonus
            moved[t, at] = move > on
            ways[at] = max(on, move) + nodes[t, word * n_states + s]
        ways[0] += stay[words[0] * n_states] + nodes[t, words[0] * n_states]
    at = length - 1
    for t in range(n - 1, -1, -1):
        path[t] = words[at // n_states] * n_states + at % n_states
        begins[t] = at % n_states == 0 and (t == 0 or moved[t, at])
        at -= moved[t, at]
    return ways[length - 1] + leave[path[n - 1]]


@njit(cache=True, nogil=True)
def loop(nodes, stay, leave, enter, n_states, path, begins):
    """The best path through any words, one after the other, and its score; at least ``n_states`` frames."""
    n, n_words = nodes.shape[0], enter.size
    ways, moved = np.full(stay.size, -np.inf), np.zeros((n, stay.size), np.bool_)
    ended = np.zeros(n, np.int64)  # the word that ends best with the frame
    for c in range(n_words):
        ways[c * n_states] = enter[c] + nodes[0, c * n_states]
    for t in range(1, n):
        end = _best_end(ways, leave, n_states)
        exit = ways[end * n_states + n_states - 1] + leave[end * n_states + n_states - 1]
        ended[t - 1] = end
        for c in range(n_words):
            for q in range(c * n_states + n_states - 1, c * n_states - 1, -1):
                on = ways[q] + stay[q]
                move = ways[q - 1] + leave[q - 1] if q > c * n_states else exit + enter[c]
                moved[t, q] = move > on
                ways[q] = max(on, move) + nodes[t, q]
    ended[n - 1] = _best_end(ways, leave, n_states)
    q = ended[n - 1] * n_states + n_states - 1
    score = ways[q] + leave[q]
    for t in range(n - 1, -1, -1):
        path[t] = q
        first = q % n_states == 0
        begins[t] = first and (t == 0 or moved[t, q])
        if t > 0 and moved[t, q]:
            q = ended[t - 1] * n_states + n_states - 1 if first else q - 1
    return score


@njit(cache=True, nogil=True)
def _best_end(ways, leave, n_states):
    """The word whose last state has the best way out."""
    best = 0
    for c in range(1, ways.size // n_states):
        q, top = c * n_states + n_states - 1, best * n_states + n_states - 1
        if ways[q] + leave[q] > ways[top] + leave[top]:
            best = c
    return best


@njit(cache=True, nogil=True)
def isolated(nodes, which, moments, stay, leave, enter, y, weight, margin, offsets, first, last, slopes, moves):
    """``sum_s weight_s max_c (F_c + margin [c != y_s] - F_{y_s})`` over a block, F a score per frame.

    ``slopes`` (Gaussians x moments) and ``moves`` (stay, leave, enter, one after the other) get a subgradient added.
    """
    n_words, base, total = enter.size, offsets[first], 0.0
    n_states = stay.size // n_words
    scores, words = np.empty(n_words), np.empty(1, np.int64)
    for s in range(first, last):
        low, high = offsets[s] - base, offsets[s + 1] - base
        if weight[s] == 0.0:
            continue
        _score_words(nodes[low:high], stay, leave, enter, n_states, scores)
        worst, value = y[s], 0.0
        for c in range(n_words):
            excess = (scores[c] - scores[y[s]]) / (high - low) + margin
            if c != y[s] and not excess <= value:
                worst, value = c, excess
        if worst == y[s]:
            continue
        total += weight[s] * value
        path, begins = np.empty(high - low, np.int64), np.empty(high - low, np.bool_)
        for c, sign in ((worst, 1.0), (y[s], -1.0)):
            words[0] = c
            align(nodes[low:high], stay, leave, enter, words, n_states, path, begins)
            share = sign * weight[s] / (high - low)
            _add_path(path, begins, which[low:high], moments[low:high], share, n_states, slopes, moves)
    return total


@njit(cache=True, nogil=True)
def connected(nodes, which, moments, stay, leave, enter, labels, words, ends, weight, margin, offsets, first, last,
              slopes, moves):  # fmt: skip
    """``sum_s weight_s max_p (F(p) + margin share of frames in a wrong word - F(best path of the true words))``.

    ``labels`` are the true words of the frames; utterance s consists of ``words[ends[s] : ends[s + 1]]``.
    """
    base, total = offsets[first], 0.0
    n_states = stay.size // enter.size
    for s in range(first, last):
        low, high = offsets[s] - base, offsets[s + 1] - base
        if weight[s] == 0.0:
            continue
        here, n = nodes[low:high], high - low
        paths, begins = np.empty((2, n), np.int64), np.empty((2, n), np.bool_)
        true = align(here, stay, leave, enter, words[ends[s] : ends[s + 1]], n_states, paths[0], begins[0])
        for t in range(n):
            for q in range(here.shape[1]):
                here[t, q] += margin
            for q in range(labels[offsets[s] + t] * n_states, (labels[offsets[s] + t] + 1) * n_states):
                here[t, q] -= margin
        value = (loop(here, stay, leave, enter, n_states, paths[1], begins[1]) - true) / n
        if value <= 0.0:
            continue
        total += weight[s] * value
        for at in range(2):
            share = (1.0 if at else -1.0) * weight[s] / n
            _add_path(paths[at], begins[at], which[low:high], moments[low:high], share, n_states, slopes, moves)
    return total


@njit(cache=True, nogil=True)
def _add_path(path, begins, which, moments, share, n_states, slopes, moves):
    """Add the derivatives of a path's score, times ``share``."""
    n_mixtures, n_all = slopes.shape[0] // which.shape[1], which.shape[1]
    for t in range(path.size):
        q = path[t]
        row, moment = slopes[q * n_mixtures + which[t, q]], moments[t]
        for j in range(moment.size):
            row[j] += share * moment[j]
        if begins[t]:
            moves[2 * n_all + q // n_states] += share
        if t > 0 and (begins[t] or path[t - 1] != q):
            moves[n_all + path[t - 1]] += share
        elif t > 0:
            moves[q] += share
    moves[n_all + path[path.size - 1]] += share
