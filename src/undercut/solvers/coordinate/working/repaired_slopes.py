"""Slopes of the softmax loss that keep to ``|X' u| <= l1``, near those at a point.

A bound needs slopes inside of this box.  Scaling them by their largest violation costs the same share of the bound, so
with a small l1 it is useless long after the objective has converged.  Moving them to ``u + s X V M`` instead, with

    min_V  1/2 <V, X' diag(s) X V M> + <X' u, V> + l1 |W + V|_1,        M = I - 1 1' / K

leaves no violation at the minimum, and keeps ``<X' u, W>`` near ``-l1 |W|_1``: a Newton step with second derivatives
``s_i M`` for every sample.  The matrix has a row per feature instead of one per feature and class, so that it can be
made of all samples, and it is made once: the minimum has no violation for any s.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from undercut.contracts import Design
from undercut.maps.csr import SparseDesign
from undercut.maps.dense import DenseDesign
from undercut.solvers.coordinate.working.columns import Penalty
from undercut.solvers.coordinate.working.gram_columns import descend_gram
from undercut.types import Array, FloatArray

MOST_FEATURES = 2000
MOST_PARAMS = 1500  # that a step may move
EVALUATIONS = 10  # of the risk that the matrix may cost
BLAS = 30  # multiplications of BLAS that take as long as one of a product with X
NEAR = 0.8  # share of l1: a parameter that is zero and has a smaller slope is not moved
ACCURACY = 0.3  # share of the gap that scaling the violations which are left may cost
FALLS = 2.0  # the gap that is left falls at least as this power of the violation


def is_affordable(design: Design, n_classes: int) -> bool:
    """Whether the matrix of all features costs no more than a few evaluations of the risk."""
    if not isinstance(design, SparseDesign | DenseDesign) or design.shape[1] > MOST_FEATURES:
        return False
    if isinstance(design, DenseDesign):
        return bool(design.shape[1] <= 2 * BLAS * EVALUATIONS * n_classes)
    lengths = np.diff(design.X.indptr).astype(float)
    return bool(0.5 * float(lengths @ lengths) <= EVALUATIONS * design.X.nnz * n_classes)


def tolerance(penalty: Penalty, w: FloatArray, objective: float, wanted: float) -> float:
    """The violation whose scaling, by ``1 - share``, costs a part of the gap that is wanted.

    Near the optimum the bound falls by ``share l1 |w|_1``, and by a multiple of the square of share.
    """
    share = min(math.sqrt(wanted / max(abs(objective), 1e-300)), wanted / max(penalty.value(w), 1e-300))
    return ACCURACY * share * penalty.l1


def movable(gradient: FloatArray, W: FloatArray, penalty: Penalty) -> Array | None:
    """The parameters that take part, of those feature by feature; ``None`` where they are too many."""
    chosen = np.flatnonzero((W != 0.0) | (np.abs(gradient) > NEAR * penalty.l1))
    return chosen if chosen.size <= MOST_PARAMS else None


class Slopes(NamedTuple):
    """What a move needs to know of slopes."""

    gradient: FloatArray  # X' u
    totals: FloatArray  # their sum for every class


@dataclass(frozen=True, eq=False)
class Repair:
    """The matrix, and what the last attempt has left."""

    spread: FloatArray  # s
    gram: FloatArray  # X' diag(s) X, a free intercept eliminated
    shift: FloatArray  # of the intercept, per unit of every parameter ...
    pull: float  # ... and per unit of the sum of the slopes of its class
    gap: float
    violation: float

    @classmethod
    def made(cls, design: SparseDesign | DenseDesign, P: FloatArray, weight: FloatArray, has_intercept: bool) -> Repair:
        """From the probabilities at a point; samples that are sure of their class move little."""
        spread = weight * np.maximum(1.0 - np.einsum("ik,ik->i", P, P), 0.0)
        gram, shift, pull = design.weighted_gram(spread), np.zeros(design.shape[1]), 0.0
        if has_intercept and (total := float(spread.sum())) > 0.0:
            mixed, pull = design.rmatvec(spread), -1.0 / total
            shift = pull * mixed
            gram += np.outer(shift, mixed)
        return cls(spread, gram, shift, pull, np.inf, np.inf)

    def is_worthwhile(self, violation: float, wanted: float) -> bool:
        """Whether the gap that is left is expected to be small enough."""
        return not self.gap * min(1.0, violation / self.violation) ** FALLS > wanted

    def after(self, gap: float, violation: float) -> Repair:
        """The same after another attempt."""
        return replace(self, gap=gap, violation=max(violation, 1e-300))

    def move(
        self, design: SparseDesign | DenseDesign, slopes: Slopes, W: FloatArray, penalty: Penalty, tol: float
    ) -> FloatArray | None:
        """How to change slopes; ``None`` where too many parameters take part.

        ``tol`` : largest violation that may be left.
        """
        gradient = slopes.gradient + np.outer(self.shift, slopes.totals)
        chosen = movable(gradient, W, penalty)
        if chosen is None:
            return None
        V = np.zeros(W.shape)
        V.reshape(-1)[chosen] = self._minimum(chosen, gradient, W, penalty, tol)
        Z = design.matmat(V.T) + (self.shift @ V + self.pull * slopes.totals)
        Z -= Z.sum(axis=1, keepdims=True) / W.shape[1]
        Z *= self.spread[:, None]
        return Z

    def _minimum(self, chosen: Array, gradient: FloatArray, W: FloatArray, penalty: Penalty, tol: float) -> FloatArray:
        """V for the chosen parameters."""
        features, classes = np.divmod(chosen, W.shape[1])
        H = self.gram[np.ix_(features, features)] * (np.equal.outer(classes, classes) - 1.0 / W.shape[1])
        at = W.reshape(-1)[chosen]
        moved = at.copy()
        descend_gram(H, gradient.reshape(-1)[chosen], moved, penalty, tol)
        return moved - at
