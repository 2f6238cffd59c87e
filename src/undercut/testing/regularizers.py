"""Checks of a regularizer: Fenchel duality, convexity, curvature, proximal form."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from undercut.contracts import ProximalRegularizer, QuadraticRegularizer, Regularizer
from undercut.testing.tolerance import ROUNDING, magnitude
from undercut.types import FloatArray

SCALES = (0.0, 1e-3, 1.0, 30.0)  # of the points where a regularizer is checked


def check_regularizer(reg: Regularizer, n_params: int, *, n_points: int = 10, random_state: int = 0) -> None:
    """Check a regularizer against its Fenchel dual at random points of several sizes, and where they are attained.

    Fenchel-Young: ``reg(w) + reg*(z) >= <z, w>``, with equality at ``conjugate_argmax(z)``, ``reg*(0) = -min reg``
    included; convexity, and strong convexity as declared; arguments are not modified; where the dual is infinite
    ``shrinkage`` leads to where it is not; the proximal form ``near`` is one; for a quadratic one the parts of the dual
    fit together.
    """
    rng = np.random.default_rng(random_state)
    points = [rng.standard_normal(n_params) for _ in range(n_points)]
    scaled = [scale * w for scale in SCALES for w in points[:3]] + points[3:]
    reachable = [_inside(reg, z) for z in scaled]
    _check_fenchel_young(reg, reachable, scaled)
    _check_convexity(reg, [reg.conjugate_argmax(z) for z in reachable] + scaled)
    duals = [_inside(reg, z) for z in points]
    if reg.strong_convexity > 0.0:
        _check_curvature(reg, np.stack(points), duals[0])
    if isinstance(reg, ProximalRegularizer):
        _check_near(reg, duals)
    if isinstance(reg, QuadraticRegularizer):
        _check_quadratic(reg, points)


def _inside(reg: Regularizer, z: FloatArray) -> FloatArray:
    """z, or the nearest multiple of it where the dual is finite."""
    before = z.copy()
    share = reg.shrinkage(z, 0.0)
    assert 0.0 <= share <= 1.0, f"shrinkage: must be in [0, 1]; got {share}"
    finite = bool(np.isfinite(reg.conjugate(z)))
    assert np.array_equal(z, before), "conjugate, shrinkage: must not modify z"
    assert finite or share < 1.0, "shrinkage: must be below 1 where conjugate is infinite"
    assert finite or not reg.has_finite_dual, "has_finite_dual: there is a z where conjugate is infinite"
    inside: FloatArray = z if finite else share * (1.0 - ROUNDING) * z
    assert np.isfinite(reg.conjugate(inside)), f"shrinkage: conjugate is infinite at {share} z too"
    return inside


def _check_fenchel_young(reg: Regularizer, duals: list[FloatArray], points: list[FloatArray]) -> None:
    before = [z.copy() for z in duals]
    attaining = [reg.conjugate_argmax(z).copy() for z in duals]
    assert all(map(np.array_equal, duals, before)), "conjugate_argmax: must not modify z"
    for z, best in zip(duals, attaining, strict=True):
        conjugate = reg.conjugate(z)
        attained = float(z @ best) - reg.value(best)
        size = magnitude(conjugate, attained, float(z @ best))
        assert abs(attained - conjugate) <= ROUNDING * size, (
            f"conjugate_argmax: attains {attained} where conjugate is {conjugate}"
        )
        for w in [*points, *attaining]:
            if not np.isfinite(reg.value(w)):
                continue
            excess = reg.value(w) + conjugate - float(z @ w)
            least = 0.5 * reg.strong_convexity * float((w - best) @ (w - best))
            assert excess >= least - ROUNDING * magnitude(excess, reg.value(w), conjugate, float(z @ w)), (
                f"Fenchel-Young: reg(w) + reg*(z) - <z, w> must be at least {least}; got {excess}"
            )


def _check_convexity(reg: Regularizer, points: list[FloatArray]) -> None:
    """``reg((v + w) / 2) <= (reg(v) + reg(w)) / 2 - m/8 |v - w|^2``."""
    for v, w in pairwise(points):
        ends, middle = 0.5 * (reg.value(v) + reg.value(w)), reg.value(0.5 * (v + w))
        below = 0.125 * reg.strong_convexity * float((v - w) @ (v - w))
        assert not middle > ends - below + ROUNDING * magnitude(ends, below), (
            f"strong_convexity: value is {middle} between two points, and may be {ends - below} at most"
        )


def _check_curvature(reg: Regularizer, A: FloatArray, z: FloatArray) -> None:
    """``conjugate_curvature`` agrees with differences of the argmax; both may be off where the curvature jumps."""
    exact, differences = reg.conjugate_curvature(A, z), Regularizer.conjugate_curvature(reg, A, z)
    off, size = float(np.abs(exact - differences).max()), float(np.abs(differences).max())
    steepest = float((A * A).sum(axis=1).max()) / reg.strong_convexity  # what the curvature may be at most
    assert off <= 1e-3 * size + ROUNDING * steepest, (
        f"conjugate_curvature: differs from differences of the argmax by {off} of {size}"
    )


def _check_near(reg: ProximalRegularizer, duals: list[FloatArray]) -> None:
    tau = 0.7
    points = [reg.conjugate_argmax(z) for z in duals]
    center = points[0]
    near = reg.near(center, tau)
    least = reg.strong_convexity + tau
    assert near.strong_convexity >= least * (1.0 - ROUNDING), (
        f"near: must be strongly convex with {least}; got {near.strong_convexity}"
    )
    _check_fenchel_young(near, duals, points)
    constant = near.value(center) - reg.value(center)
    for w in points:
        distance = near.value(w) - reg.value(w) - constant
        wanted = 0.5 * tau * float((w - center) @ (w - center))
        slack = ROUNDING * magnitude(near.value(w), reg.value(w), constant)
        assert distance >= wanted - slack, f"near: must add at least {wanted} at this distance; adds {distance}"


def _check_quadratic(reg: QuadraticRegularizer, points: list[FloatArray]) -> None:
    for z, w in pairwise(points):
        dual = reg.at_center(z) + 0.5 * float(reg.dual_inner(z, z))
        assert np.isclose(dual, reg.conjugate(z)), f"dual_inner: <c, z> + z'M^-1 z / 2 = {dual} is not reg*(z)"
        back = reg.gradient(reg.conjugate_argmax(z))
        assert np.allclose(back, z), "gradient: must invert conjugate_argmax"
        hessian = np.zeros((z.size, z.size))
        reg.add_hessian(hessian)
        assert np.allclose(hessian @ (w - z), reg.gradient(w) - reg.gradient(z)), "add_hessian: must add the metric M"
        assert np.allclose(reg.hessian_product(z), hessian @ z), "hessian_product: must be M v"
        assert (reg.hessian_diagonal(z.size) > 0.0).all(), "hessian_diagonal: must be positive"
        slope, curvature = reg.along(w, z)
        expected = reg.value(w) + slope + 0.5 * curvature
        assert np.isclose(reg.value(w + z), expected), f"along: predicts {expected} where reg is {reg.value(w + z)}"
