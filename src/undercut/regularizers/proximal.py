"""A regularizer plus a linear and a proximal term: the problem of one scenario in progressive hedging."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from undercut.contracts import Regularizer
from undercut.errors import CapabilityError, require
from undercut.regularizers.l2 import L2
from undercut.types import FloatArray


class Proximal(NamedTuple):
    """``reg(w) + <tilt, w> + tau/2 |w - center|^2``, an ``L2`` up to a constant.

    >>> Proximal.of(L2(1.0), center=np.array([2.0]), tau=1.0, tilt=np.array([0.0]))
    Proximal(reg=L2(lam=1.0, center=array([1.]), weights=array([1.41421356])), constant=1.0)
    """

    reg: L2
    constant: float

    @classmethod
    def of(
        cls, reg: Regularizer, center: FloatArray, tau: float | FloatArray, tilt: FloatArray, n_free: int = 0
    ) -> Proximal:
        """Complete the square; ``reg`` says nothing about the last ``n_free`` parameters, which need a positive tau."""
        require(bool(np.all((np.asarray(tau) >= 0.0) & np.isfinite(tau))), "`tau` must be non-negative and finite", tau)
        if not isinstance(reg, L2):
            raise CapabilityError(f"a proximal term needs an L2 regularizer; got {type(reg).__name__}")
        n_params, off = center.size - n_free, np.zeros(n_free)
        own = np.append(reg.hessian_diagonal(n_params), off)
        pull = 0.0 if reg.center is None else np.append(own[:n_params] * reg.center, off)
        total = own + tau
        w = (pull + tau * center - tilt) / total
        lowest = reg.value(w[:n_params]) + float(tilt @ w) + 0.5 * float((tau * (w - center)) @ (w - center))
        return cls(L2(1.0, center=w, weights=np.sqrt(total)), lowest)

    def value(self, w: FloatArray) -> float:
        """The sum of the three terms."""
        return self.reg.value(w) + self.constant
