"""``undercut train --task sequence``, and what predict and evaluate do with its models.

| file | sequences |
|---|---|
| ``letter.data`` | words, their letters as labels; ``--folds 0-7`` takes some |
| SVMlight with ``qid:`` | rows of one query id, in the order of the file |
| any other | CoNLL columns, the label in the last one; ``--template`` makes features of the others |
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from undercut.cli.options.table import ROWS
from undercut.cli.reports.report import Row
from undercut.cli.tasks.samples import fitting, reading
from undercut.errors import DataError, ParameterError
from undercut.estimators import SequenceLabeler
from undercut.estimators.structured.neural import risk_at
from undercut.io.sequences.sequence_files import LabelledSequences, joined, load_sequences
from undercut.io.several import matching
from undercut.maps.templates import TEMPLATES, TemplateFeatures
from undercut.measures.chunks import chunk_scores
from undercut.risks import ChainRisk, NetworkChainRisk
from undercut.types import Array


def read_sequences(
    file: Path, folds: str | None = None, n_features: int | None = None, *, labelled: bool = True
) -> LabelledSequences:
    """The sequences of a file, or of all that a pattern stands for, whatever its kind."""
    wanted = None if folds is None else numbers_of(folds)
    parts = []
    for path in map(Path, matching(file)):
        with reading(path):
            parts.append(load_sequences(path, folds=wanted, labelled=labelled))
    return joined(parts, n_features)


def numbers_of(folds: str) -> list[int]:
    """``"0-7,9"`` as a list.

    >>> numbers_of("0-2,9")
    [0, 1, 2, 9]
    """
    try:
        ends = [part.split("-") for part in folds.split(",")]
        return [fold for part in ends for fold in range(int(part[0]), int(part[-1]) + 1)]
    except ValueError:
        raise ParameterError(f"--folds must be numbers and ranges such as 0-7,9; got {folds!r}") from None


def templates(given: list[str], columns: str | None, min_count: int) -> TemplateFeatures:
    """The templates of ``--template``: their names or themselves, or files with one per line."""
    each: list[str] = []
    for text in given:
        if text not in TEMPLATES and os.path.isfile(text):
            lines = Path(text).read_text(encoding="utf-8").splitlines()
            each += [line.strip() for line in lines if line.strip() and not line.startswith("#")]
        else:
            each.append(text)
    names = {} if columns is None else {"columns": tuple(columns.split(","))}
    return TemplateFeatures(each, min_count=min_count, **names)


def fitted_sequences(
    model: SequenceLabeler, file: Path, folds: str | None, *, labelled: bool, strict: bool = False
) -> LabelledSequences:
    """The sequences of a file in the form that a model takes."""
    data = read_sequences(file, folds, labelled=labelled)
    check_kind(model, file, is_text=data.is_text)
    if data.kind == ROWS:
        return replace(data, X=fitting(data.X, model.n_features_in_, file, strict=strict))
    return data


def check_kind(model: SequenceLabeler, file: Path, *, is_text: bool) -> None:
    """Refuse words for a model of numbers, and numbers for a model of words."""
    if is_text != (model.features is not None):
        kinds = {True: "words, which are CoNLL columns", False: "numbers, which are SVMlight rows or letter.data"}
        raise DataError(f"the model labels {kinds[not is_text]}; {file} holds {kinds[is_text]}")


def label_lines(model: SequenceLabeler, data: LabelledSequences, *, scores: bool) -> tuple[str, str]:
    """A header, and a line per token, an empty one between sequences: its label, or probabilities of all labels."""
    if scores and not hasattr(model, "predict_marginals"):
        raise DataError("the scores of labels are probabilities, and only a model with --loss crf has them")
    predict = model.predict_marginals if scores else model.predict
    rows = predict(data.X, **data.options)
    rows = rows if data.is_text else np.split(rows, np.cumsum(data.lengths)[:-1])
    lines = "\n".join("".join(" ".join(map(str, np.atleast_1d(row))) + "\n" for row in part) for part in rows)
    return f"# labels {' '.join(map(str, model.classes_))}\n" if scores else "", lines


class Compared(NamedTuple):
    """Labels that a model gives, and the true ones."""

    predicted: list[Any]
    truth: list[Any]
    lengths: Array
    is_text: bool
    risk: float | None  # where all true labels are the model's


def compared(model: SequenceLabeler, data: LabelledSequences) -> Compared:
    """What a model makes of labelled sequences."""
    labels = model.predict(data.X, **data.options)
    flat = np.concatenate(labels) if data.is_text else labels
    loss = None
    if set(model.classes_.tolist()) >= set(data.y):
        risk = chain_risk(model, data)
        loss = float(risk.value(risk.pack(model._weights())))
    return Compared(flat.tolist(), data.y, data.lengths, data.is_text, loss)


def sequence_rows(model: SequenceLabeler, data: LabelledSequences) -> list[Row]:
    """Tokens and sequences that are right, F1 of chunks where the labels are tags such as B-NP, and the risk."""
    return comparison_rows([compared(model, data)])


def comparison_rows(parts: Sequence[Compared]) -> list[Row]:
    """The same of several files."""
    predicted = [label for part in parts for label in part.predicted]
    truth = [label for part in parts for label in part.truth]
    lengths = np.concatenate([part.lengths for part in parts])
    right = np.array([label == true for label, true in zip(predicted, truth, strict=True)])
    starts = np.cumsum(lengths) - lengths
    rows = [
        Row("sequences", lengths.size),
        Row("tokens", len(truth)),
        Row("token accuracy", float(right.mean())),
        Row("token error", float(1.0 - right.mean())),
        Row("sequence accuracy", float(np.logical_and.reduceat(right, starts).mean())),
    ]
    if parts[0].is_text and all(tag == "O" or tag[:2] in ("B-", "I-", "E-") for tag in {*truth, *predicted}):
        overall = chunk_scores(truth, predicted, lengths)[""]
        rows += [
            Row("chunk precision", overall.precision),
            Row("chunk recall", overall.recall),
            Row("chunk F1", overall.f1),
        ]
    losses = [part.risk for part in parts if part.risk is not None]
    if len(losses) == len(parts):
        rows.append(Row("test risk", float(np.average(losses, weights=[part.lengths.size for part in parts]))))
    return rows


def chain_risk(model: SequenceLabeler, data: LabelledSequences) -> ChainRisk | NetworkChainRisk:
    """The mean loss of the labelings of other sequences; their labels must be among those of the model."""
    known = {label: code for code, label in enumerate(model.classes_.tolist())}
    unknown = set(data.y) - known.keys()
    if unknown:
        raise DataError(f"the labels must be among those of the training data; got {min(unknown)!r}")
    sequences = model._sequences(data.X, data.options.get("lengths"))
    return risk_at(model, sequences, np.array([known[label] for label in data.y]), model._loss())
