"""Kernel functions, and their Gram matrices: in memory, in tiles, on a device, as a product of factors."""

from undercut.maps.gram.factor import GramFactor
from undercut.maps.gram.functions import KERNELS, Dtype, LinearKernel, PolynomialKernel, RbfKernel, SigmoidKernel
from undercut.maps.gram.matrix import DenseGram, Gram, Kernel, TiledGram, check_memory

__all__ = [
    "KERNELS",
    "DenseGram",
    "Dtype",
    "Gram",
    "GramFactor",
    "Kernel",
    "LinearKernel",
    "PolynomialKernel",
    "RbfKernel",
    "SigmoidKernel",
    "TiledGram",
    "check_memory",
]
