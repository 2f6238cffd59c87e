"""Newton's method with conjugate gradients and an exact line search, for smooth risks with many parameters.

Each direction solves ``(H + M) p = -g`` to a fraction of the gradient only (Dembo, Eisenstat and Steihaug 1982), with
products ``H v`` instead of the Hessian H.  They are preconditioned by an approximate inverse where making it costs no
more than a product, else by the diagonal of ``H + M`` or by an inverse, both of an earlier point, and go on with a new
inverse once they have taken as many products as making it costs.  After a step that was far too long they solve
``(H + M + mu I) p = -g`` (Levenberg and Marquardt), with a mu that falls again, for softmax only: steps along which
second derivatives jump, as those of the Huber loss do, are no shorter than they have to be.  The plane at w proves

    b - reg*(-a)  =  J(w) - 1/2 g' M^-1 g       (g the gradient of J at w, M the Hessian of reg)

which closes with the square of the gradient.  At small lambda that is long after the objective, so that a direction
that would end near enough to the optimum is computed until its residual is small in the norm of M^-1 too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple, final

import numpy as np
from typing_extensions import override

from undercut.accuracy import wanted_gap
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

LONG, RELAXED = 0.5, 0.2  # share of a direction below which mu grows, and share of mu that is left after another step
NEGLIGIBLE = 0.1  # mu is zero below this share of lambda

PROVED = 0.25  # share of the wanted gap that the residual of the last direction may leave

BLOCKED = 0.3  # share of a Newton step below which samples without a second derivative have stopped it


@dataclass(frozen=True)
class TruncatedNewtonState(NewtonState):
    derived: ClassVar = ("inverse",)

    diagonal: FloatArray | None = None  # of the Hessian of the risk; ``None``: to be made
    inverse: Inverse | None = None
    inverted: InvertibleHessian | None = None  # what the inverse was made of
    damping: float = 0.0  # mu


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
        # 1. The Newton direction, up to a share of the gradient.
        target = -(reg.gradient(state.solution) + state.cut.a)
        state, direction, count = self._directed(risk, reg, state, target)

        # 2. The minimum of J along it; the plane there proves a bound.
        moved = descend(risk, reg, state, direction)
        moved = replace(moved, progress=replace(moved.progress, n_passes=state.progress.n_passes + count))
        if moved.t == 0.0:  # the next direction should not depend on earlier points
            return replace(moved, diagonal=None, inverse=None, inverted=None, damping=0.0)

        # 3. Shorter directions where the quadratic model was too optimistic.
        if not isinstance(risk, CurvedMulticlassRisk):
            return moved
        damping = _damping(state.damping, moved.t, float(target @ direction) / float(direction @ direction))
        damping = damping if damping > NEGLIGIBLE * reg.strong_convexity else 0.0
        if damping != state.damping:  # an inverse is that of the damped Hessian
            moved = replace(moved, damping=damping, inverse=None, inverted=None)
        return moved

    def _directed(
        self, risk: CurvedRisk, reg: QuadraticRegularizer, state: TruncatedNewtonState, target: FloatArray
    ) -> tuple[TruncatedNewtonState, FloatArray, float]:
        """The state with what the next direction may use again, the direction, and how many products it took."""
        hessian, damping = _hessian(risk, state), state.damping

        def product(v: FloatArray) -> FloatArray:
            return hessian.product(v) + reg.hessian_product(v) + damping * v

        ridge = reg.hessian_diagonal(risk.n_params) + damping
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
        proof = Proof(reg, wanted_gap(state.progress))
        found = conjugate_gradients(product, target, inverse, forcing, math.inf if is_cheap else max(1.0, cost), proof)
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
        return state, direction, count

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
        ridge = reg.hessian_diagonal(risk.n_params) + state.damping
        return replace(state, inverse=state.inverted.inverse(ridge))


def _hessian(risk: CurvedRisk, state: TruncatedNewtonState) -> HessianOperator:
    """The second derivatives at the solution, without a product where the line knows its slopes."""
    if isinstance(risk, CurvedLinearRisk) and isinstance(state.line, SmoothLine):
        return risk.operator(state.line.expansion(state.t).bend)
    if isinstance(risk, CurvedMulticlassRisk) and isinstance(state.line, SoftmaxLine):
        return risk.operator(state.line.kept.at(state.t))
    return risk.curvature(state.solution)


def _by_diagonal(diagonal: FloatArray) -> Inverse:
    return lambda v: v / diagonal


def _damping(damping: float, t: float, curvature: float) -> float:
    """mu after a step of length t along a direction of that curvature, mu included.

    The minimum along the direction is where a quadratic of curvature ``curvature / t`` would have it.
    """
    return damping + curvature * (1.0 / t - 1.0) if t < LONG else RELAXED * damping / max(1.0, t)


class Proof(NamedTuple):
    """What the plane at the end of a direction has to prove: that the gap is at most ``gap``."""

    reg: QuadraticRegularizer
    gap: float

    def lacks(self, decrease: float, residual: FloatArray) -> bool:
        """Whether a direction ends near enough to the optimum, but its residual is too large to prove that."""
        if not 0.0 < decrease <= self.gap:
            return False
        return 0.5 * float(self.reg.dual_inner(residual, residual)) > PROVED * self.gap


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
    proof: Proof | None = None,
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
        is_near = size <= enough and (proof is None or not proof.lacks(0.5 * float(target @ x), residual))
        if is_near or expired():
            break
        if count >= limit:
            return Solved(x, residual, count, is_near=False)
        direction = scaled + size / last * direction
    return Solved(x, residual, count, is_near=True)
