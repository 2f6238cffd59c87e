"""One predictor-corrector step of a primal-dual interior point method (Mehrotra 1992) on a ``KinkedProgram``."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from undercut._jit import barrier
from undercut.solvers.newton.kinked_program import KinkedProgram
from undercut.types import FloatArray

SHORT_OF_BOUNDARY = 0.995  # share of the longest step: slacks and slopes stay positive
RIDGE = 1e-15  # relative: the first that is tried where rounding makes the Newton matrix indefinite


class Inside(NamedTuple):
    """Slacks t, r and slopes u, v of the kinks: float64 arrays (K, N), positive where the cap is, else zero."""

    t: FloatArray
    r: FloatArray
    u: FloatArray
    v: FloatArray

    @classmethod
    def centered(cls, program: KinkedProgram, scores: FloatArray, mu: float) -> Inside:
        """The point with ``r u = t v = mu``."""
        inside = cls._empty(program.kinks.caps.shape)
        barrier.center(scores, program.kinks.kinks, program.kinks.caps, mu, *inside)
        return inside

    @classmethod
    def _empty(cls, shape: tuple[int, ...]) -> Inside:
        return cls(*(np.empty(shape) for _ in range(4)))

    def moved(self, caps: FloatArray, dt: FloatArray, dr: FloatArray, du: FloatArray, step: float) -> tuple[Inside, float]:
        """The point after a step, and ``sum r u + t v`` there."""
        to = self._empty(caps.shape)
        return to, barrier.advance(caps, *self, dt, dr, du, step, *to)


class Iterate(NamedTuple):
    """x, its scores ``A x``, and the slacks and slopes; ``total = sum r u + t v``."""

    x: FloatArray
    scores: FloatArray
    inside: Inside
    total: float


def step(program: KinkedProgram, at: Iterate, residual: FloatArray) -> tuple[Iterate, float]:
    """The next iterate and the length of the step; ``residual`` is ``q'(w) + A' g``."""
    kinks, caps = program.kinks.kinks, program.kinks.caps
    where = (at.scores, kinks, caps, *at.inside)
    D, p, q, du = (np.empty(caps.shape) for _ in range(4))
    bend, pull = np.empty_like(at.scores), np.empty_like(at.scores)

    # 1. The step towards mu = 0, and how far it could go: it says how small a mu to aim at.
    barrier.predict(*where, D, bend, pull)
    factor = _factored(program.newton_matrix(bend))
    dx = _solve(factor, residual + program.rows.rmatvec(pull))
    ds = program.rows.matvec(dx)
    inverse, bent = barrier.reach(*where, D, ds)
    reached = max(0.0, at.total * (1.0 - 1.0 / inverse) + bent / inverse**2)
    aim = at.total * (reached / at.total) ** 3 / (2 * program.n_kinks)

    # 2. The same matrix with the second-order terms of that step.
    barrier.correct(*where, D, ds, aim, p, q, pull)
    dx = _solve(factor, residual + program.rows.rmatvec(pull))
    ds = program.rows.matvec(dx)
    inverse = barrier.finish(*where, D, ds, p, q, du)

    # 3. As far as all slacks and slopes stay positive.
    length = min(1.0, SHORT_OF_BOUNDARY / max(inverse, 1e-300))
    inside, total = at.inside.moved(caps, q, p, du, length)
    return Iterate(at.x + length * dx, at.scores + length * ds, inside, total), length


def _factored(H: FloatArray) -> Any:
    """The Cholesky factor of H, with the smallest ridge that lets the factorization through."""
    ridge = RIDGE * float(np.trace(H))
    while True:
        try:
            return cho_factor(H, check_finite=False)
        except LinAlgError:
            H[np.diag_indices_from(H)] += ridge
            ridge *= 100.0


def _solve(factor: Any, force: FloatArray) -> FloatArray:
    """``-H^-1 force``."""
    solved: FloatArray = cho_solve(factor, force, check_finite=False)
    return -solved
