"""A recognizer of utterances of several words, with a certificate."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import _fit_context

from undercut.errors import DataError
from undercut.estimators.labels import encoded
from undercut.estimators.structured.hmm_model import HmmModel, Utterances
from undercut.measures.edit_distance import word_error_rate
from undercut.risks.checks import normalized_weights
from undercut.risks.structured.hmm.connected import fit_connected
from undercut.risks.structured.hmm.paths import Path, looped
from undercut.risks.structured.hmm.risk import ConnectedRisk
from undercut.types import Array


class HmmRecognizer(HmmModel):
    """Connected words: hidden Markov models of words in a loop, trained with a margin between sequences of words.

        min_w lam/2 |theta (w - w0)|^2 + sum_i weight_i max_p (F(x_i, p) + margin Delta_i(p) - F(x_i, y_i))

    p are the paths through any words, one after the other; F is the log-probability of a path per frame, that of y_i
    the best one through the words of y_i; Delta is the share of frames in a wrong word.  Where the words begin is not
    given: the maximum likelihood solution w0 finds it, from utterances divided evenly among their words,
    and takes a penalty off every word that makes the fewest training words wrong.

    X is as in ``HmmClassifier``, and y a list of words for each utterance.

    Parameters
    ----------
    n_states, n_mixtures, lam, covariance, theta, margin, normalize, n_em, variance_floor, device, solver, gap_rel,
    max_steps, max_seconds, warm_start, verbose, random_state, callbacks : as in ``HmmClassifier``

    Attributes
    ----------
    classes_ : array of words
    parameters_, center_, layout_, mean_, scale_ : as in ``HmmClassifier``
    objective_, gap_, certificate_, n_iter_, result_ : as in ``HmmClassifier``

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> shapes = {"rise": np.linspace(-1.0, 1.0, 8), "fall": np.linspace(1.0, -1.0, 8), "flat": np.full(8, 3.0)}
    >>> y = [[str(word) for word in rng.choice(list(shapes), 3)] for _ in range(30)]
    >>> said = [np.concatenate([shapes[word] for word in words])[:, None] for words in y]
    >>> X = [curve + 0.2 * rng.standard_normal(curve.shape) for curve in said]
    >>> model = HmmRecognizer(n_states=2, n_mixtures=1).fit(X, y)
    >>> model.score(X, y) > 0.9, model.predict(X[:1])[0].tolist() == y[0]
    (True, True)
    """

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None, offsets: Any = None) -> Self:
        """Fit the models; a weight of 2 equals duplicating the utterance."""
        utterances = self._utterances(X, offsets)
        sentences = _sentences(y, utterances.lengths.size)
        weight = normalized_weights(sample_weight, utterances.lengths.size)
        classes, words = encoded([word for words in sentences for word in words])
        ends = np.concatenate([[0], np.cumsum([len(words) for words in sentences])])
        self._check_lengths(utterances, np.diff(ends))
        frames, last = self._prepared(utterances, classes, weight)
        start = fit_connected(frames.host, frames.lengths, words, ends, frames.layout, self._likelihood(), weight)
        labels = np.repeat(words, start.lengths)
        return self._minimize(ConnectedRisk(frames, labels, words, ends, weight, self.margin), start.w, last)

    def _check_lengths(self, utterances: Utterances, n_words: Array) -> None:
        short = utterances.lengths < self.n_states * n_words
        if short.any():
            at = int(np.argmax(short))
            raise DataError(
                f"an utterance must have at least one frame per state of its words, {self.n_states} x {n_words[at]}; "
                f"utterance {at} has {utterances.lengths[at]}: use fewer states, or leave it out"
            )

    def predict(self, X: Any, offsets: Any = None) -> list[Array]:
        """The words of the path with the highest score, an array for each utterance."""
        paths = self._paths(X, offsets)
        return [self.classes_[path.words(self.layout_)] for path in paths]

    def predict_states(self, X: Any, offsets: Any = None) -> list[Array]:
        """The state of every frame in its word, from 0 on."""
        paths = self._paths(X, offsets)
        return [path.states % self.layout_.n_states for path in paths]

    def _paths(self, X: Any, offsets: Any) -> list[Path]:
        frames = self._known(X, offsets)
        return looped(frames, self.layout_.unpack(self.parameters_))

    def score(self, X: Any, y: Any, offsets: Any = None) -> float:
        """1 minus the word error rate: edit distances, divided by the number of true words; may be negative."""
        predicted = [words.tolist() for words in self.predict(X, offsets)]
        return 1.0 - word_error_rate(_sentences(y, len(predicted)), predicted)


def _sentences(y: Any, n: int) -> list[list[Any]]:
    """A list of words for each utterance."""
    sentences = []
    for i, words in enumerate(y):
        if isinstance(words, str) or not hasattr(words, "__iter__"):
            raise DataError(f"y must have a list of words for each utterance; utterance {i} has {words!r}")
        sentences.append(words.tolist() if hasattr(words, "tolist") else list(words))
        if not sentences[-1]:
            raise DataError(f"an utterance must have at least one word; utterance {i} has none: leave it out")
    if len(sentences) != n:
        raise DataError(f"y must have one list of words per utterance; got {len(sentences)} for {n} utterances")
    return sentences
