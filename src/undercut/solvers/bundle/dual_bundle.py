"""Planes with any regularizer.

A strongly convex one has a smooth dual, which ``SimplexDual`` maximizes.  One that is not, such as L1, whose master
problem is a linear program, is minimized by proximal points of the model (Rockafellar 1976):

    v <- argmin_w  reg(w) + R_t(w) + tau/2 |w - v|^2

Each of them has a smooth dual, and after finitely many v is a minimizer of the model itself.

The weights alpha of a proximal point need not be feasible for the model: ``reg*(-A' alpha)`` may be infinite, as for L1
where ``|A' alpha|_inf > lam``.  With the risk's own lower bound as the flat plane every s in [0, 1] gives

    J(w)  >=  reg(w) + s (<A' alpha, w> + alpha' b) + (1 - s) lower_bound
          >=  s alpha' b + (1 - s) lower_bound - reg*(-s A' alpha)

and the largest s for which the dual is finite makes a bound that holds whatever alpha is.
"""

from __future__ import annotations

import math
from typing import cast

import numpy as np
from typing_extensions import override

from undercut.contracts import ProximalRegularizer, QuadraticRegularizer, Regularizer
from undercut.deadline import expired
from undercut.regularizers import SeparableRegularizer
from undercut.solvers.bounds import ROUNDING
from undercut.solvers.bundle.bundle import Bundle, Model, PlaneModel, ProximalStep
from undercut.solvers.bundle.master import Weights
from undercut.solvers.bundle.plane_rows import FIRST_CAPACITY, PlaneRows
from undercut.solvers.bundle.planes import Planes
from undercut.solvers.bundle.simplex_dual import DualPoint, SimplexDual, product
from undercut.types import FloatArray

MAX_ROUNDS = 20
MAX_STEPS = 50  # Newton steps per new plane: any weights prove a bound, and the next problem goes on from them
PROXIMAL_STEPS = 15  # Newton steps per proximal point where many planes are new: the next point corrects a rough one
TINY = 1e-100  # the least tolerance, for an objective of zero
INNER_ACCURACY = 0.1  # a proximal point is computed to this share of the tolerance, and the next to this share of that
LONGER = 0.3  # what tau is multiplied by when a proximal point was not enough
SHORTER = 1.5  # what tau is multiplied by when the first one was
PRECISION = 1e-13  # of z, relative to the planes it is made of
IN_VAIN = 0.99  # a round that leaves more than this share of the duality gap made no progress
MAX_VAIN = 3  # stop after this many rounds without progress: rounding limits the accuracy
NEARLY = 0.2  # a zero parameter joins the working set within this share of l1 of leaving zero
MAX_JOINS = 5


class DualBundle(PlaneModel):
    """Planes whose master problem is solved in the dual of any regularizer."""

    def __init__(self, reg: Regularizer, n_params: int, lower_bound: float = -math.inf) -> None:
        self.reg = reg
        self.master = Weights(FIRST_CAPACITY)
        self.near = Weights(FIRST_CAPACITY)
        self._n_new = 0  # planes since the last master problem
        self.planes = Planes(PlaneRows(n_params), (self.master, self.near), self._count)
        self._anchor: FloatArray | None = None  # the last proximal point of the model
        self._tau = 0.0
        self._floor = lower_bound
        self._steps_left = 0  # Newton steps that the current master problem may still take
        if math.isfinite(lower_bound):
            self.planes.insert_flat(lower_bound)

    def _count(self, slot: int) -> None:
        self._n_new += 1

    @override
    def minimize(self, tol: float) -> Model:
        tol = max(tol, ROUNDING * float(self.planes.size.max()), TINY)
        self._steps_left = MAX_STEPS * max(1, self._n_new)
        self._n_new = 0
        curvature = self.reg.strong_convexity
        if isinstance(self.reg, ProximalRegularizer) and not 0.0 < curvature >= self._least_curvature(tol):
            model = self._by_proximal_points(self.reg, tol)
        else:
            model = self._minimum(tol)
        self.planes.age(self.master.alpha, 1)
        return model

    def regularize(self, reg: Regularizer) -> None:
        """Keep the planes and their weights, and take another regularizer."""
        self.reg = reg

    def minimize_near(self, center: FloatArray, tau: float, tol: float) -> ProximalStep:
        """Minimize ``reg + R_t`` and the regularizer's own proximal term."""
        proximal = cast(ProximalRegularizer, self.reg)  # checked before the run
        self._steps_left = MAX_STEPS
        w = self._solve(proximal.near(center, tau), self.near, tol, MAX_STEPS)
        self.planes.age(self.near.alpha, 0)
        return ProximalStep(w, self._value(w))

    def _minimum(self, tol: float) -> Model:
        w = self._solve(self.reg, self.master, tol, MAX_STEPS)
        return self.proved()._replace(w=w)

    def _by_proximal_points(self, reg: ProximalRegularizer, tol: float) -> Model:
        if self._anchor is None:
            self._anchor, self._tau = self.reg.conjugate_argmax(np.zeros(self.planes.A.shape[1])), self._first_tau()
        bound, left, vain, tau = -math.inf, math.inf, 0, self._tau
        per_point = PROXIMAL_STEPS if self._steps_left > 2 * MAX_STEPS else MAX_STEPS
        for at in range(MAX_ROUNDS):
            near = reg.near(self._anchor, tau)
            w = self._solve(near, self.master, INNER_ACCURACY ** (at + 1) * tol, per_point)
            proved = self.proved()
            self._anchor, bound, last = w, max(bound, proved.lower_bound), left
            left = min(left, self._value(w) - bound)
            if left <= IN_VAIN * last:
                vain, self._tau = 0, tau
            elif tau * float(w @ w) <= self.reg.value(w):  # else the proximal term is still too large
                vain += 1
            if left <= tol or vain == MAX_VAIN or self._steps_left <= 0 or expired():
                break
            tau = max(LONGER * tau, self._least_curvature(tol))
        if at == 0:
            self._tau = min(SHORTER * self._tau, self._first_tau())
        return Model(w, bound, proved.size)

    def _least_curvature(self, tol: float) -> float:
        """Below it rounding moves w, which is z over the curvature, so far that no height is known to ``tol``."""
        return PRECISION * float(self.planes.norm.max()) * float(self.master.alpha @ self.planes.norm) / tol

    def _first_tau(self) -> float:
        steepest, size = float(self.planes.norm.max()), float(self.planes.size.max())
        return steepest**2 / size if steepest > 0.0 and size > 0.0 else 1.0

    def _solve(self, reg: Regularizer, weights: Weights, tol: float, max_steps: int) -> FloatArray:
        """The minimizer of ``reg + R_t``; ``weights`` are where the search starts, and become what it finds."""
        top = self.planes.top
        if isinstance(reg, SeparableRegularizer):
            return self._solve_active(reg, weights, tol, max_steps)
        dual = SimplexDual(reg, self.planes.A[:top], self.planes.b[:top], self.planes.live)
        found = self._climb(dual, weights.alpha[:top], tol, max_steps)
        weights.alpha[:top] = found.alpha
        return found.w

    def _climb(self, dual: SimplexDual, alpha: FloatArray, tol: float, max_steps: int) -> DualPoint:
        found, n_steps = dual.climb(alpha, tol, min(max_steps, self._steps_left))
        self._steps_left -= n_steps
        return found

    def _solve_active(self, reg: SeparableRegularizer, weights: Weights, tol: float, max_steps: int) -> FloatArray:
        """The same by the parameters alone that are not zero, or nearly so; more join until all others stay zero."""
        top = self.planes.top
        A, b, alpha = self.planes.A[:top], self.planes.b[:top], weights.alpha[:top]
        z = -(alpha @ A)
        active = reg.active(z, NEARLY)
        for _ in range(MAX_JOINS):
            dual = SimplexDual(reg.take(active), A[:, active], b, self.planes.live)
            alpha[:] = self._climb(dual, alpha, tol, max_steps).alpha
            z = -(alpha @ A)
            if not (reg.active(z) & ~active).any():
                break
            active |= reg.active(z, NEARLY)
        return reg.conjugate_argmax(z)

    def _value(self, w: FloatArray) -> float:
        """``reg(w) + R_t(w)``."""
        top = self.planes.top
        heights = product(self.planes.A[:top], w) + self.planes.b[:top]
        return self.reg.value(w) + float(heights[self.planes.live].max())

    def proved(self) -> Model:
        """What the weights prove, less what rounding may have added."""
        top = self.planes.top
        alpha = self.master.alpha[:top]
        z, steepness = -(alpha @ self.planes.A[:top]), float(alpha @ self.planes.norm[:top])
        share = self.reg.shrinkage(z, ROUNDING * steepness)
        b = share * float(alpha @ self.planes.b[:top])
        if share < 1.0:
            b += (1.0 - share) * self._floor
        w = self.reg.conjugate_argmax(share * z)
        size = float(alpha @ self.planes.size[:top]) + steepness * float(np.linalg.norm(w))
        return Model(w, b - self.reg.conjugate(share * z) - ROUNDING * size, size)


def bundle_for(reg: Regularizer, n_params: int, lower_bound: float) -> Bundle | DualBundle:
    """An empty bundle that can solve the master problems of a regularizer."""
    if isinstance(reg, QuadraticRegularizer):
        return Bundle(reg, n_params, lower_bound)
    return DualBundle(reg, n_params, lower_bound)
