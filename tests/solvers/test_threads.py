"""Runs on the same risk from several threads wait for each other."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from undercut import L2, FunctionRisk, Hinge, LinearRisk, minimize
from undercut.threads import _CLAIMS, exclusive


def test_one_risk_is_evaluated_by_one_run_at_a_time():
    inside, overlaps = [], []

    def fun(w):
        inside.append(None)
        threading.Event().wait(0.002)
        overlaps.append(len(inside))
        inside.pop()
        return float(np.abs(w - 1.0).sum()), np.sign(w - 1.0)

    risk = FunctionRisk(fun, 3, lower_bound=0.0)
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda lam: minimize(risk, L2(lam)), [0.1, 0.2, 0.3, 0.4]))
    assert set(overlaps) == {1}
    assert all(result.status.name == "CONVERGED" for result in results)


def test_threads_get_the_answers_that_one_thread_gets():
    rng = np.random.default_rng(0)
    risk = LinearRisk(rng.standard_normal((200, 5)), np.where(rng.random(200) < 0.5, -1.0, 1.0), Hinge())
    lams = [1e-3, 1e-2, 1e-1, 1.0] * 3
    alone = [minimize(risk, L2(lam)).w for lam in lams]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda lam: minimize(risk, L2(lam)).w, lams))
    np.testing.assert_array_equal(alone, together)


def test_a_run_inside_a_run_on_the_same_risk_does_not_wait_for_itself():
    risk = FunctionRisk(lambda w: (float(w @ w), 2.0 * w), 2)
    inner = []
    minimize(risk, L2(1.0), w0=np.ones(2), callbacks=[lambda now: bool(inner.append(minimize(risk, L2(2.0))))])
    assert inner


def test_nothing_is_remembered_of_an_object_after_use():
    thing = [1]
    with exclusive(thing), exclusive(thing):
        assert id(thing) in _CLAIMS
    assert id(thing) not in _CLAIMS
