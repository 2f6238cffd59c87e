"""One line that tells how a long job goes: live on a terminal and in a notebook, elsewhere through ``logging``.

In a redirected output, a log of a build machine or a batch queue a live line is useless, so there a plain line of the
logger ``undercut`` appears every few seconds.  The logger is left as the application configured it; if it did not, the
lines are printed on standard error.
"""

from __future__ import annotations

import logging
import math
import sys
import time
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.util import find_spec
from threading import Timer
from types import TracebackType
from typing import TYPE_CHECKING, Literal, NamedTuple, TextIO

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as Bar

LOGGER = logging.getLogger("undercut")
Where = Literal["anywhere", "log", "nowhere"]
_WHERE: ContextVar[Where] = ContextVar("where", default="anywhere")
APPEAR_AFTER = 1.0  # seconds: shorter jobs show nothing
EVERY = 5.0  # seconds between plain lines
BESIDE = 10  # columns that the spinner and the clock take
BAR_WIDTH = 8


@contextmanager
def shown(where: Where) -> Iterator[None]:
    """Within it, progress is shown in the log alone, or nowhere."""
    token = _WHERE.set(where)
    try:
        yield
    finally:
        _WHERE.reset(token)


class Part(NamedTuple):
    """A piece of the line; those of the highest rank are left out first where the line is too long."""

    text: str
    rank: int = 0


def fitted(parts: Sequence[Part], width: float = math.inf) -> str:
    """The parts that fit, in their order; those of rank 0 always stay.

    >>> fitted([Part("step 7", 2), Part("gap 1 %"), Part("4 s left", 1)], width=20)
    'gap 1 %  4 s left'
    """
    parts = [part for part in parts if part.text]
    line = "  ".join(part.text for part in parts)
    last = max((part.rank for part in parts), default=0)
    return line if len(line) <= width or last == 0 else fitted([part for part in parts if part.rank < last], width)


def duration(seconds: float) -> str:
    """Seconds in the unit that suits them.

    >>> duration(7.2), duration(200), duration(9000)
    ('7 s', '3 min', '2.5 h')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


class TimeLeft:
    """The time until the gap is ``wanted``, if its logarithm falls as it did over the second half of the run.

    >>> left = TimeLeft(wanted=1e-3)
    >>> [left.after(seconds, gap) for seconds, gap in [(0.0, 1.0), (1.0, 0.1), (2.0, 0.01)]]
    [None, 2.0, 1.0]
    """

    def __init__(self, wanted: float) -> None:
        self.wanted = wanted
        self._seconds: list[float] = []
        self._logs: list[float] = []

    def after(self, seconds: float, gap: float) -> float | None:
        """Record a gap; the seconds left, ``None`` while nothing is known."""
        if not (0.0 < gap < math.inf and self.wanted > 0.0):
            return None
        self._seconds.append(seconds)
        self._logs.append(math.log(gap))
        middle = max(0, bisect_right(self._seconds, seconds / 2) - 1)
        fallen, took = self._logs[middle] - self._logs[-1], seconds - self._seconds[middle]
        if fallen <= 0.0 or took <= 0.0:
            return None
        return max(0.0, round((self._logs[-1] - math.log(self.wanted)) * took / fallen, 6))


class Display:
    """The line of one job, as a context manager; ``show`` replaces what it says.

    Parameters
    ----------
    title : str
        What the line begins with.
    after : float
        Seconds before a live line appears.
    every : float
        Seconds between plain lines; 0 prints each.
    plain : bool
        Whether to print plain lines on a terminal too.
    """

    def __init__(
        self, title: str = "", *, after: float = APPEAR_AFTER, every: float = EVERY, plain: bool = False,
        console: Console | None = None,
    ) -> None:  # fmt: skip
        from rich.console import Console  # here: a job that shows nothing does not wait for its import

        self.title, self.every = title, every
        self.console = console or Console(stderr=True, emoji=False)
        self._where = _WHERE.get()
        live = self._where == "anywhere" and not plain and is_live(self.console)
        self._bar = _live_bar(self.console) if live else None
        if self._bar:
            self._task = self._bar.add_task(title)
            self._timer = Timer(after, self._bar.start)
            self._timer.daemon = True
        self._spoke = time.monotonic()

    def __enter__(self) -> Display:
        if self._bar:
            self._timer.start()
        elif self._where == "anywhere":
            print_lines()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._bar:
            self._timer.cancel()
            self._timer.join()
            self._bar.stop()

    def show(self, parts: Sequence[Part], share: float | None = None) -> None:
        """Say something; ``share`` is how much of the job is done, where that is known."""
        done = [] if share is None else [Part(f"{100 * share:.0f} %")]
        if self._bar:
            bar = [] if share is None else [Part(drawn(share), 5)]
            line = fitted([Part(self.title), *bar, *done, *parts], self.console.width - BESIDE)
            self._bar.update(self._task, description=line)
        logs = not self._bar or LOGGER.level != logging.NOTSET  # a log that somebody asked for, beside the live line
        if logs and self._where != "nowhere" and time.monotonic() - self._spoke >= self.every:
            self._spoke = time.monotonic()
            LOGGER.info(fitted([Part(self.title), *done, *parts]))


def drawn(share: float) -> str:
    """A bar of text.

    >>> drawn(0.5)
    '━━━━────'
    """
    full = min(BAR_WIDTH, int(BAR_WIDTH * share))
    return "━" * full + "─" * (BAR_WIDTH - full)


def is_live(console: Console) -> bool:
    """Whether a line can be replaced: on a terminal, and in a notebook with rich's support for it."""
    return console.is_terminal or (console.is_jupyter and find_spec("ipywidgets") is not None)


def _live_bar(console: Console) -> Bar:
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    return Progress(*columns, console=console, transient=True, refresh_per_second=8)


def print_lines() -> None:
    """Let lines of the logger appear; on standard error where no handler was configured."""
    if not LOGGER.isEnabledFor(logging.INFO):
        LOGGER.setLevel(logging.INFO)
    if not LOGGER.hasHandlers():
        handler = _StandardError()
        handler.setFormatter(logging.Formatter("%(message)s"))
        LOGGER.addHandler(handler)


class _StandardError(logging.StreamHandler[TextIO]):
    """Writes to what ``sys.stderr`` is at that time."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> TextIO:  # type: ignore[override]
        return sys.stderr
