"""A few columns of X, copied once, and the minimum of a quadratic model over their parameters.

The model of the risk around the current scores, with slopes u and second derivatives D = diag(d), is

    <u, z> + 1/2 z' D z + l1 |v|_1 + l2/2 |v|^2,       z = X (v - w) + b
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

import numpy as np

from undercut._jit import gram_model, working_set as kernels
from undercut.contracts import Design
from undercut.maps.csr import SparseDesign
from undercut.maps.dense import DenseDesign, row_blocks
from undercut.types import Array, FloatArray

SLICE = 500_000_000  # entries of X that one call may read: below a second


class Penalty(NamedTuple):
    """``l1 |w|_1 + l2/2 |w|^2``."""

    l1: float
    l2: float

    def value(self, w: FloatArray) -> float:
        return float(gram_model.penalty_value(w, *self))

    def slope(self, w: FloatArray, change: FloatArray) -> float:
        """The derivative along ``change``; to the right where a parameter is zero."""
        return float(gram_model.penalty_slope(w, change, *self))

    def violation(self, w: FloatArray, gradient: FloatArray) -> FloatArray:
        """How far 0 is from the subgradients ``gradient_j + l1 d|w_j| + l2 w_j``, and how much it matters.

        A parameter that is not zero adds ``|w_j|`` times its distance to the gap, so that of a parameter smaller than
        the mean counts in proportion: those on their way to zero would hide all others.
        """
        out = np.empty(gradient.shape)
        gram_model.violations(w.reshape(-1), gradient.reshape(-1), *self, out.reshape(-1))
        return out

    def largest_violation(self, w: FloatArray, gradient: FloatArray) -> float:
        return float(gram_model.violations(w, gradient, *self, np.empty(w.size)))

    def expected_gap(self, w: FloatArray, gradient: FloatArray, spread: float) -> float:
        """About the gap that slopes u with this gradient prove at w; ``spread`` : ``sum_i u_i^2 / (2 d_i)``."""
        return float(gram_model.expected_gap(w, gradient, *self, spread))

    def misfit(self, w: FloatArray, gradient: FloatArray) -> float:
        """What the violations of the parameters that are not zero add to the gap if each is corrected on its own."""
        return float((np.abs(w) * np.abs(gradient + self.l1 * np.sign(w) + self.l2 * w)).sum())


class ModelGap(NamedTuple):
    """A duality gap of the model that is this share of its value and ``base``."""

    share: float
    base: float


class Tolerance(NamedTuple):
    """How accurately to minimize a model: until one of them is met."""

    violation: float  # the largest
    misfit: float = 0.0  # what violations of parameters that are not zero add to the gap if each is corrected alone
    gap: ModelGap | None = None  # which only cyclic descent sees, instead of the others

    def is_met(self, w: FloatArray, gradient: FloatArray, penalty: Penalty) -> bool:
        if penalty.largest_violation(w, gradient) <= self.violation:
            return True
        return self.misfit > 0.0 and penalty.misfit(w, gradient) <= self.misfit


class Model(Protocol):
    """A quadratic model of the risk in the changes z of the scores: slopes u, and a matrix D."""

    slopes: FloatArray  # weights included
    totals: FloatArray  # their sum over the samples for every intercept; empty without one

    def through(self, z: FloatArray) -> FloatArray:
        """``D z``."""

    def sums(self, g: FloatArray) -> FloatArray:
        """The sum of g over the samples for every intercept; empty without one."""

    def units(self) -> list[FloatArray]:
        """The scores that each intercept adds where it is 1."""

    @property
    def intercept_bend(self) -> FloatArray:
        """The second derivatives in the intercepts, a square matrix."""


class PointwiseModel:
    """A diagonal D with entries ``bend``."""

    def __init__(self, slopes: FloatArray, bend: FloatArray, free: bool) -> None:
        self.slopes, self.bend, self.free = slopes, bend, free
        self.totals = self.sums(slopes)

    def through(self, z: FloatArray) -> FloatArray:
        return self.bend * z

    def sums(self, g: FloatArray) -> FloatArray:
        return np.array([g.sum()]) if self.free else np.zeros(0)

    def units(self) -> list[FloatArray]:
        return [np.ones(self.bend.size)] if self.free else []

    @property
    def intercept_bend(self) -> FloatArray:
        return np.array([[self.bend.sum()]]) if self.free else np.zeros((0, 0))


class Move(NamedTuple):
    """Where the model is smallest, about."""

    w: FloatArray
    scores: FloatArray  # z


class Columns(Protocol):
    """The columns ``ids`` of X; their parameters are flattened, feature by feature."""

    ids: Array

    def gradient(self, slopes: FloatArray) -> FloatArray:
        """``X' u``."""

    def scores(self, w: FloatArray) -> FloatArray:
        """``X w``."""

    def at_hand(self, model: Model, violation: float) -> Model:
        """The model, or a similar one at the same slopes whose minimum costs less; ``violation`` : the largest now."""
        return model

    def minimize(
        self, model: Model, w: FloatArray, gradient: FloatArray, penalty: Penalty, tol: Tolerance, n_rounds: int
    ) -> Move:
        """Reduce the violations at the model's minimum to ``tol``; end after ``n_rounds`` or a slice of time.

        Rounds on a Gram matrix cost so little that their number is not limited by ``n_rounds``.
        ``gradient`` is ``X' u`` with the slopes u of the model.
        """


def inverted(bend: FloatArray) -> FloatArray:
    """The inverse of a symmetric matrix, of zero where it is singular."""
    if bend.shape == (1, 1):
        return np.full((1, 1), 1.0 / bend[0, 0] if bend[0, 0] > 0.0 else 0.0)
    return np.asarray(np.linalg.pinv(bend, hermitian=True), np.float64)


def column_norms(design: Design, weight: FloatArray) -> FloatArray:
    """``sqrt(sum_i weight_i x_ij^2)`` for every column."""
    if isinstance(design, SparseDesign):
        squares = np.empty(design.shape[1])
        kernels.column_squares(design.X.indptr, design.X.indices, design.X.data, weight, squares)
        return np.sqrt(squares)
    assert isinstance(design, DenseDesign)
    squares = np.zeros(design.shape[1])
    for rows in row_blocks(design.X):
        kernels.dense_column_squares(np.ascontiguousarray(design.X[rows], np.float64), weight[rows], squares)
    return np.sqrt(squares)


def first_zeros(w: FloatArray, step: FloatArray) -> FloatArray:
    """The shares of a step after which parameters are zero, infinite for those that do not approach it."""
    approaches = w * step < 0.0
    return np.where(approaches, -w / np.where(approaches, step, 1.0), np.inf)


def halves(least: float) -> Iterator[float]:
    """1, 1/2, 1/4, ... down to ``least``, which is at most 1."""
    share = 1.0
    while share > least:
        yield share
        share *= 0.5
    yield least
