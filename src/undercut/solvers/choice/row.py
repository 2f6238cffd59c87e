"""A line of the table of ``auto``."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from undercut.contracts import Regularizer, Risk
from undercut.solvers.registry import AnySolver

FINE = 1e-4  # relative gap: a run that ends at a smaller one takes the rows for fine gaps, others those for rough ones
FEW_STEPS = 5  # within which planes must halve the gap of an elastic net to go on
FEWEST_STEPS = 3  # within which sweeps for the logistic loss must halve the gap: conjugate gradients do not help these
SEVERAL_STEPS, MANY_STEPS = 10, 30  # the same: few parameters that are not zero; softmax with elastic net, long rows


class Row(NamedTuple):
    """One line of the table."""

    condition: str
    holds: Callable[[Risk, Regularizer], bool]
    solver: Callable[[Risk], AnySolver]
    reason: str
    is_fine: bool | None = None  # True: for fine gaps only, False: for rough gaps only

    def decides(self, risk: Risk, reg: Regularizer, gap_rel: float) -> bool:
        """Whether this is the solver for a run that ends at a relative gap, unless an earlier line decides."""
        return self.is_fine in (None, gap_rel < FINE) and self.holds(risk, reg)
