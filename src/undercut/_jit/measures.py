"""Most violated labelings in one pass over sorted scores."""

from __future__ import annotations

import numpy as np

from undercut._jit.compile import njit


@njit(cache=True)
def worst_fbeta(missed, alarms, negatives, miss, alarm, beta2):
    """The (tp, fp) that maximizes ``1 - (1 + beta2) tp / (tp + fp + beta2 P) + alarm alarms[fp] - miss missed[tp]``.

    For fixed tp the function is concave in fp.  One more false positive raises the first part by a quantity that rises
    and then falls in tp, so the best fp rises and then falls as well: following it costs P + 2 N moves in all.
    """
    n_positive, n_negative = missed.size - 1, negatives.size
    best_tp, best_fp, best = 0, 0, -np.inf
    fp = 0
    for tp in range(n_positive + 1):
        base, top = tp + beta2 * n_positive, (1.0 + beta2) * tp
        while fp < n_negative and top / ((base + fp) * (base + fp + 1)) + alarm * negatives[fp] > 0.0:
            fp += 1
        while fp > 0 and top / ((base + fp - 1) * (base + fp)) + alarm * negatives[fp - 1] <= 0.0:
            fp -= 1
        value = 1.0 - top / (base + fp) + alarm * alarms[fp] - miss * missed[tp]
        if value > best:
            best_tp, best_fp, best = tp, fp, value
    return best_tp, best_fp


@njit(cache=True)
def pair_counts(positives, negatives, above, below):
    """Pairs with ``positive - negative < 1``: how many each positive is in (``above``) and each negative (``below``).

    Both arrays of scores are descending, so both counts come from one merge, and agree on which pairs there are.
    """
    j = 0
    for i in range(positives.size):
        while j < negatives.size and positives[i] - negatives[j] < 1.0:
            below[j] = positives.size - i
            j += 1
        above[i] = j
    below[j:] = 0
