"""Asynchronous hedging with the longest delays that its theory allows, in this process."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest

from undercut import L2, Hinge, LinearRisk, Logistic, Status, Stop, minimize
from undercut.maps.parts import Delay, LocalParts, Parts
from undercut.risks import ShardedRisk
from undercut.solvers import AsynchronousHedging
from undercut.solvers.hedging.programs import Programs

REG = L2(0.05)
WORST = Delay(4, 6)


class Late(Parts):
    """Programs begin at once, and their answers arrive as late as the limits allow, the newest first."""

    delay = WORST

    def __init__(self, inner):
        self.inner, self.names = inner, inner.names
        self.most = 0

    def each(self, function, *shared, items=None, which=None):
        return self.inner.each(function, *shared, items=items, which=which)

    def total(self, function, *shared, add, items=None):
        return self.inner.total(function, *shared, add=add, items=items)

    def made(self, function, *shared, items=None):
        return Late(self.inner.made(function, *shared, items=items))

    def only(self, which):
        return Late(self.inner.only(which))

    def crossed(self, function):
        return Late(self.inner.crossed(function))

    def streamed(self, function, draws, now, take, delay):
        waiting, flying, n_asked = list(reversed(draws)), [], 0
        while waiting or flying:
            while waiting and delay.allows(n_asked - left for _, _, left in flying):
                k = waiting.pop()
                flying.append((k, function(self.inner.values[k], *now(k)), n_asked))
                n_asked += 1
            k, answer, left = flying.pop()
            self.most = max(self.most, n_asked - left - 1)
            take(k, answer)


@pytest.fixture
def data():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((60, 3)) + 0.3
    return X, np.where(X[:, 0] + 0.6 * rng.standard_normal(60) > 0.4, 1.0, -1.0)


def late_shards(data, loss, n=8):
    X, y = data
    parts = Late(LocalParts([{"X": X[at::n], "y": y[at::n]} for at in range(n)]))
    return ShardedRisk.of(parts, partial(LinearRisk, loss=loss))


@pytest.mark.parametrize("loss", [Hinge(), Logistic()], ids=["hinge", "logistic"])
def test_it_converges_with_the_longest_delays_that_are_allowed(data, loss):
    known = minimize(LinearRisk(*data, loss), REG, stop=Stop(gap_rel=1e-8))
    risk = late_shards(data, loss)
    result = minimize(risk, REG, AsynchronousHedging(), stop=Stop(gap_rel=1e-3, max_steps=400))
    assert result.status is Status.CONVERGED
    assert risk.parts.most == WORST.behind
    for row in result.trace:
        assert row.lower_bound <= known.objective + 1e-9
        assert row.objective >= known.lower_bound - 1e-9


def test_the_mean_is_that_of_the_points_though_several_moves_of_one_are_on_their_way(data):
    risk, solver = late_shards(data, Logistic(), n=2), AsynchronousHedging()
    state = solver.init(risk, REG, np.zeros(3))
    for _ in range(3):
        state = solver.step(risk, REG, state)
        prices = state.dual
        assert risk.weights @ prices == pytest.approx(np.zeros(3), abs=1e-12)
        assert np.abs(prices).max() > 1e-3


def test_steps_are_shorter_by_the_factor_of_the_theory(data, monkeypatch):
    used, advance = [], Programs.advance

    def watched(programs, *given):
        used.append(programs.relaxation)
        return advance(programs, *given)

    monkeypatch.setattr(Programs, "advance", watched)
    for risk, factor in ((late_shards(data, Hinge()), 1.0 + 2.0 * math.sqrt(3 * 6 / 8)),
                         (ShardedRisk.of(LinearRisk(*data, Hinge()), 8), 1.0)):  # fmt: skip
        used.clear()
        solver = AsynchronousHedging(relaxation=1.5)
        solver.step(risk, REG, solver.init(risk, REG, np.zeros(3)))
        assert used[0] == pytest.approx(1.5 / factor)


@pytest.mark.parametrize("ages", [[1, 2, 3], [1, 7]])
def test_no_question_leaves_beyond_the_limits(ages):
    assert WORST.allows([1, 2, 6][: len(ages)])
    assert not Delay(3, 6).allows(ages)
