"""What the online estimators share: fits in passes over data at hand, and streams with no second look."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import _check_sample_weight
from typing_extensions import override

from undercut._jit.online import N_STATE
from undercut.errors import DataError
from undercut.estimators.linear_model import Fit, LinearModel, live_progress, warn_unless
from undercut.maps.design import WithConstant, as_matrix
from undercut.maps.matrix import Matrix
from undercut.regularizers import L2
from undercut.risks import LinearRisk
from undercut.solvers import Stop, minimize
from undercut.solvers.online import ONLINE_SOLVERS
from undercut.solvers.online.base import Game, OnlineSolver, Samples
from undercut.trace import Status
from undercut.types import Array, FloatArray

Chunks = Iterable[tuple[Any, Any]] | Callable[[], Iterable[tuple[Any, Any]]]


class OnlineModel(LinearModel):
    """A linear model fitted by an online method; the intercept is the weight of a constant feature, and penalized."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "loss": LinearModel._parameter_constraints["loss"],
        "lam": LinearModel._parameter_constraints["lam"],
        "solver": [StrOptions(set(ONLINE_SOLVERS)), OnlineSolver],
        "fit_intercept": ["boolean"],
        "n_passes": [Interval(Integral, 1, None, closed="left")],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "average": ["boolean"],
        "certify": ["boolean"],
        "warm_start": ["boolean"],
        "verbose": ["verbose"],
        "random_state": ["random_state"],
    }

    def _online_solver(self) -> OnlineSolver:
        if isinstance(self.solver, OnlineSolver):
            return self.solver
        seed = self.random_state if isinstance(self.random_state, Integral) else 0
        return ONLINE_SOLVERS[self.solver](
            n_passes=self.n_passes,
            batch_size=self.batch_size,
            average=self.average,
            certify=self.certify,
            seed=int(seed),
        )

    def _design(self, X: Any) -> Matrix:
        design = as_matrix(X)
        return WithConstant(design) if self.fit_intercept else design

    def _fit_passes(
        self,
        X: Any,
        y: FloatArray,
        weight: Array | None,
        w0: FloatArray | None,
        title: str = "",
        *,
        brief: bool = False,
    ) -> Fit:
        """Passes over one problem, or a ``brief`` one after Ctrl-C; the best iterate by exact objective is the fit."""
        risk = LinearRisk(self._design(X), y, self._loss(), sample_weight=weight)
        with live_progress(title, self.verbose) as callbacks:
            stop = Stop(max_passes=1) if brief else Stop()
            result = minimize(risk, L2(self.lam), self._online_solver(), w0=w0, stop=stop, callbacks=callbacks)
        warn_unless(result, {Status.MAX_PASSES, Status.GUARANTEED, Status.CONVERGED}, title)
        return self._split(result.w, result)

    def _split(self, w: FloatArray, result: Any = None) -> Fit:
        return Fit(w[:-1], float(w[-1]), result) if self.fit_intercept else Fit(w, 0.0, result)

    @override
    def _joined(self, coef: FloatArray, intercept: float) -> FloatArray:
        return np.append(coef, intercept) if self.fit_intercept else coef

    def _start_games(self, starts: list[FloatArray]) -> None:
        for name in ("objective_", "lower_bound_", "gap_", "certificate_", "n_iter_", "result_"):  # of an earlier fit
            self.__dict__.pop(name, None)
        solver = self._online_solver()
        self._games: list[Game] = []
        for at, start in enumerate(starts):
            game = replace(solver, seed=solver.seed + at).new_game(start.size)
            game.move_to(start)
            self._games.append(game)
        self._excess, self._seen = 0.0, 0.0
        self.n_samples_seen_ = self.stream_position_ = 0

    def _forget_stream(self) -> None:
        for name in ("_games", "n_samples_seen_", "stream_position_"):
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

    def pause(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """What it takes to go on later: numbers for a JSON header, and arrays."""
        header = {
            "n_samples_seen": self.n_samples_seen_,
            "stream_position": self.stream_position_,
            "excess": self._excess,
            "seen": self._seen,
            "rng": [game.rng.bit_generator.state for game in self._games],
        }
        names = ("v", "u", "numbers")
        return header, {name: np.stack([getattr(game, name) for game in self._games]) for name in names}

    def resume(self, header: dict[str, Any], arrays: dict[str, Array]) -> None:
        """Go on where ``pause`` was called."""
        size = self.n_features_in_ + int(self.fit_intercept)
        shapes = {"v": size, "u": size, "numbers": N_STATE}
        n_games = len(header["rng"])
        if any(arrays[name].shape != (n_games, width) for name, width in shapes.items()):
            raise ValueError("the paused games do not fit the model")
        self._games = []
        for at, state in enumerate(header["rng"]):
            rng = np.random.default_rng()
            rng.bit_generator.state = state
            v, u, numbers = (np.array(arrays[name][at], dtype=np.float64) for name in shapes)
            self._games.append(Game(v, u, numbers, rng))
        known = [float(header[name]) for name in ("excess", "seen", "n_samples_seen", "stream_position")]
        if not all(0.0 <= value < math.inf for value in known):
            raise ValueError("the paused stream has impossible counts")
        self.n_samples_seen_ = int(header["n_samples_seen"])
        self.stream_position_ = int(header["stream_position"])
        self._excess, self._seen = float(header["excess"]), float(header["seen"])

    def _chunk_weight(self, X: Any, sample_weight: Any, factors: Any = 1.0) -> FloatArray:
        weight: FloatArray = (
            _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True) * factors
        )
        if not weight.sum() > 0.0:
            raise DataError("the weights of a chunk must have a positive sum; got only zeros")
        return weight

    def fit_stream(self, chunks: Chunks, *, n_passes: int = 1, **options: Any) -> Any:
        """Learn from ``(X, y)`` chunks that need not fit in memory together.

        ``chunks`` is an iterable, or a function that returns a fresh one for each of ``n_passes``; further arguments
        go to ``partial_fit``.  A chunk that is refused leaves the model as it was before it.
        """
        if n_passes > 1 and not callable(chunks) and iter(chunks) is chunks:
            raise DataError(
                f"a generator can be read once, and n_passes = {n_passes}: pass a function that returns a new one"
            )
        self._forget_stream()
        for name in ("coef_", "classes_"):
            self.__dict__.pop(name, None)
        for _ in range(n_passes):
            for X, y in chunks() if callable(chunks) else chunks:
                self.partial_fit(X, y, **options)
        if not hasattr(self, "_games"):
            raise DataError("the stream must hold at least one chunk; got none")
        return self


def _excess_at_zero(loss: Any, y: FloatArray, weight: FloatArray) -> float:
    """``sum_i weight_i (l(y_i, 0) - inf l(y_i, .))``; infinity where an infimum is unknown."""
    infimum = loss.infimum(y)
    if not np.isfinite(infimum).all():
        return math.inf
    value = loss.value_slope(y, np.zeros_like(y))[0] - infimum
    return float(np.sum(weight * np.where(np.isfinite(value), value, 0.0))) or math.ulp(1.0)
