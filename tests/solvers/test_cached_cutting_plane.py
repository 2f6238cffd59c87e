"""Labelings that are remembered make a risk below the risk, and a solver that decodes less for it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st
from tests.structured_models import Multiclass, draw_chains, draw_multiclass, worst_losses

from undercut import L2, CuttingPlane, Hinge, LinearRisk, Stop, StructuredRisk, minimize
from undercut.contracts import Risk
from undercut.errors import CapabilityError, DataError, ParameterError
from undercut.solvers import CachedCuttingPlane
from undercut.testing import check_risk

either_rescaling = pytest.mark.parametrize("rescaling", ["margin", "slack"])
either_model = pytest.mark.parametrize("draw", [draw_multiclass, draw_chains])


@either_model
@either_rescaling
@given(seed=st.integers(0, 10**6), capacity=st.integers(1, 4))
def test_the_minorant_lies_below_and_touches_where_it_was_last_taught(draw, rescaling, seed, capacity):
    model, X, Y = draw(seed, n=5)
    risk = StructuredRisk(model, X, Y, rescaling=rescaling, cache=capacity)
    rng = np.random.default_rng(seed)
    for w in rng.standard_normal((6, model.n_params)):
        value = risk.cut(w).value
        assert risk.minorant.value(w) == pytest.approx(value)
        v = rng.standard_normal(model.n_params)
        assert risk.minorant.value(v) <= risk.value(v) + 1e-9
        check = risk.minorant.cut(v)
        assert check.a @ w + check.b <= value + 1e-9
    assert np.bincount(risk.minorant.owner).max(initial=0) <= capacity


def test_the_minorant_keeps_the_contract_of_a_risk():
    model, X, Y = draw_chains()
    risk = StructuredRisk(model, X, Y, cache=4)
    assert isinstance(risk.minorant, Risk)
    check_risk(risk.minorant)  # which knows nothing yet
    for w in np.random.default_rng(0).standard_normal((6, model.n_params)):
        risk.cut(w)
    check_risk(risk.minorant)


def test_a_labeling_is_remembered_once():
    model, X, Y = draw_multiclass()
    risk = StructuredRisk(model, X, Y, cache=10)
    for _ in range(3):
        risk.cut(np.zeros(model.n_params))
    assert risk.minorant.owner.size == len(X)


def test_a_decoder_that_misses_what_it_once_found_is_caught():
    class Tired(Multiclass):
        asked = 0

        def decode(self, w, x, y, rescaling):
            self.asked += 1
            return super().decode(w, x, y, rescaling) if self.asked < 3 else y

    risk = StructuredRisk(Tired(2, 3), [np.ones(2), np.ones(2)], [0, 1], cache=3)
    risk.cut(np.zeros(6))
    with pytest.raises(DataError, match=r"example 0: decode must return the labeling of the largest loss; it found"):
        risk.cut(np.zeros(6))


def test_the_cache_saves_evaluations():
    model, X, Y = draw_chains(n=30, n_labels=4, longest=5)
    stop = Stop(gap_rel=1e-4)
    plain = minimize(StructuredRisk(model, X, Y), L2(1e-3), CuttingPlane(), stop=stop)
    cached = minimize(StructuredRisk(model, X, Y, cache=20), L2(1e-3), CachedCuttingPlane(), stop=stop)
    assert cached.objective == pytest.approx(plain.objective, rel=1e-4)
    assert cached.n_evaluations < plain.n_evaluations / 3


def test_the_reported_objective_is_that_of_the_risk_itself():
    model, X, Y = draw_chains()
    result = minimize(StructuredRisk(model, X, Y, cache=5), L2(0.01), CachedCuttingPlane())
    exact = worst_losses(model, X, Y, result.w, "margin").mean()
    assert result.objective == pytest.approx(L2(0.01).value(result.w) + exact)
    assert result.certificate == "global"


def test_the_cached_solver_refuses_a_risk_without_memory():
    model, X, Y = draw_multiclass()
    with pytest.raises(CapabilityError, match=r"`minorant`.*positive `cache`, or use CuttingPlane"):
        minimize(StructuredRisk(model, X, Y), L2(1.0), CachedCuttingPlane())
    with pytest.raises(CapabilityError, match="LinearRisk has none"):
        minimize(LinearRisk(np.eye(2), [1.0, -1.0], Hinge()), L2(1.0), CachedCuttingPlane())


def test_a_cheap_plane_must_promise_more_than_the_master_may_miss():
    with pytest.raises(ParameterError, match="`enough` must exceed `master_accuracy`"):
        CachedCuttingPlane(enough=0.1, master_accuracy=0.1)
