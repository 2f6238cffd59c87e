"""Dense columns with a parameter for every class: models of the likely parameters, from a sample of the rows.

A Gram matrix of all parameters and all samples takes far longer than the risk and its gradient.  The gradient is exact,
so any matrix near the Hessian leads to the minimum, and how near it is decides how many steps that takes (Erdogdu and
Montanari 2015).  It is made of as many samples as take about as long as an evaluation, is used again as long as that
reduces the violations, and is made of twice as many samples where the first step with it does not.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, NamedTuple

import numpy as np
from typing_extensions import override

from undercut.deadline import expired
from undercut.maps.csr import SparseDesign
from undercut.maps.dense import DenseDesign
from undercut.solvers.coordinate.working.class_model import ClassGram, ClassModel
from undercut.solvers.coordinate.working.column_parts import some_columns
from undercut.solvers.coordinate.working.columns import Columns, Model, Move, Penalty, Tolerance, inverted
from undercut.solvers.coordinate.working.gram_columns import descend_gram
from undercut.types import Array, FloatArray

WORK = 30  # multiplications of BLAS that take as long as one of a product with X

COPY = 200  # those that take as long as scaling an entry of a row
FEW_ROWS = 1000  # samples that are worth no evaluation
ROWS = 20  # samples per feature, at least
NEAR = 0.8  # share of l1: a parameter with a smaller gradient stays zero in the model
LEAST = 300  # parameters of a model, if as many are likely
GROWTH = 1.5  # parameters of a model, in those that are not zero
OUTSIDE = 0.5  # share of the largest violation: where a parameter outside the model has more, another is made
STEADY = 0.4  # share of the violations that a step may leave if the next one is to use its matrix
ACCURACY = 0.1  # share of the violations asked for that may be left: rounds cost less than the matrix
BLOCK = 2_000_000  # entries of rows that are multiplied at a time
RIDGE = 1e-6  # added to a matrix in single precision, relative to its diagonal


class Likely(NamedTuple):
    """The second derivatives in the likely parameters."""

    chosen: Array  # which parameters, class by class
    H: FloatArray  # the intercepts eliminated
    mixed: FloatArray  # in parameters and intercepts
    inverse: FloatArray  # of those in the intercepts
    is_cheap: bool  # whether all samples take no longer than an evaluation
    violation: float = np.inf  # the largest at the last step
    n_steps: int = 0

    def holds(self, violation: FloatArray) -> bool:
        """Whether the largest violations are those of its parameters."""
        others = violation.copy()
        others[self.chosen] = 0.0
        return bool(others.max(initial=0.0) <= OUTSIDE * violation.max(initial=0.0))


class SampledColumns(Columns):
    """Columns of which many entries are not zero; ``norms`` are theirs, weighted."""

    derived: ClassVar = ("_design", "_norms")

    def __init__(self, design: SparseDesign | DenseDesign, ids: Array, n_classes: int, norms: FloatArray) -> None:
        self.ids, self.n_classes = ids, n_classes
        self.likely: Likely | None = None
        self.times = 1.0  # what a model may cost, in evaluations
        self._design = design
        self._norms = np.append(np.where(norms > 0.0, norms, 1.0), 1.0)  # a constant feature is behind them

    def resume(self, saved: SampledColumns) -> None:
        """Go on with the model of saved columns with the same ids."""
        self.likely, self.times = saved.likely, saved.times

    @override
    def gradient(self, slopes: FloatArray) -> FloatArray:
        return np.ascontiguousarray(self._design.rmatmat(slopes).T).reshape(-1)

    @override
    def scores(self, w: FloatArray) -> FloatArray:
        return self._design.matmat(w.reshape(-1, self.n_classes).T)

    @override
    def minimize(
        self, model: Model, w: FloatArray, gradient: FloatArray, penalty: Penalty, tol: Tolerance, n_rounds: int
    ) -> Move:
        assert isinstance(model, ClassModel)
        likely = self._model(model, w, gradient, penalty)
        now = w.copy()
        part = now[likely.chosen]
        slopes = gradient[likely.chosen] - likely.mixed @ (likely.inverse @ model.totals)
        descend_gram(likely.H, slopes, part, penalty, ACCURACY * tol.violation)
        now[likely.chosen] = part
        scores = self.scores(now - w)
        if model.totals.size:
            scores -= inverted(model.intercept_bend) @ (model.totals + model.sums(model.through(scores)))
        return Move(now, scores)

    def _model(self, model: ClassModel, w: FloatArray, gradient: FloatArray, penalty: Penalty) -> Likely:
        """The last one if its last step was good, else another."""
        last, violation = self.likely, penalty.violation(w, gradient)
        most = float(violation.max(initial=0.0))
        if last is not None and last.holds(violation) and last.n_steps == 1 and most > STEADY * last.violation:
            self.times *= 2.0
        if last is None or last.is_cheap or not last.holds(violation) or most > STEADY * last.violation:
            last = self._made(model, _chosen(w, gradient, penalty))
        self.likely = last._replace(violation=most, n_steps=last.n_steps + 1)
        return self.likely

    def _made(self, model: ClassModel, chosen: Array) -> Likely:
        """The model of the chosen parameters, from as many samples as it may cost."""
        K, n = self.n_classes, model.weight.size
        constants = self.ids.size * K + np.arange(model.totals.size)  # the parameters of a constant feature
        every = np.append(chosen, constants)
        every = every[np.argsort(every % K, kind="stable")]
        n_features = np.unique(chosen // K).size
        affordable = max(WORK * _n_entries(self._design) * K / (every.size * (every.size + COPY)), FEW_ROWS)
        n_rows = self.times * max(affordable, ROWS * n_features)
        H = self._gram(*model.sampled(int(min(n_rows, n))), every)
        own = every < self.ids.size * K
        mixed, inverse = H[own][:, ~own], inverted(H[~own][:, ~own])
        if constants.size:
            H = H[own][:, own] - mixed @ inverse @ mixed.T
        return Likely(every[own], H, mixed, inverse, is_cheap=affordable >= n)

    def _gram(self, rows: Array, sample: ClassModel, params: Array) -> FloatArray:
        """``X' D X`` of some rows, for parameters ordered by class."""
        features, places = np.unique(params // self.n_classes, return_inverse=True)
        edges = np.searchsorted(params % self.n_classes, np.arange(self.n_classes + 1))
        total = ClassGram(sample, places, edges)
        is_part = rows.size < self._design.shape[0]
        for at, X in self._blocks(rows, features, max(1, BLOCK // params.size)):
            total.add(at, X.astype(np.float32) if is_part else X)
        H = total.matrix()
        if is_part:
            H.flat[:: params.size + 1] *= 1.0 + RIDGE
        norms = self._norms[features][places]
        return np.asarray(H * norms * norms[:, None])

    def _blocks(self, rows: Array, features: Array, size: int) -> Iterator[tuple[slice, FloatArray]]:
        """Blocks of the rows, features divided by their norms; the last one is constant if it is asked for."""
        is_constant = features[-1] == self.ids.size
        columns = features[:-1] if is_constant else features
        part = self._design if rows.size == self._design.shape[0] else self._design.take(rows)
        part = some_columns(part, columns) if isinstance(part, SparseDesign) else part
        for start in range(0, rows.size, size):
            if expired():
                return
            block: Any = part.X[start : start + size]
            X = block.toarray() if isinstance(part, SparseDesign) else np.take(block, columns, axis=1)
            X = np.column_stack([X, np.ones(X.shape[0])]) if is_constant else X
            yield slice(start, start + size), X / self._norms[features]


def _chosen(w: FloatArray, gradient: FloatArray, penalty: Penalty) -> Array:
    """The parameters that are not zero, and those with the largest gradients."""
    rank = np.where(w != 0.0, np.inf, np.abs(gradient))
    likely = np.flatnonzero(rank > NEAR * penalty.l1)
    size = max(LEAST, int(GROWTH * np.count_nonzero(w)))
    return likely if likely.size <= size else likely[np.argpartition(-rank[likely], size)[:size]]


def _n_entries(design: SparseDesign | DenseDesign) -> int:
    return int(design.X.nnz if isinstance(design, SparseDesign) else design.X.size)
