"""Callbacks: what watches a run, and may end it.

A callback is called with the ``Progress`` of every step; returning ``True`` ends the run with ``Status.STOPPED``.
"""

from __future__ import annotations

from threading import Timer
from types import TracebackType
from typing import TYPE_CHECKING

from undercut._jit.compile import on_compile
from undercut.solvers.checkpoint import Checkpoint
from undercut.trace import Progress

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["Checkpoint", "LiveProgress", "describe"]

APPEAR_AFTER = 1.0  # seconds: shorter runs show nothing


class LiveProgress:
    """A live line with objective, bound and gap, once a run has lasted longer than ``after`` seconds.

    >>> from undercut import FunctionRisk, L2, minimize
    >>> risk = FunctionRisk(lambda w: (float(w @ w), 2 * w), n_params=2)
    >>> with LiveProgress("training") as live:
    ...     result = minimize(risk, L2(1.0), callbacks=[live])
    """

    def __init__(self, title: str = "", *, after: float = APPEAR_AFTER, console: Console | None = None) -> None:
        from rich.console import Console  # here: a run that shows nothing does not wait for its import
        from rich.progress import Progress as Bar, SpinnerColumn, TextColumn, TimeElapsedColumn

        self.title = title
        columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
        console = console or Console(stderr=True)
        self._bar = Bar(
            *columns, console=console, transient=True, refresh_per_second=8, disable=not console.is_terminal
        )
        self._task = self._bar.add_task(f"{title} starting".strip())
        self._compiling = on_compile(lambda: self._say("compiling, once on this machine"))
        self._timer = Timer(after, self._bar.start)
        self._timer.daemon = True

    def __enter__(self) -> LiveProgress:
        self._compiling.__enter__()
        self._timer.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._timer.cancel()
        self._timer.join()
        self._bar.stop()
        self._compiling.__exit__(kind, error, at)

    def __call__(self, progress: Progress) -> None:
        self._say(describe(progress))

    def _say(self, text: str) -> None:
        self._bar.update(self._task, description=f"{self.title} {text}".strip())


def describe(progress: Progress) -> str:
    """One line of numbers.

    >>> describe(Progress(step=3, objective=0.5, lower_bound=0.25))
    'step 3  objective 0.5  lower bound 0.25  gap 50.00 %'
    """
    start = f"step {progress.step}  objective {progress.objective:.6g}"
    if progress.certificate == "none":
        return start
    relative = progress.gap / abs(progress.objective) if progress.objective else progress.gap
    return f"{start}  {progress.bound_name} {progress.lower_bound:.6g}  {progress.gap_name} {100.0 * relative:.2f} %"
