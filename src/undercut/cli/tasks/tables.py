"""CSV, TSV and Parquet files on the command line; a model remembers their columns."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from undercut.cli.options.given import Given
from undercut.cli.options.table import TABLES
from undercut.cli.standard import INPUT_NAME, note
from undercut.errors import DataError, ParameterError
from undercut.io import load_model
from undercut.io.frames import read_frame, typed_frame
from undercut.io.svmlight import SvmlightData
from undercut.io.tables import TableColumns, TableData, check_present, load_table

ENDINGS = ".csv, .tsv or .parquet"
PARQUET = b"PAR1"  # how such a file begins


def as_table(path: Path) -> Path:
    """A file whose content must be a table; standard input gets the ending that says so."""
    if path.name != INPUT_NAME:
        return path
    with open(path, "rb") as file:
        ending = ".parquet" if file.read(4) == PARQUET else ".csv"
    return path.rename(path.with_suffix(ending))


def training_table(path: Path, given: Given) -> tuple[SvmlightData, TableColumns]:
    """The samples of a table to train on, and its columns: found now, or those of the model of ``--start``."""
    given.check_file(TABLES)
    if "target" not in given and "nu" not in given:
        names = ", ".join(read_frame(path).columns)
        raise ParameterError(f"--target must name the column of {path} to predict, one of {names}; got no --target")
    start = None if given["start"] is None else getattr(load_model(given["start"]), "table_", None)
    if start is not None:
        if (start.target, start.group) != (given["target"], given["group"]):
            raise ParameterError(f"--start was trained with --target {start.target}; got {given['target']}")
        return _rows(lambda: start.load(path)), start
    table = load_table(
        path,
        given["target"],
        group=given["group"],
        ignore=given["ignore"] or (),
        categorical=given["categorical"] or (),
        impute="impute" in given,
    )
    return _rows(lambda: table), table.columns


def later_table(model: Any, path: Path, *, strict: bool, labelled: bool) -> SvmlightData:
    """The samples of a table for a model that was trained on one, or on a data frame."""
    if hasattr(model, "table_"):
        return _rows(lambda: model.table_.load(path, labelled=labelled, strict=strict))
    if labelled:
        raise DataError(
            "the model was not trained on a table, so the column of the targets is unknown: use score in Python"
        )
    return _unlabelled_frame(model, path)


def check_no_table(model: Any, path: Path) -> None:
    """Refuse a file of another kind for a model that was trained on a table."""
    if hasattr(model, "table_"):
        names = ", ".join(column.name for column in model.table_.columns)
        raise DataError(
            f"the model was trained on a table with the columns {names}; {path} must be such a file, {ENDINGS}"
        )


def table_chunks(data: SvmlightData, chunk_rows: int) -> Iterator[SvmlightData]:
    """A table in chunks of rows; it is in memory as a whole."""
    for low in range(0, data.y.size, chunk_rows):
        rows = slice(low, low + chunk_rows)
        yield SvmlightData(data.X[rows], data.y[rows], None)


def _unlabelled_frame(model: Any, path: Path) -> SvmlightData:
    """A data frame with the columns that a model has seen in one."""
    frame, names = typed_frame(path), getattr(model, "feature_names_in_", None)
    if names is None:
        raise DataError(
            f"the model was trained on features without names, which no column of {path} can be matched with: give it "
            "an SVMlight file, or train it on a table"
        )
    check_present(frame, names, path)
    return SvmlightData(frame.select(list(names)), np.zeros(frame.height), None)


def _rows(load: Callable[[], TableData]) -> SvmlightData:
    """The samples of a table as those of any other file; what was left out is told in notes."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        data = load()
    for warning in told:
        note(str(warning.message))
    y = np.zeros(data.X.shape[0]) if data.y is None else data.y
    return SvmlightData(data.X, y, data.qid)
