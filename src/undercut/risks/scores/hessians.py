"""Hessians of risks of scores by their products: a product costs one pass over X, and nothing of size d x d is formed.

linear:   X' (D - d d' / sum d) X                 D = diag(d); the second term only with a free intercept
softmax:  X' (D - D 1 C^+ 1' D) X                 D has a K x K block per sample, C is the sum of them

With few features they have an approximate inverse, from a sample of the rows.  That of softmax is the inverse of the
whole matrix where this takes little time.  Else it inverts the block of every class by itself, except for the mean of
the classes; where these blocks would be large too, it is the inverse of the Kronecker product of two means, ``C / trace
C`` of the classes and ``X' diag(trace D_i) X`` of the samples.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from typing_extensions import override

from undercut.contracts import GramProductDesign, InvertibleHessian, WeightedGramDesign
from undercut.contracts.risk import Inverse
from undercut.maps.design import PerClass
from undercut.risks.scores.classes.class_scores import class_sums
from undercut.risks.scores.classes.softmax_scores import Curvature, pseudo_inverse
from undercut.risks.scores.sampled_gram import (
    CHOLESKY,
    EIGENVECTORS,
    MANY_ROWS,
    MOST_FEATURES,
    ROWS,
    sampled_gram,
    sampled_rows,
    sampling_cost,
)
from undercut.types import FloatArray

SINGULAR = 1e-14  # least eigenvalue of an approximation, relative to the largest
TOGETHER = 0.5  # time of a product with X for one of several classes, in that for a single one
LARGEST = 2**24  # entries of the inverses of all classes: 128 MB
CHEAP = 5.0  # products with the Hessian whose time the inverse of all classes together may take


class LinearHessian(InvertibleHessian):
    """``X' diag(bend) X``."""

    is_centered: ClassVar[bool] = False

    def __init__(self, design: GramProductDesign, bend: FloatArray) -> None:
        self.design, self.bend = design, bend

    @override
    def product(self, v: FloatArray) -> FloatArray:
        return self.design.gram_product(self.bend, v)

    @override
    def diagonal(self) -> FloatArray:
        return self.design.squared_rmatvec(self.bend)

    @override
    def inversion_cost(self) -> float:
        return sampling_cost(self.design, int(np.count_nonzero(self.bend)), 1, 1, CHOLESKY)

    @override
    def inverse(self, ridge: FloatArray) -> Inverse:
        factor = _sampled_factor(self.design, self.bend, ridge, ROWS, centered=self.is_centered)
        return lambda v: np.asarray(cho_solve(factor, v, check_finite=False))


class CenteredHessian(LinearHessian):
    """``X' diag(bend) X - m m' / sum bend`` with ``m = X' bend``, for a sum of bend that is positive."""

    is_centered = True

    def __init__(self, design: GramProductDesign, bend: FloatArray) -> None:
        super().__init__(design, bend)
        self._mixed = design.rmatvec(bend)
        self._total = float(bend.sum())

    @override
    def product(self, v: FloatArray) -> FloatArray:
        mean = float(self._mixed @ v) / self._total
        return super().product(v) - mean * self._mixed

    @override
    def diagonal(self) -> FloatArray:
        return np.maximum(super().diagonal() - self._mixed**2 / self._total, 0.0)


class SoftmaxHessian(InvertibleHessian):
    """The Hessian in W of the mean softmax loss, from its second derivatives in the scores."""

    is_centered: ClassVar[bool] = False

    def __init__(self, design: PerClass, features: GramProductDesign, second: Curvature) -> None:
        self.design, self.features, self.second = design, features, second

    @property
    def _own(self) -> FloatArray:
        """Of each class by itself."""
        P = self.second.P
        return np.asarray(self.second.weight[:, None] * P * (1.0 - P))

    @override
    def product(self, v: FloatArray) -> FloatArray:
        D = self.design.matvec(v).reshape(self.second.slopes.shape)
        return self.design.rmatvec(self._through(D).reshape(-1))

    def _through(self, D: FloatArray) -> FloatArray:
        return self.second.through(D)

    @override
    def diagonal(self) -> FloatArray:
        return np.concatenate([self.features.squared_rmatvec(np.ascontiguousarray(own)) for own in self._own.T])

    @override
    def inversion_cost(self) -> float:
        return self._cost(self._rows)

    def _cost(self, rows: int) -> float:
        """Of an inverse from so many rows per feature and inverted block."""
        n, K = self.second.slopes.shape
        grams, cubes = (K, K * CHOLESKY) if self._has_blocks else (1, EIGENVECTORS)
        if self._is_whole:
            grams, cubes = K**2 * (K - 1) / 2, K**3 * CHOLESKY
        return sampling_cost(self.features, n, K, grams, cubes, rows) / TOGETHER

    @property
    def _rows(self) -> int:
        return MANY_ROWS if self._cost(MANY_ROWS) <= 1.0 else ROWS

    @property
    def _is_whole(self) -> bool:
        n, K = self.second.slopes.shape
        if K * self.features.shape[1] > MOST_FEATURES:
            return False
        return sampling_cost(self.features, n, K, K**2 * (K - 1) / 2, K**3 * CHOLESKY) / TOGETHER <= CHEAP

    @property
    def _has_blocks(self) -> bool:
        return bool(self.second.slopes.shape[1] * self.features.shape[1] ** 2 <= LARGEST)

    @override
    def inverse(self, ridge: FloatArray) -> Inverse:
        if self._is_whole:
            return self._inverse_of_sample(ridge)
        return self._inverse_by_blocks(ridge) if self._has_blocks else self._inverse_of_means(ridge)

    def _inverse_of_sample(self, ridge: FloatArray) -> Inverse:
        K, d, own = self.second.slopes.shape[1], self.features.shape[1], self.second.traces()
        sample = sampled_rows(self.features, own, K * self._rows)
        weight = self.second.weight[sample.rows] * sample.weight / np.maximum(own[sample.rows], 1e-300)
        matrix = class_hessian(sample.part, self.second.of(sample.rows, weight), centered=self.is_centered)
        matrix += np.kron(np.ones((K, K)), np.eye(d) * (np.trace(matrix) / (K * d)))
        factor = _factor(matrix, ridge)
        return self._apart_from_mean(lambda V: cho_solve(factor, V.reshape(-1), check_finite=False), ridge)

    def _apart_from_mean(self, solve: Inverse, ridge: FloatArray) -> Inverse:
        """The inverse for the part of v that sums to zero over the classes: H maps the mean of the classes to zero."""
        shape = self.second.slopes.shape[1], -1
        flat = np.maximum(ridge.reshape(shape).mean(axis=0), SINGULAR * float(self.second.traces().sum()) + 1e-300)

        def inverse(v: FloatArray) -> FloatArray:
            V = v.reshape(shape)
            mean = V.mean(axis=0)
            Z = solve(V - mean).reshape(V.shape)
            Z += mean / flat - Z.mean(axis=0)
            return Z.reshape(-1)

        return inverse

    def _inverse_by_blocks(self, ridge: FloatArray) -> Inverse:
        parts = ridge.reshape(self.second.slopes.shape[1], -1)
        factors = [
            _sampled_factor(self.features, own, part, self._rows, centered=self.is_centered)
            for own, part in zip(self._own.T, parts, strict=True)
        ]

        def solve(V: FloatArray) -> FloatArray:
            return np.stack([cho_solve(one, row, check_finite=False) for one, row in zip(factors, V, strict=True)])

        return self._apart_from_mean(solve, ridge)

    def _inverse_of_means(self, ridge: FloatArray) -> Inverse:
        C, shape = self.second.C, (self.second.slopes.shape[1], self.features.shape[1])
        G = sampled_gram(self.features, self.second.traces(), self._rows, centered=self.is_centered)
        (by_class, V), (by_feature, U) = np.linalg.eigh(C / max(np.trace(C), 1e-300)), np.linalg.eigh(G)
        size = np.outer(np.maximum(by_class, 0.0), np.maximum(by_feature, 0.0))
        size += max(float(ridge.mean()), SINGULAR * float(size.max()))
        return lambda v: np.asarray(V @ ((V.T @ v.reshape(shape) @ U) / size) @ U.T).reshape(-1)


class FreeSoftmaxHessian(SoftmaxHessian):
    """With free intercepts, which follow a change of the scores by ``-C^+ (sum of its rows through D)``.

    The diagonal is that of a problem where the intercept of the same class alone is free.
    """

    is_centered = True

    def __init__(self, design: PerClass, features: GramProductDesign, second: Curvature) -> None:
        super().__init__(design, features, second)
        self._inverse = pseudo_inverse(second.C)

    @override
    def _through(self, D: FloatArray) -> FloatArray:
        through = super()._through(D)
        follow = self._inverse @ class_sums(through)
        return self.second.through(D, -follow)

    @override
    def diagonal(self) -> FloatArray:
        own = self._own
        mixed = self.design.rmatvec(own.reshape(-1)).reshape(own.shape[1], -1)
        total = np.maximum(own.sum(axis=0), 1e-300)
        centered = super().diagonal().reshape(mixed.shape) - mixed**2 / total[:, None]
        return np.asarray(np.maximum(centered, 0.0).reshape(-1))


def class_hessian(features: WeightedGramDesign, second: Curvature, *, centered: bool) -> FloatArray:
    """Blocks ``X' diag(weight p_k ([k = l] - p_l)) X``, less ``B C^+ B'`` for free intercepts.

    The blocks of a row sum to zero, which gives the one on the diagonal.  B and C are the second derivatives in w and
    b, and in b.
    """
    P = second.P
    weighted = second.weight[:, None] * P
    K, d = P.shape[1], features.shape[1]
    H = np.zeros((K, d, K, d))
    for k in range(K):
        for m in range(k):
            block = features.weighted_gram(weighted[:, k] * P[:, m])
            H[k, :, m] = H[m, :, k] = -block
            H[k, :, k] += block
            H[m, :, m] += block
    hessian = H.reshape(K * d, K * d)
    if centered:
        design = PerClass(features, K)
        none = np.zeros_like(P)
        B = np.stack([design.rmatvec(second.through(none, e).reshape(-1)) for e in np.eye(K)], axis=1)
        hessian -= B @ pseudo_inverse(second.C) @ B.T
    return hessian


def _sampled_factor(
    features: GramProductDesign, bend: FloatArray, ridge: FloatArray, per_feature: int, *, centered: bool
) -> tuple[FloatArray, bool]:
    """The Cholesky factor of ``X' diag(bend) X + diag(ridge)``, from a sample of the rows."""
    return _factor(sampled_gram(features, bend, per_feature, centered=centered), ridge)


def _factor(matrix: FloatArray, ridge: FloatArray) -> tuple[FloatArray, bool]:
    """The Cholesky factor of ``matrix + diag(ridge)``, with a larger diagonal where rounding makes that indefinite.

    The matrix is overwritten.
    """
    size, share = float(np.abs(matrix.diagonal()).sum()), SINGULAR
    matrix[np.diag_indices_from(matrix)] += np.maximum(ridge, share * size + 1e-300)
    while True:
        try:
            factor: tuple[FloatArray, bool] = cho_factor(matrix, check_finite=False)
        except np.linalg.LinAlgError:
            if share > 1.0:  # not rounding
                raise
            share *= 100.0
            matrix[np.diag_indices_from(matrix)] += share * size
        else:
            return factor
