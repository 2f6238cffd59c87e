"""The L1 penalty: most parameters are zero at the optimum."""

from __future__ import annotations

import math
from dataclasses import dataclass

from typing_extensions import override

from undercut.errors import require
from undercut.regularizers.separable import SeparableRegularizer, Terms


@dataclass(frozen=True)
class L1(SeparableRegularizer):
    """``lam |w|_1``; its dual is 0 where ``|z|_inf <= lam`` and infinite elsewhere.

    It is not strongly convex, so the risk needs a finite ``lower_bound``.

    >>> import numpy as np
    >>> reg = L1(0.5)
    >>> reg.value(np.array([2.0, -1.0])), reg.conjugate(np.array([0.5, 0.1])), reg.conjugate(np.array([0.6, 0.1]))
    (1.5, 0.0, inf)
    """

    lam: float

    def __post_init__(self) -> None:
        require(0.0 < self.lam < math.inf, "`lam` must be positive and finite", self.lam)

    @property
    @override
    def terms(self) -> Terms:
        return Terms(l1=self.lam)
