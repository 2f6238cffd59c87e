"""Recordings of words as features of frames: NumPy archives such as ``fsdd_mfcc39.npz``.

| array | shape | what |
|---|---|---|
| ``X`` | (frames, features) | features of all frames, one recording after the other |
| ``offsets`` | (recordings + 1,) | recording i has the rows ``offsets[i] ... offsets[i + 1] - 1`` |
| ``digit`` or ``label`` | (recordings,) | the word that was said; may be missing in a file to predict |
| ``speaker`` | (recordings,) | who said it; may be missing |
| ``index`` | (recordings,) | which of the speaker's recordings of the word it is; may be missing |

Utterances of several words have two arrays in place of a label, which a file to predict may leave out:

| array | shape | what |
|---|---|---|
| ``words`` | (words,) | the words of all utterances, one utterance after the other |
| ``word_offsets`` | (recordings + 1,) | utterance i has the words ``word_offsets[i] ... word_offsets[i + 1] - 1`` |
"""

from __future__ import annotations

import os
import zipfile
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from undercut.errors import DataError, require
from undercut.types import Array, FilePath, FloatArray

LABELS = ("label", "digit")
LARGEST = 1e100  # beyond it squares of features would overflow


class SpeechData(NamedTuple):
    """Recordings, one after the other."""

    X: FloatArray  # (frames, features)
    lengths: NDArray[np.int64]  # frames of each recording
    y: Array | None  # the words
    speaker: Array | None
    recording: Array | None

    @property
    def offsets(self) -> NDArray[np.int64]:
        """Where the recordings begin, and the end of the last."""
        return np.concatenate([[0], np.cumsum(self.lengths)])

    def take(self, rows: Array) -> SpeechData:
        """Some of the recordings, by a mask or by their numbers."""
        rows = np.flatnonzero(rows) if np.asarray(rows).dtype == bool else np.asarray(rows)
        starts = self.offsets
        frames = [np.arange(starts[i], starts[i + 1]) for i in rows]
        facts = (None if fact is None else fact[rows] for fact in self[2:])
        return SpeechData(self.X[np.concatenate(frames)], self.lengths[rows], *facts)


def load_speech(path: FilePath) -> SpeechData:
    """Read an archive; ``DataError`` names the array that breaks a rule.

    >>> import io
    >>> file = io.BytesIO()
    >>> np.savez(file, X=np.ones((3, 2), np.float16), offsets=[0, 2, 3], digit=[7, 1])
    >>> _ = file.seek(0)
    >>> data = load_speech(file)
    >>> data.X.dtype, data.lengths, data.y
    (dtype('float64'), array([2, 1]), array([7, 1]))
    """
    name, arrays = _archive(path)
    X = features(arrays["X"], name)
    lengths = lengths_of(arrays["offsets"], X.shape[0], name)
    label = next((arrays[key] for key in LABELS if key in arrays), None)
    facts = {"label": label, "speaker": arrays.get("speaker"), "index": arrays.get("index")}
    for key, fact in facts.items():
        if fact is not None and fact.shape != lengths.shape:
            raise DataError(f"{name}: {key!r} must have one entry per recording, {lengths.size}; got {fact.shape}")
    return SpeechData(X, lengths, *facts.values())


def _archive(path: FilePath) -> tuple[str, dict[str, Array]]:
    """The name of an archive in messages, and its arrays, ``X`` and ``offsets`` among them."""
    name = os.fsdecode(path) if isinstance(path, str | os.PathLike) else "archive"
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {key: archive[key] for key in archive.files}
    except (ValueError, TypeError, zipfile.BadZipFile, EOFError) as error:
        raise DataError(f"{name}: must be a NumPy archive (.npz) of plain arrays; got {error}") from error
    for key in ("X", "offsets"):
        if key not in arrays:
            raise DataError(f"{name}: must hold an array {key!r}; it holds {', '.join(arrays) or 'none'}")
    return name, arrays


def features(X: Any, name: str = "X") -> FloatArray:
    """A matrix of features in double precision, in which squares of narrow types do not overflow."""
    X = np.asarray(X)
    if X.ndim != 2 or X.dtype.kind not in "fiub":
        raise DataError(f"{name}: features must be a matrix of real numbers; got shape {X.shape} of {X.dtype}")
    return np.asarray(X, dtype=np.float64)


def lengths_of(offsets: Any, n_rows: int, name: str = "X", rows: str = "frames") -> NDArray[np.int64]:
    """How many frames each recording has; ``DataError`` where offsets do not cover all of them in order.

    >>> lengths_of([0, 2, 5], 5)
    array([2, 3])
    """
    edges = np.asarray(offsets)
    if edges.ndim != 1 or edges.size < 2 or edges.dtype.kind not in "iu":
        raise DataError(
            f"{name}: offsets must be a list of at least two integers; got shape {edges.shape} of {edges.dtype}"
        )
    edges = edges.astype(np.int64)
    if edges[0] != 0 or edges[-1] != n_rows:
        raise DataError(
            f"{name}: offsets must go from 0 to the number of {rows}, {n_rows}; got {edges[0]} to {edges[-1]}"
        )
    lengths = np.diff(edges)
    if (lengths < 1).any():
        at = int(np.argmax(lengths < 1))
        raise DataError(f"{name}: offsets must increase; recording {at} goes from {edges[at]} to {edges[at + 1]}")
    return lengths


class ConnectedData(NamedTuple):
    """Utterances of several words, one after the other."""

    X: FloatArray  # (frames, features)
    offsets: NDArray[np.int64]
    y: list[list[Any]] | None  # the words of each utterance

    @property
    def lengths(self) -> NDArray[np.int64]:
        """How many frames each utterance has."""
        return np.diff(self.offsets)

    @property
    def arrays(self) -> dict[str, Array]:
        """The arrays of its archive: ``np.savez(path, **data.arrays)`` writes it."""
        if self.y is None:
            return {"X": self.X, "offsets": self.offsets}
        ends = np.concatenate([[0], np.cumsum([len(words) for words in self.y])])
        words = np.array([word for words in self.y for word in words])
        return {"X": self.X, "offsets": self.offsets, "words": words, "word_offsets": ends}


def load_connected(path: FilePath) -> ConnectedData:
    """Read an archive of utterances of several words; ``DataError`` names the array that breaks a rule.

    >>> import io
    >>> file = io.BytesIO()
    >>> np.savez(file, **ConnectedData(np.ones((5, 2)), np.array([0, 3, 5]), [["one", "two"], ["six"]]).arrays)
    >>> _ = file.seek(0)
    >>> load_connected(file).y
    [['one', 'two'], ['six']]
    """
    name, arrays = _archive(path)
    X = features(arrays["X"], name)
    offsets = np.concatenate([[0], np.cumsum(lengths_of(arrays["offsets"], X.shape[0], name))])
    if "words" not in arrays:
        return ConnectedData(X, offsets, None)
    if "word_offsets" not in arrays:
        raise DataError(f"{name}: must hold 'word_offsets' beside 'words'; it holds {', '.join(arrays)}")
    words = arrays["words"]
    if words.ndim != 1:
        raise DataError(f"{name}: 'words' must be one list of the words of all utterances; got shape {words.shape}")
    counts = lengths_of(arrays["word_offsets"], words.size, f"{name}: 'word_offsets'", "words")
    if counts.size != offsets.size - 1:
        raise DataError(
            f"{name}: 'word_offsets' must have one entry more than there are utterances, {offsets.size}; "
            f"got {counts.size + 1}"
        )
    return ConnectedData(X, offsets, [part.tolist() for part in np.split(words, np.cumsum(counts)[:-1])])


def joined(data: SpeechData, n_utterances: int, *, words: tuple[int, int] = (3, 7), seed: int = 0) -> ConnectedData:
    """Utterances of several words, each made of recordings of one speaker, drawn at random.

    ``words`` are the least and the largest number of words of an utterance.

    >>> data = SpeechData(np.ones((4, 1)), np.array([1, 3]), np.array([7, 1]), np.array([0, 0]), None)
    >>> joined(data, 2, words=(2, 3), seed=1).y
    [[1, 1], [7, 7, 1]]
    """
    least, most = words
    require(1 <= least <= most, "`words` must be two numbers of words, the smaller one first, from 1 on", words)
    require(n_utterances >= 1, "`n_utterances` must be at least 1", n_utterances)
    if data.y is None or data.speaker is None:
        raise DataError("recordings can only be joined where their words and speakers are known; got none")
    rng = np.random.default_rng(seed)
    speakers = np.unique(data.speaker)
    drawn = []
    for _ in range(n_utterances):
        own = np.flatnonzero(data.speaker == rng.choice(speakers))
        drawn.append(rng.choice(own, rng.integers(least, most + 1)))
    parts = data.take(np.concatenate(drawn))
    lengths = np.array([int(data.lengths[rows].sum()) for rows in drawn])
    return ConnectedData(parts.X, np.concatenate([[0], np.cumsum(lengths)]), [data.y[rows].tolist() for rows in drawn])
