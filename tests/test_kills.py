"""A process that is killed at any moment loses at most the step in hand; resumed, it ends where it would have ended."""

import mmap
import os
import random
import signal
import struct
import time
from functools import partial

import numpy as np
import pytest
from sklearn.datasets import load_iris

from tests.forks import forked, needs_fork
from tests.kernel_problems import machine
from undercut import L2, ChainRisk, Hinge, LinearClassifier, LinearRisk, LineSearchBundle, Stop, minimize
from undercut.callbacks import Checkpoint
from undercut.risks import M3N
from undercut.solvers import KernelHedging
from undercut.solvers.online import OptimisticProximal
from undercut.solvers.saving.checkpoint import describe_checkpoint

KILLS = 20  # of each kind of run
FINE = Stop(gap_rel=1e-12, max_steps=25)


def summary(result):
    return result.objective, result.lower_bound, result.n_evaluations, result.n_steps


def linear():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 30))
    return LinearRisk(X, np.where(X[:, 0] + rng.standard_normal(200) > 0.0, 1.0, -1.0), Hinge())


def batch(callbacks):
    return summary(minimize(linear(), L2(1e-4), LineSearchBundle(), stop=FINE, callbacks=callbacks))


def online(callbacks):
    solver = OptimisticProximal(n_passes=25, certify=True)
    return summary(minimize(linear(), L2(1e-2), solver, callbacks=callbacks))


def multiclass(callbacks):
    X, y = load_iris(return_X_y=True)
    model = LinearClassifier(lam=1e-5, random_state=0, callbacks=callbacks).fit(X, y)
    return model.coef_.tolist(), [summary(result) for result in model.result_]


def sequence(callbacks):
    rng = np.random.default_rng(1)
    risk = ChainRisk(rng.standard_normal((60, 4)), rng.integers(0, 3, 60), M3N(), [6] * 10)
    return summary(minimize(risk, L2(1e-2), "auto", stop=FINE, callbacks=callbacks))


def hedging(callbacks):
    return summary(minimize(*machine(40).parts(), KernelHedging(), stop=FINE, callbacks=callbacks))


@pytest.fixture
def counted():
    """A number that a child process and its parent share: the steps that the child has made."""
    with mmap.mmap(-1, 8) as shared:

        def tell(progress):
            shared[:8] = struct.pack("q", struct.unpack("q", shared[:8])[0] + 1)

        def reset():
            shared[:8] = bytes(8)

        yield tell, lambda: struct.unpack("q", shared[:8])[0], reset


def wait_for(count, wanted, child):
    """Wait until the child has made some steps, or is over."""
    while count() < wanted and os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        time.sleep(5e-4)


def saved_steps(path):
    return sum(run["step"] + 1 for run in describe_checkpoint(path).values()) if path.exists() else 0


@needs_fork
@pytest.mark.parametrize("run", [batch, online, multiclass, sequence, hedging], ids=lambda run: run.__name__)
def test_a_killed_run_goes_on_where_it_was(run, tmp_path, counted, monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda handle: None)  # it is about the loss of power
    tell, count, reset = counted
    chance = random.Random(0)
    whole = run([tell])
    n_steps, cut_short, path = count(), 0, tmp_path / "run.ck"
    for _ in range(KILLS):
        path.unlink(missing_ok=True)
        reset()
        child = forked(partial(run, [tell, Checkpoint(path, every=0.0)]))
        wait_for(count, chance.randrange(n_steps), child)
        time.sleep(chance.uniform(0.0, 2e-3))
        os.kill(child, signal.SIGKILL)
        cut_short += os.WIFSIGNALED(os.waitpid(child, 0)[1])
        assert saved_steps(path) >= count() - 1, "more than the step in hand was lost"
        assert run([Checkpoint(path, every=0.0, resume=True)]) == whole
    assert cut_short >= KILLS // 4, "most runs were over before they were killed"
