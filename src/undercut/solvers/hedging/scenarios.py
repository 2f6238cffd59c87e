"""Scenarios of progressive hedging for kernel machines: single samples, or blocks of them.

Scenario k holds N times the loss of its samples, so that the mean over the N scenarios is the risk.  Given the
mean and its price, its program (Defourny and Wehenkel, Eq. 9) has the dual

    min_a  1/2 x' (scale K_kk + ridge 1 1') x - sum_i q_i a_i,      x = y a,   0 <= a_i <= N cap_i

over its own samples; ``q = 1 - y seen``, ``scale = 1 / (1 + c)``, ``ridge = 1 / c_b``, zero without an intercept.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from typing_extensions import override

from undercut._jit.box_qp import solve_box
from undercut.devices import beside, boxed, library
from undercut.maps.gram import Gram, check_memory
from undercut.threads import each
from undercut.types import Array, FloatArray

MAX_PAIRS = 50  # per sample of a block
TINY = 1e-300


@dataclass(frozen=True)
class Expansion:
    """``sum_j coef_j k(x_j, .)``, its scores ``K coef``, and ``own``: those by its own scenario's samples alone.

    The scores are ``K anchor + K' (coef - anchor)`` with K exact and K' as stored, which may be rounded.
    """

    rows: Any  # these four, together because they move together

    @classmethod
    def of(cls, coef: Any, scores: Any, own: Any, anchor: Any) -> Expansion:
        """From its parts."""
        return cls(library(coef).stack([coef, scores, own, anchor]))

    @property
    def coef(self) -> Any:
        return self.rows[0]

    @property
    def scores(self) -> Any:
        return self.rows[1]

    @property
    def own(self) -> Any:
        return self.rows[2]

    @property
    def anchor(self) -> Any:
        return self.rows[3]

    def exact(self, scores: Any) -> Expansion:
        """With scores in double precision."""
        return Expansion.of(self.coef, scores, self.own, self.coef)

    def towards(self, other: Expansion, t: float, share: float = 1.0) -> Expansion:
        """``self + t (share other - self)``."""
        return Expansion((1.0 - t) * self.rows + (t * share) * other.rows)


class Scenarios(ABC):
    """How the samples are divided, and how the programs are solved."""

    def __init__(self, gram: Gram, y: FloatArray, cap: FloatArray, n_scenarios: int) -> None:
        self.n_scenarios, self.diagonal = n_scenarios, gram.diagonal
        self.y, self.cap = beside(y, self.diagonal), beside(n_scenarios * cap, self.diagonal)

    @abstractmethod
    def solve(self, seen: Any, scale: float, ridge: float, last: Expansion, tol: float) -> tuple[Any, Any]:
        """The new coefficients x and their ``own`` scores, from the last ones and the scores without them."""

    @abstractmethod
    def own(self, coef: Any) -> Any:
        """The scores by the samples of the same scenario."""

    @abstractmethod
    def totals(self, coef: Any) -> Any:
        """The sum of the coefficients in each scenario."""

    @abstractmethod
    def spread(self, values: Any) -> Any:
        """One value per scenario as one per sample."""


class Samples(Scenarios):
    """Every sample a scenario: Eq. 10 in closed form (Definition 2)."""

    def __init__(self, gram: Gram, y: FloatArray, cap: FloatArray) -> None:
        super().__init__(gram, y, cap, gram.n_samples)

    @override
    def solve(self, seen: Any, scale: float, ridge: float, last: Expansion, tol: float) -> tuple[Any, Any]:
        curvature = scale * self.diagonal + ridge + TINY  # k(x, x) = 0: the coefficient goes to a bound
        coef = self.y * boxed((1.0 - self.y * seen) / curvature, self.cap)
        return coef, self.own(coef)

    @override
    def own(self, coef: Any) -> Any:
        return self.diagonal * coef

    @override
    def totals(self, coef: Any) -> Any:
        return coef

    @override
    def spread(self, values: Any) -> Any:
        return values


class Blocks(Scenarios):
    """Blocks of samples, each with its share of both classes, solved by coordinate descent in pairs on all threads."""

    def __init__(self, gram: Gram, y: FloatArray, cap: FloatArray, n_blocks: int) -> None:
        super().__init__(gram, y, cap, n_blocks)
        check_memory(f"the Gram matrices of {n_blocks} blocks", y.size, -(-y.size // n_blocks), gram.itemsize)
        order = np.argsort(y, kind="stable")
        self.rows: list[Array] = [np.sort(order[at::n_blocks]) for at in range(n_blocks)]
        self.matrices = [gram.block(rows) for rows in self.rows]
        self._home = np.empty(y.size, dtype=np.int64)
        for at, rows in enumerate(self.rows):
            self._home[rows] = at

    @override
    def solve(self, seen: Any, scale: float, ridge: float, last: Expansion, tol: float) -> tuple[Any, Any]:
        coef, own, q = last.coef.copy(), last.own.copy(), 1.0 - self.y * seen

        def solve_block(at: int) -> None:
            rows, K = self.rows[at], self.matrices[at]
            x, scores = coef[rows], own[rows]
            y, cap, diagonal, limit = self.y[rows], self.cap[rows], self.diagonal[rows], MAX_PAIRS * rows.size
            solve_box(K, diagonal, y, cap, q[rows], scale, ridge, x, scores, tol, limit)
            coef[rows], own[rows] = x, scores

        each(solve_block, range(self.n_scenarios))
        return coef, own

    @override
    def own(self, coef: Any) -> Any:
        own = np.empty_like(coef)
        for rows, K in zip(self.rows, self.matrices, strict=True):
            own[rows] = K @ coef[rows]
        return own

    @override
    def totals(self, coef: Any) -> Any:
        return np.bincount(self._home, weights=coef, minlength=self.n_scenarios)

    @override
    def spread(self, values: Any) -> Any:
        return values[self._home]
