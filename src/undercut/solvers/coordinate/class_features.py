"""The features that margin losses of several classes can use under absolute values, and those that sweeps do use.

No shares make a force larger than ``|V_jk| <= sum_i weight_i |x_ij|``.  A feature for which this is at most l1 is zero
at the optimum, whatever the others are: it is left out from the start.
"""

from __future__ import annotations

import math

import numpy as np

from undercut._jit.proximal_blocks import column_sizes
from undercut.maps.csr import SparseDesign
from undercut.risks import MulticlassRisk
from undercut.solvers.bounds import ROUNDING
from undercut.solvers.coordinate.class_parts import design_of
from undercut.solvers.coordinate.working.column_parts import some_columns
from undercut.types import Array, FloatArray

NEAR = 0.8  # share of l1 from which on a feature is taken up
GROWTH = 2  # features that are taken up later, at most, in numbers of those that are not zero


def possible_features(risk: MulticlassRisk, l1: float) -> Array:
    """The features that can have parameters other than zero, ascending; all of a dense X."""
    design = design_of(risk)
    if l1 == 0.0 or not isinstance(design, SparseDesign):
        return np.arange(design.shape[1])
    sizes = np.empty(design.shape[1])
    column_sizes(design.X.indptr, design.X.indices, design.X.data, risk.weight, sizes)
    return np.flatnonzero(sizes * (1.0 + risk.n_samples * ROUNDING) > l1)


def restricted(risk: MulticlassRisk, features: Array) -> MulticlassRisk:
    """The risk with some of its features."""
    design = design_of(risk)
    if features.size == design.shape[1]:
        return risk
    assert isinstance(design, SparseDesign)
    return risk.with_features(some_columns(design, features))


def features_in_use(used: Array, peaks: FloatArray, l1: float, first: int) -> Array:
    """The features that are used, and those that may be: the ones with the largest forces if they are many.

    Without absolute values none stays zero.

    ``used`` : bool, which have parameters other than zero.  ``peaks`` : the largest force on each.
    """
    if l1 == 0.0:
        return np.arange(used.size)
    steepness = np.where(used, math.inf, peaks)
    wanted = np.flatnonzero(steepness > NEAR * l1)
    most = max(first, GROWTH * int(np.count_nonzero(used)))
    if wanted.size > most:
        wanted = np.sort(wanted[np.argpartition(-steepness[wanted], most)[:most]])
    return wanted
