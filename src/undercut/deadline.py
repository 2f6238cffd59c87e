"""When the current run must end, for inner loops that take long.

The driver sets the deadline of a run; a loop inside a step asks ``expired()`` and ends early with the best it has.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_DEADLINE: ContextVar[float] = ContextVar("deadline", default=math.inf)


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Set the deadline ``seconds`` from now; a run inside a run ends with the outer one at the latest.

    >>> with time_limit(60.0):
    ...     expired()
    False
    >>> with time_limit(0.0):
    ...     expired()
    True
    """
    token = _DEADLINE.set(min(_DEADLINE.get(), time.perf_counter() + seconds))
    try:
        yield
    finally:
        _DEADLINE.reset(token)


def expired() -> bool:
    """Whether the time of the current run is over; never without a limit."""
    return time.perf_counter() >= _DEADLINE.get()
