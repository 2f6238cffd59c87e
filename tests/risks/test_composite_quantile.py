"""Several quantiles at once: the contract, the formula, the optimum, and that they never cross."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp

from undercut import L2, LinearRisk, Quantile, Stop, minimize
from undercut.errors import DataError, ParameterError
from undercut.risks import CompositeQuantileRisk
from undercut.testing import check_risk

QUANTILES = (0.1, 0.5, 0.8)


def data(seed=0, n=40):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3))
    return X, X @ [1.0, -2.0, 0.5] + rng.standard_normal(n), rng.random(n) + 0.1


def by_formula(y, scores, share, b):
    rest = y - scores - np.asarray(b)[:, None]
    q = np.array(QUANTILES)[:, None]
    return float((np.maximum(q * rest, (q - 1.0) * rest) @ share).mean())


@pytest.mark.parametrize("convert", [np.asarray, sp.csr_array, np.round])
def test_keeps_the_contract_of_a_risk(convert):
    X, y, weight = data()
    check_risk(CompositeQuantileRisk(convert(X), np.round(y), QUANTILES, weight))


def test_no_intercepts_are_better_than_those_found(rng):
    X, y, weight = data()
    risk, share = CompositeQuantileRisk(X, y, QUANTILES, weight), weight / weight.sum()
    for w in rng.standard_normal((5, 3)):
        b = risk.intercepts(w)
        assert risk.value(w) == pytest.approx(by_formula(y, X @ w, share, b), rel=1e-12)
        for shift in rng.standard_normal((50, 3)):
            assert risk.value(w) <= by_formula(y, X @ w, share, b + shift) + 1e-13


@pytest.mark.parametrize("seed", range(20))
def test_quantiles_never_cross(seed):
    """Also where residuals are tied."""
    X, y, _ = data(seed)
    risk = CompositeQuantileRisk(np.round(X), np.round(y), np.linspace(0.05, 0.95, 19))
    assert (np.diff(risk.intercepts(np.zeros(3))) >= 0.0).all()


def test_one_quantile_is_the_linear_risk(rng):
    X, y, weight = data()
    one, plain = CompositeQuantileRisk(X, y, [0.7], weight), LinearRisk(X, y, Quantile(0.7), weight, fit_intercept=True)
    w = rng.standard_normal(3)
    assert one.value(w) == pytest.approx(plain.value(w), rel=1e-14)
    assert one.intercepts(w) == pytest.approx([plain.intercept(w)])


@pytest.mark.parametrize("lam", [1e-6, 0.05, 10.0])
def test_agrees_with_a_conic_solver(lam):
    X, y, weight = data()
    share = weight / weight.sum()
    w, b = cp.Variable(3), cp.Variable(3)
    parts = []
    for k, q in enumerate(QUANTILES):
        rest = y - X @ w - b[k]
        parts.append(share @ cp.maximum(q * rest, (q - 1.0) * rest))
    program = cp.Problem(cp.Minimize(0.5 * lam * cp.sum_squares(w) + sum(parts) / 3.0))
    program.solve(solver=cp.CLARABEL)
    result = minimize(CompositeQuantileRisk(X, y, QUANTILES, weight), L2(lam), stop=Stop(gap_rel=1e-7))
    assert result.objective == pytest.approx(float(program.value), rel=1e-6)
    np.testing.assert_allclose(result.w, w.value, atol=1e-3)


def test_wrong_settings_and_data_are_named():
    X, y, _ = data()
    for quantiles in ([], [0.9, 0.1], [0.5, 0.5], [0.0, 0.5]):
        with pytest.raises(ParameterError, match="quantile"):
            CompositeQuantileRisk(X, y, quantiles)
    with pytest.raises(DataError, match="one target per row"):
        CompositeQuantileRisk(X, y[:-1])
