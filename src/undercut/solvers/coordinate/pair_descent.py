"""Coordinate descent in pairs on the dual of the support vector machine (Fan, Chen, Lin 2005).

    max_x  D(x) = lam (sum_i y_i x_i - 1/2 x' K x),      0 <= y_i x_i <= weight_i / lam,      sum_i x_i = 0

Every pair of variables is moved to its best position, and every x is feasible: ``D(x) <= min J <= J(x)``.

Where K is stored in float32 the scores ``K x`` follow x by rounded rows.  They are ``K anchor + K' (x - anchor)`` with
the exact K at the anchor and the rounded K' since; as soon as rounding makes up half of the gap the scores are
evaluated in double precision and the anchor moves to x.  This is iterative refinement: the limit is the optimum of K.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, final

import numpy as np
from typing_extensions import override

from undercut._jit.box_qp import solve_balanced, solve_box
from undercut.contracts import Regularizer, Risk, Solver
from undercut.errors import CapabilityError, require
from undercut.maps.gram import DenseGram, Gram, check_memory
from undercut.regularizers import KernelNorm
from undercut.risks import GramRisk
from undercut.solvers.kernel_dual import KernelDual, KernelState, Point, check_kernel_problem
from undercut.solvers.schedule import is_due, stalled
from undercut.trace import Progress, Status
from undercut.types import Array, FloatArray

LOOSEST, TIGHTEST = 0.1, 1e-10  # how far derivatives may violate their bounds
TIGHTEN = 0.1  # from step to step
SLICE = 10**8  # entries of K that one step may touch: about a quarter of a second
PATIENCE = 100  # steps without a smaller gap; D never decreases but for rounding


@dataclass(frozen=True, kw_only=True)
class PairDescentState(KernelState):
    derived: ClassVar = ("K",)

    K: Array
    x: FloatArray
    scores: FloatArray  # K x
    anchor: FloatArray  # where the scores were exact
    tol: float  # of the last step


@final
@dataclass(frozen=True, kw_only=True)
class PairDescent(Solver[PairDescentState, GramRisk, KernelNorm]):
    """Coordinate descent in pairs on ``GramRisk`` and ``KernelNorm``, with the Gram matrix in main memory.

    A step descends until no pair of derivatives violates its bounds by more than ``accuracy`` times the relative gap,
    or for about a quarter of a second.

    >>> from undercut.maps.gram import DenseGram
    >>> from undercut import minimize
    >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([1.0, -1.0, -1.0, 1.0])
    >>> risk = GramRisk(DenseGram(np.exp(-((X - X.T) ** 2))), y)
    >>> result = minimize(risk, KernelNorm(0.1, risk.gram), PairDescent())
    >>> result.status.name, result.certificate, round(result.objective, 3)
    ('CONVERGED', 'global', 0.251)
    """

    may_stall = False

    accuracy: float = 0.1

    def __post_init__(self) -> None:
        require(self.accuracy > 0.0, "`accuracy` must be positive", self.accuracy)

    @override
    def check(self, risk: Risk, reg: Regularizer) -> None:
        check_kernel_problem("PairDescent", risk, reg)
        if isinstance(risk, GramRisk) and not risk.gram.on_host:
            raise CapabilityError("PairDescent needs the Gram matrix in main memory: use KernelHedging() on a device")

    @override
    def init(self, risk: GramRisk, reg: KernelNorm, w0: FloatArray) -> PairDescentState:
        both, scores = KernelDual(risk, reg.lam), risk.scores(w0)
        progress = Progress(0, both.objective(w0, scores), risk.lower_bound, n_evaluations=1)
        x = both.feasible(w0)
        moved = scores + risk.gram.product(x - w0)
        K = _stored(risk.gram)
        return PairDescentState(solution=w0, progress=progress, K=K, x=x, scores=moved, anchor=w0, tol=LOOSEST)

    @override
    def step(self, risk: GramRisk, reg: KernelNorm, state: PairDescentState) -> PairDescentState:
        last = state.progress

        # 1. Descend to a share of the gap.
        tol = self._tolerance(state)
        x, scores = state.x.copy(), state.scores.copy()
        both, limit = KernelDual(risk, reg.lam), max(1, SLICE // x.size)
        program = (state.K, risk.gram.diagonal, risk.y, both.cap)
        if risk.fit_intercept:
            solve_balanced(*program, x, scores, tol, limit)
        else:
            solve_box(*program, np.ones_like(x), 1.0, 0.0, x, scores, tol, limit)
        progress = replace(last, step=last.step + 1, n_evaluations=last.n_evaluations + 1)
        moved = replace(state, x=x, scores=scores, tol=tol, progress=progress)

        # 2. When a certificate is due: objective and bound.
        return self._certified(risk, both, moved) if is_due(progress.step, state.certified) else moved

    @override
    def restored(self, risk: GramRisk, reg: KernelNorm, state: PairDescentState) -> PairDescentState:
        return replace(state, K=_stored(risk.gram))

    @override
    def ended(self, state: PairDescentState) -> Status | None:
        return stalled(state.progress.step, state.gained, PATIENCE)

    @override
    def finish(self, risk: GramRisk, reg: KernelNorm, state: PairDescentState) -> PairDescentState:
        both = KernelDual(risk, reg.lam)
        return both.finished(state if state.certified == state.progress.step else self._certified(risk, both, state))

    def _tolerance(self, state: PairDescentState) -> float:
        """Of the next step: a share of the relative gap, and less than of the last one."""
        last = state.progress
        wanted = self.accuracy * last.gap / max(abs(last.objective), math.ulp(0.0))
        return max(min(wanted, TIGHTEN * state.tol), TIGHTEST)

    def _certified(self, risk: GramRisk, both: KernelDual, state: PairDescentState) -> PairDescentState:
        """With the objective and the bound of x, in double precision if rounding makes up too much of the gap."""
        x = both.feasible(state.x)
        scores = state.scores + risk.gram.product(x - state.x)
        point = Point(x, scores, risk.gram.rounding * float(np.abs(x - state.anchor).sum()))
        attempt = both.proved(replace(state, x=x, scores=scores), point)
        if not both.is_rounded(attempt, point):
            return attempt
        scores = risk.scores(x)
        return both.proved(replace(state, x=x, scores=scores, anchor=x), Point(x, scores))


def _stored(gram: Gram) -> Array:
    """All of K."""
    if isinstance(gram, DenseGram):
        return np.asarray(gram.K)
    n = gram.n_samples
    check_memory("the Gram matrix", n, n, gram.itemsize)
    return gram.block(np.arange(n))
