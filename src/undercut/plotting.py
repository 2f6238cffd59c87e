"""Pictures of traces."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from undercut.trace import Progress

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def plot_convergence(runs: Mapping[str, Sequence[Progress]], path: str | Path | None = None) -> Figure:
    """Objective and bound against steps, and the relative gap against seconds, one colour per run.

    >>> rows = [Progress(step=i, objective=1 + 2.0**-i, lower_bound=1 - 2.0**-i, seconds=0.1 * i) for i in range(9)]
    >>> figure = plot_convergence({"a run": rows})
    >>> [axes.get_xlabel() for axes in figure.axes]
    ['step', 'seconds']
    """
    from matplotlib.figure import Figure  # slow to import

    figure = Figure(figsize=(10.0, 4.0), layout="constrained")
    bounds, gaps = figure.subplots(1, 2)
    for at, (name, trace) in enumerate(runs.items()):
        color = f"C{at}"
        _plot_bounds(bounds, name, trace, color)
        _plot_gaps(gaps, name, trace, color)
    _label(bounds, gaps, [trace[-1] for trace in runs.values() if trace])
    if len(runs) > 1:
        gaps.legend()
    if path is not None:
        figure.savefig(path, dpi=150)
    return figure


def _label(bounds: Axes, gaps: Axes, last: list[Progress]) -> None:
    bound_names = " or ".join(sorted({row.bound_name for row in last if row.certificate != "none"}))
    bounds.set(xlabel="step", ylabel=f"objective (solid) and {bound_names} (dashed)" if bound_names else "objective")
    gaps.set(xlabel="seconds", ylabel="relative " + " or ".join(sorted({row.gap_name for row in last} or {"gap"})))
    bounds.grid(alpha=0.3)
    gaps.grid(alpha=0.3)


def _plot_gaps(axes: Axes, name: str, trace: Sequence[Progress], color: str) -> None:
    known = [row for row in trace if math.isfinite(row.gap) and row.objective != 0.0]
    relative = [max(row.gap / abs(row.objective), 1e-16) for row in known]
    axes.semilogy([row.seconds for row in known], relative, color=color, label=name)


def _plot_bounds(axes: Axes, name: str, trace: Sequence[Progress], color: str) -> None:
    known = [row for row in trace if math.isfinite(row.objective)]
    axes.plot([row.step for row in known], [row.objective for row in known], color=color, label=name)
    bounded = [row for row in known if math.isfinite(row.lower_bound)]
    axes.plot([row.step for row in bounded], [row.lower_bound for row in bounded], "--", color=color)
    if bounded:  # the first bounds may be far below: show where the two meet
        best = known[-1].objective
        low = sorted(row.lower_bound for row in bounded)[len(bounded) // 10]
        high = sorted(row.objective for row in known)[-1 - len(known) // 10]
        margin = 0.05 * max(high - low, 1e-12 * abs(best))
        axes.set_ylim(low - margin, high + margin)
