"""From a point near the solution of a saddle point problem to the optimum, by interior point steps on some columns.

Primal-dual steps find out which parameters and samples matter, and then approach the optimum slowly.  A point (w, v)
says more than w alone: for every kink there is one point on the central path of a small mu that is next to both its
score s and its slope u0,

    t - r + soft (u - u0) = s - kink,      r u = t v = share mu       (t, r, u, v as in ``_jit/barrier.py``)

so that slacks and slopes are balanced, and miss the equations of the path by little.  Some ten steps are left from
there, instead of some thirty.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from undercut._jit import barrier
from undercut.maps.csr import SparseDesign
from undercut.regularizers import L1, ElasticNet
from undercut.risks import LinearRisk
from undercut.solvers.coordinate.working.column_parts import some_columns
from undercut.solvers.newton.interior import mehrotra
from undercut.solvers.newton.interior.kinked_program import KinkedProgram, by_kink
from undercut.solvers.newton.interior.mehrotra import Iterate
from undercut.types import Array, FloatArray

SOFT = 0.3  # change of a score, in mean distances from kinks, that counts as much as the whole range of a slope
ROOM = 10.0  # the sum of the products of slacks and slopes at the start, in units of what the point misses
SPARSER = 1e-2  # relative size of a parameter that counts as zero where the slopes beside zero are equal
FLOPS = 25.0  # operations of a factorization that take as long as one entry of a sparse product


@dataclass(frozen=True)
class NewtonEnd:
    """A point near the central path of the problem with the parameters of some columns alone."""

    derived: ClassVar = ("program",)

    program: KinkedProgram
    columns: Array  # int64, ascending
    at: Iterate
    length: float = 1.0  # of the last step

    @property
    def slopes(self) -> FloatArray:
        """Those of the losses."""
        return self._slopes[: self.program.rows.n]

    @property
    def _slopes(self) -> FloatArray:
        return self.program.slopes(self.at.inside[2], self.at.inside[3])

    @property
    def intercept(self) -> float:
        """0 where there is none."""
        return float(self.at.x[self.columns.size :].sum())

    def parameters(self, n_params: int) -> FloatArray:
        """Of all columns, and exactly zero where the slopes say so."""
        w = np.zeros(n_params)
        u, v = self.at.inside[2:]
        w[self.columns] = self.program.candidate(self.at.x[: self.columns.size], u, v, SPARSER)
        return w

    def advanced(self) -> NewtonEnd:
        """After one step."""
        residual = self.program.gradient(self.at.x) + self.program.rows.rmatvec(self._slopes)
        at, length = mehrotra.step(self.program, self.at, residual)
        return replace(self, at=at, length=length)

    def widened(self, risk: LinearRisk, reg: L1 | ElasticNet, gradient: FloatArray, columns: Array) -> NewtonEnd:
        """The same point with more columns; ``gradient`` is ``X' v`` of all."""
        x = np.append(np.zeros(columns.size), self.at.x[self.columns.size :])
        known, n = np.isin(columns, self.columns), self.program.rows.n
        x[: columns.size][known] = self.at.x[: self.columns.size]
        program = program_of(risk, reg, columns, self.program.first)
        scores = program.rows.matvec(x)
        near = _nearest(program, scores, self.slopes, gradient[columns], self.at.total)
        kept = np.append(np.ones(n, bool), known)
        near[:, :, kept] = self.at.inside
        t, r, u, v = near
        return NewtonEnd(program, columns, Iterate(x, scores, near, float((r * u + t * v).sum())))


def begun(
    risk: LinearRisk, reg: L1 | ElasticNet, columns: Array, w: FloatArray, v: FloatArray, gradient: FloatArray,
    objective: float,
) -> NewtonEnd:  # fmt: skip
    """From parameters w of some columns, the intercept behind them if it is free, and slopes v of the losses.

    ``gradient`` is ``X' v`` of all columns.
    """
    program = program_of(risk, reg, columns, objective)
    scores = program.rows.matvec(w)
    missed = _missed(program, scores, _shares(program, v, gradient[columns]))
    total = max(ROOM * missed, np.finfo(float).eps * program.size(scores))
    inside = _nearest(program, scores, v, gradient[columns], total)
    return NewtonEnd(program, columns, Iterate(w, scores, inside, total))


def program_of(risk: LinearRisk, reg: L1 | ElasticNet, columns: Array, objective: float) -> KinkedProgram:
    """The problem with the parameters of some columns alone."""
    assert isinstance(risk.design, SparseDesign)
    some = some_columns(risk.design, columns)
    return KinkedProgram(risk.like(some, risk.loss, fit_intercept=risk.fit_intercept), reg, objective)


def n_operations(risk: LinearRisk, n_columns: int) -> float:
    """What a step costs, in entries of sparse products."""
    size = min(risk.n_samples, n_columns)
    return size**3 / (3.0 * FLOPS) + n_columns**2


def _shares(program: KinkedProgram, v: FloatArray, gradient: FloatArray) -> FloatArray:
    """The slopes of all kinks that make slopes v of the losses, and those of the penalty that balance them: (K, N)."""
    kinks = program.kinks
    below = kinks.left + np.cumsum(kinks.caps, axis=0) - kinks.caps
    return np.asarray(np.clip(np.append(v, -gradient) - below, 0.0, kinks.caps))


def _missed(program: KinkedProgram, scores: FloatArray, u: FloatArray) -> float:
    """By how much the kinks lie above the planes of their slopes."""
    z = scores - program.kinks.kinks
    return float(((program.kinks.caps - u) * np.maximum(z, 0.0) + u * np.maximum(-z, 0.0)).sum())


def _nearest(
    program: KinkedProgram, scores: FloatArray, v: FloatArray, gradient: FloatArray, total: float
) -> FloatArray:
    """Slacks and slopes with ``r u = t v = share mu`` next to the scores and the slopes."""
    packed, u = program.packed.copy(), _shares(program, v, gradient)
    caps, n = program.kinks.caps, program.rows.n
    with np.errstate(divide="ignore"):
        for part in (slice(0, n), slice(n, None)):
            distance = np.abs(scores[part] - program.kinks.kinks[:, part])
            used = (caps[:, part] > 0.0) & (distance > 0.0)
            mean = float(distance[used].mean()) if used.any() else 1.0
            packed[2, :, part] = np.where(caps[:, part] > 0.0, SOFT * mean / caps[:, part], 0.0)
    packed[0] -= packed[2] * u
    inside = np.empty_like(packed)
    barrier.center(scores, by_kink(packed), program.mu(total), by_kink(inside))
    return inside
