"""What the slopes prove that the quadratic model of a Newton step predicts for its end.

With the slopes u and second derivatives D of the losses at w, and a step p that solves ``(X'D X + M) p = -g``,

    u+ = u + D X p          has the gradient  X'u+ = -M (w + p)

so that its dual value is short of the optimum by the curvature of the conjugates only, where the slopes at ``w + p``
have an error of second order in p that the bound divides by lambda.  Slopes outside of the domain of the conjugate,
such as probabilities outside of [0, 1], are moved into it; predicted means of counts that are not positive prove
nothing.  A step costs a Gram matrix, with softmax one for every pair of classes, and this bound often makes the last
one unnecessary, at small lambda the last three.
"""

from __future__ import annotations

import math

import numpy as np

from undercut.contracts import Line, QuadraticRegularizer
from undercut.losses import Softmax
from undercut.risks import LinearRisk, MulticlassRisk
from undercut.risks.combined import questions
from undercut.risks.combined.sharded_line import ShardedLine
from undercut.risks.scores.classes.softmax_scores import SoftmaxScores
from undercut.risks.scores.linear import SmoothLine
from undercut.risks.scores.poisson_mean import FixedPoisson
from undercut.risks.scores.score_risk import ScoreLine
from undercut.risks.scores.smooth_mean import Ahead, Expansion
from undercut.solvers.bounds import balanced, plane_bound
from undercut.solvers.coordinate.dual.conjugates import conjugate_of, has_conjugate
from undercut.types import FloatArray


def model_bound(reg: QuadraticRegularizer, line: Line) -> float:
    """The bound for the end of a Newton step along ``line``; minus infinity where none is known."""
    if isinstance(line, ShardedLine):
        if not (issubclass(line.risk.kind, MulticlassRisk) and isinstance(line.risk.loss, Softmax)):
            return -math.inf
        a, conjugate = line.ask(questions.ahead)
        return plane_bound(reg, a, -float(conjugate), abs(float(conjugate)))
    ahead = _ahead(line) if isinstance(line, ScoreLine) else None
    if not isinstance(line, ScoreLine) or ahead is None:
        return -math.inf
    return plane_bound(reg, line.risk.design.rmatvec(ahead.slopes.reshape(-1)), -ahead.conjugate, ahead.size)


def _ahead(line: ScoreLine) -> Ahead | None:
    """The slopes that a linear model predicts for the end of a line; ``None`` where none are known."""
    if isinstance(line.risk.phi, SoftmaxScores | FixedPoisson):
        return line.risk.phi.ahead(line.scores, line.rise)
    if isinstance(line, SmoothLine) and has_conjugate(line.risk.loss):
        return _of_pointwise(line.risk, line.expansion(0.0), line.rise)
    return None


def _of_pointwise(risk: LinearRisk, at: Expansion, rise: FloatArray) -> Ahead:
    """The slopes that a linear model predicts for a loss of one score, moved into the domain of its conjugate."""
    conjugate = conjugate_of(risk.loss, risk.y)
    if risk.fit_intercept:
        rise = rise - float(at.bend @ rise) / max(float(at.bend.sum()), np.finfo(float).tiny)
    slopes = at.slopes + at.bend * rise
    u = np.divide(-slopes, risk.weight, out=np.zeros_like(slopes), where=risk.weight > 0.0)
    np.clip(u, conjugate.low, conjugate.high, out=u)
    if risk.fit_intercept:
        u = balanced(risk.weight * u) / np.where(risk.weight > 0.0, risk.weight, 1.0)
        np.clip(u, conjugate.low, conjugate.high, out=u)  # rounding
    terms = risk.weight * conjugate.values(u)
    return Ahead(-risk.weight * u, float(terms.sum()), float(np.abs(terms).sum()))
