"""Where Newton's method for several classes begins: at the end of a few steps on a part of the samples.

The optimum of m samples with p parameters has a risk of about ``p / (2 m)`` above the least one of all samples, and a
step on them takes as much less time as they are fewer.  For a single score the steps on all samples take so little time
that this does not pay.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, cast

import numpy as np

from undercut.accuracy import gap_allowed
from undercut.contracts import QuadraticRegularizer, Risk, Solver
from undercut.deadline import expired
from undercut.maps.matrix import Matrix
from undercut.regularizers import L2
from undercut.risks import MulticlassRisk
from undercut.types import FloatArray

ROWS, LEAST = 30, 1000  # samples of the part per parameter, and at least
SHARE = 8  # samples for each of the part, at least
EXCESS = 0.08  # share of the risk at zero by which the optimum of the part may be above that of all samples
STEPS = 4
NEAR = 0.03  # relative decrease in a step on the part below which it is the last one


def sampled_start(solver: Solver[Any, Any, Any], risk: Risk, reg: QuadraticRegularizer, w0: FloatArray) -> FloatArray:
    """``w0``, or where it is zero and samples are many, the end of some steps of the solver on few of them.

    Features that few of these samples have are held back by a larger lambda.
    """
    part = None if w0.any() or not isinstance(reg, L2) else _part(risk)
    if part is None or part.n_params > 2.0 * part.n_samples * EXCESS * part.value(w0):
        return w0
    assert isinstance(reg, L2)
    entries = cast(Matrix, part.features).rows().values
    larger = replace(reg, lam=max(reg.lam, float(entries @ entries) / (max(1, entries.size) * part.n_samples)))
    with gap_allowed(lambda progress: math.inf):  # no bound of the part is of use
        state = solver.init(part, larger, w0)
        for _ in range(STEPS):
            last = state.progress.objective
            state = solver.step(part, larger, state)
            if last - state.progress.objective <= NEAR * abs(last) or expired():
                break
    return np.asarray(state.solution)


def _part(risk: Risk) -> MulticlassRisk | None:
    """Some of the samples; ``None`` where they would be too few."""
    if not (isinstance(risk, MulticlassRisk) and isinstance(risk.features, Matrix)):
        return None
    n_rows = min(max(ROWS * risk.n_params, LEAST), risk.n_samples // SHARE)
    if n_rows <= max(risk.n_params, LEAST - 1):
        return None
    rows = np.sort(np.random.default_rng(0).choice(risk.n_samples, n_rows, replace=False))
    if not np.bincount(risk.y[rows], risk.weight[rows], risk.n_classes).all():
        return None  # intercepts need every class
    return risk.part(rows)
