"""The Gram matrix K of a kernel: all that a problem about functions ``f = sum_j x_j k(x_j, .)`` asks of its samples.

``product(v) = K v`` is the only step of a kernel method whose cost is quadratic in the number n of samples.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, TypeAlias

from undercut.devices import on_host
from undercut.types import Array

Kernel: TypeAlias = Callable[[Any, Any], Any]


class Gram(ABC):
    """A symmetric positive semidefinite matrix known by its products."""

    n_samples: int
    diagonal: Any  # a float64 vector, on the device of the products
    itemsize: int = 8  # bytes of an entry of a block
    rounding: float = 0.0  # the largest difference between an entry that ``product`` uses and the exact one

    @abstractmethod
    def product(self, v: Any) -> Any:
        """``K v`` in float64, by entries that may be rounded; zero entries of v cost nothing where that is possible."""

    def exact_product(self, v: Any) -> Any:
        """``K v`` by exact entries with sums in float64, for one or several columns v: the basis of every bound."""
        return self.product(v)

    @abstractmethod
    def block(self, rows: Array) -> Array:
        """The matrix of some of the samples among themselves, in main memory."""

    @property
    def on_host(self) -> bool:
        """Whether vectors are NumPy's."""
        return on_host(self.diagonal)
