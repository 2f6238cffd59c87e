"""The losses of structured examples at w, each a plane, found by the user's model.

    margin      Delta(y, y_hat) + <w, Psi(x, y_hat) - Psi(x, y)>
    slack       Delta(y, y_hat) (1 + <w, Psi(x, y_hat) - Psi(x, y)>)
    likelihood  log sum_{y_hat} exp <w, Psi(x, y_hat) - Psi(x, y)>

The first two are ``<a, w> + b`` with ``b = Delta`` and ``a`` the difference of joint features, times 1 or Delta.  The
last is convex, and touched at w by the plane whose ``a`` is the expected difference.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from typing_extensions import override

from undercut.contracts import Labeling, LikelihoodModel, Rescaling, StructuredModel
from undercut.errors import DataError
from undercut.types import Array, FloatArray

BLOCK = 256  # examples whose planes are in memory at a time when only the sum is needed


ROUNDING = 1e-9  # relative: by how much a loss may be negative


class Point(NamedTuple):
    """Where a risk is evaluated."""

    w: FloatArray  # read-only
    prepared: Any  # what the model made of w, or w itself


def point_at(model: Any, w: FloatArray) -> Point:
    """w with what depends on it alone."""
    w = w.view()
    w.flags.writeable = False
    prepare = getattr(model, "prepare", None)
    return Point(w, w if prepare is None else prepare(w))


class Planes(NamedTuple):
    """One plane ``<a_i, w> + b_i`` per example."""

    A: sp.csr_matrix
    b: FloatArray

    def at(self, w: FloatArray) -> FloatArray:
        """Their values at w."""
        return np.asarray(self.A @ w + self.b)


class Sum(NamedTuple):
    """The weighted sum of losses at w, as a plane."""

    a: FloatArray
    b: float
    value: float


def weighted_sum(planes: Planes, scores: FloatArray, weight: FloatArray) -> Sum:
    """The sum of ``weight_i max(0, scores_i)`` of planes with these scores; the true labeling has the score 0."""
    active = np.where(scores <= 0.0, 0.0, weight)
    return Sum(np.asarray(planes.A.T @ active), float(active @ planes.b), float(active @ scores))


class Share(ABC):
    """Some of the examples; ``numbers`` are their positions among all, for messages."""

    def __init__(
        self, model: Any, X: Sequence[Any], Y: Sequence[Labeling], weight: FloatArray, numbers: Sequence[int]
    ) -> None:
        self.model, self.X, self.Y = model, X, Y
        self.weight, self.numbers = weight, numbers
        self.truth = self._stack([self._joint_feature(k, y) for k, y in enumerate(Y)])

    @abstractmethod
    def _planes(self, point: Point, first: int, end: int) -> Planes:
        """The planes of some examples' losses."""

    def planes(self, point: Point) -> Planes:
        """The plane of each example's loss."""
        return self._planes(point, 0, len(self.Y))

    def total(self, point: Point) -> Sum:
        """The weighted sum of the losses."""
        a, b, value = np.zeros(self.model.n_params), 0.0, 0.0
        for first in range(0, len(self.Y), BLOCK):
            planes = self._planes(point, first, min(first + BLOCK, len(self.Y)))
            part = weighted_sum(planes, planes.at(point.w), self.weight[first : first + BLOCK])
            a += part.a
            b, value = b + part.b, value + part.value
        return Sum(a, b, value)

    def _joint_feature(self, k: int, y: Labeling) -> tuple[Array, FloatArray]:
        feature = self._ask(k, self.model.joint_feature, self.X[k], y)
        try:
            return as_sparse(feature, self.model.n_params)
        except DataError as error:
            raise DataError(f"example {self.numbers[k]}: {error}") from None

    def _ask(self, k: int, method: Callable[..., Any], *args: Any) -> Any:
        try:
            return method(*args)
        except Exception as error:
            raise DataError(
                f"example {self.numbers[k]}: {method.__name__} raised {type(error).__name__}: {error}"
            ) from error

    def _stack(self, rows: list[tuple[Array, FloatArray]]) -> sp.csr_matrix:
        indptr = np.cumsum([0, *(values.size for _, values in rows)])
        indices = np.concatenate([indices for indices, _ in rows])
        values = np.concatenate([values for _, values in rows])
        return sp.csr_matrix((values, indices, indptr), shape=(len(rows), self.model.n_params))


class MarginShare(Share):
    """Examples with a large-margin loss."""

    model: StructuredModel

    def __init__(self, rescaling: Rescaling, *examples: Any) -> None:
        self.rescaling = rescaling
        super().__init__(*examples)
        for k, y in enumerate(self.Y):
            if (loss := self._label_loss(k, y)) != 0.0:
                raise DataError(f"example {self.numbers[k]}: label_loss(y, y) must be 0; got {loss}")

    @override
    def _planes(self, point: Point, first: int, end: int) -> Planes:
        return self.planes_of([self._decode(point, k) for k in range(first, end)], first)

    def planes_of(self, answers: Sequence[Labeling], first: int = 0) -> Planes:
        """The planes of these labelings of the examples from ``first`` on."""
        b = np.array([self._label_loss(k, y_hat) for k, y_hat in enumerate(answers, first)])
        A = self._stack([self._joint_feature(k, y_hat) for k, y_hat in enumerate(answers, first)])
        A = A - self.truth[first : first + len(answers)]
        if self.rescaling == "slack":
            A = sp.csr_matrix(sp.diags_array(b) @ A)
        return Planes(A, b)

    def _decode(self, point: Point, k: int) -> Labeling:
        return self._ask(k, self.model.decode, point.prepared, self.X[k], self.Y[k], self.rescaling)

    def _label_loss(self, k: int, y_hat: Labeling) -> float:
        loss = float(self._ask(k, self.model.label_loss, self.Y[k], y_hat))
        if not 0.0 <= loss < np.inf:
            raise DataError(f"example {self.numbers[k]}: label_loss must be finite and non-negative; got {loss}")
        return loss


class LikelihoodShare(Share):
    """Examples with the negative logarithm of the likelihood as loss."""

    model: LikelihoodModel

    @override
    def _planes(self, point: Point, first: int, end: int) -> Planes:
        answers = [self._log_partition(point, k) for k in range(first, end)]
        expected = self._stack([expectation for _, expectation in answers])
        log_z = np.array([value for value, _ in answers])
        planes = Planes(sp.csr_matrix(expected - self.truth[first:end]), log_z - expected @ point.w)
        losses, size = planes.at(point.w), np.maximum(1.0, np.abs(log_z))
        for k in np.flatnonzero(losses < -ROUNDING * size):
            raise DataError(
                f"example {self.numbers[first + int(k)]}: log_partition must sum over all labelings, y included: "
                f"log Z is {log_z[k]}, and the score of y is {log_z[k] - losses[k]}"
            )
        return planes

    def _log_partition(self, point: Point, k: int) -> tuple[float, tuple[Array, FloatArray]]:
        log_z, expectation = self._ask(k, self.model.log_partition, point.prepared, self.X[k])
        try:
            return float(log_z), as_sparse(expectation, self.model.n_params)
        except DataError as error:
            raise DataError(f"example {self.numbers[k]}: log_partition: {error}") from None


def as_sparse(feature: Any, n_params: int) -> tuple[Array, FloatArray]:
    """A joint feature as (indices, values), given so or as an array."""
    if not isinstance(feature, tuple):
        dense = np.asarray(feature, dtype=np.float64)
        if dense.shape != (n_params,):
            raise DataError(f"joint_feature must have shape ({n_params},); got {dense.shape}")
        feature = np.flatnonzero(dense), dense[dense != 0.0]
    if len(feature) != 2:
        raise DataError(f"joint_feature must be an array or a tuple (indices, values); got {len(feature)} parts")
    indices, values = np.asarray(feature[0]), np.asarray(feature[1], dtype=np.float64)
    if indices.ndim != 1 or indices.shape != values.shape or (indices.size and indices.dtype.kind not in "iu"):
        got = f"{indices.dtype} of shape {indices.shape} and {values.shape}"
        raise DataError(f"joint_feature must give as many integer indices as values; got {got}")
    if indices.size and not 0 <= indices.min() <= indices.max() < n_params:
        got = f"{indices.min()} ... {indices.max()}"
        raise DataError(f"joint_feature must give indices from 0 to {n_params - 1}; got {got}")
    if not np.isfinite(values).all():
        raise DataError(f"joint_feature must be finite; got {values[~np.isfinite(values)][0]}")
    return indices.astype(np.int64, copy=False), values
