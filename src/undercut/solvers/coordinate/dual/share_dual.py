"""The dual of the Crammer-Singer loss with L1, L2 or the elastic net: a simplex of shares for every sample.

    sum_ik q_ik costs[y_i, k] - reg*(V)  <=  min J      where    V = X' (own - Q),   q_ik >= 0,   sum_k q_ik = weight_i

and ``own_ik = weight_i [k = y_i]``.  With free intercepts every column of Q has the sum of that of ``own``.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from undercut._jit.class_blocks import balance_shares, class_products
from undercut._jit.proximal_blocks import row_peaks, square_beyond
from undercut.losses import CrammerSinger
from undercut.maps.csr import SparseDesign
from undercut.maps.dense import DenseDesign
from undercut.regularizers import L1, L2, ElasticNet
from undercut.regularizers.boxed import terms_of
from undercut.risks import MulticlassRisk
from undercut.solvers.bounds import ROUNDING
from undercut.types import FloatArray

SOFT = 0.1  # of the largest cost: what scores below the largest one have a share of e^-1 at the start


class Steepness(NamedTuple):
    """Forces on the parameters, one row per feature, and how much larger rounding may have made them."""

    V: FloatArray
    norms: FloatArray  # of the columns of X, weighted
    size: FloatArray  # of the slopes of each class
    peaks: FloatArray  # the largest force on each feature, rounding included

    def square(self, share: float, l1: float) -> float:
        """``sum_jk max(share |V_jk| - l1, 0)^2``, rounding included."""
        return float(square_beyond(self.V, self.norms, self.size, ROUNDING, self.peaks, share, l1))


class ShareDual:
    """``norms`` : of the columns of X, weighted."""

    def __init__(self, risk: MulticlassRisk, reg: L1 | L2 | ElasticNet, norms: FloatArray) -> None:
        assert isinstance(risk.loss, CrammerSinger)
        self.risk, self.norms = risk, norms
        terms = terms_of(reg)
        self.l1, self.l2 = float(terms.l1), float(terms.l2)
        self.costs = risk.loss.costs(risk.n_classes)
        self.margins = self.costs[risk.y]  # (n_samples, n_classes)
        self.own = np.zeros_like(self.margins)
        self.own[np.arange(risk.y.size), risk.y] = risk.weight

    def near(self, scores: FloatArray) -> FloatArray:
        """Shares of all classes whose scores, with the margins, are near the largest one of a sample."""
        G = self.margins + scores
        G -= G.max(axis=1, keepdims=True)
        Q = np.exp(G / (SOFT * (float(self.costs.max()) or 1.0)))
        Q *= (self.risk.weight / Q.sum(axis=1))[:, None]
        return self._balanced(Q) if self.risk.fit_intercept else Q

    def forces(self, Q: FloatArray, design: SparseDesign | DenseDesign) -> FloatArray:
        """V of some columns of X, one row each."""
        return self.products(self.slopes(Q), design)

    def products(self, D: FloatArray, design: SparseDesign | DenseDesign) -> FloatArray:
        """``X' D`` for some columns of X, one row each."""
        V = np.empty((design.shape[1], self.risk.n_classes))
        class_products(*design.rows(), D, V)
        return V

    def slopes(self, Q: FloatArray) -> FloatArray:
        """``own - Q``, its entry of the own class computed from the others.

        Their sum is as small as they are, so that rounding is relative to it.  The difference of two shares near
        weight_i is not, and rows that do not sum to zero make bounds invalid in proportion to the scores.
        """
        D, rows = -Q, np.arange(Q.shape[0])
        D[rows, self.risk.y] = 0.0
        D[rows, self.risk.y] = -D.sum(axis=1)
        return D

    def excess(self, Q: FloatArray) -> FloatArray:
        """What the columns of Q lack of the sums of ``own``."""
        return np.asarray(self.slopes(Q).sum(axis=0))

    def gain(self, Q: FloatArray) -> float:
        return float(np.vdot(Q, self.margins))

    def feasible(self, Q: FloatArray) -> FloatArray:
        """Shares near Q that a bound may use."""
        return self._balanced(Q) if self.risk.fit_intercept else Q

    def steepness(self, Q: FloatArray, V: FloatArray) -> Steepness:
        """``V`` : the forces of Q."""
        weight, peaks = self.risk.weight, np.empty(V.shape[0])
        used = weight > 0.0
        size = np.sqrt((self.slopes(Q)[used] ** 2 / weight[used, None]).sum(axis=0))
        row_peaks(V, self.norms, size, ROUNDING, peaks)
        return Steepness(V, self.norms, size, peaks)

    def bound(self, Q: FloatArray, steepness: Steepness, b: FloatArray, objective: float) -> float:
        """The best value of ``share Q + (1 - share) own`` for a few shares, less what rounding may have added.

        ``Q`` : feasible shares.  ``b`` : intercepts near the best ones; only rounding is multiplied by them.
        """
        unmet = float(np.abs(b) @ np.abs(self.excess(Q))) if self.risk.fit_intercept else 0.0
        inside = min(1.0, self.l1 / max(float(steepness.peaks.max(initial=0.0)), 1e-300))
        gain = self.gain(Q)

        def square(share: float) -> float:
            return 0.5 * steepness.square(share, self.l1) / self.l2 if self.l2 > 0.0 else 0.0

        shares = {inside}
        if self.l2 > 0.0:
            shares |= {math.sqrt(inside), min(1.0, 0.5 * gain / max(square(1.0), 1e-300)), 1.0}
        best = max(share * gain - (1.0 + ROUNDING) * square(share) for share in shares)
        return best - ROUNDING * (gain + abs(objective)) - unmet

    def _balanced(self, Q: FloatArray) -> FloatArray:
        """Shares near Q whose columns have the sums of those of ``own``, but for rounding."""
        shares = np.maximum(Q, 0.0)
        balance_shares(shares, self.excess(Q))
        total = shares.sum(axis=1)
        shares *= np.divide(self.risk.weight, total, out=np.ones_like(total), where=total > 0.0)[:, None]
        return shares
