"""The penalty of an estimator: a regularizer from its parameters, and from and to what JSON can say."""

from __future__ import annotations

from dataclasses import fields
from numbers import Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils._param_validation import Interval, StrOptions

from undercut.contracts import Regularizer
from undercut.errors import ModelFileError
from undercut.regularizers import L1, L2, BlockSum, Boxed, ElasticNet, Entropy, Quadratic, SquaredLp

CONSTRAINTS: dict[str, list[Any]] = {
    "penalty": [StrOptions({"l2", "l1", "elasticnet"}), Regularizer],
    "l1_ratio": [Interval(Real, 0.0, 1.0, closed="both")],
}
SAVABLE: dict[str, type[Any]] = {
    kind.__name__: kind for kind in (L1, L2, Boxed, ElasticNet, Entropy, Quadratic, SquaredLp)
}


def regularizer(penalty: str | Regularizer, lam: float, l1_ratio: float) -> Regularizer:
    """The regularizer that the parameters ``penalty``, ``lam`` and ``l1_ratio`` stand for.

    >>> regularizer("elasticnet", 0.1, 0.5)
    ElasticNet(lam=0.1, l1_ratio=0.5)
    """
    if isinstance(penalty, Regularizer):
        return penalty
    if penalty == "elasticnet":
        return ElasticNet(lam, l1_ratio)
    return L1(lam) if penalty == "l1" else L2(lam)


def describe(reg: Regularizer) -> dict[str, Any]:
    """A regularizer of this library as names, numbers and lists."""
    if isinstance(reg, BlockSum):
        return {
            "name": "BlockSum",
            "blocks": [[block.stop - block.start, describe(part)] for block, part in reg.blocks],
        }
    name = type(reg).__name__
    if SAVABLE.get(name) is not type(reg):
        raise ModelFileError(f"only the regularizers of undercut can be saved; got {name}: pickle is unsafe")
    return {"name": name, "settings": {field.name: _plain(getattr(reg, field.name)) for field in fields(reg)}}  # type: ignore[arg-type]


def _plain(setting: Any) -> Any:
    if isinstance(setting, Regularizer):
        return describe(setting)
    if sp.issparse(setting):
        raise ModelFileError("a sparse matrix cannot be part of a model file: give it as an array")
    return setting.tolist() if isinstance(setting, np.ndarray) else setting


def rebuild(described: dict[str, Any]) -> Regularizer:
    """The regularizer that ``describe`` described; ``KeyError``, ``TypeError`` or ``ValueError`` for anything else."""
    if described["name"] == "BlockSum":
        return BlockSum([(int(length), rebuild(part)) for length, part in described["blocks"]])
    settings = {
        name: rebuild(value) if isinstance(value, dict) else value for name, value in described["settings"].items()
    }
    reg: Regularizer = SAVABLE[described["name"]](**settings)
    return reg
