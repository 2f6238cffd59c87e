"""Proximal Newton steps on a small dense problem with a smooth loss, absolute values and squares, in one call.

    J(w, b) = sum_i weight_i l(y_i, <w, x_i> + b) + l1 |w|_1 + l2/2 |w|^2

Every step minimizes a quadratic model by its Gram matrix.  A free intercept b is minimized over in closed form: with
the second derivatives d, whose sum is D, slopes g become ``g - (sum_i g_i / D) d``, and the Gram matrix is
``X' (diag(d) - d d' / D) X``.
"""

from __future__ import annotations

import math

import numpy as np

from undercut._jit.compile import INNER_ONLY, njit
from undercut._jit.gram_model import expected_gap, move_support, penalty_value, support_system, violations
from undercut._jit.pointwise import EXPONENTIAL, LOGISTIC, POISSON, curve, parabolas, spread
from undercut._jit.working_set import descend_gram

OPTIONS = {"cache": True, "nogil": True, "error_model": "numpy", "fastmath": {"reassoc", "contract"}}
EPOCHS = 20  # of coordinate descent before a Newton step on the parameters that are not zero
ROUNDS = 100  # of both
ACCURATE = 1e-8  # share of the violations that may be left in the minimum of a model
ROUNDED = 1e-12  # share of l1: smaller violations are rounding errors
SINGULAR = 1e-12  # share of a diagonal: smaller pivots of a Cholesky factor are rounding errors
DECREASE = 0.01  # share of the decrease that a model predicts, at least
HALVINGS = 30  # of a step
SHORT = 0.1  # share of a step: if no more than that is taken, the next model is damped
LEAST_DAMPING = 1e-6  # where a loss is linear
BALANCED = 1e-14  # share of the slopes that their sum may be
POLISHING = 20  # Newton steps in the intercept


@njit(**OPTIONS)
def minimize(number, setting, smoothness, XT, targets, is_free, penalty, accuracy, max_steps, w, b, slopes):
    """Minimize J from ``(w, b)`` until the gap is expected to be ``accuracy |J|``; (value of the losses, b).

    ``smoothness`` : the largest second derivative of the loss; ``XT`` : X', contiguous; ``targets`` : targets and
    weights, (2, n); ``penalty`` : l1, l2.  w is overwritten, and ``slopes``, which sum to zero where b is free.
    """
    l1, l2 = penalty
    d, n = XT.shape
    at, trial = np.empty((3, n)), np.empty((3, n))  # scores, slopes, second derivatives
    scaled, H, move, bend = np.empty((d, n)), np.empty((d, d)), np.empty(n), np.empty(n)
    mixed, gradient, end, step = np.empty(d), np.empty(d), np.empty(d), np.empty(d)
    for i in range(n):
        at[0, i] = b
    _add_products(XT, w, at[0])
    value, damping, steps = _losses(number, setting, targets, at), 0.0, 0
    while steps < max_steps:
        # 1. The model, until its slopes prove enough.
        total, total_bend = _bend(targets, at, damping, smoothness, bend)
        if is_free and not total_bend > 0.0:
            break
        shift = total / total_bend if is_free else 0.0
        _assemble(XT, at[1], bend, shift, scaled, mixed, gradient)
        objective = value + penalty_value(w, l1, l2)
        gap = expected_gap(w, gradient, l1, l2, spread(at[1], bend)) + 0.5 * shift * total
        if not gap > accuracy * abs(objective):
            break
        _gram(XT, scaled, mixed, total_bend if is_free else 0.0, H)

        # 2. Its minimum, where the intercept is the best too.
        decrease = _minimize_model(H, gradient, w, l1, l2, end, step) - 0.5 * shift * total
        change = -shift
        for j in range(d):
            change -= mixed[j] * step[j] / total_bend if is_free else 0.0
        for i in range(n):
            move[i] = change
        _add_products(XT, step, move)

        # 3. As much of the step as decreases J by a share of what the model predicts.
        goal = objective, DECREASE * min(decrease, 0.0)
        share, now = _search(number, setting, targets, penalty, goal, at, move, w, step, trial, end)
        steps += 1
        if math.isnan(now) and damping >= 1.0:
            break
        damping = max(10.0 * damping, 1.0) if math.isnan(now) or share < SHORT else 0.1 * damping
        if not math.isnan(now):
            value, b, at, trial = now, b + share * change, trial, at
            for j in range(d):
                w[j] = end[j]
    if is_free:
        value, b = _balance(number, setting, targets, at, value, b)
    for i in range(n):
        slopes[i] = at[1, i]
    return value, b


@njit(cache=True, inline="always")
def _search(number, setting, targets, penalty, goal, at, move, w, step, trial, end):
    """Halve a step until J is below ``goal``: its share, and the losses after it, NaN if no share is short enough.

    ``trial`` and ``end`` become scores, slopes, second derivatives and parameters after it.
    """
    share = 1.0
    for _ in range(HALVINGS):
        for i in range(move.size):
            trial[0, i] = at[0, i] + share * move[i]
        for j in range(w.size):
            end[j] = end[j] if share == 1.0 else w[j] + share * step[j]  # zeros of a whole step stay exact
        now = _losses(number, setting, targets, trial)
        if now + penalty_value(end, penalty[0], penalty[1]) <= goal[0] + share * goal[1]:
            return share, now
        share *= 0.5
    return share, math.nan


@njit(**(OPTIONS | INNER_ONLY))
def _losses(number, setting, targets, at):
    """The weighted sum of the losses; fill their weighted slopes and second derivatives."""
    if number in (LOGISTIC, EXPONENTIAL, POISSON):
        return curve(number, targets, at[0], at[1], at[2])
    return parabolas(number, setting, targets[0], targets[1], at[0], at[1], at[2])


@njit(**(OPTIONS | INNER_ONLY))
def _add_products(XT, w, out):
    """Add ``X w`` to ``out``."""
    for j in range(w.size):
        if w[j] != 0.0:
            for i in range(out.size):
                out[i] += w[j] * XT[j, i]


@njit(cache=True, inline="always")
def _bend(targets, at, damping, smoothness, out):
    """Second derivatives of the model, raised where the loss is linear and after a step that was too long.

    Returns the sums of slopes and of these.
    """
    is_flat = False
    for i in range(out.size):
        is_flat = is_flat or (at[2, i] == 0.0 and at[1, i] != 0.0)
    least = max(damping, LEAST_DAMPING if is_flat else 0.0)
    total, total_bend = 0.0, 0.0
    for i in range(out.size):
        if smoothness < math.inf:
            out[i] = max(at[2, i], min(least, 1.0) * smoothness * targets[1, i])  # with 1 an upper model of the loss
        else:
            out[i] = at[2, i] + least * abs(at[1, i])
        total += at[1, i]
        total_bend += out[i]
    return total, total_bend


@njit(cache=True, inline="always")
def _assemble(XT, slopes, bend, shift, scaled, mixed, gradient):
    """Fill ``scaled = X' diag(bend)``, ``mixed = X' bend`` and ``gradient = X' slopes - shift mixed``."""
    d, n = XT.shape
    for j in range(d):
        steep, along = 0.0, 0.0
        for i in range(n):
            scaled[j, i] = XT[j, i] * bend[i]
            along += scaled[j, i]
            steep += XT[j, i] * slopes[i]
        mixed[j] = along
        gradient[j] = steep - shift * along


@njit(cache=True, inline="always")
def _gram(XT, scaled, mixed, total_bend, H):
    """Fill ``H = X' diag(bend) X``, less ``mixed mixed' / total_bend`` if that is positive."""
    d, n = XT.shape
    inverse = 1.0 / total_bend if total_bend > 0.0 else 0.0
    for j in range(0, d, 2):  # four products at a time: a number that is read serves twice
        last = j + 1 if j + 1 < d else j
        for k in range(0, j + 1, 2):
            right = k + 1 if k + 1 < d else k
            one, two, three, four = 0.0, 0.0, 0.0, 0.0
            for i in range(n):
                one += scaled[j, i] * XT[k, i]
                two += scaled[j, i] * XT[right, i]
                three += scaled[last, i] * XT[k, i]
                four += scaled[last, i] * XT[right, i]
            H[j, k], H[j, right], H[last, k], H[last, right] = one, two, three, four
    for j in range(d):
        for k in range(j + 1):
            H[j, k] -= mixed[j] * mixed[k] * inverse
            H[k, j] = H[j, k]


@njit(cache=True, inline="always")
def _minimize_model(H, gradient, w, l1, l2, end, step):
    """Fill ``end`` with the minimum, and ``step = end - w``; ``<gradient, step>`` plus the change of the penalty.

    Epochs of coordinate descent take turns with Newton steps on the parameters that are not zero.
    """
    left = step
    tol = max(ACCURATE * violations(w, gradient, l1, l2, left), ROUNDED * l1)
    for j in range(w.size):
        end[j], left[j] = w[j], gradient[j]
    for _ in range(ROUNDS):
        if descend_gram(H, left, l1, l2, end, EPOCHS, tol) <= tol:
            break
        support, matrix, newton = support_system(H, left, end, l1, l2)
        _solve(matrix.copy(), l2, newton)
        move_support(H, matrix, support, newton, l1, l2, end, left)
    slope = penalty_value(end, l1, l2) - penalty_value(w, l1, l2)
    for j in range(w.size):
        step[j] = end[j] - w[j]
        slope += gradient[j] * step[j]
    return slope


@njit(cache=True, inline="always")
def _solve(M, l2, x):
    """Overwrite x with ``(M + l2 I)^-1 x`` by a Cholesky factor; zero where a column depends on those before."""
    for i in range(x.size):
        least = SINGULAR * (M[i, i] + l2)
        for j in range(i + 1):
            rest = M[i, j] + (l2 if i == j else 0.0)
            for k in range(j):
                rest -= M[i, k] * M[j, k]
            if j < i:
                M[i, j] = rest / M[j, j]
            else:
                M[i, i] = math.sqrt(rest) if rest > least else math.inf
        rest = x[i]
        for k in range(i):
            rest -= M[i, k] * x[k]
        x[i] = rest / M[i, i]
    for i in range(x.size - 1, -1, -1):
        x[i] /= M[i, i]
        for k in range(i):
            x[k] -= M[i, k] * x[i]


@njit(cache=True, inline="always")
def _balance(number, setting, targets, at, value, b):
    """Newton steps in the intercept until the slopes sum to zero up to rounding; (value, b)."""
    last = math.inf
    for _ in range(POLISHING):
        total, size, total_bend = 0.0, 0.0, 0.0
        for i in range(at.shape[1]):
            total += at[1, i]
            size += abs(at[1, i])
            total_bend += at[2, i]
        if abs(total) <= BALANCED * size or not (abs(total) < 0.5 * last and total_bend > 0.0):
            break
        last = abs(total)
        b -= total / total_bend
        for i in range(at.shape[1]):
            at[0, i] -= total / total_bend
        value = _losses(number, setting, targets, at)
    return value, b
