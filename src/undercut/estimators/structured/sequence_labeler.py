"""A labeler of sequences with a certificate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal, Self

import numpy as np
from sklearn.base import _fit_context
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from undercut.contracts import Solver
from undercut.devices import in_memory
from undercut.errors import DataError
from undercut.estimators.certified import CertifiedEstimator
from undercut.estimators.cluster.lazy import mapped_bag
from undercut.estimators.cluster.partitions import is_collection
from undercut.estimators.cluster.sequences import PartitionedSequences, is_there, packed, unpacked
from undercut.estimators.inputs import check_in_memory
from undercut.estimators.labels import class_array, codes_of, encoded, ordered
from undercut.estimators.linear.linear_model import Task, check_distinct
from undercut.estimators.structured import neural
from undercut.io.model_file import ModelState
from undercut.io.sequences.conll import as_conll
from undercut.maps.boltzmann import ContrastiveDivergence
from undercut.maps.chains import ChainDesign, ChainMask, Chains, ChainWeights
from undercut.maps.design import as_matrix
from undercut.maps.emissions import AllPairs
from undercut.maps.networks import ACTIVATIONS
from undercut.maps.sequences import Sequences, stack_labels, stack_sequences
from undercut.maps.templates import TemplateFeatures
from undercut.regularizers import L2
from undercut.risks import CRF, M3N, ChainLoss, ChainRisk
from undercut.risks.checks import normalized_weights
from undercut.trace import Callbacks
from undercut.types import Array, FloatArray


def _is_probabilistic(model: Any) -> bool:
    return model.loss == "crf" or isinstance(model.loss, CRF)


class SequenceLabeler(CertifiedEstimator):
    """A linear chain: ``min_w lam/2 |w|^2 + sum_s weight_s l(sequence s)``, the weights scaled to sum to one.

    A labeling p of the tokens x_1 ... x_n has the score ``start[p_1] + sum_t (<coef[p_t], x_t> + intercept[p_t]) +
    sum_t transitions[p_t-1, p_t] + end[p_n]``, and all of these weights are penalized.  Sequences are given as a list
    of arrays with one row per token, or as one matrix, dense or sparse, of all tokens with the ``lengths`` of the
    sequences; their labels as a list of lists, or as one list of all labels.  Labels are of any hashable type.
    With ``features`` a sequence is a list of tokens, each a text or a tuple of its columns, or all of them are
    ``ConllData``.

    Parameters
    ----------
    loss : "m3n", "crf", or a ``ChainLoss``
        Max-margin Markov network with Hamming loss (``M3N(label_loss)`` for other costs), or conditional random field.
    lam : float
        Lambda, beside the mean loss of a sequence.
    solver : "auto", the name of a solver such as "lbfgs", or a ``Solver``
        "auto" is ``NonconvexBundle``, with the search "single" for "m3n" and "greedy" for "crf", and as many planes as
        fit into 128 MB, but at least 20.
    features : TemplateFeatures or None
        The templates that make features of tokens.
    start, end, bias : bool
        Whether there are weights for the first label, the last one, and for every label everywhere.
    pairs : "auto", "all" or "seen"
        Which pairs of feature and label, and of label and next label, have a weight: all of them, or those that occur
        in the training data, a feature being there where it is not zero; the others' weights are 0.  "all" is for
        dense features and a few labels, and reaches the lower objective; "seen" is for words and other sparse binary
        features, where most pairs never occur, and takes a fraction of the memory.  "auto" is "seen" where there are
        ``features``, else "all".
    hidden : tuple of int
        Sizes of the hidden layers of a network between the features and the scores; none makes a linear model.  The
        risk is not convex then, ``lam/2 |w - w_0|^2`` is a distance from the start w_0 of the fit, and the certificate
        is local.  ``random_state`` makes the start, hence the fit, repeatable.
    activation : "sigmoid" or "relu"
        Of the hidden units.
    pretrain : "rbm", a ``ContrastiveDivergence``, or None
        What the hidden layers are at the start: stacked Boltzmann machines, for features in [0, 1], or random.
    device : str or None
        Where torch computes a network, such as "cuda".
    gap_rel, max_steps, max_seconds, warm_start, verbose, random_state, callbacks : as in ``LinearClassifier``

    Attributes
    ----------
    classes_ : array of labels; sorted, or in order of appearance where they have no order
    coef_ : array of shape (n_classes, n_features), or of the units of the last hidden layer
    layers_ : the weights and biases of the hidden layers, where there are any
    means_, center_ : what the inputs of the layers and the penalty are centered at in a fit of a network
    transitions_ : array of shape (n_classes, n_classes), from row to column
    features_ : the templates with the features they met, where there are any
    start_, end_, intercept_ : arrays of shape (n_classes,), zeros where they are not fitted
    objective_, lower_bound_, gap_, certificate_, n_iter_, result_ : as in ``LinearClassifier``

    Examples
    --------
    >>> X = [[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [1.0, 0.0], [1.0, 0.0]]]
    >>> y = [["noun", "verb"], ["verb", "noun", "noun"]]
    >>> labeler = SequenceLabeler("crf", lam=1e-2).fit(X, y)
    >>> labeler.predict([[[0.9, 0.1]]]), labeler.gap_ <= 1e-3 * labeler.objective_
    ([array(['noun'], dtype='<U4')], True)
    """

    classes_: Array
    layers_: list[tuple[FloatArray, FloatArray]]
    means_: list[FloatArray]
    center_: FloatArray | None
    features_: TemplateFeatures
    _losses: ClassVar[dict[str, type[ChainLoss]]] = {"m3n": M3N, "crf": CRF}
    _fitted: ClassVar[tuple[str, ...]] = (
        "classes_", "coef_", "transitions_", "start_", "end_", "intercept_", "features_",
        "layers_", "means_", "center_",
    )  # fmt: skip
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **CertifiedEstimator._parameter_constraints,
        "loss": [StrOptions({"m3n", "crf"}), ChainLoss],
        "features": [TemplateFeatures, None],
        "start": ["boolean"],
        "end": ["boolean"],
        "bias": ["boolean"],
        "pairs": [StrOptions({"auto", "all", "seen"})],
        "hidden": [tuple, list],
        "activation": [StrOptions(set(ACTIVATIONS))],
        "pretrain": [StrOptions({"rbm"}), ContrastiveDivergence, None],
        "device": [str, None],
    }

    def __init__(
        self,
        loss: str | ChainLoss = "m3n",
        lam: float = 1e-4,
        *,
        solver: str | Solver[Any, Any, Any] = "auto",
        features: TemplateFeatures | None = None,
        start: bool = True,
        end: bool = True,
        bias: bool = True,
        pairs: Literal["auto", "all", "seen"] = "auto",
        hidden: Sequence[int] = (),
        activation: str = "sigmoid",
        pretrain: str | ContrastiveDivergence | None = None,
        device: str | None = None,
        gap_rel: float = 1e-3,
        max_steps: int = 10_000,
        max_seconds: float | None = None,
        warm_start: bool = False,
        verbose: int = 0,
        random_state: Any = None,
        callbacks: Callbacks = None,
    ) -> None:
        self._keep(locals())

    def _loss(self) -> ChainLoss:
        return self._losses[self.loss]() if isinstance(self.loss, str) else self.loss

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, lengths: Any = None) -> SequenceLabeler:
        """Fit the model; a weight of 2 equals duplicating the sequence.

        X, y and the weights may be Dask bags with one element per sequence, or X the names of files that workers read:
        CoNLL columns where there are ``features``, else SVMlight rows with query ids, or ``letter.data``.
        """
        neural.check_settings(self)
        last = self._last_fit() if self.warm_start and hasattr(self, "coef_") else None
        if is_there(X):
            tasks = self._tasks_there(self._partitions(X, y, sample_weight, lengths))
        else:
            sequences = self._sequences(X, lengths, fit=True)
            tasks = self._tasks(sequences, y, sample_weight, flat=lengths is not None)
        start = self._start(tasks[0].risk, last)
        minimizer = self._minimizer()
        result = minimizer(start.risk, L2(self.lam, center=start.center), start.w0)
        self._take([Task(start.risk)], [result.w])
        self.center_ = start.center
        return self._conclude(minimizer, [result])

    def _last_fit(self) -> Any:
        """What a warm start begins from."""
        has_layers = bool(getattr(self, "layers_", None))  # which older model files do not mention
        return neural.last_fit(self) if has_layers else (self.classes_, self._weights())

    def _start(self, risk: Any, last: Any) -> neural.Start:
        """Where the run of a fit starts; the last fit of another kind does not count."""
        if self.hidden:
            is_network = isinstance(last, neural.LastFit)
            return neural.warm_start(self, risk, last) if is_network else neural.first_start(self, risk)
        if last is None or isinstance(last, neural.LastFit):
            return neural.Start(risk)
        classes, weights = last
        return neural.Start(risk, packed(risk, weights) if np.array_equal(classes, self.classes_) else None)

    def _tasks(self, sequences: Sequences, y: Any, sample_weight: Any, *, flat: bool) -> list[Task]:
        """The only problem of a fit."""
        if y is None:
            raise DataError("y must have the labels of the tokens of each sequence; got none")
        self.classes_, codes = encoded(stack_labels(y, sequences.lengths, flat=flat))
        if self.hidden:
            return [Task(neural.network_risk(self, sequences, codes, self._loss(), sample_weight))]
        risk = ChainRisk(
            sequences.X, codes, lengths=sequences.lengths, sample_weight=sample_weight, n_labels=self.classes_.size,
            pairs=self._pairs(), **self._chain_settings(),
        )  # fmt: skip
        return [Task(risk)]

    def _tasks_there(self, data: PartitionedSequences) -> list[Task]:
        """The same for sequences in partitions."""
        self.classes_ = class_array(ordered(data.labels()))
        if self.features is not None:
            self.features_ = TemplateFeatures(**self.features.settings())
            data = data.fit_features(self.features_)
        return [Task(data.chain_risk(self.classes_, self._chain_settings(), self._pairs()))]

    def _chain_settings(self) -> dict[str, Any]:
        return {"loss": self._loss(), "start": self.start, "end": self.end, "bias": self.bias}

    def _partitions(self, X: Any, y: Any, sample_weight: Any, lengths: Any = None) -> PartitionedSequences:
        """Sequences in partitions; settings that need all of them in one place are refused."""
        if self.hidden:
            raise DataError("`hidden` layers need all sequences in memory; got them in partitions: compute() them")
        if lengths is not None:
            raise DataError("`lengths` are for matrices in memory; a Dask bag has one element per sequence")
        data = PartitionedSequences.of(X, y, sample_weight, text=self.features is not None)
        data.check_text(self.features is not None)
        return data

    def _take(self, tasks: list[Task], solutions: list[FloatArray]) -> None:
        """Set the weights."""
        risk, weights = tasks[0].risk, unpacked(tasks[0].risk, solutions[0])
        if self.hidden:
            neural.take(self, risk, weights)
            return
        self.coef_, self.transitions_, self.start_, self.end_, self.intercept_ = weights
        self.n_features_in_ = self.coef_.shape[1]
        self.layers_ = []
        self.means_ = []

    def _pairs(self) -> Literal["all", "seen"]:
        if self.pairs == "auto":
            return "all" if self.features is None else "seen"
        return self.pairs

    def _sequences(self, X: Any, lengths: Any, *, fit: bool = False) -> Sequences:
        """All tokens in one matrix of features, those that templates make of them where there are templates."""
        check_in_memory(self, X)
        if self.features is None:
            return stack_sequences(X, lengths)
        if lengths is not None:
            raise DataError("`lengths` are for matrices; with `features` X is a list of sentences, or ConllData")
        data = as_conll(X)
        if not fit:
            return Sequences(self.features_.transform(data), data.lengths)
        self.features_ = TemplateFeatures(**self.features.settings())
        return Sequences(self.features_.fit_transform(data), data.lengths)

    def _weights(self) -> Any:
        """All weights by name, as the risk of a labeler packs them."""
        if self.hidden:
            return neural.weights_of(self)
        return ChainWeights(self.coef_, self.transitions_, self.start_, self.end_, self.intercept_)

    @classmethod
    def from_state(cls, state: ModelState) -> Self:
        """The labeler that ``state`` described; ``ValueError`` if its parts do not fit together."""
        model = super().from_state(state)
        check_distinct(model.classes_)
        K, width = model.classes_.size, model.n_features_in_
        if model.hidden:
            neural.check_layers(model)
        top = model.hidden[-1] if model.hidden else width
        shapes = {"coef_": (K, top), "transitions_": (K, K), "start_": (K,), "end_": (K,), "intercept_": (K,)}
        for name, shape in shapes.items():
            if getattr(model, name).shape != shape:
                raise ValueError(f"{name} of shape {getattr(model, name).shape} does not fit {K} labels")
        if model.features is not None and model.features_.n_features != width:
            raise ValueError(f"{model.features_.n_features} features do not fit {width} columns")
        return model

    def predict(self, X: Any, lengths: Any = None) -> Any:
        """The labeling with the highest score: one array per sequence, or one in all where ``lengths`` are given.

        Of a Dask bag of sequences it is a bag, computed when it is asked for.
        """
        if is_collection(X):
            return mapped_bag(self, "predict", X)
        chains, scores, sequences = self._scored(X, lengths)
        labels: Array = self.classes_[chains.decode(scores)]
        return _as_given(labels, sequences, lengths)

    @available_if(_is_probabilistic)
    def predict_marginals(self, X: Any, lengths: Any = None) -> Any:
        """The probabilities of the labels under a CRF, one row per token; arrays as in ``predict``."""
        if is_collection(X):
            return mapped_bag(self, "predict_marginals", X)
        chains, scores, sequences = self._scored(X, lengths)
        return _as_given(chains.marginals(scores), sequences, lengths)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None, lengths: Any = None) -> float:
        """The share of tokens with the right label; those of a sequence count ``sample_weight`` times."""
        if is_there(X):
            check_is_fitted(self)
            return self._partitions(X, y, sample_weight, lengths).share_of_right(self)
        chains, scores, sequences = self._scored(X, lengths)
        labels = stack_labels(y, sequences.lengths, flat=lengths is not None)
        right = chains.decode(scores) == codes_of(labels, self.classes_, sequences)
        weight = np.repeat(normalized_weights(sample_weight, sequences.lengths.size), sequences.lengths)
        return float(np.average(right, weights=weight))

    def _scored(self, X: Any, lengths: Any) -> tuple[Chains, FloatArray, Sequences]:
        check_is_fitted(self)
        sequences = self._sequences(X, lengths)
        if sequences.X.shape[1] != self.n_features_in_:
            raise DataError(
                f"X must have the {self.n_features_in_} features of the fit; got {sequences.X.shape[1]} features"
            )
        chains = Chains(sequences.lengths, self.classes_.size)
        if self.hidden:
            return chains, neural.scores(self, sequences, chains), sequences
        emissions = AllPairs(as_matrix(in_memory(sequences.X)), chains.n_labels)
        design = ChainDesign(emissions, chains, ChainMask.full(chains.n_labels, start=True, end=True, bias=True))
        return chains, design.matvec(design.pack(self._weights())), sequences


def _as_given(rows: Array, sequences: Sequences, lengths: Any) -> Any:
    """Rows of all tokens, apart by sequence unless sequences came end to end."""
    return rows if lengths is not None else np.split(rows, np.cumsum(sequences.lengths)[:-1])
