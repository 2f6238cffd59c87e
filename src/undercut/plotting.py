"""Pictures of traces and of RNA structures."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from undercut.errors import DataError
from undercut.io.dot_bracket import partners
from undercut.trace import Progress
from undercut.types import Array, FloatArray

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


SHOWN_LETTERS = 120  # longer sequences are drawn without letters
RIGHT, MISSED, FALSE = "tab:green", "tab:gray", "tab:red"


def plot_arcs(sequence: str, structure: str, truth: str | None = None, path: str | Path | None = None) -> Figure:
    """The pairs of a structure as arcs above the sequence; with ``truth``, its missed pairs below the line.

    Pairs are green if they are in ``truth`` and red if not; those that were missed are gray.

    >>> figure = plot_arcs("GGGAAAUCCC", "(((....)))", truth="((......))")
    >>> [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    ['right (2)', 'false (1)']
    """
    from matplotlib.figure import Figure  # slow to import

    if len(structure) != len(sequence):
        raise DataError(f"a structure must be as long as its sequence; got {len(structure)} for {len(sequence)}")
    found = _pairs(partners(structure, drop_pseudoknots=True))
    true = found if truth is None else _pairs(partners(truth, drop_pseudoknots=True))
    figure = Figure(figsize=(min(14.0, 3.0 + 0.11 * len(sequence)), 4.0), layout="constrained")
    axes = figure.subplots()
    kinds = [("right", found & true, RIGHT, 1.0), ("false", found - true, FALSE, 1.0)]
    for name, pairs, color, side in [*kinds, ("missed", true - found, MISSED, -1.0)]:
        for number, pair in enumerate(sorted(pairs)):
            _draw_arc(axes, pair, side, color, f"{name} ({len(pairs)})" if number == 0 and truth else None)
    _draw_letters(axes, sequence)
    if truth is not None:
        axes.legend(loc="upper right", frameon=False)
    if path is not None:
        figure.savefig(path, dpi=150)
    return figure


def _pairs(partner: Array) -> set[tuple[int, int]]:
    return {(i, int(j)) for i, j in enumerate(partner) if j > i}


def _draw_arc(axes: Axes, pair: tuple[int, int], side: float, color: str, label: str | None) -> None:
    angle = np.linspace(0.0, math.pi, 60)
    middle, radius = 0.5 * (pair[0] + pair[1]) + 1.0, 0.5 * (pair[1] - pair[0])
    axes.plot(middle + radius * np.cos(angle), side * radius * np.sin(angle), color=color, lw=1.2, label=label)


def _draw_letters(axes: Axes, sequence: str) -> None:
    axes.axhline(0.0, color="black", lw=0.6)
    if len(sequence) <= SHOWN_LETTERS:
        box = {"facecolor": "white", "edgecolor": "none", "pad": 0.8}
        for at, letter in enumerate(sequence, start=1):
            axes.text(at, 0.0, letter, ha="center", va="center", fontsize=7, family="monospace", bbox=box)
    axes.set(xlim=(0.0, len(sequence) + 1.0), xlabel="position")
    axes.set_aspect("equal", adjustable="box")
    axes.yaxis.set_visible(False)
    axes.spines[["left", "right", "top"]].set_visible(False)


def plot_pair_probabilities(
    probability: FloatArray, truth: str | None = None, path: str | Path | None = None
) -> Figure:
    """The probabilities of pairs above the diagonal; below it the pairs of ``truth``.

    >>> figure = plot_pair_probabilities(np.eye(5)[::-1], truth="(...)")
    >>> figure.axes[0].get_xlabel()
    'position'
    """
    from matplotlib.figure import Figure  # slow to import

    n = len(probability)
    if truth is not None and len(truth) != n:
        raise DataError(f"a structure must be as long as its sequence; got {len(truth)} for {n}")
    figure = Figure(figsize=(6.0, 5.0), layout="constrained")
    axes = figure.subplots()
    upper = np.ma.masked_array(probability, mask=np.tri(n, dtype=bool))
    image = axes.imshow(upper, cmap="Blues", vmin=0.0, vmax=1.0, extent=(0.5, n + 0.5, n + 0.5, 0.5))
    if truth is not None:
        pairs = sorted(_pairs(partners(truth, drop_pseudoknots=True)))
        axes.plot([i + 1 for i, _ in pairs], [j + 1 for _, j in pairs], "s", ms=2.5, color="tab:orange", label="truth")
        axes.legend(loc="lower left", frameon=False)
    axes.plot([0.5, n + 0.5], [0.5, n + 0.5], color="black", lw=0.6)
    axes.set(xlabel="position", ylabel="position")
    figure.colorbar(image, label="probability of the pair")
    if path is not None:
        figure.savefig(path, dpi=150)
    return figure
