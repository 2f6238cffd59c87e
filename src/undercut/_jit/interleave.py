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
    """For ``Delta = 1 - average precision``, in time of the number of pairs.

    The i-th relevant document, from 1, with j irrelevant ones above it costs ``1 - i / (i + j)``, so an irrelevant
    document adds what it costs those below it: each is placed by itself, and none above its predecessor.
    """
    for q in range(losses.size):
        good, bad = scores[starts[q] : starts[q] + n_good[q]], scores[starts[q] + n_good[q] : starts[q + 1]]
        n, m = good.size, bad.size
        above, least, total = np.empty(m, np.int64), 0, 0.0
        for j in range(m):
            gain, cost, best, its_cost, at = 0.0, 0.0, 0.0, 0.0, n
            for i in range(n - 1, least - 1, -1):
                extra = (i + 1.0) / (i + 1.0 + j) - (i + 1.0) / (i + 2.0 + j)
                cost += extra
                gain += m * extra + bad[j] - good[i]  # times the number of pairs
                if gain >= best:
                    best, its_cost, at = gain, cost, i
            above[j], least = at, at
            total += its_cost
        losses[q] = total / max(n, 1)
        _tell(above, n, m, slopes[starts[q] : starts[q + 1]])


@njit(cache=True)
def _tell(above, n, m, slopes):
    """The slopes of a ranking of n relevant and m irrelevant documents, in their order."""
    slopes[:] = 0.0
    j = 0
    for i in range(n if m else 0):
        while j < m and above[j] <= i:
            j += 1
        slopes[i] = -j / (float(n) * m)
    for j in range(m if n else 0):
        slopes[n + j] = (n - above[j]) / (float(n) * m)
