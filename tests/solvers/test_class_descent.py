"""Sweeps over the classes of samples: their estimates, their rounding, and what helps where regularization is weak."""

from __future__ import annotations

import math
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp

from undercut import L2, MulticlassRisk, Status, Stop, minimize
from undercut._jit.dual_coordinate import ROW_COST
from undercut.losses import CrammerSinger
from undercut.maps.design import WithConstant, as_design
from undercut.solvers import DualCoordinate, LineSearchBundle
from undercut.solvers.bounds import ROUNDING
from undercut.solvers.coordinate.dual import class_descent as module, clusters as clusters_module
from undercut.solvers.coordinate.dual.class_descent import MarginDescent, class_descent
from undercut.solvers.coordinate.dual.class_dual import class_dual
from undercut.solvers.coordinate.dual.clusters import Clusters, suspects
from undercut.solvers.coordinate.dual.face import Face, Pace

K = 5


def problem(seed=0, n=200, d=400, copies=0):
    """Sparse rows with random classes, costs and weights; ``copies`` of them repeat another row with a little noise."""
    rng = np.random.default_rng(seed)
    X = sp.random_array((n, d), density=0.05, format="csr", rng=rng).toarray()
    X[n - copies :] = X[:copies] + 0.05 * X[copies : 2 * copies]
    costs = (1.0 - np.eye(K)) * rng.integers(1, 4, (K, K))
    return MulticlassRisk(sp.csr_array(X), rng.integers(0, K, n), CrammerSinger(costs), rng.random(n) + 0.5)


def swept(risk, lam, passes):
    descent = class_descent(risk, L2(lam), np.zeros(risk.n_samples * K))
    descent.run(passes * descent.dual.pass_work)
    return descent


def alone(descent, i):
    """A sweep over sample i with all its classes, from the present point."""
    one = descent.copy()
    one.order, one.active, one.position, one.gain, one.growth = np.array([i]), 1, 0, 0.0, 0.0
    one.counts[:] = K
    one._sweep(10**9)
    return one


def test_products_are_those_of_the_matrix():
    risk = problem()
    A = np.where(
        np.random.default_rng(1).random((200, K)) < 0.5, np.random.default_rng(2).standard_normal((200, K)), 0.0
    )
    X = risk.features.X
    np.testing.assert_allclose(class_dual(risk, L2(0.1)).products(A), X.T @ A, atol=1e-12)
    constant = MulticlassRisk(WithConstant(as_design(X)), risk.y, CrammerSinger())
    products = class_dual(constant, L2(0.1)).products(A)
    np.testing.assert_allclose(products, np.vstack([X.T @ A, A.sum(axis=0)]), atol=1e-12)


@pytest.mark.parametrize("lam", [1e-2, 1e-5])
def test_what_samples_could_gain_by_themselves_adds_up_to_the_gap(lam):
    risk = problem()
    descent = swept(risk, lam, 2)
    total = lam * sum(alone(descent, i).gain for i in range(risk.n_samples))
    w = descent.dual.primal(descent.v)
    assert total == pytest.approx(L2(lam).value(w) + risk.value(w) - descent.bound(0.0), rel=1e-6)


@pytest.mark.parametrize("relaxed", [1.0, 1.5])
def test_every_visit_of_a_sample_adds_its_growth_to_the_dual(relaxed, monkeypatch):
    monkeypatch.setattr(module, "RELAXED", relaxed)
    descent = swept(problem(), 1e-4, 1)
    descent.is_slow = True
    for i in range(20):
        after = alone(descent, i)
        assert after.growth >= -1e-12 * descent.value()
        assert after.value() - descent.value() == pytest.approx(after.growth, rel=1e-6, abs=1e-9 * descent.value())


@pytest.mark.parametrize("lam", [1e-2, 1e-5])
def test_the_sweeps_vector_stays_within_the_rounding_that_a_bound_allows_for(lam):
    risk = problem()
    descent = swept(risk, lam, 20)
    X, dual = risk.features.X, descent.dual
    drift = ROUNDING * dual.reach * descent.work / ROW_COST
    assert 0.0 < np.linalg.norm(descent.v - X.T @ descent.a) <= drift
    assert np.linalg.norm(descent.v) <= dual.reach
    at_sweeps, anew = descent.bound(math.inf), descent.bound(0.0)
    assert at_sweeps <= anew <= at_sweeps + 1e-6 * abs(anew)


def test_a_bound_without_exact_products_pays_for_shares_outside_of_their_simplex():
    descent = swept(problem(), 1e-3, 3)
    dual, a = descent.dual, descent.a.copy()
    a[:, 0] -= 0.01 * dual.cap
    exact = dual.settled(a)
    assert dual.bound(a, descent.v, 1e-9) < dual.bound(exact, dual.products(exact), 0.0)


def test_margins_that_are_just_missed_are_lifted():
    risk = problem(copies=20)
    descent = swept(risk, 1e-7, 1)
    while not descent.face.has_begun:
        descent.run(1)
    descent.run(10 * descent.dual.pass_work)
    lifted = descent.lifted(descent.dual.scores(descent.v))
    missed, lifted = (risk.value(descent.dual.primal(v)) for v in (descent.v, lifted))
    assert lifted < 0.7 * missed


def test_only_sweeps_whose_growth_does_not_fall_are_slow():
    assert not swept(problem(), 1e-4, 30).is_slow
    hard = swept(problem(copies=20), 1e-4, 30)
    assert hard.is_slow
    assert hard.is_far
    assert hard.face.has_begun


def test_longer_moves_save_passes_of_slow_sweeps(monkeypatch):
    monkeypatch.setattr(MarginDescent, "has_face", False)
    risks, stop = [problem(seed, copies=40) for seed in range(6)], Stop(gap_rel=1e-5, max_passes=2000)
    relaxed = [minimize(risk, L2(1e-4), DualCoordinate(), stop=stop) for risk in risks]
    monkeypatch.setattr(module, "RELAXED", 1.0)
    plain = [minimize(risk, L2(1e-4), DualCoordinate(), stop=stop) for risk in risks]
    assert all(run.status is Status.CONVERGED for run in relaxed)
    passes = [sum(run.trace[-1].n_passes for run in runs) for runs in (relaxed, plain)]
    assert passes[0] < 0.8 * passes[1]
    assert all(one.lower_bound <= other.objective for one, other in zip(relaxed, plain, strict=True))
    assert all(other.lower_bound <= one.objective for one, other in zip(relaxed, plain, strict=True))


@pytest.mark.parametrize("lam", [1e-2, 1e-5])
def test_a_look_at_all_scores_brings_back_what_sweeps_would_not_leave_out(lam):
    descent = swept(problem(), lam, 3)
    before = [alone(descent, i) for i in range(descent.order.size)]
    gain = descent._selected(descent.dual.scores(descent.v))
    assert gain == pytest.approx(sum(one.gain for one in before), rel=1e-9)
    assert sorted(descent.order) == list(range(descent.order.size))
    assert set(descent.order[: descent.active]) == {i for i, one in enumerate(before) if one.active}
    for i, one in enumerate(before):
        assert set(descent.classes[i, : descent.counts[i]]) == set(one.classes[i, : one.counts[i]])


def test_clusters_are_looked_for_for_a_small_part_of_the_work():
    descent, looks = swept(problem(copies=40), 1e-5, 1), []
    gather = MarginDescent._gather

    def noted(self):
        began = self.work
        gather(self)
        looks.append((began, self.work))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MarginDescent, "_gather", noted)
        for _ in range(200):
            descent.run(descent.dual.pass_work)
    assert len(looks) > 2
    for (began, ended), (again, _) in pairwise(looks):
        assert again - ended >= module.RARELY * (ended - began)


@pytest.mark.parametrize(("gained", "wait"), [(1.0, 10), (3.0, 0)])
def test_attempts_that_gain_less_than_sweeps_wait_though_they_go_all_the_way(gained, wait):
    at = SimpleNamespace(
        pace=Pace(first=20, sweeps=5, longest_wait=20, fewest=20), work=300, sweeps=7,
        value=lambda: 1.0, move=lambda search, value: (gained, 1.0), settle=lambda search: None,
    )  # fmt: skip
    face = Face(last_work=0, last_value=0.0)  # the sweeps have gained 1 by a work of 100, the attempt has taken 200
    face._end(at, SimpleNamespace(began=100, left=5))
    assert face.wait == wait


def contradicted(pairs=15):
    """Sparse rows with classes that fit them, and some of them once more with another class and a little noise."""
    rng = np.random.default_rng(0)
    X = sp.random_array((300, 500), density=0.04, format="csr", rng=rng).toarray()
    y = (X @ rng.standard_normal((500, K))).argmax(axis=1)
    copies = X[:pairs] + 0.03 * X[pairs : 2 * pairs]
    return MulticlassRisk(
        sp.csr_array(np.vstack([X, copies])), np.append(y, (y[:pairs] + 1) % K), CrammerSinger(), n_classes=K
    )


def test_clusters_are_nearly_equal_rows_of_different_classes():
    risk = contradicted()
    clusters = Clusters.among(class_dual(risk, L2(1e-6)), np.arange(risk.n_samples))
    pairs = {tuple(sorted(clusters.members[at : at + 2])) for at in clusters.starts[:-1]}
    assert pairs == {(i, 300 + i) for i in range(15)}
    rows = risk.features.X[clusters.members[:2]]
    np.testing.assert_allclose(clusters.grams[:4].reshape(2, 2), (rows @ rows.T).toarray())
    assert Clusters.among(class_dual(risk, L2(1e-6)), np.arange(300)) is None


def test_nearly_opposite_rows_of_the_same_class_are_a_cluster():
    X, y = np.array([[1.0, 2.0], [-1.0, -2.1], [-1.0, -2.0], [2.0, -1.0]]), np.array([0, 0, 1, 1])
    dual = class_dual(MulticlassRisk(X, y, CrammerSinger()), L2(1e-3))
    assert sorted(Clusters.among(dual, np.arange(4)).members) == [0, 1, 2]  # 1 and 2 are nearly equal


def test_no_cluster_is_larger_than_the_largest():
    X = 1.0 + 0.01 * np.random.default_rng(0).random((40, 3))
    dual = class_dual(MulticlassRisk(X, np.arange(40) % 4, CrammerSinger()), L2(1e-3))
    clusters = Clusters.among(dual, np.arange(40))
    assert np.diff(clusters.starts).max() == clusters_module.LARGEST
    assert len(set(clusters.members)) == clusters.members.size


def test_a_sweep_over_clusters_stays_feasible_and_grows_as_it_tells():
    risk = contradicted()
    descent = swept(risk, 1e-7, 2)
    before, dual = descent.value(), descent.dual
    clusters = Clusters.among(dual, suspects(dual, descent.a))
    growth = clusters.sweep(dual, descent.counts, descent.a, descent.v)
    assert descent.value() - before == pytest.approx(growth, rel=1e-9)
    assert growth > 0.1 * before
    np.testing.assert_allclose(descent.v, risk.features.X.T @ descent.a, atol=1e-9)
    np.testing.assert_allclose(descent.a.sum(axis=1), 0.0, atol=1e-8)
    assert dual.shares(descent.a).min() >= 0.0


@pytest.mark.parametrize("lam", [1e-5, 1e-7])
def test_clusters_save_passes_where_rows_contradict_each_other(lam, monkeypatch):
    risk, stop = contradicted(), Stop(gap_rel=1e-5, max_passes=3000)
    together = minimize(risk, L2(lam), DualCoordinate(), stop=stop)
    monkeypatch.setattr(clusters_module, "LARGEST", 1)
    apart = minimize(risk, L2(lam), DualCoordinate(), stop=stop)
    assert together.status is Status.CONVERGED
    assert together.trace[-1].n_passes < 0.7 * apart.trace[-1].n_passes
    assert together.lower_bound <= apart.objective
    assert apart.lower_bound <= together.objective


@pytest.mark.parametrize("lam", [1e-1, 1e-3, 1e-5])
def test_planes_agree(lam):
    risk = problem(n=120, d=60, copies=30)
    ours = minimize(risk, L2(lam), DualCoordinate(), stop=Stop(gap_rel=1e-6, max_passes=5000))
    other = minimize(risk, L2(lam), LineSearchBundle(), stop=Stop(gap_rel=1e-5, max_steps=300))
    assert ours.status is Status.CONVERGED
    assert ours.lower_bound <= other.objective * (1.0 + 1e-12)
    assert other.lower_bound <= ours.objective * (1.0 + 1e-12)


def test_rows_without_entries_are_in_no_cluster():
    X = np.zeros((6, 3))
    X[0, 0] = 1.0
    risk = MulticlassRisk(X, np.array([0, 1, 1, 1, 1, 1]), CrammerSinger())
    assert Clusters.among(class_dual(risk, L2(0.1)), np.arange(6)) is None
