"""A check of the objective and the lower bound that a run reports."""

from __future__ import annotations

from contextlib import suppress
from itertools import pairwise
from typing import Any

import numpy as np

from undercut.contracts import Regularizer, Risk
from undercut.devices import to_host
from undercut.errors import CapabilityError
from undercut.maps.gram import DenseGram, Gram
from undercut.regularizers import KernelNorm
from undercut.risks import GramRisk
from undercut.solvers import CuttingPlane, LevelBundle, PairDescent, ProximalBundle, Stop, minimize
from undercut.testing.tolerance import ROUNDING
from undercut.trace import Result, Status

RIVALS = (PairDescent(), ProximalBundle(), LevelBundle(), CuttingPlane())  # the first that applies is used


def check_certificate(
    result: Result, risk: Risk, reg: Regularizer, *, solver: Any = None, max_seconds: float = 10.0
) -> None:
    """Recompute what ``minimize(risk, reg)`` claims about its result, independently of the solver that made it.

    The objective is that of ``result.w``; the trace agrees with the result, objectives never rise and proven bounds
    never fall; "converged" and "global" are reported only where justified.  For a global certificate another ``solver``
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
    """Status, certificate and trace of a result agree."""
    is_global, converged = result.certificate == "global", result.status is Status.CONVERGED
    assert not is_global or is_convex, "certificate: must not be 'global' where the risk is not convex"
    assert not converged or np.isfinite(result.gap), f"status: CONVERGED with a gap of {result.gap}"
    reported = (result.objective, result.lower_bound)
    for last in result.trace[-1:]:
        traced = (last.objective, last.lower_bound)
        assert reported == traced, f"trace: ends with {traced}, and the result has {reported}"
    for before, after in pairwise(result.trace):
        assert after.objective <= before.objective, f"objective: rises at step {after.step}"
        assert not is_global or after.lower_bound >= before.lower_bound, f"lower_bound: falls at step {after.step}"


def _rival(risk: Risk, reg: Regularizer) -> Any:
    """The first solver that can solve the problem."""
    for solver in RIVALS:
        with suppress(CapabilityError):
            solver.check(risk, reg)
            return solver
    return "auto"
