"""Ctrl-C inside a fit ends every loop around it, and the estimator keeps its best solution."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.model_selection import GridSearchCV, cross_val_score

from undercut import (
    KernelClassifier,
    LinearClassifier,
    LinearClassifierCV,
    LinearRegressor,
    LinearRisk,
    NoveltyDetector,
    OnlineClassifier,
    OnlineRegressor,
    Ranker,
    SequenceLabeler,
    Status,
    TransductiveClassifier,
)
from undercut.estimators import certified
from undercut.solvers import driver


@pytest.fixture
def iris():
    return load_iris(return_X_y=True)


@pytest.fixture
def interrupt(monkeypatch):
    """Let Ctrl-C arrive at some steps, counted over all runs from 1 on; how many there were."""
    steps = []

    def arrange(*arrivals):
        record = driver._Run._record

        def recorded(self, state):
            steps.append(state)
            if len(steps) in arrivals:
                raise KeyboardInterrupt
            return record(self, state)

        monkeypatch.setattr(driver._Run, "_record", recorded)
        return steps

    return arrange


TWO = np.arange(150) % 2
FITS = [
    (LinearClassifier(), lambda model, X, y: model.fit(X, y)),
    (LinearClassifier("logistic", multi_class="multinomial"), lambda model, X, y: model.fit(X, y)),
    (LinearClassifier("ramp"), lambda model, X, y: model.fit(X, y)),
    (LinearRegressor("absolute"), lambda model, X, y: model.fit(X, y)),
    (KernelClassifier(), lambda model, X, y: model.fit(X, y)),
    (NoveltyDetector(nu=0.1), lambda model, X, y: model.fit(X)),
    (OnlineClassifier(), lambda model, X, y: model.fit(X, y)),
    (OnlineRegressor(), lambda model, X, y: model.fit(X, y)),
    (Ranker(), lambda model, X, y: model.fit(X, y, qid=np.zeros(150))),
    (SequenceLabeler(), lambda model, X, y: model.fit(X, y, lengths=[50, 50, 50])),
    (TransductiveClassifier(), lambda model, X, y: model.fit(X, np.where(TWO, y, -1))),
]


@pytest.mark.parametrize(("model", "fit"), FITS, ids=lambda value: type(value).__name__)
def test_a_fit_raises_after_it_has_kept_its_best_solution(iris, interrupt, model, fit):
    interrupt(2)
    model = clone(model)
    with pytest.raises(KeyboardInterrupt):
        fit(model, *iris)
    assert model.interrupted_
    assert model.objective_ >= model.lower_bound_
    results = model.result_ if isinstance(model.result_, list) else [model.result_]
    assert any(result.status in (Status.STOPPED, Status.MAX_STEPS) for result in results)
    if not isinstance(model, SequenceLabeler):
        assert model.predict(iris[0]).shape == (150,)


def test_a_fit_that_ends_by_itself_says_so(iris):
    assert LinearClassifier().fit(*iris).interrupted_ is False


def test_a_second_ctrl_c_ends_the_work_on_the_other_classes_at_once(iris, interrupt):
    steps = interrupt(3, 5)
    model = LinearClassifier()
    with pytest.raises(KeyboardInterrupt):
        model.fit(*iris)
    assert len(steps) == 5
    assert not hasattr(model, "coef_")


def test_the_problem_after_an_interrupted_start_gets_one_step(interrupt, iris):
    """The ramp loss starts from the optimum of the hinge loss; Ctrl-C there must not begin a long second run."""
    X, y = iris
    steps = interrupt(2)
    model = LinearClassifier("ramp", lam=1e-6, gap_rel=1e-9)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y == 1)
    assert model.interrupted_
    assert len(steps) <= 4


@pytest.mark.parametrize("lams", [None, [0.1, 0.01]], ids=["in the search for a grid", "in a fold"])
def test_ctrl_c_ends_a_choice_of_lambda(iris, interrupt, lams):
    steps = interrupt(2)
    model = LinearClassifierCV(lams)
    with pytest.raises(KeyboardInterrupt):
        model.fit(*iris)
    assert len(steps) <= 3  # other classes and lambdas are not begun
    assert not hasattr(model, "lam_")


@pytest.mark.parametrize(
    "loop",
    [
        lambda model, X, y: GridSearchCV(model, {"lam": [1e-2, 1e-1, 1.0]}, cv=3).fit(X, y),
        lambda model, X, y: cross_val_score(model, X, y, cv=3),
    ],
    ids=["GridSearchCV", "cross_val_score"],
)
def test_ctrl_c_ends_a_loop_of_fits(iris, interrupt, monkeypatch, loop):
    fits = []
    run = certified.minimize
    monkeypatch.setattr(certified, "minimize", lambda *given, **named: fits.append(1) or run(*given, **named))
    interrupt(2)
    with pytest.raises(KeyboardInterrupt):
        loop(LinearClassifier(), *iris)
    assert len(fits) == 3, "only the three classes of the first fit were solved"


def test_ctrl_c_outside_a_run_is_raised_as_it_is(iris, monkeypatch):
    def stop(*given, **named):
        raise KeyboardInterrupt

    monkeypatch.setattr(LinearRisk, "__init__", stop)
    model = LinearClassifier()
    with pytest.raises(KeyboardInterrupt):
        model.fit(*iris)
    assert not hasattr(model, "interrupted_")
