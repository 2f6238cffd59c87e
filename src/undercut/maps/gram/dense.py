"""Gram matrices that are stored."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from typing_extensions import override

from undercut._jit.gram import add_rows, gather
from undercut.devices import beside, empty_near, free_bytes, on_host
from undercut.maps.gram.base import Gram, Kernel
from undercut.maps.gram.checks import check_definite, check_memory, check_square, check_symmetric, finite_diagonal
from undercut.maps.gram.exact_rows import ExactRows
from undercut.maps.gram.near_rows import NearRows
from undercut.maps.gram.tiled import TILE, KernelTiles
from undercut.threads import each, one_thread, spans
from undercut.types import Array

SQUARE, DEVICE_SQUARE = 512, 4096  # samples by samples at a time: what a cache holds, and what keeps a device busy
SINGLE = 2.0**-24 * (1.0 + 1e-6)  # error of an entry in float32, relative to the largest one


class DenseGram(Gram):
    """A stored matrix: a NumPy array, or a torch tensor on any device, float32 or float64.

    The matrix as given is the problem; sums are in float64.  ``DenseGram.of(kernel, X, np.float32)`` instead stores
    the matrix of a kernel rounded, to save memory, and knows the kernel: ``exact_product`` computes the entries it
    needs in double precision.

    A matrix that is not square, finite, symmetric and positive semidefinite is refused with the entry, the difference
    or the eigenvalue; ``check=False`` skips these passes over it.

    >>> DenseGram(np.array([[2.0, 1.0], [1.0, 2.0]])).product(np.array([1.0, 0.0]))
    array([2., 1.])
    >>> DenseGram(np.array([[1.0, 2.0], [2.0, 1.0]]))
    Traceback (most recent call last):
        ...
    undercut.errors.DataError: the Gram matrix must be positive semidefinite; its smallest eigenvalue is -1 ...
    """

    exact: KernelTiles | None = None  # where the entries come from, if those stored are rounded

    def __init__(self, K: Any, *, check: bool = True) -> None:
        if not hasattr(K, "device") or isinstance(K, np.ndarray):
            K = np.asarray(K)
            K = np.ascontiguousarray(K, dtype=K.dtype if K.dtype in (np.float32, np.float64) else np.float64)
        elif str(K.dtype) not in ("torch.float32", "torch.float64"):
            K = K.double()
        check_square(K)
        self.K, self.n_samples, self.itemsize = K, int(K.shape[0]), int(K.itemsize)
        self.diagonal = finite_diagonal(beside(K.diagonal(), K))
        if check:
            check_symmetric(K)
            check_definite(self, is_stored=True)

    @classmethod
    def of(
        cls, kernel: Kernel, X: Any, dtype: Any = np.float32, *, max_bytes: float | None = None, check: bool = True
    ) -> DenseGram:
        """The matrix ``kernel(X, X)`` where X is, tile by tile; refused before it is begun if memory does not suffice.

        Solvers certify the problem of ``kernel`` in double precision, whatever ``dtype`` the matrix is stored in.

        >>> DenseGram.of(lambda X, Z: X @ Z.T, np.eye(2)).K
        array([[1., 0.],
               [0., 1.]], dtype=float32)
        """
        n, dtype = X.shape[0], np.dtype(dtype)
        have = free_bytes(X) if max_bytes is None else max_bytes
        check_memory(f"the Gram matrix of {n} samples", n, n, dtype.itemsize, have)
        K = empty_near(X, (n, n), dtype.name)
        _fill(K, kernel, X)
        gram = cls(K, check=check)
        if dtype == np.float32:
            gram.exact = KernelTiles(kernel, X)
            gram.rounding = SINGLE * float(gram.diagonal.max())
        return gram

    @override
    def product(self, v: Any) -> Any:
        if not on_host(self.K):
            return self._near_rows.product(v.to(self.K.dtype)).to(v.dtype)
        out, rows = np.zeros(self.n_samples), np.flatnonzero(v)
        if rows.size:
            spans(lambda low, high: add_rows(self.K, rows, v, out, low, high), self.n_samples)
        return out

    @override
    def exact_product(self, v: Any) -> Any:
        if self.exact is not None:
            return self._exact_rows.product(v) if on_host(self.K) else self.exact.product(v)
        if on_host(self.K):
            return self.product(v)
        rows, tile = v.nonzero()[:, 0].unique(), max(1, 4 * TILE // self.n_samples)  # a device has room for more
        parts = [rows[low : low + tile] for low in range(0, len(rows), tile)]
        return sum((self.K[part].to(v.dtype).T @ v[part] for part in parts), start=0.0 * v)

    @cached_property
    def _exact_rows(self) -> ExactRows:
        assert self.exact is not None
        return ExactRows(self.exact)

    @cached_property
    def _near_rows(self) -> NearRows:
        return NearRows(self.K)

    @override
    def block(self, rows: Array) -> Array:
        if not on_host(self.K):
            return np.ascontiguousarray(self.K[rows][:, rows].cpu().numpy())
        out = np.empty((rows.size, rows.size), dtype=self.K.dtype)
        spans(lambda low, high: gather(self.K, rows, out, low, high), rows.size)
        return out


def _fill(K: Any, kernel: Kernel, X: Any) -> None:
    """``K[:] = kernel(X, X)`` by its lower half."""
    tile, n = SQUARE if on_host(X) else DEVICE_SQUARE, X.shape[0]

    def fill(corner: tuple[int, int]) -> None:
        rows, columns = (slice(low, low + tile) for low in corner)
        part = kernel(X[rows], X[columns])
        if rows == columns:
            part = 0.5 * (part + part.T)
        K[rows, columns] = part
        K[columns, rows] = part.T

    with one_thread():
        each(fill, [(low, left) for low in range(0, n, tile) for left in range(0, low + 1, tile)])
