"""Some columns of X, for sweeps on the shares of several classes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from undercut._jit.dual_coordinate import squared_norms
from undercut.contracts import Rows
from undercut.maps.csr import SparseDesign
from undercut.maps.dense import DenseDesign
from undercut.risks import MulticlassRisk
from undercut.solvers.coordinate.working.column_parts import some_columns
from undercut.types import Array, FloatArray

CONSTANT = 0.5  # the constant feature, in units of a row of X


class Part(NamedTuple):
    """Some columns of X, and a constant one for free intercepts."""

    design: SparseDesign | DenseDesign
    rows: Rows
    squares: FloatArray  # of the lengths of the rows


def part_of(risk: MulticlassRisk, columns: Array, norms: FloatArray) -> Part:
    design = design_of(risk)
    if isinstance(design, SparseDesign):
        design = some_columns(design, columns)
    elif columns.size < design.shape[1]:
        design = type(design)(np.take(design.X, columns, axis=1))
    rows = design.rows()._replace(constant=constant_of(norms) if risk.fit_intercept else 0.0)
    squares = np.empty(risk.n_samples)
    squared_norms(*rows, squares)
    return Part(design, rows, squares)


def design_of(risk: MulticlassRisk) -> SparseDesign | DenseDesign:
    assert isinstance(risk.features, SparseDesign | DenseDesign)
    return risk.features


def constant_of(norms: FloatArray) -> float:
    """The constant feature of the intercepts: a large one shortens the moves of the shares."""
    return CONSTANT * unit_of(norms)


def unit_of(norms: FloatArray) -> float:
    """The length of a row of X."""
    return float(np.linalg.norm(norms)) or 1.0
