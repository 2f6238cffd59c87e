"""A user's own function as a risk."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from undercut.contracts import Cut
from undercut.errors import DataError, require
from undercut.types import FloatArray


class FunctionRisk:
    """``fun(w) -> (value, subgradient)`` as a risk.

    ``lower_bound`` is any number known to lie below the function, with ``convex=False`` its tangents may lie
    above it.

    >>> from undercut import L2, minimize
    >>> risk = FunctionRisk(lambda w: (abs(w - 1.0).sum(), np.sign(w - 1.0)), n_params=3, lower_bound=0.0)
    >>> minimize(risk, L2(0.1)).w.round(6)
    array([1., 1., 1.])
    """

    def __init__(
        self,
        fun: Callable[[FloatArray], tuple[float, FloatArray]],
        n_params: int,
        *,
        lower_bound: float = -math.inf,
        convex: bool = True,
    ) -> None:
        require(n_params >= 1, "`n_params` must be at least 1", n_params)
        self.fun = fun
        self.n_params = n_params
        self.lower_bound = lower_bound
        self.is_convex = convex

    def value(self, w: FloatArray) -> float:
        return self._evaluate(w)[0]

    def _evaluate(self, w: FloatArray) -> tuple[float, FloatArray]:
        returned = self.fun(w.copy())  # a copy, because fun may modify it
        try:
            value, gradient = returned
            return float(value), np.array(gradient, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise DataError(f"fun must return (value, subgradient), a number and an array; got {returned!r}") from error

    def cut(self, w: FloatArray) -> Cut:
        value, a = self._evaluate(w)
        if a.shape != (self.n_params,):
            raise DataError(f"fun must return a subgradient of shape ({self.n_params},); got {a.shape}")
        with np.errstate(over="ignore", invalid="ignore"):  # Cut raises NonfiniteError
            return Cut(a, value - float(a @ w), value)
