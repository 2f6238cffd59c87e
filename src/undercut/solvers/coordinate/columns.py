"""A few columns of X, copied once, and the minimum of a quadratic model over their parameters.

The model of the risk around the current scores, with slopes u and second derivatives D = diag(d), is

    <u, z> + 1/2 z' D z + l1 |v|_1 + l2/2 |v|^2,       z = X (v - w) + b

Sparse columns are visited one at a time while z is kept up to date; dense ones through their Gram matrix ``X' D X``.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, NamedTuple, Protocol, TypeAlias

import numpy as np
import scipy.sparse as sp
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from typing_extensions import override

from undercut._jit import working_set as kernels
from undercut.contracts import Design
from undercut.maps.csr import SparseDesign
from undercut.maps.dense import DenseDesign, sum_of_grams
from undercut.threads import all_threads
from undercut.types import Array, FloatArray

EPOCHS = 3  # of coordinate descent before a Newton step
CG_STEPS = 20  # of conjugate gradients for a Newton step, at most
CG_ACCURACY = 0.1  # share of the residual that they may leave
SLICE = 200_000_000  # entries of X that one call may read: well below a second
JITTER = 1e-12  # added to the diagonal of a matrix before its factorization, relative to its mean


Parts: TypeAlias = tuple[Array, Array, FloatArray]  # starts of the columns, rows, values


class Penalty(NamedTuple):
    """``l1 |w|_1 + l2/2 |w|^2``."""

    l1: float
    l2: float

    def value(self, w: FloatArray) -> float:
        return self.l1 * float(np.abs(w).sum()) + 0.5 * self.l2 * float(w @ w)

    def violation(self, w: FloatArray, gradient: FloatArray) -> FloatArray:
        """How far 0 is from the subgradients ``gradient_j + l1 d|w_j| + l2 w_j``."""
        moving = np.abs(gradient + self.l1 * np.sign(w) + self.l2 * w)
        resting = np.maximum(np.abs(gradient) - self.l1, 0.0)
        return np.where(w != 0.0, moving, resting)


class Model(NamedTuple):
    """Slopes u, weights included, and second derivatives d of the risk in the scores."""

    slopes: FloatArray
    bend: FloatArray
    free: bool  # whether there is an intercept

    @property
    def balance(self) -> tuple[float, float]:
        """``(sum u, sum d)`` with an intercept, else zeros."""
        return (float(self.slopes.sum()), float(self.bend.sum())) if self.free else (0.0, 0.0)


class Move(NamedTuple):
    """Where the model is smallest, about."""

    w: FloatArray
    scores: FloatArray  # z


class Columns(Protocol):
    """The columns ``ids`` of X."""

    ids: Array

    def gradient(self, slopes: FloatArray) -> FloatArray:
        """``X' u``."""

    def scores(self, w: FloatArray) -> FloatArray:
        """``X w``."""

    def minimize(self, model: Model, w: FloatArray, penalty: Penalty, tol: float, n_rounds: int) -> Move:
        """Reduce the violations at the model's minimum to ``tol``; end after ``n_rounds`` or a slice of time."""


class SparseColumns(Columns):
    """Columns in compressed form."""

    derived: ClassVar = ("parts",)

    def __init__(self, design: SparseDesign, ids: Array) -> None:
        X = design.X
        self.ids = ids
        self.n_samples = X.shape[0]
        slot = np.full(X.shape[1], -1, np.int32)
        slot[ids] = np.arange(ids.size, dtype=np.int32)
        counts = np.zeros(ids.size, np.int64)
        kernels.count_entries(X.indices, slot, counts)
        starts = np.concatenate([[0], np.cumsum(counts)])
        rows, values = np.empty(starts[-1], np.int32), np.empty(starts[-1])
        kernels.fill_columns(X.indptr, X.indices, X.data, slot, starts[:-1].copy(), rows, values)
        self.parts: Parts = (starts, rows, values)

    @override
    def gradient(self, slopes: FloatArray) -> FloatArray:
        out = np.empty(self.ids.size)
        kernels.dots(*self.parts, np.arange(out.size), slopes, out)
        return out

    @override
    def scores(self, w: FloatArray) -> FloatArray:
        moved = np.zeros((self.n_samples, 2))
        kernels.move_scores(*self.parts, w, moved)
        return moved[:, 1].copy()

    @override
    def minimize(self, model: Model, w: FloatArray, penalty: Penalty, tol: float, n_rounds: int) -> Move:
        trial = _Descent(self.parts, model, self.gradient(model.slopes), penalty, w)
        fit = max(1, SLICE // ((EPOCHS + 2 * CG_STEPS) * (self.parts[1].size + self.n_samples)))
        done = 1
        while trial.descend() > tol and done < min(fit, n_rounds):
            trial.newton()
            done += 1
        return Move(trial.w, trial.moved[:, 1].copy())


class _Descent:
    """Coordinate descent on the model from w on, in turn with Newton steps on the parameters that are not zero."""

    def __init__(self, parts: Parts, model: Model, gradient: FloatArray, penalty: Penalty, w: FloatArray) -> None:
        self.start, self.w, self.b = w, w.copy(), 0.0
        self.moved = np.zeros((model.slopes.size, 2))  # second derivatives, and z
        self.moved[:, 0] = model.bend
        self.penalty = penalty
        self.balance = model.balance
        self._parts = parts
        bend = np.empty(w.size)
        kernels.bends(*parts, self.moved, bend)
        self._fixed = (gradient, bend, self.balance, *penalty)

    def descend(self) -> float:
        """A few epochs; the violation that the last one has met."""
        self.b, violation = kernels.descend(*self._parts, self.moved, *self._fixed, self.w, self.b, EPOCHS)
        return float(violation)

    def newton(self) -> None:
        """A truncated Newton step; where signs would change it ends in zeros, or at the first of them."""
        step, change = self._newton_step()
        w, moved = self.w + step[:-1], self.moved.copy()
        crossed = w * self.w < 0.0
        moved[:, 1] += change
        kernels.move_scores(*self._parts, np.where(crossed, -w, 0.0), moved)
        w[crossed] = 0.0
        if self._energy(w, self.b + step[-1], moved) < self._energy(self.w, self.b, self.moved):
            self.w, self.b, self.moved = w, self.b + float(step[-1]), moved
            return
        t = float(np.min(-self.w[crossed] / step[:-1][crossed], initial=1.0))
        self.w = self.w + t * step[:-1]
        self.b += t * float(step[-1])
        self.moved[:, 1] += t * change

    def _newton_step(self) -> tuple[FloatArray, FloatArray]:
        """A step of the parameters that are not zero by conjugate gradients, b behind it, and ``X step + b``."""
        gradient, bend = self._fixed[:2]
        (total, total_bend), (l1, l2) = self.balance, self.penalty
        active, d, z = np.flatnonzero(self.w), self.moved[:, 0].copy(), self.moved[:, 1]
        scale = np.zeros(self.w.size + 1)
        scale[active] = 1.0 / np.maximum(bend[active] + l2, 1e-300)
        scale[-1] = 1.0 / total_bend if total_bend > 0.0 else 0.0  # no step without an intercept
        residual = -self._products(active, d * z)
        residual[:-1][active] -= (gradient + l1 * np.sign(self.w) + l2 * self.w)[active]
        residual[-1] -= total
        step, change = np.zeros(scale.size), np.zeros(d.size)
        search = scale * residual
        size = first = float(search @ residual)
        for _ in range(CG_STEPS):
            if size <= CG_ACCURACY**2 * first:
                break
            scores = self._scores(search)
            product = self._products(active, d * scores)
            product[:-1] += l2 * search[:-1]
            curvature = float(search @ product)
            if curvature <= 0.0:
                break
            t = size / curvature
            step += t * search
            change += t * scores
            residual -= t * product
            last, size = size, float(residual @ (scale * residual))
            search = scale * residual + (size / last) * search
        return step, change

    def _products(self, active: Array, g: FloatArray) -> FloatArray:
        """``X' g`` for the active columns, zero for the others, and the sum of g."""
        out = np.zeros(self.w.size + 1)
        kernels.dots(*self._parts, active, g, out)
        out[-1] = g.sum()
        return out

    def _scores(self, step: FloatArray) -> FloatArray:
        """``X step + b``."""
        moved = np.zeros_like(self.moved)
        kernels.move_scores(*self._parts, step[:-1], moved)
        return np.asarray(moved[:, 1] + step[-1])

    def _energy(self, w: FloatArray, b: float, moved: FloatArray) -> float:
        linear = float(self._fixed[0] @ (w - self.start)) + self.balance[0] * b
        return linear + 0.5 * float(moved[:, 0] @ moved[:, 1] ** 2) + self.penalty.value(w)


class GramColumns(Columns):
    """Columns whose Gram matrix is small."""

    derived: ClassVar = ("_gram", "_columns", "_design", "X")
    _gram = np.empty(0), np.empty((0, 0))  # of which second derivatives, and the matrix

    @abstractmethod
    def gram(self, bend: FloatArray) -> FloatArray:
        """``X' diag(bend) X``."""

    @override
    def minimize(self, model: Model, w: FloatArray, penalty: Penalty, tol: float, n_rounds: int) -> Move:
        if not np.array_equal(model.bend, self._gram[0]):  # those of a quadratic loss are the same everywhere
            self._gram = model.bend, self.gram(model.bend)
        H, gradient = self._gram[1], self.gradient(model.slopes)
        total, bend = model.balance
        mixed = np.zeros(w.size)
        if bend > 0.0:  # b is minimized over in closed form: b = -(total + <mixed, v - w>) / bend
            mixed = self.gradient(model.bend)
            H = H - np.outer(mixed, mixed) / bend
            gradient = gradient - mixed * (total / bend)
        now = w.copy()
        _descend_gram(H, gradient, now, penalty, tol, n_rounds)
        change = now - w
        shift = -(total + float(mixed @ change)) / bend if bend > 0.0 else 0.0
        return Move(now, self.scores(change) + shift)


class CompactColumns(GramColumns):
    """A few sparse columns with many entries each."""

    def __init__(self, columns: SparseColumns) -> None:
        self.ids = columns.ids
        self._columns = columns
        starts, rows, values = columns.parts
        X = sp.csc_array((values, rows, starts), shape=(columns.n_samples, columns.ids.size)).tocsr()
        self._design = SparseDesign(X)

    @override
    def gradient(self, slopes: FloatArray) -> FloatArray:
        return self._columns.gradient(slopes)

    @override
    def scores(self, w: FloatArray) -> FloatArray:
        return self._columns.scores(w)

    @override
    def gram(self, bend: FloatArray) -> FloatArray:
        return self._design.weighted_gram(bend)


class DenseColumns(GramColumns):
    """Columns of a dense matrix, widened to float64."""

    def __init__(self, design: DenseDesign, ids: Array) -> None:
        self.ids = ids
        every = ids.size == design.shape[1]
        self.X = np.asarray(design.X if every else np.take(design.X, ids, axis=1), dtype=np.float64)

    @override
    def gradient(self, slopes: FloatArray) -> FloatArray:
        with all_threads(self.X.size):
            return slopes @ self.X

    @override
    def scores(self, w: FloatArray) -> FloatArray:
        with all_threads(self.X.size):
            return self.X @ w

    @override
    def gram(self, bend: FloatArray) -> FloatArray:
        return sum_of_grams(self.X, bend)


def _descend_gram(
    H: FloatArray, gradient: FloatArray, w: FloatArray, penalty: Penalty, tol: float, n_rounds: int
) -> None:
    """Epochs of coordinate descent in turn with Newton steps on the parameters that are not zero; w is overwritten."""
    fit = max(1, SLICE // (EPOCHS * w.size**2 + 1))
    done = 1
    while kernels.descend_gram(H, gradient, *penalty, w, EPOCHS, tol) > tol and done < min(fit, n_rounds):
        _newton_on_support(H, gradient, w, penalty)
        done += 1


def _newton_on_support(H: FloatArray, gradient: FloatArray, w: FloatArray, penalty: Penalty) -> None:
    """A Newton step that ends where the first parameter would change its sign; w and gradient are overwritten."""
    support = np.flatnonzero(w)
    if not support.size:
        return
    at = w[support]
    matrix = H[np.ix_(support, support)]
    diagonal = np.einsum("ii->i", matrix)
    diagonal += penalty.l2 + JITTER * float(diagonal.mean())
    try:
        step = cho_solve(
            cho_factor(matrix, check_finite=False),
            -(gradient[support] + penalty.l1 * np.sign(at) + penalty.l2 * at),
            check_finite=False,
        )
    except LinAlgError:
        return
    room = np.full(at.size, np.inf)
    crossing = step * at < 0.0
    room[crossing] = -at[crossing] / step[crossing]
    t = min(1.0, float(room.min()))
    after = np.where(room <= t, 0.0, at + t * step)
    w[support] = after
    gradient += (after - at) @ H[support]


def columns_of(design: Design, ids: Array) -> Columns:
    """Copy some columns of a design."""
    if isinstance(design, SparseDesign):
        columns = SparseColumns(design, ids)
        return CompactColumns(columns) if ids.size**2 <= columns.parts[1].size else columns
    assert isinstance(design, DenseDesign)
    return DenseColumns(design, ids)


def column_norms(design: Design, weight: FloatArray) -> FloatArray:
    """``sqrt(sum_i weight_i x_ij^2)`` for every column."""
    if isinstance(design, SparseDesign):
        squares = np.empty(design.shape[1])
        kernels.column_squares(design.X.indptr, design.X.indices, design.X.data, weight, squares)
        return np.sqrt(squares)
    assert isinstance(design, DenseDesign)
    return np.asarray(np.sqrt(np.einsum("i,ij,ij->j", weight, design.X, design.X, dtype=np.float64)))
