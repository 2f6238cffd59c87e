"""``undercut.contracts``: all contracts are there, each with an example, and what a user writes to fulfil one works."""

from __future__ import annotations

import copy
import importlib
import inspect
import pkgutil
from dataclasses import dataclass

import numpy as np
import pytest

from undercut import (
    L1,
    L2,
    FunctionRisk,
    Hinge,
    LinearRisk,
    Logistic,
    Squared,
    Stop,
    contracts,
    minimize,
)
from undercut.contracts import (
    BatchedRisk,
    CurvedRisk,
    Cut,
    Evaluation,
    Loss,
    ProximalRegularizer,
    QuadraticRegularizer,
    Regularizer,
    Risk,
    RowDesign,
    ScoreFunction,
    SmoothRisk,
    Solver,
    WeightedGramDesign,
)
from undercut.errors import CapabilityError
from undercut.maps.design import as_design
from undercut.regularizers import BlockSum
from undercut.risks import ScoreRisk
from undercut.solvers import CachedCuttingPlane, ConvexConcave, LevelBundle, Newton, TruncatedNewton
from undercut.solvers.online import Pegasos
from undercut.testing import check_regularizer, check_risk
from undercut.trace import Progress

PROMISED = (
    *("Risk", "LineRisk", "SmoothRisk", "BatchedRisk", "MajorizedRisk", "Line", "Cut", "ScoreFunction", "Evaluation"),
    "ScoreMap",
    *("Loss", "SmoothLoss", "PiecewiseLinearLoss", "KinkedLoss", "MulticlassLoss", "Regularizer", "Solver", "State"),
    *("ProximalRegularizer", "Design", "CurvedRisk", "HessianOperator"),
)
ALIASES = {"Features", "Labeling", "Rescaling"}
CLASSES = sorted(set(contracts.__all__) - ALIASES)
LAM = 0.1
STOP = Stop(gap_rel=1e-6)


# --- The one place ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PROMISED)
def test_the_contract_is_exported(name):
    assert name in contracts.__all__
    assert inspect.isclass(getattr(contracts, name))


def test_no_contract_escapes_the_list():
    for module in pkgutil.iter_modules(contracts.__path__, "undercut.contracts."):
        for name, thing in vars(importlib.import_module(module.name)).items():
            if inspect.isclass(thing) and thing.__module__ == module.name and not name.startswith("_"):
                assert name in contracts.__all__, name


@pytest.mark.parametrize("name", CLASSES)
def test_the_contract_has_an_example(name):
    assert ">>> " in vars(getattr(contracts, name))["__doc__"]


@pytest.mark.parametrize("name", CLASSES)
def test_every_method_of_the_contract_is_documented(name):
    for attribute, member in vars(getattr(contracts, name)).items():
        function = member.fget if isinstance(member, property) else member
        if not attribute.startswith("_") and inspect.isfunction(function):
            assert inspect.getdoc(member) or any(
                inspect.getdoc(getattr(base, attribute, None)) for base in getattr(contracts, name).__mro__[1:]
            ), attribute


@pytest.mark.parametrize("module", ["risk", "loss", "regularizer", "design", "scores", "solver", "structured"])
def test_the_contract_says_who_may_call_from_which_thread_and_what_may_be_overwritten(module):
    text = inspect.getsource(importlib.import_module(f"undercut.contracts.{module}"))
    assert "thread" in text
    assert any(word in text for word in ("overwrite", "not modified", "modify none"))


# --- Risks --------------------------------------------------------------------------------------------------------


class Bowl:
    """``|w - 1|^2 / 2``: the least that a risk is."""

    n_params, lower_bound, is_convex = 3, 0.0, True

    def value(self, w):
        return 0.5 * float((w - 1.0) @ (w - 1.0))

    def cut(self, w):
        a = w - 1.0
        return Cut(a, self.value(w) - float(a @ w), self.value(w))


class BowlLine:
    def __init__(self, w, direction):
        self.w, self.direction = w.copy(), direction.copy()

    def minimizer(self, slope, curvature, accuracy=0.0):
        slope += float((self.w - 1.0) @ self.direction)
        curvature += float(self.direction @ self.direction)
        return max(0.0, -slope / curvature) if curvature > 0.0 else 0.0

    def value(self, t):
        return Bowl().value(self.w + t * self.direction)

    def cut(self, t):
        return Bowl().cut(self.w + t * self.direction)

    def turn(self, t, direction):
        return BowlLine(self.w + t * self.direction, direction)


class LineBowl(Bowl):
    def along(self, w, direction):
        return BowlLine(w, direction)


class SmoothBowl(LineBowl):
    def hessian(self, w):
        return np.eye(3)


class Identity:
    def product(self, v):
        return v.copy()

    def diagonal(self):
        return np.ones(3)


class CurvedBowl(LineBowl):
    def curvature(self, w):
        return Identity()


class BatchedBowl(Bowl):
    n_samples = 4

    def batch(self, rows):
        return Bowl()


class HollowBowl(Bowl):
    """The bowl, as a difference of itself twice and itself."""

    is_convex = False

    def majorizer(self, w):
        tangent = Bowl().cut(w)
        return FunctionRisk(
            lambda v: (2.0 * Bowl().value(v) - tangent.a @ v - tangent.b, 2.0 * (v - 1.0) - tangent.a), 3
        )


class FloorBowl(Bowl):
    @property
    def minorant(self):
        return FunctionRisk(lambda w: (0.5 * Bowl().value(w), 0.5 * (w - 1.0)), 3, lower_bound=0.0)


@pytest.mark.parametrize(
    ("risk", "solver"),
    [
        (Bowl(), "auto"),
        (Bowl(), "cutting_plane"),
        (LineBowl(), "line_search_bundle"),
        (SmoothBowl(), Newton()),
        (SmoothBowl(), "auto"),
        (CurvedBowl(), TruncatedNewton()),
        (HollowBowl(), ConvexConcave()),
        (FloorBowl(), CachedCuttingPlane()),
        (FloorBowl(), "auto"),
    ],
    ids=lambda thing: thing if isinstance(thing, str) else type(thing).__name__,
)
def test_a_risk_of_ones_own_is_minimized(risk, solver):
    check_risk(risk)
    result = minimize(risk, L2(LAM), solver, stop=STOP)
    assert result.objective == pytest.approx(1.5 * LAM / (1.0 + LAM), rel=1e-4)
    np.testing.assert_allclose(result.w, 1.0 / (1.0 + LAM), rtol=1e-2)


def test_a_batched_risk_of_ones_own_is_learnt_online():
    result = minimize(BatchedBowl(), L2(LAM), Pegasos(n_passes=300))
    assert result.objective == pytest.approx(1.5 * LAM / (1.0 + LAM), rel=1e-2)


def test_what_a_risk_lacks_is_named_before_the_first_evaluation():
    class Silent(Bowl):
        def value(self, w):
            raise AssertionError("evaluated")

        cut = value

    for solver in (Newton(), TruncatedNewton(), ConvexConcave(), CachedCuttingPlane(), Pegasos(), "line_search_bundle"):
        with pytest.raises(CapabilityError, match="Silent"):
            minimize(Silent(), L2(LAM), solver)


def test_a_score_function_of_ones_own_is_minimized(signs):
    class MeanSquare(ScoreFunction):
        def evaluate(self, scores):
            return Evaluation(0.5 * float(np.mean((scores - y) ** 2)), (scores - y) / y.size)

    X, y = signs
    mine = ScoreRisk(as_design(X), MeanSquare())
    assert minimize(mine, L2(LAM), stop=STOP).objective == pytest.approx(
        minimize(LinearRisk(X, y, Squared()), L2(LAM), stop=STOP).objective, rel=1e-5
    )


# --- Losses and regularizers --------------------------------------------------------------------------------------


def test_a_loss_of_ones_own_is_minimized(signs):
    class MyHinge(Loss):
        def value_slope(self, y, scores):
            return np.maximum(0.0, 1.0 - y * scores), np.where(y * scores < 1.0, -y, 0.0)

        def check_target(self, y):
            pass

    X, y = signs
    mine, ours = (minimize(LinearRisk(X, y, loss), L2(LAM), stop=STOP) for loss in (MyHinge(), Hinge()))
    assert mine.objective == pytest.approx(ours.objective, rel=1e-5)


class MyL2(Regularizer):
    """The four abstract methods and nothing else."""

    strong_convexity = LAM

    def value(self, w):
        return 0.5 * LAM * float(w @ w)

    def conjugate(self, z):
        return 0.5 * float(z @ z) / LAM

    def conjugate_argmax(self, z):
        return z / LAM


class MyProximalL2(MyL2, ProximalRegularizer):
    def near(self, center, tau):
        return L2(LAM + tau, center=tau * center / (LAM + tau))


class MyQuadratic(MyL2, QuadraticRegularizer):
    def gradient(self, w):
        return LAM * w

    def add_hessian(self, H):
        H[np.diag_indices_from(H)] += LAM

    def dual_inner(self, A, a):
        return A @ a / LAM

    def at_center(self, a):
        return 0.0


@pytest.mark.parametrize(
    ("reg", "solver"),
    [
        (MyProximalL2(), "auto"),
        (MyProximalL2(), LevelBundle()),
        (MyQuadratic(), "auto"),
        (MyQuadratic(), Newton()),
        (MyQuadratic(), TruncatedNewton()),
    ],
    ids=lambda thing: thing if isinstance(thing, str) else type(thing).__name__,
)
def test_a_regularizer_of_ones_own_is_minimized(signs, reg, solver):
    check_regularizer(reg, 4)
    risk = LinearRisk(*signs, Logistic())
    mine, ours = minimize(risk, reg, solver, stop=STOP), minimize(risk, L2(LAM), stop=STOP)
    assert mine.objective == pytest.approx(ours.objective, rel=1e-5)
    assert mine.certificate == "global"


def test_a_regularizer_without_a_proximal_form_has_no_near():
    check_regularizer(MyL2(), 4)
    assert not hasattr(MyL2(), "near")
    with pytest.raises(CapabilityError, match="MyL2"):
        minimize(Bowl(), MyL2(), LevelBundle())


@pytest.mark.parametrize(("last", "proximal"), [(L2(LAM), True), (MyL2(), False)])
def test_a_sum_of_blocks_is_proximal_if_all_of_them_are(last, proximal):
    reg = BlockSum([(2, L1(LAM)), (2, last)])
    assert isinstance(reg, ProximalRegularizer) == hasattr(reg, "near") == proximal
    assert isinstance(copy.deepcopy(reg), ProximalRegularizer) == proximal
    check_regularizer(reg, 4)


# --- Solvers ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DescentState:
    solution: np.ndarray
    progress: Progress


@dataclass(frozen=True)
class Descent(Solver[DescentState, Risk, QuadraticRegularizer]):
    step_size: float = 0.5

    def certificate(self, risk):
        return "none"

    def init(self, risk, reg, w0):
        return DescentState(w0, Progress(0, reg.value(w0) + risk.value(w0)))

    def step(self, risk, reg, state):
        w = state.solution - self.step_size * (reg.gradient(state.solution) + risk.cut(state.solution).a)
        return DescentState(w, Progress(state.progress.step + 1, reg.value(w) + risk.value(w)))


def test_a_solver_of_ones_own_is_run():
    result = minimize(Bowl(), L2(LAM), Descent(), stop=Stop(max_steps=200))
    np.testing.assert_allclose(result.w, 1.0 / (1.0 + LAM))
    assert result.certificate == "none"


@pytest.mark.parametrize("kind", [Risk, SmoothRisk, CurvedRisk, BatchedRisk, RowDesign, WeightedGramDesign])
def test_a_class_may_fulfil_a_protocol_without_deriving_from_it(kind):
    members = [name for name in dir(kind) if not name.startswith("_")] + [
        name for base in kind.__mro__ for name in vars(base).get("__annotations__", {})
    ]
    made = type("Made", (), dict.fromkeys(members, lambda self: None))
    assert isinstance(made(), kind)
    assert not isinstance(object(), kind)
