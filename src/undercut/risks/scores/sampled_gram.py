"""``X' D X`` of few features from a sample of the rows: an approximate Hessian that can be factored.

Rows are taken in proportion to their second derivatives d, at equal distances along the sum of d, and then weigh the
same.  With ``ROWS`` times as many rows as features its inverse leaves conjugate gradients a condition number of about
seven, with ``MANY_ROWS`` of about 2.5, whatever that of the Hessian is (Erdogdu and Montanari 2015).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from undercut.contracts import Design
from undercut.maps.matrix import Matrix
from undercut.types import Array, FloatArray

ROWS, MANY_ROWS = 5, 20  # per feature; many where that takes less time than a product with the Hessian
BLAS = 0.1  # time of an operation on dense matrices, in those of sparse or single rows
CHOLESKY, EIGENVECTORS = 1.0 / 3.0, 4.0  # operations, in cubes of the size
MOST_FEATURES = 2000  # a factorization takes less than a second


class Sample(NamedTuple):
    """Rows of X, in proportion to their second derivatives."""

    part: Matrix
    rows: Array  # their numbers
    weight: FloatArray  # what each stands for, in sum the total of the second derivatives


def sampled_rows(design: Design, bend: FloatArray, per_feature: int) -> Sample:
    """So many of them for every feature; all rows with a second derivative, where these are fewer."""
    assert isinstance(design, Matrix)
    used, n_rows = np.flatnonzero(bend), per_feature * design.shape[1]
    if used.size <= n_rows:
        return Sample(design.take(used), used, bend[used])
    sums = np.cumsum(bend)
    step = float(sums[-1]) / n_rows
    chosen = np.searchsorted(sums, (np.arange(n_rows) + 0.5) * step)
    rows, counts = np.unique(np.minimum(chosen, bend.size - 1), return_counts=True)
    return Sample(design.take(rows), rows, step * counts.astype(np.float64))


def sampled_gram(design: Design, bend: FloatArray, per_feature: int, *, centered: bool) -> FloatArray:
    """An approximation of ``X' diag(bend) X``, or of its centered form ``X' (D - d d' / sum d) X``."""
    part, _, weight = sampled_rows(design, bend, per_feature)
    gram, total = part.weighted_gram(weight), float(weight.sum())
    if centered and total > 0.0:
        mixed = part.rmatvec(weight)
        gram -= np.outer(mixed, mixed) / total
    return gram


def sampling_cost(
    design: Design, n_used: int, n_classes: int, grams: float, cubes: float, per_feature: int = ROWS
) -> float:
    """The work of sampled Gram matrices and ``cubes d^3`` operations of a factorization, in products with a Hessian.

    ``n_used`` is the number of rows with a second derivative: products read no other.  The cost is infinite where X has
    too many features, or is not in memory.
    """
    n, d = design.shape
    if not isinstance(design, Matrix) or d > MOST_FEATURES:
        return math.inf
    rows = design.rows()
    length = rows.values.size / max(1, n)
    gram = min(n_used, per_feature * d) * (BLAS * d**2 if rows.dense else 0.5 * length**2)
    return float((grams * gram + BLAS * cubes * d**3) / max(1.0, n + 2.0 * length * n_used * n_classes))
