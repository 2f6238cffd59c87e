"""Bounds on the parameters."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

import numpy as np
from typing_extensions import override

from undercut.contracts import Regularizer
from undercut.errors import CapabilityError, DataError, require
from undercut.regularizers.l2 import L2
from undercut.regularizers.separable import Numbers, SeparableRegularizer, Terms


@dataclass(frozen=True)
class Boxed(SeparableRegularizer):
    """``reg(w)`` where ``lower <= w <= upper``, else infinity, for a separable ``reg``: L2, L1 or ElasticNet.

    A bound is a number for all parameters or an array with one for each; infinity means no bound.

    >>> reg = Boxed(L2(1.0), lower=0.0)
    >>> reg.conjugate_argmax(np.array([2.0, -2.0])).tolist(), reg.value(np.array([-1.0, 0.0]))
    ([2.0, 0.0], inf)
    """

    reg: Regularizer
    lower: Numbers = -np.inf
    upper: Numbers = np.inf
    _terms: Terms = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.reg, (L2, SeparableRegularizer)):
            raise CapabilityError(
                f"bounds need a separable regularizer such as L2, L1 or ElasticNet; got {type(self.reg).__name__}"
            )
        for name in ("lower", "upper"):
            given = np.asarray(getattr(self, name), dtype=np.float64)
            object.__setattr__(self, name, given if given.ndim else float(given))
            require(not np.isnan(given).any(), f"`{name}` must hold numbers, infinity where there is no bound", given)
        rule = "`lower` must not exceed `upper`, and a finite number must lie between them"
        ordered = np.all(self.lower <= self.upper) and np.all(self.lower < np.inf) and np.all(self.upper > -np.inf)
        require(bool(ordered), rule, (self.lower, self.upper))
        inside = terms_of(self.reg)
        lower, upper = np.maximum(inside.lower, self.lower), np.minimum(inside.upper, self.upper)
        object.__setattr__(self, "_terms", inside._replace(lower=_plain(lower), upper=_plain(upper)))

    @override
    def check_size(self, n_params: int) -> None:
        self.reg.check_size(n_params)
        for name in ("lower", "upper"):
            if np.shape(getattr(self, name)) not in ((), (n_params,)):
                raise DataError(
                    f"`{name}` must be a number or have shape ({n_params},) like w; got {np.shape(getattr(self, name))}"
                )

    @property
    @override
    def terms(self) -> Terms:
        return self._terms


def terms_of(reg: Regularizer) -> Terms:
    if isinstance(reg, SeparableRegularizer):
        return reg.terms
    l2 = cast(L2, reg)
    squares = l2.lam if l2.weights is None else l2.lam * l2.weights**2
    return Terms(l2=squares, center=0.0 if l2.center is None else l2.center)


def _plain(bound: Numbers) -> Numbers:
    return bound if np.ndim(bound) else float(bound)
