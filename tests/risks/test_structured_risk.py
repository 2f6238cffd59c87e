"""The structured risk: two small models against brute force, against risks we know, and against a conic solver."""

from __future__ import annotations

import pickle
from pathlib import Path

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, strategies as st
from tests.structured_models import (
    Chain,
    Multiclass,
    ThreadedMulticlass,
    dense,
    draw_chains,
    draw_multiclass,
    worst_losses,
)

from undercut import (
    L2,
    CuttingPlane,
    Hinge,
    LinearRisk,
    NonconvexBundle,
    ProximalBundle,
    Stop,
    StructuredRisk,
    minimize,
)
from undercut.errors import CapabilityError, DataError, NonfiniteError, ParameterError
from undercut.solvers import CachedCuttingPlane, ClassicBundle, DualAscent, Subgradient
from undercut.solvers.online import Pegasos
from undercut.testing import check_risk

DRAWS = {"multiclass": draw_multiclass, "chain": draw_chains}
RESCALINGS = ("margin", "slack")
either_rescaling = pytest.mark.parametrize("rescaling", RESCALINGS)
either_model = pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)


@either_model
@either_rescaling
@given(seed=st.integers(0, 10**6), exponent=st.integers(-3, 3))
def test_value_and_plane_agree_with_brute_force(draw, rescaling, seed, exponent):
    model, X, Y = draw(seed, n=4)
    rng = np.random.default_rng(seed)
    weight = rng.integers(0, 3, 4) + np.eye(4)[0]
    risk = StructuredRisk(model, X, Y, rescaling=rescaling, sample_weight=weight)
    w, v = 10.0**exponent * rng.standard_normal((2, model.n_params))
    at_w, at_v = (weight / weight.sum() @ worst_losses(model, X, Y, u, rescaling) for u in (w, v))
    cut = risk.cut(w)
    assert risk.value(w) == pytest.approx(at_w, rel=1e-10)
    assert cut.value == pytest.approx(at_w, rel=1e-10)
    assert cut.a @ w + cut.b == pytest.approx(at_w, rel=1e-8)
    assert cut.a @ v + cut.b <= at_v + 1e-9 * max(1.0, at_v)


@either_model
@either_rescaling
@pytest.mark.parametrize("cache", [0, 3])
def test_keeps_the_contract_of_a_risk(draw, rescaling, cache):
    model, X, Y = draw()
    check_risk(StructuredRisk(model, X, Y, rescaling=rescaling, cache=cache))


@either_rescaling
def test_ties_and_constant_scores_give_supporting_planes(rescaling):
    """At w = 0 every label scores the same; inputs without features never tell labels apart."""
    model = Multiclass(2, 3)
    risk = StructuredRisk(model, [np.zeros(2), np.ones(2), np.ones(2)], [0, 1, 1], rescaling=rescaling)
    check_risk(risk)
    assert risk.value(np.zeros(6)) == 1.0


def test_one_class_costs_nothing():
    cut = StructuredRisk(Multiclass(2, 1), [np.ones(2)], [0]).cut(np.array([3.0, -4.0]))
    assert (cut.value, cut.b, cut.a.tolist()) == (0.0, 0.0, [0.0, 0.0])


@either_rescaling
def test_two_classes_are_the_hinge_loss(rescaling, rng):
    """``Psi(x, y) = e_y (x) x`` and w = (-v/2, v/2) score ``<v, x>``; with Delta = 1 both rescalings agree."""
    X, y = rng.standard_normal((20, 3)), rng.integers(0, 2, 20)
    structured = StructuredRisk(Multiclass(3, 2), X, y.tolist(), rescaling=rescaling)
    hinge = LinearRisk(X, 2.0 * y - 1.0, Hinge())
    for v in rng.standard_normal((5, 3)):
        assert structured.value(np.concatenate([-v, v]) / 2.0) == pytest.approx(hinge.value(v))


@pytest.mark.parametrize("lam", [1e-4, 1e-2, 1.0])
def test_two_classes_have_the_optimum_of_the_hinge_loss(lam, rng):
    """The best w is (-v/2, v/2) and ``|w|^2 = |v|^2 / 2``."""
    X, y = rng.standard_normal((20, 3)), rng.integers(0, 2, 20)
    structured = minimize(StructuredRisk(Multiclass(3, 2), X, y.tolist()), L2(lam), stop=Stop(gap_rel=1e-7))
    hinge = minimize(LinearRisk(X, 2.0 * y - 1.0, Hinge()), L2(lam / 2.0), stop=Stop(gap_rel=1e-7))
    assert structured.objective == pytest.approx(hinge.objective, rel=1e-6)


def conic_optimum(model, X, Y, rescaling, lam):
    """J at Clarabel's minimizer of the problem with every labeling written out."""
    w, slack = cp.Variable(model.n_params), cp.Variable(len(X), nonneg=True)
    rules = []
    for i, (x, y) in enumerate(zip(X, Y, strict=True)):
        for y_hat in model.labelings(x):
            rise, loss = (dense(model, x, y_hat) - dense(model, x, y)) @ w, model.label_loss(y, y_hat)
            rules.append(slack[i] >= (loss + rise if rescaling == "margin" else loss * (1.0 + rise)))
    program = cp.Problem(cp.Minimize(0.5 * lam * cp.sum_squares(w) + cp.sum(slack) / len(X)), rules)
    program.solve(solver=cp.CLARABEL, tol_gap_abs=1e-9, tol_gap_rel=1e-9)
    return 0.5 * lam * float(w.value @ w.value) + worst_losses(model, X, Y, w.value, rescaling).mean()


SOLVERS = {
    "cutting_plane": (CuttingPlane(), 1e-5),
    "limited": (CuttingPlane(max_planes=10), 1e-3),
    "cached": (CachedCuttingPlane(), 1e-5),
    "proximal": (ProximalBundle(), 1e-5),
    "nonconvex": (NonconvexBundle(), 1e-4),
    "nonconvex_line": (NonconvexBundle(line_search="greedy"), 1e-4),
    "dual_ascent": (DualAscent(), 1e-2),
}


@either_model
@either_rescaling
@pytest.mark.parametrize("name", SOLVERS)
def test_every_solver_of_risks_brackets_the_optimum(draw, rescaling, name):
    model, X, Y = draw()
    solver, gap_rel = SOLVERS[name]
    expected = conic_optimum(model, X, Y, rescaling, 0.05)
    result = minimize(
        StructuredRisk(model, X, Y, rescaling=rescaling, cache=5), L2(0.05), solver, stop=Stop(gap_rel=gap_rel)
    )
    assert result.status.name == "CONVERGED"
    assert result.lower_bound <= expected * (1.0 + 1e-7)
    assert expected * (1.0 - 1e-7) <= result.objective <= expected * (1.0 + 1.1 * gap_rel)


@pytest.mark.parametrize("solver", [ClassicBundle(), Subgradient()])
def test_solvers_without_a_bound_come_close(solver):
    model, X, Y = draw_chains()
    expected = conic_optimum(model, X, Y, "margin", 0.5)
    result = minimize(StructuredRisk(model, X, Y), L2(0.5), solver, stop=Stop(max_steps=500))
    assert expected * (1.0 - 1e-7) <= result.objective <= 1.05 * expected


def test_online_methods_play_it_example_by_example():
    model, X, Y = draw_chains(n=20)
    expected = conic_optimum(model, X, Y, "margin", 0.5)
    result = minimize(StructuredRisk(model, X, Y), L2(0.5), Pegasos(), stop=Stop(max_passes=30))
    assert expected * (1.0 - 1e-7) <= result.objective <= 1.2 * expected


@pytest.mark.parametrize("lam", [1e-9, 1e-6, 1e-3, 1.0, 1e3])
@pytest.mark.parametrize("solver", [CuttingPlane(), CachedCuttingPlane()])
def test_bounds_bracket_the_optimum_at_every_lambda(lam, solver):
    model, X, Y = draw_multiclass(n=20, n_features=2, n_classes=3)
    expected = conic_optimum(model, X, Y, "margin", lam)
    risk = StructuredRisk(model, X, Y, cache=5)
    result = minimize(risk, L2(lam), solver, stop=Stop(gap_rel=1e-4, max_steps=3000))
    assert result.lower_bound <= expected * (1.0 + 1e-7) + 1e-12
    assert result.objective >= expected * (1.0 - 1e-7)


@pytest.mark.parametrize("kind", [Multiclass, ThreadedMulticlass])
@pytest.mark.parametrize("cache", [0, 2])
def test_workers_change_nothing_but_rounding(kind, cache, monkeypatch):
    """Processes import the model's module by name, so it is loaded under one that is on the path."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent.parent))
    import structured_models

    model, X, Y = structured_models.draw_multiclass(n=11, kind=getattr(structured_models, kind.__name__))
    weight = np.arange(11.0)
    alone = StructuredRisk(model, X, Y, sample_weight=weight)
    together = StructuredRisk(model, X, Y, sample_weight=weight, n_jobs=2, cache=cache)
    for w in np.random.default_rng(1).standard_normal((3, model.n_params)):
        one, other = alone.cut(w), together.cut(w)
        assert (other.b, other.value) == pytest.approx((one.b, one.value))
        assert other.a == pytest.approx(one.a)
        assert together.value(w) == pytest.approx(alone.value(w))


def test_a_model_that_cannot_travel_is_refused_with_a_remedy():
    class Local(Multiclass):
        pass

    with pytest.raises(CapabilityError, match=r"must be picklable.*use n_jobs=1"):
        StructuredRisk(Local(2, 2), [np.ones(2)] * 2, [0, 1], n_jobs=2)


def test_errors_cross_processes_with_the_number_of_the_example(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parent.parent))
    import structured_models

    model, X, Y = structured_models.draw_multiclass(n=4)
    X[3] = np.ones(7)
    with pytest.raises(DataError, match="example 3: "):
        StructuredRisk(model, X, Y, n_jobs=2)


def test_a_process_that_dies_is_reported_with_a_remedy(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parent.parent))
    import structured_models

    model, X, Y = structured_models.draw_multiclass(n=4, kind=structured_models.FatalMulticlass)
    risk = StructuredRisk(model, X, Y, n_jobs=2)
    with pytest.raises(CapabilityError, match=r"has died.*use n_jobs=1"):
        risk.cut(np.zeros(model.n_params))


def test_an_example_without_weight_is_never_decoded():
    model, X, Y = draw_multiclass(n=3)
    model.decode = lambda w, x, y, rescaling: Multiclass.decode(model, w, x, y, rescaling) if x is not X[1] else 1 / 0
    StructuredRisk(model, X, Y, sample_weight=[1.0, 0.0, 2.0]).cut(np.zeros(model.n_params))


def test_the_truth_counts_even_if_the_decoder_does_not_know_it():
    """A decoder that must err returns a negative loss at a good w; the risk is 0 there and stays convex."""

    class Blind(Multiclass):
        def decode(self, w, x, y, rescaling):
            return 1 - y

    risk = StructuredRisk(Blind(1, 2), [np.ones(1)], [0])
    assert risk.value(np.array([5.0, -5.0])) == 0.0
    check_risk(risk)


# --- What a model may do wrong ------------------------------------------------------------------------------------


class Mistaken(Multiclass):
    """The right model, except on the example of class 1, where ``method`` returns ``wrong`` or raises it."""

    def __init__(self, method, wrong):
        super().__init__(2, 3)
        self.method, self.wrong = method, wrong

    def _or_wrong(self, method, y, right):
        if self.method != method or y != 1:
            return right
        if isinstance(self.wrong, Exception):
            raise self.wrong
        return self.wrong

    def joint_feature(self, x, y):
        return self._or_wrong("joint_feature", y, super().joint_feature(x, y))

    def label_loss(self, y, y_hat):
        return self._or_wrong("label_loss", y, super().label_loss(y, y_hat))

    def decode(self, w, x, y, rescaling):
        return self._or_wrong("decode", y, super().decode(w, x, y, rescaling))


@pytest.mark.parametrize(
    ("method", "wrong", "message"),
    [
        ("decode", KeyError("lost"), "decode raised KeyError: 'lost'"),
        ("decode", 17, "label_loss raised IndexError"),
        ("label_loss", -1.0, "label_loss must be finite and non-negative; got -1.0"),
        ("label_loss", np.nan, "label_loss must be finite and non-negative; got nan"),
        ("label_loss", 0.5, r"label_loss\(y, y\) must be 0; got 0.5"),
        ("joint_feature", ValueError("no"), "joint_feature raised ValueError: no"),
        ("joint_feature", np.ones(5), r"joint_feature must have shape \(6,\); got \(5,\)"),
        ("joint_feature", np.full(6, np.inf), "joint_feature must be finite; got inf"),
        ("joint_feature", (np.array([0, 6]), np.ones(2)), r"indices from 0 to 5; got 0 \.\.\. 6"),
        ("joint_feature", (np.array([-1]), np.ones(1)), r"indices from 0 to 5; got -1 \.\.\. -1"),
        ("joint_feature", (np.array([0, 1]), np.ones(3)), "as many integer indices as values"),
        ("joint_feature", (np.array([0.5]), np.ones(1)), "as many integer indices as values"),
        ("joint_feature", (np.ones(1), np.ones(1), np.ones(1)), "got 3 parts"),
    ],
)
def test_an_error_names_the_example_and_the_rule(method, wrong, message):
    X, Y = [np.ones(2), np.ones(2)], [0, 1]
    with pytest.raises(DataError, match=f"example 1: .*{message}"):
        StructuredRisk(Mistaken(method, wrong), X, Y).cut(np.zeros(6))


def test_a_model_that_writes_to_w_is_refused():
    class Careless(Multiclass):
        def decode(self, w, x, y, rescaling):
            w += 1.0
            return y

    w = np.zeros(4)
    with pytest.raises(DataError, match=r"example 0: decode raised ValueError.*read-only"):
        StructuredRisk(Careless(2, 2), [np.ones(2)], [0]).cut(w)
    w += 1.0  # the caller still may


def test_scores_that_overflow_are_not_silently_dropped():
    risk = StructuredRisk(Multiclass(1, 2), [np.array([1e300])], [0])
    with pytest.raises(NonfiniteError), np.errstate(over="ignore", invalid="ignore"):
        risk.cut(np.array([0.0, 1e300]))


def test_sparse_features_may_repeat_an_index():
    class Split(Multiclass):
        def joint_feature(self, x, y):
            indices, values = super().joint_feature(x, y)
            return np.concatenate([indices, indices]), np.concatenate([0.25 * values, 0.75 * values])

    _, X, Y = draw_multiclass()
    w = np.random.default_rng(0).standard_normal(12)
    assert StructuredRisk(Split(3, 4), X, Y).value(w) == pytest.approx(StructuredRisk(Multiclass(3, 4), X, Y).value(w))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rescaling": "both"}, "`rescaling` must be 'margin' or 'slack'; got 'both'"),
        ({"n_jobs": 0}, "`n_jobs` must be at least 1, or -1 for all cores; got 0"),
        ({"cache": -1}, "`cache` must be non-negative; got -1"),
    ],
)
def test_settings_have_domains(options, message):
    model, X, Y = draw_multiclass()
    with pytest.raises(ParameterError, match=message):
        StructuredRisk(model, X, Y, **options)


@pytest.mark.parametrize(("n_x", "n_y"), [(0, 0), (3, 2), (2, 3)])
def test_there_is_one_labeling_per_example(n_x, n_y):
    model, X, Y = draw_multiclass(n=3)
    with pytest.raises(DataError, match=f"one labeling per example, and at least one; got {n_y} for {n_x}"):
        StructuredRisk(model, X[:n_x], Y[:n_y])


def test_models_are_plain_objects():
    """Nothing of the library is needed to write one, and it may be stored like any object."""
    assert pickle.loads(pickle.dumps(Chain(2, 3))).n_params == 15


def test_examples_without_weight_make_a_batch_of_their_own():
    X = np.random.default_rng(0).standard_normal((4, 2))
    risk = StructuredRisk(Multiclass(2, 3), X, [0, 1, 2, 0], sample_weight=[1.0, 0.0, 1.0, 0.0])
    assert risk.batch(np.array([1, 3])).value(np.ones(6)) == 0.0
