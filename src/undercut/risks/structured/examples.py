"""What risks of structured examples share: workers, weights, a cache of planes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from typing_extensions import override

from undercut.contracts import BatchedRisk, Cut, Labeling, MinorizedRisk, Risk
from undercut.errors import DataError, require
from undercut.kinds import Kinded, named_class
from undercut.risks.checks import normalized_weights
from undercut.risks.structured.decoding import Planes, Share, Sum
from undercut.risks.structured.remembered import Remembered
from undercut.risks.structured.workers import start_workers
from undercut.types import Array, FloatArray


class ExampleRisk(Kinded, BatchedRisk):
    """The mean loss of examples (x_i, y_i), each a plane that the user's model finds."""

    lower_bound = 0.0
    is_convex = True

    @abstractmethod
    def _share(self) -> Callable[..., Share]:
        """What makes the share of a worker: ``(model, X, Y, weight, numbers)``."""

    def _settings(self) -> dict[str, Any]:
        """The attributes that a batch of examples takes over."""
        return {}

    def _deal(
        self, model: Any, X: Sequence[Any], Y: Sequence[Labeling], n_jobs: int, cache: int, sample_weight: Any
    ) -> None:
        require(n_jobs >= 1 or n_jobs == -1, "`n_jobs` must be at least 1, or -1 for all cores", n_jobs)
        require(cache >= 0, "`cache` must be non-negative", cache)
        require(model.n_params >= 1, "`n_params` of the model must be at least 1", model.n_params)
        if len(X) != len(Y) or len(Y) == 0:
            raise DataError(f"Y must have one labeling per example, and at least one; got {len(Y)} for {len(X)}")
        self._set(model, X, Y, normalized_weights(sample_weight, len(Y)), n_jobs, cache)

    def _set(self, model: Any, X: Any, Y: Any, weight: FloatArray, n_jobs: int, cache: int) -> None:
        self.model, self.X, self.Y, self.weight = model, X, Y, weight
        self.n_params, self.n_samples = model.n_params, len(Y)
        self._workers, rows = start_workers(self._share(), model, X, Y, weight, n_jobs)
        self._dealt = np.concatenate(rows)  # the examples in the order of the workers' answers
        self._cache = Remembered(self.n_params, self.weight[self._dealt], cache, self._dealt)
        if cache:
            self.take_kinds(CachedExampleRisk)

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
        part: ExampleRisk = object.__new__(named_class(self))
        vars(part).update(self._settings())
        weight = self.weight[rows] * (self.n_samples / len(rows))
        part._set(self.model, [self.X[i] for i in rows], [self.Y[i] for i in rows], weight, 1, 0)
        return part


class CachedExampleRisk(ExampleRisk, MinorizedRisk):
    """A risk that keeps the planes of the losses it has met."""

    @property
    @override
    def minorant(self) -> Remembered:
        return self._cache

    @override
    def cut(self, w: FloatArray) -> Cut:
        parts: list[Planes] = self._workers.ask(Share.planes, w)
        A = sp.csr_matrix(sp.vstack([planes.A for planes in parts]))
        return self._cache.cut_after(Planes(A, np.concatenate([planes.b for planes in parts])), w)
