"""Most violated labelings in one pass over sorted scores."""

from __future__ import annotations

import numpy as np

from undercut._jit.compile import njit

SMALL_BOX = 16  # tables that are tried one by one
MOST_BOXES = 256  # that wait at a time: each of at most 2 * 64 halvings leaves one behind


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

    The correlation grows with tp and falls with fp, and both sums are concave.  So the first loss of a box of tables is
    at most that at its least tp and largest fp, and each sum at most that at the point of the box nearest to its
    maximum.  Boxes that cannot contain a better table are left out, the others are halved.
    """
    top_tp, top_fp = _n_positive(positives), _n_positive(negatives)
    boxes = np.empty((MOST_BOXES, 4), np.int64)
    boxes[0] = 0, positives.size, 0, negatives.size
    n_boxes = 1
    best_tp, best_fp, best = 0, 0, -np.inf
    while n_boxes > 0:
        n_boxes -= 1
        low_tp, high_tp, low_fp, high_fp = boxes[n_boxes]
        loss = _matthews_loss(low_tp, high_fp, positives.size, negatives.size)
        tp, fp = min(max(top_tp, low_tp), high_tp), min(max(top_fp, low_fp), high_fp)
        if not loss + alarm * alarms[fp] - miss * missed[tp] > best:  # NaN cannot be better either
            continue
        width, height = high_fp - low_fp + 1, high_tp - low_tp + 1
        if width * height <= SMALL_BOX:
            for tp in range(low_tp, high_tp + 1):
                for fp in range(low_fp, high_fp + 1):
                    loss = _matthews_loss(tp, fp, positives.size, negatives.size)
                    value = loss + alarm * alarms[fp] - miss * missed[tp]
                    if value > best:
                        best_tp, best_fp, best = tp, fp, value
            continue
        boxes[n_boxes + 1] = boxes[n_boxes]
        if width > height:  # the half with the peak of its sum comes first, so it is the upper one of the stack
            first, middle = 2, (low_fp + high_fp) // 2
            is_low = top_fp <= middle
        else:
            first, middle = 0, (low_tp + high_tp) // 2
            is_low = top_tp <= middle
        low, high = (n_boxes + 1, n_boxes) if is_low else (n_boxes, n_boxes + 1)
        boxes[low, first + 1], boxes[high, first] = middle, middle + 1
        n_boxes += 2
    return best_tp, best_fp


@njit(inline="always")
def _matthews_loss(tp, fp, n_positive, n_negative):
    n_called = float(tp + fp)
    spread = n_called * n_positive * n_negative * (n_positive + n_negative - n_called)
    return 1.0 - (float(tp) * n_negative - float(fp) * n_positive) / np.sqrt(spread) if spread > 0.0 else 1.0


@njit(inline="always")
def _n_positive(descending):
    count = 0
    while count < descending.size and descending[count] > 0.0:
        count += 1
    return count
