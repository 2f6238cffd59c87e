"""Different regularizers for different blocks of parameters."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from typing_extensions import override

from undercut.contracts import ProximalRegularizer, Regularizer
from undercut.errors import DataError, ParameterError, require
from undercut.kinds import Kinded
from undercut.types import FloatArray


class BlockSum(Kinded, Regularizer):
    """``sum_k reg_k(w_k)`` over consecutive blocks of w, each given by its length or its slice.

    It is a ``ProximalRegularizer`` if all its parts are.

    >>> from undercut import L1, L2
    >>> reg = BlockSum([(2, L1(1.0)), (3, L2(2.0))])
    >>> reg.value(np.ones(5)), reg.conjugate(np.array([1.0, 0.0, 2.0, 0.0, 0.0]))
    (5.0, 1.0)
    """

    def __init__(self, blocks: Iterable[tuple[int | slice, Regularizer]]) -> None:
        self.blocks: list[tuple[slice, Regularizer]] = []
        self.n_params = 0
        for extent, reg in blocks:
            block = _block(extent, self.n_params)
            self.blocks.append((block, reg))
            self.n_params = block.stop
            reg.check_size(block.stop - block.start)
        require(bool(self.blocks), "`blocks` must hold at least one (length, regularizer)", [])
        if all(isinstance(reg, ProximalRegularizer) for _, reg in self.blocks):
            self.take_kinds(ProximalBlockSum)

    @override
    def check_size(self, n_params: int) -> None:
        if n_params != self.n_params:
            raise DataError(f"the blocks must have {n_params} parameters together, like w; got {self.n_params}")

    @property
    @override
    def has_finite_dual(self) -> bool:
        return all(reg.has_finite_dual for _, reg in self.blocks)

    @property
    @override
    def strong_convexity(self) -> float:
        return min(reg.strong_convexity for _, reg in self.blocks)

    @override
    def value(self, w: FloatArray) -> float:
        return sum(reg.value(w[block]) for block, reg in self.blocks)

    @override
    def conjugate(self, z: FloatArray) -> float:
        return sum(reg.conjugate(z[block]) for block, reg in self.blocks)

    @override
    def conjugate_argmax(self, z: FloatArray) -> FloatArray:
        return np.concatenate([reg.conjugate_argmax(z[block]) for block, reg in self.blocks])

    @override
    def conjugate_curvature(self, A: FloatArray, z: FloatArray) -> FloatArray:
        total = np.zeros((A.shape[0], A.shape[0]))
        for block, reg in self.blocks:
            total += reg.conjugate_curvature(A[:, block], z[block])
        return total

    @override
    def shrinkage(self, z: FloatArray, slack: float) -> float:
        return min(reg.shrinkage(z[block], slack) for block, reg in self.blocks)


class ProximalBlockSum(BlockSum, ProximalRegularizer):
    """A sum of regularizers that all know their proximal form."""

    blocks: list[tuple[slice, ProximalRegularizer]]  # type: ignore[assignment]

    @override
    def near(self, center: FloatArray, tau: float) -> BlockSum:
        return BlockSum([(block, reg.near(center[block], tau)) for block, reg in self.blocks])


def _block(extent: int | slice, start: int) -> slice:
    """The block that begins where the last one ended."""
    block = extent if isinstance(extent, slice) else slice(start, start + extent)
    if block.start not in (start, None) or block.step not in (1, None) or block.stop is None or block.stop <= start:
        raise ParameterError(
            f"`blocks` must follow each other without a gap, each of at least one parameter; got {extent} after {start}"
        )
    return slice(start, block.stop)
