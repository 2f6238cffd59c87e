"""How many planes a solver keeps, so that they fit into memory."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

from undercut.contracts import Risk
from undercut.maps.streamed import StreamedDesign
from undercut.solvers.choice.conditions import features
from undercut.solvers.race import Race
from undercut.solvers.registry import AnySolver
from undercut.solvers.relay import Relay

PLANES_BYTES = 2**27  # memory of the planes of a chain; with half a million weights more planes gained nothing
LEAST_PLANES, MOST_PLANES = 20, 200
MANY_PARAMS = 50_000  # of a risk that is not convex: planes take less memory, and their products less time


def chain_planes(n_params: int) -> int:
    """As many planes as fit into 128 MB, within limits."""
    return min(max(PLANES_BYTES // (8 * n_params), LEAST_PLANES), MOST_PLANES)


def plane_settings(n_params: int) -> dict[str, Any]:
    """How planes of a risk that is not convex are stored: from many parameters on in single precision."""
    if n_params < MANY_PARAMS:
        return {}
    return {"precision": "single", "max_planes": min(max(PLANES_BYTES // (4 * n_params), LEAST_PLANES), MOST_PLANES)}


def within_memory(solver: AnySolver, risk: Risk) -> AnySolver:
    """The solver with as many planes as fit beside rows that stay on disk; itself where X is in memory."""
    X = features(risk)
    if not isinstance(X, StreamedDesign):
        return solver
    if isinstance(solver, Race | Relay):
        return replace(solver, candidates=tuple(within_memory(each, risk) for each in solver.candidates))
    most = max(X.plane_bytes // (3 * 8 * risk.n_params), LEAST_PLANES)  # they are copied when their number doubles
    planes = getattr(solver, "max_planes", 0)
    return replace(cast(Any, solver), max_planes=most) if planes is None or planes > most else solver
