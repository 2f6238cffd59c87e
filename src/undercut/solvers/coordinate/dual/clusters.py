"""Samples that move together: nearly equal rows of different classes.

No w with small norm has a margin between two such rows, so their dual variables grow until the weights are large, and
sweeps over one sample at a time make them grow by tiny steps.  Joint steps need only the inner products of a few rows.
"""

from __future__ import annotations

import math
from typing import NamedTuple, Self

import numpy as np

from undercut._jit.class_clusters import cluster_grams, contradictions, sweep_clusters
from undercut.solvers.coordinate.dual.class_dual import MarginDual
from undercut.solvers.coordinate.dual.descent import row_work
from undercut.types import Array, FloatArray

COSINE = 0.9  # of the angle between two rows of a cluster, at least
LARGEST = 8  # samples of a cluster
SUSPECTS = 2.0  # times the square root of the samples: as many rows are compared, which costs a small part of a pass


class Clusters(NamedTuple):
    """Disjoint groups of samples: ``members[starts[c] : starts[c + 1]]``."""

    members: Array
    starts: Array
    offsets: Array  # where the inner products of a cluster begin in ``grams``
    grams: FloatArray
    work: int  # of one sweep over all of them

    @classmethod
    def among(cls, dual: MarginDual, chosen: Array) -> Self | None:
        """Those among the chosen samples; ``None`` where there is none."""
        width = dual.width
        rows = dual.rows if dual.rho == 0.0 else dual.rows._replace(constant=0.0)  # intercepts make no rows similar
        names = contradictions(*rows, dual.lengths, dual.risk.y, chosen, COSINE, LARGEST, width)
        sizes = np.bincount(names, minlength=chosen.size)
        together = np.flatnonzero(sizes[names] > 1)
        if together.size == 0:
            return None
        members = chosen[together[np.argsort(names[together], kind="stable")]]
        sizes = sizes[sizes > 1]
        starts, offsets = np.append(0, np.cumsum(sizes)), np.append(0, np.cumsum(sizes**2))
        grams = np.empty(offsets[-1])
        cluster_grams(*dual.rows, members, starts, width, grams)
        return cls(members, starts, offsets, grams, dual.risk.n_classes * row_work(dual.rows, members))

    def sweep(self, dual: MarginDual, counts: Array, a: FloatArray, v: FloatArray) -> float:
        """Maximize the dual over one cluster after the other, in the arrays; its growth.

        ``counts`` : the active classes of every sample; those of the members become all.
        """
        constants = dual.risk.y, dual.costs, dual.cap
        return float(sweep_clusters(*dual.rows, *constants, *self[:4], counts, a, v))


def suspects(dual: MarginDual, a: FloatArray) -> Array:
    """The samples with the largest part in the weights."""
    n = dual.cap.size
    part = a[np.arange(n), dual.risk.y] * np.sqrt(dual.squares)
    count = min(math.ceil(SUSPECTS * math.sqrt(n)), n)
    return np.sort(np.argpartition(-part, count - 1)[:count])
