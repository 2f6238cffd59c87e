"""The sparse columns with the most entries, whose parameters are minimized over together.

Words of a text, like most features that are counted, have very different frequencies.  The frequent ones occur in the
same samples, so their columns point in similar directions, along which coordinate descent moves in small steps: after
many epochs the violations of some fifty frequent features are by far the largest.  Their Gram matrix costs about as
much as an epoch, and a minimum over their parameters costs less than an epoch over them.
"""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np

from undercut.maps.csr import SparseDesign
from undercut.solvers.coordinate.working.column_parts import some_columns
from undercut.solvers.coordinate.working.columns import Penalty, PointwiseModel, inverted
from undercut.solvers.coordinate.working.gram_columns import descend_gram
from undercut.types import Array, FloatArray

HEAVY = 50  # columns, at most
DENSE = 0.1  # share of the samples in which a heavy column has an entry, at least
WORK = 300  # entries of all columns for each entry of the Gram matrix, at least
ACCURACY = 0.01  # share of the violations that may be left


class HeavyColumns:
    """The heavy ones of the columns of a design, at ``places``; there may be none.

    ``ids`` : names of the columns; ``starts`` : where they start among all entries; ``last`` : those of the working set
    before.
    """

    def __init__(self, design: SparseDesign, ids: Array, starts: Array, last: HeavyColumns | None) -> None:
        counts = np.diff(starts)
        most = min(HEAVY, math.isqrt(int(starts[-1]) // WORK))
        places = np.flatnonzero(counts >= DENSE * design.shape[0])
        if places.size > most:
            places = np.sort(places[np.argsort(-counts[places], kind="stable")[:most]])
        self.places = places
        self.is_light = np.ones(ids.size, bool)
        self.is_light[places] = False
        self._ids = ids[places]
        self._whole = design if places.size else None
        if last is not None and "design" in vars(last) and np.array_equal(last._ids, self._ids):
            self.design = last.design

    @cached_property
    def design(self) -> SparseDesign:
        """These columns by rows."""
        assert self._whole is not None
        return some_columns(self._whole, self.places)


class HeavyModel:
    """A quadratic model in the parameters of the heavy columns and in the intercept, if there is one."""

    def __init__(self, columns: HeavyColumns, model: PointwiseModel) -> None:
        self._places, self._design, self._model = columns.places, columns.design, model
        self._inverse = inverted(model.intercept_bend)
        mixed = [self._design.rmatvec(model.through(unit)) for unit in model.units()]
        self._mixed = np.array(mixed).reshape(-1, self._places.size)
        self._H = self._design.weighted_gram(model.bend)
        if model.totals.size:
            self._H = self._H - self._mixed.T @ self._inverse @ self._mixed

    def descend(self, w: FloatArray, z: FloatArray, gradient: FloatArray, penalty: Penalty) -> tuple[float, FloatArray]:
        """Move to the minimum; w and z are overwritten.  The largest violation before, and the change of intercepts.

        ``gradient`` : that of the model where z is zero, in the parameters of all columns.
        """
        through = self._model.through(z)
        totals = self._model.totals + self._model.sums(through)
        slopes = gradient[self._places] + self._design.rmatvec(through) - self._mixed.T @ (self._inverse @ totals)
        now = w[self._places]
        violation = float(penalty.violation(now, slopes).max(initial=0.0))
        descend_gram(self._H, slopes, now, penalty, ACCURACY * violation)
        change = now - w[self._places]
        shift = -self._inverse @ (totals + self._mixed @ change)
        w[self._places] = now
        z += self._design.matvec(change)
        z += shift.sum()
        return violation, shift
