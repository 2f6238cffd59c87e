"""Sums of piecewise-linear losses along a line against their definition."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, strategies as st
from tests.catalogue import LOSSES, PIECEWISE

from undercut._jit import piecewise
from undercut._jit.crossing import crossing


def weighted_problem(name, seed, *, on_kinks, n=25):
    """Scores, a direction and weights; many scores sit exactly on a kink where ``on_kinks``."""
    rng, case = np.random.default_rng(seed), LOSSES[name]
    y = case.draw_targets(rng, n)
    scores = rng.choice([y, rng.standard_normal(n)], 1)[0] if on_kinks else rng.standard_normal(n)
    direction = rng.integers(-2, 3, n).astype(np.float64)
    return case, y, scores, direction, rng.random(n)


@pytest.mark.parametrize("name", PIECEWISE)
@given(seed=st.integers(0, 10**6), on_kinks=st.booleans())
def test_the_derivative_along_a_line_is_that_of_the_sum_of_losses(name, seed, on_kinks):
    case, y, scores, direction, weight = weighted_problem(name, seed, on_kinks=on_kinks)
    pieces = case.loss.pieces(y)
    at, rise = np.empty(pieces.kinks.size), np.empty(pieces.kinks.size)
    slope, n = piecewise.along_line(*pieces, weight, scores, direction, at, rise)

    def total(t):
        return float(weight @ case.formula(y, scores + t * direction))

    kinks = np.concatenate([[0.0], np.sort(at[:n]), [np.sort(at[:n])[-1] + 2.0 if n else 2.0]])
    for left, right in pairwise(kinks):
        if right - left > 1e-3:
            expected = (total(right) - total(left)) / (right - left)
            middle = 0.5 * (left + right)
            assert slope + rise[:n][at[:n] < middle].sum() == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("name", PIECEWISE)
@given(seed=st.integers(0, 10**6))
def test_slopes_at_the_best_intercept_are_subgradients_that_sum_to_zero(name, seed):
    case, y, scores, _, weight = weighted_problem(name, seed, on_kinks=True)
    pieces = case.loss.pieces(y)
    at, rise, slopes = np.empty(pieces.kinks.size), np.empty(pieces.kinks.size), np.empty_like(scores)
    piecewise.intercept_kinks(pieces.kinks, pieces.jumps, weight, scores, at, rise)
    b = crossing(at, rise, float(weight @ pieces.left), 0.0, -math.inf)
    value = piecewise.at_intercept(*pieces, weight, scores, b, slopes)
    assert value == pytest.approx(float(weight @ case.formula(y, scores + b)), rel=1e-12, abs=1e-13)
    assert abs(slopes.sum()) <= 1e-12
    step = 1e-7
    here, ahead, behind = (weight * case.formula(y, scores + b + h) for h in (0.0, step, -step))
    assert (slopes <= (ahead - here) / step + 1e-6).all()
    assert (slopes >= (here - behind) / step - 1e-6).all()


@pytest.mark.parametrize("name", PIECEWISE)
@pytest.mark.parametrize("b", [-1.5, 0.0, 0.3])
def test_many_samples_have_the_sum_and_the_slopes_of_the_formula(name, b):
    case, y, scores, _, weight = weighted_problem(name, 1, on_kinks=False, n=1003)
    slopes = np.empty_like(scores)
    value = piecewise.at_intercept(*case.loss.pieces(y), weight, scores, b, slopes)
    assert value == pytest.approx(math.fsum(weight * case.formula(y, scores + b)), rel=1e-12)
    ahead, behind = (case.formula(y, scores + b + h) for h in (1e-9, -1e-9))
    np.testing.assert_allclose(slopes, weight * (ahead - behind) / 2e-9, atol=1e-5)
