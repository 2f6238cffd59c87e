"""The design matrix X as a pair of products."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from undercut.types import Array, FloatArray


class Rows(NamedTuple):
    """Row i is ``values[start : stop]`` at ``columns[start - offset : stop - offset]``, then ``constant``.

    CSR: start and stop from ``indptr``, offset 0.  Dense: start ``i * columns.size``, which is the offset too.
    """

    dense: bool
    indptr: Array
    columns: Array
    values: Array
    constant: float


class LinearMap(Protocol):
    """An n x d matrix X as a linear operator."""

    shape: tuple[int, int]

    def matvec(self, w: FloatArray) -> FloatArray:
        """``X w``."""

    def rmatvec(self, g: FloatArray) -> FloatArray:
        """``X' g``."""


class Design(LinearMap, Protocol):
    """The matrix of the samples' features, one row per sample."""

    def matmat(self, W: FloatArray) -> FloatArray:
        """``X W'`` for a W with one row per score."""
        return np.stack([self.matvec(w) for w in W], axis=1)

    def rmatmat(self, G: FloatArray) -> FloatArray:
        """``G' X`` for a G with one row per sample."""
        return np.stack([self.rmatvec(np.ascontiguousarray(g)) for g in G.T])

    def weighted_gram(self, g: FloatArray) -> FloatArray:
        """``X' diag(g) X``, dense, for non-negative g."""

    def take(self, rows: Array) -> Design:
        """The design of some of the rows."""

    def rows(self) -> Rows:
        """How a loop finds the entries of a row."""
