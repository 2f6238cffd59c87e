"""A user's own function as a risk, and the planes every risk hands out."""

from __future__ import annotations

import math

import numpy as np
import pytest

from undercut import Cut, FunctionRisk
from undercut.contracts import LineRisk, Risk
from undercut.errors import DataError, NonfiniteError, ParameterError
from undercut.testing import check_risk


def test_keeps_the_contract_of_a_risk():
    check_risk(FunctionRisk(lambda w: (np.abs(w).sum(), np.sign(w)), n_params=4, lower_bound=0.0))


def test_is_a_risk_without_a_line_search():
    risk = FunctionRisk(lambda w: (0.0, w), n_params=1)
    assert isinstance(risk, Risk)
    assert not isinstance(risk, LineRisk)


def test_the_plane_touches_the_function():
    cut = FunctionRisk(lambda w: (float(w @ w), 2.0 * w), n_params=2).cut(np.array([1.0, 2.0]))
    assert cut.a.tolist() == [2.0, 4.0]
    assert (cut.b, cut.value) == (-5.0, 5.0)


def test_a_gradient_that_the_function_overwrites_later_is_kept():
    buffer = np.zeros(2)

    def fun(w):
        buffer[:] = 2.0 * w
        return float(w @ w), buffer

    risk = FunctionRisk(fun, n_params=2)
    first = risk.cut(np.ones(2))
    risk.cut(np.zeros(2))
    assert first.a.tolist() == [2.0, 2.0]


@pytest.mark.parametrize("gradient", [np.ones(3), np.ones((2, 1)), 1.0])
def test_a_subgradient_of_the_wrong_shape_is_refused(gradient):
    with pytest.raises(DataError, match=r"subgradient of shape \(2,\); got"):
        FunctionRisk(lambda w: (0.0, gradient), n_params=2).cut(np.zeros(2))


@pytest.mark.parametrize("n_params", [0, -1])
def test_there_is_at_least_one_parameter(n_params):
    with pytest.raises(ParameterError, match=f"`n_params` must be at least 1; got {n_params}"):
        FunctionRisk(lambda w: (0.0, w), n_params=n_params)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_plane_that_is_not_finite_names_what_is_wrong(bad):
    with pytest.raises(NonfiniteError, match=f"value of the risk is {bad}"):
        Cut(np.zeros(2), 0.0, bad)
    with pytest.raises(NonfiniteError, match="subgradient of the risk is not finite at parameter 1"):
        Cut(np.array([0.0, bad]), 0.0, 0.0)
    with pytest.raises(NonfiniteError):
        Cut(np.zeros(2), bad, 0.0)


def test_an_offset_that_overflows_is_not_blamed_on_the_value():
    """``b = value - <a, w>`` may overflow where value and subgradient do not."""
    with pytest.raises(NonfiniteError) as refusal:
        Cut(np.array([1.0]), math.inf, 1.0)
    assert "value of the risk is 1.0" not in str(refusal.value)
