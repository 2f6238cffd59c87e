"""The risk of a performance measure of all labels together (Joachims 2005).

    R(w)      = max over labelings of  Delta(y, z) + <slopes(z), X w>
    min_b ... = the same of X w + b, for measures that see the intercept

``undercut.measures`` defines Delta, the slopes and the search for the maximum in sorted scores.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from typing_extensions import override

from undercut.contracts import Design, Evaluation, SortedScores
from undercut.contracts.loss import check_signs
from undercut.maps.design import as_design
from undercut.measures import Measure, Ranked, Table, ThresholdMeasure, measure_named
from undercut.measures.base import EQUAL, Prices
from undercut.risks.checks import real_targets
from undercut.risks.scores.score_risk import ScoreRisk
from undercut.types import Array, FloatArray

EXACT = 1e-15  # relative to the terms of the sum: heights that differ by less are equal


class MostViolated(SortedScores):
    """``phi(s) = max over labelings``, without an intercept."""

    def __init__(self, measure: Measure, y: FloatArray, prices: Prices) -> None:
        self.measure, self.prices = measure, prices
        self._rows = np.flatnonzero(y > 0.0), np.flatnonzero(y < 0.0)
        self._slopes = np.empty(y.size)

    @override
    def evaluate(self, scores: FloatArray) -> Evaluation:
        with np.errstate(over="ignore", invalid="ignore"):
            ranked, orders = self.rank(scores)
            violation = self.measure.violate(ranked)
            return Evaluation(violation.value, self._scattered(orders, violation.positives, violation.negatives))

    def rank(self, scores: FloatArray) -> tuple[Ranked, list[Array]]:
        """The scores of each class in descending order, and the rows they come from."""
        orders = [rows[np.argsort(scores[rows])[::-1]] for rows in self._rows]
        return Ranked.of(scores[orders[0]], scores[orders[1]], self.prices), orders

    def _scattered(self, orders: list[Array], positives: FloatArray, negatives: FloatArray) -> FloatArray:
        self._slopes[orders[0]], self._slopes[orders[1]] = positives, negatives
        return self._slopes


class _Piece(NamedTuple):
    """``height + slope b``: a labeling as a function of the intercept."""

    table: Table
    height: float
    slope: float


class FreeThreshold(MostViolated):
    """``phi(s) = min_b max over labelings of  Delta(y, z) + sum_i price_i (z_i - y_i) / 2 (s_i + b)``.

    A shift of all scores keeps their order, so b needs no further sort.  As a function of b every labeling is a line.
    Where a decreasing and an increasing one intersect, either no line lies above, and b is optimal, or the one above
    replaces one of them.  The convex combination of both with slopes that sum to zero is a plane without b.
    """

    measure: ThresholdMeasure

    @override
    def evaluate(self, scores: FloatArray) -> Evaluation:
        with np.errstate(over="ignore", invalid="ignore"):
            ranked, orders = self.rank(scores)
            b, value, falling, rising = self._meet(ranked)
            share = rising.slope / (rising.slope - falling.slope) if rising is not falling else 1.0
            down, up = (self.measure.slopes(ranked, piece.table) for piece in (falling, rising))
            positives, negatives = (share * left + (1.0 - share) * right for left, right in zip(down, up, strict=True))
            return Evaluation(value, self._scattered(orders, positives, negatives), b)

    def _meet(self, ranked: Ranked) -> tuple[float, float, _Piece, _Piece]:
        """The best b, the value there, and the two lines that intersect there, or one constant line twice."""
        n_positive, n_negative = ranked.sizes
        falling, rising = self._piece(ranked, Table(0, 0)), self._piece(ranked, Table(n_positive, n_negative))
        while True:
            b = (falling.height - rising.height) / (rising.slope - falling.slope)
            meet = falling.height + falling.slope * b
            above = self._piece(ranked, self.measure.worst(ranked.shifted(b)))
            value = above.height + above.slope * b
            rounding = EXACT * (abs(above.height) + abs(above.slope * b) + abs(falling.height))
            if not (value > meet + rounding and falling.slope < above.slope < rising.slope):
                return b, meet, falling, rising
            if above.slope == 0.0:
                return b, value, above, above
            if above.slope < 0.0:
                falling = above
            else:
                rising = above

    def _piece(self, ranked: Ranked, table: Table) -> _Piece:
        miss, alarm = ranked.prices
        slope = alarm * table.fp - miss * (ranked.positives.size - table.tp)
        return _Piece(table, self.measure.value(ranked, table), slope)


def class_prices(measure: ThresholdMeasure, design: Design, y: FloatArray) -> Prices:
    """What mistakes of each class cost where the direction between the means of the classes separates them best."""
    positive = y > 0.0
    shares = np.where(positive, 1.0 / max(positive.sum(), 1), -1.0 / max((~positive).sum(), 1))
    with np.errstate(over="ignore", invalid="ignore"):
        scores = design.matvec(design.rmatvec(shares))
        return measure.prices(MostViolated(measure, y, EQUAL).rank(scores)[0])


class MultivariateRisk(ScoreRisk):
    """``R(w)`` of a measure, for labels y of -1 and +1; ``measure`` is an object or a name such as "f1".

    R is convex, an upper bound of ``measure.label_loss(y, X w)``, and at least the loss of the best labeling.
    With ``fit_intercept`` it is ``min_b R(w, b)``, the intercept not penalized and exact.  Measures of a ranking do
    not depend on it; then ``intercept(w)`` is chosen by the training scores: below the k-th for the top k, where the
    ROC curve is farthest above the diagonal for its area.

    >>> risk = MultivariateRisk(np.eye(3), np.array([1.0, -1.0, 1.0]), "f1")
    >>> risk.cut(np.array([0.0, 3.0, 0.0]))
    Cut(a=array([-0.33333333,  0.33333333, -0.33333333]), b=1.0, value=2.0)
    """

    phi: MostViolated

    def __init__(self, X: Any, y: Any, measure: Measure | str, *, fit_intercept: bool = False) -> None:
        design = as_design(X)
        self.y, self.fit_intercept = real_targets(y, design.shape), fit_intercept
        check_signs(self.y)
        self.measure = measure_named(measure) if isinstance(measure, str) else measure
        n_positive = int(np.count_nonzero(self.y > 0.0))
        sizes = n_positive, self.y.size - n_positive
        self.measure.check(*sizes)
        super().__init__(design, self._phi(design), lower_bound=self.measure.least(*sizes))

    def _phi(self, design: Design) -> MostViolated:
        """The function of the scores, with the prices of both classes."""
        if not isinstance(self.measure, ThresholdMeasure):
            return MostViolated(self.measure, self.y, EQUAL)
        kind = FreeThreshold if self.fit_intercept else MostViolated
        return kind(self.measure, self.y, class_prices(self.measure, design, self.y))

    @override
    def intercept(self, w: FloatArray) -> float:
        if self.fit_intercept and not self.measure.sees_intercept:
            return -self.measure.cutoff(self.phi.rank(self.design.matvec(w))[0])
        return super().intercept(w)
