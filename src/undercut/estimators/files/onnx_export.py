"""Linear and kernel models as ONNX graphs (the extra ``onnx``).

    X -> MatMul, Add -> scores -> label, probabilities | prediction

The outputs have the names and shapes of what the estimator returns: ``label``, ``scores`` (``decision_function``) and,
for the logistic loss, ``probabilities`` of a classifier; ``prediction`` of a regressor or a ranker.  Only operators of
the standard set are used, so that every runtime has them.
"""

from __future__ import annotations

import importlib
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp

from undercut import __version__
from undercut.errors import CapabilityError, ModelFileError, require
from undercut.estimators.class_predictions import ClassPredictions
from undercut.estimators.inputs import feature_names
from undercut.estimators.kernels.kernel_classifier import KernelClassifier
from undercut.estimators.linear.linear_model import LinearModel
from undercut.estimators.linear.novelty_detector import NoveltyDetector
from undercut.estimators.linear.sparse_coef import dense_coef
from undercut.estimators.ranking.ranker import Ranker
from undercut.io.container import write_whole
from undercut.losses import Poisson
from undercut.maps.gram.functions import KERNELS
from undercut.types import Array, FilePath

OPSET, IR_VERSION = 17, 8  # of 2022: read by every runtime in use
DTYPES = ("float32", "float64")


def export_onnx(estimator: Any, path: FilePath, *, dtype: Literal["float32", "float64"] = "float32") -> None:
    """Write a fitted linear or kernel model as an ONNX file, for runtimes without Python.

    The input ``X`` has one row per sample and the features of the fit, in order; their names, where they are known,
    stand in the metadata as ``feature_names``.  ``dtype`` is that of the input, the numbers inside and the outputs;
    "float64" repeats ``decision_function`` up to rounding, where the runtime has it (onnxruntime does).
    """
    require(dtype in DTYPES, "`dtype` must be float32 or float64", dtype)
    if not isinstance(estimator, (LinearModel, KernelClassifier)):
        raise ModelFileError(
            f"only linear and kernel models can be exported; got a {type(estimator).__name__}: export the last step of "
            "a pipeline"
        )
    if not hasattr(estimator, "n_features_in_"):
        raise ModelFileError(f"only a fitted estimator can be exported: call fit first; got {estimator}")
    graph = Graph(_onnx(), dtype)
    _add_outputs(graph, estimator)
    write_whole(graph.serialized(estimator), path)


def _onnx() -> Any:
    try:
        return importlib.import_module("onnx")
    except ImportError as error:
        raise CapabilityError("the export needs onnx: pip install 'undercut[onnx]'") from error


class Graph:
    """Nodes, constants and outputs of a graph; every node is named after its place."""

    def __init__(self, onnx: Any, dtype: str) -> None:
        self.onnx, self.dtype = onnx, np.dtype(dtype)
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.outputs: list[Any] = []

    def constant(self, value: Any, dtype: Any = None) -> str:
        """A constant, of the graph's own dtype unless another is given; its name."""
        array = np.asarray(value, dtype=self.dtype if dtype is None else dtype)
        name = f"constant{len(self.constants)}"
        self.constants.append(self.onnx.numpy_helper.from_array(array, name))
        return name

    def add(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """A node with one output; its name."""
        name = f"{operator}{len(self.nodes)}"
        self.nodes.append(self.onnx.helper.make_node(operator, list(inputs), [name], **attributes))
        return name

    def output(self, name: str, source: str, shape: list[Any], dtype: Any = None) -> None:
        """Let an output of the graph be the result of a node."""
        self.nodes.append(self.onnx.helper.make_node("Identity", [source], [name]))
        self.outputs.append(self._value(name, shape, self.dtype if dtype is None else dtype))

    def _value(self, name: str, shape: list[Any], dtype: Any) -> Any:
        kind = self.onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        return self.onnx.helper.make_tensor_value_info(name, kind, shape)

    def serialized(self, estimator: Any) -> bytes:
        """The content of the file, checked."""
        helper, name = self.onnx.helper, type(estimator).__name__
        inputs = [self._value("X", ["n_samples", estimator.n_features_in_], self.dtype)]
        graph = helper.make_graph(self.nodes, name, inputs, self.outputs, self.constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
        model.producer_name, model.producer_version = "undercut", __version__
        names = feature_names(estimator)
        if names is not None:
            helper.set_model_props(model, {"feature_names": "\n".join(names)})
        self.onnx.checker.check_model(model)
        content: bytes = model.SerializeToString()
        return content


def _add_outputs(graph: Graph, estimator: Any) -> None:
    scores = _kernel_scores(graph, estimator) if isinstance(estimator, KernelClassifier) else _scores(graph, estimator)
    if isinstance(estimator, ClassPredictions):
        _add_classes(graph, estimator, scores)
    elif isinstance(estimator, NoveltyDetector):
        scores = _flat(graph, scores)
        ordinary = graph.add("GreaterOrEqual", scores, graph.constant(0.0))
        label = graph.add("Where", ordinary, graph.constant(1, np.int64), graph.constant(-1, np.int64))
        graph.output("label", label, ["n_samples"], np.int64)
        graph.output("scores", scores, ["n_samples"])
    else:
        prediction = _flat(graph, scores)
        if not isinstance(estimator, Ranker) and isinstance(estimator._loss(), Poisson):
            prediction = graph.add("Exp", prediction)
        graph.output("prediction", prediction, ["n_samples"])


def _scores(graph: Graph, estimator: Any) -> str:
    """``X coef' + intercept``, one column per problem."""
    coef = np.atleast_2d(dense_coef(estimator))
    return _affine(graph, "X", coef.T, np.atleast_1d(estimator.intercept_))


def _affine(graph: Graph, source: str, matrix: Array, shift: Array) -> str:
    return graph.add("Add", graph.add("MatMul", source, graph.constant(matrix)), graph.constant(shift))


def _kernel_scores(graph: Graph, machine: KernelClassifier) -> str:
    """``k(X, support vectors) dual_coef' + intercept``."""
    if machine.kernel not in KERNELS:
        raise ModelFileError(
            f"only the kernels {', '.join(KERNELS)} can be exported; got kernel={machine.kernel!r}: use one of these"
        )
    vectors = machine.support_vectors_
    vectors = vectors.toarray() if sp.issparse(vectors) else np.asarray(vectors, dtype=np.float64)
    if machine.kernel == "linear":
        return _affine(graph, "X", (machine.dual_coef_ @ vectors).T, machine.intercept_)
    K = _squared_exponential(graph, machine, vectors) if machine.kernel == "rbf" else _products(graph, machine, vectors)
    return _affine(graph, K, machine.dual_coef_.T, machine.intercept_)


def _products(graph: Graph, machine: KernelClassifier, vectors: Array) -> str:
    """Kernels of inner products: polynomial and sigmoid."""
    inner = _affine(graph, "X", machine._gamma * vectors.T, np.array(machine.coef0))
    if machine.kernel == "sigmoid":
        return graph.add("Tanh", inner)
    return graph.add("Pow", inner, graph.constant(float(machine.degree)))


def _squared_exponential(graph: Graph, machine: KernelClassifier, vectors: Array) -> str:
    """``exp(-gamma |x - z|^2)``, from inner products of centered samples, which lose fewer digits."""
    center = vectors.mean(axis=0) if len(vectors) else np.zeros(machine.n_features_in_)
    Z = vectors - center
    X = graph.add("Sub", "X", graph.constant(center))
    squares = graph.add("ReduceSumSquare", X, axes=[1], keepdims=1)
    distances = graph.add("Add", _affine(graph, X, -2.0 * Z.T, (Z * Z).sum(axis=1)), squares)
    positive = graph.add("Max", distances, graph.constant(0.0))
    return graph.add("Exp", graph.add("Mul", positive, graph.constant(-machine._gamma)))


def _add_classes(graph: Graph, classifier: Any, scores: str) -> None:
    """Labels, decision values and, where the loss gives them a meaning, probabilities."""
    K, classes = classifier.classes_.size, _class_array(classifier.classes_)
    shape = ["n_samples"] if K == 2 else ["n_samples", K]
    values = _flat(graph, scores) if K == 2 else scores
    if K == 2:
        positive = graph.add("Greater", values, graph.constant(0.0))
        codes = graph.add("Cast", positive, to=graph.onnx.TensorProto.INT64)
    else:
        codes = graph.add("ArgMax", values, axis=1, keepdims=0)
    label = graph.add("Gather", graph.constant(classes, classes.dtype), codes)
    graph.output("label", label, ["n_samples"], classes.dtype)
    graph.output("scores", values, shape)
    if hasattr(classifier, "predict_proba"):
        graph.output("probabilities", _probabilities(graph, classifier, scores), ["n_samples", K])


def _class_array(classes: Array) -> Array:
    """Labels of a type that ONNX has."""
    if classes.dtype.kind in "OU" and all(isinstance(label, str) for label in classes.tolist()):
        return classes.astype(object)
    if classes.dtype.kind not in "biuf":
        raise ModelFileError(f"labels must all be texts or numbers to be exported; got {classes.tolist()}")
    return classes.astype(np.int64) if classes.dtype.kind in "iu" else classes


def _probabilities(graph: Graph, classifier: Any, scores: str) -> str:
    if classifier.classes_.size > 2 and getattr(classifier, "multi_class", "ovr") == "multinomial":
        return graph.add("Softmax", scores, axis=1)
    odds = graph.add("Sigmoid", scores)
    if classifier.classes_.size == 2:
        return graph.add("Concat", graph.add("Sub", graph.constant(1.0), odds), odds, axis=1)
    total = graph.add("ReduceSum", odds, graph.constant([1], np.int64), keepdims=1)
    return graph.add("Div", odds, total)


def _flat(graph: Graph, scores: str) -> str:
    return graph.add("Reshape", scores, graph.constant([-1], np.int64))
