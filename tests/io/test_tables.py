"""Tables of any format give the same features, by name, and what does not fit is refused with row and column."""

import bz2
import gzip
import sys

import numpy as np
import polars as pl
import pytest
import scipy.sparse as sp

from undercut.errors import CapabilityError, DataError, ParameterError
from undercut.io import TableColumns, load_table
from undercut.io.tables import Column

TEXT = "age,color,owner,price\n3,red,yes,9.5\n1,blue,no,20\n2.5,red,no,11\n"
FEATURES = ["age", "color=blue", "color=red", "owner=no", "owner=yes"]
MATRIX = [[3, 0, 1, 0, 1], [1, 1, 0, 1, 0], [2.5, 0, 1, 1, 0]]


@pytest.fixture
def write(tmp_path):
    def written(text, name="data.csv"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return written


@pytest.mark.parametrize("kind", ["csv", "tsv", "parquet", "csv.gz", "csv.bz2", "blanks"])
def test_every_format_gives_the_same_features(write, tmp_path, kind):
    contents = {
        "csv": TEXT,
        "tsv": TEXT.replace(",", "\t"),
        "csv.gz": gzip.compress(TEXT.encode()),
        "csv.bz2": bz2.compress(TEXT.encode()),
        "blanks": TEXT.replace(",", " , "),
    }
    path = tmp_path / "data.parquet"
    if kind == "parquet":
        pl.read_csv(TEXT.encode()).with_columns(pl.col("color").cast(pl.Categorical)).write_parquet(path)
    else:
        path = write(contents[kind], "data.csv" if kind == "blanks" else f"data.{kind}")
    X, y, qid, columns = load_table(path, "price")
    np.testing.assert_array_equal(X.toarray(), MATRIX)
    np.testing.assert_array_equal(y, [9.5, 20.0, 11.0])
    assert columns.feature_names() == FEATURES
    assert qid is None


def test_numbers_alone_are_a_dense_array(write):
    X, y, _, columns = load_table(write("a,b,y\n1,2,spam\n3,4e1,ham\n"), "y")
    assert not sp.issparse(X)
    np.testing.assert_array_equal(X, [[1.0, 2.0], [3.0, 40.0]])
    assert y.tolist() == ["spam", "ham"]
    assert columns.feature_names() == ["a", "b"]


def test_truth_values_of_a_parquet_file_are_numbers(tmp_path):
    pl.DataFrame({"a": [True, False], "b": [1, 2], "y": [True, False]}).write_parquet(tmp_path / "a.parquet")
    X, y, _, _ = load_table(tmp_path / "a.parquet", "y")
    assert (X.tolist(), y.tolist()) == ([[1.0, 1.0], [0.0, 2.0]], [1.0, 0.0])


def test_groups_are_queries(write):
    text = "a,day,y\n1,mon,0\n2,tue,1\n3,mon,2\n"
    assert load_table(write(text), "y", group="day").qid.tolist() == [0, 1, 0]
    codes = write("a,day,y\n1,7,0\n2,5,1\n", "codes.csv")
    assert load_table(codes, "y", group="day").X.shape == (2, 1)


def test_columns_may_be_ignored_or_taken_as_categories(write):
    path = write("id,zip,y\n17,01,1\n18,1,2\n")
    X, _, _, columns = load_table(path, "y", ignore=["id"], categorical=["zip"])
    assert columns.feature_names() == ["zip=01", "zip=1"]
    np.testing.assert_array_equal(X.toarray(), [[1, 0], [0, 1]])
    assert columns.load(path).X.shape == (2, 2)


# --------------------------------------------------------------------------------------------------- a later file


@pytest.fixture
def columns(write):
    return load_table(write(TEXT, "train.csv"), "price").columns


def test_the_order_of_columns_does_not_matter_and_the_target_may_be_absent(write, columns):
    path = write("owner,age,color\nno,7,blue\n")
    X, y, _, _ = columns.load(path, labelled=False)
    np.testing.assert_array_equal(X.toarray(), [[7, 1, 0, 1, 0]])
    assert y is None
    with pytest.raises(DataError, match="must have the column 'price'"):
        columns.load(path)


def test_a_missing_column_is_named_with_the_nearest_one(write, columns):
    with pytest.raises(DataError, match=r"column 'color', as the training.*did you mean colour\?"):
        columns.load(write("age,colour,owner,price\n3,red,no,1\n"))


def test_a_new_category_has_no_indicator_and_is_announced(write, columns):
    path = write("age,color,owner,price\n3,mauve,no,1\n3,puce,no,1\n3,red,no,1\n")
    with pytest.warns(UserWarning, match=r"column 'color' has 2 categories never seen in training, such as 'mauve'"):
        X = columns.load(path).X
    np.testing.assert_array_equal(X.toarray()[:, 1:3], [[0, 0], [0, 0], [0, 1]])
    with pytest.raises(DataError, match=r"never seen in training.*strict checking refuses"):
        columns.load(path, strict=True)


def test_a_new_column_is_ignored_and_announced(write, columns):
    path = write("age,color,owner,price,size\n3,red,no,1,9\n")
    with pytest.warns(UserWarning, match="ignored columns never seen in training: size"):
        assert columns.load(path).X.shape == (1, 5)
    with pytest.raises(DataError, match="size"):
        columns.load(path, strict=True)


def test_a_text_in_a_column_of_numbers_is_refused_with_its_row(write, columns):
    with pytest.raises(DataError, match=r"row 2, column 'age' must be a number as in training; got 'old'"):
        columns.load(write("age,color,owner,price\n3,red,no,1\nold,red,no,1\n"))


# ------------------------------------------------------------------------------------------------- missing values

HOLES = "age,color,price\n3,red,1\n,red,2\n2,NA,3\n4,blue,4\n"


def test_a_missing_value_is_refused_with_row_and_column(write):
    with pytest.raises(DataError, match=r"row 2, column 'age' has no value: fill it in, or train with impute=True"):
        load_table(write(HOLES), "price")
    with pytest.raises(DataError, match=r"row 3, column 'color' has no value"):
        load_table(write(HOLES), "price", ignore=["age"])
    with pytest.raises(DataError, match=r"row 1, column 'y' has no value, and 1 more rows"):
        load_table(write("a,y\n1,\n2,NaN\n3,1\n"), "y", impute=True)


def test_imputed_values_are_the_mean_and_the_most_frequent_category_of_the_training_data(write):
    X, _, _, columns = load_table(write(HOLES), "price", impute=True)
    np.testing.assert_array_equal(X.toarray(), [[3, 0, 1], [3, 0, 1], [2, 0, 1], [4, 1, 0]])
    later = columns.load(write("age,color,price\n100,blue,1\n,,1\n"))
    np.testing.assert_array_equal(later.X.toarray(), [[100, 1, 0], [3, 0, 1]])


def test_nan_in_a_parquet_file_is_missing_too(tmp_path):
    pl.DataFrame({"a": [1.0, float("nan"), None], "y": [0, 1, 2]}).write_parquet(tmp_path / "a.parquet")
    with pytest.raises(DataError, match="row 2, column 'a' has no value, and 1 more rows"):
        load_table(tmp_path / "a.parquet", "y")
    assert load_table(tmp_path / "a.parquet", "y", impute=True).X.tolist() == [[1.0]] * 3


# ---------------------------------------------------------------------------------------------- what is no table


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "must be a table"),
        ("a,y\n", "holds no row"),
        ("a,y\n1,2,3\n", "rows of equal length"),
        ("a,b,y\n,1,2\n", "column 'a' holds no value"),
        ("y\n1\n", "no column left"),
        ("a,y\ninf,1\n", "row 1, column 'a' must be finite"),
        ("a,y\n" + "1,1\n" * 20 + "1.2.3,1\n", r"nearly all numbers; got '1\.2\.3'.*`categorical`"),
        (b"a,y\n\xff,1\n", "must be a table"),
    ],
)
def test_a_file_that_is_no_table_is_refused(write, text, message):
    with pytest.raises(DataError, match=message):
        load_table(write(text), "y")


def test_dates_are_refused_by_name(tmp_path):
    pl.DataFrame({"born": ["2001-01-01"], "y": [1]}).with_columns(pl.col("born").str.to_date()).write_parquet(
        tmp_path / "a.parquet"
    )
    with pytest.raises(DataError, match="'born' holds Date"):
        load_table(tmp_path / "a.parquet", "y")


@pytest.mark.parametrize("role", ["target", "group", "ignore", "categorical"])
def test_a_column_that_is_not_there_is_refused_with_the_nearest_name(write, role):
    named = {role: "prize" if role in ("target", "group") else ["prize"]}
    with pytest.raises(ParameterError, match=rf"`{role}` must name a column.*'prize'; did you mean price\?"):
        load_table(write(TEXT), **named)


def test_a_damaged_or_missing_file_says_so(write, tmp_path):
    with pytest.raises(DataError, match=r"cut\.csv\.gz"):
        load_table(write(gzip.compress(TEXT.encode())[:-9], "cut.csv.gz"), "price")
    with pytest.raises(DataError, match=r"bad\.parquet must be a table"):
        load_table(write("no", "bad.parquet"), "price")
    with pytest.raises(FileNotFoundError, match=r"none\.csv"):
        load_table(tmp_path / "none.csv", "price")


def test_without_polars_the_remedy_is_named(write, monkeypatch):
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(CapabilityError, match=r"pip install 'undercut\[frames\]'"):
        load_table(write(TEXT), "price")


def test_the_names_of_features_are_those_of_columns_and_categories():
    columns = TableColumns((Column("a"), Column("b", ("x", "y"))))
    assert columns.feature_names() == ["a", "b=x", "b=y"]
