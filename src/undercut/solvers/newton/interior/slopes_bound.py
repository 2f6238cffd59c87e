"""What slopes of smooth losses prove about the minimum of ``reg + R``.

    -sum_i weight_i l*(y_i, share g_i / weight_i)  -  reg*(-share X'g)         (sum g = 0 with a free intercept)

holds for any slopes g in the domain of the conjugates; the share makes ``reg*`` finite.
"""

from __future__ import annotations

import numpy as np

from undercut.contracts import Regularizer
from undercut.risks import LinearRisk
from undercut.solvers.bounds import ROUNDING, balanced
from undercut.solvers.coordinate.dual.conjugates import smooth_conjugate
from undercut.types import FloatArray


def slopes_bound(risk: LinearRisk, reg: Regularizer, w: FloatArray, g: FloatArray) -> tuple[float, float]:
    """The bound, less what rounding may have added, and the size of its terms.

    A loss whose conjugate is unknown is bounded by its tangent plane at w.
    """
    known = smooth_conjugate(risk.loss)
    if known is None:
        return _tangent_bound(risk, reg, w)
    g = balanced(g) if risk.fit_intercept else g
    a = risk.design.rmatvec(g)
    share = reg.shrinkage(-a, ROUNDING * float(np.abs(a).sum()))
    used = risk.weight > 0.0
    terms = known.weighted(risk.y[used], risk.weight[used], g[used], share)
    penalty = reg.conjugate(-share * a)
    size = float(np.abs(terms).sum()) + abs(penalty)
    return -float(terms.sum()) - penalty - ROUNDING * size, size


def _tangent_bound(risk: LinearRisk, reg: Regularizer, w: FloatArray) -> tuple[float, float]:
    cut = risk.cut(w)
    share = reg.shrinkage(-cut.a, ROUNDING * float(np.abs(cut.a).sum()))
    mixed = share * cut.b + ((1.0 - share) * risk.lower_bound if share < 1.0 else 0.0)
    size = abs(cut.b) + abs(cut.value) + float(np.abs(cut.a) @ np.abs(w))
    return mixed - reg.conjugate(-share * cut.a) - ROUNDING * size, size
