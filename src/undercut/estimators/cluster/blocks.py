"""What happens to the rows of one partition, next to them: they are read, checked and made a risk.

A block is a dict with "X", an array or CSR matrix of float32 or float64, and where they are given "y", "qid" and
"sample_weight", one entry per row.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from undercut.contracts import Loss, MulticlassLoss, Risk
from undercut.errors import DataError
from undercut.io.several import Numbered
from undercut.maps.design import WithConstant, as_matrix, trusted_design
from undercut.maps.matrix import Matrix
from undercut.risks import LinearRisk, MulticlassRisk
from undercut.types import Array, FloatArray

Block = dict[str, Any]
MakeDesign = Callable[[Any], Matrix]


def is_from_zero(rows: Numbered) -> bool:
    """Whether index 0 occurs among the rows of a file."""
    return rows.from_zero


def width(rows: Numbered, from_zero: bool) -> int:
    """The number of columns of the rows of a file."""
    return rows.width(from_zero)


def placed(rows: Numbered, from_zero: bool, n_features: int) -> Block:
    """The rows of a file with that many columns."""
    X, y, qid = rows.placed(from_zero, n_features)
    return {"X": X, "y": y} | ({} if qid is None else {"qid": qid})


def checked_block(*given: Any, fields: tuple[str, ...]) -> Block:
    """The blocks of several collections, of which the first is X."""
    arrays = [_array(value) for value in given]
    X = as_matrix(arrays[0]).X
    for name, values in zip(fields[1:], arrays[1:], strict=True):
        if values.shape != X.shape[:1]:
            raise DataError(f"{name} must have one entry per row of X; got shapes {values.shape} and {X.shape}")
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            raise DataError(f"{name} must be finite; it contains NaN or infinity")
    return {"X": X} | dict(zip(fields[1:], arrays[1:], strict=True))


def _array(value: Any) -> Any:
    """A block of a Dask array, or of a dataframe, as an array."""
    if hasattr(value, "to_numpy"):
        value = value.to_numpy()
    return value if sp.issparse(value) else np.asarray(value)


def shape(block: Block) -> tuple[int, int, list[str]]:
    """The numbers of rows and columns, and what is known of the rows."""
    n, d = block["X"].shape
    return int(n), int(d), sorted(block)


def class_counts(block: Block) -> tuple[Array, FloatArray]:
    """The different labels, and the summed weight of each."""
    classes, codes = np.unique(block["y"], return_inverse=True)
    return classes, np.bincount(codes, weights=block.get("sample_weight"), minlength=classes.size).astype(np.float64)


def queries(block: Block) -> Array:
    """The different queries."""
    return np.unique(block["qid"])


def entry(block: Block, name: str) -> Array:
    """One entry of the block."""
    return np.asarray(block[name])


def gathered_rows(block: Block, rows: Array) -> Any:
    """Some rows of X."""
    return block["X"][rows]


def samples(block: Block) -> Any:
    """X."""
    return block["X"]


def moments(block: Block) -> tuple[float, float, int]:
    """The sum of the entries of X, that of their squares, and their number."""
    X = block["X"]
    values = X.data if sp.issparse(X) else X
    return float(values.sum(dtype=np.float64)), float(np.vdot(values, values)), int(X.shape[0] * X.shape[1])


class Target(NamedTuple):
    """What the labels of a problem mean."""

    classes: Array
    factors: FloatArray | None = None  # of the weights of the classes

    def codes(self, y: Array) -> Array:
        return np.searchsorted(self.classes, y)

    def weight(self, y: Array, sample_weight: Any) -> FloatArray | None:
        """Sample weights times class weights; ``None`` where there are neither."""
        if self.factors is None:
            return None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        weight = self.factors[self.codes(y)]
        return weight if sample_weight is None else weight * sample_weight


def regression(
    X: Any,
    y: Array,
    sample_weight: Any = None,
    *,
    loss: Loss,
    fit_intercept: bool,
    design: MakeDesign = trusted_design,
    **_: Any,
) -> Risk:
    """The risk of a regression."""
    return _weighed(LinearRisk(design(X), y, loss, sample_weight, fit_intercept), sample_weight)


def one_class(
    X: Any,
    y: Array,
    sample_weight: Any = None,
    *,
    target: Target,
    code: int,
    loss: Loss,
    fit_intercept: bool,
    design: MakeDesign = trusted_design,
    **_: Any,
) -> Risk:
    """The risk of one class against the rest."""
    weight, signs = target.weight(y, sample_weight), np.where(target.codes(y) == code, 1.0, -1.0)
    return _weighed(LinearRisk(design(X), signs, loss, weight, fit_intercept), weight)


def all_classes(X: Any, y: Array, sample_weight: Any = None, *, target: Target, loss: MulticlassLoss, **_: Any) -> Risk:
    """The risk of a loss of all classes, without intercepts."""
    weight = target.weight(y, sample_weight)
    n_classes = target.classes.size
    return _weighed(MulticlassRisk(trusted_design(X), target.codes(y), loss, weight, n_classes=n_classes), weight)


def ranking(X: Any, y: Array, qid: Array, *, risk_of: Callable[..., Risk], **weights: Any) -> Risk:
    """The risk of a ranking."""
    return risk_of(trusted_design(X), y, qid, **weights)


def with_constant(X: Any) -> Matrix:
    """X with a constant feature, whose weight is the intercept."""
    return WithConstant(trusted_design(X))


def _weighed(risk: Risk, weight: FloatArray | None) -> Risk:
    """The risk, which counts among those of the other partitions by the sum of its weights."""
    if weight is not None:
        vars(risk)["mass"] = float(np.sum(weight))
    return risk
