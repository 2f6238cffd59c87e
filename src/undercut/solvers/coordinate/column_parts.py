"""Some columns of a sparse matrix, by rows or by columns."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from undercut._jit import working_set as kernels
from undercut.maps.csr import ColumnParts, SparseDesign, by_columns
from undercut.types import Array

LARGE = 0.25  # share of the entries of X: from here on all its columns are kept for the next working set


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


def column_parts(design: SparseDesign, ids: Array) -> ColumnParts:
    """The columns ``ids``, which ascend, by columns.

    Where they have many of the entries, all columns take little longer, and the next ones are copied from these.
    """
    if not design.has_columns:
        some = some_columns(design, ids)
        if some is not design and some.X.nnz < LARGE * design.X.nnz:
            return by_columns(some.X)
    return _copied(design.columns, ids)


def count_entries(design: SparseDesign, ids: Array) -> int:
    """How many entries the columns ``ids`` have."""
    if design.has_columns:
        starts = design.columns[0]
        return int((starts[ids + 1] - starts[ids]).sum())
    return int(np.bincount(design.X.indices, minlength=design.shape[1])[ids].sum())


def _copied(parts: ColumnParts, ids: Array) -> ColumnParts:
    starts, rows, values = parts
    if ids.size == starts.size - 1:
        return parts
    to = np.concatenate([[0], np.cumsum(starts[ids + 1] - starts[ids])])
    some_rows, some_values = np.empty(to[-1], rows.dtype), np.empty(to[-1])
    kernels.copy_columns(starts, rows, values, ids, some_rows, some_values)
    return to, some_rows, some_values
