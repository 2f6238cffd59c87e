"""``undercut train --task hmm``, and what predict and evaluate do with its models.

Files are NumPy archives of recordings; see ``undercut.io.speech``.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from undercut.cli.reports.report import Row
from undercut.cli.tasks.samples import reading
from undercut.errors import DataError
from undercut.estimators import HmmClassifier
from undercut.io.several import matching
from undercut.io.speech import SpeechData, load_speech


def read_speech(file: Path, *, labelled: bool) -> SpeechData:
    """The recordings of a file, with words where they must be ``labelled``."""
    if len(paths := matching(file)) > 1:
        raise DataError(f"one archive of speech can be read at a time; {file} stands for {len(paths)}")
    with reading(file):
        data = load_speech(paths[0])
    if labelled and data.y is None:
        raise DataError(f"{file} must have an array 'label' or 'digit' with a word for every recording; it has none")
    return data


def word_lines(model: HmmClassifier, data: SpeechData, wanted: str) -> str:
    """The word of each recording; or scores per frame or probabilities of all words, with a header that names them."""
    if wanted == "labels":
        return "".join(f"{word}\n" for word in model.predict(data.X, data.offsets).tolist())
    method = model.predict_proba if wanted == "probabilities" else model.decision_function
    lines = "".join(" ".join(map(str, row)) + "\n" for row in method(data.X, data.offsets).tolist())
    return f"# labels {' '.join(map(str, model.classes_.tolist()))}\n{lines}"


def speech_rows(model: HmmClassifier, data: SpeechData) -> list[Row]:
    """Words that are right, and the log-loss of the probabilities."""
    truth = np.asarray(data.y)
    unknown = np.setdiff1d(truth, model.classes_)
    if unknown.size:
        raise DataError(f"the words must be among the model's, {model.classes_.tolist()}; got {unknown[0]!r}")
    log_probability = model.predict_log_proba(data.X, data.offsets)
    codes = np.searchsorted(model.classes_, truth)
    accuracy = float(np.mean(log_probability.argmax(axis=1) == codes))
    return [
        Row("recordings", data.lengths.size),
        Row("frames", int(data.lengths.sum())),
        Row("accuracy", accuracy),
        Row("error", 1.0 - accuracy),
        Row("log-loss", float(-np.mean(log_probability[np.arange(codes.size), codes]))),
    ]
