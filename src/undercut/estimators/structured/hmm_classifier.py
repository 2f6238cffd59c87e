"""A classifier of utterances of one word each, with a certificate."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from scipy.special import log_softmax
from sklearn.base import ClassifierMixin, _fit_context

from undercut.errors import DataError
from undercut.estimators.labels import encoded
from undercut.estimators.structured.hmm_model import HmmModel
from undercut.risks.checks import normalized_weights
from undercut.risks.structured.hmm.paths import aligned
from undercut.risks.structured.hmm.risk import WordRisk
from undercut.risks.structured.hmm.start import fit_words
from undercut.types import Array, FloatArray


class HmmClassifier(ClassifierMixin, HmmModel):
    """Hidden Markov models, one per class, with a large margin between their Viterbi scores (Do and Artières 2012).

        min_w lam/2 |theta (w - w0)|^2 + sum_i weight_i max_y (F(x_i, y) + margin [y != y_i] - F(x_i, y_i))

    F is the log-probability of the best path and of the best Gaussian of each frame, divided by the number of frames;
    w0 is the maximum likelihood solution.  The models are left-to-right: a path begins in the first state, stays or
    moves on to the next one from frame to frame, and ends in the last.  X is a list of arrays with one row per frame,
    or one matrix of all frames with ``offsets``: utterance i has the rows ``offsets[i] ... offsets[i + 1] - 1``.

    Parameters
    ----------
    n_states, n_mixtures : states of each model, and Gaussians of each state
    lam : float
        Lambda, beside the mean loss of an utterance; features are brought to unit variance first.
    covariance : "diag" or "full"
    theta : three positive numbers
        Weights in the penalty of the constants and slopes of Gaussians, of their squares, and of moves between states.
    margin : float
        How much higher the score of the true class shall be, in log-probability per frame.  A larger one counts
        utterances that are clearly right already, which helps where the test utterances differ from these.
    normalize : "utterance" or None
        Whether to give the features mean 0 and variance 1 in every utterance (cepstral mean and variance
        normalization).
    n_em : the most iterations of expectation maximization, after segmental k-means
    variance_floor : the least variance of a Gaussian, relative to that of all frames
    device : str or None
        Where torch computes the scores of frames, such as "cuda"; ``None`` is NumPy.
    solver : "auto", the name of a solver, or a ``Solver``
        "auto" is ``NonconvexBundle`` with the search "single", which suits risks with kinks everywhere.
    gap_rel, max_steps, max_seconds, warm_start, verbose, random_state, callbacks : as in ``LinearClassifier``;
        ``warm_start`` needs a last fit of the same sizes

    Attributes
    ----------
    classes_ : array of labels
    parameters_, center_ : arrays of shape (layout_.n_params,)
        The solution and w0; ``layout_.unpack`` names their parts.
    mean_, scale_ : what the features were shifted and divided by
    objective_, gap_, certificate_, n_iter_, result_ : as in ``LinearClassifier``; the certificate is "local"

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> rise, fall = np.linspace(-1.0, 1.0, 8)[:, None], np.linspace(1.0, -1.0, 8)[:, None]
    >>> X = [shape + 0.3 * rng.standard_normal((8, 1)) for shape in (rise, fall) * 10]
    >>> model = HmmClassifier(n_states=2, n_mixtures=1).fit(X, ["rise", "fall"] * 10)
    >>> model.predict([rise, fall]), model.certificate_, model.predict_states([rise])[0]
    (array(['rise', 'fall'], dtype='<U4'), 'local', array([0, 0, 0, 0, 1, 1, 1, 1]))
    """

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None, offsets: Any = None) -> Self:
        """Fit the models; a weight of 2 equals duplicating the utterance."""
        utterances = self._utterances(X, offsets)
        labels = _labels(y, utterances.lengths.size)
        weight = normalized_weights(sample_weight, utterances.lengths.size)
        classes, codes = encoded(labels)
        _check_words(np.bincount(codes, weight), classes)
        frames, last = self._prepared(utterances, classes, weight)
        center = fit_words(frames.host, frames.lengths, codes, frames.layout, self._likelihood(), weight).w
        return self._minimize(WordRisk(frames, codes, weight, self.margin), center, last)

    def decision_function(self, X: Any, offsets: Any = None) -> FloatArray:
        """F of every utterance and class: log-probabilities of best paths per frame."""
        frames = self._known(X, offsets)
        return frames.word_scores(self.layout_.unpack(self.parameters_)) / frames.lengths[:, None]

    def predict(self, X: Any, offsets: Any = None) -> Array:
        """The class with the largest score, one per utterance."""
        codes = self.decision_function(X, offsets).argmax(axis=1)
        labels: Array = self.classes_[codes]
        return labels

    def predict_log_proba(self, X: Any, offsets: Any = None) -> FloatArray:
        """Log-probabilities of the classes, the best path of each standing for all of its paths."""
        frames = self._known(X, offsets)
        return np.asarray(log_softmax(frames.word_scores(self.layout_.unpack(self.parameters_)), axis=1))

    def predict_proba(self, X: Any, offsets: Any = None) -> FloatArray:
        """Probabilities of the classes, one row per utterance."""
        return np.exp(self.predict_log_proba(X, offsets))

    def predict_states(self, X: Any, offsets: Any = None) -> list[Array]:
        """The state of every frame on the best path of the predicted class, from 0 on."""
        frames, weights = self._known(X, offsets), self.layout_.unpack(self.parameters_)
        words = frames.word_scores(weights).argmax(axis=1)
        paths = aligned(frames, weights, words, np.arange(words.size + 1))
        return [path.states % self.layout_.n_states for path in paths]

    def score(self, X: Any, y: Any, sample_weight: Any = None, offsets: Any = None) -> float:
        """The share of utterances with the right class."""
        predicted = self.predict(X, offsets)
        labels = _labels(y, predicted.size)
        right = [label == truth for label, truth in zip(predicted.tolist(), labels, strict=True)]
        return float(np.average(right, weights=normalized_weights(sample_weight, predicted.size)))


def _labels(y: Any, n: int) -> list[Any]:
    """One label per utterance."""
    labels = y.tolist() if hasattr(y, "tolist") else list(y)
    if len(labels) != n:
        raise DataError(f"y must have one label per utterance; got {len(labels)} labels for {n} utterances")
    return list(labels)


def _check_words(weights: Array, classes: Array) -> None:
    """Refuse a class whose utterances all have weight zero."""
    if not weights.all():
        missing = classes.tolist()[int(np.argmin(weights))]
        raise DataError(f"every class must have an utterance of positive weight; {missing!r} has none: leave it out")
