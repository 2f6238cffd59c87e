"""A run that is stopped and resumed is the same run: same points, same bounds, same counts, for every solver."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from tests.kernel_problems import machine
from tests.structured_models import draw_chains, draw_multiclass

from undercut import (
    L1,
    L2,
    ChainRisk,
    ElasticNet,
    FunctionRisk,
    Hinge,
    LinearRisk,
    Logistic,
    MulticlassRisk,
    MultivariateRisk,
    Ramp,
    Squared,
    SquaredHinge,
    Status,
    Stop,
    StructuredRisk,
    minimize,
)
from undercut.callbacks import Checkpoint, EarlyStopping
from undercut.losses import CrammerSinger, Softmax
from undercut.risks import CRF, M3N, NetworkChainRisk
from undercut.risks.combined.sharded import ShardedRisk
from undercut.solvers import SOLVERS, Race
from undercut.solvers.relay import Relay


def samples(seed=0, n=60, d=12):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.5)
    return X, np.where(X @ rng.standard_normal(d) + rng.standard_normal(n) > 0.0, 1.0, -1.0)


def linear(loss, *, fit_intercept=False, sparse=False):
    X, y = samples()
    return LinearRisk(sp.csr_matrix(X) if sparse else X, y, loss, fit_intercept=fit_intercept)


def short_rows(common=0):
    """Four entries a sample of features that are rare, and some of features that nearly all samples have."""
    rng = np.random.default_rng(7)
    X = sp.random(600, 500, density=4 / 500, format="csr", random_state=rng, data_rvs=rng.standard_normal)
    X = sp.csr_matrix(sp.hstack([X, 1.0 + 0.01 * rng.standard_normal((600, common))]))
    return LinearRisk(X, rng.standard_normal(600), Squared(), fit_intercept=True)


def several(loss, **settings):
    X, _ = samples()
    return MulticlassRisk(X, np.arange(60) % 3, loss, **settings)


def many_classes():
    """Few parameters of a feature are not zero."""
    rng = np.random.default_rng(3)
    X = sp.random(300, 200, density=0.03, format="csr", random_state=rng)
    return MulticlassRisk(X, np.argmax(X[:, :12].toarray() + 0.1 * rng.random((300, 12)), axis=1), Softmax())


def contradicted():
    """Rows of several classes, and each of them once more with another class and a little noise."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 60))
    y = np.arange(40) % 4
    return MulticlassRisk(
        np.vstack([X, X + 0.02 * rng.standard_normal(X.shape)]), np.append(y, (y + 1) % 4), CrammerSinger()
    )


def many_samples():
    X, _ = samples(n=1500, d=30)
    return MulticlassRisk(X, (X[:, :3] + X[:, 3:6]).argmax(axis=1), Softmax(), fit_intercept=True)


def many_features():
    X, y = samples(n=4000, d=60)
    return LinearRisk(X, y, Logistic(), fit_intercept=True)


def chains(loss):
    rng = np.random.default_rng(1)
    return ChainRisk(rng.standard_normal((40, 3)), rng.integers(0, 3, 40), loss, [5] * 8)


def structured(cache):
    return StructuredRisk(*draw_multiclass(), cache=cache)


def decoded():
    model, X, Y = draw_chains()
    return StructuredRisk(model, X, Y)


def network():
    rng = np.random.default_rng(4)
    lengths = rng.integers(1, 5, 10)
    X, y = rng.random((lengths.sum(), 3)), rng.integers(0, 2, lengths.sum())
    return NetworkChainRisk(X, y, CRF(), lengths, hidden=(3,))


def absolute(w):
    return float(abs(w - 1.0).sum()), np.sign(w - 1.0)


def rings(**settings):
    return machine(40, **settings).parts()


L2_SMALL = L2(1e-3)
CASES = {
    "line_search_bundle": lambda: (linear(Hinge(), fit_intercept=True), L2_SMALL),
    "line_search_bundle limited": lambda: (linear(Hinge(), sparse=True), L2_SMALL, {"max_planes": 4}),
    "cutting_plane": lambda: (linear(Hinge()), L2(0.05)),
    "cached_cutting_plane": lambda: (structured(cache=3), L2(0.01)),
    "dual_ascent": lambda: (linear(Hinge()), L2(0.05)),
    "proximal_bundle": lambda: (decoded(), L2_SMALL),
    "proximal_bundle printed": lambda: (FunctionRisk(absolute, n_params=5), L2_SMALL, {"variant": "printed"}),
    "level_bundle": lambda: (linear(Hinge(), fit_intercept=True), L1(0.01)),
    "level_bundle quadratic": lambda: (linear(Hinge()), L2_SMALL),
    "score_bundle": lambda: (MultivariateRisk(*samples(n=20, d=80), "f1", fit_intercept=True), L2_SMALL),
    "majorant_sweeps": lambda: (MultivariateRisk(*samples(n=60, d=80), "f1", fit_intercept=True), L2(1e-4)),
    "newton": lambda: (linear(Logistic(), fit_intercept=True), L2_SMALL),
    "truncated_newton": lambda: (linear(Logistic(), fit_intercept=True, sparse=True), L2_SMALL),
    "truncated_newton classes": lambda: (several(Softmax(), fit_intercept=True), L2_SMALL),
    "proximal_newton": lambda: (linear(Logistic(), fit_intercept=True), L1(1e-3)),
    "small_program": lambda: (linear(Hinge(), fit_intercept=True), L1(0.01)),
    "interior_point": lambda: (linear(Hinge(), fit_intercept=True), L1(0.01)),
    "interior_point rounded": lambda: (linear(SquaredHinge()), L1(0.01)),
    "class_interior_point": lambda: (several(CrammerSinger(), fit_intercept=True), L2_SMALL),
    "column_generation": lambda: (linear(Hinge(), sparse=True), L1(0.001), {"first": 1}),
    "least_squares": lambda: (linear(Squared(), fit_intercept=True), L2_SMALL),
    "lbfgs": lambda: (several(Softmax(), fit_intercept=True), L2_SMALL),
    "nonconvex_bundle": lambda: (linear(Ramp()), L2_SMALL),
    "nonconvex_bundle chain": lambda: (chains(M3N()), L2(0.01)),
    "nonconvex_bundle crf": lambda: (chains(CRF()), L2(0.01)),
    "classic_bundle": lambda: (linear(Ramp()), L2_SMALL),
    "convex_concave": lambda: (linear(Ramp()), L2_SMALL),
    "nonconvex_bundle network": lambda: (network(), L2(0.01), {"line_search": "single", "precision": "single"}),
    "stochastic_gradient": lambda: (network(), L2(0.01), {"batch_size": 3}),
    "lbfgs network": lambda: (network(), L2(0.01)),
    "subgradient": lambda: (linear(Ramp()), L2_SMALL),
    "dual_coordinate": lambda: (linear(Hinge(), fit_intercept=True, sparse=True), L2_SMALL),
    "dual_coordinate elastic": lambda: (linear(Logistic()), ElasticNet(0.01)),
    "dual_coordinate classes": lambda: (several(CrammerSinger()), L2_SMALL),
    "dual_coordinate intercepts": lambda: (several(CrammerSinger(), fit_intercept=True), L2_SMALL),
    "dual_coordinate clusters": lambda: (contradicted(), L2(1e-7)),
    "dual_coordinate softmax": lambda: (several(Softmax()), L2_SMALL),
    "dual_coordinate softmax intercepts": lambda: (several(Softmax(), fit_intercept=True), L2_SMALL),
    "working_set": lambda: (linear(Logistic(), fit_intercept=True, sparse=True), L1(0.005)),
    "working_set cyclic": lambda: (short_rows(), L1(3e-3)),
    "working_set slow": lambda: (short_rows(common=20), L1(1e-5)),
    "working_set dense": lambda: (linear(Logistic(), fit_intercept=True), L1(0.005)),
    "working_set similar": lambda: (many_features(), ElasticNet(3e-4)),
    "working_set classes": lambda: (several(Softmax(), fit_intercept=True), L1(1e-3)),
    "working_set many classes": lambda: (many_classes(), L1(1e-3)),
    "working_set sampled": lambda: (many_samples(), L1(1e-5)),
    "smoothing": lambda: (several(CrammerSinger(), fit_intercept=True), L1(0.005)),
    "proximal_sweeps": lambda: (several(CrammerSinger(), fit_intercept=True), L1(0.005)),
    "proximal_sweeps net": lambda: (several(CrammerSinger()), ElasticNet(0.01)),
    "primal_dual": lambda: (linear(Hinge(), fit_intercept=True, sparse=True), L1(0.005)),
    "pair_descent": rings,
    "kernel_hedging": rings,
    "kernel_hedging blocks": lambda: (*rings(), {"blocks": 4}),
    "progressive_hedging": lambda: (ShardedRisk.of(linear(Hinge()), 3), L2(0.05)),
    "asynchronous_hedging": lambda: (ShardedRisk.of(linear(Hinge(), fit_intercept=True), 3), L2(0.05)),
    "along_partitions": lambda: (ShardedRisk.of(linear(Hinge()), 3), L2(0.05)),
    "mean_of_partitions": lambda: (ShardedRisk.of(linear(Hinge()), 3), L2(0.05)),
    "optimistic_proximal": lambda: (linear(Hinge()), L2(0.01), {"certify": True}),
    "proximal": lambda: (linear(Hinge(), sparse=True), L2(0.01), {"average": True}),
    "adaptive": lambda: (structured(cache=0), L2(0.05), {"batch_size": 4}),
    "pegasos": lambda: (linear(Logistic()), L2(0.01), {"sampling": "replacement"}),
    "race": lambda: (linear(Hinge(), sparse=True), L2_SMALL),
    "relay": lambda: (linear(Hinge()), L2_SMALL),
}
STEPS = 13


SEVERAL = {
    "race": Race(candidates=(SOLVERS["line_search_bundle"](), SOLVERS["dual_coordinate"]()), deterministic=True),
    "relay": Relay(candidates=(SOLVERS["interior_point"](), SOLVERS["line_search_bundle"]()), patience=3),
}


def solved(name, **options):
    """The first steps of a case, made anew each time as another process would."""
    risk, reg, *settings = CASES[name]()
    key = name.partition(" ")[0]
    solver = SEVERAL[key] if key in SEVERAL else SOLVERS[key](**(settings[0] if settings else {}))
    return minimize(risk, reg, solver, **options)


def numbers(result):
    return [replace(row, seconds=0.0) for row in result.trace]


def stop_after(steps):
    return Stop(gap_rel=1e-12, max_steps=steps)


def no_start(*given):
    raise AssertionError("a resumed run starts nowhere")


@pytest.mark.parametrize("name", CASES)
def test_slices_of_a_run_are_the_run(name, tmp_path, monkeypatch):
    path = tmp_path / "run.ck"
    whole = solved(name, stop=stop_after(STEPS))
    solved(name, stop=stop_after(1), callbacks=[Checkpoint(path)])
    if name != "progressive_hedging":  # whose steps are runs
        kind = type(SEVERAL[name]) if name in SEVERAL else SOLVERS[name.partition(" ")[0]]
        monkeypatch.setattr(kind, "init", no_start)
    for steps in (2, 5, 9, STEPS):
        last = solved(name, stop=stop_after(steps), callbacks=[Checkpoint(path)], resume=path)
    assert numbers(last) == numbers(whole)
    np.testing.assert_array_equal(last.w, whole.w)
    assert last.status is whole.status


def test_every_solver_has_a_case():
    assert {name.partition(" ")[0] for name in CASES} == {*SOLVERS, *SEVERAL}


def test_early_stopping_goes_on_with_the_best_solution_so_far(tmp_path):
    rng = np.random.default_rng(3)
    other = LinearRisk(rng.standard_normal((60, 12)), rng.choice([-1.0, 1.0], 60), Logistic())

    def early():
        return EarlyStopping(lambda risk, w: other.value(w), patience=3)

    path, problem = tmp_path / "run.ck", (linear(Logistic()), L2(1e-6), "line_search_bundle")
    whole = minimize(*problem, stop=stop_after(50), callbacks=[early()])
    assert whole.status is Status.STOPPED
    for steps in range(1, whole.n_steps):
        resume = path if path.exists() else None
        minimize(*problem, stop=stop_after(steps), callbacks=[early(), Checkpoint(path)], resume=resume)
    last = minimize(*problem, stop=stop_after(50), callbacks=[early()], resume=path)
    assert last.status is Status.STOPPED
    assert last.n_steps == whole.n_steps
    np.testing.assert_array_equal(last.w, whole.w)


def test_a_run_goes_on_to_a_finer_gap_with_the_solver_it_began_with(tmp_path):
    X, y = samples(n=5000, d=50)
    first = Stop(gap_rel=1e-3, max_steps=2)
    minimize(LinearRisk(X, y, Hinge()), L2(1e-4), stop=first, callbacks=[Checkpoint(tmp_path / "run")])
    finer = minimize(LinearRisk(X, y, Hinge()), L2(1e-4), stop=Stop(gap_rel=1e-6), resume=tmp_path / "run")
    assert finer.status is Status.CONVERGED
    assert finer.trace[1].solver == finer.trace[-1].solver == "LineSearchBundle"
    assert minimize(LinearRisk(X, y, Hinge()), L2(1e-4), stop=Stop(gap_rel=1e-6)).trace[-1].solver == "InteriorPoint"


def test_what_a_risk_has_computed_before_does_not_make_it_another_one(tmp_path):
    X, y = samples(n=3000, d=6)
    risk = LinearRisk(X, y, Logistic())
    minimize(
        risk, L1(1e-4), "working_set", stop=Stop(gap_rel=1e-9, max_steps=1), callbacks=[Checkpoint(tmp_path / "a")]
    )
    for again in (risk, LinearRisk(X, y, Logistic())):
        assert minimize(again, L1(1e-4), "working_set", resume=tmp_path / "a").status is Status.CONVERGED
