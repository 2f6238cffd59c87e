"""Interior point steps for the Crammer-Singer loss with L2, with equations of the size of the parameters.

    min_W,b  l2/2 |W|^2 - <V, W> + sum_i cap_i top_i,     top_i - costs_ik - <w_k, x_i> - b_k = z_ik >= 0

where ``V = X' own`` and ``own_ik = cap_i [k = y_i]``.  Its dual variables are the shares ``q_ik >= 0``, with
``sum_k q_ik = cap_i`` and ``l2 W = X' (own - Q)``.  A step aims at ``q_ik z_ik = cap_i mu`` with a mu that goes to zero
(Mehrotra 1992).  With ``D = q / z`` and ``T_i = sum_k D_ik`` its equations reduce to

    (l2 I + sum_i M_i (x) x_i x_i') dW  =  rest,        M_i = diag(D_i) - D_i D_i' / T_i

the Hessian of a softmax with probabilities ``D_i / T_i``.  A free intercept is one more feature without a penalty.
Parameters that change all classes alike do not change the losses, and are zero.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from undercut.maps.csr import SparseDesign
from undercut.maps.dense import DenseDesign
from undercut.solvers.newton.factor import Factor
from undercut.types import FloatArray

CENTERING = 50  # Newton steps for the start, at most
SHORT = 0.3  # a step below this is tried again with less of the second-order terms
SHORT_OF_BOUNDARY = 0.995  # share of the longest step


class Point(NamedTuple):
    """Or a change of it."""

    W: FloatArray  # a row per class; the last column holds the intercepts, if they are free
    top: FloatArray  # (n_samples,)
    q: FloatArray  # (n_samples, n_classes)
    z: FloatArray

    def moved(self, by: Point, length: float) -> Point:
        return Point(*(mine + length * change for mine, change in zip(self, by, strict=True)))

    @property
    def total(self) -> float:
        """``sum q z``, which is the gap where the other equations hold."""
        return float(np.vdot(self.q, self.z))


class ClassProgram:
    """``margins, own`` : (n_samples, n_classes).  ``caps`` : positive weights of the samples."""

    def __init__(
        self, design: SparseDesign | DenseDesign, margins: FloatArray, own: FloatArray, l2: float, *, free: bool
    ) -> None:
        self.design, self.margins, self.own, self.l2, self.free = design, margins, own, l2, free
        self.caps = own.sum(axis=1)
        self.n_classes = own.shape[1]
        self.size = design.shape[1] + free

    def scores(self, W: FloatArray) -> FloatArray:
        """(n_samples, n_classes), the intercepts included."""
        d = self.design.shape[1]
        scores = self.design.matmat(np.ascontiguousarray(W[:, :d]))
        return scores + W[:, d] if self.free else scores

    def forces(self, slopes: FloatArray) -> FloatArray:
        """``X' slopes``, a row per class, and the sums of the slopes for free intercepts."""
        forces = self.design.rmatmat(np.ascontiguousarray(slopes))
        return np.hstack([forces, slopes.sum(axis=0)[:, None]]) if self.free else forces

    def stiffness(self, W: FloatArray) -> FloatArray:
        """``l2 W``; intercepts have no penalty."""
        out = self.l2 * W
        if self.free:
            out[:, -1] = 0.0
        return out

    def start(self, W: FloatArray, total: float) -> Point:
        """The point with ``q z = cap mu`` and these parameters, whose products sum to ``total``."""
        mu, g = total / (float(self.caps.sum()) * self.n_classes), self.margins + self.scores(W)
        least = g.max(axis=1) + mu
        top = least
        for _ in range(CENTERING):  # sum_k mu / (top - g_k) = 1: convex and falling in top, which is below the root
            q = mu / (top[:, None] - g)
            rest = q.sum(axis=1) - 1.0
            top = np.maximum(top + mu * rest / (q**2).sum(axis=1), least)
            if np.abs(rest).max(initial=0.0) < 1e-10:
                break
        z = top[:, None] - g
        return Point(W, top, mu * self.caps[:, None] / z, z)

    def step(self, at: Point) -> tuple[Point, float]:
        """The next point, and the length of the step, which is at most 1."""
        equations, weight = Equations(self, at), self.caps[:, None]
        first = equations.solve(-at.q * at.z)
        reach = min(1.0, _longest(at, first))
        mu = max(at.moved(first, reach).total, 0.0) ** 3 / at.total**2 / (float(weight.sum()) * self.n_classes)
        chosen, length = first, 0.0
        for share in (1.0, reach**2):
            move = equations.solve(mu * weight - at.q * at.z - share * first.q * first.z)
            longest = min(1.0, SHORT_OF_BOUNDARY * _longest(at, move))
            if longest > length:
                chosen, length = move, longest
            if length > SHORT:
                break
        return (at.moved(chosen, length), length) if length > 0.0 else (at, 0.0)


class Equations:
    """The linearized equations at a point, factored once."""

    def __init__(self, program: ClassProgram, at: Point) -> None:
        self.program, self.at = program, at
        self._D = at.q / at.z
        self._T = self._D.sum(axis=1)
        H = self._hessian()
        diagonal = H.diagonal().reshape(program.n_classes, program.size)
        self._pinned = diagonal.mean(axis=0)  # holds back changes that all classes have in common
        K, size = program.n_classes, program.size
        pins = H.reshape(K, size, K, size)
        pins[:, np.arange(size), :, np.arange(size)] += (self._pinned / K)[:, None, None]
        self._factor = Factor(H)

    def _hessian(self) -> FloatArray:
        """A row of blocks sums to zero but for l2, which gives the one on the diagonal without cancellation."""
        program, K, size = self.program, self.program.n_classes, self.program.size
        H = np.zeros((K, size, K, size))
        share = self._D / self._T[:, None]
        for k in range(K):
            for m in range(k):
                block = self._gram(self._D[:, k] * share[:, m])
                H[k, :, m] = H[m, :, k] = -block
                H[k, :, k] += block
                H[m, :, m] += block
        penalized = np.arange(program.design.shape[1])
        H[:, penalized, :, penalized] += program.l2 * np.eye(K)
        return H.reshape(K * size, K * size)

    def _gram(self, weight: FloatArray) -> FloatArray:
        design = self.program.design
        gram = design.weighted_gram(weight)
        if not self.program.free:
            return gram
        sums = design.rmatvec(weight)[:, None]
        return np.block([[gram, sums], [sums.T, np.full((1, 1), weight.sum())]])

    def _through(self, scores: FloatArray) -> FloatArray:
        """``M_i`` times every row."""
        pulled = self._D * scores
        return np.asarray(pulled - self._D * (pulled.sum(axis=1) / self._T)[:, None])

    def _product(self, x: FloatArray) -> FloatArray:
        """The matrix that is factored, times x."""
        program = self.program
        W = x.reshape(program.n_classes, program.size)
        out = program.stiffness(W) + program.forces(self._through(program.scores(W)))
        return np.asarray(out + self._pinned * W.mean(axis=0)).reshape(-1)

    def solve(self, aim: FloatArray) -> Point:
        """The change for which ``q dz + z dq = aim``, and the other equations hold."""
        program, at = self.program, self.at
        scores = program.scores(at.W)
        missed = at.top[:, None] - program.margins - scores - at.z
        e = aim / at.z - self._D * missed
        short = program.caps - at.q.sum(axis=1)
        alone = e - self._D * ((e.sum(axis=1) - short) / self._T)[:, None]
        rest = program.forces(program.own - at.q - alone) - program.stiffness(at.W)
        W = self._factor.solve(rest.reshape(-1), self._product).reshape(at.W.shape)
        rise = program.scores(W)
        top = (e.sum(axis=1) - short + (self._D * rise).sum(axis=1)) / self._T
        z = top[:, None] - rise + missed
        return Point(W, top, (aim - at.q * z) / at.z, z)


def _longest(at: Point, move: Point) -> float:
    """The length at which the first share or slack is zero."""
    steepest = max(float((-move.q / at.q).max(initial=0.0)), float((-move.z / at.z).max(initial=0.0)))
    return 1.0 / steepest if steepest > 0.0 else np.inf
