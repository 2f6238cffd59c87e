"""The most violated ranking of relevant and irrelevant documents, by the pairs that it inverts.

A ranking that sorts both kinds by score is the number ``above[j]`` of relevant documents above each irrelevant one,
which does not fall in j.  It inverts the pairs (i, j) with ``i >= above[j]``, and each is worth ``bad[j] - good[i]``,
divided by the number of pairs.  Query q stands in ``starts[q] : starts[q + 1]``, its ``n_good[q]`` relevant documents
first, both kinds by falling score.
"""

from __future__ import annotations

import numpy as np

from undercut._jit.compile import njit


@njit(cache=True)
def worst_average_precision(starts, n_good, scores, slopes, losses):
    """For ``Delta = 1 - average precision``, in time of ``n log n``.

    The i-th relevant document, from 1, with j irrelevant ones above it costs ``1 - i / (i + j)``.  An irrelevant
    document, with j above it, that all but the first a relevant ones are below adds to that cost and to the inverted
    pairs, times the number of pairs and up to a constant,

        sum of good[:a] - a bad[j] - m (H(a + j + 1) + j / (a + j + 1)),        H(k) = 1 + 1/2 + ... + 1/k

    The best a does not fall in j, because the difference between j + 1 and j rises in a.  So every other document is
    placed between its neighbors.
    """
    longest = 0
    for q in range(losses.size):
        longest = max(longest, starts[q + 1] - starts[q])
    harmonic = np.zeros(longest + 2)
    for k in range(1, longest + 2):
        harmonic[k] = harmonic[k - 1] + 1.0 / k
    for q in range(losses.size):
        good, bad = scores[starts[q] : starts[q] + n_good[q]], scores[starts[q] + n_good[q] : starts[q + 1]]
        above = _places(good, bad, harmonic)
        losses[q] = _tell(above, good.size, bad.size, slopes[starts[q] : starts[q + 1]])


@njit(cache=True)
def _places(good, bad, harmonic):
    """How many relevant documents are above each irrelevant one."""
    n, m = good.size, bad.size
    above = np.empty(m, np.int64)
    if n == 0 or m == 0:
        above[:] = n
        return above
    middle = n // 2
    level, sums = good[middle], np.zeros(n + 1)  # from the middle on, so that one far score does not round the others
    for i in range(middle, n):
        sums[i + 1] = sums[i] + (good[i] - level)
    for i in range(middle - 1, -1, -1):
        sums[i] = sums[i + 1] - (good[i] - level)
    stride = 1
    while stride < m:
        stride *= 2
    while stride > 0:
        for j in range(stride - 1, m, 2 * stride):
            first = above[j - stride] if j >= stride else 0
            last = above[j + stride] if j + stride < m else n
            here, best = last, -np.inf
            for a in range(first, last + 1):
                cost = harmonic[a + j + 1] + j / (a + j + 1.0)
                gain = sums[a] - a * (bad[j] - level) - m * cost
                if gain > best:
                    here, best = a, gain
            above[j] = here
        stride //= 2
    return above


@njit(cache=True)
def _tell(above, n, m, slopes):
    """The loss of a ranking of n relevant and m irrelevant documents; its slopes, in their order."""
    slopes[:] = 0.0
    loss, j = 0.0, 0
    for i in range(n if m else 0):
        while j < m and above[j] <= i:
            j += 1
        loss += j / (i + 1.0 + j)
        slopes[i] = -j / (float(n) * m)
    for j in range(m if n else 0):
        slopes[n + j] = (n - above[j]) / (float(n) * m)
    return loss / max(n, 1)
