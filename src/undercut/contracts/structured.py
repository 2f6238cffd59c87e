"""A structured model: joint features, a loss of labelings, and a decoder."""

from __future__ import annotations

from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

from undercut.types import Array, FloatArray

Labeling: TypeAlias = Any
Rescaling: TypeAlias = Literal["margin", "slack"]
Features: TypeAlias = Array | tuple[Array, Array]


class StructuredModel(Protocol):
    """What a structured risk must know of inputs x and labelings y; both may be any objects.

    The methods modify none of their arguments and keep no reference to w.  Arrays they return are read before the next
    call and may be reused.  One thread calls at a time, in one of several processes where ``n_jobs`` asks for them.  A
    model may declare ``releases_gil = True``: then its decoder is compiled and releases the interpreter, and all its
    methods must be safe to run in several threads at once; scratch memory belongs into an
    ``undercut.threads.PerThread``.

    A model may have a method ``prepare(w)`` for what depends on w alone.  It is called once per evaluation, and the
    other methods get its result, shared by all threads, in place of w.

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


@runtime_checkable
class LikelihoodModel(Protocol):
    """What a likelihood must know of inputs and labelings; it has the same rules as a ``StructuredModel``.

    >>> import numpy as np
    >>> from undercut import L2, minimize
    >>> from undercut.risks import LikelihoodRisk
    >>> class Classes:  # multinomial logistic regression
    ...     n_params, K, d = 6, 3, 2
    ...     def joint_feature(self, x, y):
    ...         return y * self.d + np.arange(self.d), x
    ...     def log_partition(self, w, x):
    ...         scores = w.reshape(self.K, self.d) @ x
    ...         log_z = np.logaddexp.reduce(scores)
    ...         return log_z, np.outer(np.exp(scores - log_z), x).ravel()
    >>> X = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]])
    >>> w = minimize(LikelihoodRisk(Classes(), X, [0, 1, 2]), L2(0.01)).w
    >>> (w.reshape(3, 2) @ X.T).argmax(axis=0)
    array([0, 1, 2])
    """

    n_params: int

    def joint_feature(self, x: Any, y: Labeling) -> Features:
        """``Psi(x, y)``, as in ``StructuredModel``."""

    def log_partition(self, w: Any, x: Any) -> tuple[float, Features]:
        """``log Z = log sum_y exp <w, Psi(x, y)>`` over all labelings of x, and the expectation of Psi."""


@runtime_checkable
class MarginalModel(LikelihoodModel, Protocol):
    """A likelihood that knows the probabilities of the parts of a labeling, such as the label of each token.

    >>> import numpy as np
    >>> from undercut.contracts import MarginalModel
    >>> from undercut.testing import check_structured_model
    >>> class Signs:  # logistic regression: Psi(x, y) = y x / 2; the parts are [y = -1] and [y = 1]
    ...     n_params = 2
    ...     def joint_feature(self, x, y):
    ...         return y * x / 2
    ...     def log_partition(self, w, x):
    ...         return np.logaddexp(w @ x / 2, -w @ x / 2), np.tanh(w @ x / 2) * x / 2
    ...     def parts(self, x, y):
    ...         return np.array([y == -1, y == 1], float)
    ...     def marginals(self, w, x):
    ...         return 1.0 / (1.0 + np.exp(np.array([w @ x, -w @ x])))
    >>> check_structured_model(Signs(), np.eye(2), [1, -1], labelings=lambda x: [-1, 1])
    >>> isinstance(Signs(), MarginalModel)
    True
    """

    def parts(self, x: Any, y: Labeling) -> Array:
        """An array of numbers, of the same shape for all labelings of x: which parts y has."""

    def marginals(self, w: Any, x: Any) -> Array:
        """The expectation of ``parts(x, y)``."""


@runtime_checkable
class PredictingModel(Protocol):
    """A model that can tell the best labeling of an input whose labeling is unknown.

    >>> import numpy as np
    >>> from undercut.contracts import PredictingModel
    >>> class Signs:
    ...     def predict(self, w, x):
    ...         return 1 if w @ x > 0 else -1
    >>> isinstance(Signs(), PredictingModel), Signs().predict(np.ones(2), np.array([1.0, -3.0]))
    (True, -1)
    """

    def predict(self, w: Any, x: Any) -> Labeling:
        """A labeling that maximizes ``<w, Psi(x, y)>``."""
