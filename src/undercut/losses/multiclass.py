"""Losses of all scores of a sample: ``l(y, s)`` for a class y in 0 ... K-1 and one score per class."""

from __future__ import annotations

from typing import Any

import numpy as np
from typing_extensions import override

from undercut._jit import multiclass
from undercut.contracts import Motion, MulticlassLoss
from undercut.errors import DataError, require
from undercut.types import Array, FloatArray


class CrammerSinger(MulticlassLoss):
    """``max_k label_loss[y, k] + s_k - s_y``, the margin over all other classes (Crammer and Singer 2001).

    ``label_loss[y, k]`` is what it costs to take a sample of class y for one of class k: non-negative, and zero on the
    diagonal.  Without it every mistake costs 1.

    >>> CrammerSinger().value_slope(np.array([0]), np.array([[1.0, 0.5, -3.0]]))
    (array([0.5]), array([[-1.,  1.,  0.]]))
    """

    def __init__(self, label_loss: Any = None) -> None:
        self.label_loss: FloatArray | None = None
        if label_loss is not None:
            costs = np.asarray(label_loss, dtype=np.float64)
            square = costs.ndim == 2 and costs.shape[0] == costs.shape[1]
            require(square, "`label_loss` must be a square matrix", costs.shape)
            require(bool(np.isfinite(costs).all() and (costs >= 0.0).all()), "`label_loss` must be non-negative", costs)
            require(not np.diag(costs).any(), "`label_loss` must be zero on its diagonal", np.diag(costs))
            self.label_loss = costs

    @override
    def check_classes(self, n_classes: int) -> None:
        if self.label_loss is not None and self.label_loss.shape[0] != n_classes:
            raise DataError(
                f"`label_loss` must have one row and column per class, shape ({n_classes}, {n_classes}); "
                f"got {self.label_loss.shape}"
            )

    def costs(self, n_classes: int) -> FloatArray:
        """The matrix ``label_loss``."""
        return 1.0 - np.eye(n_classes) if self.label_loss is None else self.label_loss

    @override
    def value_slope(self, y: Array, S: FloatArray) -> tuple[FloatArray, FloatArray]:
        values, slopes = np.empty(y.size), np.empty_like(S)
        multiclass.crammer_singer(S, y, self.costs(S.shape[1]), values, slopes)
        return values, slopes

    @override
    def along(self, y: Array, S: FloatArray, D: FloatArray, t: float) -> Motion:
        values, slopes = np.empty(y.size), np.empty(y.size)
        multiclass.crammer_singer_along(S, D, t, y, self.costs(S.shape[1]), values, slopes)
        return Motion(values, slopes, np.full(y.size, np.nan))


class Softmax(MulticlassLoss):
    """``log sum_k exp(s_k) - s_y``, minus the log-likelihood of the class under ``p_k = exp(s_k) / sum exp(s)``.

    >>> values, slopes = Softmax().value_slope(np.array([0]), np.zeros((1, 2)))
    >>> values.round(6), slopes
    (array([0.693147]), array([[-0.5,  0.5]]))
    """

    @override
    def value_slope(self, y: Array, S: FloatArray) -> tuple[FloatArray, FloatArray]:
        values, slopes = np.empty(y.size), np.empty_like(S)
        multiclass.softmax(S, y, values, slopes)
        return values, slopes

    @override
    def along(self, y: Array, S: FloatArray, D: FloatArray, t: float) -> Motion:
        values, slopes, bends = np.empty(y.size), np.empty(y.size), np.empty(y.size)
        multiclass.softmax_along(S, D, t, y, values, slopes, bends)
        return Motion(values, slopes, bends)
