"""Kernel functions and their Gram matrices: in memory, in tiles, on a device, on a cluster, as a product of factors."""

from undercut.maps.gram.base import Gram, Kernel
from undercut.maps.gram.checks import check_memory, not_definite
from undercut.maps.gram.dense import DenseGram
from undercut.maps.gram.factor import GramFactor
from undercut.maps.gram.functions import (
    KERNELS,
    LinearKernel,
    PolynomialKernel,
    RbfKernel,
    SigmoidKernel,
    named_kernel,
)
from undercut.maps.gram.sharded import ShardedGram
from undercut.maps.gram.tiled import TiledGram

__all__ = [
    "KERNELS",
    "DenseGram",
    "Gram",
    "GramFactor",
    "Kernel",
    "LinearKernel",
    "PolynomialKernel",
    "RbfKernel",
    "ShardedGram",
    "SigmoidKernel",
    "TiledGram",
    "check_memory",
    "named_kernel",
    "not_definite",
]
