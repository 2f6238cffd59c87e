"""The OCR set: what a file says comes out, and what it may not say is named with its line."""

from __future__ import annotations

import bz2
import gzip

import numpy as np
import pytest

from undercut.errors import DataError
from undercut.io import load_ocr

PIXELS = np.random.default_rng(0).integers(0, 2, (5, 128))


def line(at, letter, next_id, word_id, position, fold, pixels=None, end="\t"):
    return (
        "\t".join(
            map(str, [at, letter, next_id, word_id, position, fold, *(PIXELS[at - 1] if pixels is None else pixels)])
        )
        + end
    )


GOOD = [
    line(1, "o", 2, 1, 1, 0),
    line(2, "m", 3, 1, 2, 0),
    line(3, "m", -1, 1, 3, 0),
    line(4, "a", -1, 2, 1, 9),
    line(5, "x", -1, 7, 4, 3, end=""),
]


def write(path, lines):
    path.write_text("\n".join(lines) + "\n")
    return path


def test_words_come_out_as_they_stand(tmp_path):
    words = load_ocr(write(tmp_path / "letter.data", GOOD))
    np.testing.assert_array_equal(words.X, PIXELS)
    assert words.X.dtype == np.float64
    assert words.y.tolist() == list("ommax")
    assert words.lengths.tolist() == [3, 1, 1]
    assert words.folds.tolist() == [0, 9, 3]


@pytest.mark.parametrize(("suffix", "opener"), [("gz", gzip.open), ("bz2", bz2.open)])
def test_compressed_files_are_read_as_they_are(tmp_path, suffix, opener):
    path = tmp_path / f"letter.data.{suffix}"
    with opener(path, "wt") as file:
        file.write("\r\n".join(GOOD))
    assert load_ocr(path).lengths.tolist() == [3, 1, 1]


def test_some_words_can_be_taken(tmp_path):
    words = load_ocr(write(tmp_path / "letter.data", GOOD))
    some = words.take(words.folds > 0)
    assert some.y.tolist() == ["a", "x"]
    np.testing.assert_array_equal(some.X, PIXELS[3:])
    assert some.lengths.tolist() == [1, 1]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([GOOD[0], "2\tm\t3"], r"letter\.data:2: a line must have 134 tab-separated fields; got 3"),
        ([""], r"letter\.data:1: a line must have 134"),
        ([line("1.0", "o", -1, 1, 1, 0, PIXELS[0])], r"letter\.data:1: id must be an integer; got '1\.0'"),
        ([line(1, "o", -1, 1, 1, "x")], r"letter\.data:1: fold must be an integer; got 'x'"),
        ([line(1, "om", -1, 1, 1, 0)], r"letter\.data:1: letter must be a single character; got 'om'"),
        ([line(1, "o", -1, 1, 1, 0, [*PIXELS[0][:-1], 2])], r"letter\.data:1: pixels must be 0 or 1; got '2'"),
        ([line(1, "o", -1, 1, 1, 0, [*PIXELS[0][:-1], "0.5"])], r"letter\.data:1: pixels must be 0 or 1; got '0\.5'"),
        ([GOOD[0], GOOD[2]], r"letter\.data:2: id must be the next_id of the line before, 2; got 3"),
        ([GOOD[0], line(2, "m", -1, 2, 2, 0)], r"letter\.data:2: a word has word_id 1 and fold 0 on all of its lines"),
        ([GOOD[0], line(2, "m", -1, 1, 2, 1)], r"letter\.data:2: a word has word_id 1 and fold 0 on all of its lines"),
        ([GOOD[0], line(2, "m", -1, 1, 3, 0)], r"letter\.data:2: position must be 2 after 1; got 3"),
        (GOOD[:2], r"letter\.data:2: the last word must end with next_id -1; got 3"),
    ],
)  # fmt: skip
def test_a_line_that_breaks_a_rule_is_named(tmp_path, lines, message):
    with pytest.raises(DataError, match=message):
        load_ocr(write(tmp_path / "letter.data", lines))


def test_files_that_are_empty_binary_or_cut_are_refused(tmp_path):
    path = tmp_path / "letter.data"
    path.write_bytes(b"")
    with pytest.raises(DataError, match="holds no letter"):
        load_ocr(path)
    path.write_bytes(b"\xff\xfe1\t")
    with pytest.raises(DataError, match="must be ASCII text"):
        load_ocr(path)
    path.write_bytes(gzip.compress("\n".join(GOOD).encode())[:-20])
    with pytest.raises(DataError, match="must be complete"):
        load_ocr(path)
    with pytest.raises(FileNotFoundError):
        load_ocr(tmp_path / "none")
