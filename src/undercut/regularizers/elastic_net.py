"""A mixture of absolute values and squares."""

from __future__ import annotations

import math
from dataclasses import dataclass

from typing_extensions import override

from undercut.errors import require
from undercut.regularizers.separable import SeparableRegularizer, Terms


@dataclass(frozen=True)
class ElasticNet(SeparableRegularizer):
    """``lam (l1_ratio |w|_1 + (1 - l1_ratio)/2 |w|^2)``, scikit-learn's elastic net.

    >>> import numpy as np
    >>> reg = ElasticNet(1.0, l1_ratio=0.5)
    >>> reg.value(np.array([2.0, -1.0])), reg.conjugate_argmax(np.array([1.5, -0.4])).tolist()
    (2.75, [2.0, 0.0])
    """

    lam: float
    l1_ratio: float = 0.5

    def __post_init__(self) -> None:
        require(0.0 < self.lam < math.inf, "`lam` must be positive and finite", self.lam)
        require(0.0 <= self.l1_ratio <= 1.0, "`l1_ratio` must be in [0, 1]", self.l1_ratio)

    @property
    @override
    def terms(self) -> Terms:
        return Terms(l1=self.lam * self.l1_ratio, l2=self.lam * (1.0 - self.l1_ratio))
