"""Newton's method with conjugate gradients and an exact line search, for smooth risks with many parameters.

Each direction solves ``(H + M) p = -g`` to a fraction of the gradient only (Dembo, Eisenstat and Steihaug 1982), with
products ``H v`` instead of the Hessian H, preconditioned by the diagonal of ``H + M``, or by an approximate inverse
where making it costs less than the products of the last direction.  The plane at w proves

    b - reg*(-a)  =  J(w) - 1/2 g' M^-1 g       (g the gradient of J at w, M the Hessian of reg)

which closes with the square of the gradient.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, final

import numpy as np
from typing_extensions import override

from undercut.contracts import CurvedRisk, HessianOperator, InvertibleHessian, QuadraticRegularizer, Solver
from undercut.contracts.risk import Inverse
from undercut.deadline import expired
from undercut.errors import require
from undercut.solvers.newton.line_step import NewtonState, descend, restart, start
from undercut.types import FloatArray


@final
@dataclass(frozen=True, kw_only=True)
class TruncatedNewton(Solver[NewtonState, CurvedRisk, QuadraticRegularizer]):
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
    def init(self, risk: CurvedRisk, reg: QuadraticRegularizer, w0: FloatArray) -> NewtonState:
        return start(risk, reg, w0)

    @override
    def carry(self, risk: CurvedRisk, reg: QuadraticRegularizer, state: NewtonState) -> NewtonState:
        return restart(risk, reg, state)

    @override
    def step(self, risk: CurvedRisk, reg: QuadraticRegularizer, state: NewtonState) -> NewtonState:
        w = state.solution
        hessian = risk.curvature(w)

        def product(v: FloatArray) -> FloatArray:
            return hessian.product(v) + reg.hessian_product(v)

        # 1. The Newton direction, up to a share of the gradient.
        inverse, preparation = _preconditioner(hessian, reg.hessian_diagonal(risk.n_params), state.products)
        direction, count = conjugate_gradients(product, -(reg.gradient(w) + state.cut.a), inverse, self.forcing)

        # 2. The minimum of J along it; the plane there proves a bound.
        moved = descend(risk, reg, state, direction)
        progress = replace(moved.progress, n_passes=state.progress.n_passes + count + preparation)
        return replace(moved, products=max(count, state.products), progress=progress)


def _preconditioner(hessian: HessianOperator, ridge: FloatArray, products: int) -> tuple[Inverse, int]:
    """An approximate inverse of ``H + diag(ridge)``, and the products that it costs.

    ``products`` : the most that a direction has taken so far.
    """
    if isinstance(hessian, InvertibleHessian) and hessian.inversion_cost() < products:
        return hessian.inverse(ridge), math.ceil(hessian.inversion_cost())
    diagonal = hessian.diagonal() + ridge
    return lambda v: v / diagonal, 1


def conjugate_gradients(
    product: Callable[[FloatArray], FloatArray], target: FloatArray, inverse: Inverse, forcing: float
) -> tuple[FloatArray, int]:
    """(x, products): ``A x`` is near ``target``, up to ``forcing`` of it in the norm ``sqrt(r' inverse(r))``.

    It ends early at the deadline of the run, and where rounding makes A look indefinite.
    """
    x, residual = np.zeros_like(target), target.copy()
    scaled = inverse(residual)
    size = float(residual @ scaled)
    enough = forcing**2 * size
    direction = scaled
    count = 0
    while count < 3 * target.size + 10:  # exact arithmetic needs at most target.size
        along = product(direction)
        count += 1
        curvature = float(direction @ along)
        if not curvature > 0.0:
            break
        x += size / curvature * direction
        residual -= size / curvature * along
        scaled = inverse(residual)
        last, size = size, float(residual @ scaled)
        if size <= enough or expired():
            break
        direction = scaled + size / last * direction
    return x, count
