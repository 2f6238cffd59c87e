"""Penalties that are sums over parameters, as the kinks and squares that an interior point method sees."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from undercut.contracts import Regularizer
from undercut.regularizers import L2, BlockSum, SeparableRegularizer
from undercut.regularizers.boxed import terms_of
from undercut.regularizers.separable import Terms
from undercut.types import FloatArray

ENDLESS = 1e30  # the slope beyond a bound


class Kinks(NamedTuple):
    """``sum_i left_i (s_i - kinks_0i) + sum_ki caps_ki max(0, s_i - kinks_ki)``; a cap of zero is no kink.

    A rounded kink adds ``z^2 / (2 soft)`` instead, up to ``z = s_i - kinks_ki = soft cap``, and then a line.
    """

    left: FloatArray  # (N,)
    kinks: FloatArray  # (K, N)
    caps: FloatArray  # (K, N)
    soft: FloatArray  # (K, N)


class PenaltyTerms(NamedTuple):
    """``sum_j l1_j |w_j| + l2_j/2 (w_j - center_j)^2`` where ``lower_j <= w_j <= upper_j``; arrays (n_params,)."""

    l1: FloatArray
    l2: FloatArray
    center: FloatArray
    lower: FloatArray
    upper: FloatArray

    @classmethod
    def of(cls, reg: Regularizer, n_params: int) -> PenaltyTerms | None:
        """The terms of a regularizer; ``None`` where it is no such sum."""
        return cls(*filled_terms(reg, n_params)) if _is_sum(reg) else None

    @property
    def is_bounded(self) -> bool:
        return bool(np.count_nonzero(self.lower > -np.inf) or np.count_nonzero(self.upper < np.inf))

    @property
    def signs(self) -> tuple[float, ...]:
        """The rows of the identity that the kinks below need."""
        if self.is_bounded:
            return (1.0, -1.0)
        return (1.0,) if np.count_nonzero(self.l1) else ()

    def kinks(self) -> Kinks | None:
        """``l1 |w| = -l1 w + 2 l1 max(0, w)`` and an upper bound by rows of I, a lower bound by rows of -I.

        Where w has one sign only, ``l1 |w|`` is linear.  A bound is a kink beyond which J rises without end.  ``None``
        where there are no kinks.
        """
        d, signs = self.l1.size, len(self.signs)
        if signs == 0:
            return None
        if signs == 1:
            zero = np.zeros((1, d))
            return Kinks(-self.l1, zero, 2.0 * self.l1[None, :], zero)
        left, places, caps, soft = np.zeros(2 * d), np.zeros((2, 2 * d)), np.zeros((2, 2 * d)), np.zeros((2, 2 * d))
        has_lower, has_upper = self.lower > -np.inf, self.upper < np.inf
        left[:d] = np.where(self.lower >= 0.0, self.l1, -self.l1)
        caps[0, :d] = 2.0 * self.l1 * ((self.lower < 0.0) & (self.upper > 0.0))
        caps[1, :d], caps[0, d:] = ENDLESS * has_upper, ENDLESS * has_lower
        places[1, :d], places[0, d:] = np.where(has_upper, self.upper, 0.0), np.where(has_lower, -self.lower, 0.0)
        return Kinks(left, places, caps, soft)

    def clipped(self, w: FloatArray) -> FloatArray:
        """w within its bounds."""
        return np.clip(w, self.lower, self.upper)

    def inside(self, w: FloatArray, reach: FloatArray) -> FloatArray:
        """w moved off its bounds by ``reach``, or by a tenth of the way to the other bound."""
        width = self.upper - self.lower
        off = np.minimum(reach, 0.1 * width)
        return np.clip(w, self.lower + off, self.upper - off)


def filled_terms(reg: Regularizer, n_params: int) -> FloatArray:
    """l1, l2, center, lower and upper of all parameters: (5, n_params)."""
    terms = np.empty((5, n_params))
    for block, part in _parts(reg):
        for row, term in zip(terms[:, block], terms_of(part), strict=True):
            row[:] = term
    return terms


def has_terms(reg: Regularizer) -> bool:
    """Whether a regularizer is such a sum, and some w is between all bounds."""
    return all(_is_term(part) and _has_inside(terms_of(part)) for _, part in _parts(reg))


def _has_inside(terms: Terms) -> bool:
    return not terms.is_bounded or bool(np.all(terms.lower < terms.upper))


def _is_sum(reg: Regularizer) -> bool:
    return all(_is_term(part) for _, part in _parts(reg))


def _is_term(part: Regularizer) -> bool:
    return isinstance(part, (L2, SeparableRegularizer))


def _parts(reg: Regularizer) -> Iterator[tuple[slice, Regularizer]]:
    """The blocks of sums of sums; a regularizer of another kind is one block."""
    if not isinstance(reg, BlockSum):
        yield slice(None), reg
        return
    for block, part in reg.blocks:
        for inner, own in _parts(part):
            yield (block if inner.start is None else slice(block.start + inner.start, block.start + inner.stop)), own


def no_kinks(n: int) -> Kinks:
    """Those of n smooth losses."""
    empty = np.zeros((1, n))
    return Kinks(np.zeros(n), empty, empty, empty)
