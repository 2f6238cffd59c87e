"""The same code on torch tensors; on the processor, where a test can have them."""

from __future__ import annotations

import numpy as np
import pytest
from tests.kernel_problems import machine

from undercut import KernelClassifier, Status, Stop, minimize
from undercut.errors import CapabilityError, DataError
from undercut.maps.gram import DenseGram, LinearKernel, PolynomialKernel, RbfKernel, SigmoidKernel
from undercut.maps.gram.near_rows import FEW, NearRows
from undercut.solvers import KernelHedging
from undercut.testing import check_certificate

torch = pytest.importorskip("torch", reason="torch is not installed")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_tensor_is_solved_as_an_array_is(dtype):
    problem, stop = machine(n=150), Stop(gap_rel=1e-4, max_steps=5000)
    array = minimize(*problem.parts(), KernelHedging(), stop=stop)
    tensor = minimize(
        *problem.parts(DenseGram(torch.tensor(problem.K, dtype=getattr(torch, dtype)))), KernelHedging(), stop=stop
    )
    assert tensor.status is Status.CONVERGED
    assert isinstance(tensor.w, np.ndarray)
    assert abs(tensor.n_steps - array.n_steps) <= 0.1 * array.n_steps
    assert tensor.objective == pytest.approx(array.objective, rel=1e-4)
    risk, reg = problem.parts()
    assert risk.value(tensor.w) + reg.value(tensor.w) == pytest.approx(tensor.objective, rel=1e-6)
    assert tensor.lower_bound <= array.objective * (1.0 + 1e-7)


def test_a_warm_start_works_on_a_device():
    problem = machine(n=100)
    parts = problem.parts(DenseGram(torch.tensor(problem.K)))
    first = minimize(*parts, KernelHedging(), stop=Stop(gap_rel=1e-5, max_steps=5000))
    again = minimize(*parts, KernelHedging(), w0=first.w, stop=Stop(gap_rel=1e-4))
    assert again.n_steps <= 0.2 * first.n_steps


def test_exact_products_sum_in_double_precision():
    K = torch.full((3000, 3000), 0.1, dtype=torch.float32)
    gram = DenseGram(K, check=False)
    exact = float(np.float32(0.1)) * 3000.0
    assert float(gram.exact_product(torch.ones(3000, dtype=torch.float64))[0]) == pytest.approx(exact, rel=1e-14)


@pytest.mark.parametrize("C", [1.0, 1e3])
def test_a_kernel_stored_in_single_precision_on_a_device_is_certified_in_double(C):
    problem = machine(n=80, C=C)
    gram = DenseGram.of(RbfKernel(problem.gamma), torch.tensor(problem.X), np.float32)
    assert gram.K.dtype == torch.float32
    v = np.random.default_rng(0).standard_normal((80, 2))
    np.testing.assert_allclose(gram.exact_product(torch.tensor(v)).numpy(), problem.K @ v, atol=1e-12)
    risk, reg = problem.parts(gram)
    result = minimize(risk, reg, KernelHedging(), stop=Stop(gap_rel=1e-4, max_steps=2000))
    check_certificate(result, risk, reg)


def test_what_a_device_cannot_is_refused():
    problem = machine()
    with pytest.raises(CapabilityError, match="blocks need the Gram matrix in main memory"):
        minimize(*problem.parts(DenseGram(torch.tensor(problem.K))), KernelHedging(blocks=2))
    with pytest.raises(DataError, match="smallest eigenvalue is -1"):
        DenseGram(torch.tensor([[1.0, 2.0], [2.0, 1.0]]))


@pytest.mark.parametrize("kernel", [LinearKernel(), PolynomialKernel(2), RbfKernel(0.3), SigmoidKernel(0.1)])
def test_a_gram_matrix_is_made_where_its_samples_are(kernel):
    X = np.random.default_rng(0).standard_normal((70, 4))
    made = DenseGram.of(kernel, torch.tensor(X), np.float64, check=False).K
    assert isinstance(made, torch.Tensor)
    np.testing.assert_allclose(made.numpy(), kernel(X, X), atol=1e-13)


def test_products_by_near_rows_are_products():
    rng = np.random.default_rng(0)
    K = torch.tensor(rng.standard_normal((200, 200)))
    K = K + K.T
    near = NearRows(K)
    for size in (10, 30, 30, 0, 5, 49, 50, 51, 200, 2, 40, 40):
        v = torch.zeros(200, dtype=torch.float64)
        v[torch.tensor(rng.choice(200, size, replace=False))] = torch.tensor(rng.standard_normal(size))
        torch.testing.assert_close(near.product(v), K @ v)
        assert near.count <= FEW * 200


def test_the_classifier_works_on_a_device():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 3))
    y = np.where(np.linalg.norm(X, axis=1) > 1.5, "far", "near")
    here, there = KernelClassifier().fit(X, y), KernelClassifier(device="cpu").fit(X, y)
    assert there.gap_ <= 1e-3 * there.objective_
    assert here.lower_bound_ <= there.objective_
    assert np.mean(here.predict(X) == there.predict(X)) >= 0.98
    blocks = KernelClassifier(device="cpu", solver=KernelHedging(blocks=2))
    with pytest.raises(CapabilityError, match="blocks need the Gram matrix in main memory"):
        blocks.fit(X, y)
    with pytest.raises(CapabilityError, match="`device` must be one that torch can use; got 'tpu9'"):
        KernelClassifier(device="tpu9").fit(X, y)


def test_a_tensor_of_integers_is_a_matrix_of_numbers():
    gram = DenseGram(torch.tensor([[2, 1], [1, 2]]))
    assert gram.product(torch.tensor([0.5, 0.0], dtype=torch.float64)).tolist() == [1.0, 0.5]
