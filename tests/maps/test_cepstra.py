"""Normalization and slopes of cepstra, and errors of words."""

from __future__ import annotations

import numpy as np
import pytest

from undercut.errors import DataError
from undercut.maps.cepstra import normalized, with_deltas
from undercut.measures.edit_distance import edit_distance, word_error_rate

RNG = np.random.default_rng(0)
LENGTHS = np.array([4, 7, 5])
X = RNG.standard_normal((16, 3)) * [1.0, 10.0, 0.1] + [0.0, 5.0, 1e3]


def test_every_utterance_has_mean_0_and_variance_1():
    for part in np.split(normalized(X, LENGTHS), np.cumsum(LENGTHS)[:-1]):
        np.testing.assert_allclose(part.mean(axis=0), 0.0, atol=1e-9)
        np.testing.assert_allclose(part.var(axis=0), 1.0)


def test_groups_are_normalized_together():
    Z = normalized(X, LENGTHS, ["a", "b", "a"])
    both = np.concatenate([Z[:4], Z[11:]])
    np.testing.assert_allclose(both.var(axis=0), 1.0)
    with pytest.raises(DataError, match="one entry per utterance, 3"):
        normalized(X, LENGTHS, ["a"])


def test_constant_features_become_zero():
    assert not normalized(np.full((16, 1), 0.1), LENGTHS).any()


def test_slopes_do_not_look_beyond_an_utterance():
    whole = with_deltas(X, LENGTHS)
    assert whole.shape == (16, 9)
    np.testing.assert_allclose(with_deltas(X[4:11], np.array([7])), whole[4:11])


@pytest.mark.parametrize(
    ("truth", "predicted", "distance"),
    [("", "", 0), ("abc", "", 3), ("", "ab", 2), ("kitten", "sitting", 3), ("abab", "baba", 2)],
)
def test_edit_distances_are_those_of_known_words(truth, predicted, distance):
    assert edit_distance(truth, predicted) == edit_distance(predicted, truth) == distance


def test_word_errors_need_words():
    assert word_error_rate(["ab"], ["abcd"]) == 1.0
    with pytest.raises(DataError, match="at least one word"):
        word_error_rate([""], ["a"])
    with pytest.raises(DataError, match="one prediction per truth"):
        word_error_rate(["a"], [])
