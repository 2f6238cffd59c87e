"""From a point near the optimum of the Crammer-Singer loss to the optimum, by interior point steps.

Sweeps on the dual (``proximal_sweeps.py``) find out which classes of which samples have a share, and then approach the
optimum slowly.  With the other shares fixed the problem is small:

    min_W  l2/2 |W|^2 - <V, W> + sum_i cap_i top_i,     top_i - costs_ik - <w_k, x_i> - b_k = z_ik >= 0

for the pairs (i, k) of samples and classes in use, where ``V = X' (own - Q)`` holds the fixed shares.  A step aims at
``q_ik z_ik = cap_i mu`` with a mu that goes to zero (Mehrotra 1992).  Its equations are those of each class, coupled by
the sums of the shares of a sample:

    (X_k X_k' / l2 + diag(z / q)) dq_k + dtop - db_k  =  h_k,       sum_k dq_ik = cap_i - sum_k q_ik

so that the largest matrix has the size of the samples in use.  With free intercepts b the columns of Q have given sums.

With absolute values ``l1 |W|_1`` parameters are ``w = up - down``, both positive, and ``above`` and ``below`` are the
distances of ``V - l2 w`` from l1 and -l1.  The products of up and above and of down and below go to zero with mu too,
and ``1 / l2`` becomes a weight of every parameter, large for those that are not zero at the optimum.  The matrices are
ill-conditioned then, and solutions are corrected by what they leave of the equations.
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
REFINED = 10  # corrections of a solution by what it leaves of the equations, at most
DENSE = 0.05  # share of entries that are not zero from which on products of arrays take less time
RIDGE = 1e-15  # the first that is added to a matrix with unit diagonal that is not positive definite


class Point(NamedTuple):
    """Or a change of it."""

    W: FloatArray  # a row per feature
    b: FloatArray
    top: FloatArray  # per sample in use
    q: FloatArray  # per pair
    z: FloatArray
    up: FloatArray  # the positive parts of the parameters that absolute values let move, ...
    down: FloatArray  # ... the negative parts, ...
    above: FloatArray  # ... and the distances of the forces on them from l1 ...
    below: FloatArray  # ... and from -l1

    def moved(self, by: Point, length: float) -> Point:
        return Point(*(mine + length * change for mine, change in zip(self, by, strict=True)))

    @property
    def total(self) -> float:
        """The sum of all products that vanish at the optimum, which is the gap where the other equations hold."""
        return float(self.q @ self.z + self.up @ self.above + self.down @ self.below)


class Aim(NamedTuple):
    """What the linearized products of a point are to be."""

    pairs: FloatArray
    up: FloatArray
    down: FloatArray


class ClassEnd:
    """The problem of some pairs of samples and classes; the other shares are those of Q.

    ``used`` : bool (n_samples, n_classes); a sample has at least two of them, or none.
    ``moving`` : bool (n_features, n_classes), the parameters that absolute values let move; the others are zero.
    """

    def __init__(
        self, dual: ShareDual, design: SparseDesign | DenseDesign, Q: FloatArray, used: Array, moving: Array
    ) -> None:
        risk = dual.risk
        samples = np.flatnonzero(used.any(axis=1))
        self.class_of, self.row_of = np.nonzero(used.T)
        self.sample_of = np.searchsorted(samples, self.row_of)
        self.n_samples, self.n_classes, self.l1, self.l2 = samples.size, risk.n_classes, dual.l1, dual.l2
        self.moving = np.nonzero(moving) if dual.l1 > 0.0 else (np.zeros(0, int), np.zeros(0, int))
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

    @cached_property
    def _movable(self) -> list[tuple[Array, Any]]:
        """The features whose parameters may move, and X_k of these alone, for every class."""
        features = [self.moving[0][self.moving[1] == k] for k in range(self.n_classes)]
        return [(chosen, _compact(X[:, chosen])) for chosen, X in zip(features, self.rows, strict=True)]

    def weighted_grams(self, weight: FloatArray) -> list[FloatArray]:
        """``X_k diag(weight_k) X_k'``; the weights of parameters that may not move are zero."""
        return [_weighted_gram(X, part[chosen]) for (chosen, X), part in zip(self._movable, weight.T, strict=True)]

    @property
    def units(self) -> Aim:
        """What all products are at mu = 1."""
        share = np.full(self.moving[0].size, self.caps.mean())
        return Aim(self.caps[self.sample_of], share, share)

    def start(self, W: FloatArray, b: FloatArray, total: float) -> Point:
        """The point whose products are mu times the units, with these parameters."""
        units, s = self.units, self.sample_of
        mu = total / sum(float(part.sum()) for part in units)
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
        return Point(W, b, top, mu * self.caps[s] / z, z, *self._parts(W[self.moving], mu * units.up))

    def _parts(self, w: FloatArray, product: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """(up, down, above, below) with ``up - down = w``, ``above + below = 2 l1`` and the given products."""
        ratio = self.l1 * np.abs(w) / np.maximum(product, 1e-300)
        root = np.sqrt(1.0 + ratio**2)
        near = self.l1 * (1.0 + 1.0 / (root + ratio)) / (1.0 + root)
        far = 2.0 * self.l1 - near
        above, below = np.where(w > 0.0, near, far), np.where(w > 0.0, far, near)
        return product / above, product / below, above, below

    def step(self, at: Point) -> tuple[Point, float]:
        """The next point, and the length of the step, which is at most 1."""
        equations, units = Equations(self, at), self.units
        last = Aim(at.q * at.z, at.up * at.above, at.down * at.below)
        first = equations.solve(Aim(*(-part for part in last)))
        reach = min(1.0, _longest(at, first))
        mu = max(at.moved(first, reach).total, 0.0) ** 3 / at.total**2 / sum(float(part.sum()) for part in units)
        second = Aim(first.q * first.z, first.up * first.above, first.down * first.below)
        length = 0.0
        for share in (1.0, reach**2):
            parts = zip(units, last, second, strict=True)
            move = equations.solve(Aim(*(mu * unit - now - share * more for unit, now, more in parts)))
            reach = min(1.0, SHORT_OF_BOUNDARY * _longest(at, move))
            if reach > length:
                chosen, length = move, reach
            if length > SHORT:
                break
        return (at.moved(chosen, length), length) if length > 0.0 else (at, 0.0)

    def rounding(self, at: Point) -> float:
        """What rounding has made of ``top - costs - <w, x> - b = z``, which each step keeps, in units of the loss.

        Squares alone leave the equations well-conditioned, and errors do not grow.
        """
        if self.l1 == 0.0:
            return 0.0
        off = at.top[self.sample_of] - self.costs - self.scores(at.W) - at.b[self.class_of] - at.z
        return float(self.caps[self.sample_of] @ np.abs(off))

    def beyond(self, at: Point) -> float:
        """How far the largest force is beyond l1, relative to it: shares lose as much when they are made feasible."""
        if self.l1 == 0.0:
            return 0.0
        forces = (self.V - self.forces(at.q) - self.l2 * at.W)[self.moving]
        return max(float(np.abs(forces).max(initial=0.0)) / self.l1 - 1.0, 0.0)

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
        self._give = self._gives()
        grams = end.grams if end.l1 == 0.0 else end.weighted_grams(self._give)
        self._inverses = [_inverse(G, self._softness[part]) for G, part in zip(grams, end.parts, strict=True)]
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

    def _gives(self) -> FloatArray:
        """How much each parameter changes with the force on it."""
        end, at = self.end, self.at
        if end.l1 == 0.0:
            return np.full_like(at.W, 1.0 / end.l2)
        alone = at.up / at.above + at.down / at.below
        gives = np.zeros_like(at.W)
        gives[end.moving] = alone / (1.0 + end.l2 * alone)
        return gives

    def solve(self, aim: Aim) -> Point:
        """The change for which the products change as ``aim`` says, and the other equations hold."""
        end, at, s = self.end, self.at, self.end.sample_of
        V = end.V - end.forces(at.q)
        drift = self._drift(aim, V)
        missed = at.top[s] - end.costs - end.scores(at.W) - at.b[end.class_of] - at.z
        h = aim.pairs / at.q - missed + end.scores(drift)
        sums = end.caps - end.by_sample(at.q), end.excess - end.by_class(at.q)
        q, top, b = self._solution(h, *sums)
        size = np.inf
        for _ in range(REFINED):
            left = h - self._softness * q - end.scores(self._give * end.forces(q)) - top[s] + b[end.class_of]
            found = float(np.abs(left).max(initial=0.0))
            if not found < 0.5 * size:  # rounding, or NaN
                break
            size = found
            more = self._solution(left, sums[0] - end.by_sample(q), sums[1] - end.by_class(q))
            q, top, b = q + more[0], top + more[1], b + more[2]
        change = -end.forces(q)
        W = drift + self._give * change
        return Point(W, b, top, q, aim.pairs / at.q - self._softness * q, *self._parts(aim, V + change, at.W + W))

    def _solution(
        self, h: FloatArray, by_sample: FloatArray, by_class: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """(dq, dtop, db) for these right-hand sides of the equations of pairs, samples and classes."""
        end, s = self.end, self.end.sample_of
        alone = self._apart(h)
        top, b = self._coupled(end.by_sample(alone) - by_sample), np.zeros(end.n_classes)
        if end.free:
            b = self._B @ (end.by_class(alone) - by_class - self._T.T @ top)
            top += self._followed @ b
        return self._apart(h - top[s] + b[end.class_of]), top, b

    def _drift(self, aim: Aim, V: FloatArray) -> FloatArray:
        """How the parameters change where the forces V stay."""
        end, at = self.end, self.at
        if end.l1 == 0.0:
            return V / end.l2 - at.W
        drift, w, force = np.zeros_like(at.W), at.W[end.moving], V[end.moving]
        rise, fall = at.up / at.above, at.down / at.below
        up = aim.up / at.above + rise * (at.above - (end.l1 + end.l2 * w - force))
        down = aim.down / at.below + fall * (at.below - (end.l1 - end.l2 * w + force))
        drift[end.moving] = (up - down) / (1.0 + end.l2 * (rise + fall))
        return drift

    def _parts(self, aim: Aim, V: FloatArray, W: FloatArray) -> tuple[FloatArray, ...]:
        """Changes of (up, down, above, below) on the way to forces V and parameters W."""
        end, at = self.end, self.at
        slope = end.l2 * W[end.moving] - V[end.moving]
        above, below = end.l1 + slope - at.above, end.l1 - slope - at.below
        return (aim.up - at.up * above) / at.above, (aim.down - at.down * below) / at.below, above, below

    def _apart(self, h: FloatArray) -> FloatArray:
        """The solution for each class by itself."""
        return np.concatenate([inv @ h[part] for inv, part in zip(self._inverses, self.end.parts, strict=True)])

    def _coupled(self, v: FloatArray) -> FloatArray:
        scaled: FloatArray = dpotrs(self._factor, (v.T * self._scale).T)[0]
        return (scaled.T * self._scale).T


def n_operations(used: Array, row_length: float, changes: bool) -> float:
    """What a step costs, in entries that sweeps read.

    ``row_length`` : entries of X that a row has.  ``changes`` : whether Gram matrices change from step to step.
    """
    per_class = used.sum(axis=0).astype(np.float64)
    flops = used.any(axis=1).sum() ** 3 / 3.0 + (2.0 * per_class**3).sum()
    return float((flops + changes * 2.0 * row_length * (per_class**2).sum()) / FLOPS)


def n_numbers(used: Array, row_length: float) -> float:
    """What a step stores: a Gram matrix and an inverse per class, one matrix for all samples, and a row per pair."""
    per_class = used.sum(axis=0).astype(np.float64)
    n_samples = float(used.any(axis=1).sum())
    return float(2.0 * (per_class**2).sum() + n_samples**2 + row_length * per_class.sum())


def _longest(at: Point, move: Point) -> float:
    """The length at which the first of all that must be positive is zero."""
    steepest = max(float((-by / now).max(initial=0.0)) for now, by in zip(at[3:], move[3:], strict=True))
    return 1.0 / max(steepest, 1e-300)


def _compact(X: Any) -> Any:
    """A sparse matrix as an array where enough of its entries are not zero."""
    return X if isinstance(X, np.ndarray) or X.nnz < DENSE * X.shape[0] * X.shape[1] else X.toarray()


def _weighted_gram(X: Any, weight: FloatArray) -> FloatArray:
    """``X diag(weight) X'``."""
    if isinstance(X, np.ndarray):
        return np.asarray((X * weight) @ X.T)
    scaled = X.copy()
    scaled.data = X.data * weight[X.indices]
    return np.asarray((scaled @ X.T).toarray())


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
