"""The large-margin risk of structured prediction (Tsochantaridis et al. 2005; Smola et al. 2007, Sec. 3.4, eq. 8, 9).

    R(w) = sum_i weight_i max_{y_hat} Delta(y_i, y_hat) + <w, Psi(x_i, y_hat) - Psi(x_i, y_i)>          margin rescaling
    R(w) = sum_i weight_i max_{y_hat} Delta(y_i, y_hat) (1 + <w, Psi(x_i, y_hat) - Psi(x_i, y_i)>)      slack rescaling

The labeling that attains a maximum gives a plane that touches the loss at w and lies below it elsewhere.  The
user's ``StructuredModel`` supplies Psi, Delta and the search for that labeling.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from typing_extensions import override

from undercut.contracts import BatchedRisk, Cut, Labeling, MinorizedRisk, Rescaling, Risk, StructuredModel
from undercut.errors import DataError, require
from undercut.kinds import Kinded
from undercut.risks.checks import normalized_weights
from undercut.risks.structured.decoding import Planes, Share, Sum, start_workers
from undercut.risks.structured.remembered import Remembered
from undercut.types import Array, FloatArray


class StructuredRisk(Kinded, BatchedRisk):
    """The mean loss of examples (x_i, y_i) under a ``StructuredModel``, weights scaled to sum to one.

    Every value and every plane is as exact as the decoder.  If the decoder can miss the maximum, the certificate is
    invalid; ``undercut.testing.check_structured_model`` detects such a decoder.  ``y_i`` is always one of the
    candidates, so no loss is negative.  With ``n_jobs`` (-1: all cores) the examples are divided among threads if the
    model declares ``releases_gil = True``, else among processes, each of which keeps its part of the data.

    With ``cache`` > 0 the risk is a ``MinorizedRisk``: it keeps that many labelings per example, and their planes make
    the ``minorant``, which needs no decoder.  ``CachedCuttingPlane`` uses it.

    >>> class Signs:  # binary classification: Psi(x, y) = y x / 2, Delta = [y != y_hat]
    ...     n_params = 2
    ...     def joint_feature(self, x, y):
    ...         return y * x / 2
    ...     def label_loss(self, y, y_hat):
    ...         return float(y != y_hat)
    ...     def decode(self, w, x, y, rescaling):
    ...         return -y if y * (w @ x) < 1 else y  # the same for either rescaling
    >>> StructuredRisk(Signs(), np.eye(2), [1, -1]).cut(np.zeros(2))
    Cut(a=array([-0.5,  0.5]), b=1.0, value=1.0)
    """

    lower_bound = 0.0
    is_convex = True

    def __init__(
        self,
        model: StructuredModel,
        X: Sequence[Any],
        Y: Sequence[Labeling],
        *,
        rescaling: Rescaling = "margin",
        n_jobs: int = 1,
        cache: int = 0,
        sample_weight: Any = None,
    ) -> None:
        require(rescaling in ("margin", "slack"), "`rescaling` must be 'margin' or 'slack'", rescaling)
        require(n_jobs >= 1 or n_jobs == -1, "`n_jobs` must be at least 1, or -1 for all cores", n_jobs)
        require(cache >= 0, "`cache` must be non-negative", cache)
        require(model.n_params >= 1, "`n_params` of the model must be at least 1", model.n_params)
        if len(X) != len(Y) or len(Y) == 0:
            raise DataError(f"Y must have one labeling per example, and at least one; got {len(Y)} for {len(X)}")
        self._set(model, X, Y, rescaling, normalized_weights(sample_weight, len(Y)), n_jobs, cache)

    def _set(
        self, model: StructuredModel, X: Any, Y: Any, rescaling: Rescaling, weight: FloatArray, n_jobs: int, cache: int
    ) -> None:
        self.model, self.X, self.Y, self.rescaling, self.weight = model, X, Y, rescaling, weight
        self.n_params, self.n_samples = model.n_params, len(Y)
        self._workers, rows = start_workers(model, rescaling, X, Y, weight, n_jobs)
        self._dealt = np.concatenate(rows)  # the examples in the order of the workers' answers
        self._cache = Remembered(self.n_params, self.weight[self._dealt], cache, self._dealt)
        if cache:
            self.take_kinds(CachedStructuredRisk)

    @override
    def value(self, w: FloatArray) -> float:
        return float(sum(part.value for part in self._workers.ask(Share.total, w)))

    @override
    def cut(self, w: FloatArray) -> Cut:
        sums: list[Sum] = self._workers.ask(Share.total, w)
        a = sums[0].a if len(sums) == 1 else np.sum([part.a for part in sums], axis=0)
        return Cut(a, sum(part.b for part in sums), sum(part.value for part in sums))

    @override
    def batch(self, rows: Array) -> Risk:
        part = StructuredRisk.__new__(StructuredRisk)
        weight = self.weight[rows] * (self.n_samples / len(rows))
        part._set(self.model, [self.X[i] for i in rows], [self.Y[i] for i in rows], self.rescaling, weight, 1, 0)
        return part


class CachedStructuredRisk(StructuredRisk, MinorizedRisk):
    """A structured risk that keeps the planes of the labelings it has decoded."""

    @property
    @override
    def minorant(self) -> Remembered:
        return self._cache

    @override
    def cut(self, w: FloatArray) -> Cut:
        parts: list[Planes] = self._workers.ask(Share.planes, w)
        A = sp.csr_matrix(sp.vstack([planes.A for planes in parts]))
        return self._cache.cut_after(Planes(A, np.concatenate([planes.b for planes in parts])), w)
