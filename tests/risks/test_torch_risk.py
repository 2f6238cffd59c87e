"""TorchRisk: the numbers of a risk in NumPy, whatever the size of a batch, and refusals that tell what to do."""

from __future__ import annotations

import builtins

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from undercut import L2, LinearRisk, Logistic, Stop, minimize
from undercut.errors import CapabilityError, DataError, NonfiniteError, ParameterError
from undercut.risks import CRF, NetworkChainRisk, TorchRisk
from undercut.solvers import StochasticGradient
from undercut.testing import check_risk

torch = pytest.importorskip("torch", reason="torch is not installed")
RNG = np.random.default_rng(0)
X = RNG.standard_normal((30, 4))
Y = np.where(X[:, 0] + 0.5 * RNG.standard_normal(30) > 0.0, 1.0, -1.0)


def logistic(w, x, y):
    return torch.nn.functional.softplus(-y * (x @ w)).mean()


def test_a_function_is_the_linear_risk_it_computes():
    risk, linear = TorchRisk(logistic, (X, Y), n_params=4, convex=True, lower_bound=0.0), LinearRisk(X, Y, Logistic())
    w = RNG.standard_normal(4)
    assert risk.value(w) == pytest.approx(linear.value(w), rel=1e-13)
    np.testing.assert_allclose(risk.cut(w).a, linear.cut(w).a, rtol=1e-12)
    check_risk(risk)
    here, there = (minimize(each, L2(0.1)) for each in (risk, linear))
    assert here.certificate == "global"
    assert here.lower_bound <= there.objective


def test_a_module_is_the_network_it_computes():
    """One token per sequence and no transitions: the chain is a classifier."""
    labels = RNG.integers(0, 3, 30)
    chain = NetworkChainRisk(X, labels, CRF(), np.ones(30, int), hidden=(5,), n_labels=3)
    net = torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.Sigmoid(), torch.nn.Linear(5, 3)).double()
    risk = TorchRisk(net, (X, labels), loss=torch.nn.functional.cross_entropy)
    w = RNG.standard_normal(risk.n_params)
    assert risk.value(w) == pytest.approx(chain.value(np.append(w, np.zeros(9))), rel=1e-13)
    np.testing.assert_allclose(risk.cut(w).a, chain.cut(np.append(w, np.zeros(9))).a[:-9], rtol=1e-10, atol=1e-14)


def test_parameters_travel_between_the_module_and_a_flat_vector():
    net = torch.nn.Linear(4, 1)
    risk = TorchRisk(net, (X, Y), loss=lambda out, y: ((out[:, 0] - y) ** 2).mean())
    start = risk.start()
    np.testing.assert_array_equal(start, np.append(net.weight.detach().numpy().ravel(), net.bias.detach().numpy()))
    risk.load(np.arange(5.0))
    assert net.weight.tolist() == [[0.0, 1.0, 2.0, 3.0]]
    assert net.bias.tolist() == [4.0]
    with pytest.raises(DataError, match=r"w must have shape \(5,\)"):
        risk.load(np.zeros(4))


@pytest.mark.parametrize("size", [1, 7, 30, 100])
def test_batches_add_up_to_the_whole(size, tmp_path):
    """Also of a memory map, whose rows are read batch by batch."""
    path = tmp_path / "X.npy"
    np.save(path, X)
    whole = TorchRisk(logistic, (X, Y), n_params=4)
    parts = TorchRisk(logistic, (np.load(path, mmap_mode="r"), torch.as_tensor(Y)), n_params=4, batch_size=size)
    w = RNG.standard_normal(4)
    assert parts.value(w) == pytest.approx(whole.value(w), rel=1e-13)
    np.testing.assert_allclose(parts.cut(w).a, whole.cut(w).a, rtol=1e-12)


def test_a_device_computes_the_same_numbers(device, tmp_path):
    """For a function and for a module, from arrays, memory maps and tensors that are there or not."""
    path = tmp_path / "X.npy"
    np.save(path, X)
    w, flat = RNG.standard_normal(5), TorchRisk(logistic, (X, Y), n_params=4)
    for given in (X, np.load(path, mmap_mode="r"), torch.as_tensor(X), torch.as_tensor(X, device=device)):
        there = TorchRisk(logistic, (given, Y), n_params=4, device=device, batch_size=7)
        assert there.value(w[:4]) == pytest.approx(flat.value(w[:4]), rel=1e-12)
        np.testing.assert_allclose(there.cut(w[:4]).a, flat.cut(w[:4]).a, rtol=1e-10)
        assert there.batch(np.array([3, 1])).value(w[:4]) == pytest.approx(flat.batch(np.array([3, 1])).value(w[:4]))
    here, there = (TorchRisk(linear(), (X, Y), loss=squares, device=where) for where in (None, device))
    assert there.value(w) == pytest.approx(here.value(w), rel=1e-12)
    np.testing.assert_allclose(there.cut(w).a, here.cut(w).a, rtol=1e-10)
    np.testing.assert_array_equal(there.start(), w)


def test_a_stochastic_method_takes_its_batches():
    risk = TorchRisk(logistic, (X, Y), n_params=4, lower_bound=0.0)
    result = minimize(risk, L2(0.1), StochasticGradient(step_size=0.1, batch_size=5), stop=Stop(max_steps=40))
    assert result.certificate == "none"
    assert result.objective <= 1.01 * minimize(risk, L2(0.1)).objective


def test_a_parameter_without_effect_has_slope_zero():
    net = torch.nn.ModuleDict({"used": torch.nn.Linear(4, 1), "unused": torch.nn.Linear(4, 1)}).double()
    net.forward = lambda x: net["used"](x)
    risk = TorchRisk(net, (X, Y), loss=lambda out, y: ((out[:, 0] - y) ** 2).mean())
    np.testing.assert_array_equal(risk.cut(np.ones(10)).a[5:], np.zeros(5))


def test_without_torch_the_extra_is_named(monkeypatch):
    load = builtins.__import__

    def without(name, *args, **kwargs):
        if name == "torch":
            raise ImportError(name)
        return load(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(CapabilityError, match=r"TorchRisk needs torch: pip install 'undercut\[torch\]'"):
        TorchRisk(logistic, (X, Y), n_params=4)


def test_a_loss_that_is_no_number_is_refused():
    for fun, got in ((lambda w, x, y: x @ w, r"shape \(30,\)"), (lambda w, x, y: 1.0, "1.0"),
                     (lambda w, x, y: 1j * w.sum(), r"shape \(\) of torch.complex128")):  # fmt: skip
        with pytest.raises(DataError, match=f"a real tensor of one number; got {got}"):
            TorchRisk(fun, (X, Y), n_params=4).value(np.zeros(4))


def test_a_loss_without_gradient_is_refused():
    with pytest.raises(DataError, match="it has no gradient: do not detach it"):
        TorchRisk(lambda w, x, y: y.mean(), (X, Y), n_params=4).cut(np.zeros(4))


def test_nan_is_reported():
    with pytest.raises(NonfiniteError, match="the value of the risk is nan"):
        TorchRisk(lambda w, x, y: w.sum() * np.nan, (X, Y), n_params=4).cut(np.zeros(4))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"function": torch.nn.ReLU()}, "the module must have parameters that require a gradient"),
        ({"function": logistic}, "a function needs `n_params`"),
        ({"function": logistic, "n_params": 0}, "`n_params` must be an integer of at least 1; got 0"),
        ({"function": logistic, "n_params": 4.0}, "`n_params` must be an integer of at least 1; got 4.0"),
        ({"function": logistic, "n_params": 4, "batch_size": 2.5}, "`batch_size` must be an integer of at least 1"),
        ({"function": logistic, "n_params": 4, "lower_bound": np.nan}, "`lower_bound` must be a number; got nan"),
        ({"function": torch.nn.LazyLinear(1)}, "must have values; .*: call a lazy module with a batch first"),
        ({"function": torch.nn.Linear(4, 1, device="meta")}, "move one from the device 'meta' by to_empty"),
        (
            {"function": torch.nn.Linear(4, 1).half()},
            r"float16, which overflows beyond 65504: use module.float\(\)",
        ),
        ({"function": 3, "n_params": 4}, "must be a torch.nn.Module or a function"),
        ({"function": torch.nn.Linear(4, 1), "n_params": 4}, "`n_params` is for functions"),
        ({"function": logistic, "n_params": 4, "batch_size": 0}, "`batch_size` must be an integer of at least 1"),
        ({"function": logistic, "n_params": 4, "loss": logistic}, "`loss` is for a module"),
    ],
)
def test_settings_that_make_no_risk_are_refused(arguments, message):
    with pytest.raises(ParameterError, match=message):
        TorchRisk(data=(X, Y), **arguments)


@pytest.mark.parametrize("data", [(X, Y[:-1]), (), (X[:0], Y[:0]), ("text",), [3.0]])
def test_data_without_rows_are_refused(data):
    with pytest.raises(DataError, match="`data` must"):
        TorchRisk(logistic, data, n_params=4)


@pytest.mark.parametrize("data", [(X.astype(object), Y), (X.astype(str), Y)])
def test_data_that_are_no_numbers_are_refused(data):
    with pytest.raises(DataError, match="`data` must hold numbers; got a ndarray of"):
        TorchRisk(logistic, data, n_params=4)


def test_tables_and_sparse_matrices_are_refused_with_the_way_out():
    for given in (pd.DataFrame(X), sp.csr_matrix(X)):
        with pytest.raises(DataError, match=r"dense arrays or tensors; got \w+: pass its to_numpy\(\) or toarray\(\)"):
            TorchRisk(logistic, (given, Y), n_params=4)


def test_data_that_torch_cannot_take_as_they_are_are_converted():
    w, expected = np.ones(4), TorchRisk(logistic, (X, Y), n_params=4).value(np.ones(4))
    for given in (X.astype(">f8"), X.astype(np.longdouble), X[::-1][::-1]):
        assert TorchRisk(logistic, (given, Y), n_params=4).value(w) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("batch_size", [None, 10])
@pytest.mark.parametrize(("array", "row"), [(0, 3), (1, 7)])
def test_data_that_are_not_finite_are_named(array, row, batch_size):
    data = [X.copy(), Y.copy()]
    data[array][row] = np.nan
    risk = TorchRisk(logistic, data, n_params=4, batch_size=batch_size)
    for evaluate in (risk.value, risk.cut):
        with pytest.raises(DataError, match=f"array {array} contains NaN or infinity, row {row} of a batch of"):
            evaluate(np.ones(4))


def linear(n=4):
    return torch.nn.Linear(n, 1).double()


def squares(out, y):
    return ((out[:, 0] - y) ** 2).mean()


ENTROPY = torch.nn.functional.cross_entropy


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TorchRisk(linear(), ((9 * X).astype(int), Y), loss=squares), r"\(30, 4\) of int64 .*the same dtype"),
        (lambda: TorchRisk(linear(5), (X, Y), loss=squares), "it raised RuntimeError: .*shapes cannot be multiplied"),
        (lambda: TorchRisk(linear(), (X, Y)), "it raised TypeError: .*takes 2 positional arguments but 3 were given"),
        (lambda: TorchRisk(logistic, (X, Y), n_params=5), "it raised RuntimeError: size mismatch"),
        (lambda: TorchRisk(linear(), (X, np.full(30, 7)), loss=ENTROPY), "IndexError: Target 7 is out of bounds"),
        (lambda: TorchRisk(logistic, (X.astype("f4"), Y), n_params=4), r"\(30, 4\) of float32 and \(30,\) of float64"),
    ],
)  # fmt: skip
def test_a_batch_that_the_function_cannot_take_is_described(make, message):
    risk = make()
    with pytest.raises(DataError, match=message):
        risk.cut(np.zeros(risk.n_params))


def test_a_point_of_another_shape_is_refused():
    for risk in (TorchRisk(linear(), (X, Y), loss=squares), TorchRisk(logistic, (X, Y), n_params=5)):
        for evaluate in (risk.value, risk.cut):
            with pytest.raises(DataError, match=r"w must have shape \(5,\).*; got \(9,\)"):
                evaluate(np.zeros(9))


@pytest.mark.parametrize("device", ["gpu", "", 3.5, "cuda:99"])
def test_a_device_that_torch_does_not_have_is_refused(device):
    for function, rest in ((logistic, {"n_params": 4}), (linear(), {"loss": squares})):
        with pytest.raises(CapabilityError, match=r"`device` must be one that torch can use; got .*: use 'cpu'"):
            TorchRisk(function, (X, Y), device=device, **rest)
