"""``X' D X`` of few features from a sample of the rows: an approximate Hessian that can be factored.

Rows are taken in proportion to their second derivatives d, at equal distances along the sum of d, and then weigh the
same.  With ``ROWS`` times as many rows as features its inverse leaves conjugate gradients a condition number of about
seven, whatever that of the Hessian is (Erdogdu and Montanari 2015).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from undercut.contracts import Design
from undercut.maps.matrix import Matrix
from undercut.types import Array, FloatArray

ROWS = 5  # per feature
BLAS = 0.1  # time of an operation on dense matrices, in those of sparse or single rows
CHOLESKY, EIGENVECTORS = 1.0 / 3.0, 4.0  # operations, in cubes of the size
MOST_FEATURES = 2000  # a factorization takes less than a second


class Sample(NamedTuple):
    """Rows of X, in proportion to their second derivatives."""

    part: Matrix
    rows: Array  # their numbers
    weight: FloatArray  # what each stands for, in sum the total of the second derivatives


def sampled_rows(design: Design, bend: FloatArray, n_classes: int = 1) -> Sample:
    """``ROWS`` of them for every parameter."""
    assert isinstance(design, Matrix)
    n_rows = min(bend.size, ROWS * n_classes * design.shape[1])
    sums = np.cumsum(bend)
    total = float(sums[-1])
    chosen = np.searchsorted(sums, (np.arange(n_rows) + 0.5) * (total / n_rows))
    rows, counts = np.unique(np.minimum(chosen, bend.size - 1), return_counts=True)
    return Sample(design.take(rows), rows, (total / n_rows) * counts.astype(np.float64))


def sampled_gram(design: Design, bend: FloatArray, *, centered: bool) -> FloatArray:
    """An approximation of ``X' diag(bend) X``, or of its centered form ``X' (D - d d' / sum d) X``."""
    part, _, weight = sampled_rows(design, bend)
    gram, total = part.weighted_gram(weight), float(weight.sum())
    if centered and total > 0.0:
        mixed = part.rmatvec(weight)
        gram -= np.outer(mixed, mixed) / total
    return gram


def sampling_cost(design: Design, n_classes: int, grams: float, cubes: float) -> float:
    """The work of sampled Gram matrices and ``cubes d^3`` operations of a factorization, in products with a Hessian.

    It is infinite where X has too many features, or is not in memory.
    """
    n, d = design.shape
    if not isinstance(design, Matrix) or d > MOST_FEATURES:
        return math.inf
    rows = design.rows()
    gram = min(n, ROWS * d) * (BLAS * d**2 if rows.dense else 0.5 * (rows.values.size / max(1, n)) ** 2)
    return float((grams * gram + BLAS * cubes * d**3) / max(1, 2 * rows.values.size * n_classes))
