"""Semirings: one dynamic program is a maximum, a sum, or a sum of logarithms, by the type of its first argument.

| ring | plus | times | a number v is stored as |
|---|---|---|---|
| ``MAX`` | max(a, b) | a + b | log v |
| ``SUM`` | a + b | a * b | v |
| ``LOG`` | log(exp a + exp b) | a + b | log v |

``SUM`` is the fastest and has the smallest range; ``LOG`` never overflows.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from numba.extending import overload

# Sums may be reordered, so that they are vectorized; infinities keep their meaning.
FAST = {"reassoc", "nnan", "nsz", "contract"}


class MaxPlus(NamedTuple):
    zero: float
    one: float


class SumProduct(NamedTuple):
    zero: float
    one: float


class LogSumExp(NamedTuple):
    zero: float
    one: float


MAX = MaxPlus(-math.inf, 0.0)
SUM = SumProduct(0.0, 1.0)
LOG = LogSumExp(-math.inf, 0.0)


def plus(ring, a, b):
    """The sum of the ring."""


def times(ring, a, b):
    """The product of the ring."""


def over(ring, a, b):
    """The quotient; b is not zero."""


def amount(ring, a):
    """The number that ``a`` stores; for ``SUM`` and ``LOG``."""


@overload(plus, jit_options={"fastmath": FAST})
def _plus(ring, a, b):
    if ring.instance_class is MaxPlus:
        return lambda ring, a, b: a if a > b else b
    if ring.instance_class is SumProduct:
        return lambda ring, a, b: a + b
    return _log_plus


def _log_plus(ring, a, b):
    high, low = (a, b) if a > b else (b, a)
    return high if low == -math.inf else high + math.log1p(math.exp(low - high))


@overload(times, jit_options={"fastmath": FAST})
def _times(ring, a, b):
    if ring.instance_class is SumProduct:
        return lambda ring, a, b: a * b
    return lambda ring, a, b: a + b


@overload(over, jit_options={"fastmath": FAST})
def _over(ring, a, b):
    if ring.instance_class is SumProduct:
        return lambda ring, a, b: a / b
    return lambda ring, a, b: a - b


@overload(amount, jit_options={"fastmath": FAST})
def _amount(ring, a):
    if ring.instance_class is SumProduct:
        return lambda ring, a: a
    return lambda ring, a: math.exp(a)
