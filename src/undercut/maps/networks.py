"""Layers of units between the features and the scores of the labels (Do and Artières 2012, Sec. 5.6).

    h_0 = x,        h_l = sigma(W_l (h_{l-1} - m_l) + b_l),        scores = W (h_L - m) + b

The constants m are zero, or the means of the inputs of a layer at the start of a run: then its weights and its biases
can be changed independently of each other, and first-order methods need about half of the steps (Montavon and Müller
2012, "Deep Boltzmann machines and the centering trick").  Every such network equals one with m = 0 and other biases.

The arrays are NumPy's, or torch's where X is a tensor: then all that has a row per token stays on its device.  A
network computes in float32 if X is float32, else in float64.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from typing_extensions import override

from undercut.contracts import ScoreMap
from undercut.devices import cast, dtype_name, joined, on_host, relu, sent, sigmoid, to_host
from undercut.errors import ParameterError, require
from undercut.threads import all_threads
from undercut.types import Array, FloatArray


class Layer(NamedTuple):
    """``W h + b``; W has a row per unit of the layer, and b is ``None`` for a layer without bias."""

    W: Any
    b: Any


class Activation(NamedTuple):
    """A function of every unit, and its derivative in terms of its value."""

    value: Callable[[Any], Any]
    slope: Callable[[Any], Any]
    gain: float  # of the standard deviation of random weights, so that signals neither vanish nor grow with depth


ACTIVATIONS = {
    "sigmoid": Activation(sigmoid, lambda h: h * (1.0 - h), 4.0),  # its slope is at most 1/4
    "relu": Activation(relu, lambda h: cast(h > 0.0, dtype_name(h)), 2.0**0.5),
}


LAST_SCALE = 0.01  # of the last layer of a random start: it breaks ties between labels, and scores stay small


def checked_sizes(hidden: Any) -> tuple[int, ...]:
    """The sizes of hidden layers; ``ParameterError`` unless they are positive integers.

    >>> checked_sizes([400, 400])
    (400, 400)
    """
    rule = "`hidden` must be the sizes of the hidden layers, positive integers such as (400, 400)"
    require(isinstance(hidden, Sequence) and not isinstance(hidden, str), rule, hidden)
    require(all(isinstance(size, Integral) and not isinstance(size, bool) for size in hidden), rule, hidden)
    sizes = tuple(int(size) for size in hidden)
    require(min(sizes, default=1) > 0, rule, hidden)
    return sizes


class Network(ScoreMap):
    """Scores of all labels at all rows of X; ``w = [W_1, b_1, ..., W, b]``, every matrix row by row.

    X is dense, CSR or a tensor; without hidden layers the scores are ``X W' + b``.  ``bias`` is about the last b, and
    ``means`` are the constants m of all layers.

    >>> net = Network(np.array([[1.0, 0.0], [0.0, 2.0]]), (3,), 2)
    >>> net.n_params, net.forward(net.random_start(np.random.default_rng(0))).shape
    (17, (2, 2))
    """

    def __init__(
        self,
        X: Any,
        hidden: Sequence[int],
        n_labels: int,
        *,
        activation: str = "sigmoid",
        bias: bool = True,
        means: Sequence[FloatArray] | None = None,
    ) -> None:
        require(activation in ACTIVATIONS, f"`activation` must be {' or '.join(ACTIVATIONS)}", activation)
        self.X, self.hidden, self.n_labels = X, checked_sizes(hidden), n_labels
        self.activation, self.bias = activation, bias
        self.shapes = list(pairwise((X.shape[1], *self.hidden, n_labels)))  # inputs and outputs of every layer
        self.n_params = sum((n_in + 1) * n_out for n_in, n_out in self.shapes) - (0 if bias else n_labels)
        self.shape = (X.shape[0] * n_labels, self.n_params)
        self.means = [np.zeros(n_in) for n_in, _ in self.shapes] if means is None else list(means)
        self._shifts = [sent(mean, self._entries()) for mean in self.means]
        self._values: list[Any] = []  # of the hidden units at the last forward
        self._layers: list[Layer] = []

    def unpack(self, w: Any) -> list[Layer]:
        """The layers of w, as views."""
        layers, at = [], 0
        for number, (n_in, n_out) in enumerate(self.shapes, start=1):
            W = w[at : at + n_in * n_out].reshape(n_out, n_in)
            at += n_in * n_out
            has_bias = self.bias or number < len(self.shapes)
            layers.append(Layer(W, w[at : at + n_out] if has_bias else None))
            at += n_out if has_bias else 0
        return layers

    def pack(self, layers: Sequence[Layer]) -> FloatArray:
        """The w of layers of these shapes."""
        for (W, b), (n_in, n_out) in zip(layers, self.shapes, strict=True):
            if W.shape != (n_out, n_in) or (b is not None and b.shape != (n_out,)):
                raise ParameterError(f"a layer must have shape {(n_out, n_in)}; got {W.shape}")
        parts = [part for layer in layers for part in layer if part is not None]
        return np.concatenate([to_host(part).reshape(-1) for part in parts])

    def random_start(self, rng: np.random.Generator) -> FloatArray:
        """Normal weights of variance ``gain^2 / inputs`` in hidden layers, small ones in the last, and no biases."""
        w, gain = np.zeros(self.n_params), ACTIVATIONS[self.activation].gain
        *hidden, last = self.unpack(w)
        for W, _ in hidden:
            W[:] = gain / W.shape[1] ** 0.5 * rng.standard_normal(W.shape)
        last.W[:] = LAST_SCALE * rng.standard_normal(last.W.shape)
        return w

    def plain(self, w: FloatArray) -> list[Layer]:
        """The layers of the network with m = 0 that has the same scores."""
        layers = zip(self.unpack(w), self.means, strict=True)
        return [Layer(W.copy(), (0.0 if b is None else b) - W @ mean) for (W, b), mean in layers]

    def from_plain(self, layers: Sequence[Layer]) -> FloatArray:
        """The w of layers of a network with m = 0, which has the same scores but for a bias that this one lacks.

        Layers may be tensors.
        """
        here = [Layer(to_host(W), to_host(b)) for W, b in layers]
        shifted = [Layer(W, b + W @ mean) for (W, b), mean in zip(here, self.means, strict=True)]
        if not self.bias:
            shifted[-1] = Layer(shifted[-1].W, None)
        return self.pack(shifted)

    def centered_by(self, means: Sequence[FloatArray]) -> Network:
        """The network with other constants m."""
        return Network(self.X, self.hidden, self.n_labels, activation=self.activation, bias=self.bias, means=means)

    def centered(self, w: FloatArray) -> tuple[Network, FloatArray]:
        """The network whose layers are centered at the means of their inputs at w, and its parameters at this point."""
        self.forward(w)
        n_rows = self.X.shape[0]
        network = self.centered_by([to_host(h.sum(0)).reshape(-1) / n_rows for h in (self.X, *self._values)])
        return network, network.from_plain(self.plain(w))

    @override
    def forward(self, w: FloatArray) -> Any:
        """The scores, row by label."""
        self._layers = self.unpack(sent(w, self._entries()))
        self._values = []
        h, value = self.X, ACTIVATIONS[self.activation].value
        with all_threads(self.X.shape[0] * self.X.shape[1]), np.errstate(over="ignore", invalid="ignore"):
            for layer, shift in zip(self._layers[:-1], self._shifts, strict=False):
                h = value(_affine(h, layer, shift))
                self._values.append(h)
            return _affine(h, self._layers[-1], self._shifts[-1])

    @override
    def backward(self, slopes: Any) -> FloatArray:
        slope_of, parts = ACTIVATIONS[self.activation].slope, []
        inputs = [self.X, *self._values]
        slopes = cast(slopes, dtype_name(self._entries()))
        with all_threads(self.X.shape[0] * self.X.shape[1]), np.errstate(over="ignore", invalid="ignore"):
            for at in reversed(range(len(inputs))):
                total = slopes.sum(0)
                if self._layers[at].b is not None:
                    parts.append(total)
                parts.append((_outer(slopes, inputs[at]) - total[:, None] * self._shifts[at]).reshape(-1))
                if at > 0:
                    slopes = (slopes @ self._layers[at].W) * slope_of(inputs[at])
        return to_host(joined(parts[::-1]))

    def take(self, rows: Array) -> Network:
        """The same network for some of the rows."""
        X = self.X[rows] if on_host(self.X) else self.X.index_select(0, sent(rows, self.X, "int64"))
        return Network(X, self.hidden, self.n_labels, activation=self.activation, bias=self.bias, means=self.means)

    def _entries(self) -> Any:
        return self.X.data if sp.issparse(self.X) else self.X


def _affine(h: Any, layer: Layer, shift: Any) -> Any:
    """``W (h - shift) + b``, without a shifted copy of h."""
    bias = -(layer.W @ shift)
    if layer.b is not None:
        bias += layer.b
    scores = h @ layer.W.T
    scores += bias
    return scores


def _outer(slopes: Any, h: Any) -> Any:
    """``slopes' h``, a row per unit of the layer."""
    return np.ascontiguousarray((h.T @ slopes).T) if sp.issparse(h) else slopes.T @ h
