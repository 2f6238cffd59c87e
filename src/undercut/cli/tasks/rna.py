"""``undercut train --task rna``, and what predict and evaluate do with its models.

Files are tables with tabs, FASTA with dots and brackets, BPSEQ or CT; see ``undercut.io.rna``.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from undercut.cli.reports.report import Row
from undercut.cli.tasks.samples import reading
from undercut.errors import DataError
from undercut.estimators import RnaFolder
from undercut.io.dot_bracket import partners
from undercut.io.rna import RnaData, joined, load_rna
from undercut.io.several import matching
from undercut.measures.base_pairs import mean_pair_scores, pair_scores
from undercut.types import Array

SHOWN = 0.01  # rarer pairs are left out of a list of probabilities


def read_rna(file: Path, *, labelled: bool) -> RnaData:
    """The sequences of a file, or of all that a pattern stands for, with structures where they must be ``labelled``."""
    found = []
    for path in map(Path, matching(file)):
        with reading(path):
            found.append(load_rna(path))
        if labelled and found[-1].structures is None:
            raise DataError(f"{path} must have a structure for every sequence; it has sequences only")
    return joined(found)


def folded_lines(model: RnaFolder, data: RnaData, *, scores: bool) -> tuple[str, str]:
    """A header, and name, sequence and structure of each sequence; with ``scores`` likely pairs and probabilities."""
    if not scores:
        records = zip(data.names, data.sequences, model.predict(data), strict=True)
        return "", "".join(f">{name}\n{x}\n{structure}\n" for name, x, structure in records)
    lines = []
    for name, probability in zip(data.names, model.predict_pairs(data), strict=True):
        for i, j in np.argwhere(np.triu(probability) >= SHOWN):
            lines.append(f"{name} {i + 1} {j + 1} {probability[i, j]:.6f}\n")
    return "# name position position probability\n", "".join(lines)


class Folded(NamedTuple):
    """True and predicted partners of the letters of some sequences."""

    truth: list[Array]
    predicted: list[Array]


def folded(model: RnaFolder, data: RnaData) -> Folded:
    """What a model makes of sequences with known structures."""
    truth = [partners(structure, drop_pseudoknots=True) for structure in data.structures or []]
    return Folded(truth, [partners(structure) for structure in model.predict(data)])


def rna_rows(model: RnaFolder, data: RnaData) -> list[Row]:
    """Shares of pairs that are found and that are right: of all pairs together, and means of sequences."""
    return folding_rows([folded(model, data)])


def folding_rows(parts: Sequence[Folded]) -> list[Row]:
    """The same of several files."""
    Y, Y_hat = ([each for part in parts for each in part[at]] for at in (0, 1))
    pooled, mean = pair_scores(Y, Y_hat), mean_pair_scores(Y, Y_hat)
    return [
        Row("sequences", len(Y)),
        Row("letters", sum(map(len, Y))),
        Row("sensitivity", pooled.sensitivity),
        Row("positive predictive value", pooled.ppv),
        Row("F", pooled.f),
        Row("mean sensitivity", mean.sensitivity),
        Row("mean positive predictive value", mean.ppv),
        Row("mean F", mean.f),
    ]
