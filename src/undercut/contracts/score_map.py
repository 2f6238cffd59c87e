"""Scores as a differentiable function of the parameters, where ``Design`` is a linear one."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from undercut.types import FloatArray


@runtime_checkable
class ScoreMap(Protocol):
    """``s = f(w)``: what a network is in place of ``X w``.

    ``MapRisk(score_map, phi)`` makes the risk ``phi(f(w))`` of it, which is not convex unless declared so.  The scores
    may be a tensor on a device; then phi must take one, and its slopes are one too.  Parameters and their derivatives
    are always float64 in main memory.

    >>> import numpy as np
    >>> from undercut import Hinge, L2, minimize
    >>> from undercut.contracts import Evaluation, ScoreFunction, ScoreMap
    >>> from undercut.risks import MapRisk
    >>> class Products:  # s_i = w_1 w_2 x_i
    ...     shape = (3, 2)
    ...     x = np.array([1.0, 2.0, 3.0])
    ...     def forward(self, w):
    ...         self.w = w.copy()
    ...         return w[0] * w[1] * self.x
    ...     def backward(self, slopes):
    ...         return (slopes @ self.x) * self.w[::-1]
    >>> class Distance(ScoreFunction):  # phi(s) = |s - (2, 4, 6)|^2 / 2
    ...     def evaluate(self, scores):
    ...         off = scores - [2.0, 4.0, 6.0]
    ...         return Evaluation(0.5 * float(off @ off), off)
    >>> isinstance(Products(), ScoreMap)
    True
    >>> w = minimize(MapRisk(Products(), Distance()), L2(1e-4), w0=np.array([1.0, 0.5])).w
    >>> round(float(w[0] * w[1]), 2)
    2.0
    """

    shape: tuple[int, int]  # scores, parameters

    def forward(self, w: FloatArray) -> Any:
        """The scores at w: a float array of shape (scores,) in main memory or on a device; w is not kept."""

    def backward(self, slopes: Any) -> FloatArray:
        """The derivatives in w of ``<slopes, f(w)>`` at the w of the last ``forward``: float64, shape (parameters,).

        slopes : of the shape and on the device of the scores; not modified
        """
