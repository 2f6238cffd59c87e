"""The problems of one fit share its time limit, its threads, its checkpoint and its trace."""

import json
import time
import warnings
from contextlib import suppress

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning

from undercut import L2, KernelClassifier, LinearClassifier, OnlineClassifier, Status, TransductiveClassifier
from undercut.callbacks import Checkpoint, TraceFile
from undercut.errors import CheckpointError, ParameterError
from undercut.estimators import certified
from undercut.estimators.sharing import Budget, effective_n_jobs
from undercut.trace import read_traces


@pytest.fixture(scope="module")
def iris():
    return load_iris(return_X_y=True)


@pytest.fixture
def many_classes():
    rng = np.random.default_rng(0)
    return rng.standard_normal((300, 20)), np.arange(300) % 30


EVERY = [
    LinearClassifier(random_state=0),
    LinearClassifier("ramp", lam=1e-2),
    OnlineClassifier(n_passes=3),
    TransductiveClassifier(lam=1e-2),
    KernelClassifier(),
]


def coefficients(model):
    return model.coef_ if hasattr(model, "coef_") else model.dual_coef_


@pytest.mark.parametrize("model", EVERY, ids=repr)
def test_classes_fitted_at_once_are_those_fitted_in_turn(iris, model):
    X, y = iris
    y = np.where(np.arange(150) % 3 == 0, -1, y) if isinstance(model, TransductiveClassifier) else y
    turn, once = clone(model).fit(X, y), clone(model).set_params(n_jobs=3).fit(X, y)
    np.testing.assert_array_equal(coefficients(turn), coefficients(once))
    assert (turn.objective_, turn.lower_bound_) == (once.objective_, once.lower_bound_)


def test_the_time_limit_is_that_of_the_whole_fit(many_classes):
    model = LinearClassifier(lam=1e-9, gap_rel=0.0, max_seconds=0.6, fit_intercept=False)
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(*many_classes)
    assert time.perf_counter() - began < 9.0, "each of the 30 classes took the whole limit"
    assert {result.status for result in model.result_} <= {Status.MAX_SECONDS, Status.STALLED, Status.CONVERGED}
    assert all(np.isfinite(result.objective) and result.gap >= 0.0 for result in model.result_)
    assert model.lower_bound_ <= model.objective_


def test_every_class_gets_an_equal_share_of_what_is_left(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    budget = Budget(12.0, n_runs=4)
    shares = []
    for used in (3.0, 1.0, 4.0, 4.0):  # the second needs less than its share
        shares.append(budget.share())
        now[0] += used
    assert shares == [3.0, 3.0, 4.0, 4.0]
    assert 0.0 < budget.share() < 1e-6, "a run after the limit still makes a first point"


def test_runs_at_once_have_the_time_of_their_round(monkeypatch):
    monkeypatch.setattr(time, "perf_counter", lambda: 0.0)
    budget = Budget(12.0, n_runs=4, n_at_once=2)
    assert [budget.share() for _ in range(2)] == [6.0, 6.0]


def test_minus_one_job_is_one_per_core_and_none_is_refused():
    assert effective_n_jobs(-1) >= 1
    with pytest.raises(ParameterError, match="n_jobs"):
        effective_n_jobs(0)


class KilledError(Exception):
    """Stands for the end of the process."""


@pytest.fixture
def kill(monkeypatch):
    """Let the process end at the step of some number, counted over all problems."""

    def arrange(at):
        run, count = certified.minimize, [0]

        def step(progress):
            count[0] += 1
            if count[0] == at:
                raise KilledError

        def patched(*given, callbacks=(), **named):
            return run(*given, callbacks=[*callbacks, step], **named)

        monkeypatch.setattr(certified, "minimize", patched)
        return lambda: monkeypatch.setattr(certified, "minimize", run)

    return arrange


RESUMED = [*EVERY[:2], OnlineClassifier(n_passes=9), EVERY[4]]


@pytest.mark.parametrize("model", RESUMED, ids=repr)
@pytest.mark.parametrize("at", [2, 11, 25])
def test_a_killed_fit_goes_on_with_the_class_in_hand(iris, tmp_path, kill, model, at):
    path = tmp_path / "fit.ck"
    whole = clone(model).fit(*iris)
    revive = kill(at)
    with suppress(KilledError):  # shorter fits are over before
        clone(model).set_params(callbacks=[Checkpoint(path, every=0.0)]).fit(*iris)
    revive()
    resumed = clone(model).set_params(callbacks=[Checkpoint(path, every=0.0, resume=True)]).fit(*iris)
    np.testing.assert_array_equal(coefficients(resumed), coefficients(whole))
    assert (resumed.objective_, resumed.lower_bound_) == (whole.objective_, whole.lower_bound_)
    assert [result.n_evaluations for result in resumed.result_] == [result.n_evaluations for result in whole.result_]


def test_a_resumed_fit_solves_no_class_twice(iris, tmp_path):
    path = tmp_path / "fit.ck"
    first = LinearClassifier(callbacks=[Checkpoint(path)]).fit(*iris)
    steps = []
    again = LinearClassifier(callbacks=[Checkpoint(path, resume=True), steps.append]).fit(*iris)
    assert steps == []
    np.testing.assert_array_equal(first.coef_, again.coef_)
    assert [result.trace for result in again.result_] == [result.trace for result in first.result_]


def test_a_finer_gap_goes_on_from_the_solved_classes(iris, tmp_path):
    path = tmp_path / "fit.ck"
    settings = {"lam": 1e-2, "solver": "line_search_bundle"}
    first = LinearClassifier(gap_rel=0.1, callbacks=[Checkpoint(path)], **settings).fit(*iris)
    finer = LinearClassifier(gap_rel=1e-4, callbacks=[Checkpoint(path, resume=True)], **settings).fit(*iris)
    assert finer.gap_ < first.gap_
    for result, last in zip(finer.result_, first.result_, strict=True):
        assert result.trace == last.trace or result.trace[0].objective == pytest.approx(last.objective)


def test_the_time_before_a_resumption_counts(many_classes, tmp_path):
    path, steps = tmp_path / "fit.ck", []
    settings = {"lam": 1e-9, "gap_rel": 0.0, "fit_intercept": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        LinearClassifier(max_seconds=0.4, callbacks=[Checkpoint(path)], **settings).fit(*many_classes)
        again = LinearClassifier(max_seconds=0.1, callbacks=[Checkpoint(path, resume=True), steps.append], **settings)
        again.fit(*many_classes)
    assert len(steps) <= 30, "the time was over: one step for each class that had none left"


def test_a_checkpoint_of_other_data_is_refused_with_their_name(iris, tmp_path):
    path = tmp_path / "fit.ck"
    X, y = iris
    LinearClassifier(callbacks=[Checkpoint(path)]).fit(X, y)
    before = path.read_bytes()
    with pytest.raises(CheckpointError, match=r"another problem.*design\.X"):
        LinearClassifier(callbacks=[Checkpoint(path, resume=True)]).fit(X + 1.0, y)
    with pytest.raises(CheckpointError, match=r"`lam` was 0\.0001 and is 0\.01"):
        LinearClassifier(lam=1e-2, callbacks=[Checkpoint(path, resume=True)]).fit(X, y)
    assert path.read_bytes() == before


def test_all_classes_write_one_trace(iris, tmp_path):
    path = tmp_path / "fit.jsonl"
    model = LinearClassifier(callbacks=[TraceFile(path, {"data": "iris"})]).fit(*iris)
    traces = read_traces(path)
    assert list(traces) == ["class 0", "class 1", "class 2"]
    assert list(traces.values()) == [result.trace for result in model.result_]
    first = json.loads(path.read_text().splitlines()[0])
    assert (first["data"], first["risk"], first["regularizer"]) == ("iris", "LinearRisk", repr(L2(1e-4)))


def test_a_trace_that_no_longer_fits_on_the_disk_does_not_end_the_fit(iris, tmp_path):
    class Full:
        name, closed = "fit.jsonl", False

        def write(self, text):
            raise OSError("No space left on device")

        def close(self):
            """Nothing was opened."""

    trace = TraceFile(tmp_path / "fit.jsonl")

    class Recorder:
        def __call__(self, progress):
            """The session does the work."""

        def session(self):
            session = trace.session()
            session._file.close()
            session._file = Full()
            return session

    with pytest.warns(RuntimeWarning, match="the run goes on without it"):
        model = LinearClassifier(callbacks=[Recorder()]).fit(*iris)
    assert model.gap_ <= 1e-3 * model.objective_
