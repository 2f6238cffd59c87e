"""The lines of the table of ``auto`` for smooth losses with L2."""

from __future__ import annotations

from undercut.contracts import Risk, SmoothRisk
from undercut.losses import Logistic
from undercut.risks import LinearRisk
from undercut.risks.scores.sampled_gram import MOST_FEATURES
from undercut.solvers.bundle.line_search_bundle import LineSearchBundle
from undercut.solvers.choice.conditions import (
    CLASS_PARAMS,
    HESSIAN_PARAMS,
    NEWTON_PARAMS,
    SEVERAL_FEATURES,
    SHORT_ROWS,
    WEAK,
    accepts,
    has_few_planes,
    has_large_hessian,
    has_late_bound,
    has_weak_hinge,
    is_least_squares,
)
from undercut.solvers.choice.row import FEWEST_STEPS, FINE, SEVERAL_STEPS, Row
from undercut.solvers.choice.sweep_conditions import (
    LONG_ENTRIES,
    has_easy_dual,
    has_easy_hinge_dual,
    has_easy_logistic_dual,
    has_long_rows,
    has_short_dual,
    may_have_slow_sweeps,
)
from undercut.solvers.coordinate.dual_coordinate import DualCoordinate
from undercut.solvers.newton.least_squares import LeastSquares
from undercut.solvers.newton.newton import Newton
from undercut.solvers.newton.truncated_newton import TruncatedNewton
from undercut.solvers.race import Race
from undercut.solvers.relay import Relay


def _sweeps_then_newton(risk: Risk) -> Relay:
    """Sweeps, and Newton steps where they turn out to be slow."""
    candidates = (DualCoordinate(), TruncatedNewton())
    if isinstance(risk, LinearRisk) and isinstance(risk.loss, Logistic):
        return Relay(candidates=candidates, patience=FEWEST_STEPS)
    return Relay(candidates=candidates)


SMOOTH_ROWS = (
    Row(
        f"L2, squares without free intercept, large sparse X with over {NEWTON_PARAMS} features and {SHORT_ROWS} "
        "entries a row, strong regularization",
        has_easy_dual,
        lambda risk: Relay(candidates=(DualCoordinate(), LineSearchBundle())),
        "a few sweeps are enough",
    ),
    Row(
        f"L2, squared hinge without free intercept, gap of at least {FINE:g}, large sparse X with over {NEWTON_PARAMS} "
        f"features and {LONG_ENTRIES} entries a row, lambda somewhat smaller",
        has_easy_hinge_dual,
        _sweeps_then_newton,
        "some more sweeps still take less time than Newton steps, which need many products",
        is_fine=False,
    ),
    Row(
        f"logistic loss without free intercept, or softmax loss, sparse X with many entries and over {NEWTON_PARAMS} "
        "features, lambda neither large nor small",
        has_easy_logistic_dual,
        _sweeps_then_newton,
        "a few sweeps take less time than the products with X of a few Newton steps",
    ),
    Row(
        "squared loss, X dense or with few features",
        lambda risk, reg: is_least_squares(risk, reg),
        lambda risk: LeastSquares(),
        "one system of linear equations is the whole work",
    ),
    Row(
        f"smooth risk, at most {NEWTON_PARAMS} parameters; {SEVERAL_FEATURES} with many samples and long rows, "
        f"{HESSIAN_PARAMS} where these are dense and lambda is small, {CLASS_PARAMS} with several classes",
        lambda risk, reg: (
            isinstance(risk, SmoothRisk) and risk.n_params <= NEWTON_PARAMS and not has_large_hessian(risk, reg)
        ),
        lambda risk: Newton(),
        "a handful of steps reach any accuracy, however small lambda is",
    ),
    Row(
        "logistic loss, sparse X with at most four times as many features as samples, no intercept, small lambda",
        lambda risk, reg: has_short_dual(risk, reg) and may_have_slow_sweeps(risk, reg),
        lambda risk: Race(candidates=(DualCoordinate(), TruncatedNewton())),
        "sweeps take a third or three times the time of Newton steps, and it cannot be told beforehand which",
    ),
    Row(
        "smooth loss, sparse X with more features than samples, no intercept or several classes; squared hinge, few "
        "samples, small lambda",
        lambda risk, reg: has_short_dual(risk, reg),
        _sweeps_then_newton,
        "the dual has fewer variables; at small lambda conjugate gradients help it, and for the logistic loss "
        "Newton steps take over where sweeps are slow",
    ),
    Row(
        f"squared hinge, lambda below {WEAK:g}, sparse X with at most {MOST_FEATURES} features in main memory",
        lambda risk, reg: has_weak_hinge(risk, reg) and accepts(TruncatedNewton(), risk, reg),
        lambda risk: Relay(candidates=(TruncatedNewton(), DualCoordinate(), TruncatedNewton())),
        "the second takes over where few samples are within the margin: Newton steps are many there, sweeps short",
    ),
    Row(
        f"smooth loss, lambda below {WEAK:g}, X in main memory with at most {MOST_FEATURES} features or as many as "
        "samples, or several classes",
        has_late_bound,
        lambda risk: (
            Relay(candidates=(TruncatedNewton(), Newton()), patience=SEVERAL_STEPS)
            if isinstance(risk, SmoothRisk) and risk.n_params <= NEWTON_PARAMS
            else TruncatedNewton()
        ),
        "an approximate inverse makes directions cheap; with many parameters planes stall; its late bound loses races",
    ),
    Row(
        f"smooth loss of one score but Poisson, sparse X with more features than samples and {LONG_ENTRIES} entries a "
        "row",
        lambda risk, reg: has_long_rows(risk) and has_few_planes(risk, reg),
        lambda risk: Race(candidates=(LineSearchBundle(), TruncatedNewton())),
        "neither is always the faster: planes take 0.4 to 2 times the time; with shorter rows Newton steps do well",
    ),
    Row(
        "the risk is smooth and has Hessian products",
        lambda risk, reg: accepts(TruncatedNewton(), risk, reg),
        lambda risk: Race(candidates=(TruncatedNewton(), LineSearchBundle())),
        "a Newton step takes fewer products with X than the planes that it replaces",
    ),
)
