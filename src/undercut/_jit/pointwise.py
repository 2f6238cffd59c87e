"""Slopes of the pointwise losses one sample at a time, for loops that visit samples in turn.

Each loss has a number; ``setting`` is its width, epsilon or quantile.
"""

from __future__ import annotations

import math

from undercut._jit.compile import njit

(
    HINGE,
    SQUARED_HINGE,
    HUBER_HINGE,
    LOGISTIC,
    EXPONENTIAL,
    SQUARED,
    ABSOLUTE,
    EPSILON_INSENSITIVE,
    QUANTILE,
    HUBER,
    POISSON,
) = range(11)


LARGEST = 100.0  # exponents beyond this say no more than "far too large", and their squares would overflow


@njit(cache=True, inline="always")
def slope(kind, setting, y, s):
    """A subgradient of the loss at score ``s``."""
    if kind <= EXPONENTIAL:
        return -y * _fall(kind, setting, y * s)
    if kind == POISSON:
        return math.exp(min(s, LARGEST)) - y
    return _residual_slope(kind, setting, s - y)


@njit(cache=True, inline="always")
def _fall(kind, setting, margin):
    """Minus the derivative of a margin loss."""
    if kind == HINGE:
        return 1.0 if margin < 1.0 else 0.0
    if kind == SQUARED_HINGE:
        return 2.0 * max(0.0, 1.0 - margin)
    if kind == HUBER_HINGE:
        return min(1.0, max(0.0, (1.0 + setting - margin) / (2.0 * setting)))
    if kind == LOGISTIC:
        small = math.exp(-abs(margin))
        return (small if margin > 0.0 else 1.0) / (1.0 + small)
    return math.exp(min(-margin, LARGEST))


@njit(cache=True, inline="always")
def _residual_slope(kind, setting, residual):
    if kind == SQUARED:
        return residual
    if kind == HUBER:
        return min(setting, max(-setting, residual))
    if kind == QUANTILE:
        return 1.0 - setting if residual >= 0.0 else -setting
    if abs(residual) <= setting:  # the tube; none for the absolute loss but its kink
        return 0.0
    return 1.0 if residual > 0.0 else -1.0
