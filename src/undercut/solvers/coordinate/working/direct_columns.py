"""Columns that are visited one at a time while ``z = X (v - w) + b`` is kept up to date.

Coordinate descent is extrapolated from its last epochs (Bertrand and Massias 2021) as long as signs change, and takes
turns with Newton steps by conjugate gradients on the parameters that are not zero once they hardly do.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, NamedTuple

import numpy as np
from typing_extensions import override

from undercut._jit import working_set as kernels
from undercut.deadline import expired
from undercut.maps.csr import ColumnParts, SparseDesign
from undercut.maps.dense import DenseDesign
from undercut.solvers.coordinate.working.column_parts import column_parts
from undercut.solvers.coordinate.working.columns import (
    SLICE,
    Columns,
    Model,
    Move,
    Penalty,
    PointwiseModel,
    first_zeros,
    halves,
    inverted,
)
from undercut.solvers.coordinate.working.heavy_columns import HeavyColumns, HeavyModel
from undercut.threads import all_threads
from undercut.types import Array, FloatArray

CG_ACCURACY = 0.1  # share of the residual that they may leave
FEW_HEAVY = 15  # parameters that are not worth a Gram matrix
USED = 0.5  # share of the parameters of heavy columns that must not be zero for one
TINY = 1e-12  # added to the diagonal of the matrix of products of changes, relative to its trace


class Pace(NamedTuple):
    """What a minimization does before it looks where it is."""

    epochs: int  # of coordinate descent between accelerations, which combine them
    settled: float  # share of the parameters that may change their signs in those epochs before a Newton step
    cg_steps: int  # of conjugate gradients for a Newton step, at most


PATIENT = Pace(5, 0.002, 50)
QUICK = Pace(3, 0.01, 20)  # where heavy columns, whose violations are the largest, are minimized over together
NONE: tuple[Array, ColumnParts] = (np.empty(0, np.int64), (np.zeros(1, np.int64), np.empty(0, np.int32), np.empty(0)))


class DirectColumns(Columns):
    """Columns with epochs of coordinate descent."""

    derived: ClassVar = ("parts", "XT", "_bends", "_heavy", "pace")
    n_samples: int
    n_entries: int
    pace = PATIENT

    @property
    def n_params(self) -> int:
        return self.ids.size

    @abstractmethod
    def products(self, active: Array, g: FloatArray) -> FloatArray:
        """``X' g`` for the active parameters."""

    @abstractmethod
    def active_scores(self, active: Array, w: FloatArray) -> FloatArray:
        """``X w`` for parameters w of the active ones, the others being zero."""

    @abstractmethod
    def bends(self, model: Model) -> FloatArray:
        """The diagonal of ``X' D X``."""

    @abstractmethod
    def epoch(self, trial: Trial, active: Array) -> float:
        """Minimize over one active parameter after the other; the largest violation that was met."""

    @override
    def gradient(self, slopes: FloatArray) -> FloatArray:
        return self.products(np.arange(self.n_params), slopes)

    @override
    def scores(self, w: FloatArray) -> FloatArray:
        active = np.flatnonzero(w)
        return self.active_scores(active, w[active])

    @override
    def minimize(
        self, model: Model, w: FloatArray, gradient: FloatArray, penalty: Penalty, tol: float, n_rounds: int
    ) -> Move:
        trial = Trial(self, model, penalty, w, gradient)
        fit = max(1, SLICE // ((2 * self.pace.epochs + self.pace.cg_steps) * (self.n_entries + self.n_samples)))
        for done in range(1, min(fit, n_rounds) + 1):
            met = trial.descend()
            if expired() or (met <= tol and trial.violation() <= tol):
                break
            if done < n_rounds:
                trial.accelerate()
        return Move(trial.w, trial.z)


class CompressedColumns(DirectColumns):
    """Columns of which only the entries that are not zero are stored."""

    parts: ColumnParts


class SparseColumns(CompressedColumns):
    """Columns with one parameter each; ``design`` has no others, and ``last`` is the working set before."""

    def __init__(self, design: SparseDesign, ids: Array, last: Columns | None = None) -> None:
        known = last if isinstance(last, SparseColumns) else None
        self.ids = ids
        self.n_samples = design.shape[0]
        self.parts = column_parts(design, ids, *((known.ids, known.parts) if known else NONE))
        self.n_entries = self.parts[1].size
        self._heavy: HeavyColumns = HeavyColumns(design, ids, self.parts[0], known._heavy if known else None)
        if self.has_heavy:
            self.pace = QUICK

    @property
    def has_heavy(self) -> bool:
        """Whether some columns have so many entries that their parameters are minimized over together."""
        return bool(self._heavy.places.size > FEW_HEAVY)

    @override
    def active_scores(self, active: Array, w: FloatArray) -> FloatArray:
        out = np.zeros(self.n_samples)
        kernels.add_scores(*self.parts, active, w, out)
        return out

    @override
    def products(self, active: Array, g: FloatArray) -> FloatArray:
        out = np.empty(active.size)
        kernels.dots(*self.parts, active, g, out)
        return out

    @override
    def bends(self, model: Model) -> FloatArray:
        assert isinstance(model, PointwiseModel)
        out = np.empty(self.ids.size)
        kernels.bends(*self.parts, model.bend, out)
        return out

    @override
    def epoch(self, trial: Trial, active: Array) -> float:
        assert isinstance(trial.model, PointwiseModel)
        heavy = trial.heavy(self._heavy)
        if heavy is None:
            return float(kernels.descend(*self.parts, trial.model.bend, trial.z, *trial.fixed, trial.w, active))
        light = active[self._heavy.is_light[active]]
        met = float(kernels.descend(*self.parts, trial.model.bend, trial.z, *trial.fixed, trial.w, light))
        violation, shift = heavy.descend(trial.w, trial.z, trial.gradient, trial.penalty)
        trial.b = trial.b + shift
        return max(met, violation)


class WideColumns(DirectColumns):
    """Columns of a dense matrix with few rows, widened to float64."""

    def __init__(self, design: DenseDesign, ids: Array) -> None:
        self.ids = ids
        self.n_samples = design.shape[0]
        self.n_entries = self.n_samples * ids.size
        self.XT = np.ascontiguousarray(np.take(design.X, ids, axis=1).T, dtype=np.float64)

    @override
    def active_scores(self, active: Array, w: FloatArray) -> FloatArray:
        if 2 * active.size <= self.ids.size:
            return w @ self.XT[active]
        every = np.zeros(self.ids.size)
        every[active] = w
        with all_threads(self.XT.size):
            return every @ self.XT

    @override
    def products(self, active: Array, g: FloatArray) -> FloatArray:
        if 2 * active.size <= self.ids.size:
            return self.XT[active] @ g
        with all_threads(self.XT.size):
            return np.asarray((self.XT @ g)[active])

    @override
    def bends(self, model: Model) -> FloatArray:
        assert isinstance(model, PointwiseModel)
        return np.asarray(np.einsum("ji,ji->j", self.XT * model.bend, self.XT))

    @override
    def epoch(self, trial: Trial, active: Array) -> float:
        assert isinstance(trial.model, PointwiseModel)
        return float(kernels.descend_dense(self.XT, trial.model.bend, trial.z, *trial.fixed, trial.w, active))


class Trial:
    """Where a minimization of the model is."""

    def __init__(
        self, columns: DirectColumns, model: Model, penalty: Penalty, w: FloatArray, gradient: FloatArray
    ) -> None:
        self.columns, self.model, self.penalty = columns, model, penalty
        self.start, self.w = w, w.copy()
        self.z = np.zeros_like(model.slopes)
        self.totals = model.totals
        self.b = np.zeros(self.totals.size)
        self._intercept_bend = model.intercept_bend
        self._inverse = inverted(self._intercept_bend)
        self.gradient = gradient
        self._heavy: HeavyModel | None = None
        self.fixed = (self.gradient, columns.bends(model), *penalty)
        self._past: list[tuple[FloatArray, FloatArray]] = []  # parameters with b behind them, and z

    def descend(self) -> float:
        """A few epochs, the first of which visits every parameter; the violation that this one has met."""
        active = np.arange(self.w.size)
        violations = []
        self._past.clear()
        for _ in range(self.columns.pace.epochs):
            violations.append(self.columns.epoch(self, active))
            self._move_intercept()
            self._past.append((np.append(self.w, self.b), self.z.copy()))
            active = np.flatnonzero(self.w)
        return violations[0]

    def heavy(self, columns: HeavyColumns) -> HeavyModel | None:
        """The model of the heavy columns; ``None`` where few of their parameters are used."""
        if np.count_nonzero(self.w[columns.places]) <= max(FEW_HEAVY, USED * columns.places.size):
            return None
        if self._heavy is None:
            assert isinstance(self.model, PointwiseModel)
            self._heavy = HeavyModel(columns, self.model)
        return self._heavy

    def violation(self) -> float:
        """The largest at the current point."""
        gradient = self.gradient + self.columns.gradient(self.model.through(self.z))
        return float(self.penalty.violation(self.w, gradient).max(initial=0.0))

    def accelerate(self) -> None:
        before, after = np.sign(self._past[0][0][: self.w.size]), np.sign(self.w)
        if np.count_nonzero(before != after) <= self.columns.pace.settled * np.count_nonzero(after):
            self.newton()
        else:
            self.extrapolate()

    def extrapolate(self) -> None:
        """Move to the combination of the last iterates whose changes nearly cancel, if the model is smaller there."""
        points = np.stack([point for point, _ in self._past])
        changes = np.diff(points, axis=0)
        products = changes @ changes.T
        products[np.diag_indices_from(products)] += TINY * np.trace(products) + np.finfo(float).tiny
        shares = np.linalg.solve(products, np.ones(changes.shape[0]))
        shares /= shares.sum()
        w, b = self._split(shares @ points[1:])
        z = np.asarray(np.tensordot(shares, np.stack([z for _, z in self._past[1:]]), 1), np.float64)
        if self._energy(w, b, z) < self._energy(self.w, self.b, self.z):
            self.w, self.b, self.z = w, b, z

    def newton(self) -> None:
        """A truncated Newton step of the parameters that are not zero; those that would change their signs become zero.

        The step is halved until the model is smaller than before, and then as long as that reduces it further.  Up to
        the first zero the model decreases.
        """
        active = np.flatnonzero(self.w)
        step, change = self._newton_step(active)
        zeros = first_zeros(self.w[active], step[: active.size])
        best, found = self._energy(self.w, self.b, self.z), None
        for share in halves(float(zeros.min(initial=1.0))):
            trial = self._stepped(share * step, share * change, active, zeros <= share)
            energy = self._energy(*trial)
            if found is not None and energy >= best:
                break
            if energy < best:
                best, found = energy, trial
        self.w, self.b, self.z = found or trial  # a decrease below rounding cannot be seen

    def _stepped(
        self, step: FloatArray, change: FloatArray, active: Array, is_zero: Array
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Parameters, intercepts and z after a step of the active parameters, some of which become zero."""
        dw, db = self._split(step)
        w, z = self.w.copy(), self.z + change
        w[active] += dw
        if is_zero.any():
            crossed = active[is_zero]
            z -= self.columns.active_scores(crossed, w[crossed])
            w[crossed] = 0.0
        return w, self.b + db, z

    def _newton_step(self, active: Array) -> tuple[FloatArray, FloatArray]:
        """A step of the active parameters by conjugate gradients, b behind it, and ``X step + b``."""
        l2, n = self.penalty.l2, active.size
        bends = np.append(self.fixed[1][active] + l2, np.diag(self._intercept_bend))
        scale = 1.0 / np.maximum(bends, 1e-300)
        w = self.w[active]
        residual = -self._products(active, self.model.through(self.z))
        residual[:n] -= self.gradient[active] + self.penalty.l1 * np.sign(w) + l2 * w
        residual[n:] -= self.totals
        step, change = np.zeros(scale.size), np.zeros_like(self.z)
        search = scale * residual
        size = first = float(search @ residual)
        for _ in range(self.columns.pace.cg_steps):
            if size <= CG_ACCURACY**2 * first:
                break
            scores = self._scores(active, search)
            product = self._products(active, self.model.through(scores))
            if l2 > 0.0:
                product[:n] += l2 * search[:n]
            curvature = float(search @ product)
            if curvature <= 0.0:
                break
            t = size / curvature
            step += t * search
            change += t * scores
            residual -= t * product
            last, size = size, float(residual @ (scale * residual))
            search = scale * residual + (size / last) * search
        return step, change

    def _split(self, step: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Parameters, and the intercepts behind them."""
        n = step.size - self.b.size
        return step[:n].copy(), step[n:].copy()

    def _scores(self, active: Array, step: FloatArray) -> FloatArray:
        """``X step + b``."""
        scores = self.columns.active_scores(active, step[: active.size])
        return scores + step[active.size :] if self.b.size else scores

    def _products(self, active: Array, g: FloatArray) -> FloatArray:
        """``X' g`` for the active parameters, and the sums of g for the intercepts."""
        return np.append(self.columns.products(active, g), self.model.sums(g))

    def _move_intercept(self) -> None:
        if self.b.size:
            shift = -self._inverse @ (self.totals + self.model.sums(self.model.through(self.z)))
            self.b = self.b + shift
            self.z += shift

    def _energy(self, w: FloatArray, b: FloatArray, z: FloatArray) -> float:
        linear = float(self.gradient @ (w - self.start)) + float(self.totals @ b)
        return linear + 0.5 * float(np.vdot(z, self.model.through(z))) + self.penalty.value(w)
