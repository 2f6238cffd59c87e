"""Patterns that stand for several files, without a cluster."""

from __future__ import annotations

import json

import numpy as np
import pytest

from undercut import load_model

LINES = ["1 1:2 3:1\n", "-1 2:1\n", "1 1:1\n", "-1 2:2 3:0.5\n", "1 1:3 2:1\n", "-1 3:2\n"]


@pytest.fixture
def folder(tmp_path):
    """The same rows in two files, and in one."""
    (tmp_path / "part-0.svm").write_text("".join(LINES[:2]))
    (tmp_path / "part-1.svm").write_text("".join(LINES[2:]))
    (tmp_path / "all.rows").write_text("".join(LINES))
    return tmp_path


@pytest.mark.parametrize("options", [("--loss", "logistic"), ("--online", "--chunk-rows", "2", "--classes=-1,1")])
def test_the_rows_of_all_files_that_a_pattern_stands_for_are_learned(undercut, folder, options):
    for name, file in (("one", "all.rows"), ("other", "part-*.svm")):
        code, _, err = undercut("train", folder / file, "-o", folder / name, "--lambda", "0.1", *options)
        assert code == 0, err
    one, other = load_model(folder / "one"), load_model(folder / "other")
    np.testing.assert_array_equal(other.coef_, one.coef_)
    texts = [undercut("predict", folder / "one", folder / file)[1] for file in ("all.rows", "part-*.svm")]
    assert texts[0] == texts[1]
    scores = [undercut("evaluate", folder / "one", folder / file, "--json")[1] for file in ("all.rows", "part-*.svm")]
    assert json.loads(scores[0]) == json.loads(scores[1])


def test_indices_begin_at_zero_in_all_files_if_they_do_in_one(undercut, folder):
    (folder / "part-2.svm").write_text("1 0:1\n")
    assert undercut("train", folder / "part-*.svm", "-o", folder / "m", "--lambda", "0.1")[0] == 0
    assert load_model(folder / "m").n_features_in_ == 4


def test_tables_of_the_same_columns_are_one_table(undercut, tmp_path):
    rows = ["a,b\n", "1,2\n", "2,3.5\n", "4,5\n", "3,3\n"]
    (tmp_path / "part-0.csv").write_text("".join(rows[:3]))
    (tmp_path / "part-1.csv").write_text("".join([rows[0], *rows[3:]]))
    (tmp_path / "all.csv").write_text("".join(rows))
    for name, file in (("one", "all.csv"), ("other", "part-*.csv")):
        options = ("--target", "b", "--loss", "squared", "-o", tmp_path / name)
        assert undercut("train", tmp_path / file, *options)[0] == 0
    np.testing.assert_allclose(load_model(tmp_path / "other").coef_, load_model(tmp_path / "one").coef_)
    (tmp_path / "part-2.csv").write_text("a,c\n1,2\n")
    code, _, err = undercut("train", tmp_path / "part-*.csv", "--target", "b", "-o", tmp_path / "m")
    assert code == 1
    assert "all tables must have the same columns" in err


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("none-*", (), "a pattern must match at least one file"),
        ("part-*", ("--memory", "1GB"), "--memory is for one file, and"),
    ],
)
def test_a_pattern_that_cannot_be_read_says_why(undercut, folder, name, options, words):
    code, _, err = undercut("train", folder / name, "-o", folder / "m", *options)
    assert code in (1, 2)
    assert words in err


def test_files_with_and_without_queries_are_refused(undercut, folder):
    (folder / "part-2.svm").write_text("1 qid:1 1:1\n")
    code, _, err = undercut("train", folder / "part-*.svm", "-o", folder / "m")
    assert code == 1
    assert "qid must be in every file or in none" in err
