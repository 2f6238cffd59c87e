"""ONNX graphs give what the estimators give, by onnxruntime, in single and in double precision."""

import sys

import numpy as np
import onnx
import onnxruntime
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_iris

from undercut import (
    KernelClassifier,
    LinearClassifier,
    LinearRegressor,
    MultivariateClassifier,
    NoveltyDetector,
    OnlineClassifier,
    OnlineRegressor,
    Ranker,
    SequenceLabeler,
    TransductiveClassifier,
)
from undercut.errors import CapabilityError, ModelFileError, ParameterError
from undercut.estimators.files.onnx_export import export_onnx

X, Y = load_iris(return_X_y=True)
TWO = np.where(Y == 1, "yes", "no")
COUNTS = np.round(X[:, 0]).astype(float)
TOLERANCE = {"float32": 1e-6, "float64": 1e-12}  # relative to the largest
CANCELLED = {"rbf": 100, "rbf_two": 100, "poly": 100}  # times that: large coefficients of both signs

MODELS = {
    "two_classes": (LinearClassifier(lam=1e-2), TWO),
    "three_classes": (LinearClassifier(lam=1e-2), Y),
    "truth_values": (LinearClassifier(lam=1e-2), Y == 0),
    "real_labels": (LinearClassifier(lam=1e-2), np.array([1.0, 2.0, 4.0])[Y]),
    "logistic_two": (LinearClassifier("logistic", lam=1e-2), TWO),
    "logistic_three": (LinearClassifier("logistic", lam=1e-2), np.array(["a", "b", "c"])[Y]),
    "multinomial": (LinearClassifier("logistic", lam=1e-2, multi_class="multinomial"), Y),
    "online": (OnlineClassifier("logistic", lam=1e-2, n_passes=3), Y),
    "measure": (MultivariateClassifier("f1", lam=1e-2), TWO == "yes"),
    "transductive": (TransductiveClassifier(lam=1e-1, max_steps=200), np.where(np.arange(150) % 3, Y, -1)),
    "squared": (LinearRegressor(lam=1e-2), X[:, 0]),
    "poisson": (LinearRegressor("poisson", lam=1e-2), COUNTS),
    "online_regression": (OnlineRegressor("absolute", lam=1e-2, n_passes=3), X[:, 0]),
    "ranking": (Ranker(lam=1e-1), Y),
    "novelty": (NoveltyDetector(nu=0.1), None),
    "rbf": (KernelClassifier(C=10.0), Y),
    "rbf_two": (KernelClassifier(C=10.0), TWO),
    "poly": (KernelClassifier(kernel="poly", degree=3, coef0=1.0), Y),
    "linear_kernel": (KernelClassifier(kernel="linear"), Y),
}


@pytest.fixture(scope="module")
def fitted():
    return {name: fit(name) for name in MODELS}


def fit(name):
    model, y = MODELS[name]
    if isinstance(model, Ranker):
        return model.fit(X, y, qid=np.arange(150) % 10)
    return model.fit(X, y)


def outputs(path, data):
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return dict(zip([each.name for each in session.get_outputs()], session.run(None, {"X": data}), strict=True))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_graph_repeats_the_estimator(fitted, name, dtype, tmp_path):
    model = fitted[name]
    export_onnx(model, tmp_path / "model.onnx", dtype=dtype)
    got, atol = outputs(tmp_path / "model.onnx", X.astype(dtype)), TOLERANCE[dtype] * CANCELLED.get(name, 1)
    expected = {"scores": "decision_function", "probabilities": "predict_proba"}
    if "label" in got:
        scores = np.atleast_2d(model.decision_function(X).T).T
        margin = (
            np.sort(scores, axis=1)[:, -1] - np.sort(scores, axis=1)[:, -2] if scores.shape[1] > 1 else scores[:, 0]
        )
        clear = np.abs(margin) > 1e-3
        assert clear.mean() > 0.8
        np.testing.assert_array_equal(got["label"][clear], model.predict(X)[clear])
    else:
        expected["prediction"] = "predict"
    for output, method in expected.items():
        assert (output in got) == hasattr(model, method) or output == "scores"
        if output in got:
            assert got[output].dtype == dtype
            reference = getattr(model, method)(X)
            assert got[output].shape == reference.shape
            np.testing.assert_allclose(got[output], reference, rtol=0, atol=atol * np.abs(reference).max())


def test_sparse_coefficients_and_support_vectors_are_exported(tmp_path):
    model = LinearClassifier(penalty="l1", lam=1e-2).fit(X, Y).sparsify()
    export_onnx(model, tmp_path / "model.onnx")
    expected = model.decision_function(X)
    np.testing.assert_allclose(outputs(tmp_path / "model.onnx", X.astype("f4"))["scores"], expected, atol=1e-4)
    machine = KernelClassifier().fit(sp.csr_matrix(X), Y)
    export_onnx(machine, tmp_path / "model.onnx", dtype="float64")
    np.testing.assert_allclose(outputs(tmp_path / "model.onnx", X)["scores"], machine.decision_function(X), atol=1e-10)


def test_the_sigmoid_kernel_is_exported(tmp_path):
    """It is seldom positive semidefinite, so another kernel's machine takes it."""
    machine = KernelClassifier(gamma=0.01).fit(X, Y).set_params(kernel="sigmoid", coef0=0.5)
    export_onnx(machine, tmp_path / "model.onnx", dtype="float64")
    np.testing.assert_allclose(outputs(tmp_path / "model.onnx", X)["scores"], machine.decision_function(X), atol=1e-10)


def test_the_file_names_features_and_producer(tmp_path):
    export_onnx(LinearClassifier().fit(pd.DataFrame(X, columns=list("abcd")), Y), tmp_path / "model.onnx")
    model = onnx.load(tmp_path / "model.onnx")
    assert {each.key: each.value for each in model.metadata_props} == {"feature_names": "a\nb\nc\nd"}
    assert model.producer_name == "undercut"
    assert model.graph.input[0].type.tensor_type.shape.dim[1].dim_value == 4


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (SequenceLabeler().fit([X[:4]], [[0, 1, 0, 1]]), "got a SequenceLabeler"),
        (KernelClassifier(kernel="precomputed").fit(X @ X.T, Y), "kernel='precomputed'"),
        (LinearClassifier(), "call fit first"),
    ],
)
def test_what_cannot_be_exported_is_refused_by_name(model, message, tmp_path):
    with pytest.raises(ModelFileError, match=message):
        export_onnx(model, tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())


def test_labels_of_a_type_that_onnx_has_not_are_refused(tmp_path):
    model = LinearClassifier().fit(X, Y > 0)
    model.classes_ = np.array([None, "a"])
    with pytest.raises(ModelFileError, match="labels must all be texts or numbers"):
        export_onnx(model, tmp_path / "model.onnx")


def test_an_unknown_precision_is_refused(tmp_path):
    with pytest.raises(ParameterError, match="must be float32 or float64; got 'float16'"):
        export_onnx(LinearClassifier().fit(X, Y), tmp_path / "model.onnx", dtype="float16")


def test_without_onnx_the_remedy_is_named(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(CapabilityError, match=r"pip install 'undercut\[onnx\]'"):
        export_onnx(LinearClassifier().fit(X, Y), tmp_path / "model.onnx")
