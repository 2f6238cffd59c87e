"""The scores ``<W[k], x_t>`` of label k at token t as a linear map of those entries of W that are parameters."""

from __future__ import annotations

from typing import Any, Protocol, cast

import numpy as np
import scipy.sparse as sp
from typing_extensions import override

from undercut._jit import pairs
from undercut.maps.csr import SparseDesign
from undercut.maps.design import as_matrix
from undercut.maps.matrix import Matrix
from undercut.threads import each, n_threads, spans
from undercut.types import Array, FloatArray


class Emissions(Protocol):
    """Token by feature, and which pairs of feature and label have a weight."""

    n_params: int
    n_features: int

    def fill(self, w: FloatArray, scores: FloatArray) -> None:
        """``scores = X W'``, token by label."""

    def gradient(self, slopes: FloatArray) -> FloatArray:
        """The derivatives in w of ``sum(slopes * X W')``."""

    def unpack(self, w: FloatArray) -> FloatArray:
        """W, label by feature, with zeros for pairs that have no weight."""

    def pack(self, W: FloatArray) -> FloatArray:
        """The w of W, without the pairs that have no weight."""

    def take(self, tokens: Array) -> Emissions:
        """The same weights for some of the tokens."""


class AllPairs(Emissions):
    """Every entry of W, row by row."""

    def __init__(self, features: Matrix, n_labels: int) -> None:
        self.features, self.n_labels = features, n_labels
        self.n_params, self.n_features = n_labels * features.shape[1], features.shape[1]

    @override
    def fill(self, w: FloatArray, scores: FloatArray) -> None:
        scores[:] = self.features.matmat(self.unpack(w))

    @override
    def gradient(self, slopes: FloatArray) -> FloatArray:
        return self.features.rmatmat(slopes).reshape(-1)

    @override
    def unpack(self, w: FloatArray) -> FloatArray:
        return w.reshape(self.n_labels, -1)

    @override
    def pack(self, W: FloatArray) -> FloatArray:
        return W.reshape(-1)

    @override
    def take(self, tokens: Array) -> Emissions:
        return AllPairs(self.features.take(tokens), self.n_labels)


class SomePairs(Emissions):
    """The pairs of a list, feature by feature: ``W[labels[p], features[p]] = w[p]``, and all other entries are zero."""

    def __init__(self, X: Any, n_labels: int, features: Array, labels: Array) -> None:
        self.X, self.n_labels, self.features, self.labels = X, n_labels, features, labels
        self.n_params, self.n_features = labels.size, X.shape[1]
        self.starts = np.searchsorted(features, np.arange(X.shape[1] + 1))
        self._lists = (X.indptr, X.indices, X.data, self.starts, labels)
        self._parts = self._equal_parts()

    def _equal_parts(self) -> list[tuple[int, int]]:
        """Ranges of features, one per thread, with about equally many products each."""
        counts = np.bincount(self.X.indices, minlength=self.X.shape[1])
        work = np.concatenate([[0], np.cumsum(counts * np.diff(self.starts))])
        edges = np.searchsorted(work, np.linspace(0, work[-1], n_threads() + 1)[1:-1]).tolist()
        return list(zip([0, *edges], [*edges, self.X.shape[1]], strict=True))

    @override
    def fill(self, w: FloatArray, scores: FloatArray) -> None:
        spans(lambda first, last: pairs.scores(*self._lists, w, first, last, scores), len(scores))

    @override
    def gradient(self, slopes: FloatArray) -> FloatArray:
        out = np.empty(self.n_params)
        each(lambda part: pairs.gradient(*self._lists, slopes, part[0], part[1], out), self._parts)
        return out

    @override
    def unpack(self, w: FloatArray) -> FloatArray:
        W = np.zeros((self.n_labels, self.X.shape[1]))
        W[self.labels, self.features] = w
        return W

    @override
    def pack(self, W: FloatArray) -> FloatArray:
        return W[self.labels, self.features]

    @override
    def take(self, tokens: Array) -> Emissions:
        return SomePairs(self.X[tokens], self.n_labels, self.features, self.labels)


def pairs_in(X: Any, y: Array, counts: Array, n_labels: int) -> Array:
    """The pairs of a feature that is not zero and the label of its token, over the selected tokens.

    Each is the number ``feature * n_labels + label``; they increase.
    """
    X = _sparse(X)
    entries = np.repeat(counts, np.diff(X.indptr)) & (X.data != 0)
    return np.unique(X.indices[entries].astype(np.int64) * n_labels + np.repeat(y, np.diff(X.indptr))[entries])


def some_pairs(X: Any, n_labels: int, codes: Array) -> SomePairs:
    """Weights for the pairs of these numbers."""
    features, labels = np.divmod(codes, n_labels)
    return SomePairs(_sparse(X), n_labels, features, labels)


def _sparse(X: Any) -> Any:
    return cast(SparseDesign, as_matrix(sp.csr_array(X))).X
