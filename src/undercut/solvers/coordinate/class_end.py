"""From a point near the optimum of the Crammer-Singer loss with L2 to the optimum, by interior point steps.

Sweeps on the dual (``proximal_sweeps.py``) find out which classes of which samples have a share, and then approach the
optimum slowly.  With the other shares fixed the problem is small:

    min_W  l2/2 |W|^2 - <V, W> + sum_i cap_i top_i,     top_i - costs_ik - <w_k, x_i> - b_k = z_ik >= 0

for the pairs (i, k) of samples and classes in use, where ``V = X' (own - Q)`` holds the fixed shares.  A step aims at
``q_ik z_ik = cap_i mu`` with a mu that goes to zero (Mehrotra 1992).  Its equations are those of each class, coupled by
the sums of the shares of a sample:

    (X_k X_k' / l2 + diag(z / q)) dq_k + dtop - db_k  =  h_k,       sum_k dq_ik = cap_i - sum_k q_ik

so that the largest matrix has the size of the samples in use.  With free intercepts b the columns of Q have given sums.
"""

from __future__ import annotations

import itertools
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotri, dpotrs

from undercut.maps.csr import SparseDesign
from undercut.maps.dense import DenseDesign
from undercut.solvers.coordinate.dual.share_dual import ShareDual
from undercut.types import Array, FloatArray

FLOPS = 25.0  # operations of a factorization that take as long as one entry in a sweep
CENTERING = 50  # Newton steps for the start, at most
SHORT = 0.3  # a step below this is tried again with less of the second-order terms
SHORT_OF_BOUNDARY = 0.995  # share of the longest step
RIDGE = 1e-15  # the first that is added to a matrix with unit diagonal that is not positive definite


class Point(NamedTuple):
    """Or a change of it."""

    W: FloatArray  # a row per feature
    b: FloatArray
    top: FloatArray  # per sample in use
    q: FloatArray  # per pair
    z: FloatArray

    def moved(self, by: Point, length: float) -> Point:
        return Point(*(mine + length * change for mine, change in zip(self, by, strict=True)))

    @property
    def total(self) -> float:
        """``sum q z``, which is the gap where the other equations hold."""
        return float(self.q @ self.z)


class ClassEnd:
    """The problem of some pairs of samples and classes; the other shares are those of Q.

    ``used`` : bool (n_samples, n_classes); a sample has at least two of them, or none.
    """

    def __init__(self, dual: ShareDual, design: SparseDesign | DenseDesign, Q: FloatArray, used: Array) -> None:
        risk = dual.risk
        samples = np.flatnonzero(used.any(axis=1))
        self.class_of, self.row_of = np.nonzero(used.T)
        self.sample_of = np.searchsorted(samples, self.row_of)
        self.n_samples, self.n_classes, self.l2 = samples.size, risk.n_classes, dual.l2
        ends = np.searchsorted(self.class_of, np.arange(self.n_classes + 1))
        self.parts = [slice(*pair) for pair in itertools.pairwise(ends)]
        self.caps, self.costs = risk.weight[samples], dual.margins[self.row_of, self.class_of]
        self.fixed = np.where(used, 0.0, Q)
        rest = dual.own - self.fixed
        self.V, self.excess = dual.products(rest, design), rest.sum(axis=0)
        self.free, X = risk.fit_intercept, design.take(samples).X.astype(np.float64)
        self.rows: list[Any] = [X[self.sample_of[part]] for part in self.parts]

    @cached_property
    def grams(self) -> list[FloatArray]:
        """``X_k X_k' / l2``."""
        products = (X @ X.T for X in self.rows)
        return [(G if isinstance(G, np.ndarray) else G.toarray()) / self.l2 for G in products]

    def start(self, W: FloatArray, b: FloatArray, total: float) -> Point:
        """The point with ``q z = cap mu`` and these parameters."""
        mu, s = total / float(self.caps[self.sample_of].sum()), self.sample_of
        g = self.costs + self.scores(W) + b[self.class_of]
        least = np.full(self.n_samples, -np.inf)
        np.maximum.at(least, s, g)
        least += mu
        top = least
        for _ in range(CENTERING):  # sum_k mu / (top - g_k) = 1: convex and falling in top, which is below the root
            q = mu / (top[s] - g)
            rest = self.by_sample(q) - 1.0
            top = np.maximum(top + mu * rest / self.by_sample(q**2), least)
            if np.abs(rest).max(initial=0.0) < 1e-10:
                break
        z = top[s] - g
        return Point(W, b, top, mu * self.caps[s] / z, z)

    def step(self, at: Point) -> tuple[Point, float]:
        """The next point, and the length of the step, which is at most 1."""
        equations, weight = Equations(self, at), self.caps[self.sample_of]
        first = equations.solve(-at.q * at.z)
        ahead = at.moved(first, min(1.0, _longest(at, first)))
        mu = max(ahead.total, 0.0) ** 3 / at.total**2 / float(weight.sum())
        length = 0.0
        for share in (1.0, min(1.0, _longest(at, first)) ** 2):
            move = equations.solve(mu * weight - at.q * at.z - share * first.q * first.z)
            reach = min(1.0, SHORT_OF_BOUNDARY * _longest(at, move))
            if reach > length:
                chosen, length = move, reach
            if length > SHORT:
                break
        return (at.moved(chosen, length), length) if length > 0.0 else (at, 0.0)

    def shares(self, at: Point, weight: FloatArray) -> FloatArray:
        """Those of all samples and classes, with the sums that they must have."""
        Q = self.fixed.copy()
        Q[self.row_of, self.class_of] = np.maximum(at.q, 0.0)
        total = Q.sum(axis=1)
        Q *= np.divide(weight, total, out=np.ones_like(total), where=total > 0.0)[:, None]
        return Q

    def scores(self, W: FloatArray) -> FloatArray:
        return np.concatenate([X @ w for X, w in zip(self.rows, W.T, strict=True)])

    def forces(self, q: FloatArray) -> FloatArray:
        """``X' q`` of every class."""
        return np.stack([X.T @ q[part] for X, part in zip(self.rows, self.parts, strict=True)], axis=1)

    def by_sample(self, pairs: FloatArray) -> FloatArray:
        return np.bincount(self.sample_of, pairs, self.n_samples).astype(np.float64)

    def by_class(self, pairs: FloatArray) -> FloatArray:
        return np.bincount(self.class_of, pairs, self.n_classes).astype(np.float64)


class Equations:
    """The linearized equations at a point, factored once."""

    def __init__(self, end: ClassEnd, at: Point) -> None:
        self.end, self.at = end, at
        self._softness, K = at.z / at.q, end.n_classes
        self._inverses = [_inverse(G, self._softness[part]) for G, part in zip(end.grams, end.parts, strict=True)]
        S = np.zeros((end.n_samples, end.n_samples))
        self._T = np.zeros((end.n_samples, K))  # what a change of intercepts adds to the sums of samples
        for k, (inverse, part) in enumerate(zip(self._inverses, end.parts, strict=True)):
            own = end.sample_of[part]
            S[np.ix_(own, own)] += inverse
            self._T[own, k] = inverse.sum(axis=1)
        self._scale = 1.0 / np.sqrt(S.diagonal())
        S *= self._scale
        S *= self._scale[:, None]
        self._factor = _cholesky(S)
        if end.free:
            self._followed = self._coupled(self._T)
            B = self._T.T @ self._followed - np.diag(self._T.sum(axis=0))
            self._B = np.linalg.pinv(B, rcond=1e-12, hermitian=True)  # one intercept more for all changes nothing

    def solve(self, aim: FloatArray) -> Point:
        """The change for which ``q dz + z dq = aim``, and the other equations hold."""
        end, at, s = self.end, self.at, self.end.sample_of
        residual = at.W - (end.V - end.forces(at.q)) / end.l2
        missed = at.top[s] - end.costs - end.scores(at.W) - at.b[end.class_of] - at.z
        h = aim / at.q - missed - end.scores(residual)
        alone = self._apart(h)
        by_sample = end.by_sample(alone) - (end.caps - end.by_sample(at.q))
        top, b = self._coupled(by_sample), np.zeros_like(at.b)
        if end.free:
            by_class = end.by_class(alone) - (end.excess - end.by_class(at.q))
            b = self._B @ (by_class - self._T.T @ top)
            top += self._followed @ b
        q = self._apart(h - top[s] + b[end.class_of])
        return Point(-residual - end.forces(q) / end.l2, b, top, q, aim / at.q - self._softness * q)

    def _apart(self, h: FloatArray) -> FloatArray:
        """The solution for each class by itself."""
        return np.concatenate([inv @ h[part] for inv, part in zip(self._inverses, self.end.parts, strict=True)])

    def _coupled(self, v: FloatArray) -> FloatArray:
        scaled: FloatArray = dpotrs(self._factor, (v.T * self._scale).T)[0]
        return (scaled.T * self._scale).T


def n_operations(used: Array) -> float:
    """What a step costs, in entries that sweeps read."""
    per_class = used.sum(axis=0).astype(np.float64)
    return float((used.any(axis=1).sum() ** 3 / 3.0 + (2.0 * per_class**3).sum()) / FLOPS)


def n_numbers(used: Array, row_length: float) -> float:
    """What a step stores: a Gram matrix and an inverse per class, one matrix for all samples, and a row per pair."""
    per_class = used.sum(axis=0).astype(np.float64)
    n_samples = float(used.any(axis=1).sum())
    return float(2.0 * (per_class**2).sum() + n_samples**2 + row_length * per_class.sum())


def _longest(at: Point, move: Point) -> float:
    """The length at which the first share or slack is zero."""
    steepest = max(float((-move.q / at.q).max(initial=0.0)), float((-move.z / at.z).max(initial=0.0)))
    return 1.0 / max(steepest, 1e-300)


def _inverse(gram: FloatArray, softness: FloatArray) -> FloatArray:
    """The inverse of ``gram + diag(softness)``."""
    M = gram.copy()
    M.flat[:: M.shape[0] + 1] += softness
    scale = 1.0 / np.sqrt(M.diagonal())
    M *= scale
    M *= scale[:, None]
    inverse = np.triu(dpotri(_cholesky(M), overwrite_c=True)[0]) if M.size else M
    inverse += np.triu(inverse, 1).T
    inverse *= scale
    inverse *= scale[:, None]
    return inverse


def _cholesky(M: FloatArray) -> FloatArray:
    """The upper factor of a matrix with unit diagonal, with the least ridge that lets the factorization through."""
    factor: FloatArray
    factor, failed = dpotrf(M, clean=False)
    ridge = RIDGE
    while failed and ridge < 1.0:
        M.flat[:: M.shape[0] + 1] += ridge
        ridge *= 100.0
        factor, failed = dpotrf(M, clean=False)
    return factor
