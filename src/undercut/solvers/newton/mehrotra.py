"""One predictor-corrector step of a primal-dual interior point method (Mehrotra 1992) on a ``KinkedProgram``."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from undercut._jit import barrier
from undercut.solvers.newton.kinked_program import KinkedProgram
from undercut.solvers.newton.systems import ParameterSystem, system
from undercut.types import FloatArray

SHORT_OF_BOUNDARY = 0.995  # share of the longest step: slacks and slopes stay positive
FURTHER, LEAST_GAIN = 0.3, 0.1  # what a correction should add to the length of a step, and the share it must add
BEYOND = 10.0  # products are corrected that differ from their aim by more than this factor
MAX_CORRECTIONS = 2
SHORT = 0.01  # steps below this length are tried with less correction
LONG = 0.9  # steps beyond this length need no correction
TRUST = 0.5  # share of the expected gain by which smooth losses may differ from their quadratic model
NOISE = 1e-14  # relative: smaller differences of smooth losses are rounding
LEAST = 1e-10  # shortest step that is tried
BEHIND = 0.1  # what is left of the products is at least this share of the gain expected of smooth losses
TRUSTED = 0.1  # share of a step that smooth losses must allow
FIRST_DAMPING, MOST_DAMPING = 1e-3, 1e8  # added curvature, relative to the slopes of the losses


class Inside(NamedTuple):
    """Slacks t, r and slopes u, v of the kinks: float64 arrays (K, N), positive where the cap is, else zero."""

    t: FloatArray
    r: FloatArray
    u: FloatArray
    v: FloatArray

    @classmethod
    def centered(cls, program: KinkedProgram, scores: FloatArray, mu: float) -> Inside:
        """The point with ``r u = t v = share mu``."""
        inside = cls._empty(program.kinks.caps.shape)
        barrier.center(scores, *program.kinks[1:], mu, program.share, *inside)
        return inside

    @classmethod
    def outside(cls, program: KinkedProgram) -> Inside:
        """Slacks of zero, and slopes at a limit: a point that is no start for a step."""
        caps = program.kinks.caps
        zero = np.zeros_like(caps)
        return cls(zero, zero, zero, caps)

    @classmethod
    def _empty(cls, shape: tuple[int, ...]) -> Inside:
        return cls(*(np.empty(shape) for _ in range(4)))

    def moved(
        self, caps: FloatArray, dt: FloatArray, dr: FloatArray, du: FloatArray, step: float
    ) -> tuple[Inside, float]:
        """The point after a step, and ``sum r u + t v`` there."""
        to = self._empty(caps.shape)
        return to, barrier.advance(caps, *self, dt, dr, du, step, *to)


class Iterate(NamedTuple):
    """x, its scores ``A x``, and the slacks and slopes; ``total = sum r u + t v``."""

    x: FloatArray
    scores: FloatArray
    inside: Inside
    total: float
    damping: float = 0.0  # of the step that led here


class Prediction(NamedTuple):
    """The step towards mu = 0: the change of the scores, how far it may go (at most 1), and the mu to aim at."""

    ds: FloatArray
    reach: float
    mu: float


class Move(NamedTuple):
    """A step: the right-hand sides p and q that it solves, its direction, and how far it may go (at most 1)."""

    p: FloatArray
    q: FloatArray
    dx: FloatArray
    change: tuple[FloatArray, FloatArray, FloatArray]  # dt, dr, du
    reach: float


class Equations:
    """The linearized equations at an iterate, whose matrix is factored once for several right-hand sides."""

    def __init__(self, program: KinkedProgram, at: Iterate, residual: FloatArray, damping: float) -> None:
        self.program, self.at, self.residual = program, at, residual  # residual: q'(w) + A' g
        self.where = (at.scores, *program.kinks[1:], *at.inside)
        self.D, self.pull = self.room(), np.empty_like(at.scores)
        self.bend = np.empty_like(at.scores)
        barrier.predict(*self.where, self.D, self.bend, self.pull)
        self.curve = program.curve(at.scores)
        if self.curve is not None:
            self.bend[: program.rows.n] += self.curve.bend + damping * np.abs(self.curve.slopes)
        self._system = system(program, self.bend) if damping == 0.0 else ParameterSystem(program, self.bend)

    def room(self) -> FloatArray:
        """An array with a number per kink."""
        return np.empty(self.program.kinks.caps.shape)

    def predicted(self) -> Prediction:
        """The step towards mu = 0, and the mu to aim at: the smaller, the further that step goes."""
        dx, ds = self._system.solve(self.residual, self.pull)
        inverse, bent = barrier.reach(*self.where, self.D, ds)
        total = self.at.total
        left = max(0.0, total * (1.0 - 1.0 / inverse) + bent / inverse**2)
        mu = (left / total) ** 3 * self.program.mu(total) if total > 0.0 else 0.0
        if self.curve is not None:  # no faster than smooth losses approach their optimum
            mu = max(mu, self.program.mu(min(total, BEHIND * abs(float(self.residual @ dx)))))
        return Prediction(ds, 1.0 / inverse, mu)

    def corrected(self, first: Prediction, share: float) -> Move:
        """The step that aims at mu and allows for a share of the second-order terms of the predicted step."""
        p, q = self.room(), self.room()
        barrier.correct(*self.where, self.D, first.ds, first.mu, self.program.share, share, p, q, self.pull)
        return self._move(p, q)

    def recentered(self, move: Move, mu: float) -> Move:
        """A step that may go further, because products far from mu are led back (Gondzio 1996)."""
        p, q = self.room(), self.room()
        step = min(1.0, move.reach + FURTHER)
        aim = (step, mu, BEYOND, self.program.share)
        barrier.recenter(*self.where, self.D, move.p, move.q, *move.change, *aim, p, q, self.pull)
        return self._move(p, q)

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

    def _move(self, p: FloatArray, q: FloatArray) -> Move:
        dx, ds = self._system.solve(self.residual, self.pull)
        change = (self.room(), self.room(), self.room())
        inverse = barrier.solve(*self.where, self.D, p, q, ds, *change)
        return Move(p, q, dx, change, min(1.0, SHORT_OF_BOUNDARY / max(inverse, SHORT_OF_BOUNDARY)))


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
    inside, total = at.inside.moved(program.kinks.caps, *move.change, reach)
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
