"""The regret bounds of Do, Le, Foo (2009), as functions.

Regret is ``sum_t f_t(w_t) - min_{|u| <= R} sum_t f_t(u)``; ``G_t`` bounds the subgradient of f_t at w_t.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize_scalar


def subgradient_bound(lam: ArrayLike, G: ArrayLike) -> float:
    """Lemma 1: ``1/2 sum_t G_t^2 / lambda_{1:t}`` for Algorithm 1.

    >>> subgradient_bound([1.0, 1.0], [2.0, 2.0])
    3.0
    """
    lam, G = np.asarray(lam, dtype=float), np.asarray(G, dtype=float)
    return float(0.5 * np.sum(G**2 / np.cumsum(lam)))


def proximal_bound(tau: ArrayLike, lam: ArrayLike, G: ArrayLike, R: float) -> float:
    """Corollary 1: ``1/2 sum_t [4 tau_t R^2 + G_t^2 / (lambda_{1:t} + tau_{1:t})]``.

    >>> proximal_bound([1.0], [1.0], [2.0], R=1.0)
    3.0
    """
    tau, lam, G = (np.asarray(values, dtype=float) for values in (tau, lam, G))
    return float(0.5 * np.sum(4.0 * tau * R**2 + G**2 / (np.cumsum(lam) + np.cumsum(tau))))


def balanced_bound(lam: ArrayLike, G: ArrayLike, R: float) -> float:
    """Theorem 1: twice the smallest ``proximal_bound``, which puts all curvature into tau_1 (Prop. 1).

    >>> round(balanced_bound([1.0], [2.0], R=1.0), 6)
    4.0
    """
    lam, G = np.asarray(lam, dtype=float), np.asarray(G, dtype=float)

    def bound(tau: float) -> float:
        return float(0.5 * (4.0 * tau * R**2 + np.sum(G**2 / (np.cumsum(lam) + tau))))

    upper = math.sqrt(float(np.sum(G**2))) / (2.0 * R)  # the minimizer without lambda
    best = minimize_scalar(bound, bounds=(0.0, upper), method="bounded", options={"xatol": 1e-12 * upper})
    return 2.0 * min(bound(0.0), float(best.fun))


def single_tau_bound(tau: float, R: float, G: float, lam: float, T: int) -> float:
    """Theorem 2: ``B(tau) = 4 tau R^2 + G^2/lam [1 / (1 + tau/lam) + log((T + tau/lam) / (1 + tau/lam))]``.

    >>> round(single_tau_bound(0.0, R=1.0, G=1.0, lam=1.0, T=1), 6)
    1.0
    """
    ratio = tau / lam
    return 4.0 * tau * R**2 + G**2 / lam * (1.0 / (1.0 + ratio) + math.log((T + ratio) / (1.0 + ratio)))


def rounds_to_guarantee(epsilon: float, delta: float, R: float, G: float, lam: float) -> float:
    """Theorem 4's phase: rounds after which a random iterate is epsilon-optimal with probability ``1 - delta``.

    >>> rounds_to_guarantee(epsilon=1.0, delta=1.0, R=1.0, G=1.0, lam=1e-9)
    16.0
    """
    by_ball = (4.0 * R * G / (delta * epsilon)) ** 2
    return min(by_ball, rounds_by_curvature(epsilon, delta, G, lam))


def phases_to_guarantee(epsilon: float, radius: float, lam: float) -> int:
    """The largest number of phases of Algorithm 3 in the ball ``|w| <= radius``.

    R starts at ``min(1, radius)`` and grows by sqrt(2) where ``|w| >= R - sqrt(2 epsilon / lam)``, which no longer
    happens beyond ``radius + sqrt(2 epsilon / lam)``.  With a radius of ``1 / sqrt(lam)`` and epsilon below 1/2 these
    are the ``3 - log2(lam)`` phases of the paper.

    >>> phases_to_guarantee(epsilon=0.49, radius=2.0**5, lam=2.0**-10)
    13
    """
    reach = radius + math.sqrt(2.0 * epsilon / lam)
    return 2 + math.floor(2.0 * math.log2(reach / min(1.0, radius)))


def rounds_by_curvature(epsilon: float, delta: float, G: float, lam: float) -> float:
    """The smallest T with ``G^2 (1 + log T) / (delta lam T) <= epsilon``.

    >>> rounds_by_curvature(epsilon=1.0, delta=1.0, G=1.0, lam=1.0)
    1.0
    """
    factor = G**2 / (delta * lam)

    def excess(T: float) -> float:
        return factor * (1.0 + math.log(T)) / T - epsilon

    if excess(1.0) <= 0.0:
        return 1.0
    low, high = 1.0, 2.0
    while excess(high) > 0.0:
        low, high = high, 2.0 * high
    while high - low > max(1.0, 1e-12 * high):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if excess(middle) > 0.0 else (low, middle)
    return float(math.ceil(high))
