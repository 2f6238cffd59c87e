"""Lower bounds that hold in spite of rounding, and the proof that a bound cannot hold."""

from __future__ import annotations

import numpy as np

from undercut.contracts import Cut, QuadraticRegularizer, Regularizer, Risk
from undercut.errors import NonconvexError
from undercut.types import FloatArray

ROUNDING = 4.0 * float(np.finfo(float).eps)  # of the sums that make a bound, relative to their terms
LINE_ACCURACY = 1e-3  # share of a line search's decrease that may be left: the next step makes up for it
BEYOND_ROUNDING = 1e-6  # relative: a plane that much above a value is no rounding, not even in single precision
TINY = 1e-12  # absolute: losses are of order one, and their differences are rounded


def _is_above(excess: FloatArray | float, size: FloatArray | float) -> bool:
    """Whether a difference of numbers of this size is more than rounding."""
    return bool(np.any(excess > BEYOND_ROUNDING * size + TINY))


def cut_size(cut: Cut) -> float:
    """The size of the numbers whose difference is ``cut.b``."""
    return abs(cut.b) + abs(cut.value)


def tighter(last: float, proved: float, objective: float, size: float = 0.0) -> float:
    """The better of two lower bounds; rounding may not lift it above the objective.

    ``size`` is that of the numbers that make the bound.  A bound above the objective by more than rounding raises
    ``NonconvexError``.
    """
    if proved - objective > BEYOND_ROUNDING * (size + abs(proved) + abs(objective)) + TINY:
        raise NonconvexError(f"the planes prove a minimum of {proved:.9g}, and the objective is {objective:.9g}")
    return min(max(last, proved), objective)


def check_below(a: FloatArray, b: FloatArray | float, w: FloatArray, value: float, scale: float) -> None:
    """Raise ``NonconvexError`` if a plane ``<a, v> + b`` lies above ``R(w) = value`` by more than rounding.

    ``scale`` is the size of the numbers whose difference is ``value``.  Rows of ``a`` are several planes.
    """
    heights = np.asarray(a @ w + b)
    sizes = np.abs(b) + np.linalg.norm(a, axis=-1) * float(np.linalg.norm(w)) + abs(value) + scale
    if _is_above(heights - value, sizes):
        raise NonconvexError(f"a plane is {float(heights.max()):.9g} at a point where the risk is {value:.9g}")


def check_plane(cut: Cut, w: FloatArray, objective: float, penalty: float) -> None:
    """Raise ``NonconvexError`` if the plane lies above ``R(w) = objective - penalty``."""
    check_below(cut.a, cut.b, w, objective - penalty, abs(objective) + abs(penalty) + abs(cut.value))


def check_floor(lower_bound: float, cut: Cut) -> None:
    """Raise ``NonconvexError`` if the risk is smaller than the ``lower_bound`` it declares."""
    if _is_above(lower_bound - cut.value, abs(lower_bound) + cut_size(cut)):
        raise NonconvexError(f"`lower_bound` is {lower_bound:.9g}, and the risk has the value {cut.value:.9g}")


def least(risk: Risk, reg: Regularizer) -> float:
    """``inf R + min reg = inf R - reg*(0)``, the bound of J that is known before the first step."""
    if isinstance(reg, QuadraticRegularizer):
        return risk.lower_bound  # its minimum is zero
    return risk.lower_bound - reg.conjugate(np.zeros(risk.n_params))


def plane_bound(reg: QuadraticRegularizer, a: FloatArray, b: float, size: float) -> float:
    """``b - reg*(-a)``, the bound that one plane proves, less what rounding may have added.

    ``size`` is that of the numbers whose difference is b.
    """
    reach = float(np.linalg.norm(a)) * float(np.linalg.norm(reg.conjugate_argmax(-a)))
    return b - reg.conjugate(-a) - ROUNDING * (size + reach)


def cut_bound(risk: Risk, reg: QuadraticRegularizer, cut: Cut) -> float:
    """The better of what a plane and the risk's own lower bound prove about the minimum of ``reg + R``."""
    return max(plane_bound(reg, cut.a, cut.b, cut_size(cut)), least(risk, reg))


def balanced(slopes: FloatArray) -> FloatArray:
    """Slopes that sum to zero: those of the sign with the larger sum are shortened."""
    up = np.maximum(slopes, 0.0)
    down = slopes - up  # exact
    rise, fall = float(up.sum()), -float(down.sum())
    if rise > fall:
        up *= fall / rise
    elif fall > 0.0:
        down *= rise / fall
    up += down
    return up
