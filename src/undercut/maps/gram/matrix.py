"""The Gram matrix K of a kernel: all that a problem about functions ``f = sum_j x_j k(x_j, .)`` asks of its samples.

``product(v) = K v`` is the only step of a kernel method whose cost is quadratic in the number n of samples.  A
``DenseGram`` stores K, in float32 or float64, in main memory or on a device; a ``TiledGram`` computes it anew for every
product and never holds more than a tile.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.linalg import LinAlgError
from scipy.linalg import cholesky, eigh_tridiagonal
from typing_extensions import override

from undercut._jit.gram import add_rows, gather
from undercut.devices import beside, cast, empty_near, free_bytes, on_host, to_host
from undercut.errors import DataError, require
from undercut.threads import each, one_thread, spans
from undercut.types import Array, FloatArray

Kernel: TypeAlias = Callable[[Any, Any], Any]

TILE = 64 * 2**20  # bytes
SQUARE, DEVICE_SQUARE = 512, 4096  # samples by samples at a time: what a cache holds, and what keeps a device busy
FEW = 0.25  # share of the rows up to which a device multiplies by copies of them
SYMMETRIC = 1e-6  # what K may differ from its transpose, relative to its largest entry
DEFINITE = 1e-6  # how negative an eigenvalue may be, relative to the largest
EXACT_EIGENVALUES = 500  # samples up to which they are cheap
EXACT_CHECK = 4000  # samples up to which a Cholesky factor is, which tells whether any eigenvalue is negative
LANCZOS_STEPS = 30
NOT_FINITE = "the Gram matrix must be finite; it contains NaN or infinity: scale the features, drop or impute them"


class Gram(ABC):
    """A symmetric positive semidefinite matrix known by its products."""

    n_samples: int
    diagonal: Any  # a float64 vector, on the device of the products
    itemsize: int = 8  # bytes of an entry of a block

    @abstractmethod
    def product(self, v: Any) -> Any:
        """``K v`` in float64; entries of v that are zero cost nothing where that is possible."""

    def exact_product(self, v: Any) -> Any:
        """``K v`` with sums in float64, what a bound may rest on."""
        return self.product(v)

    @abstractmethod
    def block(self, rows: Array) -> Array:
        """The matrix of some of the samples among themselves, in main memory."""

    @property
    def on_host(self) -> bool:
        """Whether vectors are NumPy's."""
        return on_host(self.diagonal)


class DenseGram(Gram):
    """A stored matrix: a NumPy array, or a torch tensor on any device.

    What is certified is the problem with the matrix as stored, float32 or float64; sums are in float64 either way.

    A matrix that is not square, finite, symmetric and positive semidefinite is refused with the entry, the difference
    or the eigenvalue; ``check=False`` skips these passes over it.

    >>> DenseGram(np.array([[2.0, 1.0], [1.0, 2.0]])).product(np.array([1.0, 0.0]))
    array([2., 1.])
    >>> DenseGram(np.array([[1.0, 2.0], [2.0, 1.0]]))
    Traceback (most recent call last):
        ...
    undercut.errors.DataError: the Gram matrix must be positive semidefinite; its smallest eigenvalue is -1 ...
    """

    def __init__(self, K: Any, *, check: bool = True) -> None:
        if not hasattr(K, "device") or isinstance(K, np.ndarray):
            K = np.asarray(K)
            K = np.ascontiguousarray(K, dtype=K.dtype if K.dtype in (np.float32, np.float64) else np.float64)
        elif str(K.dtype) not in ("torch.float32", "torch.float64"):
            K = K.double()
        if K.ndim != 2 or K.shape[0] != K.shape[1] or K.shape[0] == 0:
            raise DataError(f"the Gram matrix must be square, samples by samples; got shape {tuple(K.shape)}")
        self.K, self.n_samples, self.itemsize = K, int(K.shape[0]), int(K.itemsize)
        self.diagonal = _finite(beside(K.diagonal(), K))
        if check:
            self._check()

    @classmethod
    def of(
        cls, kernel: Kernel, X: Any, dtype: Any = np.float32, *, max_bytes: float | None = None, check: bool = True
    ) -> DenseGram:
        """The matrix ``kernel(X, X)`` where X is, tile by tile; refused before it is begun if memory does not suffice.

        >>> DenseGram.of(lambda X, Z: X @ Z.T, np.eye(2)).K
        array([[1., 0.],
               [0., 1.]], dtype=float32)
        """
        n, dtype = X.shape[0], np.dtype(dtype)
        have = free_bytes(X) if max_bytes is None else max_bytes
        check_memory(f"the Gram matrix of {n} samples", n, n, dtype.itemsize, have)
        K = empty_near(X, (n, n), dtype.name)
        tile = SQUARE if on_host(X) else DEVICE_SQUARE

        def fill(corner: tuple[int, int]) -> None:
            rows, columns = (slice(low, low + tile) for low in corner)
            part = kernel(X[rows], X[columns])
            if rows == columns:
                part = 0.5 * (part + part.T)
            K[rows, columns], K[columns, rows] = part, part.T

        with one_thread():
            each(fill, [(low, left) for low in range(0, n, tile) for left in range(0, low + 1, tile)])
        return cls(K, check=check)

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
        if on_host(self.K):
            return self.product(v)
        rows, tile = v.nonzero()[:, 0].unique(), max(1, 4 * TILE // self.n_samples)  # a device has room for more
        parts = [rows[low : low + tile] for low in range(0, len(rows), tile)]
        return sum((self.K[part].to(v.dtype).T @ v[part] for part in parts), start=0.0 * v)

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

    def _check(self) -> None:
        largest = max(float(self.K.max()), -float(self.K.min()))
        if not np.isfinite(largest):
            raise DataError(NOT_FINITE)
        tile = max(1, TILE // (8 * self.n_samples))
        for low in range(0, self.n_samples, tile):
            off = float(abs(self.K[low : low + tile] - self.K[:, low : low + tile].T).max())
            if off > SYMMETRIC * largest:
                raise DataError(f"the Gram matrix must be symmetric; it differs from its transpose by {off:.3g}")
        check_definite(self)


class NearRows:
    """Rows of a matrix on a device that were needed lately, side by side.

    A device reads a whole matrix faster than rows here and there, and copies of the few rows that matter faster still.
    """

    def __init__(self, K: Any) -> None:
        self.K = K
        room = 0.5 * free_bytes(K) / (K.itemsize * K.shape[1])
        self.copies = K.new_empty((int(min(FEW * K.shape[0], room)), K.shape[1]))
        self.rows = K.new_empty(len(self.copies)).long()  # of which the first ``count`` are copied
        self.is_near = K.new_empty(K.shape[0]).bool()
        self._forget()

    def _forget(self) -> None:
        self.count = 0
        self.is_near[:] = False

    def product(self, v: Any) -> Any:
        """``K v``, by the rows where v is not zero if they are few."""
        support = v.nonzero()[:, 0]
        if len(support) > len(self.copies):
            return self.K @ v
        if self.count > 2 * len(support):
            self._forget()
        missing = support[~self.is_near[support]]
        if self.count + len(missing) > len(self.copies):
            self._forget()
            missing = support
        self._copy(missing)
        return v[self.rows[: self.count]] @ self.copies[: self.count]

    def _copy(self, missing: Any) -> None:
        begin, self.count = self.count, self.count + len(missing)
        for low in range(0, len(missing), DEVICE_SQUARE):
            part = missing[low : low + DEVICE_SQUARE]
            self.copies[begin + low : begin + low + len(part)] = self.K[part]
        self.rows[begin : self.count] = missing
        self.is_near[missing] = True


class TiledGram(Gram):
    """The matrix ``kernel(X, X)`` computed anew for every product, in tiles of ``tile_bytes``.

    Unless ``check`` is False some thirty products look for a negative eigenvalue, which is refused.

    >>> TiledGram(lambda X, Z: X @ Z.T, np.eye(2)).product(np.array([1.0, 2.0]))
    array([1., 2.])
    """

    def __init__(self, kernel: Kernel, X: Any, *, tile_bytes: int = TILE, check: bool = True) -> None:
        require(tile_bytes >= 8, "`tile_bytes` must be at least 8", tile_bytes)
        self.kernel, self.X, self.tile_bytes = kernel, X, tile_bytes
        self.n_samples = X.shape[0]
        chunks = [X[low : low + 8] for low in range(0, self.n_samples, 8)]
        self.diagonal = _finite(np.concatenate([np.diagonal(kernel(chunk, chunk)) for chunk in chunks]))
        if check:
            check_definite(self)

    @override
    def product(self, v: Any) -> FloatArray:
        out, rows = np.zeros(self.n_samples), np.flatnonzero(v)
        if rows.size:
            others, weight = self.X[rows], v[rows]
            tile = max(1, self.tile_bytes // (8 * rows.size))
            for low in range(0, self.n_samples, tile):
                out[low : low + tile] = np.asarray(self.kernel(self.X[low : low + tile], others), np.float64) @ weight
        return out

    @override
    def block(self, rows: Array) -> Array:
        part = self.X[rows]
        return np.ascontiguousarray(self.kernel(part, part))


def _finite(diagonal: Any) -> Any:
    """The diagonal in double precision; where a kernel is positive semidefinite it bounds all other entries."""
    diagonal = cast(diagonal, "float64")
    if not bool((abs(diagonal) < np.inf).all()):
        raise DataError(NOT_FINITE)
    return diagonal


def check_definite(gram: Gram) -> None:
    """Raise ``DataError`` with a negative eigenvalue.

    Up to ``EXACT_CHECK`` samples of a stored matrix none is missed; beyond, Lanczos' method may miss a small one.
    """
    n = gram.n_samples
    smallest, size = _extreme_eigenvalues(gram)
    tolerance = DEFINITE * max(size, float(abs(gram.diagonal).max()))
    if smallest >= -tolerance and EXACT_EIGENVALUES < n <= EXACT_CHECK and isinstance(gram, DenseGram):
        K = gram.block(np.arange(n)).astype(np.float64)
        smallest = 0.0 if _has_factor(K, tolerance) else float(np.linalg.eigvalsh(K)[0])
    if smallest < -tolerance:
        raise DataError(
            f"the Gram matrix must be positive semidefinite; its smallest eigenvalue is {smallest:.6g} or less, "
            "the problem is not convex and has no certificate: use another kernel, or add to its diagonal"
        )


def _has_factor(K: Array, shift: float) -> bool:
    """Whether K is positive definite after a shift."""
    try:
        cholesky(K + shift * np.eye(len(K)), lower=True, overwrite_a=True, check_finite=False)
    except LinAlgError:
        return False
    return True


def check_memory(what: str, n_rows: int, n_columns: int, itemsize: int, max_bytes: float | None = None) -> None:
    """Refuse a matrix that does not fit, before it is allocated."""
    need, have = float(n_rows) * n_columns * itemsize, free_bytes(None) if max_bytes is None else max_bytes
    if need > have:
        raise DataError(
            f"{what} needs {need / 2**30:.3g} GiB, and {have / 2**30:.3g} GiB are available: use fewer samples, "
            "or a TiledGram (store_gram=False), which computes it anew for every product, and solver='hedging'"
        )


def _extreme_eigenvalues(gram: Gram) -> tuple[float, float]:
    """The smallest and the largest eigenvalue; for a large K those of Lanczos' method, which lie between them."""
    n = gram.n_samples
    if n <= EXACT_EIGENVALUES:
        values = np.linalg.eigvalsh(np.asarray(gram.block(np.arange(n)), dtype=np.float64))
        return float(values[0]), float(values[-1])
    v = np.random.default_rng(0).standard_normal(n)
    basis, diagonal, off = [v / np.linalg.norm(v)], [], []
    for _ in range(LANCZOS_STEPS):
        image = to_host(gram.exact_product(beside(basis[-1], gram.diagonal)))
        diagonal.append(float(image @ basis[-1]))
        for known in basis + basis:  # twice is enough for orthogonality
            image = image - (image @ known) * known
        off.append(float(np.linalg.norm(image)))
        if off[-1] <= 1e-12 * abs(diagonal[0]):
            break
        basis.append(image / off[-1])
    values = eigh_tridiagonal(diagonal, off[: len(diagonal) - 1], eigvals_only=True)
    return float(values[0]), float(values[-1])
