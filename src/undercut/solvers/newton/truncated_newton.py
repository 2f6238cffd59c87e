"""Newton's method with conjugate gradients and an exact line search, for smooth risks with many parameters.

Each direction solves ``(H + M) p = -g`` to a fraction of the gradient only (Dembo, Eisenstat and Steihaug 1982), with
products ``H v`` instead of the Hessian H.  They are preconditioned by an approximate inverse where making it costs no
more than a product, else by the diagonal of ``H + M`` or by an inverse, both of an earlier point, and go on with a new
inverse once they have taken as many products as making it costs.  The plane at w proves

    b - reg*(-a)  =  J(w) - 1/2 g' M^-1 g       (g the gradient of J at w, M the Hessian of reg)

which closes with the square of the gradient.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple, final

import numpy as np
from typing_extensions import override

from undercut.contracts import CurvedRisk, HessianOperator, InvertibleHessian, QuadraticRegularizer, Solver
from undercut.contracts.risk import Inverse
from undercut.deadline import expired
from undercut.errors import require
from undercut.risks.scores.classes.multiclass import CurvedMulticlassRisk, SoftmaxLine
from undercut.risks.scores.linear import CurvedLinearRisk, SmoothLine
from undercut.solvers.newton.line_step import NewtonState, descend, restart, start
from undercut.solvers.newton.sampled_start import sampled_start
from undercut.types import FloatArray

KEPT = 8  # products of a direction up to which the next one has the same diagonal, or inverse that costs as little

NEARER = 0.25  # share of ``forcing`` to which directions are computed where an inverse costs less than a product

BLOCKED = 0.3  # share of a Newton step below which samples without a second derivative have stopped it


@dataclass(frozen=True)
class TruncatedNewtonState(NewtonState):
    derived: ClassVar = ("inverse",)

    diagonal: FloatArray | None = None  # of the Hessian of the risk; ``None``: to be made
    inverse: Inverse | None = None
    inverted: InvertibleHessian | None = None  # what the inverse was made of


@final
@dataclass(frozen=True, kw_only=True)
class TruncatedNewton(Solver[TruncatedNewtonState, CurvedRisk, QuadraticRegularizer]):
    """Newton steps by preconditioned conjugate gradients, with an exact line search.

    >>> import numpy as np
    >>> from undercut import L2, LinearRisk, Squared, minimize
    >>> risk = LinearRisk(np.eye(2), np.array([1.0, -1.0]), Squared())
    >>> minimize(risk, L2(0.5), TruncatedNewton()).w
    array([ 0.5, -0.5])
    """

    pass_cost: ClassVar[float] = 2.0  # a product with the Hessian is one with X and one with its transpose

    forcing: float = 0.2  # conjugate gradients end where the residual is this share of the gradient

    def __post_init__(self) -> None:
        require(0.0 < self.forcing < 1.0, "`forcing` must be between 0 and 1", self.forcing)

    @override
    def init(self, risk: CurvedRisk, reg: QuadraticRegularizer, w0: FloatArray) -> TruncatedNewtonState:
        begun = start(risk, reg, sampled_start(self, risk, reg, w0))
        return TruncatedNewtonState(begun.line, begun.t, begun.solution, begun.cut, begun.progress)

    @override
    def carry(self, risk: CurvedRisk, reg: QuadraticRegularizer, state: TruncatedNewtonState) -> TruncatedNewtonState:
        return replace(restart(risk, reg, state), inverse=None, inverted=None)

    @override
    def step(self, risk: CurvedRisk, reg: QuadraticRegularizer, state: TruncatedNewtonState) -> TruncatedNewtonState:
        w = state.solution
        hessian = _hessian(risk, state)

        def product(v: FloatArray) -> FloatArray:
            return hessian.product(v) + reg.hessian_product(v)

        # 1. The Newton direction, up to a share of the gradient.
        ridge, target = reg.hessian_diagonal(risk.n_params), -(reg.gradient(w) + state.cut.a)
        cost = hessian.inversion_cost() if isinstance(hessian, InvertibleHessian) else math.inf
        inverse, diagonal, is_new, is_cheap = state.inverse, state.diagonal, False, cost <= 1.0
        forcing = NEARER * self.forcing if is_cheap else self.forcing
        if is_cheap and inverse is None:
            assert isinstance(hessian, InvertibleHessian)
            inverse = hessian.inverse(ridge)
            state = replace(state, inverse=inverse, inverted=hessian)
        elif inverse is None:
            is_new = diagonal is None
            diagonal = hessian.diagonal() if diagonal is None else diagonal
            inverse = _by_diagonal(diagonal + ridge)
        found = conjugate_gradients(product, target, inverse, forcing, math.inf if is_cheap else max(1.0, cost))
        if is_cheap and not found.x.any():  # rounding makes the Hessian look indefinite along the first direction
            diagonal, is_new = hessian.diagonal(), True
            found = conjugate_gradients(product, target, _by_diagonal(diagonal + ridge), forcing)
        direction, count = found.x, found.products + float(is_new)
        state = replace(state, diagonal=diagonal if found.products <= KEPT else None)
        if is_cheap and found.products > KEPT:
            state = replace(state, inverse=None, inverted=None)
        if not found.is_near:
            assert isinstance(hessian, InvertibleHessian)
            inverse = hessian.inverse(ridge)
            state = replace(state, inverse=inverse, inverted=hessian)
            rest = conjugate_gradients(product, found.residual, inverse, self.forcing)
            direction, count = direction + rest.x, count + math.ceil(cost) + rest.products

        # 2. The minimum of J along it; the plane there proves a bound.
        moved = descend(risk, reg, state, direction)
        if moved.t == 0.0:  # the next direction should not depend on earlier points
            moved = replace(moved, diagonal=None, inverse=None, inverted=None)
        return replace(moved, progress=replace(moved.progress, n_passes=state.progress.n_passes + count))

    @override
    def gives_way(self, state: TruncatedNewtonState) -> bool:
        """Where fewer samples than parameters have a second derivative, directions run into others.

        That is so where a squared hinge can be nearly zero; such steps are as many as the samples that they run into.
        """
        if not isinstance(state.line, SmoothLine) or not 0.0 < state.t < BLOCKED:
            return False
        return bool(np.count_nonzero(state.line.expansion(state.t).bend) < state.solution.size)

    @override
    def restored(
        self, risk: CurvedRisk, reg: QuadraticRegularizer, state: TruncatedNewtonState
    ) -> TruncatedNewtonState:
        if state.inverted is None:
            return state
        return replace(state, inverse=state.inverted.inverse(reg.hessian_diagonal(risk.n_params)))


def _hessian(risk: CurvedRisk, state: TruncatedNewtonState) -> HessianOperator:
    """The second derivatives at the solution, without a product where the line knows its slopes."""
    if isinstance(risk, CurvedLinearRisk) and isinstance(state.line, SmoothLine):
        return risk.operator(state.line.expansion(state.t).bend)
    if isinstance(risk, CurvedMulticlassRisk) and isinstance(state.line, SoftmaxLine):
        return risk.operator(state.line.kept.at(state.t))
    return risk.curvature(state.solution)


def _by_diagonal(diagonal: FloatArray) -> Inverse:
    return lambda v: v / diagonal


class Solved(NamedTuple):
    """Where conjugate gradients have come."""

    x: FloatArray
    residual: FloatArray
    products: int
    is_near: bool  # or cannot come nearer


def conjugate_gradients(
    product: Callable[[FloatArray], FloatArray],
    target: FloatArray,
    inverse: Inverse,
    forcing: float,
    limit: float = math.inf,
) -> Solved:
    """``A x`` is near ``target``, up to ``forcing`` of it in the norm ``sqrt(r' inverse(r))``, or ``limit`` is reached.

    It ends early at the deadline of the run, and where rounding makes A look indefinite.
    """
    x, residual = np.zeros_like(target), target.copy()
    scaled = inverse(residual)
    size = float(residual @ scaled)
    enough = forcing**2 * size
    direction = scaled
    for count in range(1, 3 * target.size + 11):  # exact arithmetic needs at most target.size
        along = product(direction)
        curvature = float(direction @ along)
        if not curvature > 0.0:
            break
        x += size / curvature * direction
        residual -= size / curvature * along
        scaled = inverse(residual)
        last, size = size, float(residual @ scaled)
        if size <= enough or expired():
            break
        if count >= limit:
            return Solved(x, residual, count, is_near=False)
        direction = scaled + size / last * direction
    return Solved(x, residual, count, is_near=True)
