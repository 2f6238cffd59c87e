"""Files divided into ranges of bytes: every line is read once, whatever the cuts are."""

from __future__ import annotations

import bz2
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from undercut.errors import DataError, ParameterError
from undercut.io import ByteRange, byte_ranges, load_svmlight, svmlight_reader

LINES = ["1 1:0.5 3:2\r\n", "# a comment\n", "\n", "-1\n", "   2 7:1e3 # remark\n", "3 2:-1\n"]
TEXTS = st.tuples(st.lists(st.sampled_from(LINES), max_size=12).map("".join), st.booleans())


@settings(deadline=None, database=None, max_examples=60)
@given(text=TEXTS, cuts=st.lists(st.integers(0, 120), max_size=6), block_bytes=st.sampled_from([1, 5, 1000]))
def test_any_cuts_give_every_row_once_and_in_order(tmp_path_factory, text, cuts, block_bytes):
    content = text[0].removesuffix("\n") if text[1] else text[0]
    path = tmp_path_factory.mktemp("cuts") / "data.svm"
    path.write_text("0 9:1\n" + content, newline="")
    edges = [0, *sorted(cuts), 1000]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(svmlight_reader, "BLOCK_BYTES", block_bytes)
        parts = [load_svmlight(path, n_features=9, zero_based=False, byte_range=cut) for cut in pairwise(edges)]
    whole = load_svmlight(path, n_features=9)
    np.testing.assert_array_equal(np.concatenate([part.y for part in parts]), whole.y)
    np.testing.assert_array_equal(np.vstack([part.X.toarray() for part in parts]), whole.X.toarray())


def test_a_row_belongs_to_the_range_that_its_first_byte_lies_in(tmp_path):
    path = tmp_path / "data.svm"
    path.write_text("1 1:1\n2 1:2\n")  # lines begin at bytes 0 and 6
    for start, stop, labels in [(0, 1, [1]), (0, 6, [1]), (0, 7, [1, 2]), (1, 6, []), (6, 7, [2]), (7, 99, [])]:
        assert load_svmlight(path, zero_based=False, byte_range=(start, stop)).y.tolist() == labels


def test_an_error_in_a_range_names_the_line_of_the_file(tmp_path):
    path = tmp_path / "data.svm"
    path.write_text("1 1:1\n1 1:1\n1 1:1\nbad\n")
    with pytest.raises(DataError, match=r"data\.svm:4: label must be a number"):
        load_svmlight(path, zero_based=False, byte_range=(13, 100))


def test_a_plain_file_is_divided_evenly_and_a_compressed_one_is_not(tmp_path):
    plain, packed = tmp_path / "data.svm", tmp_path / "data.svm.bz2"
    plain.write_bytes(b"1 1:1\n" * 10)
    packed.write_bytes(bz2.compress(b"1 1:1\n" * 10))
    assert byte_ranges(plain, 3) == [ByteRange(0, 20), ByteRange(20, 40), ByteRange(40, 60)]
    assert byte_ranges(packed, 3) == [None]
    with pytest.raises(DataError, match="only a plain file can be read between two positions"):
        load_svmlight(packed, zero_based=False, byte_range=(0, 20))


@pytest.mark.parametrize(("byte_range", "zero_based"), [((5, 2), False), ((-1, 2), False), ((0, 2), "auto")])
def test_ranges_that_mean_nothing_are_refused(tmp_path, byte_range, zero_based):
    path = tmp_path / "data.svm"
    path.write_text("1 1:1\n")
    with pytest.raises(ParameterError, match="must"):
        load_svmlight(path, zero_based=zero_based, byte_range=byte_range)
