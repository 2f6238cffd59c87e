"""Spoken digits for ``table7.py``: recordings, splits by fold and by speaker, and the maximum likelihood start."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np

from common import data_file
from undercut import L2
from undercut.io import SpeechData, load_speech
from undercut.maps.cepstra import normalized
from undercut.risks.structured.hmm.frames import Frames
from undercut.risks.structured.hmm.layout import HmmLayout
from undercut.risks.structured.hmm.start import Likelihood, fit_words

FILE = Path("speech", "fsdd_mfcc39.npz")
N_STATES, N_MIXTURES, ONES = 5, 2, (1.0, 1.0, 1.0)


@dataclass(frozen=True)
class Digits:
    """Training and test utterances in units of the training data, and the maximum likelihood start."""

    train: Frames
    y: np.ndarray
    test: Frames
    y_test: np.ndarray
    w0: np.ndarray = field(repr=False)
    seconds: float = 0.0  # of the start

    def wrong(self, w: np.ndarray) -> np.ndarray:
        """Whether each test utterance is taken for another digit."""
        scores = self.test.word_scores(self.test.layout.unpack(w))
        return np.asarray(scores.argmax(axis=1) != self.y_test)

    def error(self, w: np.ndarray) -> float:
        return float(np.mean(self.wrong(w)))

    def reg(self, lam: float, theta: tuple[float, float, float] = ONES) -> L2:
        return L2(lam, center=self.w0, weights=self.train.layout.penalty_weights(theta))


@cache
def recordings(kind: str) -> SpeechData:
    """All recordings, with features as they are, or normalized by utterance or by speaker."""
    data = load_speech(data_file(FILE))
    if kind == "none":
        return data
    groups = data.speaker if kind == "speaker" else None
    return data._replace(X=normalized(data.X, data.lengths, groups))


def units(train: np.ndarray, test: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    mean, scale = train.mean(axis=0), train.std(axis=0)
    return (train - mean) / scale, (test - mean) / scale


@cache
def digits(kind: str, split: Callable[[SpeechData], tuple[np.ndarray, np.ndarray]]) -> Digits:
    """Isolated digits; ``split`` gives the masks of training and test recordings."""
    data = recordings(kind)
    train, test = (data.take(mask) for mask in split(data))
    X, X_test = units(train.X, test.X)
    layout = HmmLayout(10, N_STATES, N_MIXTURES, X.shape[1])
    y = train.y.astype(np.int64)
    began = time.perf_counter()
    w0 = fit_words(X, train.lengths, y, layout, Likelihood()).w
    seconds = time.perf_counter() - began
    return Digits(Frames(X, train.lengths, layout), y, Frames(X_test, test.lengths, layout), test.y, w0, seconds)


@dataclass(frozen=True)
class Fold:
    number: int

    def __call__(self, data: SpeechData) -> tuple[np.ndarray, np.ndarray]:
        test = data.recording % 5 == self.number
        return ~test, test


@dataclass(frozen=True)
class Speaker:
    """One speaker tests; those in ``without`` are in neither part."""

    number: int
    without: tuple[int, ...] = ()

    def __call__(self, data: SpeechData) -> tuple[np.ndarray, np.ndarray]:
        test = data.speaker == self.number
        return ~test & ~np.isin(data.speaker, self.without), test
