"""``undercut train --task rna``, and what predict and evaluate do with its models.

Files are tables with tabs, FASTA with dots and brackets, BPSEQ or CT; see ``undercut.io.rna``.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from undercut.cli.reports.report import Row
from undercut.cli.tasks.samples import reading
from undercut.errors import DataError
from undercut.estimators import RnaFolder
from undercut.io.dot_bracket import partners
from undercut.io.rna import RnaData, load_rna
from undercut.measures.base_pairs import mean_pair_scores, pair_scores

SHOWN = 0.01  # rarer pairs are left out of a list of probabilities


def read_rna(file: Path, *, labelled: bool) -> RnaData:
    """The sequences of a file, with structures where they must be ``labelled``."""
    with reading(file):
        data = load_rna(file)
    if labelled and data.structures is None:
        raise DataError(f"{file} must have a structure for every sequence; it has sequences only")
    return data


def folded_lines(model: RnaFolder, data: RnaData, *, scores: bool) -> str:
    """Name, sequence and structure of each sequence; with ``scores`` its likely pairs, with their probabilities."""
    if not scores:
        records = zip(data.names, data.sequences, model.predict(data), strict=True)
        return "".join(f">{name}\n{x}\n{structure}\n" for name, x, structure in records)
    lines = ["# name position position probability\n"]
    for name, probability in zip(data.names, model.predict_pairs(data), strict=True):
        for i, j in np.argwhere(np.triu(probability) >= SHOWN):
            lines.append(f"{name} {i + 1} {j + 1} {probability[i, j]:.6f}\n")
    return "".join(lines)


def rna_rows(model: RnaFolder, data: RnaData) -> list[Row]:
    """Shares of pairs that are found and that are right: of all pairs together, and means of sequences."""
    Y = [partners(structure, drop_pseudoknots=True) for structure in data.structures or []]
    Y_hat = [partners(structure) for structure in model.predict(data)]
    pooled, mean = pair_scores(Y, Y_hat), mean_pair_scores(Y, Y_hat)
    return [
        Row("sequences", len(Y)),
        Row("letters", sum(map(len, data.sequences))),
        Row("sensitivity", pooled.sensitivity),
        Row("positive predictive value", pooled.ppv),
        Row("F", pooled.f),
        Row("mean sensitivity", mean.sensitivity),
        Row("mean positive predictive value", mean.ppv),
        Row("mean F", mean.f),
    ]
