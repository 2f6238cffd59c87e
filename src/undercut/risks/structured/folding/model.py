"""The structured model of RNA folding (Do, Woods, Batzoglou 2006; max-margin as in Do, Le, Foo 2009, Sec. 5.2)."""

from __future__ import annotations

from typing import Literal

import numpy as np

from undercut._jit.folding import Bonus
from undercut._jit.folding_structure import best_accuracy, count_loops
from undercut.contracts import Rescaling
from undercut.errors import CapabilityError, require
from undercut.risks.structured.folding.features import SIZE, matrix, names, views
from undercut.risks.structured.folding.grammar import check_structure, letters, padded
from undercut.risks.structured.folding.sums import Scores, Workspace, best_structure, expected_counts, fill, scores_of
from undercut.threads import PerThread
from undercut.types import Array, FloatArray

Delta = Literal["missed", "pairs", "hamming"]


class FoldingModel:
    """Nested structures of RNA, scored by 336 parameters; see ``parameter_names``.

    A sequence x is a text of the letters A, C, G, U; any other letter pairs with none.  A structure y is an integer
    array with the partner of every position, counted from 0, or -1: ``partners`` makes it from dots and brackets.
    Pairs are AU, CG and GU, a hairpin has at least 3 unpaired positions, and a bulge or internal loop at most 30.

    Every structure is scored exactly: ``decode`` and ``predict`` find the best one, ``log_partition`` sums over all of
    them, ``marginals`` are the probabilities of pairs, and ``most_accurate`` maximizes the expected accuracy.  Time is
    O(n^3) with a small constant, memory O(n^2) per thread.

    Parameters
    ----------
    delta : "missed", "pairs" or "hamming"
        The loss of a structure: the share of true pairs that it misses; missed and false pairs, divided by the number
        of true ones; or the share of positions with another partner.

    >>> from undercut import L2, StructuredRisk, minimize
    >>> from undercut.io.dot_bracket import partners
    >>> model, x, y = FoldingModel(), "GGGAAAUCCC", partners("(((....)))")
    >>> w = minimize(StructuredRisk(model, [x], [y]), L2(0.01)).w
    >>> model.predict(model.prepare(w), x).tolist()
    [9, 8, 7, -1, -1, -1, -1, 2, 1, 0]
    """

    releases_gil = True
    n_params = len(names())

    def __init__(self, delta: Delta = "missed") -> None:
        require(delta in ("missed", "pairs", "hamming"), "`delta` must be 'missed', 'pairs' or 'hamming'", delta)
        self.delta = delta
        self._workspaces = PerThread(Workspace)

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """What each parameter is, as CONTRAfold calls it."""
        return names()

    def prepare(self, w: FloatArray) -> Scores:
        """The score tables of w; every other method that scores takes them in place of w."""
        return scores_of(w)

    def joint_feature(self, x: str, y: Array) -> FloatArray:
        """How often each parameter counts in y."""
        check_structure(x, y)
        counts = np.zeros(SIZE)
        count_loops(letters(x), padded(y), views(counts))
        feature: FloatArray = matrix().T @ counts
        return feature

    def label_loss(self, y: Array, y_hat: Array) -> float:
        """``Delta(y, y_hat)``."""
        same = y == y_hat
        if self.delta == "hamming":
            return float(1.0 - same.mean())
        n_true, right = int((y >= 0).sum()), int((same & (y >= 0)).sum())
        missed = n_true - right
        false = int((y_hat >= 0).sum()) - right
        return float((missed + (false if self.delta == "pairs" else 0)) / max(n_true, 2))  # positions: two per pair

    def decode(self, scores: Scores, x: str, y: Array, rescaling: Rescaling) -> Array:
        """The structure of the largest loss."""
        if rescaling != "margin":
            raise CapabilityError(
                "folding decodes margin rescaling only, because the loss must be a sum over pairs; got "
                f"rescaling={rescaling!r}"
            )
        return self._best(scores, x, self._bonus(y))

    def predict(self, scores: Scores, x: str) -> Array:
        """The structure of the highest score."""
        return self._best(scores, x, no_bonus(len(x)))

    def log_partition(self, scores: Scores, x: str) -> tuple[float, FloatArray]:
        """``log Z``, and the expected joint feature."""
        s, bonus, work = letters(x), no_bonus(len(x)), self._workspaces.get().reserve(len(x))
        filled = fill(scores, s, bonus, work)
        return filled.log_z, matrix().T @ expected_counts(filled, s, bonus, work)

    def marginals(self, scores: Scores, x: str) -> FloatArray:
        """The probability of every pair, a symmetric matrix."""
        upper = self._pair_shares(scores, x)[1 : len(x) + 1, 1 : len(x) + 1]
        return upper + upper.T

    def parts(self, x: str, y: Array) -> FloatArray:
        """What ``marginals`` are the expectation of: the matrix of y's pairs."""
        pairs = np.zeros((len(x), len(x)))
        at = np.flatnonzero(y >= 0)
        pairs[at, y[at]] = 1.0
        return pairs

    def most_accurate(self, scores: Scores, x: str, gamma: float) -> Array:
        """The structure of maximum expected accuracy: a pair is worth ``gamma`` times two unpaired positions."""
        partner = np.empty(len(x) + 2, np.int64)
        best_accuracy(self._pair_shares(scores, x), float(gamma), partner)
        return partner[1:-1] - 1

    def _pair_shares(self, scores: Scores, x: str) -> FloatArray:
        s, bonus, work = letters(x), no_bonus(len(x)), self._workspaces.get().reserve(len(x))
        expected_counts(fill(scores, s, bonus, work), s, bonus, work)
        shares: FloatArray = work.shares.pair
        return shares

    def _best(self, scores: Scores, x: str, bonus: Bonus) -> Array:
        return best_structure(scores, letters(x), bonus, self._workspaces.get().reserve(len(x)))[1:-1] - 1

    def _bonus(self, y: Array) -> Bonus:
        """Delta, up to a constant, as a sum over pairs."""
        partner = padded(y)
        if self.delta == "hamming":
            each = np.where(partner > 0, 0.0, 1.0 / y.size)
            return Bonus(each, -2.0 / y.size, partner)
        n_true = max(int((y >= 0).sum()) // 2, 1)
        false = 1.0 / n_true if self.delta == "pairs" else 0.0
        return Bonus(np.full(partner.size, 0.5 * false), -false - 1.0 / n_true, partner)


def no_bonus(n: int) -> Bonus:
    """No loss beside the score."""
    return Bonus(np.zeros(n + 2), 0.0, np.zeros(n + 2, np.int64))
