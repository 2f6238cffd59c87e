"""Slopes of the pointwise losses one sample at a time, for loops that visit samples in turn.

Each loss has a number, which its class names in ``compiled_slope``; ``setting`` is its width, epsilon or quantile.
A number dispatch costs nothing measurable in a loop that is bound by memory, and one compiled loop serves all losses.
"""

from __future__ import annotations

import math

from undercut._jit.compile import njit

HINGE, SQUARED_HINGE, HUBER_HINGE, LOGISTIC, EXPONENTIAL = MARGIN = range(5)
SQUARED, ABSOLUTE, EPSILON_INSENSITIVE, QUANTILE, HUBER, POISSON = range(MARGIN.stop, MARGIN.stop + 6)
FIRST_OTHER = MARGIN.stop  # from this number on, losses are no function of the margin

QUADRATIC = (SQUARED_HINGE, HUBER_HINGE, SQUARED, HUBER)  # pieces of parabolas and straight lines

TINY = 2.2250738585072014e-308  # the smallest normal number
LARGEST = 100.0  # larger exponents are cut off: they say no more than "far too large", and their squares would overflow


@njit(cache=True, inline="always")
def slope(number, setting, y, s):
    """A subgradient of the loss at score ``s``; NaN for an unknown number."""
    if number < FIRST_OTHER:
        return -y * _fall(number, setting, y * s)
    if number == POISSON:
        return math.exp(min(s, LARGEST)) - y
    return _residual_slope(number, setting, s - y)


@njit(cache=True, inline="always")
def _fall(number, setting, margin):
    """Minus the derivative of a margin loss."""
    if number == HINGE:
        return 1.0 if margin < 1.0 else 0.0
    if number == SQUARED_HINGE:
        return 2.0 * max(0.0, 1.0 - margin)
    if number == HUBER_HINGE:
        return min(1.0, max(0.0, (1.0 + setting - margin) / (2.0 * setting)))
    if number == LOGISTIC:
        small = math.exp(-abs(margin))
        return (small if margin > 0.0 else 1.0) / (1.0 + small)
    if number == EXPONENTIAL:
        return math.exp(min(-margin, LARGEST))
    return math.nan


@njit(cache=True, inline="always")
def _residual_slope(number, setting, residual):
    if number == SQUARED:
        return residual
    if number == HUBER:
        return min(setting, max(-setting, residual))
    if number == QUANTILE:
        return 1.0 - setting if residual >= 0.0 else -setting
    if number in (ABSOLUTE, EPSILON_INSENSITIVE):
        if abs(residual) <= setting:  # the setting of the absolute loss is 0
            return 0.0
        return 1.0 if residual > 0.0 else -1.0
    return math.nan


@njit(cache=True, inline="always")
def _parabola(number, setting):
    """Of a loss in ``QUADRATIC``: second derivative, vertex over y, steepest slope, and whether it is a margin loss."""
    scale = 2.0 if number == SQUARED_HINGE else 0.5 / setting if number == HUBER_HINGE else 1.0
    shift = 1.0 + setting if number == HUBER_HINGE else 1.0
    reach = setting if number == HUBER else 1.0 if number == HUBER_HINGE else math.inf
    return scale, shift, reach, number < FIRST_OTHER


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def parabolas_along(number, setting, y, weight, scores, direction, t):
    """Weighted sum of losses in ``QUADRATIC`` at ``scores + t direction``, its first and its second derivative in t."""
    value, first, second = 0.0, 0.0, 0.0
    scale, shift, reach, is_margin = _parabola(number, setting)
    for i in range(y.size):
        if weight[i] > 0.0:  # a sample without weight may overflow
            off = scores[i] + t * direction[i] - shift * y[i]
            free = scale * off
            low = 0.0 if is_margin and y[i] < 0.0 else -reach
            high = 0.0 if is_margin and y[i] > 0.0 else reach
            g = min(max(free, low), high)
            value += weight[i] * g * (off - 0.5 * g / scale)
            first += weight[i] * g * direction[i]
            second += weight[i] * direction[i] * direction[i] * (scale if low < free < high else 0.0)
    return value, first, second


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def parabolas(number, setting, y, weight, scores, slopes, bend):
    """Weighted sum of losses in ``QUADRATIC``; fill their weighted slopes and second derivatives."""
    value = 0.0
    scale, shift, reach, is_margin = _parabola(number, setting)
    for i in range(y.size):
        is_used = weight[i] > 0.0  # a sample without weight may overflow
        off = scores[i] - shift * y[i]
        free = scale * off
        low = 0.0 if is_margin and y[i] < 0.0 else -reach
        high = 0.0 if is_margin and y[i] > 0.0 else reach
        g = low if free < low else high if free > high else free
        value += weight[i] * g * (off - 0.5 * g / scale) if is_used and g != 0.0 else 0.0  # off may be infinite
        slopes[i] = weight[i] * g if is_used else 0.0
        bend[i] = weight[i] * scale if is_used and low < free < high else 0.0
    return value


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def totals(slopes, bend):
    """The sums of slopes, of their absolute values and of second derivatives."""
    total, size, total_bend = 0.0, 0.0, 0.0
    for i in range(slopes.size):
        total += slopes[i]
        size += abs(slopes[i])
        total_bend += bend[i]
    return total, size, total_bend


@njit(cache=True, nogil=True)
def spread(slopes, bend):
    """``sum_i slopes_i^2 / (2 bend_i)`` over the samples whose second derivative is positive."""
    total = 0.0
    for i in range(slopes.size):
        total += 0.5 * slopes[i] * slopes[i] / bend[i] if bend[i] > 0.0 else 0.0
    return total


@njit(cache=True, nogil=True)
def distance(slopes, others, bend):
    """``1/2 sum_i (slopes_i - others_i)^2 / bend_i``, infinite where slopes differ and ``bend`` is 0."""
    total = 0.0
    for i in range(slopes.size):
        off = slopes[i] - others[i]
        if off != 0.0:
            total += 0.5 * off * off / bend[i] if bend[i] > 0.0 else math.inf
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def parabola_conjugates(number, setting, y, weight, slopes, share, out):
    """``out = weight l*(share slopes / weight)`` of losses in ``QUADRATIC``, infinite where that is no slope."""
    scale, shift, reach, is_margin = _parabola(number, setting)
    for i in range(y.size):
        v = share * slopes[i] / weight[i]
        low = 0.0 if is_margin and y[i] < 0.0 else -reach
        high = 0.0 if is_margin and y[i] > 0.0 else reach
        out[i] = weight[i] * v * (0.5 * v / scale + shift * y[i]) if low <= v <= high else math.inf


@njit(cache=True, nogil=True, error_model="numpy")
def conjugate_shares(number, y, weight, slopes, share, p):
    """Fill ``p`` with what the conjugates of losses in ``CURVED`` take logarithms of, NaN where that is no slope.

    With ``v = share slopes / weight`` it is ``|v|`` and ``1 - |v|`` for the logistic loss, ``-y v`` for the exponential
    one, and ``y + v`` for Poisson's; at least ``TINY``.
    """
    for i in range(y.size):
        v = share * slopes[i] / weight[i]
        own = y[i] + v if number == POISSON else -y[i] * v
        is_slope = own >= 0.0 and (number != LOGISTIC or own <= 1.0)
        p[0, i] = max(own, TINY) if is_slope else math.nan
        if number == LOGISTIC:
            p[1, i] = max(1.0 - own, TINY) if is_slope else math.nan


@njit(cache=True, nogil=True)
def entropies(number, weight, p, logs, out):
    """``weight l*`` from the shares ``p`` and their logarithms."""
    for i in range(weight.size):
        own = p[0, i] * logs[0, i]
        own += p[1, i] * logs[1, i] if number == LOGISTIC else -p[0, i]
        out[i] = weight[i] * own if own == own else math.inf


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"}, error_model="numpy")
def logistic(y, weight, scores, small, logs, slopes, bend):
    """Weighted sum of logistic losses; fill their weighted slopes and second derivatives.

    ``small`` is ``exp(-|scores|)`` and ``logs`` is ``log1p(small)``: vector instructions of NumPy compute them in less
    time than a compiled loop.
    """
    value = 0.0
    for i in range(y.size):
        is_used = weight[i] > 0.0  # the score of a sample without weight may be infinite
        margin = y[i] * scores[i]
        share = 1.0 / (1.0 + small[i])
        rise = share * (small[i] if margin > 0.0 else 1.0)
        value += weight[i] * (logs[i] + max(-margin, 0.0)) if is_used else 0.0
        slopes[i] = -y[i] * weight[i] * rise
        bend[i] = weight[i] * small[i] * share * share
    return value


NO_LOSS = -1
CURVED = (LOGISTIC, EXPONENTIAL, SQUARED, POISSON)  # with a second derivative that is continuous


@njit(cache=True, nogil=True, error_model="numpy")
def curve(number, targets, scores, slopes, bend):
    """The weighted sum of losses in ``CURVED``; fill their weighted slopes and second derivatives.

    ``targets`` holds the targets and the weights, (2, n).
    """
    value = 0.0
    for i in range(targets.shape[1]):
        slopes[i] = bend[i] = 0.0
        s, target, weight = scores[i], targets[0, i], targets[1, i]
        if weight > 0.0:  # a sample without weight may overflow
            if number == LOGISTIC:
                small = math.exp(-abs(s))
                rise = (1.0 if s * target < 0.0 else small) / (1.0 + small)  # of the loss against the margin
                loss = math.log1p(small) + max(-target * s, 0.0)
                first, second = -target * rise, small / (1.0 + small) ** 2
            elif number == EXPONENTIAL:
                loss = second = math.exp(-target * s)
                first = -target * loss
            elif number == SQUARED:
                first, second = s - target, 1.0
                loss = 0.5 * first * first
            else:
                second = math.exp(s)
                loss, first = second - target * s, second - target
            value += weight * loss
            slopes[i], bend[i] = weight * first, weight * second
    return value
