"""Columns that are visited one at a time while ``z = X (v - w) + b`` is kept up to date.

Each epoch visits the parameters in another random order.  In a fixed order, descent takes many times as many epochs
where columns point in similar directions, as those of frequent words do (Sun and Ye 2021; Lee and Wright 2019).  Once
hardly any signs change, it takes turns with Newton steps by conjugate gradients on the parameters that are not zero.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import numpy as np
from typing_extensions import override

from undercut._jit import sparse_model, working_set as kernels
from undercut._jit.permute import permute
from undercut.deadline import expired
from undercut.maps.csr import ColumnParts, SparseDesign
from undercut.maps.dense import DenseDesign
from undercut.solvers.coordinate.working.column_parts import column_parts
from undercut.solvers.coordinate.working.columns import (
    SLICE,
    Columns,
    Model,
    ModelGap,
    Move,
    Penalty,
    PointwiseModel,
    Tolerance,
    first_zeros,
    halves,
    inverted,
)
from undercut.threads import all_threads
from undercut.types import Array, FloatArray

EPOCHS = 4  # of coordinate descent before a Newton step, at most
SETTLED = 0.01  # share of the parameters that may become zero or cease to be in the last of them before one
CG_ACCURACY = 0.1  # share of the residual that conjugate gradients may leave
CG_STEPS = (
    10,
    80,
)  # at most: the first for the first Newton step, twice as many after each, because signs have settled
GOLDEN = 0x9E3779B97F4A7C15  # odd, about 2^64 over the golden ratio: multiples differ in most bits
NONE: tuple[Array, ColumnParts] = (np.empty(0, np.int64), (np.zeros(1, np.int64), np.empty(0, np.int32), np.empty(0)))


class DirectColumns(Columns):
    """Columns with epochs of coordinate descent."""

    derived: ClassVar = ("parts", "XT", "_bends", "_means")
    n_samples: int
    n_entries: int

    @property
    def n_params(self) -> int:
        return self.ids.size

    def work(self, trial: Trial) -> int:
        """What the last round has cost, in entries, at most."""
        return (EPOCHS + max(CG_STEPS)) * (self.n_entries + self.n_samples)

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
        self, model: Model, w: FloatArray, gradient: FloatArray, penalty: Penalty, tol: Tolerance, n_rounds: int
    ) -> Move:
        return self.refined(Trial(self, model, penalty, w, gradient), tol, n_rounds)

    def refined(self, trial: Trial, tol: Tolerance, n_rounds: int) -> Move:
        """Where a trial is after more rounds."""
        work = 0
        for _ in range(n_rounds):
            if not trial.descend(tol) or expired():
                break
            if trial.is_settled:
                trial.newton()
            last = self.work(trial)
            work += last
            if work + last > SLICE:
                break
        return Move(trial.w, trial.z)


class CompressedColumns(DirectColumns):
    """Columns of which only the entries that are not zero are stored."""

    parts: ColumnParts


class SparseColumns(CompressedColumns):
    """Columns of a design with one parameter each; ``last`` is the working set before.

    A model of which a gap is asked for is minimized by cyclic descent as long as that is fast.
    """

    is_slow = False  # whether cyclic descent turned out to be

    def __init__(self, design: SparseDesign, ids: Array, last: Columns | None = None) -> None:
        known = last if isinstance(last, SparseColumns) else None
        self.ids = ids
        self.is_slow = known is not None and known.is_slow
        self.n_samples = design.shape[0]
        self.parts = column_parts(design, ids, *((known.ids, known.parts) if known else NONE))
        self.n_entries = self.parts[1].size

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
        self._means = _means(self, model)
        return out

    @override
    def epoch(self, trial: Trial, active: Array) -> float:
        assert isinstance(trial.model, PointwiseModel)
        fixed = (*trial.fixed, self._means, trial.unit)
        return float(kernels.descend(*self.parts, trial.model.bend, trial.z, *fixed, trial.w, active))

    @override
    def minimize(
        self, model: Model, w: FloatArray, gradient: FloatArray, penalty: Penalty, tol: Tolerance, n_rounds: int
    ) -> Move:
        if tol.gap is None or self.is_slow:
            return super().minimize(model, w, gradient, penalty, tol, n_rounds)
        now, b, self.is_slow = self._descended(model, w, gradient, penalty, tol.gap)
        z = self.scores(now - w) + b
        if not self.is_slow:
            return Move(now, z)
        trial = Trial(self, model, penalty, w, gradient)
        trial.go_to(now, b, z)
        return self.refined(trial, tol, n_rounds)

    def _descended(
        self, model: Model, w: FloatArray, gradient: FloatArray, penalty: Penalty, gap: ModelGap
    ) -> tuple[FloatArray, float, bool]:
        """Parameters and intercept after cyclic descent, and whether it ended because it is slow."""
        assert isinstance(model, PointwiseModel)
        starts, rows, values = self.parts
        root, total = np.sqrt(model.bend), float(model.totals.sum())
        scaled, bends, means = np.empty_like(values), np.empty(w.size), np.empty(w.size)
        sparse_model.scale(starts, rows, values, root, scaled, bends, means)
        is_bent = model.bend > 0.0
        size = float((model.slopes[is_bent] ** 2 / model.bend[is_bent]).sum())
        unit = float(inverted(model.intercept_bend)[0, 0]) if model.free else 0.0
        fit = max(1, SLICE // (sparse_model.EPOCHS * (self.n_entries + self.n_samples)))
        now, q = w.copy(), np.zeros(self.n_samples)
        is_fast = sparse_model.descend(
            (starts, rows, scaled, bends, means), root, gradient, total, unit, size, *penalty, w, *gap, fit, now, q
        )
        return now, -unit * (total + float(means @ (now - w))), not is_fast


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
        self._means = _means(self, model)
        return np.asarray(np.einsum("ji,ji->j", self.XT * model.bend, self.XT))

    @override
    def epoch(self, trial: Trial, active: Array) -> float:
        assert isinstance(trial.model, PointwiseModel)
        fixed = (*trial.fixed, self._means, trial.unit)
        return float(kernels.descend_dense(self.XT, trial.model.bend, trial.z, *fixed, trial.w, active))


def _means(columns: DirectColumns, model: PointwiseModel) -> FloatArray:
    """``X' D 1``, by which a change of an intercept changes the gradient; zero without one."""
    return columns.gradient(model.bend) if model.free else np.zeros(columns.n_params)


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
        self.fixed = (self.gradient, columns.bends(model), *penalty)
        self._cg_steps = CG_STEPS[0]
        self.visits = 0  # epochs and steps of conjugate gradients in the last round
        self.is_settled = False  # whether a Newton step is worthwhile
        self._seed = int(gradient[:1].view(np.uint64).sum())  # other orders for other models
        self._move_intercept()

    @property
    def unit(self) -> float:
        """By which share of an excess of the slopes a single intercept changes; 0 without one."""
        return float(self._inverse[0, 0]) if self._inverse.size else 0.0

    def go_to(self, w: FloatArray, b: float, z: FloatArray) -> None:
        """Go on from other parameters and their intercept, of which there is one at most."""
        self.w, self.b, self.z = w, np.full(self.b.size, b), z

    def descend(self, tol: Tolerance) -> bool:
        """A few epochs over the parameters that are not zero or would not stay so, unless ``tol`` is met.

        Whether there were any.
        """
        gradient = self.gradient
        if self.z.any():
            gradient = gradient + self.columns.gradient(self.model.through(self.z))
            if tol.is_met(self.w, gradient, self.penalty):
                return False
        active = np.flatnonzero((self.w != 0.0) | (np.abs(gradient) > self.penalty.l1))
        self.visits = 0
        for _ in range(EPOCHS):
            self.visits += 1
            before = np.count_nonzero(self.w)
            met = self.columns.epoch(self, self._permuted(active))
            self._move_intercept()
            active = np.flatnonzero(self.w)
            self.is_settled = bool(met > tol.violation and abs(before - active.size) <= SETTLED * active.size)
            if met <= tol.violation:
                break
        return True

    def _permuted(self, active: Array) -> Array:
        """In another random order each time; ``active`` is overwritten."""
        self._seed += 1
        permute(active, active.size, np.uint64(self._seed * GOLDEN % 2**64 | 1))
        return active

    def newton(self) -> None:
        """A truncated Newton step of the parameters that are not zero; those that would change their signs become zero.

        The step is halved until the model is smaller than before, and then as long as that reduces it further.  Up to
        the first zero the model decreases.
        """
        active = np.flatnonzero(self.w)
        step, change = self._newton_step(active)
        self._cg_steps = min(2 * self._cg_steps, CG_STEPS[1])
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
        self._move_intercept()  # which conjugate gradients have not done exactly, and epochs rely on

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
        for _ in range(self._cg_steps):
            if size <= CG_ACCURACY**2 * first:
                break
            self.visits += 1
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
        return linear + 0.5 * float(z.ravel("K") @ self.model.through(z).ravel("K")) + self.penalty.value(w)
