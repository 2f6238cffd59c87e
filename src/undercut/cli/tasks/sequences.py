"""``undercut train --task sequence``, and what predict and evaluate do with its models.

| file | sequences |
|---|---|
| ``letter.data`` | words, their letters as labels; ``--folds 0-7`` takes some |
| SVMlight with ``qid:`` | rows of one query id, in the order of the file |
| any other | CoNLL columns, the label in the last one; ``--template`` makes features of the others |
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from undercut.cli.options.table import ROWS
from undercut.cli.reports.report import Row, labels
from undercut.cli.tasks.samples import first_line, fitting, reading
from undercut.errors import DataError, ParameterError
from undercut.estimators import SequenceLabeler
from undercut.estimators.structured.neural import risk_at
from undercut.io.conll import ConllData, load_conll
from undercut.io.ocr import FIELDS, N_PIXELS, load_ocr
from undercut.io.svmlight import SvmlightData, load_svmlight
from undercut.maps.templates import TEMPLATES, TemplateFeatures
from undercut.measures.chunks import chunk_scores
from undercut.risks import ChainRisk, NetworkChainRisk
from undercut.types import Array

LETTERS, TEXT = "letter.data", "CoNLL files"


@dataclass(frozen=True)
class LabelledSequences:
    """What a file holds: X and y as ``SequenceLabeler`` takes them, with lengths where X is a matrix."""

    X: Any
    y: list[Any]
    lengths: Array
    kind: str  # of the file, as the table of options calls it

    @property
    def is_text(self) -> bool:
        """Whether X are columns of words, not a matrix."""
        return self.kind == TEXT

    @property
    def options(self) -> dict[str, Any]:
        """What else a labeler must know of X."""
        return {} if self.is_text else {"lengths": self.lengths}

    @property
    def targets(self) -> list[Any]:
        """y in the form that belongs to X."""
        return np.split(np.array(self.y, object), np.cumsum(self.lengths)[:-1]) if self.is_text else self.y


def read_sequences(
    file: Path, folds: str | None = None, n_features: int | None = None, *, labelled: bool = True
) -> LabelledSequences:
    """The sequences of a file, whatever its kind; the last column of one that need not be ``labelled`` is a column."""
    first = first_line(file)
    with reading(file):
        return _read(file, first, folds, n_features, labelled)


def _read(file: Path, first: str, folds: str | None, n_features: int | None, labelled: bool) -> LabelledSequences:
    if len(first.rstrip("\n").rstrip("\t").split("\t")) == len(FIELDS) + N_PIXELS:
        words = load_ocr(file)
        words = words if folds is None else words.take(np.isin(words.folds, _numbers(folds)))
        if not words.lengths.size:
            raise DataError(f"{file} has no word in the folds {folds}")
        return LabelledSequences(words.X, words.y.tolist(), words.lengths, LETTERS)
    if first.split()[1:2] and first.split()[1].startswith("qid:"):
        return _by_query(load_svmlight(file, n_features=n_features))
    data = load_conll(file)
    if labelled and len(data.columns) < 2:
        raise DataError(f"{file} must have a column of tokens and one of labels; it has one column")
    seen = ConllData(data.columns[:-1], data.lengths) if labelled else data
    return LabelledSequences(seen, data.columns[-1], data.lengths, TEXT)


def _by_query(data: SvmlightData) -> LabelledSequences:
    """Rows of one query are a sequence."""
    qid = np.asarray(data.qid)
    starts = np.flatnonzero(np.concatenate([[True], qid[1:] != qid[:-1]]))
    runs, counts = np.unique(qid[starts], return_counts=True)
    if counts.max() > 1:
        raise DataError(f"the rows of a sequence must stand together; those of qid:{runs[counts.argmax()]} do not")
    lengths = np.diff(np.append(starts, qid.size))
    return LabelledSequences(data.X, labels(data.y).tolist(), lengths, ROWS)


def _numbers(folds: str) -> list[int]:
    """``"0-7,9"`` as a list.

    >>> _numbers("0-2,9")
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
    if data.is_text != (model.features is not None):
        kinds = {True: "words, which are CoNLL columns", False: "numbers, which are SVMlight rows or letter.data"}
        raise DataError(f"the model labels {kinds[not data.is_text]}; {file} holds {kinds[data.is_text]}")
    if data.kind == ROWS:
        return replace(data, X=fitting(data.X, model.n_features_in_, file, strict=strict))
    return data


def labelled_lines(model: SequenceLabeler, data: LabelledSequences, *, scores: bool) -> str:
    """One line per token, an empty one between sequences: its label, or the probabilities of all of them."""
    if scores and not hasattr(model, "predict_marginals"):
        raise DataError("the scores of labels are probabilities, and only a model with --loss crf has them")
    predict = model.predict_marginals if scores else model.predict
    rows = predict(data.X, **data.options)
    rows = rows if data.is_text else np.split(rows, np.cumsum(data.lengths)[:-1])
    lines = "\n".join("".join(" ".join(map(str, np.atleast_1d(row))) + "\n" for row in part) for part in rows)
    return f"# labels {' '.join(map(str, model.classes_))}\n{lines}" if scores else lines


def sequence_rows(model: SequenceLabeler, data: LabelledSequences) -> list[Row]:
    """Tokens and sequences that are right, F1 of chunks where the labels are tags such as B-NP, and the risk."""
    predicted = model.predict(data.X, **data.options)
    flat = np.concatenate(predicted) if data.is_text else predicted
    right = np.array([label == truth for label, truth in zip(flat.tolist(), data.y, strict=True)])
    starts = np.cumsum(data.lengths) - data.lengths
    rows = [
        Row("sequences", data.lengths.size),
        Row("tokens", len(data.y)),
        Row("token accuracy", float(right.mean())),
        Row("token error", float(1.0 - right.mean())),
        Row("sequence accuracy", float(np.logical_and.reduceat(right, starts).mean())),
    ]
    if data.is_text and all(tag == "O" or tag[:2] in ("B-", "I-", "E-") for tag in {*data.y, *flat.tolist()}):
        overall = chunk_scores(data.y, flat.tolist(), data.lengths)[""]
        rows += [
            Row("chunk precision", overall.precision),
            Row("chunk recall", overall.recall),
            Row("chunk F1", overall.f1),
        ]
    if set(model.classes_.tolist()) >= set(data.y):
        risk = chain_risk(model, data)
        rows.append(Row("test risk", float(risk.value(risk.pack(model._weights())))))
    return rows


def chain_risk(model: SequenceLabeler, data: LabelledSequences) -> ChainRisk | NetworkChainRisk:
    """The mean loss of the labelings of other sequences; their labels must be among those of the model."""
    known = {label: code for code, label in enumerate(model.classes_.tolist())}
    unknown = set(data.y) - known.keys()
    if unknown:
        raise DataError(f"the labels must be among those of the training data; got {min(unknown)!r}")
    sequences = model._sequences(data.X, data.options.get("lengths"))
    return risk_at(model, sequences, np.array([known[label] for label in data.y]), model._loss())
