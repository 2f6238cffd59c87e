"""The gap at which the current run ends, for solvers that can choose when to look at theirs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from undercut.trace import Progress

Allowed = Callable[[Progress], float]


def _unknown(progress: Progress) -> float:
    return 0.0


_ALLOWED: ContextVar[Allowed] = ContextVar("allowed", default=_unknown)


@contextmanager
def gap_allowed(allowed: Allowed = _unknown) -> Iterator[None]:
    """Tell the steps of a run at which gap it ends.

    >>> with gap_allowed(lambda progress: 1e-3 * progress.objective):
    ...     wanted_gap(Progress(objective=2.0))
    0.002
    """
    token = _ALLOWED.set(allowed)
    try:
        yield
    finally:
        _ALLOWED.reset(token)


def wanted_gap(progress: Progress) -> float:
    """The gap at which the current run would end at this point; 0 where that is not known."""
    return _ALLOWED.get()(progress)
