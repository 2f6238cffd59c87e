"""Some columns of a sparse matrix, by rows or by columns."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from undercut._jit import working_set as kernels
from undercut.maps.csr import ColumnParts, SparseDesign, by_columns
from undercut.types import Array


def some_columns(design: SparseDesign, ids: Array) -> SparseDesign:
    """The columns ``ids``, which ascend, by rows; the design itself where these are all of them."""
    X = design.X
    if ids.size == X.shape[1]:
        return design
    slot = np.full(X.shape[1], -1, np.int32)
    slot[ids] = np.arange(ids.size, dtype=np.int32)
    starts, columns, values = np.zeros_like(X.indptr), np.empty(X.nnz, np.int32), np.empty(X.nnz)
    kernels.take_columns(X.indptr, X.indices, X.data, slot, starts, columns, values)
    parts = (values[: starts[-1]], columns[: starts[-1]], starts)
    return SparseDesign(sp.csr_array(parts, shape=(X.shape[0], ids.size)))


def column_parts(design: SparseDesign, ids: Array, known: Array, parts: ColumnParts) -> ColumnParts:
    """The columns ``ids`` of a design; ``known`` names those of ``parts``, from which they are copied.

    Both ascend.  Copying columns takes a fraction of the time of collecting them from the rows.
    """
    at = np.minimum(np.searchsorted(known, ids), max(0, known.size - 1))
    is_known = known[at] == ids if known.size else np.zeros(ids.size, bool)
    if not is_known.any():
        return by_columns(some_columns(design, ids).X)
    starts = np.concatenate([[0], np.cumsum(design.counts[ids])])
    rows, values = np.empty(starts[-1], np.int32), np.empty(starts[-1])
    kernels.copy_columns(*parts, at[is_known], np.flatnonzero(is_known), starts, rows, values)
    if not is_known.all():
        others = by_columns(some_columns(design, ids[~is_known]).X)
        kernels.copy_columns(*others, np.arange(others[0].size - 1), np.flatnonzero(~is_known), starts, rows, values)
    return starts, rows, values
