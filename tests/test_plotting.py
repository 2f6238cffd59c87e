"""Pictures of traces."""

import math

import pytest

from undercut.plotting import plot_convergence
from undercut.trace import Progress

ROWS = [Progress(step=i, objective=1 + 2.0**-i, lower_bound=1 - 2.0**-i, seconds=0.1 * i) for i in range(20)]


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_a_plot_is_saved(tmp_path, suffix):
    plot_convergence({"a": ROWS, "b": ROWS[::2]}, tmp_path / f"plot.{suffix}")
    assert (tmp_path / f"plot.{suffix}").stat().st_size > 1000


def test_both_sides_of_the_bracket_and_the_gap_are_drawn():
    bounds, gaps = plot_convergence({"a": ROWS}).axes
    objective, lower = bounds.lines
    assert list(objective.get_ydata()) == [row.objective for row in ROWS]
    assert list(lower.get_ydata()) == [row.lower_bound for row in ROWS]
    assert gaps.lines[0].get_ydata()[3] == pytest.approx(ROWS[3].gap / ROWS[3].objective)


def test_rows_without_a_bound_are_left_out():
    rows = [Progress(step=0, objective=2.0), *ROWS]
    bounds, _ = plot_convergence({"a": rows}).axes
    assert all(math.isfinite(value) for value in bounds.lines[1].get_ydata())
