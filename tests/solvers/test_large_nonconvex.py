"""Risks that are not convex with many parameters: planes in little memory, and methods without a bound as rivals."""

from __future__ import annotations

import numpy as np
import pytest

from undercut import L2, Checkpoint, FunctionRisk, Lbfgs, NonconvexBundle, Status, Stop, minimize
from undercut.errors import ParameterError
from undercut.risks import CRF, M3N, NetworkChainRisk
from undercut.solvers import StochasticGradient
from undercut.solvers.auto import resolve
from undercut.solvers.bundle.plane_rows import FIRST_CAPACITY, PlaneRows, SingleRows
from undercut.solvers.memory import MANY_PARAMS


def letters(seed=0, hidden=(12,)):
    """Noisy pictures of letters in words, and a network that reads them."""
    rng = np.random.default_rng(seed)
    shapes = rng.random((4, 24)) < 0.4
    y = rng.integers(0, 4, 300)
    X = (shapes[y] ^ (rng.random((300, 24)) < 0.15)).astype(np.float64)
    risk = NetworkChainRisk(X, y, CRF(), np.full(60, 5), hidden=hidden)
    return risk.centered(risk.random_start(rng))


def deep(seed, hidden, activation="sigmoid"):
    """Letters of three shapes each, a loss with kinks, and a random start."""
    rng = np.random.default_rng(seed)
    shapes = rng.random((9, 12)) < 0.5
    words = [rng.integers(0, 9, length) for length in rng.integers(2, 6, 60)]
    X = [(shapes[word] ^ (rng.random((word.size, 12)) < 0.1)).astype(float) for word in words]
    risk = NetworkChainRisk(X, [word % 3 for word in words], M3N(), hidden=hidden, activation=activation)
    return risk.centered(risk.random_start(np.random.default_rng(seed)))


def run(solver, lam=1e-2, stop=Stop(gap_rel=1e-2, max_evaluations=300)):  # noqa: B008
    risk, w0 = letters()
    return minimize(risk, L2(lam, center=w0), solver, w0=w0, stop=stop)


def test_twenty_planes_reach_what_two_hundred_reach():
    few, many = (run(NonconvexBundle(line_search="single", max_planes=n, precision="single")) for n in (20, 200))
    assert few.status is many.status is Status.CONVERGED
    assert few.objective <= 1.02 * many.objective
    assert few.n_evaluations <= 1.5 * many.n_evaluations
    assert max(row.n_cuts for row in few.trace) <= 22


@pytest.mark.parametrize("line_search", [None, "greedy", "full", "single"])
def test_planes_in_single_precision_reach_what_those_in_double_do(line_search):
    single, double = (run(NonconvexBundle(line_search=line_search, precision=p)) for p in ("single", "double"))
    assert single.objective == pytest.approx(double.objective, rel=0.02)
    assert single.certificate == "local"


def test_rows_in_single_precision_answer_as_rows_in_double():
    rng, n = np.random.default_rng(0), 50
    double, single, reg = PlaneRows(n), SingleRows(n, np.empty(0)), L2(0.1, center=rng.standard_normal(n))
    planes = rng.standard_normal((FIRST_CAPACITY, n))
    for rows in (double, single):
        for slot, a in enumerate(planes):
            rows.put(slot, a)
        rows.grow()
        rows.put(FIRST_CAPACITY, planes[0])
    assert single.A.nbytes == double.A.nbytes // 2
    w, alpha = rng.standard_normal(n), rng.random(FIRST_CAPACITY + 1)
    top = FIRST_CAPACITY + 1
    np.testing.assert_allclose(single.products(w, top), double.products(w, top), atol=1e-5)
    np.testing.assert_allclose(single.combined(alpha), double.combined(alpha), atol=1e-5)
    np.testing.assert_allclose(single.dual_products(reg, w, top), double.dual_products(reg, w, top), atol=1e-4)
    np.testing.assert_array_equal(single.row(3), single.rounded(planes[3]))
    assert double.rounded(w) is w


def test_planes_lie_beside_the_data():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    risk, w0 = letters()
    network = risk.map.network
    tensor = NetworkChainRisk(torch.as_tensor(network.X), risk.y, CRF(), risk.map.chains.lengths, hidden=(12,))
    solver, reg = NonconvexBundle(precision="single"), L2(0.01)
    state = solver.step(tensor, reg, solver.init(tensor, reg, w0))
    assert isinstance(state.bundle.planes.A, torch.Tensor)
    assert isinstance(state.solution, np.ndarray)


def test_a_run_on_tensors_is_resumed(tmp_path):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    rng, path = np.random.default_rng(0), tmp_path / "run.ck"
    X, y = torch.as_tensor(rng.random((20, 4))), rng.integers(0, 3, 20)

    def run(steps, **options):
        risk = NetworkChainRisk(X, y, CRF(), [5] * 4, hidden=(4,), n_labels=3)
        stop, solver = Stop(gap_rel=0.0, max_steps=steps), NonconvexBundle(line_search="single", precision="single")
        return minimize(risk, L2(0.01), solver, w0=risk.random_start(np.random.default_rng(0)), stop=stop, **options)

    run(4, callbacks=[Checkpoint(path)])
    np.testing.assert_array_equal(run(8, resume=path).w, run(8).w)


def test_many_parameters_are_stored_in_single_precision():
    few, many = (FunctionRisk(lambda w: (0.0, 0.0 * w), n, convex=False) for n in (10, MANY_PARAMS))
    assert resolve("auto", few, L2(1.0)).precision == "double"
    assert resolve("auto", many, L2(1.0)).precision == "single"
    assert resolve("auto", FunctionRisk(many.fun, 10**7, convex=False), L2(1.0)).max_planes == 20


def test_the_first_step_finds_the_scale_of_a_risk_that_is_not_convex():
    """From afar all planes look alike; none of them may make the start look stationary."""
    wave = FunctionRisk(lambda w: (float(np.sin(w[0])), np.cos(w)), 1, lower_bound=-1.0, convex=False)
    result = minimize(wave, L2(1e-6), NonconvexBundle(line_search="single"), w0=np.array([0.5]))
    assert result.objective == pytest.approx(-1.0, abs=1e-3)


def test_planes_from_far_away_do_not_make_a_start_look_stationary():
    """All first steps fail here, and their lowered planes close the model gap to 0.04 %."""
    risk, w0 = deep(1, (10, 10))
    stop = Stop(gap_rel=1e-3, max_evaluations=60)
    result = minimize(risk, L2(1e-3, center=w0), NonconvexBundle(line_search="single"), w0=w0, stop=stop)
    assert result.objective < 0.6 * risk.value(w0)


@pytest.mark.parametrize("activation", ["sigmoid", "relu"])
def test_a_deep_network_with_kinks_learns_from_a_random_start(activation):
    """Hidden units that hardly vary make a plateau, on which the model gap is small and the objective stays high."""
    for seed in (1, 4):
        risk, w0 = deep(seed, (10, 10, 10), activation)
        stop = Stop(gap_rel=1e-3, max_evaluations=100)
        result = minimize(risk, L2(1e-3, center=w0), NonconvexBundle(line_search="single"), w0=w0, stop=stop)
        assert result.objective < 0.2 * risk.value(w0)


def test_a_local_run_says_that_its_gap_is_that_of_a_model():
    assert "the model gap is within the tolerance" in run(NonconvexBundle(line_search="single")).message


def test_an_unknown_precision_is_refused():
    with pytest.raises(ParameterError, match="`precision` is 'double' or 'single'; got 'half'"):
        NonconvexBundle(precision="half")


def test_lbfgs_finds_a_stationary_point_and_claims_no_bound():
    result = run(Lbfgs(), stop=Stop(max_steps=300))
    risk, w0 = letters()
    slope = L2(1e-2, center=w0).gradient(result.w) + risk.cut(result.w).a
    assert np.linalg.norm(slope) < 1e-4
    assert result.certificate == "none"
    assert {row.lower_bound for row in result.trace} == {-np.inf}
    bundle = run(NonconvexBundle(line_search="single"), stop=Stop(gap_rel=1e-3, max_evaluations=100))
    assert bundle.objective <= 1.04 * result.objective


def test_stochastic_steps_come_near_the_same_objective():
    result = run(StochasticGradient(step_size=0.2, batch_size=10, half_life=10.0), stop=Stop(max_steps=60))
    assert result.certificate == "none"
    assert result.objective <= 1.1 * run(Lbfgs(), stop=Stop(max_steps=300)).objective
    assert result.objective == min(row.objective for row in result.trace)


def test_the_seed_decides_the_order_of_the_samples():
    stop = Stop(max_steps=3)
    one, same, other = (run(StochasticGradient(batch_size=10, seed=seed), stop=stop).objective for seed in (0, 0, 1))
    assert one == same != other


@pytest.mark.parametrize("setting", [{"step_size": 0.0}, {"batch_size": 0}, {"momentum": 1.0}, {"half_life": 0.0}])
def test_settings_of_stochastic_steps_have_domains(setting):
    with pytest.raises(ParameterError, match=next(iter(setting))):
        StochasticGradient(**setting)
