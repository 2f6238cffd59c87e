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
    >>> class Classes:  # K classes: Psi(x, y) has x in block y, Delta = [y != y_hat]
    ...     n_params, K, d = 6, 3, 2
    ...     def joint_feature(self, x, y):
    ...         return y * self.d + np.arange(self.d), x
    ...     def label_loss(self, y, y_hat):
    ...         return float(y != y_hat)
    ...     def decode(self, w, x, y, rescaling):  # for margin rescaling
    ...         return int(np.argmax(w.reshape(self.K, self.d) @ x + (np.arange(self.K) != y)))
    >>> X = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]])
    >>> w = minimize(StructuredRisk(Classes(), X, [0, 1, 2]), L2(0.01)).w
    >>> (w.reshape(3, 2) @ X.T).argmax(axis=0)
    array([0, 1, 2])
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
