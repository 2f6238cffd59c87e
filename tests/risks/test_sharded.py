"""Sharded risks are the whole risk: values, planes, lines, intercepts, Hessians and the steps of every solver."""

from __future__ import annotations

from functools import partial
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from tests.catalogue import LOSSES
from tests.structured_models import draw_chains

from undercut import L1, L2, FunctionRisk, Hinge, Logistic, Stop, minimize
from undercut.contracts import CurvedRisk, LineRisk, SmoothRisk
from undercut.errors import CapabilityError, DataError, NonfiniteError
from undercut.losses import (
    CrammerSinger,
    Ramp,
    Softmax,
    Squared,
)
from undercut.maps.parts import LocalParts
from undercut.maps.sharded import ShardedDesign
from undercut.risks import (
    CRF,
    M3N,
    ChainRisk,
    LinearRisk,
    ListwiseRisk,
    MulticlassRisk,
    MultivariateRisk,
    NdcgRisk,
    PairwiseRisk,
    ShardedRisk,
    StructuredRisk,
)
from undercut.solvers.auto import resolve
from undercut.solvers.relay import Relay
from undercut.testing import check_risk

pytestmark = pytest.mark.usefixtures("as_for_many_samples")
N, D = 120, 4
RNG = np.random.default_rng(3)
X = RNG.standard_normal((N, D))
SIGNS = np.where(X[:, 0] + 0.7 * RNG.standard_normal(N) > 0.2, 1.0, -1.0)
DATA = {"X": X, "y": SIGNS, "sample_weight": RNG.random(N)}


def divided(data, n_parts, n=N):
    """The rows of all arrays, dealt to some parts of different sizes."""
    edges = (n * np.linspace(0.0, 1.0, n_parts + 1) ** 1.3).astype(int)
    rows = [np.arange(low, high) for low, high in pairwise(edges)]
    return LocalParts([{name: values[each] for name, values in data.items()} for each in rows])


def same(sharded, whole, rng, rtol=1e-10):
    """Values, planes and lines agree at a random point."""
    w, direction = rng.standard_normal(whole.n_params), rng.standard_normal(whole.n_params)
    cut, expected = sharded.cut(w), whole.cut(w)
    assert np.isclose(sharded.value(w), whole.value(w), rtol=rtol)
    assert np.allclose([*cut.a, cut.b, cut.value], [*expected.a, expected.b, expected.value], rtol=rtol, atol=rtol)
    if isinstance(whole, LineRisk):
        line, other = (risk.along(w, direction).turn(0.3, -expected.a) for risk in (sharded, whole))
        t = other.minimizer(0.0, 0.1)
        assert np.isclose(line.minimizer(0.0, 0.1), t, rtol=1e-6)
        assert np.isclose(line.value(t), other.value(t), rtol=rtol)
        assert np.allclose(line.cut(t + 0.1).a, other.cut(t + 0.1).a, atol=1e-9)  # at t there may be a kink


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("name", LOSSES)
def test_a_linear_risk_in_parts_is_the_whole_risk(name, fit_intercept, rng):
    loss, data = LOSSES[name].loss, DATA | {"y": LOSSES[name].draw_targets(rng, N)}
    whole = LinearRisk(**data, loss=loss, fit_intercept=fit_intercept)
    make = partial(LinearRisk, loss=loss, fit_intercept=fit_intercept)
    for n_parts in (1, 5):
        sharded = ShardedRisk.of(divided(data, n_parts), make)
        same(sharded, whole, rng)
        w = rng.standard_normal(D)
        if fit_intercept:
            assert np.isclose(sharded.intercept(w), whole.intercept(w), atol=1e-9)
        if isinstance(whole, SmoothRisk):
            assert np.allclose(sharded.hessian(w), whole.hessian(w), atol=1e-12)
            one, other = sharded.curvature(w), whole.curvature(w)
            assert np.allclose(one.product(w), other.product(w), atol=1e-12)
            assert np.allclose(one.diagonal(), other.diagonal(), atol=1e-12)
    check_risk(sharded, n_points=3)


def test_a_nonconvex_risk_in_parts_has_the_value_and_the_plane_of_the_whole_risk(rng):
    make = partial(LinearRisk, loss=Ramp())
    sharded, whole = ShardedRisk.of(divided(DATA, 5), make), make(**DATA)
    for w in rng.standard_normal((5, D)):
        cut, expected = sharded.cut(w), whole.cut(w)
        assert np.isclose(sharded.value(w), whole.value(w), rtol=1e-12)
        assert np.allclose([*cut.a, cut.b, cut.value], [*expected.a, expected.b, expected.value], rtol=1e-10)


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("loss", [Hinge(), Logistic()], ids=["hinge", "logistic"])
def test_one_and_eight_parts_take_the_steps_of_the_local_solver_to_the_same_certificate(loss, fit_intercept):
    make = partial(LinearRisk, loss=loss, fit_intercept=fit_intercept)
    risks = [ShardedRisk.of(divided({"X": X, "y": SIGNS}, n_parts), make) for n_parts in (1, 8)]
    agree([minimize(risk, L2(1e-3), "line_search_bundle") for risk in (*risks, make(X, SIGNS))])
    agree([minimize(risk, L2(1e-3)) for risk in (*risks, make(X, SIGNS))])
    assert first_solver(risks[0]) is first_solver(make(X, SIGNS))


def first_solver(risk):
    solver = resolve("auto", risk, L2(1e-3))
    return type(solver.candidates[0] if isinstance(solver, Relay) else solver)


def test_newton_steps_on_classes_have_the_bound_of_all_slopes_in_parts_too():
    y = np.digitize(X[:, 0] + 0.4 * RNG.standard_normal(N), [-0.3, 0.7])
    make = partial(MulticlassRisk, loss=Softmax(), n_classes=3)
    parts = [ShardedRisk.of(divided({"X": X, "y": y}, n_parts), make) for n_parts in (1, 8)]
    agree([minimize(risk, L2(1e-3), "newton") for risk in (make(X, y), *parts)])


def agree(results):
    """The same steps to the same certificate."""
    for result in results:
        assert result.n_steps == results[0].n_steps
        assert abs(result.objective - results[0].objective) <= 1e-10
        assert abs(result.lower_bound - results[0].lower_bound) <= 1e-10


QUERIES = {"X": X, "y": RNG.integers(0, 3, N).astype(float), "qid": np.arange(N) // 10}


@pytest.mark.parametrize("kind", [PairwiseRisk, NdcgRisk, ListwiseRisk], ids=lambda kind: kind.__name__)
def test_rankings_are_divided_by_query(kind, rng):
    parts = LocalParts([{k: v[rows] for k, v in QUERIES.items()} for rows in (slice(0, 30), slice(30, None))])
    sharded, whole = ShardedRisk.of(parts, kind), kind(**QUERIES)
    same(sharded, whole, rng)
    assert type(resolve("auto", sharded, L2(1.0))) is type(resolve("auto", whole, L2(1.0)))


@pytest.mark.parametrize("loss", [Softmax(), CrammerSinger()], ids=["softmax", "crammer_singer"])
def test_classes_are_divided_by_sample(loss, rng):
    y = RNG.integers(0, 3, N)
    sharded = ShardedRisk.of(
        divided({"X": sp.csr_matrix(X), "y": y}, 3), partial(MulticlassRisk, loss=loss, n_classes=3)
    )
    same(sharded, MulticlassRisk(X, y, loss), rng)
    assert isinstance(sharded, SmoothRisk) == isinstance(loss, Softmax)


@pytest.mark.parametrize("loss", [CRF(), M3N()], ids=["crf", "m3n"])
def test_chains_are_divided_by_sequence(loss, rng):
    y, lengths = RNG.integers(0, 3, N), [5] * (N // 5)
    whole = ChainRisk(X, y, loss, lengths=lengths)
    parts = LocalParts([
        {"X": X[:40], "y": y[:40], "lengths": lengths[:8]}, {"X": X[40:], "y": y[40:], "lengths": lengths[8:]}
    ])  # fmt: skip
    sharded = ShardedRisk.of(parts, partial(ChainRisk, loss=loss, n_labels=3))
    same(sharded, whole, rng)
    assert resolve("auto", sharded, L2(1.0)) == resolve("auto", whole, L2(1.0))


def test_examples_of_a_structured_model_are_divided(rng):
    model, examples, labels = draw_chains()
    parts = LocalParts([(examples[:3], labels[:3]), (examples[3:], labels[3:])])
    same(ShardedRisk.of(parts, partial(StructuredRisk, model)), StructuredRisk(model, examples, labels), rng)


def test_a_risk_of_the_user_has_the_capabilities_of_its_shards(rng):
    parts = LocalParts([-1.0, 2.0])
    make = lambda at: FunctionRisk(lambda w: (float(abs(w - at).sum()), np.sign(w - at)), n_params=2)  # noqa: E731
    risk = ShardedRisk.of(parts, make, weigh=lambda risk: 1.0)
    assert not isinstance(risk, LineRisk | SmoothRisk | CurvedRisk)
    assert risk.value(np.zeros(2)) == 3.0
    with pytest.raises(CapabilityError, match="has no `n_samples`: give it one, or pass `weigh`"):
        ShardedRisk.of(parts, make)


def test_a_line_of_the_user_is_searched_by_its_planes():
    class Bowl:
        n_params, lower_bound, is_convex, n_samples = 2, 0.0, True, 1

        def __init__(self, at):
            self.at = at

        def value(self, w):
            return 0.5 * float((w - self.at) @ (w - self.at))

        def cut(self, w):
            return FunctionRisk(lambda v: (self.value(v), v - self.at), 2).cut(w)

        def along(self, w, direction):
            return BowlLine(self, w, direction)

    class BowlLine:
        def __init__(self, risk, w, direction):
            self.risk, self.w, self.direction = risk, w.copy(), direction.copy()

        def value(self, t):
            return self.risk.value(self.w + t * self.direction)

        def cut(self, t):
            return self.risk.cut(self.w + t * self.direction)

        def turn(self, t, direction):
            return BowlLine(self.risk, self.w + t * self.direction, direction)

    risk = ShardedRisk.of(LocalParts([0.0, 2.0]), Bowl)
    assert np.isclose(risk.along(np.zeros(2), np.ones(2)).minimizer(0.0, 0.0), 1.0)
    assert np.allclose(minimize(risk, L2(1.0), "line_search_bundle", stop=Stop(gap_rel=1e-8)).w, 0.5, atol=1e-3)


def test_a_kinked_penalty_takes_a_level_bundle_over_the_parts():
    risk = ShardedRisk.of(divided({"X": X, "y": SIGNS}, 3), partial(LinearRisk, loss=Hinge()))
    whole = minimize(LinearRisk(X, SIGNS, Hinge()), L1(0.02), "level_bundle", stop=Stop(gap_rel=1e-4))
    result = minimize(risk, L1(0.02), stop=Stop(gap_rel=1e-4))
    assert result.trace[-1].solver == "LevelBundle"
    assert abs(result.objective - whole.objective) <= 1e-10


@pytest.mark.parametrize("measure", ["f1", "precision@10", "roc_auc"])
def test_measures_of_all_labels_gather_the_scores(measure):
    parts = divided({"X": X, "y": SIGNS}, 3)
    design = ShardedDesign(parts)
    result = minimize(MultivariateRisk(design, design.gathered(parts, "y"), measure), L2(0.01))
    whole = minimize(MultivariateRisk(X, SIGNS, measure), L2(0.01))
    assert (result.n_steps, result.objective) == (whole.n_steps, pytest.approx(whole.objective, abs=1e-10))


def test_free_intercepts_of_classes_gather_the_scores():
    y = RNG.integers(0, 3, N)
    parts = divided({"X": X, "y": y}, 3)
    risk = MulticlassRisk(ShardedDesign(parts), y, Softmax(), fit_intercept=True)
    whole = MulticlassRisk(X, y, Softmax(), fit_intercept=True)
    same(risk, whole, np.random.default_rng(0))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (partial(MultivariateRisk, measure="f1"), "MultivariateRisk depends on all samples at once"),
        (partial(LinearRisk, loss=Ramp(), fit_intercept=True), "free intercepts of a LinearRisk of this loss"),
        (partial(MulticlassRisk, loss=Softmax(), fit_intercept=True), "free intercepts of several classes"),
    ],
)
def test_a_risk_that_is_no_sum_says_what_to_use(make, words):
    y = (SIGNS > 0).astype(int) if make.func is MulticlassRisk else SIGNS
    with pytest.raises(CapabilityError, match=f"partition 0: .*{words}.* ShardedDesign as X"):
        ShardedRisk.of(divided({"X": X, "y": y}, 2), make)


def test_parts_that_do_not_fit_are_refused_by_name():
    make = partial(LinearRisk, loss=Hinge())
    wide, broken = np.eye(5), X[:5].copy()
    broken[2, 1] = np.nan
    good = {"X": X[:5], "y": SIGNS[:5]}
    with pytest.raises(DataError, match=r"b\.svm has 5, and a\.svm has 4"):
        ShardedRisk.of(LocalParts([good, {"X": wide, "y": SIGNS[:5]}], ["a.svm", "b.svm"]), make)
    with pytest.raises(DataError, match=r"b\.svm: X must be finite"):
        ShardedRisk.of(LocalParts([good, {"X": broken, "y": SIGNS[:5]}], ["a.svm", "b.svm"]), make)


def test_samples_with_equal_scores_do_not_keep_the_search_from_ending():
    """All kinks of the line lie at the same two points, more of them than are gathered."""
    copies = {"X": np.repeat(np.array([[1.0], [-1.0]]), 5000, axis=0), "y": np.repeat([1.0, -1.0], 5000)}
    whole = LinearRisk(**copies, loss=Hinge())
    sharded = ShardedRisk.of(divided(copies, 3, 10_000), partial(LinearRisk, loss=Hinge()))
    direction = np.ones(1)
    t = whole.along(np.zeros(1), direction).minimizer(0.0, 0.1)
    assert sharded.along(np.zeros(1), direction).minimizer(0.0, 0.1) == pytest.approx(t, rel=1e-12)
    make = partial(LinearRisk, loss=Hinge(), fit_intercept=True)
    assert ShardedRisk.of(divided(copies, 3, 10_000), make).value(np.zeros(1)) == pytest.approx(1.0)


def test_overflow_ends_a_run_with_the_last_good_solution():
    risk = ShardedRisk.of(divided({"X": X, "y": SIGNS}, 2), partial(LinearRisk, loss=Squared()))
    with pytest.raises(NonfiniteError, match="partition 0: the value of the risk is inf"):
        risk.cut(np.full(D, 1e200))


def test_shards_that_lost_their_line_make_it_again(rng):
    risk = ShardedRisk.of(divided(DATA, 3), partial(LinearRisk, loss=Logistic()))
    line = risk.along(rng.standard_normal(D), rng.standard_normal(D)).turn(0.5, rng.standard_normal(D))
    before = line.value(0.7)
    for shard in risk.parts.values[1:]:
        shard._kept.clear()
    line.value(0.1)
    assert np.isclose(line.value(0.7), before, rtol=1e-13)
