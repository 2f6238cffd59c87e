"""The network of a ``SequenceLabeler``: where its fit starts, and what it makes of new sequences."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_random_state

from undercut.devices import on_device, on_host, to_host
from undercut.errors import DataError, ParameterError, require
from undercut.maps.boltzmann import ContrastiveDivergence
from undercut.maps.chain_networks import ChainNetwork, NetworkWeights
from undercut.maps.chains import Chains
from undercut.maps.networks import Layer, Network, checked_sizes
from undercut.maps.sequences import Sequences
from undercut.risks import ChainLoss, ChainRisk, NetworkChainRisk
from undercut.risks.structured.network_chain import as_inputs
from undercut.types import Array, FloatArray


class Start(NamedTuple):
    """A problem, where its run starts, and where its penalty is centered; ``None`` is zero."""

    risk: Any
    w0: FloatArray | None = None
    center: FloatArray | None = None


def check_settings(labeler: Any) -> None:
    """Refuse settings that do not fit together."""
    checked_sizes(labeler.hidden)
    if not labeler.hidden:
        for name in ("pretrain", "device"):
            value = getattr(labeler, name)
            require(value is None, f"`{name}` is for networks: give `hidden` layers, or {name}=None", value)
        return
    require(labeler.pairs != "seen", "a network has weights for all pairs: use pairs='all' or 'auto'", labeler.pairs)
    if labeler.pretrain is not None and labeler.activation != "sigmoid":
        raise ParameterError(
            f"`pretrain` makes sigmoid layers: use activation='sigmoid', or pretrain=None; got {labeler.activation!r}"
        )


def moved(X: Any, device: str | None) -> Any:
    """X as the network computes with it, on the device where there is one."""
    if device is None or not on_host(X):
        return as_inputs(X)
    return on_device(as_inputs(X.toarray() if sp.issparse(X) else X), device)


def network_risk(
    labeler: Any, sequences: Sequences, codes: Array, loss: ChainLoss, weight: Any = None
) -> NetworkChainRisk:
    """The risk of a labeler's network."""
    return NetworkChainRisk(
        moved(sequences.X, labeler.device), codes, loss, sequences.lengths, weight, hidden=labeler.hidden,
        activation=labeler.activation, start=labeler.start, end=labeler.end, bias=labeler.bias,
        n_labels=labeler.classes_.size,
    )  # fmt: skip


def first_start(labeler: Any, risk: NetworkChainRisk) -> Start:
    """Layers of Boltzmann machines, or random ones; all layers are centered there."""
    rng = np.random.default_rng(check_random_state(labeler.random_state).randint(2**31))
    if labeler.pretrain is None:
        w0 = risk.random_start(rng)
    else:
        machines = ContrastiveDivergence() if labeler.pretrain == "rbm" else labeler.pretrain
        w0 = risk.pretrained_start(machines, rng)
    centered, w0 = risk.centered(w0)
    return Start(centered, w0, w0)


class LastFit(NamedTuple):
    """What a warm start takes from the last fit."""

    classes: Array
    weights: NetworkWeights
    means: list[FloatArray]
    center: FloatArray


def last_fit(labeler: Any) -> LastFit:
    """The network of a fitted labeler."""
    return LastFit(labeler.classes_, weights_of(labeler), labeler.means_, labeler.center_)


def warm_start(labeler: Any, risk: NetworkChainRisk, last: LastFit) -> Start:
    """Where the last fit ended, with its penalty; ``DataError`` if the network has another shape now."""
    sizes = [last.weights.layers[0].W.shape[1], *(layer.W.shape[0] for layer in last.weights.layers)]
    now = [risk.map.network.X.shape[1], *risk.map.network.hidden, risk.map.network.n_labels]
    if sizes != now or not np.array_equal(last.classes, labeler.classes_) or last.center.size != risk.n_params:
        raise DataError(
            f"a warm start needs the layers and labels of the last fit, {'-'.join(map(str, sizes))}; got "
            f"{'-'.join(map(str, now))}, or other labels or weights: start without it"
        )
    centered = risk.centered_by(last.means)
    return Start(centered, centered.pack(last.weights), last.center)


def take(labeler: Any, risk: NetworkChainRisk, weights: NetworkWeights) -> None:
    """Set the weights of a fit."""
    *hidden, (labeler.coef_, labeler.intercept_) = weights.layers
    labeler.layers_ = [tuple(layer) for layer in hidden]
    labeler.transitions_, labeler.start_, labeler.end_ = weights[1:]
    labeler.means_ = risk.map.network.means
    labeler.n_features_in_ = risk.map.network.X.shape[1]


def weights_of(labeler: Any) -> NetworkWeights:
    """The weights of a fitted labeler."""
    layers = [Layer(*layer) for layer in (*labeler.layers_, (labeler.coef_, labeler.intercept_))]
    return NetworkWeights(layers, labeler.transitions_, labeler.start_, labeler.end_)


def scores(labeler: Any, sequences: Sequences, chains: Chains) -> FloatArray:
    """All scores of new sequences."""
    X = moved(sequences.X, labeler.device)
    network = Network(X, labeler.hidden, chains.n_labels, activation=labeler.activation)
    score_map = ChainNetwork(network, chains, start=True, end=True)
    return to_host(score_map.forward(score_map.pack(weights_of(labeler))))


def risk_at(labeler: Any, sequences: Sequences, codes: Array, loss: ChainLoss) -> ChainRisk | NetworkChainRisk:
    """The risk of other sequences with every weight that a labeler may have, linear or not."""
    everything = {"n_labels": labeler.classes_.size, "start": True, "end": True, "bias": True}
    if not labeler.hidden:
        return ChainRisk(sequences.X, codes, loss, sequences.lengths, pairs="all", **everything)
    X = moved(sequences.X, labeler.device)
    network = {"hidden": labeler.hidden, "activation": labeler.activation}
    return NetworkChainRisk(X, codes, loss, sequences.lengths, **network, **everything)


def check_layers(labeler: Any) -> None:
    """Refuse layers of a model file that do not fit together."""
    sizes = (labeler.n_features_in_, *labeler.hidden)
    layers = [Layer(*layer) for layer in labeler.layers_]
    shapes = [(layer.W.shape, layer.b.shape) for layer in layers]
    if shapes != [((n_out, n_in), (n_out,)) for n_in, n_out in pairwise(sizes)]:
        raise ValueError(f"layers of shapes {shapes} do not fit the sizes {sizes}")
    if [mean.shape for mean in labeler.means_] != [(n,) for n in sizes]:
        raise ValueError("the means of the layers do not fit their sizes")
