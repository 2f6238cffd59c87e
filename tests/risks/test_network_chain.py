"""Chains with a network: the linear chain without layers, exact derivatives, the same numbers by NumPy and torch."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from undercut import L2, ChainRisk, Lbfgs, NonconvexBundle, Stop, minimize
from undercut.contracts import BatchedRisk, LineRisk, ScoreMap
from undercut.errors import DataError, NonfiniteError, ParameterError
from undercut.maps.boltzmann import ContrastiveDivergence
from undercut.maps.chains import ChainWeights
from undercut.maps.networks import Network
from undercut.risks import CRF, M3N, NetworkChainRisk
from undercut.solvers import StochasticGradient
from undercut.testing import check_risk

LENGTHS = np.array([3, 1, 4, 2, 5])
RNG = np.random.default_rng(0)
X = RNG.random((LENGTHS.sum(), 4))
Y = RNG.integers(0, 3, LENGTHS.sum())
LOSSES = [CRF(), M3N()]
every_loss = pytest.mark.parametrize("loss", LOSSES, ids=["crf", "m3n"])


def risk_of(loss=LOSSES[0], X=X, **settings):
    settings = {"hidden": (5, 3), "start": True, "end": True, "n_labels": 3} | settings
    return NetworkChainRisk(X, Y, loss, LENGTHS, **settings)


def somewhere(risk, seed=1):
    return 0.5 * np.random.default_rng(seed).standard_normal(risk.n_params)


@every_loss
@pytest.mark.parametrize("bias", [False, True])
def test_a_network_without_hidden_layers_is_a_linear_chain(loss, bias):
    linear = ChainRisk(X, Y, loss, LENGTHS, start=True, end=True, bias=bias, n_labels=3)
    net = risk_of(loss, hidden=(), bias=bias)
    assert net.n_params == linear.n_params
    assert net.is_convex
    w = somewhere(net)
    (top,), transitions, start, end = net.unpack(w)
    same = linear.pack(ChainWeights(top.W, transitions, start, end, top.b))
    assert net.value(w) == pytest.approx(linear.value(same), rel=1e-14)
    assert np.linalg.norm(net.cut(w).a) == pytest.approx(np.linalg.norm(linear.cut(same).a), rel=1e-12)
    np.testing.assert_array_equal(net.decode(w), linear.decode(same))


@every_loss
@pytest.mark.parametrize("activation", ["sigmoid", "relu"])
@pytest.mark.parametrize("matrix", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("is_centered", [False, True], ids=["plain", "centered"])
def test_the_gradient_is_that_of_difference_quotients(loss, activation, matrix, is_centered):
    risk = risk_of(loss, matrix(X), activation=activation)
    if is_centered:
        risk, _ = risk.centered(somewhere(risk, 2))
    w = somewhere(risk)
    cut, step = risk.cut(w), 1e-6 * np.random.default_rng(3).standard_normal((5, risk.n_params))
    for move in step:
        assert 0.5 * (risk.value(w + move) - risk.value(w - move)) == pytest.approx(cut.a @ move, rel=1e-4, abs=1e-12)


def test_a_network_fulfils_the_contracts_and_claims_no_line():
    risk = risk_of()
    check_risk(risk)
    assert isinstance(risk, BatchedRisk)
    assert not isinstance(risk, LineRisk)
    assert isinstance(risk.map, ScoreMap)
    assert not risk.is_convex


def test_centering_changes_the_parameters_and_not_the_function():
    risk = risk_of()
    w = somewhere(risk)
    centered, point = risk.centered(w)
    assert centered.value(point) == pytest.approx(risk.value(w), rel=1e-13)
    other = point + 0.1 * somewhere(risk, 2)
    assert risk.value(risk.pack(centered.unpack(other))) == pytest.approx(centered.value(other), rel=1e-13)
    np.testing.assert_allclose(centered.map.network.means[0], X.mean(axis=0))
    np.testing.assert_allclose(centered.pack(centered.unpack(other)), other, rtol=1e-12, atol=1e-14)


def test_centering_saves_evaluations():
    rng = np.random.default_rng(5)
    lengths = np.full(40, 5)
    labels = rng.integers(0, 3, lengths.sum())
    pixels = (rng.random((lengths.sum(), 12)) < np.repeat(0.7 + 0.3 * np.eye(3), 4, axis=1)[labels]).astype(float)
    plain = NetworkChainRisk(pixels, labels, CRF(), lengths, hidden=(40,))
    w0 = plain.random_start(rng)
    objectives = [
        minimize(risk, L2(1e-3, center=start), w0=start, stop=Stop(gap_rel=0.0, max_evaluations=25)).objective
        for risk, start in ((plain, w0), plain.centered(w0))
    ]
    assert objectives[1] < 0.95 * objectives[0]


def test_a_batch_of_all_sequences_is_the_risk():
    risk = risk_of()
    w, rows = somewhere(risk), np.array([4, 2, 0, 1, 3])
    assert risk.batch(rows).value(w) == pytest.approx(risk.value(w), rel=1e-13)
    parts = [risk.batch(rows[:2]).value(w), risk.batch(rows[2:]).value(w)]
    assert (2.0 * parts[0] + 3.0 * parts[1]) / 5.0 == pytest.approx(risk.value(w), rel=1e-13)


@every_loss
def test_a_tensor_gives_the_numbers_of_an_array(loss, device):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    array, tensor = risk_of(loss), risk_of(loss, torch.as_tensor(X, device=device))
    w = somewhere(array)
    here, there = array.cut(w), tensor.cut(w)
    assert isinstance(there.a, np.ndarray)
    assert there.value == pytest.approx(here.value, rel=1e-13)
    np.testing.assert_allclose(there.a, here.a, rtol=1e-10, atol=1e-13)
    np.testing.assert_array_equal(tensor.decode(w), array.decode(w))
    np.testing.assert_allclose(tensor.marginals(w), array.marginals(w), rtol=1e-10)
    rows = np.array([3, 0])
    assert tensor.batch(rows).value(w) == pytest.approx(array.batch(rows).value(w), rel=1e-13)
    centered, point = tensor.centered(w)
    assert centered.value(point) == pytest.approx(here.value, rel=1e-12)


def test_a_run_on_tensors_is_that_on_arrays(device):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    array, tensor = risk_of(), risk_of(X=torch.as_tensor(X, device=device))
    w0, stop = array.random_start(np.random.default_rng(0)), Stop(gap_rel=1e-4, max_evaluations=200)
    solver = NonconvexBundle(line_search="single", precision="single")
    here, there = (minimize(risk, L2(0.01, center=w0), solver, w0=w0, stop=stop) for risk in (array, tensor))
    assert there.objective == pytest.approx(here.objective, rel=1e-3)


def test_no_tensor_is_taken_for_an_array(monkeypatch):
    """Only explicit copies leave a device; on the processor the others would pass unseen."""
    torch = pytest.importorskip("torch", reason="torch is not installed")

    def refused(*given, **named):
        raise TypeError("a tensor was converted to an array")

    monkeypatch.setattr(torch.Tensor, "__array__", refused)
    for loss, stop in ((CRF(), Stop(max_steps=3)), (M3N(), Stop(max_steps=3))):
        risk = risk_of(loss, torch.as_tensor(X), activation="sigmoid")
        machines = ContrastiveDivergence(n_passes=2, batch_size=4)
        risk, w0 = risk.centered(risk.pretrained_start(machines, np.random.default_rng(0)))
        reg = L2(0.1, center=w0)
        for solver in (NonconvexBundle(line_search="single", precision="single"), Lbfgs(), StochasticGradient()):
            w = minimize(risk, reg, solver, w0=w0, stop=stop).w
            assert isinstance(w, np.ndarray)
        assert risk.decode(w).shape == Y.shape
        assert isinstance(risk.unpack(w).layers[0].W, np.ndarray)


def test_sequences_of_weight_zero_do_not_count_on_tensors():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    weight = np.array([1.0, 0.0, 2.0, 0.0, 1.0])
    risks = [NetworkChainRisk(x, Y, CRF(), LENGTHS, weight, hidden=(2,), n_labels=3) for x in (X, torch.as_tensor(X))]
    w = somewhere(risks[0])
    assert risks[0].value(w) == pytest.approx(risks[1].value(w), rel=1e-13)


def test_half_precision_is_widened_before_squares_overflow():
    wide = risk_of(X=(300.0 * X).astype(np.float16), activation="relu")
    w = somewhere(wide)
    assert wide.map.network.X.dtype == np.float64
    assert np.isfinite(wide.cut(w).a).all()


@pytest.mark.parametrize("hidden", [(0,), (3, -1), (2.5,), "40", 3, (True,)])
def test_sizes_that_are_no_sizes_are_refused(hidden):
    with pytest.raises(ParameterError, match="`hidden` must be the sizes of the hidden layers, positive integers"):
        risk_of(hidden=hidden)


def test_an_unknown_activation_is_refused():
    with pytest.raises(ParameterError, match="`activation` must be sigmoid or relu; got 'tanh'"):
        risk_of(activation="tanh")


def test_broken_lengths_and_entries_are_named():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    with pytest.raises(DataError, match="`lengths` must sum to the number of rows"):
        NetworkChainRisk(X, Y, CRF(), [3, 4], hidden=(2,))
    broken = X.copy()
    broken[5, 1] = np.nan
    for data in (broken, torch.as_tensor(broken)):
        with pytest.raises(DataError, match="token 1 of sequence 2 contains NaN"):
            NetworkChainRisk(data, Y, CRF(), LENGTHS, hidden=(2,))


def test_scores_that_overflow_are_reported():
    risk = risk_of(activation="relu")
    with pytest.raises(NonfiniteError):
        risk.cut(np.full(risk.n_params, 1e200))


@pytest.mark.parametrize("activation", ["sigmoid", "relu"])
def test_signals_of_a_random_start_reach_the_third_layer(activation):
    rng = np.random.default_rng(0)
    network = Network(rng.standard_normal((200, 30)), (40,) * 3, 3, activation=activation)
    centered, w = network.centered(network.random_start(rng))
    centered.forward(w)
    spread = [float(values.std(axis=0).mean()) for values in centered._values]
    assert min(spread) > 0.2 * spread[0]
    assert max(spread) < 3.0 * spread[0]
