"""The likelihood of structured labelings: a conditional random field of any structure (Lafferty et al. 2001).

    R(w) = sum_i weight_i (log Z(w, x_i) - <w, Psi(x_i, y_i)>),        Z(w, x) = sum_y exp <w, Psi(x, y)>

The gradient of log Z is the expected joint feature.  The user's ``LikelihoodModel`` supplies both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from typing_extensions import override

from undercut.contracts import Labeling, LikelihoodModel
from undercut.errors import CapabilityError
from undercut.risks.structured.decoding import LikelihoodShare, Share
from undercut.risks.structured.examples import ExampleRisk


class LikelihoodRisk(ExampleRisk):
    """The mean negative log-likelihood of examples (x_i, y_i), weights scaled to sum to one.

    It is convex and smooth.  ``n_jobs`` and ``cache`` are as in ``StructuredRisk``; the cache keeps tangents of single
    examples.  ``undercut.testing.check_structured_model`` compares the model's sums with enumeration.

    >>> import numpy as np
    >>> class Signs:  # logistic regression: Psi(x, y) = y x / 2
    ...     n_params = 2
    ...     def joint_feature(self, x, y):
    ...         return y * x / 2
    ...     def log_partition(self, w, x):
    ...         score = w @ x / 2
    ...         return np.logaddexp(score, -score), np.tanh(score) * x / 2
    >>> risk = LikelihoodRisk(Signs(), np.eye(2), [1, -1])
    >>> round(risk.value(np.zeros(2)), 4), risk.cut(np.zeros(2)).a
    (0.6931, array([-0.25,  0.25]))
    """

    def __init__(
        self,
        model: LikelihoodModel,
        X: Sequence[Any],
        Y: Sequence[Labeling],
        *,
        n_jobs: int = 1,
        cache: int = 0,
        sample_weight: Any = None,
    ) -> None:
        if not hasattr(model, "log_partition"):
            raise CapabilityError(
                f"a likelihood needs a model with `log_partition`, and this {type(model).__name__} has none: "
                "use StructuredRisk"
            )
        self._deal(model, X, Y, n_jobs, cache, sample_weight)

    @override
    def _share(self) -> Callable[..., Share]:
        return LikelihoodShare
