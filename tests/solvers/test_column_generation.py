"""Working sets of columns for kinked losses with L1: optima, bounds, sparsity, refusals."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.sparse as sp

from undercut import L1, L2, Absolute, ElasticNet, Hinge, LinearRisk, Logistic, Quantile, Status, Stop, minimize
from undercut.errors import CapabilityError, ParameterError
from undercut.regularizers import Boxed
from undercut.solvers import ColumnGeneration, InteriorPoint
from undercut.solvers.newton.interior.kinked_program import KinkedProgram
from undercut.solvers.newton.interior.systems import system

TIGHT = Stop(gap_rel=1e-7, max_steps=60)


def wide(loss, n=30, d=200, *, fit_intercept=False, form=np.asarray):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.5)
    y = X[:, :5] @ rng.standard_normal(5) + 0.3 * rng.standard_normal(n)
    y = np.where(y > 0.0, 1.0, -1.0) if isinstance(loss, Hinge | Logistic) else y
    return LinearRisk(form(X), y, loss, fit_intercept=fit_intercept)


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("loss", [Hinge(), Absolute(), Quantile(0.8)])
@pytest.mark.parametrize("reg", [L1(0.2), L1(1e-2), L1(1e-6), ElasticNet(0.05)], ids=str)
def test_it_agrees_with_the_problem_in_all_columns_and_its_bound_holds(loss, reg, fit_intercept, form):
    risk = wide(loss, fit_intercept=fit_intercept, form=form)
    ours = minimize(risk, reg, ColumnGeneration(first=5), stop=TIGHT)
    whole = minimize(risk, reg, InteriorPoint(), stop=TIGHT)
    assert ours.status is Status.CONVERGED
    assert ours.objective == pytest.approx(whole.objective, rel=1e-6)
    assert ours.lower_bound <= whole.objective * (1.0 + 1e-9)
    assert ours.objective == pytest.approx(reg.value(ours.w) + risk.value(ours.w), rel=1e-12)


@pytest.mark.parametrize("loss", [Hinge(), Absolute()])
def test_no_more_parameters_than_samples_are_used(loss):
    risk = wide(loss, fit_intercept=True)
    assert np.count_nonzero(minimize(risk, L1(1e-3), ColumnGeneration(), stop=TIGHT).w) <= risk.n_samples


def test_the_bound_never_decreases_and_the_objective_never_increases():
    trace = minimize(wide(Hinge()), L1(1e-4), ColumnGeneration(first=2), stop=TIGHT).trace
    assert all(now.lower_bound >= last.lower_bound for last, now in itertools.pairwise(trace))
    assert all(now.objective <= last.objective for last, now in itertools.pairwise(trace))


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_equations_between_samples_are_the_same_for_a_sparse_and_a_dense_matrix(fit_intercept):
    rng = np.random.default_rng(1)
    X = sp.random_array((60, 300), density=0.04, rng=rng, format="csr")
    y = np.where(rng.random(60) < 0.5, 1.0, -1.0)
    bend = rng.random(60 + 300) + 0.1
    moves = []
    for form in (X, X.toarray()):
        risk = LinearRisk(form, y, Hinge(), fit_intercept=fit_intercept)
        program = KinkedProgram(risk, L1(1e-3), 1.0)
        assert program.is_dual
        assert sp.issparse(program.sample_rows) == sp.issparse(form)
        moves.append(system(program, bend).solve(np.ones(300 + fit_intercept), np.ones(360)))
    for sparse, dense in zip(*moves, strict=True):
        np.testing.assert_allclose(sparse, dense, rtol=1e-9, atol=1e-12)


def test_every_violating_column_of_a_sparse_matrix_joins_a_working_set_of_many_samples():
    rng = np.random.default_rng(2)
    X = sp.random_array((40, 2000), density=0.02, rng=rng, format="csr")
    y = rng.standard_normal(40)
    sizes = []
    for form in (X, X.toarray()):
        risk, solver = LinearRisk(form, y, Absolute()), ColumnGeneration(first=20)
        state = solver.step(risk, L1(1e-6), solver.init(risk, L1(1e-6), np.zeros(2000)))
        sizes.append(state.working.size)
    assert sizes[0] > 10 * sizes[1]


def test_a_start_elsewhere_leads_to_the_same_optimum():
    risk = wide(Absolute())
    w0 = np.where(np.arange(200) % 9 == 0, 3.0, 0.0)
    values = [minimize(risk, L1(0.05), ColumnGeneration(), w0=start, stop=TIGHT).objective for start in (None, w0)]
    assert values[0] == pytest.approx(values[1], rel=1e-6)


@pytest.mark.parametrize(
    ("risk", "reg", "need"),
    [
        (wide(Logistic(), 4, 6), L1(1.0), "piecewise-linear"),
        (wide(Hinge(), 4, 6), L2(1.0), "absolute value"),
        (wide(Hinge(), 4, 6), Boxed(L1(1.0), lower=0.5), "absolute value"),
        (wide(Hinge(), 4, 6, form=sp.linalg.aslinearoperator), L1(1.0), "as an array"),
    ],
)
def test_other_problems_are_refused(risk, reg, need):
    with pytest.raises(CapabilityError, match=f"ColumnGeneration needs.*{need}.*use "):
        minimize(risk, reg, ColumnGeneration())


@pytest.mark.parametrize("settings", [{"first": 0}, {"accuracy": 1.0}])
def test_settings_out_of_range_are_refused(settings):
    with pytest.raises(ParameterError, match=next(iter(settings))):
        ColumnGeneration(**settings)
