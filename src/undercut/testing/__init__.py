"""Checks of a user's own risk, regularizer or structured model, and of the result of a run.

Each raises ``AssertionError`` with the rule that is broken and the numbers that show it.

>>> from undercut import FunctionRisk, L2
>>> check_risk(FunctionRisk(lambda w: (float(w @ w), 2 * w), n_params=3, lower_bound=0.0))
>>> check_regularizer(L2(0.1), n_params=3)
>>> check_risk(FunctionRisk(lambda w: (float(w @ w), w), n_params=3))
Traceback (most recent call last):
    ...
AssertionError: subgradient: ...
"""

from undercut.testing.certificates import check_certificate
from undercut.testing.regularizers import check_regularizer
from undercut.testing.risks import check_risk
from undercut.testing.structured import check_structured_model

__all__ = ["check_certificate", "check_regularizer", "check_risk", "check_structured_model"]
