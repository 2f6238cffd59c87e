"""The softmax loss of scores plus a constant for every pair of classes: the Crammer-Singer loss without its kinks.

    t log sum_k exp((costs[y, k] + s_k) / t) - s_y    is between    max_k costs[y, k] + s_k - s_y    and that + t log K

and t times the softmax loss at ``s / t`` with the shifts ``costs / t``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from typing_extensions import override

from undercut._jit import multiclass
from undercut.contracts import Motion
from undercut.losses import Softmax
from undercut.types import Array, FloatArray


class ShiftedSoftmax(Softmax):
    """``log sum_k exp(shifts[y, k] + s_k) - s_y``; the diagonal of the shifts is zero.

    >>> loss = ShiftedSoftmax(np.array([[0.0, 1.0], [1.0, 0.0]]))
    >>> bool(np.isclose(loss.value_slope(np.array([0]), np.zeros((1, 2)))[0][0], np.log(1.0 + np.e)))
    True
    """

    def __init__(self, shifts: Any) -> None:
        self.shifts: FloatArray = np.asarray(shifts, dtype=np.float64)

    @override
    def value_slope(self, y: Array, S: FloatArray) -> tuple[FloatArray, FloatArray]:
        return super().value_slope(y, S + self.shifts[y])

    @override
    def along(self, y: Array, S: FloatArray, D: FloatArray, t: float) -> Motion:
        return super().along(y, S + self.shifts[y], D, t)

    def conjugate(self, slopes: FloatArray, weight: FloatArray, y: Array, share: float) -> FloatArray:
        """``weight_i l*(share slopes_i / weight_i)`` of every sample."""
        values = np.empty(y.size)
        multiclass.softmax_conjugate(slopes, weight, y, share, values)
        values -= share * self.gains(slopes, y)
        return values

    def gains(self, slopes: FloatArray, y: Array) -> FloatArray:
        """``sum_k shifts[y_i, k] slopes_ik`` of every sample."""
        return np.asarray(np.einsum("ik,ik->i", slopes, self.shifts[y]))
