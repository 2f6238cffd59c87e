"""Every regularizer beside the same one in NumPy and in CVXPY, and the optimum that a conic solver finds with it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import cvxpy as cp
import numpy as np
from tests.catalogue import Optimum, Problem

from undercut import L1, L2, ElasticNet
from undercut.contracts import DifferentiableRegularizer, Regularizer
from undercut.regularizers import BlockSum, Boxed, Entropy, Quadratic, SquaredLp

N = 5
PRIOR = np.array([1.0, 2.0, 3.0, 4.0, 5.0]) / 15.0
CENTER, WEIGHTS = np.array([1.0, -2.0, 0.0, 3.0, 0.5]), np.array([0.5, 1.0, 2.0, 0.1, 1.5])
LOWER, UPPER = np.array([-0.1, 0.0, -np.inf, -0.2, 0.05]), np.array([0.1, np.inf, 0.3, 0.0, 1.0])


def _spd() -> np.ndarray:
    root = np.random.default_rng(3).standard_normal((N, N))
    return root @ root.T + 0.1 * np.eye(N)


B = _spd()


def _entropy(prior: np.ndarray) -> Callable[[Any], Any]:
    return lambda w: float(sum(x * np.log(x / p) for x, p in zip(w, prior, strict=True) if x > 0.0))


class Shifted(DifferentiableRegularizer):
    """``|w|^2 / 2 - 5``: its minimum is not zero."""

    strong_convexity = 1.0

    def value(self, w):
        return 0.5 * float(w @ w) - 5.0

    def conjugate(self, z):
        return 0.5 * float(z @ z) + 5.0

    def conjugate_argmax(self, z):
        return z.copy()

    def gradient(self, w):
        return w.copy()


@dataclass(frozen=True)
class RegularizerCase:
    """A regularizer with lambda left open, its formula, its atom, and what CVXPY must be told of its domain."""

    name: str
    make: Callable[[float], Regularizer]
    formula: Callable[[Any], Any]  # without lambda
    atom: Callable[[Any], Any]
    domain: Callable[[Any], list[Any]] = lambda w: []
    project: Callable[[np.ndarray], np.ndarray] = lambda w: w  # into the domain, from nearby


def _half_square(w: Any) -> Any:
    return 0.5 * w @ w


def _on_simplex(w: np.ndarray) -> np.ndarray:
    return np.maximum(w, 0.0) / np.maximum(w, 0.0).sum()


CASES = {
    case.name: case
    for case in (
        RegularizerCase("l1", L1, lambda w: np.abs(w).sum(), cp.norm1),
        RegularizerCase(
            "elastic_net",
            lambda lam: ElasticNet(lam, l1_ratio=0.3),
            lambda w: 0.3 * np.abs(w).sum() + 0.35 * w @ w,
            lambda w: 0.3 * cp.norm1(w) + 0.35 * cp.sum_squares(w),
        ),
        RegularizerCase(
            "nearly_l1",
            lambda lam: ElasticNet(lam, l1_ratio=0.999),
            lambda w: 0.999 * np.abs(w).sum() + 0.0005 * w @ w,
            lambda w: 0.999 * cp.norm1(w) + 0.0005 * cp.sum_squares(w),
        ),
        RegularizerCase(
            "entropy",
            Entropy,
            _entropy(np.full(N, 1.0 / N)),
            lambda w: cp.sum(cp.rel_entr(w, np.full(N, 1.0 / N))),
            lambda w: [cp.sum(w) == 1.0],
            _on_simplex,
        ),
        RegularizerCase(
            "entropy_prior",
            lambda lam: Entropy(lam, prior=PRIOR),
            _entropy(PRIOR),
            lambda w: cp.sum(cp.rel_entr(w, PRIOR)),
            lambda w: [cp.sum(w) == 1.0],
            _on_simplex,
        ),
        RegularizerCase(
            "squared_lp",
            lambda lam: SquaredLp(lam, p=1.5),
            lambda w: 0.5 * np.sum(np.abs(w) ** 1.5) ** (4.0 / 3.0),
            lambda w: 0.5 * cp.square(cp.pnorm(w, 1.5)),
        ),
        RegularizerCase(
            "quadratic",
            lambda lam: Quadratic(lam, B),
            lambda w: 0.5 * w @ B @ w,
            lambda w: 0.5 * cp.quad_form(w, cp.psd_wrap(B)),
        ),
        RegularizerCase(
            "non_negative_l2",
            lambda lam: Boxed(L2(lam, center=CENTER, weights=WEIGHTS), lower=0.0),
            lambda w: _half_square((w - CENTER) * WEIGHTS),
            lambda w: 0.5 * cp.sum_squares(cp.multiply(WEIGHTS, w - CENTER)),
            lambda w: [w >= 0.0],
            lambda w: np.maximum(w, 0.0),
        ),
        RegularizerCase(
            "non_negative_l1",
            lambda lam: Boxed(L1(lam), lower=0.0),
            lambda w: np.abs(w).sum(),
            cp.norm1,
            lambda w: [w >= 0.0],
            lambda w: np.maximum(w, 0.0),
        ),
        RegularizerCase(
            "boxed_l1",
            lambda lam: Boxed(L1(lam), lower=LOWER, upper=UPPER),
            lambda w: np.abs(w).sum(),
            cp.norm1,
            lambda w: (
                [w[i] >= LOWER[i] for i in range(N) if np.isfinite(LOWER[i])]
                + [w[i] <= UPPER[i] for i in range(N) if np.isfinite(UPPER[i])]
            ),
        ),
        RegularizerCase(
            "blocks",
            lambda lam: BlockSum([(2, L1(lam)), (slice(2, 5), L2(2.0 * lam))]),
            lambda w: np.abs(w[:2]).sum() + w[2:] @ w[2:],
            lambda w: cp.norm1(w[:2]) + cp.sum_squares(w[2:]),
        ),
    )
}


@cache
def optimum(case: str, problem: Problem) -> Optimum:
    """The minimizer of ``problem``'s risk with another regularizer, according to Clarabel, and J there."""
    which = CASES[case]
    w, b = cp.Variable(problem.d), cp.Variable()
    losses = problem.case.atom(problem.y, problem.X @ w + (b if problem.fit_intercept else 0.0))
    total = problem.lam * which.atom(w) + problem._shares() @ losses
    program = cp.Problem(cp.Minimize(total), which.domain(w))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "may be inaccurate": it is asked for more than it always reaches
        program.solve(solver=cp.CLARABEL, tol_gap_abs=1e-9, tol_gap_rel=1e-9, tol_feas=1e-9)
    assert program.status in (cp.OPTIMAL, cp.OPTIMAL_INACCURATE), program.status
    point, intercept = which.project(w.value), float(b.value) if problem.fit_intercept else 0.0
    losses = problem.case.formula(problem.y, problem.X @ point + intercept)
    return Optimum(point, intercept, float(problem.lam * which.formula(point) + problem._shares() @ losses))
