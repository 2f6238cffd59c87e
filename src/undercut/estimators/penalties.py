"""The penalty of an estimator: a regularizer from its parameters."""

from __future__ import annotations

from numbers import Real
from typing import Any

from sklearn.utils._param_validation import Interval, StrOptions

from undercut.contracts import Regularizer
from undercut.regularizers.named import PENALTIES, named_regularizer

CONSTRAINTS: dict[str, list[Any]] = {
    "penalty": [StrOptions(set(PENALTIES)), Regularizer],
    "l1_ratio": [Interval(Real, 0.0, 1.0, closed="both")],
}


def regularizer(penalty: str | Regularizer, lam: float, l1_ratio: float) -> Regularizer:
    """The regularizer that the parameters ``penalty``, ``lam`` and ``l1_ratio`` stand for.

    >>> regularizer("elasticnet", 0.1, 0.5)
    ElasticNet(lam=0.1, l1_ratio=0.5)
    """
    if isinstance(penalty, Regularizer):
        return penalty
    return named_regularizer(penalty, lam, l1_ratio)
