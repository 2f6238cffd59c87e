"""The lines of the table of ``auto`` for margin losses of several classes with L2."""

from __future__ import annotations

from undercut.solvers.bundle.line_search_bundle import LineSearchBundle
from undercut.solvers.conditions import (
    FEW_SAMPLES,
    MANY_FEATURES,
    SEVERAL_FEATURES,
    has_dual,
    has_margins,
    has_several_features,
    is_strong,
    is_wide,
)
from undercut.solvers.coordinate.dual_coordinate import DualCoordinate
from undercut.solvers.coordinate.proximal_sweeps import ProximalSweeps
from undercut.solvers.relay import Relay
from undercut.solvers.row import FINE, Row
from undercut.solvers.sweep_conditions import (
    MANY_PER_FEATURE,
    TRIED_CLASSES,
    has_fine_proximal_sweeps,
    has_proximal_sweeps,
    may_have_good_free_sweeps,
)

PROXIMAL_THEN_PLANES = Relay(candidates=(ProximalSweeps(), LineSearchBundle()))

CLASS_ROWS = (
    Row(
        f"several classes, margin loss, gap below {FINE:g}, large X with at most {MANY_FEATURES} features, not strong; "
        f"lambda small where X is sparse with over {SEVERAL_FEATURES} features and intercepts are not free",
        has_fine_proximal_sweeps,
        lambda risk: PROXIMAL_THEN_PLANES,
        "proximal points make sweeps few at any lambda, and interior point steps on few shares give the last digits",
        is_fine=True,
    ),
    Row(
        f"several classes, margin loss, large X with at most {MANY_FEATURES} features, not strong; without free "
        f"intercepts over {SEVERAL_FEATURES} features or at most {MANY_PER_FEATURE} samples for each, and lambda small "
        "where X is sparse",
        has_proximal_sweeps,
        lambda risk: PROXIMAL_THEN_PLANES,
        "proximal points make sweeps few at any lambda",
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
