"""Callbacks: what watches a run, and may end it.

A callback is called with the ``Progress`` of every step; returning ``True`` ends the run with ``Status.STOPPED``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar

from undercut._jit.compile import on_compile
from undercut.display import APPEAR_AFTER, EVERY, Display, Part, TimeLeft, duration, fitted
from undercut.errors import require
from undercut.io.trace_file import TraceFile
from undercut.maps.parts import Parts
from undercut.solvers.saving.checkpoint import Checkpoint
from undercut.trace import Progress, Result, Run, Status
from undercut.types import FloatArray

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["Checkpoint", "EarlyStopping", "LiveProgress", "TraceFile", "describe", "step_parts"]


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
        self._parts: Parts | None = None  # where the data are, if in parts
        self._compiling = on_compile(lambda: self._display.show([Part("compiling, once on this machine")]))

    def __enter__(self) -> LiveProgress:
        self._compiling.__enter__()
        self._display.__enter__()
        self._display.show([Part("starting")])
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._display.__exit__(kind, error, at)
        self._compiling.__exit__(kind, error, at)

    def started(self, run: Run) -> None:
        """Remember where the data are."""
        parts = getattr(run.risk, "parts", None)
        self._parts = parts if isinstance(parts, Parts) else None

    def __call__(self, progress: Progress) -> None:
        left = self._left.after(progress.seconds, _relative_gap(progress))
        where = [] if self._parts is None else [_passes(progress), *self._parts.remarks()]
        remarks = [Part(text, 5 + rank) for rank, text in enumerate(where)]
        self._display.show([*step_parts(progress, self._left.wanted, left), *remarks])


def _passes(progress: Progress) -> str:
    """How often all rows were visited: an evaluation visits them once.

    >>> _passes(Progress(n_evaluations=12)), _passes(Progress(n_passes=2.5))
    ('12 passes', '2.5 passes')
    """
    return f"{progress.n_passes or progress.n_evaluations:g} passes"


class EarlyStopping:
    """Ends a run once a loss on other data no longer falls, and keeps the solution where it was smallest.

    Parameters
    ----------
    loss : function
        ``loss(risk, w)`` is the loss of a solution on other data; ``risk`` is what is minimized, for its intercept.
    patience : int
        How many solutions in a row may fail to lower it.

    Examples
    --------
    >>> import numpy as np
    >>> from undercut import L2, LinearRisk, Logistic, minimize
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.standard_normal((40, 30)), rng.choice([-1.0, 1.0], 40)
    >>> other = LinearRisk(rng.standard_normal((40, 30)), rng.choice([-1.0, 1.0], 40), Logistic())
    >>> early = EarlyStopping(lambda risk, w: other.value(w), patience=2)
    >>> minimize(LinearRisk(X, y, Logistic()), L2(1e-6), "line_search_bundle", callbacks=[early]).status.name
    'STOPPED'
    """

    def __init__(self, loss: Callable[[Any, FloatArray], float], patience: int = 5) -> None:
        require(patience >= 1, "`patience` must be at least 1", patience)
        self.loss, self.patience = loss, patience

    def __call__(self, progress: Progress) -> None:
        """A step is no news without its solution."""

    def session(self) -> EarlyStopping:
        """Problems of a fit are stopped one by one."""
        return self

    @property
    def done(self) -> dict[str, float]:
        """Nothing is resumed."""
        return {}

    def part(self, problem: str) -> ValidatedRun:
        """What watches one problem."""
        return ValidatedRun(self.loss, self.patience)

    def close(self) -> None:
        """Nothing was opened."""


class ValidatedRun:
    """The callback of one problem for ``EarlyStopping``."""

    carried: ClassVar = ("_best", "_waited", "_objective", "_kept")  # part of a checkpoint

    def __init__(self, loss: Callable[[Any, FloatArray], float], patience: int) -> None:
        self._loss, self._patience = loss, patience
        self._risk: Any = None
        self._best, self._waited, self._objective = math.inf, 0, math.inf
        self._kept: tuple[Progress, FloatArray] | None = None

    def started(self, run: Run) -> None:
        """Remember what is minimized."""
        self._risk = run.risk

    def __call__(self, progress: Progress) -> None:
        """A step is no news without its solution."""

    def look(self, progress: Progress, solution: FloatArray) -> bool:
        """Whether the loss has not fallen for too long; a step that leaves the solution as it was does not count."""
        if progress.objective == self._objective:
            return False
        self._objective = progress.objective
        value = self._loss(self._risk, solution)
        if value < self._best:
            self._best, self._waited, self._kept = value, 0, (progress, solution.copy())
        else:
            self._waited += 1
        return self._waited >= self._patience

    def chosen(self, result: Result) -> Result:
        """The solution where the loss was smallest, with the bound of the whole run, if that is why it ended."""
        if self._waited < self._patience or self._kept is None or result.status is not Status.STOPPED:
            return result
        at, w = self._kept
        detail = f"the loss on other data was smallest, {self._best:.6g}, at step {at.step}"
        return replace(result, w=w, objective=at.objective, detail=detail)


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
