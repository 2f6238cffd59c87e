"""The large-margin risk of structured prediction (Tsochantaridis et al. 2005; Smola et al. 2007, Sec. 3.4, eq. 8, 9).

    R(w) = sum_i weight_i max_{y_hat} Delta(y_i, y_hat) + <w, Psi(x_i, y_hat) - Psi(x_i, y_i)>          margin rescaling
    R(w) = sum_i weight_i max_{y_hat} Delta(y_i, y_hat) (1 + <w, Psi(x_i, y_hat) - Psi(x_i, y_i)>)      slack rescaling

The labeling that attains a maximum gives a plane that touches the loss at w and lies below it elsewhere.  The
user's ``StructuredModel`` supplies Psi, Delta and the search for that labeling.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from typing_extensions import override

from undercut.contracts import Labeling, Rescaling, StructuredModel
from undercut.errors import require
from undercut.risks.structured.decoding import MarginShare, Share
from undercut.risks.structured.examples import ExampleRisk


class StructuredRisk(ExampleRisk):
    """The mean loss of examples (x_i, y_i) under a ``StructuredModel``, weights scaled to sum to one.

    Every value and every plane is as exact as the decoder.  If the decoder can miss the maximum, the certificate is
    invalid; ``undercut.testing.check_structured_model`` detects such a decoder.  ``y_i`` is always one of the
    candidates, so no loss is negative.  With ``n_jobs`` (-1: all cores) the examples are divided among threads if the
    model declares ``releases_gil = True``, else among processes, each of which keeps its part of the data.

    With ``cache`` > 0 the risk is a ``MinorizedRisk``: it keeps that many labelings per example, and their planes make
    the ``minorant``, which needs no decoder.  ``CachedCuttingPlane`` uses it.

    >>> import numpy as np
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
        self.rescaling = rescaling
        self._deal(model, X, Y, n_jobs, cache, sample_weight)

    @override
    def _share(self) -> Callable[..., Share]:
        return partial(MarginShare, self.rescaling)

    @override
    def _settings(self) -> dict[str, Any]:
        return {"rescaling": self.rescaling}
