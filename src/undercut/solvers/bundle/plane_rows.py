"""Where the slopes of planes are stored, and their products with vectors.

A solver's vectors are float64 in main memory.  The slopes of all planes are the only large thing of a bundle: a matrix
with a row per slot, in double or in single precision, in main memory or on the device where the risk is computed.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from typing_extensions import override

from undercut.contracts import DeviceRisk, QuadraticRegularizer, Risk
from undercut.devices import dtype_name, sent, to_host, zeros_near
from undercut.types import FloatArray

FIRST_CAPACITY = 32
Precision = Literal["double", "single"]


class PlaneRows:
    """Rows of float64 in main memory."""

    A: Any

    def __init__(self, n_params: int) -> None:
        self.A = np.zeros((FIRST_CAPACITY, n_params))

    def put(self, slot: int, a: FloatArray) -> None:
        """Write a row."""
        self.A[slot] = a

    def row(self, slot: int) -> FloatArray:
        """A row as it is stored; a view or a copy, not to be modified."""
        row: FloatArray = self.A[slot]
        return row

    def rounded(self, a: FloatArray) -> FloatArray:
        """A vector as a row would hold it."""
        return a

    def products(self, w: FloatArray, top: int) -> FloatArray:
        """``<a_i, w>`` of the slots below ``top``."""
        products: FloatArray = self.A[:top] @ w
        return products

    def combined(self, alpha: FloatArray) -> FloatArray:
        """``sum_i alpha_i a_i`` over the first slots."""
        combined: FloatArray = alpha @ self.A[: alpha.size]
        return combined

    def dual_products(self, reg: QuadraticRegularizer, a: FloatArray, top: int) -> FloatArray:
        """``<a_i, M^-1 a>`` of the slots below ``top``."""
        return reg.dual_inner(self.A[:top], a)

    def grow(self) -> None:
        """Double the number of slots."""
        capacity, n_params = self.A.shape
        A = zeros_near(self.A, (2 * capacity, n_params), dtype_name(self.A))
        A[:capacity] = self.A
        self.A = A


class SingleRows(PlaneRows):
    """Rows of float32, in main memory or on a device; sums are rounded to some 1e-6 of their terms."""

    def __init__(self, n_params: int, near: Any) -> None:
        self.A = zeros_near(near, (FIRST_CAPACITY, n_params), "float32")

    @override
    def put(self, slot: int, a: FloatArray) -> None:
        self.A[slot] = sent(a, self.A)

    @override
    def row(self, slot: int) -> FloatArray:
        return to_host(self.A[slot])

    @override
    def rounded(self, a: FloatArray) -> FloatArray:
        with np.errstate(over="ignore"):  # a plane that is too steep is refused when it is coupled with the others
            return a.astype(np.float32).astype(np.float64)

    @override
    def products(self, w: FloatArray, top: int) -> FloatArray:
        with np.errstate(over="ignore", invalid="ignore"):
            return to_host(self.A[:top] @ sent(w, self.A))

    @override
    def combined(self, alpha: FloatArray) -> FloatArray:
        with np.errstate(over="ignore", invalid="ignore"):
            return to_host(sent(alpha, self.A) @ self.A[: alpha.size])

    @override
    def dual_products(self, reg: QuadraticRegularizer, a: FloatArray, top: int) -> FloatArray:
        return self.products(reg.conjugate_argmax(a) - reg.conjugate_argmax(np.zeros_like(a)), top)


def plane_rows(risk: Risk, precision: Precision) -> PlaneRows:
    """Rows of this precision for the planes of a risk, beside the data where these are on a device.

    >>> from undercut import FunctionRisk
    >>> plane_rows(FunctionRisk(lambda w: (w @ w, 2.0 * w), 3), "single").A.dtype
    dtype('float32')
    """
    home = risk.home if isinstance(risk, DeviceRisk) else np.empty(0)
    return PlaneRows(risk.n_params) if precision == "double" else SingleRows(risk.n_params, home)
