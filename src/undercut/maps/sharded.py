"""A design matrix whose rows stay in parts: products gather or send one number per row."""

from __future__ import annotations

from typing import Any

import numpy as np
from typing_extensions import override

from undercut.contracts import BlockDesign, GramProductDesign, WeightedGramDesign
from undercut.errors import DataError
from undercut.maps.design import as_design
from undercut.maps.parts import Parts
from undercut.types import Array, FloatArray


class ShardedDesign(BlockDesign, WeightedGramDesign, GramProductDesign):
    """X in parts, one below the other, for risks that must see all scores at once.

    Each part is a matrix, or data with a matrix ``X``.  A product ``X w`` sends w to the parts and gathers 8 bytes a
    row; ``X' g`` sends 8 bytes a row and adds up what comes back.  ``MultivariateRisk`` (F1, precision, area under the
    ROC curve) and free intercepts of several classes need it; a mean over samples is a ``ShardedRisk``, which
    sends nothing per row.

    >>> from undercut.maps.parts import LocalParts
    >>> design = ShardedDesign(LocalParts([np.eye(2), np.ones((1, 2))]))
    >>> design.shape, design.matvec(np.array([1.0, 2.0])), design.rmatvec(np.array([1.0, 0.0, 1.0]))
    ((3, 2), array([1., 2., 3.]), array([2., 1.]))
    """

    def __init__(self, parts: Parts) -> None:
        self._parts = parts.made(_design)
        shapes: list[tuple[int, int]] = self._parts.each(_shape)
        for name, shape in zip(parts.names, shapes, strict=True):
            if shape[1] != shapes[0][1]:
                raise DataError(
                    f"all partitions must have the same columns; {name} has {shape[1]}, and {parts.names[0]} has "
                    f"{shapes[0][1]}: state the number of features where partitions are loaded"
                )
        self.starts = np.cumsum([0, *(n for n, _ in shapes)])
        self.shape = int(self.starts[-1]), shapes[0][1]

    @property
    def parts(self) -> Parts:
        """The matrices where they are."""
        return self._parts

    def gathered(self, parts: Parts, name: str) -> Array:
        """One entry of the data of all parts, such as ``y``, in the order of the rows."""
        return np.concatenate(parts.each(_entry, name))

    @override
    def matvec(self, w: FloatArray) -> FloatArray:
        return np.concatenate(self._parts.each(_matvec, w))

    @override
    def rmatvec(self, g: FloatArray) -> FloatArray:
        return np.asarray(self._parts.total(_rmatvec, add=np.add, items=self._split(g)))

    @override
    def matmat(self, W: FloatArray) -> FloatArray:
        return np.concatenate(self._parts.each(_matmat, W))

    @override
    def rmatmat(self, G: FloatArray) -> FloatArray:
        return np.asarray(self._parts.total(_rmatmat, add=np.add, items=self._split(G)))

    @override
    def weighted_gram(self, g: FloatArray) -> FloatArray:
        return np.asarray(self._parts.total(_weighted_gram, add=np.add, items=self._split(g)))

    @override
    def gram_product(self, g: FloatArray, v: FloatArray) -> FloatArray:
        return np.asarray(self._parts.total(_gram_product, v, add=np.add, items=self._split(g)))

    @override
    def squared_rmatvec(self, g: FloatArray) -> FloatArray:
        return np.asarray(self._parts.total(_squared_rmatvec, add=np.add, items=self._split(g)))

    def _split(self, rows: FloatArray) -> list[FloatArray]:
        return [rows[low:high] for low, high in zip(self.starts[:-1], self.starts[1:], strict=True)]


def _design(part: Any) -> Any:
    return as_design(part["X"] if isinstance(part, dict) else part)


def _entry(part: dict[str, Any], name: str) -> Array:
    return np.asarray(part[name])


def _shape(design: Any) -> tuple[int, int]:
    n, d = design.shape
    return int(n), int(d)


def _matvec(design: Any, w: FloatArray) -> Any:
    return design.matvec(w)


def _rmatvec(design: Any, g: FloatArray) -> Any:
    return design.rmatvec(g)


def _matmat(design: Any, W: FloatArray) -> Any:
    return design.matmat(W)


def _rmatmat(design: Any, G: FloatArray) -> Any:
    return design.rmatmat(G)


def _weighted_gram(design: Any, g: FloatArray) -> Any:
    return design.weighted_gram(g)


def _gram_product(design: Any, v: FloatArray, g: FloatArray) -> Any:
    return design.gram_product(g, v)


def _squared_rmatvec(design: Any, g: FloatArray) -> Any:
    return design.squared_rmatvec(g)
