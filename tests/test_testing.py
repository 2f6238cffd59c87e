"""The checks we ship to users catch each mistake they promise to catch, and pass what is right."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.catalogue import Problem
from tests.regularizers.cases import Shifted
from tests.structured_models import Chain, draw_chains, draw_multiclass
from undercut import L2, Cut, CuttingPlane, FunctionRisk, LinearRisk, Newton, Stop, minimize
from undercut.risks.scores.score_risk import ScoreLine
from undercut.testing import check_certificate, check_regularizer, check_risk, check_structured_model

N = 4


def bowl(w):
    return float(w @ w), 2.0 * w


def good(**options):
    return FunctionRisk(bowl, n_params=N, lower_bound=0.0, **options)


def test_a_good_risk_passes():
    check_risk(good())
    check_risk(Problem("hinge", fit_intercept=True).risk())


def test_a_good_risk_passes_at_every_scale():
    for scale in (1e-3, 1.0, 100.0):
        check_risk(good(), scale=scale)


def test_a_risk_that_is_not_convex_and_says_so_passes():
    check_risk(FunctionRisk(lambda w: (float(np.cos(w).sum()), -np.sin(w)), n_params=N, lower_bound=-N, convex=False))


def saddle(a):
    """``|w_1| - |w_2|`` with the slope a at zero."""

    def fun(w):
        return abs(w[0]) - abs(w[1]), np.sign(w) * [1.0, -1.0] if w.any() else np.array(a)

    return FunctionRisk(fun, n_params=2, convex=False)


@pytest.mark.parametrize("a", [(1.0, 1.0), (-1.0, 1.0), (0.0, 0.0), (0.5, -1.0)])
def test_every_clarke_subgradient_passes_at_a_kink(a):
    """None of the one-sided slopes along (1, 1) is 2, and yet (1, 1) is a limit of gradients."""
    for seed in range(5):
        check_risk(saddle(a), random_state=seed)


def test_a_slope_far_from_those_around_a_kink_is_caught():
    assert_caught(saddle((40.0, 9.0)), "subgradient: ")


@pytest.mark.parametrize("factor", [0.99, 1.01, -1.0, 0.0])
def test_a_wrong_gradient_is_caught_where_the_risk_is_not_convex(factor):
    fun = FunctionRisk(lambda w: (float(np.cos(w).sum()), -factor * np.sin(w)), n_params=N, convex=False)
    assert_caught(fun, "subgradient: ")


def assert_caught(risk, message=None):
    with pytest.raises(AssertionError, match=message):
        check_risk(risk)


@pytest.mark.parametrize("factor", [0.5, 0.99, -1.0, 0.0])
def test_a_wrong_gradient_is_caught(factor):
    assert_caught(FunctionRisk(lambda w: (float(w @ w), 2.0 * factor * w), n_params=N), "subgradient: ")


def test_a_gradient_wrong_in_one_coordinate_is_caught():
    def fun(w):
        gradient = 2.0 * w
        gradient[2] += 0.1
        return float(w @ w), gradient

    assert_caught(FunctionRisk(fun, n_params=N), "subgradient: ")


def test_a_risk_that_is_not_convex_but_says_so_is_caught():
    risk = FunctionRisk(lambda w: (float(np.cos(w).sum()), -np.sin(w)), n_params=N)
    assert_caught(risk, "supporting plane: .*declare the risk non-convex")


def test_a_risk_that_modifies_its_point_is_caught():
    class Careless(FunctionRisk):
        def cut(self, w):
            plane = super().cut(w)
            w += 1.0
            return plane

    assert_caught(Careless(bowl, n_params=N), "modified the point")


def test_a_function_may_do_with_its_argument_what_it_likes():
    def fun(w):
        value, gradient = float(w @ w), 2.0 * w
        w += 1.0
        return value, gradient

    check_risk(FunctionRisk(fun, n_params=N))


def test_a_wrong_lower_bound_is_caught():
    assert_caught(FunctionRisk(bowl, n_params=N, lower_bound=0.5), "lower_bound = 0.5 exceeds")


class Wrong:
    """A risk assembled from a right one and one wrong part."""

    lower_bound, is_convex, n_params = 0.0, True, N

    def __init__(self, **parts):
        vars(self).update(parts)

    def value(self, w):
        return bowl(w)[0]

    def cut(self, w):
        value, a = bowl(w)
        return Cut(a, value - float(a @ w), value)


def test_the_right_parts_pass():
    check_risk(Wrong())


@pytest.mark.parametrize("shape", [(N + 1,), (N, 1), ()])
def test_a_plane_of_the_wrong_shape_is_caught(shape):
    assert_caught(Wrong(cut=lambda w: Cut(np.ones(shape), 0.0, bowl(w)[0])), "shape must be")


def test_a_plane_that_does_not_touch_is_caught():
    def cut(w):
        value, a = bowl(w)
        return Cut(a, value - float(a @ w) - 1e-3, value)

    assert_caught(Wrong(cut=cut), "must touch R")


def test_two_values_that_differ_are_caught():
    def cut(w):
        value, a = bowl(w)
        return Cut(a, value + 1e-3 - float(a @ w), value + 1e-3)

    assert_caught(Wrong(cut=cut), "differs from value")


class Detour(ScoreLine):
    """A line with one wrong part."""

    def __init__(self, risk, scores, rise, wrong=""):
        super().__init__(risk, scores, rise)
        self.wrong = wrong

    def value(self, t):
        return super().value(t) + (1e-3 * t if self.wrong == "value" else 0.0)

    def minimizer(self, slope, curvature, accuracy=0.0):
        best = super().minimizer(slope, curvature, accuracy)
        return {"late": 1.5 * best + 0.5, "never": 0.0, "negative": -0.1}.get(self.wrong, best)

    def cut(self, t):
        cut = super().cut(t)
        return Cut(2.0 * cut.a, cut.b, cut.value) if self.wrong == "cut" else cut

    def turn(self, t, direction):
        away = -direction if self.wrong == "turn" else direction
        return Detour(self.risk, self.scores + t * self.rise, self.risk.design.matvec(away))


class Detoured(LinearRisk):
    wrong = ""

    def along(self, w, direction):
        return Detour(self, self.design.matvec(w), self.design.matvec(direction), self.wrong)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("value", "along: "),
        ("late", "minimizer: "),
        ("never", "minimizer: "),
        ("negative", "must not be negative"),
        ("cut", None),
        ("turn", None),
    ],
)
@pytest.mark.parametrize("loss", ["hinge", "squared"])
def test_a_line_that_disagrees_with_its_risk_is_caught(wrong, message, loss):
    problem = Problem(loss)
    risk = Detoured(problem.X, problem.y, problem.case.loss)
    check_risk(risk)
    risk.wrong = wrong
    assert_caught(risk, message)


@pytest.mark.parametrize("factor", [0.0, 2.0, -1.0])
def test_a_wrong_hessian_is_caught(factor):
    class Bent(LinearRisk):
        def hessian(self, w):
            return factor * super().hessian(w)

    problem = Problem("logistic")
    assert_caught(Bent(problem.X, problem.y, problem.case.loss))


@pytest.mark.parametrize("method", ["product", "diagonal"])
def test_wrong_products_with_the_hessian_are_caught(method):
    class Bent(LinearRisk):
        def curvature(self, w):
            hessian = super().curvature(w)
            wrong = -getattr(hessian, method)(*([w] if method == "product" else []))
            setattr(hessian, method, lambda *_: wrong)
            return hessian

    problem = Problem("logistic")
    assert_caught(Bent(problem.X, problem.y, problem.case.loss), f"curvature: `{method}`")


def test_batches_that_do_not_average_to_the_risk_are_caught():
    class Doubled(LinearRisk):
        def batch(self, rows):
            return super().batch(np.concatenate([rows, rows[:1]]))

    problem = Problem("hinge")
    assert_caught(Doubled(problem.X, problem.y, problem.case.loss), "batch: the batches average to")


@pytest.mark.parametrize(
    ("shift", "message"),
    [(0.1, "majorizer: must touch R"), (-0.1, "majorizer: must touch R"), (None, "must be convex")],
)
def test_a_wrong_majorizer_is_caught(shift, message):
    class Hilly(FunctionRisk):
        def majorizer(self, w):
            return self if shift is None else good_above(shift)

    def good_above(shift):
        return FunctionRisk(lambda w: (hills(w)[0] + shift, hills(w)[1]), N)

    def hills(w):
        return float(np.cos(w).sum()), -np.sin(w)

    assert_caught(Hilly(hills, N, lower_bound=-N, convex=False), message)


def test_a_majorizer_that_cuts_through_the_risk_is_caught():
    class Tangent(FunctionRisk):
        def majorizer(self, w):
            cut = self.cut(w)
            return FunctionRisk(lambda v: (float(cut.a @ v) + cut.b, cut.a), N)

    assert_caught(Tangent(bowl, N, lower_bound=0.0), "majorizer: must lie above R")


def test_a_minorant_above_the_risk_is_caught():
    class Raised(FunctionRisk):
        minorant = FunctionRisk(lambda w: (bowl(w)[0] + 1e-3, bowl(w)[1]), N)

    assert_caught(Raised(bowl, N, lower_bound=0.0), "minorant: must lie below R")


def test_the_points_are_chosen_by_the_random_state():
    """A mistake at one half of the space is found by some state."""
    seen = []
    for state in (0, 1):
        points = []
        check_risk(
            FunctionRisk(lambda w, points=points: points.append(w.copy()) or bowl(w), n_params=N), random_state=state
        )
        seen.append(np.array(points))
    assert not np.array_equal(*seen)


def test_a_good_regularizer_passes():
    check_regularizer(L2(0.3, center=np.arange(4.0), weights=np.arange(1.0, 5.0)), N)


@pytest.mark.parametrize(
    ("method", "wrong", "message"),
    [
        ("conjugate", lambda reg, z: 0.5 * L2.conjugate(reg, z), "conjugate"),
        ("conjugate", lambda reg, z: L2.conjugate(reg, z) + 0.1, "conjugate"),
        ("conjugate_argmax", lambda reg, z: 2.0 * L2.conjugate_argmax(reg, z), "conjugate_argmax"),
        ("conjugate_argmax", lambda reg, z: -L2.conjugate_argmax(reg, z), "conjugate_argmax"),
        ("value", lambda reg, w: 2.0 * L2.value(reg, w), "conjugate_argmax"),
        ("gradient", lambda reg, w: 2.0 * L2.gradient(reg, w), None),
        ("dual_inner", lambda reg, A, a: 2.0 * L2.dual_inner(reg, A, a), None),
        ("at_center", lambda reg, a: L2.at_center(reg, a) + 1.0, None),
        ("along", lambda reg, w, d: (0.0, L2.along(reg, w, d)[1]), "along"),
        ("add_hessian", lambda reg, H: None, None),
        ("hessian_product", lambda reg, v: 2.0 * L2.hessian_product(reg, v), "hessian_product"),
        ("hessian_diagonal", lambda reg, n: np.zeros(n), "hessian_diagonal"),
        ("strong_convexity", property(lambda reg: 10.0), "Fenchel-Young"),
    ],
)
def test_a_regularizer_with_one_wrong_part_is_caught(method, wrong, message):
    kind = type("Mistaken", (L2,), {method: wrong})
    with pytest.raises(AssertionError, match=message):
        check_regularizer(kind(0.3, center=np.arange(4.0)), N)


def _spoils_its_argument(reg, z):
    z *= 2.0
    return 0.5 * z


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"conjugate": lambda reg, z: 0.5 * float(z @ z)}, "conjugate_argmax: attains"),
        ({"conjugate": lambda reg, z: 0.5 * float(z @ z) + 5.0 * bool(z.any())}, "conjugate_argmax: attains"),
        ({"conjugate": lambda reg, z: Shifted.conjugate(reg, z) if abs(z).max() < 9.0 else np.inf}, "shrinkage"),
        ({"conjugate_argmax": lambda reg, z: 0.99 * z}, "Fenchel-Young|conjugate_argmax"),
        ({"conjugate_argmax": lambda reg, z: np.clip(z, -9.0, 9.0)}, "conjugate_argmax: attains"),
        ({"conjugate_argmax": _spoils_its_argument}, "must not modify z"),
        ({"strong_convexity": 1.01}, "Fenchel-Young"),
        ({"strong_convexity": 0.5, "value": lambda reg, w: 0.5 * float(w @ w) - 5.0 + 1e-3 * np.sin(9.0 * w[0])}, None),
    ],
)
def test_a_regularizer_that_breaks_one_rule_is_caught(parts, message):
    check_regularizer(Shifted(), N)
    with pytest.raises(AssertionError, match=message):
        check_regularizer(type("Broken", (Shifted,), parts)(), N)


def test_strong_convexity_is_checked_by_the_value_alone():
    """A flat part where no dual point leads."""

    class Flat(Shifted):
        def value(self, w):
            return 0.5 * max(float(w @ w), 1e-4) - 5.0

    with pytest.raises(AssertionError, match=r"strong_convexity|conjugate_argmax"):
        check_regularizer(Flat(), N)


# --- Certificates -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def solved():
    risk = Problem("logistic").risk()
    return minimize(risk, L2(0.1), CuttingPlane(), stop=Stop(gap_rel=1e-2)), risk, L2(0.1)


def test_a_true_certificate_passes(solved):
    check_certificate(*solved)
    check_certificate(*solved, solver=Newton(), max_seconds=5.0)


def test_every_false_claim_of_a_result_is_caught(solved):
    result, risk, reg = solved
    best = minimize(risk, reg, stop=Stop(gap_rel=1e-8)).objective
    assert best < result.objective
    last = result.trace[-1]
    false = (
        ({"objective": 0.999 * result.objective, "trace": []}, "objective: .* is reported"),
        ({"lower_bound": 1.001 * result.objective, "trace": []}, "lower_bound: .* exceeds the objective"),
        ({"lower_bound": 0.1 * best + 0.9 * result.objective, "trace": []}, "lower_bound: .* there is a w with"),
        ({"lower_bound": -np.inf, "trace": []}, "CONVERGED with a gap of inf"),
        ({"lower_bound": 0.0}, "trace: ends with"),
        ({"trace": [replace(last, objective=0.0), last]}, "objective: rises"),
        ({"trace": [replace(last, lower_bound=1.0), last]}, "lower_bound: falls"),
    )
    for change, message in false:
        with pytest.raises(AssertionError, match=message):
            check_certificate(replace(result, **change), risk, reg)


def test_global_is_not_said_of_a_risk_that_is_not_convex():
    risk = FunctionRisk(lambda w: (float(np.cos(w).sum()), -np.sin(w)), n_params=N, lower_bound=-N, convex=False)
    result = minimize(risk, L2(1.0), stop=Stop(max_steps=50))
    check_certificate(result, risk, L2(1.0))
    with pytest.raises(AssertionError, match="must not be 'global'"):
        check_certificate(replace(result, certificate="global"), risk, L2(1.0))


# --- Structured models --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rescaling", ["margin", "slack"])
@pytest.mark.parametrize("draw", [draw_multiclass, draw_chains])
def test_a_good_structured_model_passes(draw, rescaling):
    model, X, Y = draw()
    check_structured_model(model, X, Y, model.labelings, rescaling=rescaling)


class WrongChain(Chain):
    """A chain with one mistake."""

    def __init__(self, mistake):
        super().__init__(2, 3)
        self.mistake = mistake

    def joint_feature(self, x, y):
        feature = super().joint_feature(x, y)
        if self.mistake == "feature_scale":
            feature[:2] *= 0.9
        elif self.mistake == "feature_missing":
            feature[-1] = 0.0
        elif self.mistake == "feature_transposed":
            feature[-9:] = feature[-9:].reshape(3, 3).T.ravel()
        return feature

    def label_loss(self, y, y_hat):
        loss = super().label_loss(y, y_hat)
        return {"loss_squared": loss**2, "loss_negative": -loss, "loss_shifted": loss + 1.0}.get(self.mistake, loss)

    def decode(self, w, x, y, rescaling):
        right = super().decode(w, x, y, rescaling)
        if self.mistake == "decode_plain":
            return self.viterbi(self.scores(w, x)[0][None], self.scores(w, x)[1][None])[0]
        if self.mistake == "decode_greedy":
            return (self.scores(w, x)[0] + (np.asarray(y)[:, None] != np.arange(3))).argmax(axis=1)
        if self.mistake == "decode_truth":
            return y
        if self.mistake == "decode_writes_x":
            x[0] += 1.0
        return right


@pytest.mark.parametrize(
    ("mistake", "message"),
    [
        ("feature_scale", "decode at "),
        ("feature_missing", "decode at "),
        ("feature_transposed", "decode at "),
        ("loss_squared", "decode at "),
        ("loss_negative", "example 0: label_loss must be finite and non-negative"),
        ("loss_shifted", r"example 0: label_loss\(y, y\) must be 0"),
        ("decode_plain", "decode at w = 0: example 0"),
        ("decode_greedy", "decode at "),
        ("decode_truth", "decode at w = 0: example 0: it found a loss of 0.0, and the largest is "),
        ("decode_writes_x", None),
    ],
)
def test_a_structured_model_with_one_mistake_is_caught(mistake, message):
    _, X, Y = draw_chains()
    model = WrongChain(mistake)
    with pytest.raises(AssertionError, match=message):
        check_structured_model(model, X, Y, model.labelings)


def test_a_slack_decoder_that_maximizes_the_margin_loss_is_caught():
    class MarginOnly(Chain):
        def decode(self, w, x, y, rescaling):
            return super().decode(w, x, y, "margin")

    _, X, Y = draw_chains()
    model = MarginOnly(2, 3)
    check_structured_model(model, X, Y, model.labelings)
    with pytest.raises(AssertionError, match="decode at "):
        check_structured_model(model, X, Y, model.labelings, rescaling="slack")


def test_a_list_of_labelings_that_lacks_some_is_caught():
    model, X, Y = draw_chains()
    with pytest.raises(AssertionError, match="there must be at least one"):
        check_structured_model(model, X, Y, lambda x: [])
    with pytest.raises(AssertionError, match="labelings"):
        check_structured_model(model, X, Y, lambda x: model.labelings(x)[1:])
