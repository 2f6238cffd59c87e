"""The Poisson mean in closed form: it agrees with the losses summed and the intercept searched for."""

from __future__ import annotations

import numpy as np
import pytest

from undercut import LinearRisk, Poisson
from undercut.risks.scores.fixed_mean import FixedSmooth
from undercut.risks.scores.mean_loss import FreeSmooth, mean_loss
from undercut.risks.scores.poisson_mean import FixedPoisson, FreePoisson


def case(seed=0, n=40):
    rng = np.random.default_rng(seed)
    y, weight = rng.poisson(2.0, n).astype(float), rng.dirichlet(np.ones(n))
    weight[3] = 0.0
    return y, weight, rng.standard_normal(n), rng.standard_normal(n)


@pytest.mark.parametrize(("closed", "searched"), [(FixedPoisson, FixedSmooth), (FreePoisson, FreeSmooth)])
def test_the_closed_form_agrees_with_the_losses_themselves(closed, searched):
    y, weight, scores, direction = case()
    ours, plain = closed(y, weight), searched(Poisson(), y, weight)
    for one, other in zip(ours.evaluate(scores), plain.evaluate(scores), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-14)
    np.testing.assert_allclose(ours.bend(scores), plain.bend(scores), rtol=1e-11)
    np.testing.assert_allclose(ours.trial(scores, direction, 0.0), plain.trial(scores, direction, 0.0), rtol=1e-10)
    steps = [phi.minimizer(scores, direction, -1.0, 0.5) for phi in (ours, plain)]
    assert steps[0] == pytest.approx(steps[1], rel=1e-6)


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_a_sample_without_weight_may_overflow(fit_intercept):
    y, weight, scores, direction = case()
    phi = mean_loss(Poisson(), y, weight, fit_intercept=fit_intercept)
    far = scores.copy()
    far[3] = 1e6
    assert phi.evaluate(far).value == pytest.approx(phi.evaluate(scores).value, rel=1e-12)
    assert phi.evaluate(far).slopes[3] == 0.0
    assert np.isfinite(phi.trial(far, direction, 0.0)).all()
    assert phi.ahead(far, 1e-3 * far).conjugate == pytest.approx(phi.ahead(scores, 1e-3 * scores).conjugate, rel=1e-12)


def test_a_free_intercept_makes_scores_of_any_size_finite():
    y, weight, scores, _ = case()
    phi = FreePoisson(y, weight)
    for shift in (1e5, -1e5):
        assert phi.evaluate(scores + shift).value == pytest.approx(phi.evaluate(scores).value, rel=1e-9)


def test_counts_that_are_all_zero_have_an_intercept_far_out():
    risk = LinearRisk(np.eye(4), np.zeros(4), Poisson(), fit_intercept=True)
    assert risk.value(np.zeros(4)) == pytest.approx(0.0, abs=1e-12)
    assert risk.intercept(np.zeros(4)) < -100.0


def test_a_loss_derived_from_poisson_is_evaluated_by_its_own_methods():
    class Doubled(Poisson):
        def value_slope(self, y, scores):
            values, slopes = super().value_slope(y, scores)
            return 2.0 * values, 2.0 * slopes

    y, weight, scores, _ = case()
    plain, doubled = (mean_loss(loss, y, weight, fit_intercept=False) for loss in (Poisson(), Doubled()))
    assert doubled.evaluate(scores).value == pytest.approx(2.0 * plain.evaluate(scores).value)
