"""Checks of a risk: planes, line, Hessian, batches, majorizer and minorant."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from undercut.contracts import BatchedRisk, CurvedRisk, LineRisk, MajorizedRisk, MinorizedRisk, Risk, SmoothRisk
from undercut.testing.tolerance import ROUNDING, magnitude
from undercut.types import FloatArray

STEP = 1e-6  # of difference quotients
AROUND, N_AROUND = 100.0, 50  # steps from a point with kinks to those around it, and how many of these


def check_risk(risk: Risk, *, scale: float = 1.0, n_points: int = 10, random_state: int = 0) -> None:
    """Check ``value`` and ``cut`` at random points of size ``scale``.

    The plane touches R where it was taken; its slope agrees with finite differences, at a kink of a risk that is not
    convex with those around it, so that any Clarke subgradient will do; w is not modified; the lower bound holds; for a
    convex risk the plane lies below R at every other point; for a ``LineRisk`` the line agrees with the risk and
    ``minimizer`` finds the minimum; for a ``SmoothRisk`` the Hessian agrees with differences of the gradient, and so do
    the products of a ``CurvedRisk``; for a ``BatchedRisk`` the batches average to the risk; a majorizer lies above, a
    minorant below.
    """
    rng = np.random.default_rng(random_state)
    points = [scale * rng.standard_normal(risk.n_params) for _ in range(n_points)]
    points.append(np.zeros(risk.n_params))
    for w in points:
        _check_cut(risk, w)
        _check_subgradient(risk, w, scale * rng.standard_normal(risk.n_params), rng)
    if risk.is_convex:
        _check_supporting(risk, points)
    if isinstance(risk, LineRisk):
        for sign in (1.0, -1.0):  # one of them is a direction of descent
            _check_line(risk, points[0], sign * (points[1] - points[0]))
    if isinstance(risk, SmoothRisk):
        _check_hessian(risk, points[0], points[1] - points[0])
    if isinstance(risk, CurvedRisk):
        _check_products(risk, points[0], points[1] - points[0])
    if isinstance(risk, BatchedRisk):
        _check_batches(risk, points[0])
    if isinstance(risk, MajorizedRisk):
        _check_majorizer(risk, points)
    if isinstance(risk, MinorizedRisk):
        _check_minorant(risk, points)


def _check_cut(risk: Risk, w: FloatArray) -> None:
    before = w.copy()
    value, cut = risk.value(w), risk.cut(w)
    size = magnitude(value, cut.b)
    assert np.array_equal(before, w), "w: the risk modified the point it was evaluated at"
    assert cut.a.shape == (risk.n_params,), f"cut.a: shape must be ({risk.n_params},); got {cut.a.shape}"
    assert abs(cut.value - value) <= ROUNDING * size, f"cut.value = {cut.value} differs from value(w) = {value}"
    touch = float(cut.a @ w) + cut.b
    assert abs(touch - value) <= ROUNDING * size, f"the plane must touch R at w; it is {touch} where R is {value}"
    assert value >= risk.lower_bound - ROUNDING * size, f"lower_bound = {risk.lower_bound} exceeds R(w) = {value}"


def _check_subgradient(risk: Risk, w: FloatArray, direction: FloatArray, rng: np.random.Generator) -> None:
    """``<a, d>`` lies between the one-sided difference quotients along d, or near those around w if R is not convex."""
    slope = float(risk.cut(w).a @ direction)
    sides = _quotients(risk, w, direction)
    slack = 1e-4 * magnitude(slope, *sides) + ROUNDING * magnitude(risk.value(w)) / STEP
    if not sides[0] - slack <= slope <= sides[1] + slack and not risk.is_convex:
        sides = _quotients_around(risk, w, direction, rng)
    assert sides[0] - slack <= slope <= sides[1] + slack, (
        f"subgradient: <a, d> = {slope} but R changes by {sides[0]} ... {sides[1]} per unit along d"
    )


def _quotients(risk: Risk, w: FloatArray, direction: FloatArray) -> list[float]:
    """The difference quotients behind w and ahead of it, the smaller one first."""
    value, ahead, behind = risk.value(w), risk.value(w + STEP * direction), risk.value(w - STEP * direction)
    return sorted([(value - behind) / STEP, (ahead - value) / STEP])


def _quotients_around(risk: Risk, w: FloatArray, direction: FloatArray, rng: np.random.Generator) -> list[float]:
    """The range of the quotients at points around w, widened by its width.

    A Clarke subgradient is a convex combination of limits of gradients around w.  Where R has kinks of both signs, as
    ``|x| - |y|`` at zero, it need not lie between the quotients at w: (1, 1) is one, and R is 0 along this direction.
    Where R is smooth the range is as narrow as the slack.
    """
    size = AROUND * STEP * float(np.linalg.norm(direction)) / w.size**0.5
    found = [_quotients(risk, w + size * rng.standard_normal(w.size), direction) for _ in range(N_AROUND)]
    least, most = min(low for low, _ in found), max(high for _, high in found)
    return [2.0 * least - most, 2.0 * most - least]


def _check_supporting(risk: Risk, points: list[FloatArray]) -> None:
    values = [risk.value(v) for v in points]
    for w in points:
        cut = risk.cut(w)
        for v, value in zip(points, values, strict=True):
            plane = float(cut.a @ v) + cut.b
            assert plane <= value + ROUNDING * magnitude(value, plane, cut.b), (
                f"supporting plane: a plane of a convex risk lies below it, but is {plane} where R is {value}; "
                "declare the risk non-convex if that is what it is"
            )


def _check_line(risk: LineRisk, w: FloatArray, direction: FloatArray) -> None:
    line = risk.along(w, direction)
    for t in (0.0, 0.3, 2.0):
        value, exact = line.value(t), risk.value(w + t * direction)
        assert abs(value - exact) <= ROUNDING * magnitude(exact), f"along: {value} at t = {t} where R is {exact}"
        cut = line.cut(t)
        touch = float(cut.a @ (w + t * direction)) + cut.b
        assert abs(touch - exact) <= ROUNDING * magnitude(exact, cut.b), (
            f"along: the plane at t = {t} is {touch}, not {exact}"
        )
        turned = line.turn(t, -2.0 * direction).value(0.5)
        expected = risk.value(w + (t - 1.0) * direction)
        assert abs(turned - expected) <= ROUNDING * magnitude(expected), (
            f"turn: {turned} on the new line, not {expected}"
        )
    curvature = 1e-3 * float(direction @ direction)

    def total(t: float) -> float:
        return line.value(t) + 0.5 * curvature * t * t

    best = line.minimizer(0.0, curvature)
    assert best >= 0.0, f"minimizer: t must not be negative; got {best}"
    slack = 1e-5 * max(total(0.0) - total(best), 0.0) + ROUNDING * magnitude(total(0.0))
    for t in np.linspace(0.0, 2.0 * best + 1.0, 50):
        assert total(best) <= total(t) + slack, f"minimizer: {total(best)} at {best} but {total(t)} at {t}"


def _check_hessian(risk: SmoothRisk, w: FloatArray, direction: FloatArray) -> None:
    off = _off_the_change(risk, w, direction, lambda v: risk.hessian(v) @ direction)
    assert off <= 0.0, f"hessian: H d differs from the change of the gradient by {off} more than rounding"


def _check_products(risk: CurvedRisk, w: FloatArray, direction: FloatArray) -> None:
    off = _off_the_change(risk, w, direction, lambda v: risk.curvature(v).product(direction))
    assert off <= 0.0, f"curvature: `product` differs from the change of the gradient by {off} more than rounding"
    diagonal = risk.curvature(w).diagonal()
    assert diagonal.shape == w.shape, f"curvature: `diagonal` must have shape {w.shape}; got {diagonal.shape}"
    assert (diagonal >= 0.0).all(), f"curvature: `diagonal` must not be negative; got {diagonal.min()}"


def _off_the_change(
    risk: Risk, w: FloatArray, direction: FloatArray, product: Callable[[FloatArray], FloatArray]
) -> float:
    """How far ``H d``, averaged over a short way where H may jump, is from the change of the gradient; less slack."""
    step = 1e-4
    products = [product(w + t * step * direction) for t in np.linspace(-1.0, 1.0, 21)]
    change = (risk.cut(w + step * direction).a - risk.cut(w - step * direction).a) / (2.0 * step)
    slack = 1e-4 * magnitude(float(np.abs(change).max())) + float(np.abs(products[0] - products[-1]).max())
    return float(np.abs(np.mean(products, axis=0) - change).max()) - slack


def _check_batches(risk: BatchedRisk, w: FloatArray) -> None:
    """The batches of odd and even samples, weighted by their sizes, average to the risk."""
    parts = [rows for rows in (np.arange(0, risk.n_samples, 2), np.arange(1, risk.n_samples, 2)) if rows.size]
    value, mean = risk.value(w), sum(rows.size / risk.n_samples * risk.batch(rows).value(w) for rows in parts)
    assert abs(mean - value) <= ROUNDING * magnitude(value), f"batch: the batches average to {mean} where R is {value}"


def _check_majorizer(risk: MajorizedRisk, points: list[FloatArray]) -> None:
    w, value = points[0], risk.value(points[0])
    above = risk.majorizer(w)
    assert above.is_convex, "majorizer: must be convex"
    touch = above.value(w)
    assert abs(touch - value) <= ROUNDING * magnitude(value), (
        f"majorizer: must touch R at w; {touch} where R is {value}"
    )
    for v in points:
        value, bound = risk.value(v), above.value(v)
        assert bound >= value - ROUNDING * magnitude(value), f"majorizer: must lie above R; {bound} where R is {value}"


def _check_minorant(risk: MinorizedRisk, points: list[FloatArray]) -> None:
    assert risk.minorant.is_convex, "minorant: must be convex"
    for v in points:
        value, bound = risk.value(v), risk.minorant.value(v)
        assert bound <= value + ROUNDING * magnitude(value), f"minorant: must lie below R; {bound} where R is {value}"
