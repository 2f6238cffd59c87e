"""Progressive hedging, kernel machines and online methods on real worker processes."""

from __future__ import annotations

import os
import signal
from functools import partial

import numpy as np
import pytest

from undercut import L2, Hinge, LinearRisk, Logistic, Status, Stop, minimize
from undercut.callbacks import Checkpoint
from undercut.maps.cluster import ClusterParts
from undercut.maps.gram import DenseGram, RbfKernel, ShardedGram
from undercut.regularizers import KernelNorm
from undercut.risks import GramRisk, ShardedRisk
from undercut.solvers import (
    AlongPartitions,
    AsynchronousHedging,
    KernelHedging,
    MeanOfPartitions,
    ProgressiveHedging,
)
from undercut.solvers.online import Pegasos

pytestmark = pytest.mark.xdist_group("cluster")
REG = L2(0.05)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(2)
    X = rng.standard_normal((90, 3)) + 0.3
    return X, np.where(X[:, 0] + 0.6 * rng.standard_normal(90) > 0.4, 1.0, -1.0)


@pytest.fixture(scope="module")
def parts(cluster, data):
    X, y = data
    return cluster.load(dict, [{"X": X[at::3], "y": y[at::3]} for at in range(3)], ["a", "b", "c"])


def shards(parts, **settings):
    return ShardedRisk.of(parts, partial(LinearRisk, **settings))


def kill_one(cluster):
    pids = cluster.client.run(os.getpid)
    os.kill(next(iter(pids.values())), signal.SIGKILL)


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_scenarios_on_workers_are_those_in_this_process(parts, data, fit_intercept):
    here = ShardedRisk.of(LinearRisk(*data, Logistic(), fit_intercept=fit_intercept), 3)
    there = shards(parts, loss=Logistic(), fit_intercept=fit_intercept)
    one, other = (minimize(risk, REG, ProgressiveHedging(), stop=Stop(gap_rel=1e-3)) for risk in (here, there))
    assert other.status is Status.CONVERGED
    assert other.n_steps == one.n_steps
    assert other.objective == pytest.approx(one.objective, abs=1e-10)
    assert other.lower_bound == pytest.approx(one.lower_bound, abs=1e-10)


def test_a_worker_killed_between_steps_does_not_change_the_certificate(cluster, parts, data):
    risk = shards(parts, loss=Hinge(), fit_intercept=True)
    known = minimize(LinearRisk(*data, Hinge(), fit_intercept=True), REG, stop=Stop(gap_rel=1e-8))

    def kill(progress):
        if progress.step == 2:
            kill_one(cluster)

    result = minimize(risk, REG, ProgressiveHedging(), stop=Stop(gap_rel=1e-2, max_steps=100), callbacks=[kill])
    assert result.status is Status.CONVERGED
    assert result.n_steps > 2
    assert result.certificate == "global"
    for row in result.trace:
        assert row.lower_bound <= known.objective + 1e-9
        assert row.objective >= known.lower_bound - 1e-9


def test_a_run_on_workers_goes_on_from_a_checkpoint(parts, data, tmp_path):
    path = tmp_path / "run.ck"
    risk = shards(parts, loss=Hinge())
    first = minimize(
        risk, REG, ProgressiveHedging(), stop=Stop(gap_rel=1e-6, max_steps=2), callbacks=[Checkpoint(path)]
    )
    other = shards(parts, loss=Hinge())  # whose scenarios are lost
    result = minimize(
        other, REG, ProgressiveHedging(), stop=Stop(gap_rel=1e-3), callbacks=[Checkpoint(path)], resume=path
    )
    assert result.status is Status.CONVERGED
    assert result.n_steps > 2
    assert first.lower_bound <= result.lower_bound <= result.objective <= first.objective


def test_no_scenario_waits_for_another_and_the_bound_holds(parts, data):
    known = minimize(LinearRisk(*data, Logistic()), REG, stop=Stop(gap_rel=1e-8))
    risk = shards(parts, loss=Logistic())
    result = minimize(risk, REG, AsynchronousHedging(), stop=Stop(gap_rel=1e-2, max_steps=60))
    assert result.status is Status.CONVERGED
    assert result.lower_bound <= known.objective + 1e-9


def test_a_worker_killed_while_programs_are_on_their_way_does_not_break_the_bound(cluster, parts, data, monkeypatch):
    monkeypatch.setattr("undercut.maps.cluster.clients.POLL", 0.5)
    known = minimize(LinearRisk(*data, Logistic()), REG, stop=Stop(gap_rel=1e-8))
    risk, answers, answer = shards(parts, loss=Logistic()), [], ClusterParts._answer

    def killing(parts, future):
        answers.append(future.key)
        if len(answers) == 4:
            kill_one(cluster)
        return answer(parts, future)

    monkeypatch.setattr(ClusterParts, "_answer", killing)
    result = minimize(risk, REG, AsynchronousHedging(), stop=Stop(gap_rel=1e-2, max_steps=100))
    assert len(answers) > 4
    assert result.status is Status.CONVERGED
    assert result.lower_bound <= known.objective + 1e-9


def test_products_with_blocks_of_rows_on_workers_give_the_same_certificate(cluster, data):
    X, y = data
    kernel = RbfKernel(0.5)
    samples = cluster.load(np.asarray, [X[:20], X[20:65], X[65:]], ["a", "b", "c"])
    grams = DenseGram.of(kernel, X, np.float64), ShardedGram.of(kernel, samples)
    one, other = (
        minimize(GramRisk(gram, y), KernelNorm(0.1, gram), KernelHedging(), stop=Stop(gap_rel=3e-2)) for gram in grams
    )
    assert other.n_steps == one.n_steps
    assert other.objective == pytest.approx(one.objective, abs=1e-10)
    assert other.lower_bound == pytest.approx(one.lower_bound, abs=1e-10)


@pytest.mark.parametrize("solver", [AlongPartitions, MeanOfPartitions])
def test_a_model_that_visits_partitions_is_the_same_wherever_they_are(parts, data, solver):
    here = ShardedRisk.of(LinearRisk(*data, Hinge()), 3)
    there = shards(parts, loss=Hinge())
    passes = solver(method=Pegasos(n_passes=2))
    one, other = (minimize(risk, REG, passes) for risk in (here, there))
    np.testing.assert_allclose(other.w, one.w, rtol=1e-12)
    assert other.objective < here.value(np.zeros(3))
