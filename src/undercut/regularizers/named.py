"""A regularizer by its name."""

from __future__ import annotations

from undercut.contracts import Regularizer
from undercut.errors import require
from undercut.regularizers.elastic_net import ElasticNet
from undercut.regularizers.l1 import L1
from undercut.regularizers.l2 import L2

PENALTIES = ("l2", "l1", "elasticnet")


def named_regularizer(penalty: str, lam: float, l1_ratio: float = 0.5) -> Regularizer:
    """The regularizer that a name, lambda and the share of absolute values stand for.

    >>> named_regularizer("elasticnet", 0.1)
    ElasticNet(lam=0.1, l1_ratio=0.5)
    """
    require(penalty in PENALTIES, f"`penalty` must be one of {', '.join(map(repr, PENALTIES))}", penalty)
    if penalty == "elasticnet":
        return ElasticNet(lam, l1_ratio)
    return L1(lam) if penalty == "l1" else L2(lam)
