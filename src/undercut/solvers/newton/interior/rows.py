"""The matrix of an interior point method: the rows of X, and rows of the identity for the terms of a penalty."""

from __future__ import annotations

import numpy as np

from undercut.contracts import Design, WeightedGramDesign
from undercut.maps.csr import SparseDesign
from undercut.maps.dense import DenseDesign
from undercut.types import Array, FloatArray


class Rows:
    """``A``: the rows of X, with a constant column if the intercept is free, then ``sign I`` for each of the signs.

    >>> from undercut.maps.design import as_design
    >>> Rows(as_design([[2.0, 1.0]]), fit_intercept=True, signs=(-1.0,)).matvec(np.array([1.0, 1.0, 10.0]))
    array([13., -1., -1.])
    """

    def __init__(self, design: WeightedGramDesign, *, fit_intercept: bool, signs: tuple[float, ...]) -> None:
        self.design, self.fit_intercept, self.signs = design, fit_intercept, signs
        self.n, self.d = design.shape

    def matvec(self, x: FloatArray) -> FloatArray:
        """``A x``."""
        w = x[: self.d]
        scores = self.design.matvec(w)
        if self.fit_intercept:
            scores += x[-1]
        return np.concatenate([scores, *(sign * w for sign in self.signs)]) if self.signs else scores

    def on_samples(self, g: FloatArray) -> FloatArray:
        """``A' g`` of the rows of samples."""
        a = self.design.rmatvec(g[: self.n])
        return np.append(a, g[: self.n].sum()) if self.fit_intercept else a

    def with_identity(self, a: FloatArray, g: FloatArray) -> FloatArray:
        """``A' g``, where a is that of the samples."""
        if not self.signs:
            return a
        a = a.copy()
        for sign, part in zip(self.signs, self.on_parameters(g), strict=True):
            a[: self.d] += sign * part
        return a

    def rmatvec(self, g: FloatArray) -> FloatArray:
        """``A' g``."""
        return self.with_identity(self.on_samples(g), g)

    def on_parameters(self, g: Array) -> Array:
        """The entries of g after the samples, a row for every sign."""
        return g[self.n :].reshape(len(self.signs), self.d)

    def weighted_gram(self, g: FloatArray) -> FloatArray:
        """``A' diag(g) A``."""
        own = g[: self.n]
        gram = self.design.weighted_gram(own)
        gram[np.diag_indices(self.d)] += self.on_parameters(g).sum(axis=0)
        if not self.fit_intercept:
            return gram
        mixed = self.design.rmatvec(own)[:, None]
        return np.block([[gram, mixed], [mixed.T, np.array([[own.sum()]])]])


def as_array(design: Design) -> FloatArray | None:
    """X as a float64 array, not copied if it is one; ``None`` for a design of another kind."""
    if isinstance(design, SparseDesign):
        return np.asarray(design.X.toarray(), dtype=np.float64)
    return np.asarray(design.X, dtype=np.float64) if isinstance(design, DenseDesign) else None
