"""Checks of a user's own risk, regularizer or structured model, and of the result of a run.

Each raises ``AssertionError`` with the rule that is broken and the numbers that show it.

>>> import numpy as np
>>> from undercut import FunctionRisk, L2
>>> check_risk(FunctionRisk(lambda w: (float(w @ w), 2 * w), n_params=3, lower_bound=0.0))
>>> check_regularizer(L2(0.1), n_params=3)
>>> check_risk(FunctionRisk(lambda w: (float(w @ w), w), n_params=3))
Traceback (most recent call last):
    ...
AssertionError: subgradient: ...
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Any

import numpy as np

from undercut.contracts import (
    BatchedRisk,
    CurvedRisk,
    LineRisk,
    MajorizedRisk,
    MinorizedRisk,
    ProximalRegularizer,
    QuadraticRegularizer,
    Regularizer,
    Rescaling,
    Risk,
    SmoothRisk,
    StructuredModel,
)
from undercut.devices import to_host
from undercut.errors import CapabilityError, DataError
from undercut.maps.gram import DenseGram, Gram
from undercut.regularizers import KernelNorm
from undercut.risks import GramRisk
from undercut.risks.structured.decoding import Share
from undercut.solvers import CuttingPlane, LevelBundle, PairDescent, ProximalBundle, Stop, minimize
from undercut.trace import Result, Status
from undercut.types import FloatArray

ROUNDING = 1e-9  # relative
RIVALS = (PairDescent(), ProximalBundle(), LevelBundle(), CuttingPlane())  # the first that can gives a second opinion
SCALES = (0.0, 1e-3, 1.0, 30.0)  # of the points where a regularizer is checked


def check_risk(risk: Risk, *, scale: float = 1.0, n_points: int = 10, random_state: int = 0) -> None:
    """Check ``value`` and ``cut`` at random points of size ``scale``.

    The plane touches R where it was taken; its slope agrees with finite differences; w is not modified; the lower
    bound holds; for a convex risk the plane lies below R at every other point; for a ``LineRisk`` the line agrees with
    the risk and ``minimizer`` finds the minimum; for a ``SmoothRisk`` the Hessian agrees with differences of the
    gradient, and so do the products of a ``CurvedRisk``; for a ``BatchedRisk`` the batches average to the risk; a
    majorizer lies above, a minorant below.
    """
    rng = np.random.default_rng(random_state)
    points = [scale * rng.standard_normal(risk.n_params) for _ in range(n_points)]
    points.append(np.zeros(risk.n_params))
    for w in points:
        _check_cut(risk, w)
        _check_subgradient(risk, w, scale * rng.standard_normal(risk.n_params))
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
    size = _size(value, cut.b)
    assert np.array_equal(before, w), "w: the risk modified the point it was evaluated at"
    assert cut.a.shape == (risk.n_params,), f"cut.a: shape must be ({risk.n_params},); got {cut.a.shape}"
    assert abs(cut.value - value) <= ROUNDING * size, f"cut.value = {cut.value} differs from value(w) = {value}"
    touch = float(cut.a @ w) + cut.b
    assert abs(touch - value) <= ROUNDING * size, f"the plane must touch R at w; it is {touch} where R is {value}"
    assert value >= risk.lower_bound - ROUNDING * size, f"lower_bound = {risk.lower_bound} exceeds R(w) = {value}"


def _check_subgradient(risk: Risk, w: FloatArray, direction: FloatArray) -> None:
    """``<a, d>`` lies between the one-sided difference quotients along d, or near them where R is not convex."""
    step = 1e-6
    slope = float(risk.cut(w).a @ direction)
    value, ahead, behind = risk.value(w), risk.value(w + step * direction), risk.value(w - step * direction)
    sides = sorted([(value - behind) / step, (ahead - value) / step])
    slack = 1e-4 * _size(slope, *sides) + ROUNDING * _size(value) / step
    assert sides[0] - slack <= slope <= sides[1] + slack, (
        f"subgradient: <a, d> = {slope} but R changes by {sides[0]} ... {sides[1]} per unit along d"
    )


def _check_supporting(risk: Risk, points: list[FloatArray]) -> None:
    values = [risk.value(v) for v in points]
    for w in points:
        cut = risk.cut(w)
        for v, value in zip(points, values, strict=True):
            plane = float(cut.a @ v) + cut.b
            assert plane <= value + ROUNDING * _size(value, plane, cut.b), (
                f"supporting plane: a plane of a convex risk lies below it, but is {plane} where R is {value}; "
                "declare the risk non-convex if that is what it is"
            )


def _check_line(risk: LineRisk, w: FloatArray, direction: FloatArray) -> None:
    line = risk.along(w, direction)
    for t in (0.0, 0.3, 2.0):
        value, exact = line.value(t), risk.value(w + t * direction)
        assert abs(value - exact) <= ROUNDING * _size(exact), f"along: {value} at t = {t} where R is {exact}"
        cut = line.cut(t)
        touch = float(cut.a @ (w + t * direction)) + cut.b
        assert abs(touch - exact) <= ROUNDING * _size(exact, cut.b), (
            f"along: the plane at t = {t} is {touch}, not {exact}"
        )
        turned = line.turn(t, -2.0 * direction).value(0.5)
        expected = risk.value(w + (t - 1.0) * direction)
        assert abs(turned - expected) <= ROUNDING * _size(expected), f"turn: {turned} on the new line, not {expected}"
    curvature = 1e-3 * float(direction @ direction)

    def total(t: float) -> float:
        return line.value(t) + 0.5 * curvature * t * t

    best = line.minimizer(0.0, curvature)
    assert best >= 0.0, f"minimizer: t must not be negative; got {best}"
    slack = 1e-5 * max(total(0.0) - total(best), 0.0) + ROUNDING * _size(total(0.0))
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
    slack = 1e-4 * _size(float(np.abs(change).max())) + float(np.abs(products[0] - products[-1]).max())
    return float(np.abs(np.mean(products, axis=0) - change).max()) - slack


def _check_batches(risk: BatchedRisk, w: FloatArray) -> None:
    """The batches of odd and even samples, weighted by their sizes, average to the risk."""
    parts = [rows for rows in (np.arange(0, risk.n_samples, 2), np.arange(1, risk.n_samples, 2)) if rows.size]
    value, mean = risk.value(w), sum(rows.size / risk.n_samples * risk.batch(rows).value(w) for rows in parts)
    assert abs(mean - value) <= ROUNDING * _size(value), f"batch: the batches average to {mean} where R is {value}"


def _check_majorizer(risk: MajorizedRisk, points: list[FloatArray]) -> None:
    w, value = points[0], risk.value(points[0])
    above = risk.majorizer(w)
    assert above.is_convex, "majorizer: must be convex"
    touch = above.value(w)
    assert abs(touch - value) <= ROUNDING * _size(value), f"majorizer: must touch R at w; {touch} where R is {value}"
    for v in points:
        value, bound = risk.value(v), above.value(v)
        assert bound >= value - ROUNDING * _size(value), f"majorizer: must lie above R; {bound} where R is {value}"


def _check_minorant(risk: MinorizedRisk, points: list[FloatArray]) -> None:
    assert risk.minorant.is_convex, "minorant: must be convex"
    for v in points:
        value, bound = risk.value(v), risk.minorant.value(v)
        assert bound <= value + ROUNDING * _size(value), f"minorant: must lie below R; {bound} where R is {value}"


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
        size = _size(conjugate, attained, float(z @ best))
        assert abs(attained - conjugate) <= ROUNDING * size, (
            f"conjugate_argmax: attains {attained} where conjugate is {conjugate}"
        )
        for w in [*points, *attaining]:
            if not np.isfinite(reg.value(w)):
                continue
            excess = reg.value(w) + conjugate - float(z @ w)
            least = 0.5 * reg.strong_convexity * float((w - best) @ (w - best))
            assert excess >= least - ROUNDING * _size(excess, reg.value(w), conjugate, float(z @ w)), (
                f"Fenchel-Young: reg(w) + reg*(z) - <z, w> must be at least {least}; got {excess}"
            )


def _check_convexity(reg: Regularizer, points: list[FloatArray]) -> None:
    """``reg((v + w) / 2) <= (reg(v) + reg(w)) / 2 - m/8 |v - w|^2``."""
    for v, w in pairwise(points):
        ends, middle = 0.5 * (reg.value(v) + reg.value(w)), reg.value(0.5 * (v + w))
        below = 0.125 * reg.strong_convexity * float((v - w) @ (v - w))
        assert not middle > ends - below + ROUNDING * _size(ends, below), (
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
        slack = ROUNDING * _size(near.value(w), reg.value(w), constant)
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


def check_certificate(
    result: Result, risk: Risk, reg: Regularizer, *, solver: Any = None, max_seconds: float = 10.0
) -> None:
    """Recompute what ``minimize(risk, reg)`` claims about its result, independently of the solver that made it.

    The objective is that of ``result.w``; the trace agrees with the result, objectives never rise and proven bounds
    never fall; "converged" and "global" are said only where they may be.  For a global certificate another ``solver``
    searches from ``result.w`` for at most ``max_seconds``, to a tenth of the gap: no point that it finds may lie below
    the lower bound.  Gram matrices are evaluated in double precision, however the problem stores them.

    >>> from undercut import Hinge, L2, LinearRisk, minimize
    >>> risk = LinearRisk(np.array([[2.0, 0.0], [0.0, 1.0]]), np.array([1.0, -1.0]), Hinge())
    >>> result = minimize(risk, L2(0.1))
    >>> check_certificate(result, risk, L2(0.1))
    >>> check_certificate(result, risk, L2(0.2))
    Traceback (most recent call last):
        ...
    AssertionError: objective: 0.0... is reported, J(w) = 0.1...
    """
    risk, reg = _in_double(risk, reg)
    value, penalty = risk.value(result.w), reg.value(result.w)
    objective, slack = penalty + value, ROUNDING * (abs(value) + abs(penalty))
    _check_claims(result, risk.is_convex)
    assert abs(result.objective - objective) <= slack, f"objective: {result.objective} is reported, J(w) = {objective}"
    if result.certificate != "global":
        return
    bound = result.lower_bound
    assert bound <= objective + slack, f"lower_bound: {bound} exceeds the objective {objective}"
    stop = Stop(gap_abs=0.1 * max(result.gap, 0.0), gap_rel=ROUNDING, max_seconds=max_seconds)
    rival = minimize(risk, reg, solver or _rival(risk, reg), w0=result.w, stop=stop)
    found = reg.value(rival.w) + risk.value(rival.w)
    assert bound <= found + slack, f"lower_bound: {bound} is reported, and there is a w with J(w) = {found}"


def _in_double(risk: Risk, reg: Regularizer) -> tuple[Risk, Regularizer]:
    """The same problem with its Gram matrix, if there is one, in double precision and in main memory."""
    if not isinstance(risk, GramRisk) or not isinstance(reg, KernelNorm):
        return risk, reg
    gram = _double(risk.gram)
    return GramRisk(gram, risk.y, risk.weight, risk.fit_intercept), KernelNorm(reg.lam, gram)


def _double(gram: Gram) -> Gram:
    if isinstance(gram, DenseGram) and (exact := gram.exact):
        return DenseGram.of(exact.kernel, exact.X if gram.on_host else to_host(exact.X), np.float64, check=False)
    return gram if gram.on_host else DenseGram(to_host(gram.block(np.arange(gram.n_samples))), check=False)


def _check_claims(result: Result, is_convex: bool) -> None:
    """The words of a result and its trace."""
    is_global, converged = result.certificate == "global", result.status is Status.CONVERGED
    assert not is_global or is_convex, "certificate: must not be 'global' where the risk is not convex"
    assert not converged or np.isfinite(result.gap), f"status: CONVERGED with a gap of {result.gap}"
    told = (result.objective, result.lower_bound)
    for last in result.trace[-1:]:
        traced = (last.objective, last.lower_bound)
        assert told == traced, f"trace: ends with {traced}, and the result has {told}"
    for before, after in pairwise(result.trace):
        assert after.objective <= before.objective, f"objective: rises at step {after.step}"
        assert not is_global or after.lower_bound >= before.lower_bound, f"lower_bound: falls at step {after.step}"


def _rival(risk: Risk, reg: Regularizer) -> Any:
    """A solver that can."""
    for solver in RIVALS:
        with suppress(CapabilityError):
            solver.check(risk, reg)
            return solver
    return "auto"


def check_structured_model(
    model: StructuredModel,
    X: Sequence[Any],
    Y: Sequence[Any],
    labelings: Callable[[Any], Iterable[Any]],
    *,
    rescaling: Rescaling = "margin",
    n_points: int = 20,
    random_state: int = 0,
) -> None:
    """Check a model by brute force on examples short enough that ``labelings(x)`` can list all labelings of x.

    ``label_loss`` and ``joint_feature`` keep their contracts; ``decode`` finds the largest loss at w = 0 (where label
    losses decide), along single parameters, and at random points from small ones to large ones (where joint features
    decide); it modifies nothing.

    >>> class Largest:  # Psi(x, y) = x e_y
    ...     n_params = 3
    ...     def joint_feature(self, x, y):
    ...         return np.array([y]), np.array([x])
    ...     def label_loss(self, y, y_hat):
    ...         return abs(y - y_hat)
    ...     def decode(self, w, x, y, rescaling):
    ...         return int(np.argmax(w * x))  # forgets the label loss
    >>> check_structured_model(Largest(), [1.0, 2.0], [0, 2], lambda x: range(3))
    Traceback (most recent call last):
        ...
    AssertionError: decode at w = 0: example 0: it found a loss of 0.0, and the largest is 2.0; ...
    """
    rng = np.random.default_rng(random_state)
    for i, (x, y) in enumerate(zip(X, Y, strict=True)):
        every = list(labelings(x))
        assert every, f"labelings: there must be at least one; got none for example {i}"
        try:
            _check_example(model, rescaling, i, x, y, every, n_points, rng)
        except DataError as error:
            raise AssertionError(str(error)) from error


def _check_example(
    model: StructuredModel,
    rescaling: Rescaling,
    i: int,
    x: Any,
    y: Any,
    every: list[Any],
    n_points: int,
    rng: np.random.Generator,
) -> None:
    n = len(every)
    tried = Share(model, rescaling, [x] * n, [y] * n, np.ones(n), [i] * n)
    asked = Share(model, rescaling, [x], [y], np.ones(1), [i])
    planes = tried.planes_of(every)
    for what, w in _telling_points(np.unique(planes.A.indices), model.n_params, n_points, rng):
        losses = planes.at(w)
        found, best = float(asked.planes(w).at(w)[0]), float(losses.max())
        slack = ROUNDING * _size(float(np.abs(losses).max()))
        assert abs(found - best) <= slack, (
            f"decode at {what}: example {i}: it found a loss of {found}, and the largest is {best}; decode, "
            "joint_feature, label_loss or labelings is wrong"
        )
        assert best >= -slack, f"labelings: y must be one of them, and its loss is 0; example {i}: they reach {best}"
    after = tried.planes_of(every)
    same = (planes.A != after.A).nnz == 0 and np.array_equal(planes.b, after.b)
    assert same, (
        f"example {i}: decode must not modify x or y, nor joint_feature and label_loss change; they gave something else"
    )


def _telling_points(
    active: Any, n_params: int, n_points: int, rng: np.random.Generator
) -> Iterator[tuple[str, FloatArray]]:
    yield "w = 0", np.zeros(n_params)
    for j in rng.permutation(active)[:n_points]:
        for t in (3.0, -3.0):
            w = np.zeros(n_params)
            w[j] = t
            yield f"w = {t} e_{j}", w
    for k in range(n_points):
        scale = 10.0 ** (k % 5 - 2)
        yield f"a random w of scale {scale}", scale * rng.standard_normal(n_params)


def _size(*values: float) -> float:
    return max(1.0, *(abs(value) for value in values))
