"""Where Newton's method begins: at the end of a few steps on a part of the samples.

The optimum of m samples with p parameters has a risk of about ``p / (2 m)`` above the least one of all samples, and a
step on them takes as much less time as they are fewer.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from undercut.accuracy import gap_allowed
from undercut.contracts import QuadraticRegularizer, Risk, Solver
from undercut.deadline import expired
from undercut.maps.matrix import Matrix
from undercut.regularizers import L2
from undercut.risks import LinearRisk, MulticlassRisk
from undercut.solvers.coordinate.dual.conjugates import smooth_conjugate
from undercut.types import FloatArray

ROWS, LEAST = 30, 1000  # samples of the part per parameter, and at least
SHARE = 8  # the part has at most this fraction of the samples
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
    assert isinstance(risk, LinearRisk | MulticlassRisk)
    entries = _matrix(part).rows().values
    larger = replace(reg, lam=max(reg.lam, float(entries @ entries) / (max(1, entries.size) * part.n_samples)))
    with gap_allowed(lambda progress: math.inf):  # no bound of the part is of use
        state = solver.init(part, larger, w0)
        for _ in range(STEPS):
            last = state.progress.objective
            state = solver.step(part, larger, state)
            if last - state.progress.objective <= NEAR * abs(last) or expired():
                break
    return np.asarray(state.solution) if _is_better(risk, reg, state.solution, w0) else w0


def _is_better(risk: LinearRisk | MulticlassRisk, reg: L2, w: FloatArray, w0: FloatArray) -> bool:
    """Whether J is smaller at w, which takes a pass: assumed where losses have bounded second derivatives.

    Others, such as exponentials, may be huge or infinite on a sample outside the part.
    """
    known = smooth_conjugate(risk.loss) if isinstance(risk, LinearRisk) else None
    if isinstance(risk, MulticlassRisk) or (known is not None and math.isfinite(known.smoothness)):
        return True
    with np.errstate(over="ignore", invalid="ignore"):
        return reg.value(w) + risk.value(w) < reg.value(w0) + risk.value(w0)


def _part(risk: Risk) -> LinearRisk | MulticlassRisk | None:
    """Some of the samples; ``None`` where they would be too few.

    Not for a single free intercept: the best one at w = 0 makes the first steps on all samples fewer.
    """
    if not isinstance(risk, LinearRisk | MulticlassRisk) or not isinstance(_matrix(risk), Matrix):
        return None
    n_rows = min(max(ROWS * risk.n_params, LEAST), risk.n_samples // SHARE)
    if n_rows <= risk.n_params or (isinstance(risk, LinearRisk) and risk.fit_intercept):
        return None
    rows = np.sort(np.random.default_rng(0).choice(risk.n_samples, n_rows, replace=False))
    if isinstance(risk, MulticlassRisk) and not np.bincount(risk.y[rows], risk.weight[rows], risk.n_classes).all():
        return None  # intercepts need every class
    return risk.part(rows)


def _matrix(risk: LinearRisk | MulticlassRisk) -> Any:
    return risk.features if isinstance(risk, MulticlassRisk) else risk.design
