"""Some rows of X without a copy of them: the folds of a cross-validation share one X."""

from __future__ import annotations

import numpy as np
from typing_extensions import override

from undercut.contracts import Design
from undercut.types import Array, FloatArray


class SharedRows(Design):
    """The given rows of a design, by products with all of them.

    >>> from undercut.maps.design import as_design
    >>> rows = SharedRows(as_design(np.eye(3)), np.array([2, 0]))
    >>> rows.matvec(np.arange(3.0)), rows.rmatvec(np.array([5.0, 7.0]))
    (array([2., 0.]), array([7., 0., 5.]))
    """

    def __init__(self, design: Design, rows: Array) -> None:
        self.design, self.rows = design, rows
        self.shape = (rows.size, design.shape[1])

    @override
    def matvec(self, w: FloatArray) -> FloatArray:
        return self.design.matvec(w)[self.rows]

    @override
    def rmatvec(self, g: FloatArray) -> FloatArray:
        full = np.zeros(self.design.shape[0])
        full[self.rows] = g
        return self.design.rmatvec(full)
