"""Regularizers: convex penalties on w with a Fenchel dual."""

from undercut.regularizers.block_sum import BlockSum
from undercut.regularizers.boxed import Boxed
from undercut.regularizers.elastic_net import ElasticNet
from undercut.regularizers.entropy import Entropy
from undercut.regularizers.kernel_norm import KernelNorm
from undercut.regularizers.l1 import L1
from undercut.regularizers.l2 import L2
from undercut.regularizers.proximal import Proximal
from undercut.regularizers.quadratic import Quadratic
from undercut.regularizers.separable import SeparableRegularizer
from undercut.regularizers.squared_lp import SquaredLp

__all__ = [
    "L1",
    "L2",
    "BlockSum",
    "Boxed",
    "ElasticNet",
    "Entropy",
    "KernelNorm",
    "Proximal",
    "Quadratic",
    "SeparableRegularizer",
    "SquaredLp",
]
