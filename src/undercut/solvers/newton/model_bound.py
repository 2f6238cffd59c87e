"""What the slopes prove that the quadratic model of a Newton step predicts for its end, for softmax and Poisson losses.

With the slopes u and second derivatives D of the losses at w, and a step p that solves ``(X'D X + M) p = -g``,

    u+ = u + D X p          has the gradient  X'u+ = -M (w + p)

so that its dual value is short of the optimum by the curvature of the conjugates only, where the slopes at ``w + p``
have an error of second order in p that the bound divides by lambda.  Probabilities outside of [0, 1] are moved into it;
predicted means of counts that are not positive prove nothing.  A step costs a Gram matrix, with softmax one for every
pair of classes, and this bound often makes the last one unnecessary.
"""

from __future__ import annotations

import math

from undercut.contracts import Line, QuadraticRegularizer
from undercut.losses import Softmax
from undercut.risks import MulticlassRisk
from undercut.risks.combined import questions
from undercut.risks.combined.sharded_line import ShardedLine
from undercut.risks.scores.poisson_mean import FixedPoisson
from undercut.risks.scores.score_risk import ScoreLine
from undercut.risks.scores.softmax_scores import SoftmaxScores
from undercut.solvers.bounds import plane_bound


def model_bound(reg: QuadraticRegularizer, line: Line) -> float:
    """The bound for the end of a Newton step along ``line``; minus infinity where none is known."""
    if isinstance(line, ShardedLine):
        if not (issubclass(line.risk.kind, MulticlassRisk) and isinstance(line.risk.loss, Softmax)):
            return -math.inf
        a, conjugate = line.ask(questions.ahead)
        return plane_bound(reg, a, -float(conjugate), abs(float(conjugate)))
    if not isinstance(line, ScoreLine) or not isinstance(line.risk.phi, SoftmaxScores | FixedPoisson):
        return -math.inf
    ahead = line.risk.phi.ahead(line.scores, line.rise)
    if ahead is None:
        return -math.inf
    return plane_bound(reg, line.risk.design.rmatvec(ahead.slopes.reshape(-1)), -ahead.conjugate, ahead.size)
