"""Which losses the compiled pass knows, and how it calls them."""

from __future__ import annotations

import math
from typing import NamedTuple

from undercut import losses
from undercut._jit import pointwise
from undercut.contracts import Loss


class CompiledLoss(NamedTuple):
    """A loss as the kernel sees it."""

    kind: int
    setting: float
    lipschitz: float  # the largest slope in absolute value


_KNOWN: dict[type[Loss], tuple[int, str | None, float]] = {
    losses.Hinge: (pointwise.HINGE, None, 1.0),
    losses.SquaredHinge: (pointwise.SQUARED_HINGE, None, math.inf),
    losses.HuberHinge: (pointwise.HUBER_HINGE, "width", 1.0),
    losses.Logistic: (pointwise.LOGISTIC, None, 1.0),
    losses.Exponential: (pointwise.EXPONENTIAL, None, math.inf),
    losses.Squared: (pointwise.SQUARED, None, math.inf),
    losses.Absolute: (pointwise.ABSOLUTE, None, 1.0),
    losses.EpsilonInsensitive: (pointwise.EPSILON_INSENSITIVE, "epsilon", 1.0),
    losses.Quantile: (pointwise.QUANTILE, "quantile", 1.0),
    losses.Huber: (pointwise.HUBER, "width", math.nan),
    losses.Poisson: (pointwise.POISSON, None, math.inf),
}


def compiled_loss(loss: Loss) -> CompiledLoss | None:
    """The compiled form of a loss, ``None`` for a user's own."""
    if type(loss) not in _KNOWN:
        return None
    kind, name, lipschitz = _KNOWN[type(loss)]
    setting = float(getattr(loss, name)) if name else 0.0
    return CompiledLoss(kind, setting, setting if math.isnan(lipschitz) else lipschitz)
