"""The intercept is exact: no b is better, the slopes balance, and what was evaluated before does not matter."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp
from tests.catalogue import ALL, LOSSES, PIECEWISE, SMOOTH, Problem

from undercut import L2, LineSearchBundle, Newton, Stop, minimize
from undercut.risks.scores import mean_loss as mean_loss_module
from undercut.risks.scores.fixed_mean import FixedSmooth, fixed_smooth
from undercut.risks.scores.joint import Joint, Step, newton_in_both
from undercut.risks.scores.mean_loss import FreeSmooth, mean_loss
from undercut.solvers import TruncatedNewton

SCALES = [0.0, 0.1, 1.0, 5.0, 30.0]
losses = pytest.mark.parametrize("name", ALL)
scales = pytest.mark.parametrize("scale", SCALES)


def best_intercept(name, y, scores, weight):
    """The best b by closed form, by trying every kink, or by Brent's search."""
    with np.errstate(divide="ignore"):
        log_weight = np.log(weight)
    if name == "exponential":
        positive, negative = (logsumexp((log_weight - y * scores)[y == sign]) for sign in (1.0, -1.0))
        return 0.5 * (positive - negative)
    if name == "poisson":
        return math.log(weight @ y) - logsumexp(log_weight + scores)

    def total(b):
        return float(weight @ LOSSES[name].formula(y, scores + b))

    if name in PIECEWISE:
        candidates = [kink - s for t, s in zip(y, scores, strict=True) for kink in LOSSES[name].kinks(t)]
        return min(candidates, key=total)
    reach = np.abs(scores).max() + np.abs(y).max() + 10.0
    return minimize_scalar(total, bounds=(-reach, reach), method="bounded", options={"xatol": 1e-12}).x


def random_case(name, scale, seed):
    problem = Problem(name, fit_intercept=True, weighted=True, seed=seed)
    w = scale * np.random.default_rng(seed).standard_normal(problem.d)
    weight = problem.sample_weight / problem.sample_weight.sum()
    return problem.risk(), w, problem.y, problem.X @ w, weight


@losses
@scales
@pytest.mark.parametrize("seed", range(3))
def test_no_intercept_is_better(name, scale, seed):
    risk, w, y, scores, weight = random_case(name, scale, seed)
    formula = LOSSES[name].formula
    best = float(weight @ formula(y, scores + best_intercept(name, y, scores, weight)))
    assert risk.value(w) <= best + 1e-12 * max(1.0, abs(best))
    own = float(weight @ formula(y, scores + risk.intercept(w)))
    assert risk.value(w) == pytest.approx(own, rel=1e-11, abs=1e-12)


@losses
@scales
def test_the_slopes_at_the_best_intercept_balance(name, scale):
    """Only then is the plane of the remaining problem a supporting one."""
    for seed in range(5):
        risk, _, _, scores, _ = random_case(name, scale, seed)
        slopes = risk.phi.evaluate(scores).slopes
        assert abs(slopes.sum()) <= 1e-10 * np.abs(slopes).sum()


@losses
def test_what_was_evaluated_before_does_not_matter(name):
    """A point far away must not spoil the next one."""
    risk, w, *_ = random_case(name, 1.0, 0)
    fresh = random_case(name, 1.0, 0)[0].value(w)
    for scale in (1e3, 1e-3, 30.0, 1.0):
        far = scale * np.random.default_rng(1).standard_normal(risk.n_params)
        risk.value(far)
        assert risk.value(w) == pytest.approx(fresh, rel=1e-12)


@losses
def test_planes_taken_far_apart_support_each_other(name):
    """Where intercepts differ most, slopes that do not balance show most."""
    risk, *_ = random_case(name, 1.0, 0)
    rng = np.random.default_rng(3)
    points = [scale * rng.standard_normal(risk.n_params) for scale in (0.01, 0.1, 1.0, 3.0, 10.0)]
    values = [risk.value(v) for v in points]
    for w in points:
        cut = risk.cut(w)
        for v, value in zip(points, values, strict=True):
            plane = float(cut.a @ v) + cut.b
            assert plane <= value + 1e-10 * max(1.0, abs(value), abs(cut.b))


@losses
def test_a_common_shift_of_all_scores_is_absorbed(name):
    """A constant feature adds nothing to a free intercept."""
    risk, w, _, scores, _ = random_case(name, 1.0, 0)
    for shift in (1e-3, 1.0, -50.0):
        moved = risk.phi.evaluate(scores + shift)
        assert moved.value == pytest.approx(risk.value(w), rel=1e-11)
        assert moved.intercept + shift == pytest.approx(risk.intercept(w), abs=1e-6)


@pytest.mark.parametrize("name", PIECEWISE)
def test_the_intercept_of_balanced_samples_is_finite_and_balances_them(name):
    """Where the two sides of b weigh the same, sums in different orders disagree about the better side."""
    for seed in range(800):
        rng = np.random.default_rng(seed)
        n = 2 * int(rng.integers(80, 300))
        phi = mean_loss(LOSSES[name].loss, LOSSES[name].draw_targets(rng, n), np.full(n, 1.0 / n), fit_intercept=True)
        value, slopes, b = phi.evaluate(rng.standard_normal(n))
        assert math.isfinite(b), seed
        assert math.isfinite(value), seed
        assert abs(slopes.sum()) <= 1e-12, seed


@pytest.mark.parametrize("name", [name for name in SMOOTH if name != "poisson"])  # whose intercept needs no search
@pytest.mark.parametrize("solver", [Newton(), TruncatedNewton(), LineSearchBundle()], ids=lambda s: type(s).__name__)
def test_a_step_takes_a_handful_of_evaluations_of_the_loss(name, solver, monkeypatch):
    """A search for b at every trial of the line search would take about 25."""
    risk, calls = random_case(name, 1.0, 0)[0], []
    kind = type(risk.phi._fixed)
    plain = kind.expand

    def counted(self, scores):
        calls.append(None)
        return plain(self, scores)

    monkeypatch.setattr(kind, "expand", counted)
    risk.value(np.zeros(risk.n_params))  # the first intercept is searched from afar
    calls.clear()
    result = minimize(risk, L2(1e-2), solver, stop=Stop(gap_rel=1e-6))
    assert 0 < len(calls) <= 10 * (result.n_steps + 1)


@pytest.mark.parametrize("balanced", [True, False], ids=["balanced start", "unbalanced start"])
@pytest.mark.parametrize("name", SMOOTH)
def test_the_joint_search_finds_the_step_of_the_nested_one(name, balanced, monkeypatch):
    """Where Newton steps in t and b are refused, the nested search must find the same t."""
    risk, w, *_ = random_case(name, 0.3, 1)
    line = risk.along(w, -risk.cut(w).a)
    if not balanced:
        risk.value(30.0 * w)
    joint = line.minimizer(0.0, 1e-2)
    monkeypatch.setattr(mean_loss_module, "newton_in_both", lambda *_: None)
    nested = line.minimizer(0.0, 1e-2)
    at_joint, at_nested = (line.value(t) + 0.5e-2 * t**2 for t in (joint, nested))
    assert at_joint == pytest.approx(at_nested, rel=1e-10, abs=1e-12)


@pytest.mark.parametrize(
    ("name", "scores"),
    [
        ("poisson", np.zeros(30)),  # the first Newton step goes too far
        ("huber", None),  # scores that meet their targets up to rounding
    ],
)
def test_newton_steps_alone_find_the_intercept(name, scores, monkeypatch):
    rng = np.random.default_rng(0)
    y = LOSSES[name].draw_targets(rng, 30) + 3.0
    phi = FreeSmooth(LOSSES[name].loss, y, np.full(30, 1.0 / 30.0))
    monkeypatch.setattr(FreeSmooth, "_by_search", None)
    at = phi.evaluate(y - 0.2 + 1e-9 * rng.standard_normal(30) if scores is None else scores)
    assert abs(at.slopes.sum()) <= 1e-14


@pytest.mark.parametrize("name", ["logistic", "squared_hinge", "huber_hinge", "squared", "huber"])
def test_compiled_evaluations_agree_with_the_loss_itself(name):
    rng = np.random.default_rng(0)
    y, weight = LOSSES[name].draw_targets(rng, 200), rng.dirichlet(np.ones(200))
    weight[3] = 0.0
    compiled, plain = fixed_smooth(LOSSES[name].loss, y, weight), FixedSmooth(LOSSES[name].loss, y, weight)
    for scores in (rng.standard_normal(200), 30.0 * rng.standard_normal(200), np.zeros(200)):
        for one, other in zip(compiled.expand(scores), plain.expand(scores), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-300)
        for one, other in zip(compiled.evaluate(scores), plain.evaluate(scores), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-300)
    far = np.where(weight > 0.0, 0.0, 1e200)  # its square overflows
    assert compiled.expand(far).value == pytest.approx(plain.expand(np.zeros(200)).value)
    assert compiled.expand(far).slopes[3] == compiled.expand(far).bend[3] == 0.0


def test_newton_steps_that_are_a_hundred_times_too_long_are_shortened():
    def joint(t, b):  # sqrt(1 + x^2) with x = 10 (t - 1): from x = -10 a Newton step leads to x = 1000
        x = 10.0 * (t - 1.0)
        size = np.sqrt(1.0 + x * x)
        slope, bend = 10.0 * x / size, 100.0 / size**3
        return Joint(t, b, size, lambda: Step(slope, -slope / bend, 0.0, 0.5 * slope * slope / bend))

    found = newton_in_both(joint, 0.0, 1e-9)
    assert found is not None
    assert found.t == pytest.approx(1.0, abs=1e-3)


def test_second_derivatives_are_asked_for_only_where_a_step_has_decreased_the_loss():
    asked = []

    def joint(t, b):  # (t - 1)^2, with a Newton step that is ten times too long
        def newton():
            asked.append(t)
            return Step(2.0 * (t - 1.0), -10.0 * (t - 1.0), 0.0, (t - 1.0) ** 2)

        return Joint(t, b, (t - 1.0) ** 2, newton)

    found = newton_in_both(joint, 0.0, 1e-6)
    assert found is not None
    assert found.t == 1.0
    assert asked == [0.0, 1.0]
