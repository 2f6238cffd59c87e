"""The race against other packages: its jobs cover the matrix, and every peer solves the problem that we solve."""

from __future__ import annotations

import sys
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from undercut import Stop, minimize

sys.path.append(str(Path(__file__).parent.parent / "benchmarks"))
import peers
import peers_found
import peers_jobs
import peers_rivals

SIZE = 60
STEPS = 10000  # of the ladder
LAMBDAS = {"L2": 0.05, "L1": 0.02, "elastic net": 0.04}
KINDS = [
    (loss, penalty, intercept)
    for loss in peers_jobs.LOSSES
    for penalty in peers_jobs.PENALTIES
    for intercept in (False, True)
]


def pairs(jobs):
    return {pair for job in jobs for pair in combinations(sorted(vars(job).items()), 2)}


@pytest.mark.parametrize("seed", [0, 1])
def test_every_pair_of_values_that_makes_sense_occurs_in_the_selection(seed):
    everything = peers_jobs.all_jobs()
    chosen = peers_jobs.covering(everything, peers.N_JOBS, seed=seed)
    assert len(set(chosen)) == peers.N_JOBS
    assert pairs(chosen) == pairs(everything)


def test_another_seed_selects_other_jobs_on_other_draws():
    everything = peers_jobs.all_jobs()
    first, second = (set(peers_jobs.covering(everything, peers.N_JOBS, seed=seed)) for seed in (0, 1))
    assert len(first & second) < peers.N_JOBS // 10
    (X, _), (other, _) = (peers_jobs.made_up("tall", "signs", seed) for seed in (0, 1))
    assert not np.array_equal(X, other)


def test_found_sets_have_the_targets_that_their_jobs_ask_for(monkeypatch):
    """Docstrings of one module stand for those of all, which take long to read."""
    texts = [
        f"{text}\n\n{text}" for text in peers_found._docstrings(Path(np.__file__).parent / "linalg" / "_linalg.py")
    ]
    modules = ["sklearn.svm", "numpy.linalg"] * len(texts)
    monkeypatch.setattr(peers_found, "docstrings", lambda: (texts, modules[: len(texts)]))
    for targets, names in peers_found.SETS_OF.items():
        for name in names:
            X, y = peers_jobs.data(name, targets)
            assert X.shape[0] == y.size
            assert len(np.unique(y)) > 1


def test_the_quick_selection_has_every_loss_penalty_and_set():
    jobs = peers.quick(peers_jobs.covering(peers_jobs.all_jobs(), peers.N_JOBS))
    assert len(jobs) == peers.N_QUICK
    assert {job.loss for job in jobs} == set(peers_jobs.LOSSES)
    assert {job.penalty for job in jobs} == set(peers_jobs.PENALTIES)
    assert {job.set for job in jobs} == {job.set for job in peers_jobs.all_jobs()}


@pytest.mark.parametrize(("loss", "penalty", "intercept"), KINDS)
def test_peers_have_our_objective(loss, penalty, intercept):
    """At convergence the objective of a peer, evaluated by us, is ours."""
    job = peers_jobs.Job(loss, penalty, intercept, "abalone", 0, 1e-6)
    X, y = peers_jobs.made_up("tall", job.targets)
    X, y, lam = X[:SIZE, :4], y[:SIZE], LAMBDAS[penalty]
    problem = peers_jobs.Problem(X, y, lam, intercept, seconds=10.0)
    risk, reg = peers_jobs.risk_of(job, X, y), peers_jobs.regularizer(penalty, lam)
    ours = minimize(risk, reg, stop=Stop(gap_rel=1e-7, max_seconds=10.0)).objective
    for rival in peers_rivals.rivals(job):
        if rival.name in peers_rivals.SKIPPED or rival.compiles:  # compilation takes a minute in all
            continue
        found = peers_rivals.fit(rival, problem, STEPS, lambda w: reg.value(w) + risk.cut(w).value)
        np.testing.assert_allclose(found.excess, ours, rtol=1e-5, err_msg=rival.name)
