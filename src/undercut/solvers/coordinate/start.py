"""Where a dual method starts."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from undercut.types import FloatArray

HALVINGS = 60


class Scalable(Protocol):
    """A concave dual whose domain contains zero and, with a point, all shorter ones."""

    def products(self, a: FloatArray) -> FloatArray:
        """``z = X' a``."""

    def value(self, a: FloatArray, z: FloatArray) -> float:
        """The dual at a, given ``z = X' a``."""


def halved(dual: Scalable, a: FloatArray) -> tuple[FloatArray, FloatArray]:
    """a and ``X' a``, halved as long as the dual grows: the slopes at a poor w0 are too long by far."""
    z = dual.products(a)
    best, share = dual.value(a, z), 1.0
    for _ in range(HALVINGS):
        value = dual.value(0.5 * share * a, 0.5 * share * z)
        if not value > best:
            break
        best, share = value, 0.5 * share
    return (share * a, share * z) if np.isfinite(best) else (np.zeros_like(a), np.zeros_like(z))
