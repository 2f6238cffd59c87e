"""Differences of convex risks."""

from __future__ import annotations

import math

from typing_extensions import override

from undercut.contracts import Cut, MajorizedRisk, Risk
from undercut.errors import CapabilityError, DataError
from undercut.types import FloatArray


class DifferenceRisk(MajorizedRisk):
    """``R(w) = convex(w) - subtracted(w)``, both convex.

    >>> import numpy as np
    >>> from undercut import FunctionRisk
    >>> bowl = FunctionRisk(lambda w: (float(w @ w), 2 * w), n_params=1)
    >>> cone = FunctionRisk(lambda w: (float(abs(w).sum()), np.sign(w)), n_params=1)
    >>> risk = DifferenceRisk(bowl, cone, lower_bound=-0.25)
    >>> risk.value(np.array([0.5])), risk.majorizer(np.array([2.0])).value(np.array([-1.0]))
    (-0.25, 2.0)
    """

    is_convex = False

    def __init__(self, convex: Risk, subtracted: Risk, *, lower_bound: float = -math.inf) -> None:
        if not (convex.is_convex and subtracted.is_convex):
            raise CapabilityError(
                "both parts of a DifferenceRisk must be convex: split R into convex parts, or use NonconvexBundle on R"
            )
        if convex.n_params != subtracted.n_params:
            raise DataError(f"both parts must have the same n_params; got {convex.n_params} and {subtracted.n_params}")
        self.convex, self.subtracted = convex, subtracted
        self.n_params, self.lower_bound = convex.n_params, lower_bound

    @override
    def value(self, w: FloatArray) -> float:
        return self.convex.value(w) - self.subtracted.value(w)

    @override
    def cut(self, w: FloatArray) -> Cut:
        return _minus(self.convex.cut(w), self.subtracted.cut(w), w)

    @override
    def majorizer(self, w: FloatArray) -> Risk:
        return _Majorizer(self.convex, self.subtracted.cut(w), self.lower_bound)


class _Majorizer(Risk):
    """``convex(v) - <a, v> - b``."""

    is_convex = True

    def __init__(self, convex: Risk, plane: Cut, lower_bound: float) -> None:
        self.convex, self.plane = convex, plane
        self.n_params, self.lower_bound = convex.n_params, lower_bound

    @override
    def value(self, w: FloatArray) -> float:
        return self.convex.value(w) - float(self.plane.a @ w) - self.plane.b

    @override
    def cut(self, w: FloatArray) -> Cut:
        return _minus(self.convex.cut(w), self.plane, w)


def _minus(cut: Cut, plane: Cut, w: FloatArray) -> Cut:
    a, value = cut.a - plane.a, cut.value - float(plane.a @ w) - plane.b
    return Cut(a, value - float(a @ w), value)
