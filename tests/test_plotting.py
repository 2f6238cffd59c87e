"""Pictures of traces."""

import math

import numpy as np
import pytest

from undercut import Hinge, LinearRisk
from undercut.errors import DataError
from undercut.estimators import LinearClassifierCV
from undercut.plotting import plot_arcs, plot_convergence, plot_pair_probabilities, plot_path
from undercut.selection import regularization_path
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


def path_and_choice():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 12))
    y = np.where(X[:, 0] + rng.standard_normal(60) > 0.0, 1.0, -1.0)
    choice = LinearClassifierCV([1.0, 0.1, 0.01], cv=2, extend=True).fit(X, y)
    return regularization_path(LinearRisk(X, y, Hinge()), [1.0, 0.01], penalty="l1", epsilon=0.1), choice


def test_a_path_is_drawn_with_its_proof_and_the_scores_of_the_folds(tmp_path):
    path, choice = path_and_choice()
    figure = plot_path(path, tmp_path / "path.png", cv_results=choice.cv_results_, lam=choice.lam_)
    coefficients, nonzeros, gaps, scores = figure.axes
    assert (tmp_path / "path.png").stat().st_size > 1000
    assert len(coefficients.lines) == 13  # and the choice
    assert list(nonzeros.lines[0].get_ydata()) == path.n_nonzero.tolist()
    assert max(gaps.lines[0].get_ydata()) <= 0.1 * (1.0 + 1e-12)
    assert any(list(line.get_ydata()) == choice.cv_results_["mean_test_score"].tolist() for line in scores.lines)
    assert all(axes.xaxis_inverted() for axes in figure.axes)


def test_lines_of_a_path_differ_by_more_than_their_colour():
    path, _ = path_and_choice()
    named = [
        line for line in plot_path(path, names=[f"x{j}" for j in range(12)]).axes[0].lines if line.get_label()[0] == "x"
    ]
    assert len({(line.get_color(), line.get_linestyle()) for line in named}) == len(named) == 7
    assert len({line.get_linestyle() for line in named}) == 4


# --- RNA ----------------------------------------------------------------------------------------------------------


def test_arcs_tell_right_false_and_missed_pairs():
    axes = plot_arcs("GGGGAAAACCCC", "((.(....).))", truth="(.((....)).)").axes[0]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["right (2)", "false (1)", "missed (1)"]
    heights = [line.get_ydata() for line in axes.lines]
    assert sum(max(height) > 0 for height in heights) == 3
    assert sum(min(height) < 0 for height in heights) == 1


def test_arcs_join_the_ends_of_pairs():
    (line,) = plot_arcs("GAAAAC", "(....)").axes[0].lines
    assert sorted((line.get_xdata()[0], line.get_xdata()[-1])) == pytest.approx([1.0, 6.0])


def test_probabilities_stand_above_the_diagonal_and_the_truth_below(tmp_path):
    probability = np.zeros((6, 6))
    probability[0, 5] = probability[5, 0] = 0.7
    axes = plot_pair_probabilities(probability, "(....)", tmp_path / "pairs.png").axes[0]
    shown = axes.images[0].get_array()
    assert shown[0, 5] == 0.7
    assert shown.mask[5, 0]
    assert (axes.lines[0].get_xdata()[0], axes.lines[0].get_ydata()[0]) == (1, 6)
    assert (tmp_path / "pairs.png").stat().st_size > 1000


def test_a_structure_of_another_length_is_refused():
    with pytest.raises(DataError, match="as long as its sequence; got 3 for 4"):
        plot_arcs("ACGU", "...")
    with pytest.raises(DataError, match="as long as its sequence; got 3 for 4"):
        plot_pair_probabilities(np.zeros((4, 4)), "...")
