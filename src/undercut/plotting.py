"""Pictures of traces, of paths and of RNA structures."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from undercut.errors import DataError
from undercut.io.dot_bracket import partners
from undercut.selection.path import Path as RegularizationPath
from undercut.trace import Progress
from undercut.types import Array, FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")  # Okabe and Ito: for all eyes
STYLES = ("-", "--", "-.", ":")
NAMED = 7  # coefficients with a colour and a name; the others are grey
DRAWN = 300  # coefficients, the largest ones
BEYOND = 3.0  # times the largest coefficient at the choice: where the axis ends
BETWEEN = 20  # lambdas between two of the path at which the bracket is drawn


def check_picture(path: str | Path) -> None:
    """Refuse a file name whose ending no format of pictures has.

    >>> check_picture("path.png")
    """
    from matplotlib.backend_bases import FigureCanvasBase  # slow to import

    known, ending = FigureCanvasBase.get_supported_filetypes(), Path(path).suffix
    if ending and ending[1:].lower() not in known:
        raise DataError(f"a picture must be one of {', '.join(known)}; got {str(path)!r}")


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
LETTER_HEIGHT = 1.5  # arcs begin above and below the letters
RIGHT, FALSE, MISSED = "#009E73", "#D55E00", "tab:gray"


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
        axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3, frameon=False)
    if path is not None:
        figure.savefig(path, dpi=150)
    return figure


def _pairs(partner: Array) -> set[tuple[int, int]]:
    return {(i, int(j)) for i, j in enumerate(partner) if j > i}


def _draw_arc(axes: Axes, pair: tuple[int, int], side: float, color: str, label: str | None) -> None:
    angle = np.linspace(0.0, math.pi, 60)
    middle, radius = 0.5 * (pair[0] + pair[1]) + 1.0, 0.5 * (pair[1] - pair[0])
    height = side * (LETTER_HEIGHT + radius * np.sin(angle))
    axes.plot(middle + radius * np.cos(angle), height, color=color, lw=1.2, label=label)


def _draw_letters(axes: Axes, sequence: str) -> None:
    if len(sequence) > SHOWN_LETTERS:
        axes.axhline(0.0, color="black", lw=0.6)
    else:
        for at, letter in enumerate(sequence, start=1):
            axes.text(at, 0.0, letter, ha="center", va="center", fontsize=8, family="monospace")
    axes.set(xlim=(0.0, len(sequence) + 1.0), xlabel="position")
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
        axes.plot([i + 1 for i, _ in pairs], [j + 1 for _, j in pairs], "s", ms=2.5, color=FALSE, label="truth")
        axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), frameon=False)
    axes.plot([0.5, n + 0.5], [0.5, n + 0.5], color="black", lw=0.6)
    axes.set(xlabel="position", ylabel="position")
    figure.colorbar(image, label="probability of the pair")
    if path is not None:
        figure.savefig(path, dpi=150)
    return figure


def plot_path(
    path: RegularizationPath,
    file: str | Path | None = None,
    *,
    cv_results: Mapping[str, Any] | None = None,
    lam: float | None = None,
    names: Sequence[str] | None = None,
) -> Figure:
    """Coefficients, coefficients that are not zero, the proved gap, and the score of held-out samples, against lambda.

    ``cv_results`` are those of an estimator that chose its lambda, ``lam`` is the choice, ``names`` are those of the
    coefficients.

    >>> from undercut import Hinge, LinearRisk
    >>> from undercut.selection import regularization_path
    >>> risk = LinearRisk(np.eye(2), np.array([1.0, -1.0]), Hinge())
    >>> [axes.get_ylabel() for axes in plot_path(regularization_path(risk, [0.1, 0.01])).axes]
    ['coefficients', 'coefficients that are not zero', 'proved relative gap']
    """
    from matplotlib.figure import Figure  # slow to import

    n_rows, n_columns, size = (1, 3, (12.0, 3.6)) if cv_results is None else (2, 2, (10.0, 7.2))
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots(n_rows, n_columns).ravel()
    _plot_coefficients(axes[0], path, names, lam)
    _plot_nonzeros(axes[1], path)
    _plot_brackets(axes[2], path)
    if cv_results is not None:
        _plot_scores(axes[3], cv_results)
    for each in axes:
        each.set_xscale("log")
        each.set_xlabel("lambda (strong to weak)")
        each.invert_xaxis()
        each.grid(alpha=0.3)
        if lam is not None:
            each.axvline(lam, color="black", linewidth=1.0, linestyle=(0, (1, 1)))
    if file is not None:
        figure.savefig(file, dpi=150)
    return figure


def _plot_coefficients(axes: Axes, path: RegularizationPath, names: Sequence[str] | None, lam: float | None) -> None:
    """The largest coefficients at the choice, or at the weak end, in colours; the others in grey."""
    at = -1 if lam is None else int(np.abs(np.log(path.lams / lam)).argmin())
    sizes = np.abs(path.coefficients[at])
    largest = np.argsort(-sizes, kind="stable")[:DRAWN]
    if sizes.any():
        most = min(float(np.abs(path.coefficients).max()), BEYOND * float(sizes.max()))
        axes.set_ylim(-1.05 * most, 1.05 * most)
    for j in largest[NAMED:]:
        axes.plot(path.lams, path.coefficients[:, j], color="0.75", linewidth=0.6)
    for at, j in enumerate(largest[:NAMED]):
        name = str(names[j]) if names is not None else str(j)
        style = STYLES[at % len(STYLES)]
        axes.plot(path.lams, path.coefficients[:, j], style, color=COLORS[at], linewidth=1.6, label=name)
    axes.set_ylabel("coefficients")
    axes.legend(fontsize="small", title="largest" if path.coefficients.shape[1] > NAMED else None)


def _plot_nonzeros(axes: Axes, path: RegularizationPath) -> None:
    axes.step(path.lams, path.n_nonzero, where="mid", color=COLORS[0], marker="o", markersize=3.0)
    axes.set_ylabel("coefficients that are not zero")
    axes.set_ylim(bottom=0.0)


def _plot_brackets(axes: Axes, path: RegularizationPath) -> None:
    """The gap at the lambdas of the path, and what is proved between them."""
    if len(path) > 1:
        n = BETWEEN * (len(path) - 1) + 1
        fine = np.exp(np.interp(np.linspace(0, len(path) - 1, n), np.arange(len(path)), np.log(path.lams)))
        nearest = [path.at(float(lam)) for lam in fine]
        gaps = [max(each.gap / each.objective, 1e-16) if each.objective else 1e-16 for each in nearest]
        axes.plot(fine, gaps, color=COLORS[5], linewidth=1.0, label="between the lambdas")
    axes.plot(
        path.lams,
        np.maximum(path.gaps / path.objectives, 1e-16),
        "o",
        color=COLORS[0],
        markersize=4.0,
        label="computed",
    )
    if path.epsilon is not None:
        axes.axhline(path.epsilon, color=COLORS[1], linestyle="--", label="epsilon")
    axes.set_yscale("log")
    axes.set_ylabel("proved relative gap")
    axes.legend(fontsize="small")


def _plot_scores(axes: Axes, cv_results: Mapping[str, Any]) -> None:
    """The mean score with a band of one standard error, and the scores of the folds."""
    lams, mean = np.asarray(cv_results["param_lam"], dtype=float), np.asarray(cv_results["mean_test_score"])
    folds = [cv_results[name] for name in cv_results if name.startswith("split") and name.endswith("_test_score")]
    error = np.asarray(cv_results["std_test_score"]) / math.sqrt(max(len(folds), 1))
    for number, scores in enumerate(folds[:DRAWN]):
        axes.plot(lams, scores, color="0.7", linewidth=0.6, label="one fold" if number == 0 else None)
    axes.fill_between(lams, mean - error, mean + error, color=COLORS[5], alpha=0.4, label="one standard error")
    axes.plot(lams, mean, "o-", color=COLORS[0], markersize=4.0, label="mean of the folds")
    axes.set_ylabel("score of held-out samples")
    axes.legend(fontsize="small")
