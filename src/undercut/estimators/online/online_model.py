"""What the online estimators share: fits in passes over the data, and streams that are read once."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions

from undercut._jit.online import N_STATE
from undercut.errors import DataError
from undercut.estimators.certified import CERTIFICATE, CertifiedEstimator, Minimizer
from undercut.estimators.cluster.blocks import MakeDesign, with_constant
from undercut.estimators.inputs import checked_weight
from undercut.estimators.linear.linear_model import Fit, LinearModel, Start
from undercut.estimators.targets import Problem
from undercut.io.model_file import ModelState
from undercut.maps.design import WithConstant, trusted_design
from undercut.maps.matrix import Matrix
from undercut.regularizers import L2
from undercut.risks import LinearRisk, ShardedRisk
from undercut.solvers import Stop
from undercut.solvers.online import ONLINE_SOLVERS
from undercut.solvers.online.base import OnlineSolver
from undercut.solvers.online.game import Game, Samples
from undercut.solvers.online.partitions import AlongPartitions, PartitionSolver
from undercut.trace import Status
from undercut.types import FloatArray

STREAM = ("_games", "_excess", "_seen", "n_samples_seen_", "stream_position_")
MAX_SEED = 2**31 - 1
FINE = frozenset({Status.MAX_PASSES, Status.GUARANTEED, Status.CONVERGED})
Chunks = Iterable[tuple[Any, Any]] | Callable[[], Iterable[tuple[Any, Any]]]


class OnlineModel(LinearModel, CertifiedEstimator):
    """A linear model fitted by an online method; the intercept is the weight of a constant feature, and penalized."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **CertifiedEstimator._parameter_constraints,
        "solver": [StrOptions(set(ONLINE_SOLVERS)), OnlineSolver, PartitionSolver],
        "n_passes": [Interval(Integral, 1, None, closed="left")],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "average": ["boolean"],
        "certify": ["boolean"],
        "random_state": ["random_state", np.random.Generator],
    }

    def _online_solver(self, seed: int = 0) -> OnlineSolver:
        if isinstance(self.solver, OnlineSolver):
            return self.solver
        if isinstance(self.solver, PartitionSolver):
            return self.solver.method
        return ONLINE_SOLVERS[self.solver](
            n_passes=self.n_passes,
            batch_size=self.batch_size,
            average=self.average,
            certify=self.certify,
            seed=seed,
        )

    def _design(self, X: Any) -> Matrix:
        design = trusted_design(X)
        return WithConstant(design) if self.fit_intercept else design

    def _make_design(self) -> MakeDesign:
        """The same on a worker, which is not sent the model."""
        return with_constant if self.fit_intercept else trusted_design

    def _minimizer(self, gap_abs: float = 0.0) -> Minimizer:
        """What makes the passes of one fit, all problems in the same order."""
        solver, stop = self._online_solver(seed_of(self.random_state)), Stop(gap_abs=gap_abs)
        return Minimizer(solver, stop, self.verbose, FINE, self._watchers(), getattr(self, "n_jobs", None))

    def _fit_partitions(self, risk: ShardedRisk, minimizer: Minimizer, problem: Problem) -> Fit:
        """Passes over one problem in partitions; the model visits them in turn unless the solver says otherwise."""
        method = self._online_solver(seed_of(self.random_state))
        solver = self.solver if isinstance(self.solver, PartitionSolver) else AlongPartitions(method=method)
        result = minimizer(risk, L2(self.lam), problem.start, problem=problem, solver=solver)
        return self._split(result.w, result)

    def _check_in_memory(self) -> None:
        """Refuse a solver of partitions for data that are in none."""
        if isinstance(self.solver, PartitionSolver):
            raise DataError(
                f"{self.solver.name} is for data in partitions; got arrays in memory: use solver={self.solver.method!r}"
            )

    def _fit_passes(self, X: Any, weight: Any, minimizer: Minimizer, problem: Problem) -> Fit:
        """Passes over one problem; the best iterate by exact objective is the fit."""
        risk = LinearRisk(self._design(X), problem.target, self._loss(), sample_weight=weight)
        result = minimizer(risk, L2(self.lam), problem.start, problem=problem)
        return self._split(result.w, result)

    def _split(self, w: FloatArray, result: Any = None) -> Fit:
        return Fit(w[:-1], float(w[-1]), result) if self.fit_intercept else Fit(w, 0.0, result)

    def _start(self, last: Start | None, n_features: int, classes: Any = None) -> FloatArray | None:
        """The parameters to start from, where the last fit was one of the same problem."""
        start = None if last is None else last.matching(n_features, classes)
        return None if start is None else self._joined(start.coef, start.intercept)

    def _joined(self, coef: FloatArray, intercept: Any) -> FloatArray:
        """The parameters of the risk, one row per problem: coefficients, and the intercept behind them."""
        return np.concatenate([coef, np.asarray(intercept)[..., None]], axis=-1) if self.fit_intercept else coef

    def _start_games(self, starts: list[FloatArray]) -> None:
        for name in (*CERTIFICATE, "result_", "interrupted_"):  # of an earlier fit
            self.__dict__.pop(name, None)
        solver = self._online_solver(seed_of(self.random_state))
        self._games: list[Game] = []
        for at, start in enumerate(starts):
            game = replace(solver, seed=solver.seed + at).new_game(start.size)
            game.move_to(start)
            self._games.append(game)
        self._excess, self._seen = 0.0, 0.0
        self.n_samples_seen_ = self.stream_position_ = 0

    def widened(self, X: Any) -> Any:
        """A sparse chunk as wide as the model, which grows by features that no chunk has had before.

        >>> import scipy.sparse as sp
        >>> from undercut import OnlineRegressor
        >>> model = OnlineRegressor().partial_fit(sp.csr_matrix([[1.0]]), [2.0])
        >>> model.partial_fit(model.widened(sp.csr_matrix([[0.0, 3.0]])), [1.0]).coef_.shape
        (2,)
        """
        known = getattr(self, "n_features_in_", 0)
        if not sp.issparse(X) or known in (0, X.shape[1]):
            return X
        if X.shape[1] < known:
            return sp.csr_matrix((X.data, X.indices, X.indptr), shape=(X.shape[0], known))
        new = np.zeros(X.shape[1] - known)
        for game in getattr(self, "_games", ()):  # the weight of the constant feature stays behind the others
            game.v = np.insert(game.v, [known] * new.size, 0.0)
            game.u = np.insert(game.u, [known] * new.size, 0.0)
        if hasattr(self, "coef_"):
            self.coef_ = np.concatenate([self.coef_, np.broadcast_to(new, (*self.coef_.shape[:-1], new.size))], axis=-1)
        self.n_features_in_ = X.shape[1]
        return X

    def _forget_stream(self) -> None:
        for name in STREAM:
            self.__dict__.pop(name, None)

    def _absorb(self, X: Any, targets: list[FloatArray], weight: FloatArray) -> list[Fit]:
        """Play every problem's game over one chunk; the last iterates, or the averages."""
        solver, loss, design = self._online_solver(), self._loss(), self._design(X)
        for y in targets:
            loss.check_target(y)
        self._excess += sum(_excess_at_zero(loss, y, weight) for y in targets) / len(targets)
        self._seen += float(weight.sum())
        self.n_samples_seen_ += design.shape[0]
        weight = weight * (self.n_samples_seen_ / self._seen)  # one on average: only their proportions count
        radius = solver.ball(self._excess / self._seen, self.lam)
        fits = []
        for game, y in zip(self._games, targets, strict=True):
            solver.absorb(game, Samples.of(design, y, weight, loss), self.lam, radius)
            fits.append(self._split(game.average if solver.averages else game.last))
        return fits

    @classmethod
    def from_state(cls, state: ModelState) -> Self:
        """The model that ``state`` described, which can go on with its stream; ``ValueError`` if parts do not fit."""
        model = super().from_state(state)
        if not any(name in vars(model) for name in STREAM):
            return model
        size = model.n_features_in_ + int(model.fit_intercept)
        for game in model._games:
            shapes = [game.v.shape, game.u.shape, game.numbers.shape]
            if shapes != [(size,), (size,), (N_STATE,)] or not isinstance(game.rng, np.random.Generator):
                raise ValueError("the games of the stream do not fit the model")
        if len(model._games) != np.atleast_1d(model.intercept_).size:
            raise ValueError(f"{len(model._games)} games do not fit intercepts {model.intercept_}")
        if not all(0.0 <= float(getattr(model, name)) < math.inf for name in STREAM[1:]):
            raise ValueError("the stream has impossible counts")
        return model

    def _check_certificate(self) -> None:
        if "_games" not in vars(self):  # a stream has no certificate
            super()._check_certificate()

    def _chunk_weight(self, X: Any, sample_weight: Any, factors: Any = 1.0) -> FloatArray:
        weight = checked_weight(sample_weight, X) * factors
        if not weight.sum() > 0.0:
            raise DataError("the weights of a chunk must have a positive sum; got only zeros")
        return weight

    def fit_stream(self, chunks: Chunks, *, n_passes: int = 1, **options: Any) -> Any:
        """Learn from ``(X, y)`` chunks that need not fit in memory together.

        ``chunks`` is an iterable, or a function that returns a fresh one for each of ``n_passes``; further arguments
        go to ``partial_fit``.  A chunk that is refused leaves the model as it was before it.  A sparse chunk may have
        more columns than those before it, or fewer.
        """
        if n_passes > 1 and not callable(chunks) and iter(chunks) is chunks:
            raise DataError(
                f"a generator can be read once, and n_passes = {n_passes}: pass a function that returns a new one"
            )
        self._forget_stream()
        for name in ("coef_", "classes_", "n_features_in_"):
            self.__dict__.pop(name, None)
        for _ in range(n_passes):
            for X, y in chunks() if callable(chunks) else chunks:
                self.partial_fit(self.widened(X), y, **options)
        if not hasattr(self, "_games"):
            raise DataError("the stream must hold at least one chunk; got none")
        return self


def seed_of(random_state: Any) -> int:
    """The seed of one fit: an integer is the seed, ``None`` is 0, and a generator is asked for one.

    >>> seed_of(7), seed_of(None), seed_of(np.random.RandomState(0)) == seed_of(np.random.RandomState(1))
    (7, 0, False)
    """
    if random_state is None:
        return 0
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(MAX_SEED))
    if isinstance(random_state, Integral):
        return int(random_state)
    return int(check_random_state(random_state).randint(MAX_SEED))


def _excess_at_zero(loss: Any, y: FloatArray, weight: FloatArray) -> float:
    """``sum_i weight_i (l(y_i, 0) - inf l(y_i, .))``; infinity where an infimum is unknown."""
    infimum = loss.infimum(y)
    if not np.isfinite(infimum).all():
        return math.inf
    value = loss.value_slope(y, np.zeros_like(y))[0] - infimum
    return float(np.sum(weight * np.where(np.isfinite(value), value, 0.0))) or math.ulp(1.0)
