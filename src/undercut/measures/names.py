"""The registry of measures by name."""

from __future__ import annotations

import re
from collections.abc import Callable

from undercut.errors import ParameterError, nearest
from undercut.measures.base import Measure
from undercut.measures.contingency import BalancedError, FBeta, Matthews
from undercut.measures.ranking import AveragePrecision, BreakEven, PartialRocArea, PrecisionAt, RecallAt, RocArea

PATTERNS: dict[str, Callable[..., Measure]] = {
    r"f(\d+(?:\.\d+)?(?:e[+-]?\d+)?)": lambda beta: FBeta(float(beta)),
    r"precision@(\d+)": lambda k: PrecisionAt(int(k)),
    r"recall@(\d+)": lambda k: RecallAt(int(k)),
    r"prbep": BreakEven,
    r"roc_auc": RocArea,
    r"roc_auc@(\d*\.?\d+(?:e-?\d+)?)": lambda most: PartialRocArea(float(most)),
    r"average_precision": AveragePrecision,
    r"mcc": Matthews,
    r"balanced_error": BalancedError,
}
EXAMPLES = (
    *("f1", "f0.5", "precision@10", "recall@10", "prbep", "roc_auc", "roc_auc@0.1", "average_precision", "mcc"),
    "balanced_error",
)


def measure_named(name: str) -> Measure:
    """The measure of a name such as "f1", "precision@10", "roc_auc@0.1" or "average_precision".

    >>> measure_named("f0.5"), measure_named("precision@10").name
    (FBeta(beta=0.5), 'precision@10')
    """
    for pattern, make in PATTERNS.items():
        if found := re.fullmatch(pattern, name):
            return make(*found.groups())
    rule = f"`measure` must be a Measure or a name such as {', '.join(map(repr, EXAMPLES))}"
    raise ParameterError(f"{rule}; got {name!r}{nearest(name, EXAMPLES)}")
