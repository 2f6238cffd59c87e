"""Maximum likelihood of word models from utterances of several words whose boundaries are not known."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from undercut.measures.edit_distance import word_error_rate
from undercut.risks.structured.hmm.frames import Frames
from undercut.risks.structured.hmm.layout import HmmLayout, HmmWeights
from undercut.risks.structured.hmm.paths import aligned, looped
from undercut.risks.structured.hmm.start import Likelihood, fit_words
from undercut.types import Array, FloatArray

ALIGNMENTS = 6  # rounds of alignment of connected words
PENALTIES = (0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0)  # per word and feature: what is tried


class ConnectedFit(NamedTuple):
    """What came of a start from utterances of several words."""

    w: FloatArray
    lengths: Array  # frames of each word of each utterance, on the best paths


def fit_connected(
    X: FloatArray,
    lengths: Array,
    words: Array,
    ends: Array,
    layout: HmmLayout,
    settings: Likelihood,
    weight: FloatArray | None = None,
) -> ConnectedFit:
    """The models of all words, from utterances of several words whose boundaries are not known.

    The utterances are first divided evenly among their words, then by the best paths of the models, in turn.
    Log-densities of many features outweigh the probability of a new word, so a penalty per word is chosen by the
    training word error.
    """
    frames, n_words = Frames(X, lengths, layout), np.diff(ends)
    parts = np.concatenate([np.diff(np.arange(k + 1) * n // k) for k, n in zip(n_words, lengths, strict=True)])
    of_word = None if weight is None else np.repeat(weight, n_words)
    quick = replace(settings, n_segmental=1, n_em=0)
    for _ in range(ALIGNMENTS):
        w = fit_words(X, parts, words, layout, quick, of_word).w
        last, parts = parts, word_lengths(frames, layout.unpack(w), words, ends)
        if np.array_equal(last, parts):
            break
    w = fit_words(X, parts, words, layout, settings, of_word).w
    layout.unpack(w).enter[:] -= word_penalty(frames, w, words, ends)
    return ConnectedFit(w, word_lengths(frames, layout.unpack(w), words, ends))


def word_lengths(frames: Frames, weights: HmmWeights, words: Array, ends: Array) -> Array:
    """How many frames each word of each utterance has on the best path through these words."""
    begins = np.concatenate([path.begins for path in aligned(frames, weights, words, ends)])
    return np.diff(np.append(np.flatnonzero(begins), begins.size))


def word_penalty(frames: Frames, w: FloatArray, words: Array, ends: Array) -> float:
    """What to take from the score of every word so that the fewest words of these utterances are wrong."""
    truths = [words[low:high].tolist() for low, high in pairwise(ends)]

    def error(penalty: float) -> float:
        weights = frames.layout.unpack(w.copy())
        weights.enter[:] -= penalty
        return word_error_rate(truths, [path.words(frames.layout).tolist() for path in looped(frames, weights)])

    return min((frames.layout.n_features * each for each in PENALTIES), key=error)
