"""The quadratic model of the softmax loss around the current scores, for all samples or for some of them."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from undercut._jit import class_working_set as kernels
from undercut.risks.scores.classes.class_scores import class_sums
from undercut.types import Array, FloatArray

SMOOTHNESS = 0.5  # the largest second derivative of the softmax loss
LEAST_UNSURE = 1e-12  # of a sample whose class is certain: keeps its weight finite


class ClassModel:
    """``D z = weight (p z - p <p, z>) + ridge z`` for every sample.

    ``totals`` : the sums of the slopes of all samples for every intercept; empty without one.
    """

    def __init__(
        self, slopes: FloatArray, P: FloatArray, weight: FloatArray, damping: float, totals: FloatArray
    ) -> None:
        self.slopes, self.P, self.weight, self.damping, self.totals = slopes, P, weight, damping, totals
        self.ridge = damping * SMOOTHNESS * weight

    def through(self, z: FloatArray) -> FloatArray:
        out = np.empty_like(z)
        kernels.through(self.P, self.weight, self.ridge, z, out)
        return out

    def sums(self, g: FloatArray) -> FloatArray:
        return class_sums(g) if self.totals.size else np.zeros(0)

    def units(self) -> list[FloatArray]:
        return [np.tile(row, (self.weight.size, 1)) for row in np.eye(self.P.shape[1])] if self.totals.size else []

    @property
    def intercept_bend(self) -> FloatArray:
        if not self.totals.size:
            return np.zeros((0, 0))
        weighted = self.weight[:, None] * self.P
        return np.asarray(np.diag(class_sums(weighted) + self.ridge.sum()) - self.P.T @ weighted)

    def sampled(self, n_rows: int) -> tuple[Array, ClassModel]:
        """Some samples, and the model of all that they make.

        They are taken at equal distances along the sum of ``weight_i (1 - |p_i|^2)``, their second derivatives: those
        whose class is certain contribute little.
        """
        if n_rows >= self.weight.size:
            return np.arange(self.weight.size), self
        unsure = np.maximum(1.0 - np.einsum("ik,ik->i", self.P, self.P), LEAST_UNSURE)
        sums = np.cumsum(self.weight * unsure)
        distance = float(sums[-1]) / n_rows
        chosen = np.searchsorted(sums, (np.arange(n_rows) + 0.5) * distance)
        rows, counts = np.unique(np.minimum(chosen, sums.size - 1), return_counts=True)
        weight = counts * distance / unsure[rows]
        return rows, ClassModel(self.slopes[rows], self.P[rows], weight, self.damping, self.totals)


class ClassGram:
    """The sum of ``X' D X`` over blocks of rows, for parameters ordered by class.

    ``places`` : the column of X of every parameter; ``edges`` : where the parameters of every class start and end.
    Products of different classes are those of ``sqrt(weight) p x``; the ones of a class need no difference of two
    large numbers.
    """

    def __init__(self, model: ClassModel, places: Array, edges: Array) -> None:
        self._model, self._places = model, places
        self._spans = [slice(start, stop) for start, stop in pairwise(edges)]
        self._between = np.zeros((places.size, places.size))
        self._within = [np.zeros((size, size)) for size in np.diff(edges)]

    def add(self, rows: slice, X: Array) -> None:
        """Add a block of rows, in the precision of X."""
        model = self._model
        weight, P, ridge = model.weight[rows, None], model.P[rows], model.ridge[rows, None]
        outer = (np.sqrt(weight) * P).astype(X.dtype)
        own = np.sqrt(np.maximum(weight * P * (1.0 - P), 0.0) + ridge).astype(X.dtype)
        columns, scaled = X[:, self._places], np.empty((X.shape[0], self._places.size), X.dtype)
        for k, span in enumerate(self._spans):
            np.multiply(columns[:, span], outer[:, k, None], out=scaled[:, span])
            columns[:, span] *= own[:, k, None]
            self._within[k] += columns[:, span].T @ columns[:, span]
        self._between += scaled.T @ scaled

    def matrix(self) -> FloatArray:
        out = -self._between
        for span, block in zip(self._spans, self._within, strict=True):
            out[span, span] = block
        return out
