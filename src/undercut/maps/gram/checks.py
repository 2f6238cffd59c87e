"""What a Gram matrix must be: square, finite, symmetric, positive semidefinite, and small enough for the memory."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.linalg import LinAlgError
from scipy.linalg import cholesky, eigh_tridiagonal

from undercut.devices import beside, cast, free_bytes, to_host
from undercut.errors import DataError
from undercut.maps.gram.base import Gram
from undercut.types import Array

STRIPE = 8 * 2**20  # entries compared with their transposes at a time
SYMMETRIC = 1e-6  # how much K may differ from its transpose, relative to its largest entry
DEFINITE = 1e-6  # how negative an eigenvalue may be, relative to the largest
EXACT_EIGENVALUES = 500  # samples up to which all eigenvalues are cheap
EXACT_CHECK = 4000  # samples up to which a Cholesky factor is cheap; it detects any negative eigenvalue
LANCZOS_STEPS = 30
NOT_FINITE = "the Gram matrix must be finite; it contains NaN or infinity: scale the features, drop or impute them"


def check_square(K: Any) -> None:
    """Raise ``DataError`` unless K has as many columns as rows, and some."""
    if K.ndim != 2 or K.shape[0] != K.shape[1] or K.shape[0] == 0:
        raise DataError(f"the Gram matrix must be square, samples by samples; got shape {tuple(K.shape)}")


def check_symmetric(K: Any) -> None:
    """Raise ``DataError`` unless K, an array or a tensor, is finite and equal to its transpose up to rounding."""
    largest = max(float(K.max()), -float(K.min()))
    if not np.isfinite(largest):
        raise DataError(NOT_FINITE)
    stripe = max(1, STRIPE // K.shape[0])
    for low in range(0, K.shape[0], stripe):
        off = float(abs(K[low : low + stripe] - K[:, low : low + stripe].T).max())
        if off > SYMMETRIC * largest:
            raise DataError(f"the Gram matrix must be symmetric; it differs from its transpose by {off:.3g}")


def finite_diagonal(diagonal: Any) -> Any:
    """The diagonal in double precision; where a kernel is positive semidefinite it bounds all other entries."""
    diagonal = cast(diagonal, "float64")
    if not bool((abs(diagonal) < np.inf).all()):
        raise DataError(NOT_FINITE)
    return diagonal


def check_definite(gram: Gram, *, is_stored: bool = False) -> None:
    """Raise ``DataError`` with a negative eigenvalue.

    Up to ``EXACT_CHECK`` samples of a stored matrix none is missed; beyond, Lanczos' method may miss a small one.
    """
    n = gram.n_samples
    smallest, size = _extreme_eigenvalues(gram)
    tolerance = DEFINITE * max(size, float(abs(gram.diagonal).max()))
    if is_stored and smallest >= -tolerance and EXACT_EIGENVALUES < n <= EXACT_CHECK:
        K = gram.block(np.arange(n)).astype(np.float64)
        smallest = 0.0 if _has_factor(K, tolerance) else float(np.linalg.eigvalsh(K)[0])
    if smallest < -tolerance:
        raise not_definite(f"its smallest eigenvalue is {smallest:.6g} or less")


def not_definite(fact: str) -> DataError:
    """The error of a matrix with a negative eigenvalue."""
    return DataError(
        f"the Gram matrix must be positive semidefinite; {fact}, the problem is not convex and has no certificate: "
        "use another kernel, or add to its diagonal"
    )


def check_memory(what: str, n_rows: int, n_columns: int, itemsize: int, max_bytes: float | None = None) -> None:
    """Refuse a matrix that does not fit, before it is allocated."""
    need, have = float(n_rows) * n_columns * itemsize, free_bytes(None) if max_bytes is None else max_bytes
    if need > have:
        raise DataError(
            f"{what} needs {need / 2**30:.3g} GiB, and {have / 2**30:.3g} GiB are available: use fewer samples, "
            "or a TiledGram (store_gram=False), which computes it anew for every product, and solver='hedging'"
        )


def _has_factor(K: Array, shift: float) -> bool:
    """Whether K is positive definite after a shift."""
    try:
        cholesky(K + shift * np.eye(len(K)), lower=True, overwrite_a=True, check_finite=False)
    except LinAlgError:
        return False
    return True


def _extreme_eigenvalues(gram: Gram) -> tuple[float, float]:
    """The smallest and the largest eigenvalue; for a large K those of Lanczos' method, which lie between them."""
    n = gram.n_samples
    if n <= EXACT_EIGENVALUES:
        values = np.linalg.eigvalsh(np.asarray(gram.block(np.arange(n)), dtype=np.float64))
        return float(values[0]), float(values[-1])
    v = np.random.default_rng(0).standard_normal(n)
    basis, diagonal, off = [v / np.linalg.norm(v)], [], []
    for _ in range(LANCZOS_STEPS):
        image = to_host(gram.product(beside(basis[-1], gram.diagonal)))
        diagonal.append(float(image @ basis[-1]))
        for known in basis + basis:  # twice is enough for orthogonality
            image = image - (image @ known) * known
        off.append(float(np.linalg.norm(image)))
        if off[-1] <= 1e-12 * abs(diagonal[0]):
            break
        basis.append(image / off[-1])
    values = eigh_tridiagonal(diagonal, off[: len(diagonal) - 1], eigvals_only=True)
    return float(values[0]), float(values[-1])
