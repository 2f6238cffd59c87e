"""Compiled losses along a line are the losses themselves."""

from __future__ import annotations

import numpy as np
import pytest

from undercut import Huber, HuberHinge, Logistic, Squared, SquaredHinge
from undercut._jit.pointwise import QUADRATIC, parabolas_along

PARABOLAS = [SquaredHinge(), HuberHinge(0.3), Squared(), Huber(1.35)]


@pytest.mark.parametrize("loss", PARABOLAS, ids=lambda loss: type(loss).__name__)
@pytest.mark.parametrize("t", [0.0, 0.7, 30.0])
def test_value_slope_and_curvature_along_a_line_are_those_of_the_loss(rng, loss, t):
    y, weight = np.where(rng.random(200) < 0.5, 1.0, -1.0), rng.random(200)
    scores, direction = 2.0 * rng.standard_normal(200), rng.standard_normal(200)
    values, slopes = loss.value_slope(y, scores + t * direction)
    bends = loss.curvature(y, scores + t * direction)
    expected = weight @ values, weight @ (slopes * direction), weight @ (bends * direction**2)
    np.testing.assert_allclose(
        parabolas_along(*loss.compiled_slope, y, weight, scores, direction, t), expected, rtol=1e-12
    )


@pytest.mark.parametrize("loss", PARABOLAS, ids=lambda loss: type(loss).__name__)
def test_a_sample_without_weight_may_overflow(loss):
    y, weight = np.array([1.0, -1.0]), np.array([1.0, 0.0])
    scores, direction = np.array([0.5, 1e300]), np.array([1.0, 1e300])
    alone = parabolas_along(*loss.compiled_slope, y[:1], weight[:1], scores[:1], direction[:1], 2.0)
    assert parabolas_along(*loss.compiled_slope, y, weight, scores, direction, 2.0) == alone


def test_the_numbers_are_those_of_losses_made_of_parabolas():
    assert {loss.compiled_slope.number for loss in PARABOLAS} == set(QUADRATIC)
    assert Logistic().compiled_slope.number not in QUADRATIC
