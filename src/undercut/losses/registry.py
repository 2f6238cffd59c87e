"""The pointwise losses by name: the one table that estimators, command line, model files and compiled loops read.

A class enters it with ``@registered("name")`` and says the rest about itself: by its bases what its targets are and
whether it is smooth, by ``is_convex``, ``lipschitz`` and ``compiled_slope`` what solvers may do with it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from undercut.contracts import CompiledSlope, Loss
from undercut.errors import require

NAMES: dict[str, type[Loss]] = {}

L = TypeVar("L", bound=type[Loss])


def registered(name: str) -> Callable[[L], L]:
    """Enter a loss class under ``name``."""

    def enter(kind: L) -> L:
        require(name not in NAMES, "the name of a loss must be unique", name)
        NAMES[name] = kind
        return kind

    return enter


def named(name: str, **settings: Any) -> Loss:
    """The loss of that name.

    >>> from undercut import losses
    >>> losses.named("quantile", quantile=0.9)
    Quantile(quantile=0.9)
    """
    require(name in NAMES, f"the name of a loss must be one of {', '.join(NAMES)}", name)
    return NAMES[name](**settings)


def of_kind(kind: type) -> dict[str, type[Loss]]:
    """The registered losses of a kind, such as ``MarginLoss``, by name.

    >>> from undercut import losses
    >>> from undercut.contracts import RegressionLoss
    >>> ", ".join(losses.of_kind(RegressionLoss))
    'squared, absolute, epsilon_insensitive, quantile, huber, poisson'
    """
    return {name: loss for name, loss in NAMES.items() if issubclass(loss, kind)}


def compiled_slope(loss: Loss) -> CompiledSlope | None:
    """The compiled slope of a registered loss; ``None`` for a user's own, subclasses of ours included."""
    slope = loss.compiled_slope if type(loss) in NAMES.values() else None
    return None if slope is None else CompiledSlope(slope.number, float(slope.setting))
