"""Features of very different sizes, and more features than samples: few steps to a certificate by ``auto``."""

from __future__ import annotations

import numpy as np
import pytest

from undercut import L1, L2, Absolute, ElasticNet, Hinge, Huber, LinearRisk, Logistic, Squared, Status, Stop, minimize

SIZES = np.logspace(-6, 6, 12)
STEPS = 150


def problem(n, d, loss, sizes=1.0):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    y = X[:, :5].sum(axis=1) + rng.standard_normal(n)
    margin = isinstance(loss, Hinge | Logistic)
    return LinearRisk(X * sizes, np.where(y > 0.0, 1.0, -1.0) if margin else y, loss, fit_intercept=True)


CASES = {
    "hinge, unequal features": (problem(800, 12, Hinge(), SIZES), L2),
    "hinge, many samples, unequal features": (problem(3500, 12, Hinge(), SIZES), L2),
    "absolute, unequal features": (problem(800, 12, Absolute(), SIZES), L2),
    "squares with L1, unequal features": (problem(800, 12, Squared(), SIZES), L1),
    "logistic with elastic net, unequal features": (problem(800, 12, Logistic(), SIZES), ElasticNet),
    "hinge, wide": (problem(60, 1200, Hinge()), L2),
    "absolute, wide": (problem(60, 1200, Absolute()), L2),
    "squares with L1, wide": (problem(60, 1200, Squared()), L1),
    "Huber with L1, wide": (problem(60, 1200, Huber()), L1),
}


@pytest.mark.parametrize("lam", [1e-8, 1e-5, 1e-2, 1.0])
@pytest.mark.parametrize("name", CASES)
def test_few_steps_certify(name, lam):
    risk, penalty = CASES[name]
    result = minimize(risk, penalty(lam), stop=Stop(max_steps=STEPS))
    assert result.status is Status.CONVERGED
    assert result.objective == pytest.approx(penalty(lam).value(result.w) + risk.value(result.w))
