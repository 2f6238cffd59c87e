"""Ridge regression in closed form: the optimum, the bound, both sizes of the equations, refusals."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings, strategies as st
from sklearn.linear_model import Ridge

from undercut import L2, Hinge, LinearRisk, Squared, Status, Stop, minimize
from undercut.errors import CapabilityError
from undercut.regularizers import Quadratic
from undercut.solvers import LeastSquares

TIGHT = Stop(gap_rel=1e-10, max_steps=3)


def drawn(n, d, *, seed=0, fit_intercept=False, weighted=False, form=np.asarray):
    rng = np.random.default_rng(seed)
    X, weight = rng.standard_normal((n, d)), rng.random(n) + 0.1 if weighted else None
    y = X @ rng.standard_normal(d) + rng.standard_normal(n) + 3.0
    return X, y, weight, LinearRisk(form(X), y, Squared(), weight, fit_intercept=fit_intercept)


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("shape", [(40, 7), (7, 40), (20, 20)])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_it_agrees_with_scikit_learn(shape, weighted, fit_intercept, form):
    X, y, weight, risk = drawn(*shape, weighted=weighted, fit_intercept=fit_intercept, form=form)
    result = minimize(risk, L2(0.1), LeastSquares(), stop=TIGHT)
    total = y.size if weight is None else weight.sum()
    theirs = Ridge(alpha=0.1 * total, fit_intercept=fit_intercept, solver="svd").fit(X, y, sample_weight=weight)
    assert result.status is Status.CONVERGED
    np.testing.assert_allclose(result.w, theirs.coef_, rtol=1e-7, atol=1e-9)
    assert risk.intercept(result.w) == pytest.approx(theirs.intercept_, abs=1e-8)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 30),
    d=st.integers(1, 30),
    exponent=st.floats(-9.0, 3.0),
    fit_intercept=st.booleans(),
    shifted=st.booleans(),
)
def test_any_small_problem_is_certified_and_its_gradient_vanishes(seed, n, d, exponent, fit_intercept, shifted):
    _, _, _, risk = drawn(n, d, seed=seed, fit_intercept=fit_intercept)
    reg = L2(10.0**exponent, center=np.ones(d), weights=np.linspace(0.5, 2.0, d)) if shifted else L2(10.0**exponent)
    result = minimize(risk, reg, LeastSquares(), stop=Stop(gap_rel=1e-6, max_steps=5))
    assert result.status is Status.CONVERGED
    assert np.abs(reg.gradient(result.w) + risk.cut(result.w).a).max() <= 1e-6 * (1.0 + risk.value(np.zeros(d)))


def test_a_matrix_as_penalty_and_a_start_elsewhere_lead_to_the_same_optimum():
    _, _, _, risk = drawn(5, 8, fit_intercept=True)
    B = np.eye(8) + 0.3
    by_newton = minimize(risk, Quadratic(0.2, B), "newton", stop=TIGHT)
    ours = minimize(risk, Quadratic(0.2, B), LeastSquares(), w0=np.arange(8.0), stop=TIGHT)
    np.testing.assert_allclose(ours.w, by_newton.w, atol=1e-8)


@pytest.mark.parametrize(
    ("risk", "need"),
    [
        (LinearRisk(np.eye(2), [1.0, -1.0], Hinge()), "Squared"),
        (LinearRisk(sp.linalg.aslinearoperator(np.eye(2)), [1.0, -1.0], Squared()), "weighted_gram"),
    ],
)
def test_other_problems_are_refused(risk, need):
    with pytest.raises(CapabilityError, match=f"LeastSquares needs.*{need}.*use "):
        minimize(risk, L2(1.0), LeastSquares())
