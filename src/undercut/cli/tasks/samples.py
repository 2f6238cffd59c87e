"""The samples of a file: read with a bar, and brought to the features of a model."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from undercut.cli.options.given import Given
from undercut.cli.options.table import ROWS, named
from undercut.cli.standard import note
from undercut.cli.tasks.tables import as_table, check_no_table, later_table, training_table
from undercut.display import Display, Part
from undercut.errors import DataError
from undercut.io import load_model
from undercut.io.frames import is_table
from undercut.io.reading import first_line, open_decompressed, watch_reading
from undercut.io.several import load_several, matching
from undercut.io.svmlight import SvmlightData, load_svmlight
from undercut.maps.streamed import StreamedData, StreamedDesign, stream_svmlight
from undercut.types import FloatArray

MEGABYTE = 1e6


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """A bar with percentage and speed while the file is read."""
    began = time.monotonic()

    def tell(done: int, total: int) -> None:
        speed = done / MEGABYTE / max(time.monotonic() - began, 1e-3)
        display.show([Part(f"{speed:.1f} MB/s", 1)], share=done / total if total else None)

    with Display(f"reading {path.name}") as display, watch_reading(tell):
        yield


class OnDisk(NamedTuple):
    """That rows stay on disk: the bytes of memory to keep to, and the folder of the cache."""

    memory: int
    cache: Path | None = None

    @classmethod
    def of(cls, given: Given) -> OnDisk | None:
        """What ``--memory`` and ``--cache`` say."""
        return cls(given["memory"], given["cache"]) if "memory" in given else None


def read_rows(
    path: Path, *, n_features: int | None = None, labelled: bool = True, on_disk: OnDisk | None = None
) -> SvmlightData | StreamedData:
    """The rows of a file, or of all that a pattern stands for.

    One that need not be ``labelled`` may begin its lines with the features.
    """
    paths = matching(path)
    with reading(path):
        has_labels = labelled or not begins_with_a_feature(Path(paths[0]))
        if len(paths) > 1 and on_disk is not None:
            raise named("memory").refusal(f"is for one file, and {path} stands for {len(paths)}", on_disk.memory)
        if len(paths) > 1:
            return load_several(paths, n_features=n_features, labelled=has_labels)
        if on_disk is None:
            return load_svmlight(paths[0], n_features=n_features, labelled=has_labels)
        return stream_svmlight(paths[0], **on_disk._asdict(), n_features=n_features, labelled=has_labels)


def read_training(model: Any, path: Path, given: Given) -> Any:
    """The rows of a file to train a model on, which keeps the columns of a table."""
    path = as_table(path) if "target" in given else path
    if is_table(path):
        data, model.table_ = training_table(path, given)
        return data
    given.check_file(ROWS)
    if "start" in given:
        check_no_table(load_model(given["start"]), path)
    return read_rows(path, n_features=given["n_features"], on_disk=OnDisk.of(given))


def read_like(
    model: Any, path: Path, *, strict: bool = False, labelled: bool = True, on_disk: OnDisk | None = None
) -> Any:
    """The rows of a file for a model that was trained on one of the same kind."""
    path = as_table(path) if hasattr(model, "table_") else path
    if is_table(path):
        if on_disk is not None:
            raise named("memory").refusal(f"is for {ROWS}", path)
        return later_table(model, path, strict=strict, labelled=labelled)
    check_no_table(model, path)
    return read_rows(path, labelled=labelled, on_disk=on_disk)


def read_fitting(
    model: Any,
    path: Path,
    n_features: int,
    *,
    strict: bool = False,
    labelled: bool = True,
    on_disk: OnDisk | None = None,
) -> Any:
    """The rows of a file with the features of a model, or of the data that it is to be fitted to."""
    data = read_like(model, path, strict=strict, labelled=labelled, on_disk=on_disk)
    return (
        data
        if hasattr(model, "table_") or is_table(path)
        else data._replace(X=fitting(data.X, n_features, path, strict=strict))
    )


def begins_with_a_feature(path: Path) -> bool:
    """Whether the first line of a file has no label."""
    first = first_line(os.fsdecode(path)).split()
    return bool(first) and ":" in first[0]


def as_wide_as(X: Any, n_features: int) -> Any:
    """The same rows with that many columns."""
    if isinstance(X, StreamedDesign):
        return X.resized(n_features)
    if X.shape[1] > n_features:
        return X[:, :n_features]
    return sp.csr_matrix((X.data, X.indices, X.indptr), shape=(X.shape[0], n_features))


def fitting(X: Any, n_features: int, path: Path, *, strict: bool = False) -> Any:
    """The rows with the features of a model; a feature that it never saw is left out with a note, or refused."""
    new = X.unseen(n_features) if isinstance(X, StreamedDesign) else np.unique(X.indices[X.indices >= n_features]).size
    if new == 0:
        return as_wide_as(X, n_features)
    if strict:
        raise unseen_error(path, new, n_features)
    note(unseen_note(path, new, n_features))
    return as_wide_as(X, n_features)


def unseen_error(path: Path, new: int, n_features: int) -> DataError:
    """The error of a file with features that a model never saw."""
    return DataError(
        f"{path} has {_counted(new)} that the model never saw, beyond its {n_features}: drop --strict to ignore them"
    )


def unseen_note(path: Path, new: int, n_features: int) -> str:
    """What is said of a file with features that a model never saw."""
    return f"{path}: ignored {_counted(new)} never seen in training, beyond the {n_features} of the model"


def _counted(n: int) -> str:
    return f"{n} feature{'s' if n > 1 else ''}"


def read_weights(path: Path | None, n_samples: int) -> FloatArray | None:
    """One weight per sample from a file; ``None`` where there is no file."""
    if path is None:
        return None
    with open_decompressed(os.fsdecode(path)) as stream:
        words: list[Any] = stream.read().split()
    try:
        weights = np.array(words, dtype=np.float64)
    except ValueError as error:
        raise DataError(f"{path} must hold a number per line, the weight of each sample: {error}") from error
    if weights.size != n_samples:
        raise DataError(f"{path} must hold one weight per sample, {n_samples}; got {weights.size}")
    if not (np.isfinite(weights) & (weights >= 0.0)).all():
        raise DataError(f"{path} must hold weights that are finite and not negative; got {weights.min()}")
    return weights
