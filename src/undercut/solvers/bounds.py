"""Lower bounds that hold in spite of rounding."""

from __future__ import annotations

import numpy as np

from undercut.contracts import QuadraticRegularizer, Regularizer, Risk
from undercut.types import FloatArray

ROUNDING = 4.0 * float(np.finfo(float).eps)  # of the sums that make a bound, relative to their terms
LINE_ACCURACY = 1e-3  # share of a line search's decrease that may be left: the next step makes up for it


def tighter(last: float, proved: float, objective: float) -> float:
    """The better of two lower bounds; rounding may not lift it above the objective."""
    return min(max(last, proved), objective)


def least(risk: Risk, reg: Regularizer) -> float:
    """``inf R + min reg = inf R - reg*(0)``, the bound of J that is known before the first step."""
    return risk.lower_bound - reg.conjugate(np.zeros(risk.n_params))


def plane_bound(reg: QuadraticRegularizer, a: FloatArray, b: float, size: float) -> float:
    """``b - reg*(-a)``, the bound that one plane proves, less what rounding may have added.

    ``size`` is that of the numbers whose difference is b.
    """
    reach = float(np.linalg.norm(a)) * float(np.linalg.norm(reg.conjugate_argmax(-a)))
    return b - reg.conjugate(-a) - ROUNDING * (size + reach)
