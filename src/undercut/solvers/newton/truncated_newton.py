"""Newton's method with conjugate gradients and an exact line search, for smooth risks with many parameters.

Each direction solves ``(H + M) p = -g`` to a fraction of the gradient only (Dembo, Eisenstat and Steihaug 1982), with
products ``H v`` instead of the Hessian H, preconditioned by the diagonal of ``H + M``.  The plane at w proves

    b - reg*(-a)  =  J(w) - 1/2 g' M^-1 g       (g the gradient of J at w, M the Hessian of reg)

which closes with the square of the gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, final

import numpy as np
from typing_extensions import override

from undercut.contracts import CurvedRisk, QuadraticRegularizer, Solver
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
        scale = hessian.diagonal() + reg.hessian_diagonal(risk.n_params)
        direction, count = conjugate_gradients(product, -(reg.gradient(w) + state.cut.a), scale, self.forcing)

        # 2. The minimum of J along it; the plane there proves a bound.
        moved = descend(risk, reg, state, direction)
        n_passes = state.progress.n_passes + count + 1  # one for the diagonal
        return replace(moved, progress=replace(moved.progress, n_passes=n_passes))


def conjugate_gradients(
    product: Callable[[FloatArray], FloatArray], target: FloatArray, scale: FloatArray, forcing: float
) -> tuple[FloatArray, int]:
    """(x, products): ``A x`` is near ``target``, up to ``forcing`` of it in the norm ``sqrt(r' r / scale)``.

    It ends early at the deadline of the run, and where rounding makes A look indefinite.
    """
    x, residual = np.zeros_like(target), target.copy()
    scaled = residual / scale
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
        scaled = residual / scale
        last, size = size, float(residual @ scaled)
        if size <= enough or expired():
            break
        direction = scaled + size / last * direction
    return x, count
