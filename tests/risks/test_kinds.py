"""Risks whose type depends on their loss, intercept and cache: it tells the truth, and survives copies and pickles."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from tests.structured_models import draw_multiclass

from undercut import FunctionRisk, Hinge, LinearRisk, Logistic, Ramp, StructuredRisk
from undercut.contracts import (
    BatchedRisk,
    CurvedRisk,
    MajorizedRisk,
    MinorizedRisk,
    RegressionLoss,
    SmoothLoss,
    SmoothRisk,
)
from undercut.losses import CrammerSinger, Softmax
from undercut.risks import DifferenceRisk, KernelRisk, MulticlassRisk, TransductiveRisk


class Welsch(RegressionLoss, SmoothLoss):
    """Smooth, but neither convex nor given by kinks: no Hessian that is positive semidefinite, and no majorizer."""

    is_convex = False

    def value_slope(self, y, scores):
        near = np.exp(-0.5 * (scores - y) ** 2)
        return 1.0 - near, (scores - y) * near

    def curvature(self, y, scores):
        return (1.0 - (scores - y) ** 2) * np.exp(-0.5 * (scores - y) ** 2)


KINDS = (SmoothRisk, CurvedRisk, BatchedRisk, MajorizedRisk)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize(
    ("loss", "fit_intercept", "expected"),
    [
        (Hinge(), False, {BatchedRisk, MajorizedRisk}),
        (Hinge(), True, {MajorizedRisk}),
        (Logistic(), False, {SmoothRisk, CurvedRisk, BatchedRisk, MajorizedRisk}),
        (Logistic(), True, {SmoothRisk, CurvedRisk, MajorizedRisk}),
        (Ramp(), False, {BatchedRisk, MajorizedRisk}),
        (Ramp(), True, {MajorizedRisk}),
        (Welsch(), False, {BatchedRisk}),
    ],
)
def test_a_linear_risk_is_what_its_loss_and_intercept_make_it(signs, form, loss, fit_intercept, expected):
    risk = LinearRisk(form(signs[0]), signs[1], loss, fit_intercept=fit_intercept)
    assert {kind for kind in KINDS if isinstance(risk, kind)} == expected
    named = ("hessian", "curvature", "batch", "majorizer")
    assert [hasattr(risk, name) for name in named] == [kind in expected for kind in KINDS]
    assert type(risk).__name__ == "LinearRisk"
    assert isinstance(risk, LinearRisk)


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda risk: pickle.loads(pickle.dumps(risk))])
@pytest.mark.parametrize("loss", [Hinge(), Logistic(), Ramp()], ids=lambda loss: type(loss).__name__)
def test_a_copy_is_of_the_same_type_and_value(signs, again, loss):
    for kind in (LinearRisk, KernelRisk):
        risk = kind(*signs, loss)
        other, w = again(risk), np.ones(risk.n_params)
        assert type(other) is type(risk)
        assert other.cut(w).value == risk.cut(w).value


def test_equal_risks_share_one_type(signs):
    assert type(LinearRisk(*signs, Logistic())) is type(LinearRisk(*signs, Logistic()))


def test_a_subclass_keeps_its_own_methods(signs):
    class Counted(LinearRisk):
        def hessian(self, w):
            return super().hessian(w) + 1.0

    risk = Counted(*signs, Logistic())
    assert isinstance(risk, SmoothRisk)
    np.testing.assert_allclose(risk.hessian(np.zeros(4)), LinearRisk(*signs, Logistic()).hessian(np.zeros(4)) + 1.0)


@pytest.mark.parametrize(("loss", "smooth"), [(Softmax(), True), (CrammerSinger(), False)])
def test_a_multiclass_risk_is_smooth_if_its_loss_is(signs, loss, smooth):
    risk = MulticlassRisk(signs[0], np.arange(40) % 3, loss)
    assert isinstance(risk, SmoothRisk) == hasattr(risk, "hessian") == smooth
    assert isinstance(risk, CurvedRisk) == hasattr(risk, "curvature") == smooth
    assert isinstance(pickle.loads(pickle.dumps(risk)), SmoothRisk) == smooth


@pytest.mark.parametrize("cache", [0, 5])
def test_a_structured_risk_has_a_minorant_if_it_has_a_cache(cache):
    risk = StructuredRisk(*draw_multiclass(), cache=cache)
    assert isinstance(risk, MinorizedRisk) == hasattr(risk, "minorant") == bool(cache)
    assert not isinstance(risk.batch(np.arange(2)), MinorizedRisk)


def test_risks_that_are_not_convex_are_majorized(signs):
    X, y = signs
    bowl = FunctionRisk(lambda w: (float(w @ w), 2.0 * w), n_params=2)
    assert isinstance(TransductiveRisk(X, y), MajorizedRisk)
    assert isinstance(DifferenceRisk(bowl, bowl), MajorizedRisk)
