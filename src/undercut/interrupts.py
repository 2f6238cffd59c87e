"""Ctrl-C and SIGTERM let the step in hand end; a second one aborts at once.

Python's own handlers are replaced, never those of an application, and only while a run lasts.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # ``signal`` without its enums, which take 15 us of every run
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

REPLACED: dict[int, Any] = {int(signal.SIGINT): signal.default_int_handler, int(signal.SIGTERM): int(signal.SIG_DFL)}
EXIT_CODE = 128  # plus the number of the signal


class Interrupts:
    """The signals of one block."""

    def __init__(self) -> None:
        self.number: int | None = None  # of the first signal

    def _arrived(self, number: int, frame: FrameType | None) -> None:
        if self.number is not None:
            raise_for(number)
        self.number = number


_NONE = Interrupts()  # outside of any block
_current = _NONE


def requested() -> int | None:
    """The signal that asked for an end, ``None`` if there was none.

    >>> requested() is None
    True
    """
    return _current.number


def raise_for(number: int) -> None:
    """Raise what Python raises for Ctrl-C, and for SIGTERM what ends the process with the code of that signal."""
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    raise SystemExit(EXIT_CODE + number)


@contextmanager
def graceful() -> Iterator[Interrupts]:
    """Note the first signal instead of raising; in a block inside of another one, or in a thread, change nothing.

    >>> with graceful() as outer, graceful() as inner:
    ...     outer is inner
    True
    """
    global _current
    if _current is not _NONE or threading.current_thread() is not threading.main_thread():
        yield _current
        return
    _current = block = Interrupts()
    replaced = [number for number, usual in REPLACED.items() if _signal.getsignal(number) == usual]
    for number in replaced:
        _signal.signal(number, block._arrived)
    try:
        yield block
    finally:
        for number in replaced:
            _signal.signal(number, REPLACED[number])
        _current = _NONE
