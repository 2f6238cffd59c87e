"""A fit is a short way: few calls, X checked once, parameters checked once."""

import sys

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_iris

from undercut import (
    KernelClassifier,
    LinearClassifier,
    LinearRegressor,
    MultivariateClassifier,
    NoveltyDetector,
    OnlineClassifier,
    Ranker,
    SequenceLabeler,
    Status,
    TransductiveClassifier,
    load_model,
    save_model,
)
from undercut.estimators import CertifiedEstimator, certified
from undercut.estimators.linear.linear_model import LinearModel
from undercut.maps import design


def frames_around():
    """The functions of this library, and scikit-learn's wrapper of ``fit``, that lead here; the innermost first."""
    frame, names = sys._getframe(), []
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith(("undercut", "sklearn.base")):
            names.append(frame.f_code.co_name)
        frame = frame.f_back
    return names


@pytest.mark.parametrize("settings", [{}, {"multi_class": "crammer_singer"}, {"loss": "ramp"}])
def test_five_frames_lead_from_fit_to_minimize(monkeypatch, settings):
    ways = []
    run = certified.minimize

    def seen(*given, **named):
        ways.append(frames_around())
        return run(*given, **named)

    monkeypatch.setattr(certified, "minimize", seen)
    LinearClassifier(**settings).fit(*load_iris(return_X_y=True))
    for way in ways:
        assert way[-2:] == ["fit", "wrapper"]
        assert len([*way, "minimize"]) <= 5, way


@pytest.mark.parametrize("storage", [np.asarray, sp.csr_matrix, lambda X: X.astype(np.float32)])
@pytest.mark.parametrize(
    "fit",
    [
        lambda X, y: LinearClassifier(lam=1e-1).fit(X, y),
        lambda X, y: LinearClassifier(lam=1e-1, multi_class="crammer_singer").fit(X, y),
        lambda X, y: LinearRegressor(lam=1e-1).fit(X, y),
        lambda X, y: MultivariateClassifier(lam=1e-1).fit(X, y == 1),
        lambda X, y: NoveltyDetector(nu=0.2).fit(X),
        lambda X, y: OnlineClassifier(n_passes=1).fit(X, y),
        lambda X, y: OnlineClassifier().partial_fit(X, y),
        lambda X, y: Ranker(lam=1e-1).fit(X, y, qid=np.zeros(y.size)),
        lambda X, y: TransductiveClassifier(lam=1e-1).fit(X, np.where(np.arange(y.size) % 2, y, -1)),
    ],
)
def test_x_is_not_checked_a_second_time(monkeypatch, storage, fit):
    X, y = load_iris(return_X_y=True)
    monkeypatch.setattr(design, "_check_finite", lambda values: pytest.fail("checked again"))
    fit(storage(X), y)


def test_parameters_are_checked_once(monkeypatch):
    checks = []
    check = CertifiedEstimator._validate_params
    monkeypatch.setattr(CertifiedEstimator, "_validate_params", lambda self: checks.append(check(self)))
    LinearClassifier().fit(*load_iris(return_X_y=True))
    assert len(checks) == 1


@pytest.mark.parametrize("kind", [KernelClassifier, SequenceLabeler])
def test_a_kernel_machine_and_a_labeler_of_sequences_are_not_linear_models(kind):
    assert issubclass(kind, CertifiedEstimator)
    assert not issubclass(kind, LinearModel)


def test_a_subclass_may_add_parameters():
    class Mine(LinearClassifier):
        def __init__(self, more=1, lam=1e-2):
            super().__init__(lam=lam)
            self.more = more

    assert Mine(more=3).get_params() == {"more": 3, "lam": 1e-2}
    assert Mine().fit(*load_iris(return_X_y=True)).gap_ >= 0.0


@pytest.mark.parametrize(
    "model", [LinearClassifier(solver="line_search_bundle", lam=1e-6), OnlineClassifier()], ids=repr
)
def test_callbacks_see_every_step_and_may_end_the_fit_without_an_interrupt(model):
    X, y = load_iris(return_X_y=True)
    rows = []
    model = clone(model).set_params(callbacks=[rows.append, lambda row: row.step >= 1]).fit(X, y == 1)
    assert [row.step for row in rows] == [0, 1]
    assert model.result_.status is Status.STOPPED
    assert model.interrupted_ is False


def test_callbacks_are_no_part_of_a_model_file(tmp_path):
    X, y = load_iris(return_X_y=True)
    model = LinearClassifier(callbacks=[lambda row: None]).fit(X, y)
    save_model(model, tmp_path / "model.uc")
    assert load_model(tmp_path / "model.uc").callbacks is None
