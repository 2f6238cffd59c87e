"""Archives of recordings, and utterances that are made of them."""

from __future__ import annotations

import numpy as np
import pytest

from undercut.errors import DataError, ParameterError
from undercut.io import joined, load_connected, load_speech

X = np.arange(12.0).reshape(6, 2).astype(np.float16)
GOOD = {"X": X, "offsets": [0, 2, 3, 6], "digit": [1, 0, 1], "speaker": [0, 0, 1], "index": [4, 5, 6]}


@pytest.fixture
def archive(tmp_path):
    def write(**arrays):
        np.savez(tmp_path / "speech.npz", **arrays)
        return tmp_path / "speech.npz"

    return write


def test_recordings_are_read_and_selected(archive):
    data = load_speech(archive(**GOOD))
    assert data.X.dtype == np.float64
    part = data.take(data.speaker == 0)
    assert part.lengths.tolist() == [2, 1]
    assert part.recording.tolist() == [4, 5]
    np.testing.assert_array_equal(data.take([2, 0]).X, np.concatenate([X[3:], X[:2]]))


def test_words_may_be_missing(archive):
    assert load_speech(archive(X=X, offsets=[0, 6])).y is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"offsets": [0, 2, 5]}, "offsets must go from 0 to the number of frames, 6; got 0 to 5"),
        ({"offsets": [0, 3, 3, 6]}, "offsets must increase; recording 1 goes from 3 to 3"),
        ({"offsets": [[0, 6]]}, "offsets must be a list of at least two integers"),
        ({"X": np.ones(6)}, "features must be a matrix of real numbers"),
        ({"X": np.array([["a"]] * 6)}, "features must be a matrix of real numbers"),
        ({"digit": [1, 0]}, "'label' must have one entry per recording, 3"),
    ],
)
def test_broken_archives_are_refused(change, message, archive):
    with pytest.raises(DataError, match=message):
        load_speech(archive(**GOOD | change))


def test_what_is_no_archive_is_refused(archive, tmp_path):
    with pytest.raises(DataError, match="must hold an array 'offsets'; it holds X"):
        load_speech(archive(X=X))
    (tmp_path / "text.npz").write_text("no archive")
    with pytest.raises(DataError, match=r"text\.npz: must be a NumPy archive"):
        load_speech(tmp_path / "text.npz")
    np.save(tmp_path / "one.npy", X)
    with pytest.raises(DataError, match="must be a NumPy archive"):
        load_speech(tmp_path / "one.npy")


def test_joined_recordings_are_of_one_speaker_and_follow_the_seed(archive):
    data = load_speech(archive(**GOOD))
    once, again, other = (joined(data, 20, words=(1, 3), seed=seed) for seed in (0, 0, 1))
    assert once.y == again.y
    assert once.y != other.y
    lengths = np.diff(once.offsets)
    assert lengths.sum() == len(once.X)
    for words, low, n in zip(once.y, once.offsets, lengths, strict=False):
        frames = once.X[low : low + n]
        from_first = np.isin(frames[:, 0], X[:3, 0])
        assert from_first.all() or not from_first.any()
        assert 1 <= len(words) <= 3


def test_recordings_of_nobody_are_not_joined(archive):
    data = load_speech(archive(X=X, offsets=[0, 6]))
    with pytest.raises(DataError, match="words and speakers are known"):
        joined(data, 2)
    with pytest.raises(ParameterError, match="`words` must be two numbers"):
        joined(load_speech(archive(**GOOD)), 2, words=(3, 1))


def test_utterances_of_several_words_come_back_from_their_archive(archive):
    data = joined(load_speech(archive(**GOOD)), 4, seed=3)
    again = load_connected(archive(**data.arrays))
    assert again.y == data.y
    np.testing.assert_array_equal(again.X, data.X)
    np.testing.assert_array_equal(again.lengths, data.lengths)
    assert load_connected(archive(X=X, offsets=[0, 6])).y is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"word_offsets": [0, 1, 3]}, "'word_offsets': offsets must go from 0 to the number of words, 4; got 0 to 3"),
        ({"word_offsets": [0, 0, 4]}, "'word_offsets': offsets must increase"),
        ({"word_offsets": [0, 4]}, "'word_offsets' must have one entry more than there are utterances, 3; got 2"),
        ({"words": [["a", "b"], ["c", "d"]]}, r"one list of the words of all utterances; got shape \(2, 2\)"),
        ({"offsets": [0, 7]}, "offsets must go from 0 to the number of frames, 6"),
    ],
)
def test_broken_archives_of_several_words_are_refused(change, message, archive):
    good = {"X": X, "offsets": [0, 2, 6], "words": ["a", "b", "c", "d"], "word_offsets": [0, 1, 4]}
    with pytest.raises(DataError, match=message):
        load_connected(archive(**good | change))


def test_words_without_their_offsets_are_refused(archive):
    with pytest.raises(DataError, match="must hold 'word_offsets' beside 'words'; it holds X, offsets, words"):
        load_connected(archive(X=X, offsets=[0, 6], words=["a"]))
