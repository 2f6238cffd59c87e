"""The concave envelope of a measure, beside the linear program over all sets of mistakes."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.optimize import linprog

from undercut.measures import BalancedError, FBeta
from undercut.measures.envelope import envelope


def all_sets(n_positive, n_negative, measure):
    """Every set of mistakes as a row, and its loss."""
    sets = np.array(list(product([0.0, 1.0], repeat=n_positive + n_negative)))
    misses, alarms = sets[:, :n_positive].sum(axis=1), sets[:, n_positive:].sum(axis=1)
    return sets, np.array(
        [
            measure.loss(n_positive - miss, alarm, miss, n_negative - alarm)
            for miss, alarm in zip(misses, alarms, strict=True)
        ]
    )


def exact(sets, losses, beta):
    """The largest mean loss of random sets with these probabilities of mistakes."""
    A = np.vstack([sets.T, np.ones(len(sets))])
    return -linprog(-losses, A_eq=A, b_eq=np.append(beta, 1.0)).fun


probabilities = st.one_of(st.floats(0.0, 1.0), st.sampled_from([0.0, 0.5, 1.0]), st.floats(1e-5, 1e-3))


@settings(max_examples=150, deadline=None)
@given(
    misses=st.lists(probabilities, min_size=1, max_size=4),
    alarms=st.lists(probabilities, min_size=0, max_size=4),
    measure=st.sampled_from([FBeta(0.5), FBeta(), FBeta(2.0), BalancedError()]),
)
def test_the_majorant_touches_the_envelope_and_the_value_is_not_above_it(misses, alarms, measure):
    measure = measure if alarms else FBeta()  # the balanced error needs negatives
    sets, losses = all_sets(len(misses), len(alarms), measure)
    given_beta = np.array(misses + alarms)
    found = envelope(measure, np.array(misses), np.array(alarms), np.zeros(len(misses)))
    costs, truth = np.append(found.misses, found.alarms), exact(sets, losses, given_beta)
    assert found.value <= truth + 1e-9
    constant = (losses - sets @ costs).max()
    assert constant + costs @ given_beta == pytest.approx(truth, rel=3e-4)


def test_the_value_is_that_of_the_envelope_where_no_alarms_lack(rng):
    sets, losses = all_sets(4, 4, FBeta())
    for _ in range(30):
        beta = rng.random(8)
        found = envelope(FBeta(), beta[:4], beta[4:], np.zeros(4))
        assert found.value == pytest.approx(exact(sets, losses, beta), rel=2e-3)


@pytest.mark.parametrize("beta", [1e-8, 1e6, 1e8, 1e20, 1e100])
def test_alarms_may_cost_nothing_beside_rounding(beta):
    measure, probability = FBeta(beta), np.array([0.3, 0.5, 0.2, 0.1])
    sets, losses = all_sets(2, 2, measure)
    found = envelope(measure, probability[:2], probability[2:], np.zeros(2))
    costs, truth = np.append(found.misses, found.alarms), exact(sets, losses, probability)
    assert found.value == pytest.approx(truth, rel=1e-9)
    assert (losses - sets @ costs).max() + costs @ probability == pytest.approx(truth, rel=1e-3)


@pytest.mark.parametrize("measure", [FBeta(), FBeta(2.0), BalancedError()], ids=["f1", "f2", "balanced"])
@pytest.mark.parametrize("cost", [1e-9, 1e-3, 0.02, 0.3])
def test_worthwhile_numbers_of_alarms_maximize_loss_minus_cost(measure, cost):
    tp, fp = np.arange(8.0), np.arange(13.0)
    gains = measure.loss(tp[:, None], fp, 7.0 - tp[:, None], 12.0 - fp) - cost * fp
    found = measure.worthwhile(tp, cost, 7, 12)
    np.testing.assert_allclose(gains[np.arange(8), found.astype(int)], gains.max(axis=1), atol=1e-15)
