"""One predictor-corrector step of a primal-dual interior point method (Mehrotra 1992) on a ``KinkedProgram``."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from undercut._jit import barrier
from undercut._jit.central_path import (
    BEHIND,
    BEYOND,
    FIRST_DAMPING,
    FURTHER,
    LEAST,
    LEAST_GAIN,
    LONG,
    MAX_CORRECTIONS,
    MOST_DAMPING,
    NOISE,
    SHORT,
    SHORT_OF_BOUNDARY,
    TRUST,
    TRUSTED,
)
from undercut.solvers.newton.interior.kinked_program import KinkedProgram, by_kink
from undercut.solvers.newton.interior.systems import ParameterSystem, system
from undercut.types import FloatArray


def centered(program: KinkedProgram, scores: FloatArray, mu: float) -> FloatArray:
    """Slacks t, r and slopes u, v with ``r u = t v = share mu``."""
    inside = np.empty_like(program.packed)
    barrier.center(scores, by_kink(program.packed), mu, by_kink(inside))
    return inside


def outside(program: KinkedProgram) -> FloatArray:
    """Slacks of zero, and slopes at a limit: a point that is no start for a step."""
    inside = np.zeros_like(program.packed)
    inside[3] = program.kinks.caps
    return inside


class Iterate(NamedTuple):
    """x, its scores ``A x``, and the slacks and slopes; ``total = sum r u + t v``."""

    x: FloatArray
    scores: FloatArray
    inside: FloatArray  # t, r, u and v of the kinks: (4, K, N), positive where the cap is, else zero
    total: float
    damping: float = 0.0  # of the step that led here


class Prediction(NamedTuple):
    """The step towards mu = 0: the change of the kinks, how far it may go (at most 1), and the mu to aim at."""

    change: FloatArray
    reach: float
    mu: float


class Move(NamedTuple):
    """A step: the right-hand sides p and q that it solves, its direction, and how far it may go (at most 1)."""

    aim: FloatArray  # p and q: (2, K N)
    dx: FloatArray
    change: FloatArray  # dt, dr and du: (3, K N)
    reach: float


class Equations:
    """The linearized equations at an iterate, whose matrix is factored once for several right-hand sides."""

    def __init__(self, program: KinkedProgram, at: Iterate, residual: FloatArray, damping: float) -> None:
        self.program, self.at, self.residual = program, at, residual  # residual: q'(w) + A' g
        self.kinks, self.inside = by_kink(program.packed), by_kink(at.inside)
        self.weights, self.pull, self.bend = self.room(2), np.empty_like(at.scores), np.empty_like(at.scores)
        barrier.weigh(at.scores, self.kinks, self.inside, self.weights, self.bend)
        self.curve = program.curve(at.scores)
        if self.curve is not None:
            self.bend[: program.rows.n] += self.curve.bend + damping * np.abs(self.curve.slopes)
        self._system = system(program, self.bend) if damping == 0.0 else ParameterSystem(program, self.bend)

    def room(self, numbers: int) -> FloatArray:
        """An array with that many numbers per kink."""
        return np.empty((numbers, self.kinks.shape[1]))

    def predicted(self) -> Prediction:
        """The step towards mu = 0, and the mu to aim at: the smaller, the further that step goes."""
        dx, change, inverse = self._solved(self._aim(np.zeros((3, self.kinks.shape[1])), 0.0, 0.0))
        total, reach = self.at.total, 1.0 / max(inverse, 1.0)
        left = max(0.0, barrier.advance(self.inside, change, reach, self.room(4)))
        mu = (left / total) ** 3 * self.program.mu(total) if total > 0.0 else 0.0
        if self.curve is not None:  # no faster than smooth losses approach their optimum
            mu = max(mu, self.program.mu(min(total, BEHIND * abs(float(self.residual @ dx)))))
        return Prediction(change, reach, mu)

    def corrected(self, first: Prediction, share: float) -> Move:
        """The step that aims at mu and allows for a share of the second-order terms of the predicted step."""
        return self._move(self._aim(first.change, first.mu, share))

    def recentered(self, move: Move, mu: float) -> Move:
        """A step that may go further, because products far from mu are led back (Gondzio 1996)."""
        aim, step = self.room(2), min(1.0, move.reach + FURTHER)
        barrier.recenter(self.kinks, self.inside, move.change, move.aim, step, mu, BEYOND, aim)
        return self._move(aim)

    def trusted(self, move: Move) -> float:
        """How far a step may go: no further than f agrees with its quadratic model, up to a share of what is gained."""
        if self.curve is None:
            return move.reach
        n, reach, start = self.program.rows.n, move.reach, self.at.scores
        ds = self.program.rows.matvec(move.dx)[:n]  # not those of the equations: rounding may differ
        slope, square = float(self.curve.slopes @ ds), float(self.curve.bend @ ds**2)
        expected, noise = abs(float(self.residual @ move.dx)), NOISE * abs(self.curve.value)
        while reach > LEAST:
            value = self.program.smooth_value(start[:n] + reach * ds)
            error = abs(value - self.curve.value - reach * slope - 0.5 * reach**2 * square)
            if error <= TRUST * (self.at.total + reach * expected) + noise:
                break
            reach *= 0.5
        return reach

    def _move(self, aim: FloatArray) -> Move:
        dx, change, inverse = self._solved(aim)
        return Move(aim, dx, change, min(1.0, SHORT_OF_BOUNDARY / max(inverse, SHORT_OF_BOUNDARY)))

    def _aim(self, change: FloatArray, mu: float, share: float) -> FloatArray:
        """p and q that aim at mu and allow for a share of the second-order terms of a step."""
        aim = self.room(2)
        barrier.aim_at(self.kinks, self.inside, change, mu, share, aim)
        return aim

    def _solved(self, aim: FloatArray) -> tuple[FloatArray, FloatArray, float]:
        """dx, dt with dr and du, and the inverse of the longest step."""
        change = self.room(3)
        barrier.attract(self.inside, self.weights, aim, change, self.pull)
        dx, ds = self._system.solve(self.residual, self.pull)
        return dx, change, barrier.solve(self.inside, self.weights, aim, ds, change)


def step(program: KinkedProgram, at: Iterate, residual: FloatArray) -> tuple[Iterate, float]:
    """The next iterate and the length of the step; ``residual`` is ``q'(w) + A' g``.

    Where smooth losses allow a small part of a step only, curvature proportional to their slopes is added (damping),
    and the equations of the size of x are solved, whose errors are smaller far from the optimum.
    """
    damping = 0.1 * at.damping if at.damping > FIRST_DAMPING else 0.0
    while True:
        equations = Equations(program, at, residual, damping)
        move = _longest(equations)
        reach = equations.trusted(move)
        if reach > TRUSTED * move.reach or damping > MOST_DAMPING:
            break
        damping = max(10.0 * damping, FIRST_DAMPING)
    inside = np.empty_like(at.inside)
    total = barrier.advance(equations.inside, move.change, reach, by_kink(inside))
    x = at.x + reach * move.dx
    return Iterate(x, program.rows.matvec(x), inside, total, damping), reach


def _longest(equations: Equations) -> Move:
    """A predictor-corrector step, corrected further where it is short."""
    first = equations.predicted()
    move = equations.corrected(first, 1.0)
    if move.reach < SHORT:  # the second-order terms of a step that is much too long mislead
        move = max(move, equations.corrected(first, first.reach**2), key=lambda one: one.reach)
    for _ in range(MAX_CORRECTIONS):
        if move.reach > LONG:
            break
        longer = equations.recentered(move, first.mu)
        gain = longer.reach - move.reach
        if gain > 0.0:
            move = longer
        if gain < LEAST_GAIN * FURTHER:
            break
    return move
