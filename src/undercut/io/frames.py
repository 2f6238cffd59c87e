"""CSV, TSV and Parquet files as data frames, through polars (the extra ``frames``)."""

from __future__ import annotations

import importlib
import io
import os
from typing import TYPE_CHECKING, Any

from undercut.errors import CapabilityError, DataError
from undercut.io.reading import open_decompressed, undamaged
from undercut.io.several import matching
from undercut.types import FilePath

if TYPE_CHECKING:
    import polars as pl

SEPARATORS = {".csv": ",", ".tsv": "\t"}
COMPRESSED = (".gz", ".bz2", ".xz")
MISSING = ("", "NA", "N/A", "NaN", "nan", "NULL", "null")  # texts that stand for a missing value


def is_table(path: FilePath) -> bool:
    """Whether the name of a file says that it holds a table.

    >>> is_table("data.csv.gz"), is_table("data.parquet"), is_table("data.svm")
    (True, True, False)
    """
    return _suffix(path) in (*SEPARATORS, ".parquet")


def read_frame(path: FilePath) -> pl.DataFrame:
    """The table of a file, or of all that a pattern stands for.

    The columns of a CSV or TSV file are texts, null where a value is missing.
    """
    polars, name = _polars(), os.fsdecode(path)
    if (paths := matching(path)) != [name]:
        return _below(polars, paths)
    if not os.path.isfile(path):
        raise FileNotFoundError(f"no such file: {name}")
    frame: pl.DataFrame
    try:
        if _suffix(path) == ".parquet":
            frame = polars.read_parquet(name, glob=False)
        else:
            frame = _stripped(polars, polars.read_csv(_source(name), **_csv_options(name)))
    except polars.exceptions.PolarsError as error:
        raise DataError(f"{name} must be a table with a header and rows of equal length: {error}") from error
    if frame.height == 0:
        raise DataError(f"{name}: holds no row below its header")
    return frame


def _below(polars: Any, paths: list[str]) -> pl.DataFrame:
    """The rows of several tables, one below the other."""
    frames = [read_frame(path) for path in paths]
    for path, frame in zip(paths, frames, strict=True):
        if frame.columns != frames[0].columns:
            raise DataError(
                f"all tables must have the same columns; {path} has {', '.join(frame.columns)}, and {paths[0]} has "
                f"{', '.join(frames[0].columns)}"
            )
    joint: pl.DataFrame = polars.concat(frames, how="vertical_relaxed")
    return joint


def typed_frame(path: FilePath) -> pl.DataFrame:
    """The table of a file with numbers in every column that holds nothing else, for transformers that look at types."""
    frame = read_frame(path)
    texts = [column for column in frame.get_columns() if column.dtype == _polars().String]
    numbers = [column.cast(float, strict=False) for column in texts]
    return frame.with_columns(
        number for number, text in zip(numbers, texts, strict=True) if number.null_count() == text.null_count()
    )


def _csv_options(name: str) -> dict[str, Any]:
    """Every column as text, so that a file to predict is read as the one to train on."""
    return {"separator": SEPARATORS[_suffix(name)], "infer_schema": False, "glob": False, "extra_columns": "raise"}


def _source(name: str) -> Any:
    """What polars reads: the file itself, or what it decompresses to."""
    if not name.endswith(COMPRESSED):
        return name
    with open_decompressed(name) as stream, undamaged(name):
        return io.BytesIO(stream.read())


def _stripped(polars: Any, frame: Any) -> Any:
    """Names and texts without blanks around them, the texts of missing values as null."""
    frame = frame.rename(lambda name: name.strip())
    texts = polars.all().str.strip_chars()
    return frame.select(polars.when(~texts.is_in(MISSING)).then(texts))


def _suffix(path: FilePath) -> str:
    name = os.fsdecode(path).lower()
    for compressed in COMPRESSED:
        name = name.removesuffix(compressed)
    return os.path.splitext(name)[1]


def _polars() -> Any:
    try:
        return importlib.import_module("polars")
    except ImportError as error:
        raise CapabilityError("CSV, TSV and Parquet files need polars: pip install 'undercut[frames]'") from error
