"""Sequences in partitions: Dask bags, or files that workers read.

The workers stack the sequences of each partition and make their features; labels, strings of templates and pairs that
occur come back to this process, which decides for all partitions, and sequences do not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Any, Literal

import numpy as np

from undercut.errors import DataError
from undercut.estimators.cluster.lazy import checked_bags
from undercut.estimators.cluster.partitions import (
    PARTS_PER_WORKER,
    divided,
    filled,
    is_collection,
    is_partitioned,
    running_cluster,
)
from undercut.estimators.labels import codes_of, distinct_labels
from undercut.io.sequences.conll import as_conll
from undercut.io.sequences.sequence_files import ROWS, TEXT, LabelledSequences, kind_of, load_sequences
from undercut.io.several import Source, matching
from undercut.maps.chains import ChainMask, Chains, ChainWeights, SeenPairs
from undercut.maps.parts import Parts, added
from undercut.maps.sequences import Sequences, stack_labels, stack_sequences
from undercut.maps.templates import TemplateFeatures
from undercut.risks import ChainRisk, ShardedRisk
from undercut.types import Array, FloatArray


@dataclass(frozen=True)
class Share:
    """The sequences of one partition, with the weight of each where weights are given."""

    sequences: LabelledSequences
    sample_weight: FloatArray | None = None


def is_there(X: Any) -> bool:
    """Whether sequences are in partitions: Dask's collections, or names of files."""
    return isinstance(X, PartitionedSequences) or is_partitioned(X)


class PartitionedSequences:
    """Parts that each hold a ``Share``; the fit of a labeler asks them one question after the other."""

    def __init__(self, parts: Parts) -> None:
        self.parts = parts

    @classmethod
    def of(cls, X: Any, y: Any, sample_weight: Any = None, *, text: bool) -> PartitionedSequences:
        """From what a user gives to ``fit``: bags, or names of files."""
        if isinstance(X, PartitionedSequences):
            return X
        given = {"X": X, "y": y, "sample_weight": sample_weight}
        given = {name: value for name, value in given.items() if value is not None}
        if not is_collection(X):
            if len(given) > 1:
                raise DataError(f"files hold their own {', '.join(list(given)[1:])}: pass only the files")
            return cls.of_files(X)
        if "y" not in given:
            raise DataError("y must be a Dask bag with the labels of each sequence of X; got none")
        bags = checked_bags(given)
        return cls(filled(running_cluster().collected(partial(_stacked, text=text), *bags)))

    @classmethod
    def of_files(
        cls,
        files: Any,
        *,
        folds: Sequence[int] | None = None,
        n_features: int | None = None,
        labelled: bool = True,
    ) -> PartitionedSequences:
        """The sequences of files: patterns, or a list of names.  Plain CoNLL columns are divided, others are not."""
        cluster, paths = running_cluster(), matching(files)
        kinds = [kind_of(path) for path in paths]
        for path, kind in zip(paths, kinds, strict=True):
            if kind != kinds[0]:
                raise DataError(f"all files must be of one kind; {path} is of {kind}, and {paths[0]} of {kinds[0]}")
        sources = divided(paths, PARTS_PER_WORKER * cluster.n_workers if kinds[0] == TEXT else 1)
        read = partial(_read, folds=folds, labelled=labelled)
        parts = filled(cluster.load(read, sources, [str(source) for source in sources]))
        if kinds[0] == TEXT:
            check_equal(parts, parts.each(_n_columns), "columns")
        if kinds[0] != ROWS:
            return cls(parts)
        from_zero = any(parts.each(_is_from_zero))
        width = max(parts.each(_width, from_zero)) if n_features is None else n_features
        return cls(parts.made(_placed, from_zero, width))

    @property
    def is_text(self) -> bool:
        """Whether tokens are words, of which templates make features."""
        return bool(self.parts.each(_kind, which=[0])[0] == TEXT)

    @property
    def n_sequences(self) -> int:
        return sum(n for n, _ in self.parts.each(_size))

    @property
    def n_tokens(self) -> int:
        return sum(n for _, n in self.parts.each(_size))

    def labels(self) -> list[Any]:
        """The different labels, in the order in which they appear."""
        return list(dict.fromkeys(label for found in self.parts.each(_labels) for label in found))

    def check_text(self, has_templates: bool) -> None:
        """Refuse words for a labeler without templates, and numbers for one with them."""
        if self.is_text != has_templates:
            kinds = {True: "words, which need `features`", False: "numbers, which need features=None"}
            raise DataError(f"{self.parts.names[0]} holds {kinds[self.is_text]}")

    def share_of_right(self, model: Any) -> float:
        """The share of tokens that a labeler gives the right label."""
        right, tokens = self.parts.total(_right, model, add=added)
        return float(right / tokens)

    def fit_features(self, features: TemplateFeatures) -> PartitionedSequences:
        """The sequences with the features that templates, which are fitted here, make of their tokens."""
        features.number(self.parts.each(_strings, features))
        features.choose(self.parts.each(_combinations, features))
        return PartitionedSequences(self.parts.made(_featured, features))

    def chain_risk(self, classes: Array, settings: dict[str, Any], pairs: Literal["all", "seen"]) -> ShardedRisk:
        """The mean loss of the labelings of all sequences."""
        parts = self.parts.made(_coded, classes)
        check_equal(parts, parts.each(_n_features), "features")
        has = {name: settings[name] for name in ("start", "end", "bias")}
        make = partial(ChainRisk, **settings, n_labels=classes.size)
        if pairs == "seen":
            found: list[SeenPairs] = parts.each(_seen, classes.size, has)
            make = partial(make, pairs=reduce(SeenPairs.joined, found))
        return ShardedRisk.of(parts, make)


def check_equal(parts: Parts, counts: list[int], what: str) -> None:
    """Refuse partitions that differ in the number of their columns or features."""
    for name, count in zip(parts.names, counts, strict=True):
        if count != counts[0]:
            raise DataError(
                f"all partitions must have the same {what}; {name} has {count}, and {parts.names[0]} has {counts[0]}"
            )


def unpacked(risk: Any, w: FloatArray) -> Any:
    """The weights by name, ``ChainWeights`` or those of a network, from a shard where the risk has shards."""
    if not isinstance(risk, ShardedRisk):
        return risk.unpack(w)
    return risk.parts.each(_unpacked, w, which=[0])[0]


def packed(risk: Any, weights: ChainWeights) -> FloatArray | None:
    """The parameters of a chain with these weights; ``None`` if it has other labels or features."""
    if not isinstance(risk, ShardedRisk):
        return risk.pack(weights) if weights.emissions.shape == risk.weights_shape else None
    return risk.parts.each(_packed, weights, which=[0])[0]


# --- What a partition is asked --------------------------------------------------------------------------------------


def _stacked(X: list[Any], y: list[Any], sample_weight: list[Any] | None = None, *, text: bool) -> Share | None:
    if not X and not y:
        return None
    if text:
        data = as_conll(X)
        found = LabelledSequences(data, stack_labels(y, data.lengths, flat=False), data.lengths, TEXT)
    else:
        stacked = stack_sequences(X)
        found = LabelledSequences(stacked.X, stack_labels(y, stacked.lengths, flat=False), stacked.lengths, ROWS)
    return Share(found, None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64))


def _read(source: Source, folds: Sequence[int] | None, labelled: bool) -> Share | None:
    found = load_sequences(source.path, folds=folds, labelled=labelled, byte_range=source.byte_range)
    return Share(found) if found.lengths.size else None


def _n_columns(share: Share) -> int:
    return len(share.sequences.X.columns)


def _kind(share: Share) -> str:
    return share.sequences.kind


def _is_from_zero(share: Share) -> bool:
    return share.sequences.from_zero


def _width(share: Share, from_zero: bool) -> int:
    return share.sequences.width(from_zero)


def _placed(share: Share, from_zero: bool, n_features: int) -> Share:
    return replace(share, sequences=share.sequences.placed(from_zero, n_features))


def _size(share: Share) -> tuple[int, int]:
    return int(share.sequences.lengths.size), int(share.sequences.lengths.sum())


def _right(share: Share, model: Any) -> tuple[float, float]:
    """The weights of the tokens with the right label, and of all tokens."""
    sequences, weight = share.sequences, share.sample_weight
    mass = float(sequences.lengths.sum() if weight is None else sequences.lengths @ weight)
    if mass == 0.0:
        return 0.0, 0.0
    return mass * model.score(sequences.X, sequences.targets, weight, **sequences.options), mass


def _labels(share: Share) -> list[Any]:
    return distinct_labels(share.sequences.y)


def _strings(share: Share, features: TemplateFeatures) -> dict[str, list[str]]:
    return features.strings(share.sequences.X)


def _combinations(share: Share, features: TemplateFeatures) -> Any:
    return features.combinations(share.sequences.X)


def _featured(share: Share, features: TemplateFeatures) -> Share:
    sequences = share.sequences
    return replace(share, sequences=replace(sequences, X=features.transform(sequences.X), kind=ROWS))


def _coded(share: Share, classes: Array) -> dict[str, Any]:
    """The arguments of a ``ChainRisk``."""
    X, lengths = share.sequences.X, share.sequences.lengths
    data = {"X": X, "y": codes_of(share.sequences.y, classes, Sequences(X, lengths)), "lengths": lengths}
    return data if share.sample_weight is None else data | {"sample_weight": share.sample_weight}


def _n_features(data: dict[str, Any]) -> int:
    return int(data["X"].shape[1])


def _seen(data: dict[str, Any], n_labels: int, has: dict[str, bool]) -> SeenPairs:
    chains = Chains(data["lengths"], n_labels)
    weight = data.get("sample_weight", np.ones(chains.n_chains))
    counts = np.repeat(weight > 0.0, chains.lengths)
    return SeenPairs.of(data["X"], data["y"], counts, chains, ChainMask.full(n_labels, **has))


def _unpacked(shard: Any, w: FloatArray) -> ChainWeights:
    return shard.risk.unpack(w)


def _packed(shard: Any, weights: ChainWeights) -> FloatArray | None:
    return packed(shard.risk, weights)
