"""Boltzmann machines: they learn what units belong together, repeatably, and refuse what is no probability."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import expit
from sklearn.neural_network import BernoulliRBM

from undercut.errors import DataError, ParameterError
from undercut.maps.boltzmann import ContrastiveDivergence

RNG = np.random.default_rng(0)
PATTERNS = RNG.random((4, 16)) < 0.5
DATA = (PATTERNS[RNG.integers(0, 4, 400)] ^ (RNG.random((400, 16)) < 0.05)).astype(np.float64)


def reconstruction_error(layer):
    """Of the data from their hidden units, by the best linear read-out: what the layer keeps."""
    hidden = expit(DATA @ layer.W.T + layer.b)
    design = np.column_stack([hidden, np.ones(len(hidden))])
    return float(np.mean((design @ np.linalg.lstsq(design, DATA, rcond=None)[0] - DATA) ** 2))


def test_a_layer_keeps_the_data_about_as_well_as_that_of_scikit_learn():
    (own,) = ContrastiveDivergence(n_passes=30, batch_size=20).layers(DATA, (3,), np.random.default_rng(0))
    theirs = BernoulliRBM(3, learning_rate=0.1, batch_size=20, n_iter=30, random_state=0).fit(DATA)
    first = reconstruction_error(ContrastiveDivergence(n_passes=1, step_size=1e-9).layers(DATA, (3,), RNG)[0])
    other = reconstruction_error(type(own)(theirs.components_, theirs.intercept_hidden_))
    assert reconstruction_error(own) < 1.3 * other
    assert reconstruction_error(own) < 0.9 * first


def test_the_seed_makes_it_repeatable_and_sparse_data_are_the_same():
    machines = ContrastiveDivergence(n_passes=3)
    layers = [machines.layers(X, (5, 4), np.random.default_rng(7)) for X in (DATA, sp.csr_array(DATA), DATA)]
    for one, two in zip(layers[0], layers[1], strict=True):
        np.testing.assert_array_equal(one.W, two.W)
    other = machines.layers(DATA, (5, 4), np.random.default_rng(8))
    assert not np.array_equal(layers[0][0].W, other[0].W)


def test_a_tensor_learns_as_well_as_an_array():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    machines = ContrastiveDivergence(n_passes=10, batch_size=40)
    (array,) = machines.layers(DATA, (6,), np.random.default_rng(0))
    (tensor,) = machines.layers(torch.as_tensor(DATA), (6,), np.random.default_rng(0))
    assert reconstruction_error(type(tensor)(tensor.W.numpy(), tensor.b.numpy())) < 1.3 * reconstruction_error(array)


@pytest.mark.parametrize(("low", "high"), [(-0.1, 1.0), (0.0, 255.0), (np.nan, 1.0)])
def test_pixels_outside_the_unit_interval_are_refused(low, high):
    X = DATA.copy()
    X[0, 0], X[0, 1] = low, high
    with pytest.raises(DataError, match=r"needs features in \[0, 1\].*scale them, or start without pretraining"):
        ContrastiveDivergence().layers(X, (3,), RNG)


@pytest.mark.parametrize(
    "setting", [{"n_passes": 0}, {"step_size": 0.0}, {"momentum": 1.0}, {"batch_size": 0}, {"decay": -1.0}]
)
def test_settings_outside_their_domain_are_refused(setting):
    with pytest.raises(ParameterError, match=next(iter(setting))):
        ContrastiveDivergence(**setting)
