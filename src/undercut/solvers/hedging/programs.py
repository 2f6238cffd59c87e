"""The program of one scenario in progressive hedging, solved where the shard is.

With the price ``mu_k = c (z_k - w)`` Definition 1 is a step of Douglas and Rachford's method for the points ``z_k``,
whose mean is w:

    P_k:   x_k = argmin_x  reg(x) + R_k(x) + c/2 |x - (2 w - z_k)|^2
           z_k' = z_k + rho (x_k - w),      w' = mean_k z_k'

A scenario is thus one point and a start for its next program, and only w and ``z_k`` travel.  Where shards share a free
intercept b, it is the last entry of all these points, has no penalty, and its share of the norm has a weight:
``c_b = weight c``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from undercut.contracts import Regularizer, Risk
from undercut.errors import NonfiniteError
from undercut.regularizers import L2
from undercut.regularizers.block_sum import BlockSum
from undercut.regularizers.proximal import Proximal
from undercut.risks.combined.tilted import TiltedRisk
from undercut.risks.scores.bias import joint, priced, slope_range
from undercut.risks.scores.linear import LinearRisk
from undercut.solvers.bounds import balanced
from undercut.solvers.driver import Stop, minimize
from undercut.trace import Result, Status
from undercut.types import FloatArray

MAX_INNER_STEPS = 10_000


class Order(NamedTuple):
    """What all scenarios are told before a step."""

    center: FloatArray  # w, and b
    c: float  # zero: solve the shard's problem by itself
    tol: float  # gap to which the programs are solved
    rescale: float = 1.0  # the last c over this one


@dataclass(frozen=True)
class Scenario:
    """The state of a shard."""

    z: FloatArray
    copy: FloatArray  # x_k, where the next program starts
    move: FloatArray  # rho (x_k - w)
    dissent: float = 0.0  # |x_k - w|^2
    price: float = 0.0  # |reg'(w) + mu_k|^2
    spent: int = 0  # evaluations of the shard's risk

    @classmethod
    def at(cls, z: FloatArray) -> Scenario:
        """A scenario that knows only its point."""
        return cls(z, z, np.zeros_like(z))


@dataclass(frozen=True)
class Programs:
    """How the programs of a run are made and solved; ``weight`` is that of the intercept, zero without a shared one."""

    reg: Regularizer
    inner: Any
    relaxation: float
    weight: float = 0.0

    @property
    def n_free(self) -> int:
        """How many parameters have no penalty."""
        return int(self.weight > 0.0)

    def advance(self, shard: Risk, scenario: Scenario, order: Order) -> Scenario:
        """Solve the program, and move z."""
        w, rho = order.center, self.relaxation if order.c > 0.0 else 1.0
        price = order.rescale * (scenario.z - w)
        result = self._solved(shard, scenario, order, price)
        x = result.w if result.w.size == w.size else np.append(result.w, 0.0)  # a single shard knows its best b itself
        off = x - w
        pull = order.c * self.metric(w.size) * price + self._gradient(w)
        return Scenario(
            w + price + rho * off,
            x,
            rho * off,
            self.square(off),
            float((pull / self.metric(w.size)) @ pull),
            result.n_evaluations,
        )

    def report(self, scenario: Scenario) -> FloatArray:
        """z, |x - w|^2, the size of the price and the evaluations, to be averaged."""
        return np.append(scenario.z, [scenario.dissent, scenario.price, scenario.spent])

    def bound(self, shard: Risk, scenario: Scenario, order: Order, beta: float) -> FloatArray:
        """``min_v reg(v) + R_k(v) + <mu_k, v>`` from below, the intercept at the price beta; the evaluations, and z."""
        d = shard.n_params
        mu = order.c * (scenario.z[:d] - order.center[:d])
        result = self._at_price(shard, mu, beta, scenario.copy[:d], order.tol)
        proved = result.lower_bound if result.certificate == "global" else -math.inf
        return np.append([proved, float(result.n_evaluations)], scenario.z)

    def tie(self, shard: Risk, scenario: Scenario, order: Order) -> tuple[float, float, float]:
        """The price of the intercept, and the range in which it has a finite minimum."""
        assert isinstance(shard, LinearRisk)
        low, high = slope_range(shard)
        return self.weight * order.c * float(scenario.z[-1] - order.center[-1]), -high, -low

    def copy(self, shard: Risk, scenario: Scenario, order: Order, item: None) -> FloatArray:
        """x."""
        return scenario.copy

    def square(self, v: FloatArray) -> float:
        """``|v|^2`` with the weight of the intercept."""
        return float((self.metric(v.size) * v) @ v)

    def metric(self, size: int) -> FloatArray:
        """The weight of each entry in the norm."""
        weights = np.ones(size)
        weights[size - self.n_free :] = self.weight
        return weights

    def _gradient(self, w: FloatArray) -> FloatArray:
        if not isinstance(self.reg, L2):
            return np.zeros_like(w)
        return np.append(self.reg.gradient(w[: w.size - self.n_free]), np.zeros(self.n_free))

    def _solved(self, shard: Risk, scenario: Scenario, order: Order, price: FloatArray) -> Result:
        """The result of P_k; without its proximal term if c is zero."""
        d, anchor = shard.n_params, order.center - price
        if order.c == 0.0:
            return self._at_price(shard, np.zeros(d), 0.0, scenario.copy[:d], order.tol)
        tau = order.c * self.metric(anchor.size)
        risk = joint(shard) if self.n_free and isinstance(shard, LinearRisk) else shard
        flat = np.zeros_like(anchor)
        if isinstance(self.reg, L2):
            reg: Regularizer = Proximal.of(self.reg, anchor, tau, flat, self.n_free).reg
        elif self.n_free == 0:
            risk, reg = TiltedRisk(risk, flat, order.c, anchor), self.reg
        else:
            reg = BlockSum([(d, self.reg), (1, L2(float(tau[-1]), center=anchor[-1:]))])
            risk = TiltedRisk(risk, flat, np.append(tau[:-1], 0.0), anchor)
        return _checked(minimize(risk, reg, self.inner, w0=scenario.copy, stop=_stop(order.tol)))

    def _at_price(self, shard: Risk, mu: FloatArray, beta: float, start: FloatArray, tol: float) -> Result:
        """The minimum of ``reg(v) + R_k(v) + <mu, v>``, of ``min_b R_k(v, b) + beta b`` with an intercept."""
        risk, constant = shard, 0.0
        if self.n_free and isinstance(shard, LinearRisk):
            risk, tilt, constant = priced(shard, beta)
            mu = mu + tilt
        if not isinstance(self.reg, L2):
            problem = TiltedRisk(risk, mu, 0.0, np.zeros_like(mu))
            result = _checked(minimize(problem, self.reg, self.inner, w0=start, stop=_stop(tol)))
            return replace(result, lower_bound=result.lower_bound + constant)
        proximal = Proximal.of(self.reg, np.zeros_like(mu), 0.0, mu)
        result = _checked(minimize(risk, proximal.reg, self.inner, w0=start, stop=_stop(tol)))
        return replace(result, lower_bound=result.lower_bound + proximal.constant + constant)


def feasible_prices(ties: list[tuple[float, float, float]], weights: FloatArray) -> FloatArray:
    """The prices of the intercepts within their ranges, with a weighted sum of zero."""
    beta, low, high = np.array(ties).T
    return np.asarray(balanced(weights * np.clip(beta, low, high)) / weights)


def _stop(tol: float) -> Stop:
    return Stop(gap_abs=tol, gap_rel=0.0, max_steps=MAX_INNER_STEPS)


def _checked(result: Result) -> Result:
    if result.status is Status.STOPPED:  # Ctrl-C is for the run, not for a program
        raise KeyboardInterrupt
    if result.status is Status.NONFINITE:
        raise NonfiniteError(result.detail)
    return result
