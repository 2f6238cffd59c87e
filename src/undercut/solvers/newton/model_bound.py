"""What the slopes prove that the quadratic model of a Newton step predicts for its end.

With the slopes u and second derivatives D of the losses at w, and a step p that solves ``(X'D X + M) p = -g + r``,

    u+ = u + D X p          has the gradient  X'u+ + M (w + p) = r

so that its dual value is short of the optimum by r and by the curvature of the conjugates only, where the slopes at
``w + p`` have an error of second order in p that the bound divides by lambda.  Slopes outside the domain of the
conjugates are moved into it.
"""

from __future__ import annotations

import math

import numpy as np

from undercut.contracts import Line, QuadraticRegularizer, Risk
from undercut.risks import LinearRisk, MulticlassRisk
from undercut.risks.scores.class_scores import Ahead, SoftmaxScores
from undercut.risks.scores.mean_loss import SmoothMean
from undercut.risks.scores.score_risk import ScoreLine
from undercut.solvers.bounds import plane_bound
from undercut.solvers.coordinate.conjugates import smooth_conjugate
from undercut.solvers.newton.slopes_bound import slopes_bound
from undercut.types import FloatArray


def model_bound(risk: Risk, reg: QuadraticRegularizer, w: FloatArray, line: Line) -> float:
    """The bound of the slopes at the end of ``line``, which starts at w; minus infinity where none is known."""
    if not isinstance(line, ScoreLine):
        return -math.inf
    if isinstance(risk, MulticlassRisk) and isinstance(risk.phi, SoftmaxScores):
        return _softmax_bound(risk, reg, risk.phi.ahead(line.scores, line.rise))
    if isinstance(risk, LinearRisk) and isinstance(risk.phi, SmoothMean):
        return _pointwise_bound(risk, risk.phi, reg, w, line)
    return -math.inf


def _softmax_bound(risk: MulticlassRisk, reg: QuadraticRegularizer, ahead: Ahead | None) -> float:
    if ahead is None:
        return -math.inf
    return plane_bound(reg, risk.design.rmatvec(ahead.slopes.reshape(-1)), -ahead.conjugate, abs(ahead.conjugate))


def _pointwise_bound(
    risk: LinearRisk, phi: SmoothMean, reg: QuadraticRegularizer, w: FloatArray, line: ScoreLine
) -> float:
    known = smooth_conjugate(risk.loss)
    if known is None:
        return -math.inf
    slopes, bend, rise = phi.evaluate(line.scores).slopes, phi.bend(line.scores), line.rise
    total = float(bend.sum())
    if risk.fit_intercept and total > 0.0:
        rise = rise - float(bend @ rise) / total
    weight = np.where(risk.weight > 0.0, risk.weight, 1.0)
    ahead = risk.weight * known.nearest(risk.y, (slopes + bend * rise) / weight)
    return slopes_bound(risk, reg, w, ahead)[0]
