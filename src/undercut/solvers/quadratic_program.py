"""Quadratic programs by PIQP, a primal-dual interior point method."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from undercut.types import FloatArray

MAX_ITERATIONS = 60
SIMPLEX_ACCURACY = 1e-13


class Solution(NamedTuple):
    """Where the library ended: x, and the multipliers of ``G x <= h`` and of ``lower <= x``."""

    x: FloatArray
    above: FloatArray
    at_lower: FloatArray


class Program(NamedTuple):
    """``min 1/2 x' P x + cost' x`` where ``G x <= h`` and ``lower <= x <= upper``."""

    P: sp.csc_matrix
    cost: FloatArray
    G: sp.csc_matrix
    h: FloatArray
    lower: FloatArray
    upper: FloatArray

    def solution(self, accuracy: float) -> Solution | None:
        """The last iterate, whether it is as accurate as asked or not; ``None`` where it is not finite."""
        import piqp  # here: most runs never need it

        solver = piqp.SparseSolver()
        _ask_for(solver.settings, accuracy)
        solver.settings.max_iter = MAX_ITERATIONS
        solver.setup(self.P, self.cost, None, None, self.G, None, self.h, self.lower, self.upper)
        solver.solve()
        result = solver.result
        found = Solution(result.x.copy(), result.z_u.copy(), result.z_bl.copy())
        return found if all(np.isfinite(part).all() for part in found) else None


def simplex_solution(H: FloatArray, b: FloatArray, scale: float) -> FloatArray:
    """Where ``1/2 alpha' H alpha - b' alpha``, in units of ``scale``, is smallest for ``sum alpha = 1, alpha >= 0``."""
    import piqp

    n = b.size
    solver = piqp.DenseSolver()
    _ask_for(solver.settings, SIMPLEX_ACCURACY)
    solver.setup(H / scale, -b / scale, np.ones((1, n)), np.ones(1), None, None, None, np.zeros(n), None)
    solver.solve()
    return np.asarray(solver.result.x)


def _ask_for(settings: Any, accuracy: float) -> None:
    """An absolute accuracy of residuals and gap."""
    settings.eps_abs = settings.eps_duality_gap_abs = accuracy
    settings.eps_rel = settings.eps_duality_gap_rel = 0.0
    settings.check_duality_gap = True
