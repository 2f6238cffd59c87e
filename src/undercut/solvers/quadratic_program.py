"""Quadratic programs by PIQP, a primal-dual interior point method."""

from __future__ import annotations

import numpy as np

from undercut.types import FloatArray

SIMPLEX_ACCURACY = 1e-13


def simplex_solution(H: FloatArray, b: FloatArray, scale: float) -> FloatArray:
    """Where ``1/2 alpha' H alpha - b' alpha``, in units of ``scale``, is smallest for ``sum alpha = 1, alpha >= 0``."""
    import piqp  # here: most runs never need it

    n = b.size
    solver = piqp.DenseSolver()
    settings = solver.settings
    settings.eps_abs = settings.eps_duality_gap_abs = SIMPLEX_ACCURACY
    settings.eps_rel = settings.eps_duality_gap_rel = 0.0
    settings.check_duality_gap = True
    solver.setup(H / scale, -b / scale, np.ones((1, n)), np.ones(1), None, None, None, np.zeros(n), None)
    solver.solve()
    return np.asarray(solver.result.x)
