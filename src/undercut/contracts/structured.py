"""A structured model: joint features, a loss of labelings, and a decoder."""

from __future__ import annotations

from typing import Any, Literal, Protocol, TypeAlias

from undercut.types import Array, FloatArray

Labeling: TypeAlias = Any
Rescaling: TypeAlias = Literal["margin", "slack"]
Features: TypeAlias = Array | tuple[Array, Array]


class StructuredModel(Protocol):
    """What a structured risk must know of inputs x and labelings y; both may be any objects.

    A model may also say ``releases_gil = True``: its decoder is compiled and lets other threads run meanwhile, and all
    its methods may run in several threads at once.
    """

    n_params: int

    def joint_feature(self, x: Any, y: Labeling) -> Features:
        """``Psi(x, y)``: an array of n_params numbers, or a tuple (indices, values) of those that are not zero.

        The values of an index that occurs more than once are added.
        """

    def label_loss(self, y: Labeling, y_hat: Labeling) -> float:
        """``Delta(y, y_hat) >= 0``, what it costs to answer y_hat where y is right; ``Delta(y, y) = 0``."""

    def decode(self, w: FloatArray, x: Any, y: Labeling, rescaling: Rescaling) -> Labeling:
        """The labeling y_hat that maximizes the loss at w, exactly; any of them if there are several.

        With ``rescaling="margin"`` that is ``Delta(y, y_hat) + <w, Psi(x, y_hat)>``, with ``"slack"`` it is
        ``Delta(y, y_hat) (1 + <w, Psi(x, y_hat) - Psi(x, y)>)``.  w is read-only.
        """
