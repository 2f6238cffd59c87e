"""When methods with expensive certificates evaluate one, and when they give up."""

from __future__ import annotations

from undercut.trace import Progress, Status

GAIN = 1e-13  # of the objective: the least decrease of the gap that counts
PATIENCE = 1000  # steps without a gain, at least: after a warm start iterates may be worse than the start for long


def has_gained(now: Progress, last: Progress) -> bool:
    """Whether a certificate reduced the gap by more than rounding can."""
    return not now.gap >= last.gap - GAIN * abs(now.objective)


def stalled(step: int, gained: int, patience: int = PATIENCE) -> Status | None:
    """The status of a run whose last gain was long ago, ``None`` to go on."""
    return Status.STALLED if step - gained > max(patience, 2 * gained) else None


def is_due(step: int, last: int) -> bool:
    """Whether a certificate is due: each step at first, then after every tenth part of the steps so far."""
    return step - last >= max(1, last // 10)
