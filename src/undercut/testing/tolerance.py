"""How far two numbers that ought to be equal may differ."""

from __future__ import annotations

ROUNDING = 1e-9  # relative


def magnitude(*values: float) -> float:
    """The largest absolute value, and 1 at least: what ``ROUNDING`` is relative to."""
    return max(1.0, *(abs(value) for value in values))
