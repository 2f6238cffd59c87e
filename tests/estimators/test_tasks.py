"""scikit-learn's own callbacks: a fit is a task, its steps are subtasks."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris

from undercut import LinearClassifier, OnlineClassifier, estimators
from undercut.estimators import CertifiedEstimator

sklearn_callback = pytest.importorskip("sklearn.callback")  # scikit-learn 1.9
KINDS = [getattr(estimators, name) for name in estimators.__all__ if inspect.isclass(getattr(estimators, name))]


class Recorder:
    """A callback of scikit-learn that stops each problem after some steps."""

    def __init__(self, stop_at=np.inf):
        self.begun, self.ended, self.torn_down = [], [], 0
        self.stop_at = stop_at

    def setup(self, estimator, context):
        self.begun.append("setup")

    def teardown(self, estimator, context):
        self.torn_down += 1

    def on_fit_task_begin(self, estimator, context):
        self.begun.append(context.task_name)

    def on_fit_task_end(self, estimator, context):
        self.ended.append(context.task_name)
        return self.ended.count("step") >= self.stop_at


@pytest.mark.parametrize("kind", [LinearClassifier, OnlineClassifier])
def test_every_step_of_a_fit_is_a_task(kind):
    X, y = load_iris(return_X_y=True)
    recorder = Recorder()
    model = kind(lam=1e-1).set_callbacks(recorder).fit(X, y)
    n_rows = sum(len(result.trace) for result in model.result_)
    assert recorder.begun == ["setup", "fit", *["step"] * recorder.ended.count("step")]
    assert n_rows - 3 <= recorder.ended.count("step") <= n_rows
    assert recorder.ended[-1] == "fit"
    assert recorder.torn_down == 1


def test_a_task_that_asks_for_the_end_ends_the_run():
    X, y = load_iris(return_X_y=True)
    model = LinearClassifier(lam=1e-6, solver="line_search_bundle", gap_rel=1e-6).set_callbacks(Recorder(stop_at=4))
    assert clone(model).fit(X, y == 1).result_.trace[-1].step == 3


def test_teardown_is_called_after_an_error():
    recorder = Recorder()

    def fail(progress):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        LinearClassifier(callbacks=[fail]).set_callbacks(recorder).fit(np.eye(2), [0, 1])
    assert recorder.torn_down == 1


@pytest.mark.parametrize("kind", [kind for kind in KINDS if issubclass(kind, CertifiedEstimator)])
def test_every_estimator_takes_both_kinds_of_callbacks(kind):
    if kind is CertifiedEstimator:
        return
    assert "callbacks" in inspect.signature(kind).parameters
    assert hasattr(kind, "set_callbacks")
