"""Sequences and RNA in files that workers read: to train on, to predict and to evaluate."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from undercut.cli.options.given import Given
from undercut.cli.options.table import ROWS, named
from undercut.cli.reports.report import Row
from undercut.cli.standard import note
from undercut.cli.tasks.rna import Folded, folded, folded_lines, folding_rows
from undercut.cli.tasks.samples import as_wide_as, unseen_error, unseen_note
from undercut.cli.tasks.sequences import (
    Compared,
    check_kind,
    compared,
    comparison_rows,
    label_lines,
    numbers_of,
    templates,
)
from undercut.errors import DataError
from undercut.estimators import RnaFolder, SequenceLabeler, lam_from_C
from undercut.estimators.cluster.partitions import running_cluster
from undercut.estimators.cluster.sequences import PartitionedSequences, Share
from undercut.io.rna import RnaData, load_rna
from undercut.io.sequences.sequence_files import TEXT, kind_of
from undercut.io.several import matching
from undercut.maps.parts import Parts
from undercut.types import Array


def sequences_to_fit(model: SequenceLabeler, file: Path, given: Given) -> PartitionedSequences:
    """The files to fit a labeler to, which gets its templates and its lambda from the options."""
    if "hidden" in given:
        raise named("hidden").refusal("needs all sequences in this process", given["hidden"], "train without workers")
    kind = kind_of(matching(file)[0])
    given.check_file(kind)
    if kind == TEXT:
        model.features = templates(given["template"] or ["window"], given["columns"], given["min_count"])
    folds = None if given["folds"] is None else numbers_of(given["folds"])
    data = PartitionedSequences.of_files(file, folds=folds, n_features=given["n_features"])
    if "C" in given:
        model.lam = lam_from_C(given["C"], data.n_sequences)
    return data


def rna_to_fit(model: RnaFolder, file: Path, given: Given) -> tuple[Parts, int]:
    """The files to fit a folder to, which gets its lambda from ``--C``, and the number of sequences."""
    given.check_file("RNA files")
    parts = _rna(file, labelled=True)
    n_sequences = sum(parts.each(_count))
    if "C" in given:
        model.lam = lam_from_C(given["C"], n_sequences)
    return parts.made(_examples), n_sequences


def structure_lines(model: Any, file: Path, folds: str | None, *, scores: bool, strict: bool) -> Iterator[str] | None:
    """Predictions of a model of structures, one file after the other; ``None`` for another model."""
    if isinstance(model, SequenceLabeler):
        parts = _sequences_like(model, file, folds, strict=strict, labelled=False)
        return _between(parts.each(_label_lines, model, scores), "\n")
    if isinstance(model, RnaFolder):
        return _between(_rna(file, labelled=False).each(_structure_lines, model, scores), "")
    return None


def structure_rows(model: Any, file: Path, folds: str | None, *, strict: bool) -> list[Row] | None:
    """How well a model of structures predicts those of files; ``None`` for another model."""
    if isinstance(model, SequenceLabeler):
        return comparison_rows(_sequences_like(model, file, folds, strict=strict, labelled=True).each(_compared, model))
    if isinstance(model, RnaFolder):
        return folding_rows(_rna(file, labelled=True).each(_folded, model))
    return None


def _sequences_like(model: SequenceLabeler, file: Path, folds: str | None, *, strict: bool, labelled: bool) -> Parts:
    """The sequences of files with the features of a labeler."""
    kind = kind_of(matching(file)[0])
    check_kind(model, file, is_text=kind == TEXT)
    Given.read({"folds": folds}).check_file(kind)
    wanted = None if folds is None else numbers_of(folds)
    parts = PartitionedSequences.of_files(file, folds=wanted, labelled=labelled).parts
    if kind != ROWS:
        return parts
    n_features = model.n_features_in_
    new = np.unique(np.concatenate(parts.each(_unseen, n_features))).size
    if new and strict:
        raise unseen_error(file, new, n_features)
    if new:
        note(unseen_note(file, new, n_features))
    return parts.made(_fitting, n_features)


def _between(texts: list[tuple[str, str]], between: str) -> Iterator[str]:
    """The header of the first text, and all texts."""
    yield texts[0][0]
    for at, (_, text) in enumerate(texts):
        yield between * (at > 0) + text


def _rna(file: Path, *, labelled: bool) -> Parts:
    paths = [os.path.abspath(path) for path in matching(file)]
    parts = running_cluster().load(load_rna, paths)
    for path, has_structures in zip(paths, parts.each(_has_structures), strict=True):
        if labelled and not has_structures:
            raise DataError(f"{path} must have a structure for every sequence; it has sequences only")
    return parts


# --- What a file is asked, where it is ------------------------------------------------------------------------------


def _unseen(share: Share, n_features: int) -> Array:
    indices = share.sequences.X.indices
    return np.unique(indices[indices >= n_features])


def _fitting(share: Share, n_features: int) -> Share:
    return replace(share, sequences=replace(share.sequences, X=as_wide_as(share.sequences.X, n_features)))


def _label_lines(share: Share, model: SequenceLabeler, scores: bool) -> tuple[str, str]:
    return label_lines(model, share.sequences, scores=scores)


def _compared(share: Share, model: SequenceLabeler) -> Compared:
    return compared(model, share.sequences)


def _has_structures(data: RnaData) -> bool:
    return data.structures is not None


def _count(data: RnaData) -> int:
    return len(data.sequences)


def _examples(data: RnaData) -> dict[str, Any]:
    return {"X": data.sequences, "Y": data.structures}


def _structure_lines(data: RnaData, model: RnaFolder, scores: bool) -> tuple[str, str]:
    return folded_lines(model, data, scores=scores)


def _folded(data: RnaData, model: RnaFolder) -> Folded:
    return folded(model, data)
