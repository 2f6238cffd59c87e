"""The first signal lets the step in hand end; the second one ends the process at once."""

from __future__ import annotations

import os
import signal
import threading
import time

import numpy as np
import pytest
from sklearn.datasets import load_iris

from tests.forks import exit_code, forked, needs_fork
from undercut import L2, FunctionRisk, LinearClassifier, Status, Stop, minimize
from undercut.callbacks import Checkpoint
from undercut.interrupts import graceful, requested

FINE = Stop(gap_rel=0.0, max_steps=8)


def bowl():
    return FunctionRisk(lambda w: (abs(w - 1.0).sum(), np.sign(w - 1.0)), n_params=3, lower_bound=0.0)


def at_step(step, number=signal.SIGINT):
    def send(progress):
        if progress.step == step:
            signal.raise_signal(number)

    return send


def test_ctrl_c_ends_a_run_after_the_step_in_hand(tmp_path):
    path = tmp_path / "run.ck"
    result = minimize(bowl(), L2(0.1), stop=FINE, callbacks=[at_step(3), Checkpoint(path)])
    assert (result.status, result.n_steps, result.interrupted) == (Status.STOPPED, 3, True)
    whole = minimize(bowl(), L2(0.1), stop=FINE)
    assert minimize(bowl(), L2(0.1), stop=FINE, resume=path).objective == whole.objective


def test_sigterm_ends_the_process_after_the_checkpoint(tmp_path):
    with pytest.raises(SystemExit) as ended:
        minimize(bowl(), L2(0.1), stop=FINE, callbacks=[at_step(3, signal.SIGTERM), Checkpoint(tmp_path / "run.ck")])
    assert ended.value.code == 143
    assert minimize(bowl(), L2(0.1), stop=Stop(max_steps=3), resume=tmp_path / "run.ck").n_steps == 3


def test_sigterm_ends_a_fit_that_keeps_its_solution():
    model = LinearClassifier(solver="line_search_bundle", callbacks=[at_step(2, signal.SIGTERM)])
    with pytest.raises(SystemExit) as ended:
        model.fit(*load_iris(return_X_y=True))
    assert ended.value.code == 143
    assert model.interrupted_
    assert model.predict(np.zeros((1, 4))).shape == (1,)


def test_classes_at_once_all_end_after_a_signal():
    model = LinearClassifier(lam=1e-6, gap_rel=0.0, n_jobs=2, callbacks=[lambda progress: time.sleep(0.01)])
    threading.Timer(0.05, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        model.fit(*load_iris(return_X_y=True))
    assert len(model.result_) == 3
    assert all(np.isfinite(result.objective) for result in model.result_)


@needs_fork
def test_a_second_signal_aborts(tmp_path):
    ready, heard = tmp_path / "ready", tmp_path / "heard"

    def slow(w):
        ready.touch()
        for _ in range(3000):
            if requested():
                heard.touch()
            time.sleep(0.01)
        return 0.0, w

    def work():
        try:
            minimize(FunctionRisk(slow, n_params=2), L2(1.0))
        except KeyboardInterrupt:
            return 77

    child = forked(work)
    began = time.monotonic()
    for file in (ready, heard):
        while not file.exists():
            time.sleep(1e-3)
        assert os.waitpid(child, os.WNOHANG) == (0, 0), "the first signal waits for the step"
        os.kill(child, signal.SIGINT)
    assert exit_code(child) == 77
    assert time.monotonic() - began < 25.0


def test_handlers_of_an_application_stay():
    seen = []
    before = signal.signal(signal.SIGTERM, lambda *given: seen.append(given))
    try:
        result = minimize(bowl(), L2(0.1), stop=FINE, callbacks=[at_step(3, signal.SIGTERM)])
    finally:
        signal.signal(signal.SIGTERM, before)
    assert len(seen) == 1
    assert result.n_steps == 8


def test_handlers_are_put_back_after_a_run():
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    minimize(bowl(), L2(0.1), stop=FINE)
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before
    with graceful() as signals:
        signal.raise_signal(signal.SIGINT)
        assert requested() == signals.number == signal.SIGINT
    assert requested() is None
