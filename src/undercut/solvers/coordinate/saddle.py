"""Some rows and columns of a saddle point problem, and primal-dual steps on it that restart.

    min_w max_v  l1 |w|_1 + l2/2 |w|^2 + <v, X w> - sum_i l_i*(v_i)

A step T moves w against ``X' v`` and then v along ``X (2 w' - w)``, each followed by a proximal map (Chambolle and Pock
2011).  Its reflections are averaged with an anchor (Halpern 1967), which is moved to the last point when that has come
much closer to a fixed point of T: restarts make convergence linear for linear programs (Lu and Yang 2024).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from undercut._jit import primal_dual as kernels
from undercut.deadline import expired
from undercut.maps.csr import ColumnParts, SparseDesign, by_columns
from undercut.solvers.coordinate.working.column_parts import some_columns
from undercut.solvers.coordinate.working.columns import SLICE
from undercut.types import Array, FloatArray

BATCH = 40  # steps between questions whether to restart, unless they read more than a slice of X
SUFFICIENT = 0.2  # share of the distance to a fixed point that must be left for a restart
NECESSARY = 0.8  # the same if the distance has begun to grow
LONGEST = 0.36  # of all steps: a restart after that many at the latest
POWER_STEPS = 40  # to estimate the norm of the scaled X
SAFETY = 0.97  # step sizes, as a share of the largest ones that this estimate allows
TOWARDS = 0.5  # share of the way, in logarithms, to the balance that the last steps suggest
FAINTEST = 1e-3  # of the largest sum of entries of a row or column: smaller sums count as that


class Losses(NamedTuple):
    """``sum_i left_i (s_i - kinks_0i) + sum_ki caps_ki max(0, s_i - kinks_ki)``, weights included."""

    left: FloatArray  # (n,)
    kinks: FloatArray  # (K, n)
    caps: FloatArray  # (K, n)

    def take(self, rows: Array) -> Losses:
        """Those of some samples."""
        return Losses(
            self.left[rows], np.ascontiguousarray(self.kinks[:, rows]), np.ascontiguousarray(self.caps[:, rows])
        )

    @property
    def ranges(self) -> FloatArray:
        """Largest slopes less smallest ones."""
        return np.asarray(self.caps.sum(axis=0))

    def distances(self, scores: FloatArray) -> FloatArray:
        """How far the next kink is; infinite where there is none."""
        return np.asarray(np.where(self.caps > 0.0, np.abs(scores - self.kinks), math.inf).min(axis=0))

    def slopes(self, scores: FloatArray) -> FloatArray:
        """Left derivatives."""
        return np.asarray(self.left + np.where(scores > self.kinks, self.caps, 0.0).sum(axis=0))

    def conjugate(self, v: FloatArray) -> FloatArray:
        """``l_i*(v_i)`` for slopes between the limits: kinks are passed in ascending order."""
        below = self.left + np.cumsum(self.caps, axis=0) - self.caps
        return np.asarray(self.left * self.kinks[0] + (np.clip(v - below, 0.0, self.caps) * self.kinks).sum(axis=0))


class Pair(NamedTuple):
    """Parameters, the intercept behind them if it is free, and slopes of the losses."""

    w: FloatArray
    v: FloatArray

    def copy(self) -> Pair:
        return Pair(self.w.copy(), self.v.copy())


class Run(NamedTuple):
    """Where the steps are."""

    at: Pair
    anchor: Pair
    image: Pair  # of the last point: exactly sparse
    balance: float  # step size of v in units of that of w
    total: int  # steps so far
    age: int = 0  # steps since the last restart
    first: float = math.inf  # distance to a fixed point after the first of these
    last: float = math.inf  # after the last of these


def started(at: Pair, balance: float, total: int) -> Run:
    """Steps that begin at a point."""
    return Run(at.copy(), at, at.copy(), balance, total)


class Saddle:
    """The problem restricted to some rows and columns; the slopes v of the other rows do not change.

    ``units`` : what one unit of the last parameter adds to every score, if the intercept is free; else empty.
    """

    def __init__(
        self, design: SparseDesign, losses: Losses, penalty: tuple[float, float], units: FloatArray,
        rows: Array, columns: Array, v: FloatArray,
    ) -> None:  # fmt: skip
        some = sp.csr_array(some_columns(design, columns).X)
        rest = v.copy()
        rest[rows] = 0.0
        self.losses = losses.take(rows)
        self.fixed = np.append(rest @ some, rest.sum() * units)
        some = some[rows]
        if units.size:
            some = sp.csr_array(sp.hstack([some, np.tile(units, (rows.size, 1))], format="csr"))
        X = sp.csr_array((some.data.astype(np.float64), some.indices.astype(np.int32), some.indptr), shape=some.shape)
        self.by_row: ColumnParts = (X.indptr, X.indices, X.data)
        self.by_column = by_columns(X)
        self.l1, self.l2 = (np.append(np.full(columns.size, term), np.zeros(units.size)) for term in penalty)
        self._scale(X)

    def _scale(self, X: sp.csr_array) -> None:
        """Step sizes by sums of absolute entries (Pock and Chambolle 2011), as long as the norm allows."""
        size = abs(X)
        columns, rows = np.asarray(size.sum(axis=0)).ravel(), np.asarray(size.sum(axis=1)).ravel()
        self.tau = 1.0 / np.maximum(columns, max(FAINTEST * columns.max(initial=0.0), 1e-300))
        self.sigma = 1.0 / np.maximum(rows, max(FAINTEST * rows.max(initial=0.0), 1e-300))
        factor = SAFETY / max(_norm(X, self.tau, self.sigma), 1e-300)
        self.tau *= factor
        self.sigma *= factor

    def first_balance(self) -> float:
        """The size of slopes in units of parameters that move the scores from kink to kink."""
        slopes = float((self.losses.ranges**2 / self.sigma).sum())
        scores = float((np.abs(self.losses.kinks).max(axis=0) ** 2 * self.sigma).sum())
        return math.sqrt(slopes / scores) if scores > 0.0 and slopes > 0.0 else 1.0

    def advanced(self, run: Run, n_steps: int) -> Run:
        """After some more steps, or as many as there is time for."""
        end = run.total + n_steps
        while run.total < end and not expired():
            run = self._batch(run)
        return run

    def _batch(self, run: Run) -> Run:
        """A few steps, and a restart where it is due."""
        fit = max(1, SLICE // (2 * self.by_row[2].size + 1))
        n_steps = min(BATCH, fit) if run.age else 1
        at, image = run.at.copy(), run.image.copy()
        square = kernels.iterate(
            self.by_row, self.by_column, self.fixed, *self.losses, self.l1, self.l2,
            self.tau / run.balance, self.sigma * run.balance, at, run.anchor, image, run.age, n_steps,
        )  # fmt: skip
        distance, age, total = math.sqrt(square), run.age + n_steps, run.total + n_steps
        if not run.age:
            return run._replace(at=at, image=image, total=total, age=age, first=distance, last=math.inf)
        close = distance <= SUFFICIENT * run.first or run.last < distance <= NECESSARY * run.first
        if close or age > LONGEST * total:
            return started(image, self._balance(run, image), total)
        return run._replace(at=at, image=image, total=total, age=age, last=distance)

    def _balance(self, run: Run, image: Pair) -> float:
        """A share of the way to the ratio of the distances that v and w have moved since the last restart."""
        w = float(((image.w - run.anchor.w) ** 2 / self.tau).sum())
        v = float(((image.v - run.anchor.v) ** 2 / self.sigma).sum())
        moved = math.sqrt(v / w) if v > 0.0 and w > 0.0 else run.balance
        return float(run.balance * (moved / run.balance) ** TOWARDS)


def _norm(X: sp.csr_array, tau: FloatArray, sigma: FloatArray) -> float:
    """The largest singular value of ``sigma^1/2 X tau^1/2``, by power iteration."""
    scale, norm = np.sqrt(tau), 0.0
    vector = np.random.default_rng(0).standard_normal(tau.size)
    for _ in range(POWER_STEPS):
        vector /= max(float(np.linalg.norm(vector)), 1e-300)
        vector = scale * ((sigma * (X @ (scale * vector))) @ X)
        norm = math.sqrt(float(np.linalg.norm(vector)))
    return norm
