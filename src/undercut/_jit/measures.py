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


@njit(cache=True)
def worst_matthews(missed, alarms, positives, negatives, miss, alarm):
    """The (tp, fp) that maximizes ``1 - Matthews correlation + alarm alarms[fp] - miss missed[tp]``.

    Where q of the n samples are called positive, the correlation is ``(n tp - q P) / sqrt(q (n - q) P N)``, linear in
    tp, and both sums are concave.  One more true positive instead of a false one pays as long as its scores differ by
    more than the slope.  That slope falls up to q = n / 2, so the best tp rises with q; beyond, the number of true
    negatives rises with the number n - q that are called negative.  Both halves take P + N moves in all.
    """
    n_positive, n_negative = positives.size, negatives.size
    n = n_positive + n_negative
    spread = np.sqrt(float(n_positive) * n_negative) / n
    best_tp, best_fp, best = 0, 0, 1.0 - miss * missed[0]
    if 1.0 + alarm * alarms[n_negative] > best:
        best_tp, best_fp, best = n_positive, n_negative, 1.0 + alarm * alarms[n_negative]
    tp, tn = 0, 0
    for few in range(1, n // 2 + 1):
        slope = 1.0 / (spread * np.sqrt(float(few) * (n - few)))
        tp = max(tp, few - n_negative)
        while tp < min(few, n_positive) and miss * positives[tp] - alarm * negatives[few - tp - 1] > slope:
            tp += 1
        value = _matthews_value(missed, alarms, tp, few - tp, miss, alarm)
        if value > best:
            best_tp, best_fp, best = tp, few - tp, value
        tn = max(tn, few - n_positive)
        last, end = n_positive - few, n_negative - 1
        while tn < min(few, n_negative) and miss * positives[last + tn] - alarm * negatives[end - tn] > slope:
            tn += 1
        value = _matthews_value(missed, alarms, last + tn, n_negative - tn, miss, alarm)
        if value > best:
            best_tp, best_fp, best = last + tn, n_negative - tn, value
    return best_tp, best_fp


@njit(inline="always")
def _matthews_value(missed, alarms, tp, fp, miss, alarm):
    n_positive, n_negative = missed.size - 1, alarms.size - 1
    n_called = float(tp + fp)
    spread = n_called * n_positive * n_negative * (n_positive + n_negative - n_called)
    loss = 1.0 - (float(tp) * n_negative - float(fp) * n_positive) / np.sqrt(spread)
    return loss + alarm * alarms[fp] - miss * missed[tp]
