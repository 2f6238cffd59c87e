"""Cutting planes that ask a cheap part of the risk first (Joachims, Finley, Yu 2009, Sec. 3.4: caching labelings).

Where evaluating R is expensive, planes of a cheap risk R_W <= R may improve the model enough.  They lie below R_W,
hence below R, so the model built of both kinds still proves a bound; J itself is known only where R was evaluated:

    lower_bound = min_w reg(w) + max_i (planes of R and of R_W)  <=  min_w J(w)  <=  min_{R evaluated at w} J(w)

The minimizer of an early model is far from where the model is accurate, so R is evaluated on the way from the best
point to it (in-out separation, Ben-Ameur and Neto 2007).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import final

from typing_extensions import override

from undercut.contracts import Cut, MinorizedRisk, QuadraticRegularizer, Regularizer, Risk
from undercut.errors import CapabilityError, require
from undercut.solvers.bounds import tighter
from undercut.solvers.bundle.bundle import Bundle
from undercut.solvers.bundle.common import BundleSolver, best_of, check_bundle_settings, master_tolerance
from undercut.trace import Progress
from undercut.types import FloatArray

FIRST_REACH, LEAST_REACH = 0.3, 0.05  # share of the way from the best point to the model's minimizer
LONGER, SHORTER = 1.5, 0.7  # after a step that improves the objective, and after one that improves the model alone


@dataclass(frozen=True)
class CachedState:
    w: FloatArray  # the model's minimizer
    model_value: float  # what the model proves there
    solution: FloatArray
    bundle: Bundle
    progress: Progress
    reach: float = FIRST_REACH


@final
@dataclass(frozen=True, kw_only=True)
class CachedCuttingPlane(BundleSolver[CachedState, MinorizedRisk, QuadraticRegularizer]):
    """Cutting planes that evaluate the risk only where its ``minorant`` does not improve the model.

    A step counts as an evaluation only if the risk itself was asked.

    >>> import numpy as np
    >>> from undercut import L2, StructuredRisk, minimize
    >>> class Signs:
    ...     n_params = 2
    ...     def joint_feature(self, x, y):
    ...         return y * x / 2
    ...     def label_loss(self, y, y_hat):
    ...         return float(y != y_hat)
    ...     def decode(self, w, x, y, rescaling):
    ...         return -y if y * (w @ x) < 1 else y
    >>> X, y = np.array([[2.0, 0.0], [0.0, 1.0]]), [1, -1]
    >>> minimize(StructuredRisk(Signs(), X, y, cache=5), L2(0.1), CachedCuttingPlane()).w.round(2)
    array([ 0.5, -1. ])
    """

    enough: float = 0.3  # share of the gap by which a cheap plane must lift the model where it is taken
    max_idle: int = 50  # drop a plane whose dual weight has been zero this long
    master_accuracy: float = 0.1  # solve each master problem to this fraction of the gap

    def __post_init__(self) -> None:
        check_bundle_settings(None, self.max_idle, self.master_accuracy)
        rule = "`enough` must exceed `master_accuracy`, or a plane that does not improve the model could be accepted"
        require(self.enough > self.master_accuracy, rule, self.enough)

    @override
    def check(self, risk: Risk, reg: Regularizer) -> None:
        super().check(risk, reg)
        if not isinstance(risk, MinorizedRisk):
            raise CapabilityError(
                f"CachedCuttingPlane needs a risk with a `minorant`, and this {type(risk).__name__} has none: "
                "give a StructuredRisk a positive `cache`, or use CuttingPlane"
            )

    @override
    def init(self, risk: MinorizedRisk, reg: QuadraticRegularizer, w0: FloatArray) -> CachedState:
        bundle = Bundle(reg, risk.n_params, risk.lower_bound)
        cut = risk.cut(w0)
        bundle.add(cut)
        objective = reg.value(w0) + cut.value
        return self._moved(CachedState(w0, objective, w0, bundle, Progress(0, objective, n_evaluations=1)))

    @override
    def carry(self, risk: MinorizedRisk, reg: QuadraticRegularizer, state: CachedState) -> CachedState:
        objective = state.progress.objective - state.bundle.reg.value(state.solution) + reg.value(state.solution)
        state.bundle.regularize(reg)
        return self._moved(replace(state, progress=Progress(0, objective)))

    @override
    def step(self, risk: MinorizedRisk, reg: QuadraticRegularizer, state: CachedState) -> CachedState:
        last = replace(state.progress, step=state.progress.step + 1)
        penalty = reg.value(state.w)

        # 1. Take a cheap plane if it raises the model by a sufficient share of the gap.
        if (cheap := self._cheap(risk, penalty, state)) is not None:
            state.bundle.add(cheap)
            return self._moved(replace(state, progress=last))

        # 2. Otherwise evaluate the risk itself, between the best point and w; the objective is known only there.
        w = state.solution + state.reach * (state.w - state.solution)
        cut = risk.cut(w)
        state.bundle.add(cut)
        solution, objective = best_of(state, w, cut, risk, reg)

        # 3. Go further where the objective improves, or where the plane is too low to improve the model at w.
        lift = penalty + float(cut.a @ state.w) + cut.b - state.model_value
        if objective < last.objective:
            reach = LONGER * state.reach
        elif lift <= self.master_accuracy * (objective - last.lower_bound):
            reach = 2.0 * state.reach
        else:
            reach = SHORTER * state.reach
        reach = min(max(reach, LEAST_REACH), 1.0)
        last = replace(last, objective=objective, n_evaluations=last.n_evaluations + 1)
        return self._moved(replace(state, solution=solution, progress=last, reach=reach))

    def _cheap(self, risk: MinorizedRisk, penalty: float, state: CachedState) -> Cut | None:
        cut = risk.minorant.cut(state.w)
        return cut if penalty + cut.value - state.model_value > self.enough * state.progress.gap else None

    def _moved(self, state: CachedState) -> CachedState:
        """Minimize the sharper model, to a share of the gap, and drop idle planes."""
        last, bundle = state.progress, state.bundle
        model = bundle.minimize(master_tolerance(self.master_accuracy, last.objective, last.lower_bound))
        bundle.drop_idle(self.max_idle)
        lower_bound = tighter(last.lower_bound, model.lower_bound, last.objective, model.size)
        progress = replace(last, lower_bound=lower_bound, n_cuts=len(bundle))
        return replace(state, w=model.w, model_value=model.lower_bound, progress=progress)
