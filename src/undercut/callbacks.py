"""Callbacks: what watches a run, and may end it.

A callback is called with the ``Progress`` of every step; returning ``True`` ends the run with ``Status.STOPPED``.
"""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING

from undercut._jit.compile import on_compile
from undercut.display import APPEAR_AFTER, EVERY, Display, Part, TimeLeft, duration, fitted
from undercut.io.trace_file import TraceFile
from undercut.solvers.checkpoint import Checkpoint
from undercut.trace import Progress

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["Checkpoint", "LiveProgress", "TraceFile", "describe", "step_parts"]


class LiveProgress:
    """A line with objective, bound, gap and the time left, once a run has lasted longer than ``after`` seconds.

    It is live on a terminal and in a notebook; elsewhere a plain line of the logger ``undercut`` appears every few
    seconds.  ``gap_rel`` is the gap that is wanted, relative to the objective; ``verbose=2`` prints every step.

    >>> from undercut import FunctionRisk, L2, minimize
    >>> risk = FunctionRisk(lambda w: (float(w @ w), 2 * w), n_params=2)
    >>> with LiveProgress("training") as live:
    ...     result = minimize(risk, L2(1.0), callbacks=[live])
    """

    def __init__(
        self,
        title: str = "",
        *,
        after: float = APPEAR_AFTER,
        console: Console | None = None,
        gap_rel: float | None = None,
        verbose: int = 1,
    ) -> None:
        every = EVERY if verbose < 2 else 0.0
        self._display = Display(title, after=after, every=every, plain=verbose > 1, console=console)
        self._left = TimeLeft(gap_rel or 0.0)
        self._compiling = on_compile(lambda: self._display.show([Part("compiling, once on this machine")]))

    def __enter__(self) -> LiveProgress:
        self._compiling.__enter__()
        self._display.__enter__()
        self._display.show([Part("starting")])
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._display.__exit__(kind, error, at)
        self._compiling.__exit__(kind, error, at)

    def __call__(self, progress: Progress) -> None:
        left = self._left.after(progress.seconds, _relative_gap(progress))
        self._display.show(step_parts(progress, self._left.wanted, left))


def _relative_gap(progress: Progress) -> float:
    return progress.gap / abs(progress.objective) if progress.objective else progress.gap


def step_parts(progress: Progress, wanted: float = 0.0, left: float | None = None) -> list[Part]:
    """What a line says of a step; the gap is left out last.

    >>> fitted(step_parts(Progress(3, 0.5, 0.25), wanted=1e-3, left=8.0), width=48)
    'objective 0.5  gap 50.00 % (0.1 % wanted)'
    """
    numbers = [Part(f"step {progress.step}", 3), Part(f"objective {progress.objective:.6g}", 1)]
    if progress.certificate == "none":
        return numbers
    target = f" ({100 * wanted:g} % wanted)" if wanted else ""
    gap = f"{progress.gap_name} {100 * _relative_gap(progress):.2f} %{target}"
    time_left = "" if left is None else f"{duration(left)} left"
    return [*numbers, Part(f"{progress.bound_name} {progress.lower_bound:.6g}", 4), Part(gap), Part(time_left, 2)]


def describe(progress: Progress) -> str:
    """One line of numbers.

    >>> describe(Progress(step=3, objective=0.5, lower_bound=0.25))
    'step 3  objective 0.5  lower bound 0.25  gap 50.00 %'
    """
    return fitted(step_parts(progress))
