"""A structured model: joint features, a loss of labelings, and a decoder."""

from __future__ import annotations

from typing import Any, Literal, Protocol, TypeAlias

from undercut.types import Array, FloatArray

Labeling: TypeAlias = Any
Rescaling: TypeAlias = Literal["margin", "slack"]
Features: TypeAlias = Array | tuple[Array, Array]


class StructuredModel(Protocol):
    """What a structured risk must know of inputs x and labelings y; both may be any objects.

    The methods modify none of their arguments and keep no reference to w.  Arrays they return are read before the next
    call and may be reused.  One thread calls at a time, in one of several processes where ``n_jobs`` asks for them.  A
    model may declare ``releases_gil = True``: then its decoder is compiled and releases the interpreter, and all its
    methods must be safe to run in several threads at once.

    >>> import numpy as np
    >>> from undercut import L2, StructuredRisk, minimize
    >>> class Signs:  # binary classification: Psi(x, y) = y x / 2, Delta = [y != y_hat]
    ...     n_params = 2
    ...     def joint_feature(self, x, y):
    ...         return y * x / 2
    ...     def label_loss(self, y, y_hat):
    ...         return float(y != y_hat)
    ...     def decode(self, w, x, y, rescaling):
    ...         return -y if y * (w @ x) < 1 else y  # the same for either rescaling
    >>> minimize(StructuredRisk(Signs(), np.eye(2), [1, -1]), L2(0.1)).w.round(2)
    array([ 1., -1.])
    """

    n_params: int

    def joint_feature(self, x: Any, y: Labeling) -> Features:
        """``Psi(x, y)``: an array of n_params numbers, or a tuple (indices, values) of the nonzero ones.

        The values of an index that occurs more than once are added.
        """

    def label_loss(self, y: Labeling, y_hat: Labeling) -> float:
        """``Delta(y, y_hat) >= 0``, the loss of predicting y_hat where y is true; ``Delta(y, y) = 0``."""

    def decode(self, w: FloatArray, x: Any, y: Labeling, rescaling: Rescaling) -> Labeling:
        """A labeling y_hat that maximizes the loss at w exactly.

        With ``rescaling="margin"`` the loss is ``Delta(y, y_hat) + <w, Psi(x, y_hat)>``, with ``"slack"`` it is
        ``Delta(y, y_hat) (1 + <w, Psi(x, y_hat) - Psi(x, y)>)``.  w is read-only.
        """
