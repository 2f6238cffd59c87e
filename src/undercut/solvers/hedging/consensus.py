"""The mean that the scenarios of a kernel machine agree on, and their prices for leaving it.

The mean ``(w, b)`` and the prices ``(mu_k, beta_k)`` follow the pulls x of the scenarios.  With N scenarios, ``rho``
the over-relaxation and ``c_b = weight c``,

    w' = w + rho / (1 + c) (x / N - w)            u' = u + rho c / (1 + c) (x - u),      mu_k = u_k - mean_k u
    b' = b + rho mean_k(s_k) / c_b                t' = t + rho (s - t),                  beta_k = t_k - mean_k t

where ``s_k`` is the sum of x over scenario k.  In the paper's notation ``pi_B = u`` and ``pi_A = -u / N``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from undercut.errors import require
from undercut.solvers.hedging.scenarios import Expansion, Scenarios
from undercut.trace import Status

LARGEST_FACTOR = 3.0  # by which c changes at once
FREE_STEPS = 50  # after which it changes less and less
FEW, FEW_LEAD, LEAD = 8, 2.2, 0.75  # what the imbalance is best multiplied by for few scenarios, and for many


@dataclass(frozen=True)
class Residuals:
    """How far the scenarios are from agreeing, and how far the mean moved: squared norms, the intercept included."""

    primal: float  # mean_k |mu_k' - mu_k|^2 / c^2: delta_2 + delta_4 of the paper
    dual: float  # |w' - w|^2: delta_1 + delta_3
    size: float  # |w|^2
    price: float  # mean_k |u_k|^2
    approximate: float  # what Proposition 4 has instead of all four

    @property
    def exact(self) -> float:
        """The exact stopping criterion, ``delta_1 + ... + delta_4``."""
        return self.primal + self.dual

    @property
    def is_known(self) -> bool:
        """Whether all four norms are positive, so that c can be balanced."""
        return min(self.primal, self.dual, self.size, self.price) > 0.0

    def imbalance(self, c: float) -> float:
        """``[primal / |w|] / [dual / (|u| / c)]`` in norms."""
        return math.sqrt(self.primal / self.size / (self.dual / (self.price / c**2)))


def balanced(c: float, residuals: Residuals, n_scenarios: int, step: int) -> float:
    """c by residual balancing; few, large scenarios do best with the primal residual smaller than the dual one.

    Late changes are small: c must converge, or the iterates need not.
    """
    if not residuals.is_known:
        return c
    lead = min(FEW_LEAD, max(LEAD, FEW_LEAD * math.sqrt(FEW / n_scenarios)))
    factor = min(max(lead * math.sqrt(residuals.imbalance(c)), 1.0 / LARGEST_FACTOR), LARGEST_FACTOR)
    return c * math.pow(factor, min(1.0, FREE_STEPS / step))


def check_hedging_settings(
    c: float | None,
    relaxation: float,
    accuracy: float,
    intercept_weight: float,
    epsilon: float = 0.0,
    criterion: str = "exact",
) -> None:
    """The domains of the settings of every hedging solver."""
    require(c is None or 0.0 < c < math.inf, "`c` must be positive and finite, or None", c)
    require(0.0 < relaxation < 2.0, "`relaxation` must be between 0 and 2", relaxation)
    require(accuracy > 0.0, "`accuracy` must be positive", accuracy)
    require(0.0 < intercept_weight < math.inf, "`intercept_weight` must be positive", intercept_weight)
    require(epsilon >= 0.0, "`epsilon` must be non-negative", epsilon)
    require(criterion in ("exact", "approximate"), "`criterion` must be 'exact' or 'approximate'", criterion)


def settled(residuals: Residuals | None, criterion: str, epsilon: float) -> Status | None:
    """The status of a run that a criterion of the paper ends, ``None`` to go on."""
    if residuals is None or epsilon == 0.0:
        return None
    measure = residuals.exact if criterion == "exact" else residuals.approximate
    return Status.SETTLED if measure < epsilon else None


@dataclass(frozen=True)
class Consensus:
    """w, u, b and t."""

    center: Expansion
    dual: Expansion
    center_b: float
    dual_b: Any  # one per scenario

    def seen(self, scenarios: Scenarios, c: float, c_b: float) -> Any:
        """``K omega_A - g pi_B / (1 + c) + b - beta / c`` of Definition 2: a scenario's scores before its own pull."""
        means = (c * self.center.scores + self.dual.scores / scenarios.n_scenarios - self.dual.own) / (1.0 + c)
        return means + self.center_b - scenarios.spread(self.dual_b - self.dual_b.mean()) / c_b

    def moved(self, pull: Expansion, totals: Any, c: float, c_b: float, rho: float) -> Consensus:
        """The next mean and prices."""
        n = len(self.dual_b)
        return Consensus(
            self.center.towards(pull, rho / (1.0 + c), 1.0 / n),
            self.dual.towards(pull, rho * c / (1.0 + c)),
            self.center_b + rho * float(totals.mean()) / c_b,
            self.dual_b + rho * (totals - self.dual_b),
        )

    def residuals(self, pull: Expansion, totals: Any, c: float, weight: float, rho: float) -> Residuals:
        """How far ``pull`` is from what was agreed; all products with K are known, so it takes linear time."""
        n, dual = len(self.dual_b), self.dual
        dissent, own, scores = pull.coef - dual.coef, pull.own - dual.own, pull.scores - dual.scores
        within = float(dissent @ own) / n / (1.0 + c) ** 2
        primal = within - float(dissent @ scores) / n**2 / (1.0 + c) ** 2
        step, rise = pull.coef / n - self.center.coef, pull.scores / n - self.center.scores
        move_b = float(totals.mean()) / (weight * c)
        dissent_b = (totals - totals.mean() - self.dual_b + self.dual_b.mean()) / (weight * c)
        return Residuals(
            rho**2 * (primal + weight * float(dissent_b @ dissent_b) / n),
            rho**2 * (float(step @ rise) / (1.0 + c) ** 2 + weight * move_b**2),
            float(self.center.coef @ self.center.scores) + weight * self.center_b**2,
            float(dual.coef @ dual.own) / n + float(self.dual_b @ self.dual_b) / (n * weight),
            within,
        )
