"""A line of the table of ``auto``."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from undercut.contracts import Regularizer, Risk
from undercut.solvers.registry import AnySolver

FEW_STEPS = 5  # within which planes must halve the gap of an elastic net to go on
SEVERAL_STEPS, MANY_STEPS = 10, 30  # the same for L1 with several classes, and for a kinked loss with few parameters


class Row(NamedTuple):
    """One line of the table."""

    condition: str
    holds: Callable[[Risk, Regularizer], bool]
    solver: Callable[[Risk], AnySolver]
    reason: str
