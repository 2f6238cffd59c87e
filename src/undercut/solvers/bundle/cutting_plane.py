"""Cutting-plane minimization of ``J(w) = reg(w) + R(w)`` (Smola et al. 2007, Alg. 1; Do and Artières 2012, Alg. 2, 3).

Each evaluation of the risk at w_t yields a plane that touches R there and lies below it elsewhere.  Their maximum R_t
models R, and two numbers bracket the optimum:

    lower_bound = min_w reg(w) + R_t(w)  <=  min_w J(w)  <=  min_i J(w_i) = objective
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from typing_extensions import override

from undercut.contracts import Regularizer, Risk
from undercut.solvers.bounds import tighter
from undercut.solvers.bundle.bundle import PlaneModel
from undercut.solvers.bundle.common import BundleSolver, best_of, check_bundle_settings, master_tolerance
from undercut.solvers.bundle.dual_bundle import bundle_for
from undercut.trace import Progress
from undercut.types import FloatArray


@dataclass(frozen=True)
class CuttingPlaneState:
    w: FloatArray  # where the next plane is taken
    solution: FloatArray
    bundle: PlaneModel
    progress: Progress


@final
@dataclass(frozen=True, kw_only=True)
class CuttingPlane(BundleSolver[CuttingPlaneState, Risk, Regularizer]):
    """BMRM / CRBM; with ``max_planes`` the limited memory CRBM, which replaces dropped planes by their aggregate.

    >>> import numpy as np
    >>> from undercut import FunctionRisk, L2, minimize
    >>> risk = FunctionRisk(lambda w: (abs(w - 1.0).sum(), np.sign(w - 1.0)), n_params=2, lower_bound=0.0)
    >>> result = minimize(risk, L2(0.5), CuttingPlane(max_planes=10))
    >>> round(result.objective, 3), result.certificate
    (0.5, 'global')
    """

    max_planes: int | None = None  # planes kept besides the flat and the aggregated one
    max_idle: int = 50  # drop a plane whose dual weight has been zero this long
    master_accuracy: float = 0.1  # solve each master problem to this fraction of the gap

    def __post_init__(self) -> None:
        check_bundle_settings(self.max_planes, self.max_idle, self.master_accuracy)

    @override
    def init(self, risk: Risk, reg: Regularizer, w0: FloatArray) -> CuttingPlaneState:
        return CuttingPlaneState(w0, w0, bundle_for(reg, risk.n_params, risk.lower_bound), Progress())

    @override
    def step(self, risk: Risk, reg: Regularizer, state: CuttingPlaneState) -> CuttingPlaneState:
        last, bundle = state.progress, state.bundle

        # 1. Touch the risk from below at w_t, in place of the plane longest without weight where memory is limited.
        cut = risk.cut(state.w)
        if self.max_planes is not None:
            bundle.make_room(self.max_planes)
        bundle.add(cut)

        # 2. J(w_t) may rise from one step to the next; only the best value is a bound.
        solution, objective = best_of(state, state.w, cut, risk, reg)

        # 3. Minimize the sharper model to a share of the gap: every dual-feasible alpha gives a valid lower bound.
        model = bundle.minimize(master_tolerance(self.master_accuracy, objective, last.lower_bound))
        lower_bound = tighter(last.lower_bound, model.lower_bound, objective, model.size)

        # 4. Drop planes that no longer support the model.
        bundle.drop_idle(self.max_idle)
        progress = Progress(last.step + 1, objective, lower_bound, last.n_evaluations + 1, len(bundle))
        return CuttingPlaneState(model.w, solution, bundle, progress)
