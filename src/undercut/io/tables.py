"""Tables with named columns as matrices: numbers as they are, categories as one indicator each.

| column | features | missing value with ``impute`` |
|---|---|---|
| numbers, true and false | the number | the mean |
| texts | one indicator per category | the most frequent category |

The columns of the file that a model was trained on (``TableColumns``) are kept in its model file, and bring every
later file to the same features.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from undercut.errors import DataError, ParameterError, nearest
from undercut.io.frames import read_frame
from undercut.types import Array, FilePath, FloatArray

if TYPE_CHECKING:
    import polars as pl

NEARLY = 0.9  # share of numbers from which on a text in their column is a mistake, not a category


class TableData(NamedTuple):
    """Samples: the rows of X, targets and queries where the file has them, and what its columns are."""

    X: Any  # an array, or a CSR matrix where there are categories
    y: Array | None
    qid: Array | None
    columns: TableColumns


@dataclass(frozen=True)
class Column:
    """One column: numbers, or texts that are among ``categories``."""

    name: str
    categories: tuple[str, ...] | None = None
    fill: float | str | None = None  # in place of a missing value; None refuses it

    def names(self) -> list[str]:
        """Of the features."""
        return [self.name] if self.categories is None else [f"{self.name}={value}" for value in self.categories]


@dataclass(frozen=True)
class TableColumns:
    """The columns of a table, and how its features are made of them.

    >>> columns = TableColumns((Column("age"), Column("color", ("blue", "red"))), target="price")
    >>> columns.feature_names()
    ['age', 'color=blue', 'color=red']
    """

    columns: tuple[Column, ...]
    target: str | None = None
    group: str | None = None
    ignored: tuple[str, ...] = field(default=())

    def feature_names(self) -> list[str]:
        """The names of all features, in order."""
        return [name for column in self.columns for name in column.names()]

    def check(self, n_features: int) -> None:
        """Raise ``ValueError`` unless these are columns that make so many features."""
        names = self.feature_names()
        if len(names) != n_features or not all(isinstance(name, str) for name in [*names, *self.ignored]):
            raise ValueError(f"the columns of the table make {len(names)} features, and the model has {n_features}")
        for column in self.columns:
            if column.categories is not None and list(column.categories) != sorted(set(column.categories)):
                raise ValueError(f"the categories of {column.name!r} are out of order")

    def load(self, path: FilePath, *, labelled: bool = True, strict: bool = False) -> TableData:
        """The rows of a file with the same columns, in any order.

        One that need not be ``labelled`` may be without target and group.  Columns and categories that are new are
        left out with a warning; ``strict`` refuses them.
        """
        frame = read_frame(path)
        known = [column.name for column in self.columns]
        check_present(frame, [*known, *self._wanted(labelled=labelled)], path)
        extra = set(frame.columns) - {*known, *self.ignored, self.target, self.group}
        if extra:
            _ignored(f"{path}: ignored columns never seen in training: {', '.join(sorted(extra))}", strict=strict)
        blocks = [_block(frame[column.name], column, path, strict=strict) for column in self.columns]
        return TableData(_stacked(blocks), *self._targets(frame, path), columns=self)

    def _wanted(self, *, labelled: bool) -> list[str]:
        return [name for name in (self.target, self.group) if labelled and name is not None]

    def _targets(self, frame: pl.DataFrame, path: FilePath) -> tuple[Array | None, Array | None]:
        """The columns of targets and of queries, where the file has them."""
        names = (self.target, self.group)
        y, group = (_complete(frame[name], path) if name in frame.columns else None for name in names)
        return None if y is None else _values(y, path), None if group is None else _codes(group, path)


def load_table(
    path: FilePath,
    target: str | None = None,
    *,
    group: str | None = None,
    ignore: Collection[str] = (),
    categorical: Collection[str] = (),
    impute: bool = False,
) -> TableData:
    """Read a CSV, TSV or Parquet file, and find out what its columns are.

    Every column is a feature except ``target``, ``group`` (the queries of a ranking) and those to ``ignore``.  A column
    with a text that is no number is categorical, as are those in ``categorical``.  A missing value is refused with its
    row and column unless ``impute``.

    >>> import tempfile, pathlib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "cars.csv")
    ...     _ = path.write_text("age,color,price\\n3,red,9.5\\n1,blue,20\\n")
    ...     X, y, qid, columns = load_table(path, "price")
    >>> X.toarray(), y, columns.feature_names()
    (array([[3., 0., 1.],
           [1., 1., 0.]]), array([ 9.5, 20. ]), ['age', 'color=blue', 'color=red'])
    """
    frame = read_frame(path)
    roles = {"target": [target], "group": [group], "ignore": ignore, "categorical": categorical}
    for role, names in roles.items():
        for name in names:
            if name is not None and name not in frame.columns:
                raise ParameterError(
                    f"`{role}` must name a column of {path}, which are {', '.join(frame.columns)}; "
                    f"got {name!r}{nearest(name, frame.columns)}"
                )
    features = [name for name in frame.columns if name not in (target, group, *ignore)]
    if not features:
        raise DataError(f"{path} has no column left to learn from; its columns are {', '.join(frame.columns)}")
    found = tuple(_column(frame[name], path, text=name in categorical, impute=impute) for name in features)
    columns = TableColumns(found, target, group, tuple(ignore))
    blocks = [_block(frame[column.name], column, path) for column in found]
    return TableData(_stacked(blocks), *columns._targets(frame, path), columns=columns)


def _column(series: pl.Series, path: FilePath, *, text: bool, impute: bool) -> Column:
    """What a column of the training data is."""
    present = series.drop_nulls()
    if present.is_empty():
        raise DataError(f"{path}: the column {series.name!r} holds no value; leave it out with `ignore`")
    if not text and _is_numeric(present, path):
        numbers = _numbers(present)
        mean = float(numbers[~np.isnan(numbers)].mean()) if impute else None
        return Column(series.name, fill=mean)
    texts = _texts(present, path)
    counts = dict(texts.alias("text").value_counts().iter_rows())
    categories = tuple(sorted(counts))
    return Column(series.name, categories, max(categories, key=counts.__getitem__) if impute else None)


def _is_numeric(present: pl.Series, path: FilePath) -> bool:
    if _typed(present):
        return True
    texts = _texts(present, path)
    numbers = texts.cast(float, strict=False)
    share = 1.0 - numbers.null_count() / len(texts)
    if NEARLY <= share < 1.0:
        odd = texts.filter(numbers.is_null())[0]
        raise DataError(
            f"{path}: the column {present.name!r} is nearly all numbers; got {odd!r}: correct it, or name the column "
            "in `categorical`"
        )
    return share == 1.0


def _typed(series: pl.Series) -> bool:
    """Whether the file itself says that these are numbers."""
    return series.dtype.is_numeric() or str(series.dtype) == "Boolean"


def _texts(series: pl.Series, path: FilePath) -> pl.Series:
    kind = str(series.dtype).partition("(")[0]
    if kind not in ("String", "Categorical", "Enum") and not _typed(series):
        raise DataError(
            f"{path}: a column must hold numbers or texts; {series.name!r} holds {series.dtype}: convert it, or leave "
            "it out with `ignore`"
        )
    return series.cast(str)


def _numbers(series: pl.Series) -> FloatArray:
    """NaN where a value is missing or no number."""
    return series.cast(float, strict=False).to_numpy().astype(np.float64)


def _block(series: pl.Series, column: Column, path: FilePath, *, strict: bool = False) -> Any:
    """The features of one column, a matrix with a row per sample."""
    if column.categories is None:
        return _number_block(series, column, path)
    texts = _texts(series, path)
    texts = _complete(texts, path) if column.fill is None else texts.fill_null(column.fill)
    known = np.array(column.categories)
    values = texts.to_numpy().astype(str)
    codes = np.minimum(np.searchsorted(known, values), known.size - 1)
    new = np.flatnonzero(known[codes] != values)
    if new.size:
        kinds = np.unique(values[new])
        kind = "1 category" if kinds.size == 1 else f"{kinds.size} categories"
        rows = "this row" if new.size == 1 else f"these {new.size} rows"
        _ignored(
            f"{path}: column {column.name!r} has {kind} never seen in training, such as {str(kinds[0])!r}: all "
            f"indicators of {rows} are zero",
            strict=strict,
        )
    data = (known[codes] == values).astype(np.float64)
    block = sp.csr_matrix((data, codes, np.arange(values.size + 1)), shape=(values.size, known.size))
    block.eliminate_zeros()
    return block


def _number_block(series: pl.Series, column: Column, path: FilePath) -> FloatArray:
    """Numbers, one column; a text among them is refused, and so is a missing value without a substitute."""
    numbers = _numbers(series if _typed(series) else _texts(series, path))
    odd = np.flatnonzero(np.isnan(numbers) & series.is_not_null().to_numpy())
    if odd.size and not _typed(series):
        raise DataError(
            f"{path}: row {odd[0] + 1}, column {column.name!r} must be a number as in training; "
            f"got {series[int(odd[0])]!r}"
        )
    infinite = np.flatnonzero(np.isinf(numbers))
    if infinite.size:
        raise DataError(f"{path}: row {infinite[0] + 1}, column {column.name!r} must be finite; got infinity")
    if column.fill is not None:
        numbers = np.where(np.isnan(numbers), column.fill, numbers)
    _refuse_missing(np.isnan(numbers), column.name, path)
    return numbers[:, None]


def _refuse_missing(missing: Array, name: str, path: FilePath) -> None:
    if missing.any():
        row = int(np.flatnonzero(missing)[0]) + 1
        more = f", and {missing.sum() - 1} more rows" if missing.sum() > 1 else ""
        raise DataError(f"{path}: row {row}, column {name!r} has no value{more}: fill it in, or train with impute=True")


def _complete(series: pl.Series, path: FilePath) -> pl.Series:
    """A column without missing values."""
    missing = series.is_null().to_numpy()
    if series.dtype.is_float():
        missing = missing | series.is_nan().fill_null(True).to_numpy()
    _refuse_missing(missing, series.name, path)
    return series


def _values(series: pl.Series, path: FilePath) -> Array:
    """Targets: numbers where all of them are, else texts."""
    if not _typed(series) and _texts(series, path).cast(float, strict=False).null_count():
        return np.asarray(series.cast(str).to_numpy().astype(str))
    return _numbers(series)


def _codes(series: pl.Series, path: FilePath) -> Array:
    """Queries as whole numbers, in the order of their appearance unless they are such."""
    if series.dtype.is_integer():
        return series.to_numpy().astype(np.int64)
    _, first, codes = np.unique(_texts(series, path).to_numpy().astype(str), return_index=True, return_inverse=True)
    return np.asarray(np.argsort(np.argsort(first))[codes], dtype=np.int64)


def _stacked(blocks: list[Any]) -> Any:
    """One matrix, sparse where any part of it is."""
    if any(sp.issparse(block) for block in blocks):
        return sp.csr_matrix(sp.hstack(blocks, format="csr"))
    return np.hstack(blocks)


def check_present(frame: pl.DataFrame, names: Iterable[str], path: FilePath) -> None:
    """``DataError`` names a column that is missing, and the one that it may have become."""
    for name in names:
        if name not in frame.columns:
            raise DataError(
                f"{path} must have the column {name!r}, as the training data had; its columns are "
                f"{', '.join(frame.columns)}{nearest(name, frame.columns)}"
            )


def _ignored(message: str, *, strict: bool) -> None:
    if strict:
        raise DataError(f"{message}; strict checking refuses this")
    warnings.warn(message, UserWarning, stacklevel=3)
