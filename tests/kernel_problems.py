"""Small kernel machines, and what others say about them."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import cvxpy as cp
import numpy as np
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC

from undercut.maps.gram import DenseGram
from undercut.regularizers import KernelNorm
from undercut.risks import GramRisk
from undercut.solvers import KernelHedging, PairDescent


class Machine(NamedTuple):
    """One problem in both notations."""

    X: np.ndarray
    y: np.ndarray
    C: float
    gamma: float
    fit_intercept: bool = True

    @property
    def K(self):
        return rbf_kernel(self.X, gamma=self.gamma)

    @property
    def lam(self):
        return 1.0 / (self.y.size * self.C)

    def parts(self, gram=None):
        """The risk and the regularizer."""
        risk = GramRisk(DenseGram(self.K) if gram is None else gram, self.y, fit_intercept=self.fit_intercept)
        return risk, KernelNorm(self.lam, risk.gram)

    def svc(self):
        return SVC(C=self.C, gamma=self.gamma, tol=1e-8).fit(self.X, self.y)

    def optimum(self):
        """Of J, by a conic solver on a factor of K."""
        values, vectors = np.linalg.eigh(self.K)
        F = vectors * np.sqrt(np.maximum(values, 0.0))
        v, b = cp.Variable(F.shape[1]), cp.Variable()
        margins = cp.multiply(self.y, F @ v + (b if self.fit_intercept else 0.0))
        objective = 0.5 * self.lam * cp.sum_squares(v) + cp.sum(cp.pos(1.0 - margins)) / self.y.size
        return cp.Problem(cp.Minimize(objective)).solve(solver=cp.CLARABEL)


@cache
def machine(n=60, C=1.0, gamma=0.5, seed=0, fit_intercept=True, flipped=0.1):
    """Two rings with some labels flipped, one class twice as frequent."""
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n) < 0.65, 1.0, -1.0)
    angle = rng.uniform(0.0, 2.0 * np.pi, n)
    X = (2.0 + y + 0.4 * rng.standard_normal(n))[:, None] * np.stack([np.cos(angle), np.sin(angle)], 1)
    return Machine(X, np.where(rng.random(n) < flipped, -y, y), C, gamma, fit_intercept)


def solver_over(blocks):
    """Hedging over that many blocks, or over single samples; descent on the whole problem for one."""
    return PairDescent() if blocks == 1 else KernelHedging(blocks=blocks)
