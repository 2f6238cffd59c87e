"""The Gram matrix K of a kernel: all that a problem about functions ``f = sum_j x_j k(x_j, .)`` asks of its samples.

``product(v) = K v`` is the only step of a kernel method whose cost is quadratic in the number n of samples.  A
``DenseGram`` stores K, in float32 or float64, in main memory or on a device; a ``TiledGram`` computes it anew for every
product and never holds more than a tile.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeAlias

import numpy as np
from scipy.linalg import eigh_tridiagonal
from typing_extensions import override

from undercut.arrays import Array, FloatArray, beside, each, on_host, one_thread, spans, to_host
from undercut.errors import DataError, require
from undercut.kernels.gram import add_rows, gather

Kernel: TypeAlias = Callable[[Any, Any], Any]

TILE = 64 * 2**20  # bytes
SYMMETRIC = 1e-6  # what K may differ from its transpose, relative to its largest entry
DEFINITE = 1e-6  # how negative an eigenvalue may be, relative to the largest
EXACT_EIGENVALUES = 500  # samples up to which they are cheap
LANCZOS_STEPS = 30


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
        if K.ndim != 2 or K.shape[0] != K.shape[1] or K.shape[0] == 0:
            raise DataError(f"the Gram matrix must be square, samples by samples; got shape {tuple(K.shape)}")
        self.K, self.n_samples, self.itemsize = K, int(K.shape[0]), int(K.itemsize)
        self.diagonal = beside(K.diagonal(), K)
        if check:
            self._check()

    @classmethod
    def of(
        cls, kernel: Kernel, X: Any, dtype: Any = np.float32, *, max_bytes: float | None = None, check: bool = True
    ) -> DenseGram:
        """The matrix ``kernel(X, X)``, tile by tile; refused before it is begun if memory does not suffice.

        >>> DenseGram.of(lambda X, Z: X @ Z.T, np.eye(2)).K
        array([[1., 0.],
               [0., 1.]], dtype=float32)
        """
        n = X.shape[0]
        check_memory(f"the Gram matrix of {n} samples", n, n, np.dtype(dtype).itemsize, max_bytes)
        K = np.empty((n, n), dtype=dtype)
        tile = max(1, int((TILE / 256) ** 0.5))  # what a cache holds

        def fill(corner: tuple[int, int]) -> None:
            rows, columns = (slice(low, low + tile) for low in corner)
            K[rows, columns] = kernel(X[rows], X[columns])
            K[columns, rows] = K[rows, columns].T

        with one_thread():
            each(fill, [(low, left) for low in range(0, n, tile) for left in range(0, low + 1, tile)])
        return cls(K, check=check)

    @override
    def product(self, v: Any) -> Any:
        if not on_host(self.K):
            return (self.K @ v.to(self.K.dtype)).to(v.dtype)
        out, rows = np.zeros(self.n_samples), np.flatnonzero(v)
        if rows.size:
            spans(lambda low, high: add_rows(self.K, rows, v, out, low, high), self.n_samples)
        return out

    @override
    def exact_product(self, v: Any) -> Any:
        if on_host(self.K) or self.K.dtype == v.dtype:
            return self.product(v)
        out, tile = v.clone(), max(1, 4 * TILE // self.n_samples)  # a device has room for more
        for low in range(0, self.n_samples, tile):
            out[low : low + tile] = self.K[low : low + tile].to(v.dtype) @ v
        return out

    @override
    def block(self, rows: Array) -> Array:
        if not on_host(self.K):
            return np.ascontiguousarray(self.K[rows][:, rows].cpu().numpy())
        out = np.empty((rows.size, rows.size), dtype=self.K.dtype)
        spans(lambda low, high: gather(self.K, rows, out, low, high), rows.size)
        return out

    def _check(self) -> None:
        largest = float(abs(self.K).max())
        if not np.isfinite(largest):
            raise DataError("the Gram matrix must be finite; it contains NaN or infinity")
        tile = max(1, TILE // (8 * self.n_samples))
        for low in range(0, self.n_samples, tile):
            off = float(abs(self.K[low : low + tile] - self.K[:, low : low + tile].T).max())
            if off > SYMMETRIC * largest:
                raise DataError(f"the Gram matrix must be symmetric; it differs from its transpose by {off:.3g}")
        smallest, size = _extreme_eigenvalues(self)
        if smallest < -DEFINITE * max(size, largest):
            raise DataError(
                f"the Gram matrix must be positive semidefinite; its smallest eigenvalue is {smallest:.6g} or less, "
                "the problem is not convex and has no certificate: use another kernel, or add to its diagonal"
            )


class TiledGram(Gram):
    """The matrix ``kernel(X, X)`` computed anew for every product, in tiles of ``tile_bytes``.

    >>> TiledGram(lambda X, Z: X @ Z.T, np.eye(2)).product(np.array([1.0, 2.0]))
    array([1., 2.])
    """

    def __init__(self, kernel: Kernel, X: Any, *, tile_bytes: int = TILE) -> None:
        require(tile_bytes >= 8, "`tile_bytes` must be at least 8", tile_bytes)
        self.kernel, self.X, self.tile_bytes = kernel, X, tile_bytes
        self.n_samples = X.shape[0]
        chunks = [X[low : low + 8] for low in range(0, self.n_samples, 8)]
        self.diagonal = np.concatenate([np.diagonal(kernel(chunk, chunk)).astype(np.float64) for chunk in chunks])

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


def check_memory(what: str, n_rows: int, n_columns: int, itemsize: int, max_bytes: float | None = None) -> None:
    """Refuse a matrix that does not fit, before it is allocated."""
    need, have = float(n_rows) * n_columns * itemsize, _available_bytes() if max_bytes is None else max_bytes
    if need > have:
        raise DataError(
            f"{what} needs {need / 2**30:.3g} GiB, and {have / 2**30:.3g} GiB are available: use float32, fewer "
            "samples, or a TiledGram, which computes it anew for every product, with every sample a scenario"
        )


def _available_bytes() -> float:
    with suppress(OSError, ValueError, StopIteration), open("/proc/meminfo", encoding="ascii") as file:
        return 1024.0 * int(next(line for line in file if line.startswith("MemAvailable")).split()[1])
    with suppress(AttributeError, OSError, ValueError):
        return float(os.sysconf("SC_PHYS_PAGES")) * os.sysconf("SC_PAGE_SIZE")
    return np.inf


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
