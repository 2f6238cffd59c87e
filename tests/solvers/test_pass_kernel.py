"""The compiled pass does what the published algorithms say, whatever the layout of the rows."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import pytest
import scipy.sparse as sp
from tests.catalogue import ALL, LOSSES, Problem

from undercut import Absolute, EpsilonInsensitive, Exponential, Hinge, LinearRisk, Poisson, Squared
from undercut._jit import online as kernel, pointwise
from undercut.losses import compiled_slope
from undercut.maps.design import WithConstant, as_design
from undercut.solvers.online import Adaptive, OptimisticProximal, Pegasos, Proximal
from undercut.solvers.online.game import Game

METHODS = {
    "pegasos": kernel.PEGASOS,
    "adaptive": kernel.ADAPTIVE,
    "proximal": kernel.PROXIMAL,
    "fixed": kernel.FIXED,
}
methods = pytest.mark.parametrize("method", METHODS)


def csr(X, index=np.int32):
    """Rows with indices of the given width."""
    X = sp.csr_array(X)
    X.indices, X.indptr = X.indices.astype(index), X.indptr.astype(index)
    return X


LAYOUTS = {
    "csr_int32": csr,
    "csr_int64": lambda X: csr(X, np.int64),
    "csr_float32": lambda X: csr(X.astype(np.float32)),
    "float64": np.asarray,
    "float32": lambda X: X.astype(np.float32),
    "fortran": np.asfortranarray,
}


@dataclass(frozen=True)
class Rules:
    """What a pass is told besides the data."""

    method: str = "proximal"
    batch: int = 1
    lam: float = 0.05
    learning: bool = True  # G, from the subgradients seen
    radius: float = math.inf
    tau_one: float = 0.0
    growing: bool = False
    opening: float = 0.0
    epsilon: float = 0.0
    length_cap: float = math.inf
    length_per_r2: float = math.inf


@dataclass
class Player:
    """The algorithms as printed: w, t, tau_{1:t}, R, G and the iterates of the current phase, all in the open."""

    w: np.ndarray
    R: float
    G: float = 0.0
    t: int = 0
    tau_sum: float = 0.0
    phases: int = 0
    done: bool = False
    iterates: list = field(default_factory=list)

    def play(self, X, y, weight, order, loss, rules):
        for first in range(0, order.size, rules.batch):
            rows = order[first : first + rules.batch]
            slopes = weight[rows] / rows.size * loss.value_slope(y[rows], X[rows] @ self.w)[1]
            self._move(X[rows], slopes, rules)
            self.iterates.append(self.w)
            if rules.growing and self._ends(rules):
                return

    def follow(self, game):
        """Take over what was compared, so that rounding does not add up."""
        self.w = game.last
        self.tau_sum, self.R, self.G = (float(x) for x in game.numbers[[kernel.TAU_SUM, kernel.R, kernel.G]])

    def _move(self, X, slopes, rules):
        lam = rules.lam
        if rules.learning:
            self.G = max(self.G, np.abs(slopes) @ np.linalg.norm(X, axis=1) + lam * np.linalg.norm(self.w))
        self.t += 1
        tau = self._tau(lam * self.t + self.tau_sum, rules)
        self.tau_sum += tau
        curvature = lam + tau if rules.method == "adaptive" else lam
        self.w = self.w - (X.T @ slopes + curvature * self.w) / (lam * self.t + self.tau_sum)
        norm = np.linalg.norm(self.w)
        if norm > rules.radius:
            self.w = self.w * (rules.radius / norm)

    def _tau(self, before, rules):
        """The positive root of ``tau (before + tau) = share``."""
        if rules.method == "fixed":
            return rules.tau_one if self.t == 1 else 0.0
        share = {"pegasos": 0.0, "proximal": 0.25, "adaptive": 2.0 / 3.0}[rules.method] * (self.G / self.R) ** 2
        return 2.0 * share / (before + math.sqrt(before**2 + 4.0 * share))

    def _ends(self, rules):
        if np.linalg.norm(self.w) >= self.R - math.sqrt(2.0 * rules.epsilon / rules.lam):
            self.R *= math.sqrt(2.0)
            self.phases += 1
            self.iterates = []
            if rules.opening:
                self.tau_sum = min(self.tau_sum / math.sqrt(2.0), rules.opening * self.G / self.R)
                return False
            while np.linalg.norm(self.w) >= self.R - math.sqrt(2.0 * rules.epsilon / rules.lam):
                self.R *= math.sqrt(2.0)
            self.t, self.tau_sum, self.iterates = 0, 0.0, [self.w]
            return False
        self.done = self.t >= min(rules.length_cap, rules.length_per_r2 * self.R**2)
        return self.done


def new_game(w, R):
    numbers = np.zeros(kernel.N_STATE)
    numbers[kernel.R] = R
    game = Game(np.zeros(w.size), np.zeros(w.size), numbers, np.random.default_rng(0))
    game.move_to(w)
    return game


def compiled_pass(game, design, y, weight, order, loss, rules, *, averaging=True):
    kernel.run_pass(
        *design.rows(), y, weight, order, rules.batch, *compiled_slope(loss), METHODS[rules.method], rules.lam,
        rules.learning, rules.radius, rules.tau_one, rules.growing, rules.opening, rules.epsilon, rules.length_cap,
        rules.length_per_r2, averaging, game.v, game.u, game.numbers,
    )  # fmt: skip


def assert_same(game, player, lam, rel=1e-9):
    numbers = game.numbers
    scale = max(1.0, float(np.linalg.norm(player.w)))
    np.testing.assert_allclose(game.last, player.w, rtol=rel, atol=rel * scale)
    assert numbers[kernel.NORM2] == pytest.approx(player.w @ player.w, rel=1e-7, abs=1e-12)
    assert numbers[kernel.TAU_SUM] == pytest.approx(player.tau_sum, rel=rel, abs=1e-12 * lam)
    assert numbers[kernel.R] == pytest.approx(player.R, rel=1e-14)
    assert numbers[kernel.G] == pytest.approx(player.G, rel=rel)
    assert numbers[kernel.T] == player.t
    assert numbers[kernel.PHASES] == player.phases
    assert bool(numbers[kernel.DONE]) is player.done
    assert numbers[kernel.N_SUMMED] == len(player.iterates)
    if player.iterates:
        largest = max(np.linalg.norm(w) for w in player.iterates)
        np.testing.assert_allclose(game.average, np.mean(player.iterates, axis=0), atol=max(rel, 1e-7) * largest)


def assert_passes_agree(problem, rules, *, layout="float64", constant=False, R=1.5, G=0.0, n_passes=3):
    given, y = LAYOUTS[layout](problem.X), problem.y
    design, X = as_design(given), np.asarray(given.todense() if sp.issparse(given) else given, dtype=np.float64)
    if constant:
        design, X = WithConstant(design), np.column_stack([X, np.ones(problem.n)])
    weight = np.ones(problem.n) if problem.sample_weight is None else problem.sample_weight
    rng = np.random.default_rng(5)
    start = 0.1 * min(1.0, rules.lam**-1) * rng.standard_normal(X.shape[1])
    game, player = new_game(start, R), Player(start, R, G)
    game.numbers[kernel.G] = G
    narrow = layout.endswith("float32")
    for order in few_rounds_of(rng, problem.n, rules.batch, n_passes):
        compiled_pass(game, design, y, weight, order, problem.case.loss, rules)
        player.play(X, y, weight, order, problem.case.loss, rules)
        assert_same(game, player, rules.lam, 1e-5 if narrow else 1e-9)
        player.follow(game)
        if player.done:
            break
    return player


def few_rounds_of(rng, n, batch, n_passes):
    """Passes in pieces: early steps of Algorithm 1 are so long that they amplify rounding."""
    for _ in range(n_passes):
        order, size = rng.permutation(n), max(batch, 5)
        yield from (order[first : first + size] for first in range(0, n, size))


@pytest.mark.parametrize("loss", ALL)
def test_a_compiled_slope_is_the_slope_of_the_loss(loss):
    case = LOSSES[loss]
    number, setting = compiled_slope(case.loss)
    rng = np.random.default_rng(0)
    y = case.draw_targets(rng, 60)
    scores = 4.0 * rng.standard_normal(60)
    slopes = np.array([pointwise.slope(number, setting, a, s) for a, s in zip(y, scores, strict=True)])
    np.testing.assert_allclose(slopes, case.loss.value_slope(y, scores)[1], rtol=1e-14, atol=1e-15)
    assert (np.abs(slopes) <= case.loss.lipschitz).all()


@pytest.mark.parametrize("loss", ALL)
@pytest.mark.parametrize("target", [-1.0, 1.0])
def test_a_compiled_slope_is_a_subgradient_everywhere_kinks_included(loss, target):
    case = LOSSES[loss]
    y = target if case.targets != "counts" else target + 1.0
    number, setting = compiled_slope(case.loss)
    others = np.linspace(-5.0, 5.0, 201)
    for s in (*case.kinks(y), y, -y, 0.0, 0.3):
        plane = case.formula(y, s) + pointwise.slope(number, setting, y, s) * (others - s)
        assert (case.formula(y, others) >= plane - 1e-12).all()


@pytest.mark.parametrize("loss", [Exponential(), Poisson()])
@pytest.mark.parametrize("score", [-1e6, -800.0, 800.0, 1e6])
def test_a_slope_that_overflows_stays_finite(loss, score):
    number, setting = compiled_slope(loss)
    assert math.isfinite(pointwise.slope(number, setting, 1.0, score))


@pytest.mark.parametrize("number", [-1, 11, 99])
def test_a_number_that_no_loss_has_gives_no_slope(number):
    assert math.isnan(pointwise.slope(number, 0.0, 1.0, 0.5))


def test_a_tube_of_width_zero_is_the_absolute_loss():
    tube, plain = compiled_slope(EpsilonInsensitive(epsilon=0.0)), compiled_slope(Absolute())
    for s in (-1.0, 0.5, 2.0):
        assert pointwise.slope(*tube, 0.5, s) == pointwise.slope(*plain, 0.5, s)


@pytest.mark.parametrize("loss", ALL)
@methods
def test_every_loss_is_played_as_published(loss, method):
    """Within a ball that keeps the exponential losses tame."""
    assert_passes_agree(Problem(loss), Rules(method, radius=2.0, tau_one=0.7))


@methods
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("constant", [False, True], ids=["plain", "constant"])
@pytest.mark.parametrize("batch", [1, 4])
def test_every_layout_is_played_as_published(method, layout, constant, batch):
    """30 rows: the last batch of four holds two."""
    rules = Rules(method, batch=batch, radius=2.0, tau_one=0.7)
    assert_passes_agree(Problem("hinge", weighted=True), rules, layout=layout, constant=constant)


@methods
@pytest.mark.parametrize("batch", [1, 4, 30, 100])
@pytest.mark.parametrize("radius", [0.3, 2.0, math.inf])
def test_every_batch_and_ball_is_played_as_published(method, batch, radius):
    rules = Rules(method, batch=batch, radius=radius, tau_one=0.7)
    player = assert_passes_agree(Problem("logistic", weighted=True), rules, constant=True)
    assert np.linalg.norm(player.w) <= radius * (1.0 + 1e-12)


@pytest.mark.parametrize("method", ["proximal", "adaptive"])
@pytest.mark.parametrize("opening", [0.0, 3.0, 20.0])
@pytest.mark.parametrize("layout", ["csr_int32", "float64"])
@pytest.mark.parametrize("batch", [1, 4])
def test_phases_are_played_as_published(method, opening, layout, batch):
    """R starts too small, and doubles its square until it is not."""
    rules = Rules(method, batch=batch, lam=1e-3, radius=30.0, growing=True, opening=opening)
    player = assert_passes_agree(Problem("hinge"), rules, layout=layout, R=0.01)
    assert player.phases >= (1 if method == "adaptive" else 3)


@methods
@pytest.mark.parametrize("batch", [1, 4])
@pytest.mark.parametrize("growing", [False, True])
def test_a_known_bound_on_subgradients_is_played_as_given(method, batch, growing):
    rules = Rules(method, batch=batch, learning=False, radius=5.0, tau_one=0.7, growing=growing, opening=20.0)
    assert assert_passes_agree(Problem("hinge"), rules, G=3.0).G == 3.0


@pytest.mark.parametrize("epsilon", [1e-4, 1e-2])
def test_a_phase_starts_when_w_comes_close_to_the_ball(epsilon):
    rules = Rules(lam=0.1, growing=True, epsilon=epsilon)
    assert assert_passes_agree(Problem("hinge"), rules, R=0.05).phases >= 1


@pytest.mark.parametrize("limits", [{"length_cap": 17.0}, {"length_per_r2": 2.0}])
def test_a_phase_that_has_lasted_long_enough_ends_the_pass(limits):
    player = assert_passes_agree(Problem("hinge"), Rules(lam=0.5, growing=True, **limits), R=4.0)
    assert player.done
    assert player.t == 17 or player.t >= 2.0 * player.R**2


@pytest.mark.parametrize("lam", [1e-12, 1e-6, 1e6, 1e12])
@methods
def test_extreme_lambdas_are_played_as_published(lam, method):
    assert_passes_agree(Problem("logistic"), Rules(method, lam=lam, radius=math.sqrt(1.0 / lam), tau_one=lam))


@pytest.mark.parametrize("scale", [1e-150, 1e-99, 1e-5, 1e5, 1e99, 1e150])
@methods
def test_how_w_is_split_into_scale_and_vector_does_not_matter(scale, method):
    problem, rules = Problem("hinge"), Rules(method, radius=2.0, tau_one=0.7)
    design, weight = as_design(problem.X), np.ones(problem.n)
    start = 0.1 * np.arange(1.0, 6.0)
    game, player = new_game(start, 1.5), Player(start, 1.5)
    game.v /= scale
    game.numbers[kernel.SCALE] = scale
    for seed in range(2):
        order = np.random.default_rng(seed).permutation(problem.n)
        compiled_pass(game, design, problem.y, weight, order, problem.case.loss, rules)
        player.play(problem.X, problem.y, weight, order, problem.case.loss, rules)
        assert_same(game, player, rules.lam)


def test_a_scale_that_would_underflow_is_renewed():
    """At t = 2 of Algorithm 1 the iterate is halved: 2000 halvings are more than a double can hold."""
    problem, rules = Problem("squared"), Rules("pegasos", lam=1e3)
    design, weight, start = as_design(problem.X), np.ones(problem.n), np.ones(5)
    game, player = new_game(start, 1.5), Player(start, 1.5)
    for step in range(2000):
        order = np.array([step % problem.n])
        game.numbers[kernel.T] = player.t = 1
        compiled_pass(game, design, problem.y, weight, order, problem.case.loss, rules, averaging=False)
        player.play(problem.X, problem.y, weight, order, problem.case.loss, rules)
    np.testing.assert_allclose(game.last, player.w, rtol=1e-10, atol=1e-14)
    assert 1e-101 < game.numbers[kernel.SCALE] <= 1.0


def test_the_norm_is_kept_over_many_steps():
    problem = Problem("hinge", n=50, lam=1e-4)
    design, order = as_design(problem.X), np.random.default_rng(0).integers(0, 50, 200_000)
    game = new_game(np.zeros(5), 10.0)
    compiled_pass(game, design, problem.y, np.ones(50), order, Hinge(), Rules(lam=1e-4, radius=100.0), averaging=False)
    assert game.numbers[kernel.NORM2] == pytest.approx(float(game.last @ game.last), rel=1e-8)


@pytest.mark.parametrize("lam", [1e-8, 1e-5, 1e-2])
@pytest.mark.parametrize("batch_size", [1, 4])
def test_the_mean_keeps_its_digits_where_projections_shrink_w_again_and_again(lam, batch_size):
    """Every early step of Algorithm 1 leaves the ball by a factor of ``1 / sqrt(lam)``."""
    problem, rng = Problem("hinge", n=200, lam=lam), np.random.default_rng(0)
    rules = Rules("pegasos", batch=batch_size, lam=lam, radius=math.sqrt(1.0 / lam))
    game, iterates = new_game(np.zeros(5), 1.0), []
    for _ in range(200):
        rows = rng.integers(0, problem.n, batch_size)
        compiled_pass(game, as_design(problem.X), problem.y, np.ones(problem.n), rows, Hinge(), rules)
        iterates.append(game.last)
    error = np.linalg.norm(game.average - np.mean(iterates, axis=0))
    assert error <= 1e-6 * max(np.linalg.norm(w) for w in iterates)


def test_moving_keeps_the_sum_of_the_iterates():
    problem, rules = Problem("hinge"), Rules(radius=2.0)
    game = new_game(np.zeros(5), 1.5)
    compiled_pass(game, as_design(problem.X), problem.y, np.ones(30), np.arange(30), Hinge(), rules)
    before = game.average
    game.move_to(np.arange(5.0))
    np.testing.assert_allclose(game.average, before, atol=1e-14)
    assert game.last.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert game.numbers[kernel.NORM2] == 30.0


@pytest.mark.parametrize("solver", [Pegasos(average=True), OptimisticProximal(average=True)], ids=["alg1", "alg3"])
def test_the_mean_of_no_iterates_is_the_last(solver):
    """Before the first round, and right after a phase has begun."""
    game = solver.new_game(3)
    game.move_to(np.array([1.0, 2.0, 3.0]))
    assert game.average.tolist() == [1.0, 2.0, 3.0]


def test_rows_of_float32_are_squared_in_double_precision():
    """A square that does not fit in float32, and one that float32 would round."""
    X = np.array([[3e19, 0.0], [1.0, 1e-4]], dtype=np.float32)
    for design in (as_design(X), as_design(sp.csr_array(X))):
        assert kernel.largest_row(*design.rows(), np.ones(2)) == pytest.approx(3e19, rel=1e-7)
        assert kernel.largest_row(*design.rows(), np.array([0.0, 1.0])) == pytest.approx(
            math.sqrt(1.0 + 1e-8), rel=1e-13
        )


@pytest.mark.parametrize("loss", ["hinge", "logistic", "absolute", "quantile", "huber"])
@pytest.mark.parametrize("factor", [1.0, 100.0])
def test_a_bound_that_is_known_bounds_every_subgradient_in_the_ball(loss, factor):
    """``|slope x| + lam |w|`` with ``|w|`` up to the radius, which grows with the targets of a regression."""
    problem = Problem(loss)
    y = factor * problem.y if problem.case.targets == "reals" else problem.y
    state = Proximal().init(LinearRisk(problem.X, y, problem.case.loss), problem.reg, np.zeros(problem.d))
    w = np.random.default_rng(0).standard_normal((500, problem.d))
    w *= state.radius / np.linalg.norm(w, axis=1, keepdims=True)
    slopes = problem.case.loss.value_slope(np.tile(y, (500, 1)).ravel(), (w @ problem.X.T).ravel())[1]
    gradients = slopes.reshape(500, -1)[:, :, None] * problem.X + problem.lam * w[:, None, :]
    solver = Proximal()
    solver.absorb(state.game, state.samples, problem.lam, state.radius)
    assert np.linalg.norm(gradients, axis=2).max() <= state.game.numbers[kernel.G] * (1.0 + 1e-12)


class OwnHinge(Hinge):
    """A loss of a user's own, which the compiled pass does not know."""


class OwnSquared(Squared):
    """Another, with slopes that have no bound."""


@pytest.mark.parametrize("loss", [Hinge, Squared])
def test_only_the_losses_themselves_are_compiled(loss):
    own = {Hinge: OwnHinge, Squared: OwnSquared}[loss]
    assert compiled_slope(loss()) is not None
    assert compiled_slope(own()) is None


def both_paths(problem, own, solver, n_passes=3):
    """The game of the compiled pass and the game of the pass over any risk."""
    games = []
    for loss in (problem.case.loss, own):
        risk = LinearRisk(problem.X, problem.y, loss, problem.sample_weight)
        state = solver.init(risk, problem.reg, np.full(problem.d, 0.1))
        assert (state.samples.slope is None) is (loss is own)
        for _ in range(n_passes):
            state = solver.step(risk, problem.reg, state)
        games.append(state.game)
    return games


@pytest.mark.parametrize("batch_size", [1, 4])
@pytest.mark.parametrize("sampling", ["shuffle", "replacement"])
@pytest.mark.parametrize("average", [False, True])
def test_a_risk_of_ones_own_is_played_like_a_compiled_one(batch_size, sampling, average):
    solver = Pegasos(batch_size=batch_size, sampling=sampling, average=average)
    compiled, other = both_paths(Problem("hinge", weighted=True), OwnHinge(), solver)
    np.testing.assert_allclose(other.last, compiled.last, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(other.average, compiled.average, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    "solver",
    [Proximal(), Adaptive(), OptimisticProximal(average=True), OptimisticProximal(), Adaptive(project=False)],
    ids=["proximal", "adaptive", "optimistic_average", "optimistic", "unprojected"],
)
def test_curvature_and_phases_are_the_same_on_both_paths(solver):
    """One row at a time and slopes without a known bound: then G is measured alike."""
    compiled, other = both_paths(Problem("squared", lam=0.01), OwnSquared(), solver)
    np.testing.assert_allclose(other.last, compiled.last, rtol=1e-9, atol=1e-12)
    position = [kernel.T, kernel.TAU_SUM, kernel.R, kernel.G, kernel.PHASES, kernel.N_SUMMED]
    np.testing.assert_allclose(other.numbers[position], compiled.numbers[position], rtol=1e-10)


@pytest.mark.parametrize("n", [1, 2, 1000])
def test_a_shuffle_is_a_permutation_that_its_seed_repeats(n):
    first, again, other = (kernel.shuffled(n, seed) for seed in (5, 5, 6))
    assert sorted(first) == list(range(n))
    np.testing.assert_array_equal(first, again)
    assert n < 1000 or (first != other).any()


def test_a_shuffle_favours_no_place():
    rng = np.random.default_rng(0)
    counts = np.zeros((4, 4))
    for seed in rng.integers(0, 2**63, 4000):
        counts[np.arange(4), kernel.shuffled(4, seed)] += 1.0
    np.testing.assert_allclose(counts / 4000, 0.25, atol=0.03)
