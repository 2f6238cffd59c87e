"""``undercut train --task hmm`` and ``--task connected``, and what predict and evaluate do with their models.

Files are NumPy archives of recordings; see ``undercut.io.speech``.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from undercut.cli.reports.report import Row
from undercut.cli.tasks.samples import reading
from undercut.errors import DataError
from undercut.estimators import HmmClassifier, HmmRecognizer
from undercut.io.several import matching
from undercut.io.speech import ConnectedData, SpeechData, load_connected, load_speech
from undercut.measures.edit_distance import word_error_rate


def read_speech(file: Path, *, connected: bool, labelled: bool) -> SpeechData | ConnectedData:
    """The recordings of a file, with words where they must be ``labelled``; several to each where ``connected``."""
    if len(paths := matching(file)) > 1:
        raise DataError(f"one archive of speech can be read at a time; {file} stands for {len(paths)}")
    with reading(file):
        data = load_connected(paths[0]) if connected else load_speech(paths[0])
    if labelled and data.y is None:
        needed = "arrays 'words' and 'word_offsets' with the" if connected else "an array 'label' or 'digit' with a"
        each = "words of every utterance" if connected else "word for every recording"
        raise DataError(f"{file} must have {needed} {each}; it has none")
    return data


def speech_lines(model: HmmClassifier | HmmRecognizer, file: Path, wanted: str) -> str:
    """A line per recording: its words, or with ``wanted`` scores or probabilities of all words under a header."""
    data = read_speech(file, connected=isinstance(model, HmmRecognizer), labelled=False)
    if isinstance(model, HmmRecognizer):
        if wanted != "labels":
            raise DataError(f"--{wanted} is for models of single words (--task hmm); the model is an HmmRecognizer")
        return "".join(" ".join(map(str, words.tolist())) + "\n" for words in model.predict(data.X, data.offsets))
    if wanted == "labels":
        return "".join(f"{word}\n" for word in model.predict(data.X, data.offsets).tolist())
    method = model.predict_proba if wanted == "probabilities" else model.decision_function
    lines = "".join(" ".join(map(str, row)) + "\n" for row in method(data.X, data.offsets).tolist())
    return f"# labels {' '.join(map(str, model.classes_.tolist()))}\n{lines}"


def speech_rows(model: HmmClassifier | HmmRecognizer, file: Path) -> list[Row]:
    """How many words are right."""
    data = read_speech(file, connected=isinstance(model, HmmRecognizer), labelled=True)
    sizes = [Row("recordings", data.lengths.size), Row("frames", int(data.lengths.sum()))]
    if isinstance(model, HmmRecognizer):
        return [*sizes, *_connected_rows(model, data)]
    return [*sizes, *_word_rows(model, data)]


def _word_rows(model: HmmClassifier, data: SpeechData | ConnectedData) -> list[Row]:
    """Words that are right, and the log-loss of the probabilities."""
    truth = np.asarray(data.y)
    unknown = np.setdiff1d(truth, model.classes_)
    if unknown.size:
        raise DataError(f"the words must be among the model's, {model.classes_.tolist()}; got {unknown[0]!r}")
    log_probability = model.predict_log_proba(data.X, data.offsets)
    codes = np.searchsorted(model.classes_, truth)
    accuracy = float(np.mean(log_probability.argmax(axis=1) == codes))
    return [
        Row("accuracy", accuracy),
        Row("error", 1.0 - accuracy),
        Row("log-loss", float(-np.mean(log_probability[np.arange(codes.size), codes]))),
    ]


def _connected_rows(model: HmmRecognizer, data: SpeechData | ConnectedData) -> list[Row]:
    """Edit distances relative to the number of words; an unknown word counts as a wrong one."""
    truths = [list(words) for words in data.y or ()]
    known = set(model.classes_.tolist())
    if all(known.isdisjoint(words) for words in truths):
        raise DataError(
            f"some of the words must be among the model's, {model.classes_.tolist()}; got {truths[0][0]!r} and others"
        )
    predicted = [words.tolist() for words in model.predict(data.X, data.offsets)]
    right = [truth == found for truth, found in zip(truths, predicted, strict=True)]
    return [
        Row("words", sum(map(len, truths))),
        Row("word error", word_error_rate(truths, predicted)),
        Row("recordings without error", float(np.mean(right))),
    ]
