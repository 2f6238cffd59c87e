"""A network in place of the linear scores of a chain's labels."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from typing_extensions import override

from undercut.contracts import ScoreMap
from undercut.devices import joined, on_host, sent, to_host
from undercut.maps.chains import Chains
from undercut.maps.networks import Layer, Network
from undercut.types import Array, FloatArray


class NetworkWeights(NamedTuple):
    """A chain with a network by name, every layer with m = 0; zeros for parameters that it does not have."""

    layers: list[Layer]
    transitions: FloatArray  # label by next label
    start: FloatArray
    end: FloatArray


class ChainNetwork(ScoreMap):
    """All scores of a chain as a function of ``w = [network, transitions (K x K), start (K), end (K)]``.

    The last two exist only on request.  The scores are laid out as those of a ``ChainDesign``, float64, in main memory
    or on the device of the network's X.
    """

    def __init__(self, network: Network, chains: Chains, *, start: bool, end: bool) -> None:
        self.network, self.chains, self.start, self.end = network, chains, start, end
        K = chains.n_labels
        has = np.concatenate([np.ones(K * K, bool), np.full(K, start), np.full(K, end)])
        self._kept = np.flatnonzero(has)
        self.shape = (chains.n_scores, network.n_params + self._kept.size)

    def unpack(self, w: FloatArray) -> NetworkWeights:
        """The named parts of w."""
        K, n = self.chains.n_labels, self.network.n_params
        rest = self._rest(w)
        return NetworkWeights(self.network.plain(w[:n]), rest[: K * K].reshape(K, K), rest[-2 * K : -K], rest[-K:])

    def pack(self, weights: NetworkWeights) -> FloatArray:
        """The w of named parts, without those that the model does not have."""
        rest = np.concatenate([part.reshape(-1) for part in weights[1:]])
        return np.concatenate([self.network.from_plain(weights.layers), rest[self._kept]])

    def centered(self, w: FloatArray) -> tuple[ChainNetwork, FloatArray]:
        """The same with the network centered at w, and the parameters of that at this point."""
        n = self.network.n_params
        network, point = self.network.centered(w[:n])
        return self.with_network(network), np.concatenate([point, w[n:]])

    def with_network(self, network: Network) -> ChainNetwork:
        """The same with another network of the same shape."""
        return ChainNetwork(network, self.chains, start=self.start, end=self.end)

    def _rest(self, w: FloatArray) -> FloatArray:
        """Transitions, start and end, with zeros for those that are no parameters."""
        rest = np.zeros((self.chains.n_labels + 2) * self.chains.n_labels)
        rest[self._kept] = w[self.network.n_params :]
        return rest

    @override
    def forward(self, w: FloatArray) -> Any:
        emissions = self.network.forward(w[: self.network.n_params]).reshape(-1)
        rest = self._rest(w)
        if on_host(emissions):
            return np.concatenate([emissions, rest], dtype=np.float64)
        return joined([emissions.double(), sent(rest, emissions, "float64")])

    @override
    def backward(self, slopes: Any) -> FloatArray:
        K, n = self.chains.n_labels, self.chains.n_tokens
        emissions, rest = slopes[: n * K].reshape(n, K), to_host(slopes[n * K :])
        return np.concatenate([self.network.backward(emissions), rest[self._kept]])

    def take(self, sequences: Array) -> ChainNetwork:
        """The same parameters for some of the sequences."""
        chains = Chains(self.chains.lengths[sequences], self.chains.n_labels)
        network = self.network.take(self.chains.tokens_of(sequences))
        return ChainNetwork(network, chains, start=self.start, end=self.end)
