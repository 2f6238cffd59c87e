"""A risk plus a linear and a proximal term: the problem of one scenario in progressive hedging."""

from __future__ import annotations

import math

import numpy as np

from undercut.contracts import Cut, Risk
from undercut.types import FloatArray


class TiltedRisk(Risk):
    """``R(w) + <tilt, w> + tau/2 |w - center|^2``; an array tau has one factor per parameter.

    >>> from undercut import FunctionRisk
    >>> risk = TiltedRisk(FunctionRisk(lambda w: (abs(w[0]), np.sign(w)), 1), np.array([-2.0]), 1.0, np.array([3.0]))
    >>> risk.value(np.array([1.0]))
    1.0
    """

    def __init__(self, risk: Risk, tilt: FloatArray, tau: float | FloatArray, center: FloatArray) -> None:
        self.risk, self.tilt, self.tau, self.center = risk, tilt, tau, center
        self.n_params, self.is_convex = risk.n_params, risk.is_convex
        self.lower_bound = risk.lower_bound
        if tilt.any():
            least = float(np.min(tau))
            lowest = float(tilt @ center) - (float(tilt @ tilt) / (2.0 * least) if least > 0.0 else math.inf)
            self.lower_bound += lowest

    def value(self, w: FloatArray) -> float:
        off = w - self.center
        return self.risk.value(w) + float(self.tilt @ w) + 0.5 * float((self.tau * off) @ off)

    def cut(self, w: FloatArray) -> Cut:
        """The planes of all three terms."""
        plane, off = self.risk.cut(w), w - self.center
        square = 0.5 * float((self.tau * off) @ off)
        slope = self.tilt + self.tau * off
        return Cut(
            plane.a + slope,
            plane.b + square - float((self.tau * off) @ w),
            plane.value + float(self.tilt @ w) + square,
        )
