"""Chains whose scores come from a network (Do and Artières 2012, Sec. 5.6: NeuroCRF).

    F(p) = start[p_1] + sum_t f_w(x_t)[p_t] + sum_{t > 1} A[p_{t-1}, p_t] + end[p_n]

with the losses of a ``ChainRisk``.  The risk is not convex in w unless there is no hidden layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from typing_extensions import override

from undercut.contracts import BatchedRisk, DeviceRisk, Risk
from undercut.devices import on_host, to_host
from undercut.errors import DataError
from undercut.maps.boltzmann import ContrastiveDivergence
from undercut.maps.chain_networks import ChainNetwork, NetworkWeights
from undercut.maps.chains import Chains
from undercut.maps.networks import Network
from undercut.maps.sequences import label_codes, label_count, stack_sequences
from undercut.risks.checks import normalized_weights
from undercut.risks.scores.map_risk import MapRisk
from undercut.risks.structured.chain import ChainLoss
from undercut.types import Array, FloatArray

LARGEST = 1e100  # beyond it products with features would overflow


class NetworkChainRisk(MapRisk, BatchedRisk, DeviceRisk):
    """``R(w) = sum_s weight_s l(sequence s)`` with the scores of a ``Network``, the weights scaled to sum to one.

    Sequences and labels are given as to ``ChainRisk``; with ``lengths`` X may also be a torch tensor.  Everything with
    a row per token is then computed on its device, and so are a CRF's sums over labelings.  The parameters are
    ``w = [network, transitions (K x K), start (K), end (K)]``; ``unpack(w)`` names them.

    >>> from undercut import L2, minimize
    >>> from undercut.risks import CRF
    >>> X, y = [[[0.0, 1.0], [1.0, 1.0]], [[1.0, 0.0]]], [[1, 0], [1]]
    >>> risk = NetworkChainRisk(X, y, CRF(), hidden=(4,))
    >>> w0 = risk.random_start(np.random.default_rng(0))
    >>> result = minimize(risk, L2(1e-3, center=w0), w0=w0)
    >>> risk.decode(result.w), result.certificate
    (array([1, 0, 1]), 'local')
    """

    def __init__(
        self,
        X: Any,
        y: Any,
        loss: ChainLoss,
        lengths: Any = None,
        sample_weight: Any = None,
        *,
        hidden: Sequence[int],
        activation: str = "sigmoid",
        start: bool = False,
        end: bool = False,
        bias: bool = True,
        n_labels: int | None = None,
    ) -> None:
        stacked = stack_sequences(X, lengths)
        codes = label_codes(y, stacked.lengths, flat=lengths is not None)
        n_labels = label_count(codes, n_labels)
        chains = Chains(stacked.lengths, n_labels)
        network = Network(as_inputs(stacked.X), hidden, n_labels, activation=activation, bias=bias)
        weight = normalized_weights(sample_weight, chains.n_chains)
        self._set(ChainNetwork(network, chains, start=start, end=end), codes, loss, weight)

    def _set(self, score_map: ChainNetwork, y: Array, loss: ChainLoss, weight: FloatArray) -> None:
        X, chains = score_map.network.X, score_map.chains
        phi = loss.bind(y, weight, chains) if on_host(X) else loss.bind_on(X, y, weight, chains)
        super().__init__(score_map, phi, is_convex=not score_map.network.hidden)
        self.map: ChainNetwork = score_map
        self.y, self.loss, self.weight = y, loss, weight
        self.n_samples = chains.n_chains
        self.home = X

    def random_start(self, rng: np.random.Generator) -> FloatArray:
        """Random layers; transitions, start and end are zero."""
        w = np.zeros(self.n_params)
        w[: self.map.network.n_params] = self.map.network.random_start(rng)
        return w

    def pretrained_start(self, machines: ContrastiveDivergence, rng: np.random.Generator) -> FloatArray:
        """A random start whose hidden layers are those of stacked Boltzmann machines."""
        weights, network = self.unpack(self.random_start(rng)), self.map.network
        hidden = machines.layers(network.X, network.hidden, rng)
        return self.pack(weights._replace(layers=[*hidden, weights.layers[-1]]))

    def centered(self, w: FloatArray) -> tuple[NetworkChainRisk, FloatArray]:
        """The same risk with the inputs of all layers centered at their means at w, and its parameters at this point.

        Runs that start there need fewer steps.  The penalty of other parameters is another one.
        """
        score_map, point = self.map.centered(w)
        return self._with(score_map), point

    def centered_by(self, means: Sequence[FloatArray]) -> NetworkChainRisk:
        """The same risk with the inputs of all layers centered at these constants."""
        return self._with(self.map.with_network(self.map.network.centered_by(means)))

    def _with(self, score_map: ChainNetwork) -> NetworkChainRisk:
        risk = NetworkChainRisk.__new__(NetworkChainRisk)
        risk._set(score_map, self.y, self.loss, self.weight)
        return risk

    def unpack(self, w: FloatArray) -> NetworkWeights:
        """The named parts of w, those of a network that is not centered."""
        return self.map.unpack(w)

    def pack(self, weights: NetworkWeights) -> FloatArray:
        """The w of named parts."""
        return self.map.pack(weights)

    def decode(self, w: FloatArray) -> NDArray[np.int64]:
        """The best labelings of the sequences, concatenated."""
        return self.map.chains.decode(to_host(self.map.forward(w)))

    def marginals(self, w: FloatArray) -> FloatArray:
        """The probabilities of the labels, one row per token."""
        return self.map.chains.marginals(to_host(self.map.forward(w)))

    @override
    def batch(self, rows: Array) -> Risk:
        part = NetworkChainRisk.__new__(NetworkChainRisk)
        tokens = self.map.chains.tokens_of(rows)
        part._set(self.map.take(rows), self.y[tokens], self.loss, self.weight[rows] * (self.n_samples / len(rows)))
        return part


def as_inputs(X: Any) -> Any:
    """X with entries that a network can compute with: float32 stays, everything else is float64."""
    if not on_host(X):
        X = X.detach() if str(X.dtype) in ("torch.float32", "torch.float64") else X.detach().double()
    else:
        X = X.tocsr() if sp.issparse(X) else X
        X = X if X.dtype in (np.float32, np.float64) else X.astype(np.float64)
    largest = max(float(X.max()), -float(X.min()))
    if largest > LARGEST:
        raise DataError(f"features of a network must not exceed {LARGEST:g}; got {largest:.3g}: scale the features")
    return X
