"""The lines of the table of ``auto`` for margin losses of several classes with L2."""

from __future__ import annotations

from undercut.contracts import Risk
from undercut.risks import MulticlassRisk
from undercut.solvers.bundle.line_search_bundle import LineSearchBundle
from undercut.solvers.choice.conditions import (
    FEW_SAMPLES,
    MANY_FEATURES,
    SEVERAL_FEATURES,
    has_dual,
    has_margins,
    has_several_features,
    is_strong,
    is_wide,
)
from undercut.solvers.choice.row import FINE, Row
from undercut.solvers.choice.sweep_conditions import (
    CLASS_EQUATIONS,
    MANY_PER_FEATURE,
    TRIED_CLASSES,
    has_few_class_equations,
    has_fine_proximal_sweeps,
    has_proximal_sweeps,
    has_some_class_equations,
    may_have_good_free_sweeps,
)
from undercut.solvers.coordinate.dual_coordinate import DualCoordinate
from undercut.solvers.coordinate.proximal_sweeps import ProximalSweeps
from undercut.solvers.newton.class_interior_point import ClassInteriorPoint
from undercut.solvers.race import Race
from undercut.solvers.registry import AnySolver
from undercut.solvers.relay import Relay

PROXIMAL_THEN_PLANES = Relay(candidates=(ProximalSweeps(), LineSearchBundle()))
PROXIMAL_OR_POINTS = Race(candidates=(ProximalSweeps(), ClassInteriorPoint()))


def proximal_solver(risk: Risk) -> AnySolver:
    """Sweeps with proximal points, beside interior point steps where these take little time."""
    assert isinstance(risk, MulticlassRisk)
    return PROXIMAL_OR_POINTS if has_some_class_equations(risk) else PROXIMAL_THEN_PLANES


CLASS_ROWS = (
    Row(
        f"several classes, margin loss with L2, fewer samples than features and {CLASS_EQUATIONS} equations of these, "
        "or few parameters and samples",
        has_few_class_equations,
        lambda risk: ClassInteriorPoint(),
        "some twenty steps of a few milliseconds, whatever lambda and the sizes of the features are",
    ),
    Row(
        f"several classes, margin loss, gap below {FINE:g}, at most {MANY_FEATURES} features, not strong; "
        f"lambda small where X is sparse with over {SEVERAL_FEATURES} features and intercepts are not free",
        has_fine_proximal_sweeps,
        proximal_solver,
        "proximal points make sweeps few at most lambdas; interior point steps, where they cost little, at any",
        is_fine=True,
    ),
    Row(
        f"several classes, margin loss, at most {MANY_FEATURES} features, not strong; without free "
        f"intercepts over {SEVERAL_FEATURES} features or at most {MANY_PER_FEATURE} samples for each, and lambda small "
        "where X is sparse",
        has_proximal_sweeps,
        proximal_solver,
        "proximal points make sweeps few at most lambdas; likewise",
    ),
    Row(
        "several classes, margin loss, free intercepts, large X; sparse with over "
        f"{SEVERAL_FEATURES} features or strong regularization, or at most {FEW_SAMPLES} samples",
        lambda risk, reg: has_margins(risk) and may_have_good_free_sweeps(risk, reg) and has_dual(risk, reg),
        lambda risk: Relay(candidates=(DualCoordinate(), LineSearchBundle()), trial=TRIED_CLASSES),
        "the best intercepts of every plane cost more than sweeps, which soon show whether they get there",
    ),
    Row(
        f"several classes, margin loss, large sparse X with more than {MANY_FEATURES} features",
        lambda risk, reg: has_margins(risk) and is_wide(risk) and has_dual(risk, reg),
        lambda risk: DualCoordinate(),
        "planes are far longer than rows; its gap falls late where lambda is very small, which loses races",
    ),
    Row(
        f"several classes, margin loss, large sparse X; over {SEVERAL_FEATURES} features or strong regularization",
        lambda risk, reg: (
            has_margins(risk) and (has_several_features(risk) or is_strong(risk, reg)) and has_dual(risk, reg)
        ),
        lambda risk: Relay(candidates=(DualCoordinate(), LineSearchBundle())),
        "a plane has an entry for every feature and class, a dual step for those of one sample",
    ),
)
