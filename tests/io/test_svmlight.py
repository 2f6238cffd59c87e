"""Reading SVMlight files: agreement with scikit-learn and ``float()``, and a line number for every refusal."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import pathlib
import re
import sys
import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings, strategies as st
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

from undercut._jit import svmlight as kernel
from undercut.errors import DataError, ParameterError
from undercut.io import SvmlightData, iter_svmlight, load_svmlight, svmlight_reader
from undercut.io.reading import watch_reading

COMPRESS = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}
QUICK = settings(deadline=None, database=None)
BLOCK_SIZES = [1, 2, 7, 64, 1000]
ODD_BUT_VALID = (
    "# a comment: with 1:2 colons\n"
    "\n"
    "+1 1:0.5\t3:2e-1   # qid:7\r\n"
    "  -1\r\n"
    " \t \n"
    "2.5 2:-1E+2 3:.5#tight\n"
    "#\n"
    "0\t3:5.\n"
    "-3e0 1:1 2:-0 10:0"
)


@pytest.fixture
def write(tmp_path):
    def write(content: str | bytes, name: str = "data.svm") -> pathlib.Path:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


def random_file(seed: int, with_qid: bool, zero_based: bool) -> bytes:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(40, 17)) * 10.0 ** rng.integers(-30, 30, (40, 17)) * (rng.random((40, 17)) < 0.3)
    X[5] = 0.0
    X[3, 0] = 1.0
    qid = np.sort(rng.integers(0, 5, 40)) if with_qid else None
    file = io.BytesIO()
    dump_svmlight_file(X, rng.normal(size=40), file, zero_based=zero_based, query_id=qid, comment="random")
    return file.getvalue()


def assert_same(a: SvmlightData, b: SvmlightData) -> None:
    assert a.X.shape == b.X.shape
    assert a.X.data.dtype == b.X.data.dtype
    np.testing.assert_array_equal(a.X.indptr, b.X.indptr)
    np.testing.assert_array_equal(a.X.indices, b.X.indices)
    np.testing.assert_array_equal(a.X.data, b.X.data)
    np.testing.assert_array_equal(a.y, b.y)
    assert (a.qid is None) == (b.qid is None)
    if a.qid is not None:
        np.testing.assert_array_equal(a.qid, b.qid)


def joined(chunks: list[SvmlightData]) -> SvmlightData:
    qid = None if chunks[0].qid is None else np.concatenate([chunk.qid for chunk in chunks])
    X = sp.csr_matrix(sp.vstack([chunk.X for chunk in chunks], format="csr"))
    return SvmlightData(X, np.concatenate([chunk.y for chunk in chunks]), qid)


# What is read


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("with_qid", [False, True])
@pytest.mark.parametrize("zero_based", [False, True])
def test_agrees_with_scikit_learn(write, seed, with_qid, zero_based):
    path = write(random_file(seed, with_qid, zero_based))
    X, y, *qid = load_svmlight_file(str(path), query_id=with_qid)
    assert_same(load_svmlight(path), SvmlightData(sp.csr_matrix(X), y, qid[0] if qid else None))


@pytest.mark.parametrize("block_bytes", BLOCK_SIZES)
@pytest.mark.parametrize("with_qid", [False, True])
def test_lines_may_straddle_blocks(write, monkeypatch, block_bytes, with_qid):
    for content in (random_file(0, with_qid, False), ODD_BUT_VALID):
        path = write(content)
        whole = load_svmlight(path)
        with monkeypatch.context() as patch:
            patch.setattr(svmlight_reader, "BLOCK_BYTES", block_bytes)
            assert_same(load_svmlight(path), whole)


def test_comments_blanks_carriage_returns_and_a_missing_final_newline(write):
    X, y, qid = load_svmlight(write(ODD_BUT_VALID))
    expected = np.zeros((5, 10))
    expected[0, [0, 2]] = 0.5, 0.2
    expected[2, [1, 2]] = -100.0, 0.5
    expected[3, 2] = 5.0
    expected[4, 0] = 1.0
    np.testing.assert_array_equal(X.toarray(), expected)
    np.testing.assert_array_equal(y, [1.0, -1.0, 2.5, 0.0, -3.0])
    assert qid is None
    assert X.nnz == 8  # written zeros are stored


@pytest.mark.parametrize("suffix", COMPRESS)
@pytest.mark.parametrize("named", [True, False])
def test_compressed_files_are_known_by_name_and_by_content(write, suffix, named):
    content = random_file(1, True, False)
    path = write(COMPRESS[suffix](content), "data.svm" + (suffix if named else ""))
    assert_same(load_svmlight(path), load_svmlight(write(content, "plain.svm")))


def test_files_of_several_compressed_members_are_read_to_the_end(write):
    path = write(gzip.compress(b"1 1:1\n-1 2") + gzip.compress(b":1\n"), "data.svm.gz")
    assert load_svmlight(path).X.shape == (2, 2)


def test_a_byte_order_mark_is_skipped(write):
    np.testing.assert_array_equal(load_svmlight(write(b"\xef\xbb\xbf1 1:2\n")).y, [1.0])


def test_index_zero_anywhere_makes_the_file_zero_based(write):
    assert load_svmlight(write("1 1:1\n1 3:1\n")).X.shape == (2, 3)
    assert load_svmlight(write("1 1:1\n1 0:2 3:1\n")).X.shape == (2, 4)
    assert load_svmlight(write("1 1:1\n1 3:1\n"), zero_based=True).X.shape == (2, 4)


def test_n_features_sets_the_width(write):
    path = write("1 1:1\n1 3:1\n")
    assert load_svmlight(path, n_features=7).X.shape == (2, 7)
    assert load_svmlight(path, n_features=np.int32(3)).X.shape == (2, 3)
    assert load_svmlight(path, n_features=2**31 + 5).X.indices.dtype == np.int64


def test_files_without_features_have_width_zero(write):
    X, y, _ = load_svmlight(write("1\n-1\n"))
    assert X.shape == (2, 0)
    assert y.size == 2


def test_arrays_have_the_promised_types(write):
    X, y, qid = load_svmlight(write("1 qid:-3 1:0.1\n1 qid:123456789012345678 2147483647:1\n"), dtype=np.float32)
    assert isinstance(X, sp.csr_matrix)
    assert (X.dtype, X.indices.dtype, X.indptr.dtype) == (np.float32, np.int32, np.int32)
    assert X[0, 0] == np.float32(0.1)
    assert (y.dtype, qid.dtype) == (np.float64, np.int64)
    assert qid.tolist() == [-3, 123456789012345678]
    assert X.has_canonical_format


def test_one_compilation_serves_every_call(write):
    path = write(ODD_BUT_VALID)
    load_svmlight(path, n_features=np.int16(20), dtype=np.float32)
    list(iter_svmlight(path, chunk_rows=np.int32(2), n_features=10))
    assert len(kernel.parse_rows.signatures) == 1


# Numbers


def spellings(x: float) -> list[str]:
    return [repr(x), f"{x:.17g}", f"{x:.16e}", f"{x:.18E}", f"{x:.30e}", f"{x:.6g}", f"{x:+.40e}"]


def assert_read_like_float(tmp_path: pathlib.Path, tokens: list[str]) -> None:
    path = tmp_path / "numbers.svm"
    path.write_text("".join(f"{token} 1:{token}\n" for token in tokens))
    X, y, _ = load_svmlight(path)
    expected = np.array([float(token) for token in tokens])
    np.testing.assert_array_equal(y.view(np.int64), expected.view(np.int64))
    np.testing.assert_array_equal(X.data.view(np.int64), expected.view(np.int64))


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=20))
@QUICK
def test_floats_are_rounded_like_float(tmp_path_factory, numbers):
    tokens = [token for x in numbers for token in spellings(x) if np.isfinite(float(token))]
    assert_read_like_float(tmp_path_factory.getbasetemp(), tokens)


@given(
    st.lists(st.from_regex(r"[+-]?(\d{1,30}(\.\d{0,30})?|\.\d{1,30})([eE][+-]?\d{1,3})?", fullmatch=True), min_size=1)
)
@QUICK
def test_decimals_are_rounded_like_float(tmp_path_factory, tokens):
    tokens = [token for token in tokens if token.isascii() and np.isfinite(float(token))]
    assert_read_like_float(tmp_path_factory.getbasetemp(), tokens or ["0"])


@given(st.integers(2**52, 2**53 - 1), st.integers(0, 60), st.integers(-1, 1))
@QUICK
def test_decimals_at_and_next_to_a_tie_are_rounded_like_float(tmp_path_factory, mantissa, k, nudge):
    """2m + 1 lies half-way between two doubles, and so do its multiples by 2^k and by 2^-k = 5^k 10^-k."""
    tie = 2 * mantissa + 1
    tokens = [f"{tie * 2**k + nudge}", f"{tie * 5**k + nudge}e-{k}", f"-{tie * 5**k}{nudge + 1}e-{k + 1}"]
    assert_read_like_float(tmp_path_factory.getbasetemp(), tokens)


def test_hard_numbers_are_rounded_like_float(tmp_path):
    hard = ["9007199254740993", "9007199254740993.0000000000000001", "1e-400", "4.9e-324", "2.4703282292062327e-324"]
    hard += ["1.7976931348623157e308", "2.2250738585072011e-308", "1e23", "8.5e22", "0e999999999999999999999", "-0"]
    hard += ["0." + "0" * 400 + "1", "1" + "0" * 300 + ".5", "0.1" + "0" * 500 + "1", "00000000000000000000000012"]
    assert_read_like_float(tmp_path, hard)


# Chunks


@pytest.mark.parametrize("chunk_rows", [1, 3, 40, 1000])
@pytest.mark.parametrize("block_bytes", [16, 500, 1 << 20])
@pytest.mark.parametrize("with_qid", [False, True])
def test_chunks_join_to_the_whole(write, monkeypatch, chunk_rows, block_bytes, with_qid):
    monkeypatch.setattr(svmlight_reader, "BLOCK_BYTES", block_bytes)
    path = write(random_file(2, with_qid, False))
    chunks = list(iter_svmlight(path, chunk_rows=chunk_rows, n_features=17))
    assert [chunk.y.size for chunk in chunks] == [min(chunk_rows, 40 - i) for i in range(0, 40, chunk_rows)]
    assert_same(joined(chunks), load_svmlight(path, n_features=17))


def test_chunks_take_the_width_of_the_first(write):
    path = write("1 4:1\n1 2:1\n# comment\n1 3:1\n1\n")
    assert [chunk.X.shape for chunk in iter_svmlight(path, chunk_rows=2)] == [(2, 4), (2, 4)]
    assert [chunk.X.shape for chunk in iter_svmlight(path, chunk_rows=3, zero_based=True)] == [(3, 5), (1, 5)]


def test_rows_before_a_malformed_one_are_delivered(write):
    chunks = iter_svmlight(write("1 1:1\n1 1:2\n1 1:x\n"), chunk_rows=1)
    assert [next(chunks).X[0, 0], next(chunks).X[0, 0]] == [1.0, 2.0]
    with pytest.raises(DataError, match=r"data\.svm:3: "):
        next(chunks)


def test_chunks_grow_with_the_largest_index_so_far(write):
    chunks = iter_svmlight(write("1 2:1\n\n1 1:1\n1 3:1\n1 1:1\n"), chunk_rows=1)
    assert [chunk.X.shape for chunk in chunks] == [(1, 2), (1, 2), (1, 3), (1, 3)]


def test_a_file_without_labels_has_the_features_of_the_one_with_labels(write):
    text = "# a comment\n1 1:0.5 3:2 # more\n\n-1 2:1\n  1 1:7\n"
    same = load_svmlight(write(text))
    bare = load_svmlight(write(re.sub(r"(?m)^( *)-?1 ", r"\1", text)), labelled=False)
    assert (bare.X != same.X).nnz == 0
    assert bare.y.tolist() == [0.0, 0.0, 0.0]


def test_an_error_in_a_file_without_labels_names_its_line(write, monkeypatch):
    monkeypatch.setattr(svmlight_reader, "BLOCK_BYTES", 8)
    with pytest.raises(DataError, match=r"data\.svm:4: .*got 'x'"):
        load_svmlight(write("1:1\n2:1\n\n3:x\n"), labelled=False)


@pytest.mark.parametrize("suffix", ["", ".gz", ".bz2"])
def test_a_watcher_sees_the_stored_bytes_of_a_file_go_by(tmp_path, suffix):
    opener = {"": open, ".gz": gzip.open, ".bz2": bz2.open}[suffix]
    path = tmp_path / f"data.svm{suffix}"
    with opener(path, "wb") as file:
        file.write(b"1 1:0.5\n" * 100_000)
    seen = []
    with watch_reading(lambda done, total: seen.append((done, total))):
        load_svmlight(path)
    size = path.stat().st_size
    assert seen == sorted(seen)
    assert seen[-1] == (size, size)


def test_a_dash_is_standard_input(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(gzip.compress(b"1 2:3\n")))))
    assert load_svmlight("-").X.toarray().tolist() == [[0.0, 3.0]]


def test_index_zero_in_chunks_is_refused_with_the_remedy(write):
    with pytest.raises(DataError, match=r"data\.svm:2: .* >= 1; got 0; pass zero_based=True"):
        list(iter_svmlight(write("1 1:1\n1 0:1\n"), chunk_rows=5))


def test_chunks_need_little_memory(write, monkeypatch):
    monkeypatch.setattr(svmlight_reader, "BLOCK_BYTES", 1 << 12)
    path = write("1 1:0.25 2:0.5 3:0.75\n" * 150_000)
    n_rows = sum(chunk.y.size for chunk in iter_svmlight(path, chunk_rows=10_000))  # compiled and imported by now
    tracemalloc.start()
    try:
        n_rows += sum(chunk.y.size for chunk in iter_svmlight(path, chunk_rows=100))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert n_rows == 300_000
    assert peak < path.stat().st_size / 5


def test_an_abandoned_iterator_closes_its_file(write):
    chunks = iter_svmlight(write("1 1:1\n1 1:2\n"), chunk_rows=1)
    next(chunks)
    chunks.close()  # an open file would warn, and warnings are errors


# What is refused

MALFORMED = {
    "abc 1:1": "label must be a number such as 1, -0.5 or 2e-3; got 'abc'",
    "1_0 1:1": "label must be a number such as 1, -0.5 or 2e-3; got '1_0'",
    "0x10 1:1": "label must be a number such as 1, -0.5 or 2e-3; got '0x10'",
    "1e 1:1": "label must be a number such as 1, -0.5 or 2e-3; got '1e'",
    "- 1:1": "label must be a number such as 1, -0.5 or 2e-3; got '-'",
    "\x0b1 1:1": "label must be a number such as 1, -0.5 or 2e-3; got '\\x0b1'",
    "nan 1:1": "label must be finite; got 'nan'",
    "-inf 1:1": "label must be finite; got '-inf'",
    "1e400 1:1": "label must be finite; got '1e400'",
    "1,2 3:4": "label must be a single number; got '1,2'; multi-label files are not supported",
    "1:2 3:4": "label must be a number; got '1:2'; start every line with its label",
    "1 2": "feature must be written index:value; got '2'",
    "1 abc": "feature must be written index:value; got 'abc'",
    "1 2 :3": "feature must be written index:value; got '2'",
    "1 abc:1": "feature index must be an integer >= 1; got 'abc'",
    "1 :1": "feature index must be an integer >= 1; got ''",
    "1 1.5:1": "feature index must be an integer >= 1; got '1.5'",
    "1 -3:1": "feature index must be an integer >= 1; got '-3'",
    "1 \u0663:1": "feature index must be an integer >= 1; got '\u0663'",
    "1 0:1": "feature index must be an integer >= 1; got 0; pass zero_based=True if 0 is meant",
    "1 2147483648:1": "feature index must be at most 2147483647; got '2147483648'",
    "1 99999999999999999999999:1": "feature index must be at most 2147483647; got '99999999999999999999999'",
    "1 2:x": "feature value must be a number such as 1, -0.5 or 2e-3; got 'x'",
    "1 2:": "feature value must be a number such as 1, -0.5 or 2e-3; got ''",
    "1 2: 3": "feature value must be a number such as 1, -0.5 or 2e-3; got ''",
    "1 2:.": "feature value must be a number such as 1, -0.5 or 2e-3; got '.'",
    "1 2:3:4": "feature value must be a number such as 1, -0.5 or 2e-3; got '3:4'",
    "1 2:1e+": "feature value must be a number such as 1, -0.5 or 2e-3; got '1e+'",
    "1 2:" + "x" * 99: "feature value must be a number such as 1, -0.5 or 2e-3; got '" + "x" * 40 + "...'",
    "1 2:nan": "feature value must be finite; got 'nan'",
    "1 2:Infinity": "feature value must be finite; got 'Infinity'",
    "1 2:1 3:-1e309": "feature value must be finite; got '-1e309'",
    "1 3:1 2:1": "feature indices must increase within a line; got '2:1' after '3:1'",
    "1 3:1\t3:2": "feature indices must increase within a line; got '3:2' after '3:1'",
    "1 qid:1 2:1": "qid must be on every line or on none; got a line with it",
    "1 2:1 qid:1": "qid must occur once, right after the label; got 'qid:1'",
}


@pytest.mark.parametrize("block_bytes", [5, 1 << 20])
@pytest.mark.parametrize("line", MALFORMED)
def test_a_malformed_line_is_named(write, monkeypatch, line, block_bytes):
    monkeypatch.setattr(svmlight_reader, "BLOCK_BYTES", block_bytes)
    path = write(f"# header\n1 1:1\n\n-1\n{line}\n1 1:1\n")
    expected = re.escape(f"data.svm:5: {MALFORMED[line]}") + "$"
    with pytest.raises(DataError, match=expected):
        load_svmlight(path, zero_based=False)
    with pytest.raises(DataError, match=expected):
        list(iter_svmlight(path, chunk_rows=1, n_features=10))


@pytest.mark.parametrize("qid", ["", "x", "1.5", "1e3", "+1", "-", "1234567890123456789"])
def test_a_qid_that_is_no_integer_is_refused(write, qid):
    message = re.escape(f"data.svm:2: qid must be an integer of at most 18 digits; got 'qid:{qid}'")
    with pytest.raises(DataError, match=message):
        load_svmlight(write(f"1 qid:1 1:1\n1 qid:{qid} 1:1"))


def test_a_missing_qid_is_refused(write):
    with pytest.raises(DataError, match=r"data\.svm:3: qid must .* none; got a line without it"):
        list(iter_svmlight(write("1 qid:1 1:1\n1 qid:1\n1 1:1\n"), chunk_rows=1))


@pytest.mark.parametrize(
    ("zero_based", "content", "message"),
    [
        (
            False,
            "1 2:1\n1 3:1\n",
            "data.svm:2: feature index must be at most 2 (n_features=2); got 3; pass n_features=3",
        ),
        (
            True,
            "1 1:1\n1 2:1\n",
            "data.svm:2: feature index must be at most 1 (n_features=2); got 2; pass n_features=3",
        ),
        (
            "auto",
            "1 2:1\n1 3:1\n",
            "data.svm:2: feature index must be at most 2 (n_features=2); got 3; pass n_features=3",
        ),
        (
            "auto",
            "1\n1 2:1\n1 0:1",
            "data.svm:2: feature index must be at most 1 (n_features=2); got 2; pass n_features=3",
        ),
    ],
)
def test_an_index_beyond_n_features_is_refused(write, zero_based, content, message):
    with pytest.raises(DataError, match=re.escape(message)):
        load_svmlight(write(content), n_features=2, zero_based=zero_based)


@pytest.mark.parametrize("value", ["1e39", "-1" + "0" * 39 + ".00000000000000000000001", "1e200"])
def test_a_value_too_large_for_float32_is_refused(write, value):
    path = write(f"1e39\n1 1:{value}\n")
    assert load_svmlight(path).X[1, 0] == float(value)
    with pytest.raises(
        DataError, match=r"data\.svm:2: feature value must be at most 3\.4028235e\+38 .* pass dtype=float"
    ):
        load_svmlight(path, dtype=np.float32)


@pytest.mark.parametrize("content", ["", "\n\n", "# nothing\n  # here", " "])
def test_a_file_without_samples_is_refused(write, content):
    path = write(content)
    for read in (load_svmlight, lambda path: list(iter_svmlight(path, chunk_rows=2))):
        with pytest.raises(DataError, match=r"data\.svm: holds no sample"):
            read(path)


def test_a_missing_file_is_not_found(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"none\.svm"):
        load_svmlight(tmp_path / "none.svm")


@pytest.mark.parametrize("suffix", COMPRESS)
def test_truncated_and_damaged_archives_are_refused(write, suffix):
    archive = COMPRESS[suffix](random_file(0, False, False))
    middle = len(archive) // 2
    damaged = archive[:middle] + bytes(255 - byte for byte in archive[middle : middle + 8]) + archive[middle + 8 :]
    for content in (archive[:-10], archive[:middle], damaged, b"1 1:1\n" * 10):
        path = write(content, "data.svm" + suffix)
        with pytest.raises(DataError, match=rf"data\.svm{re.escape(suffix)}: compressed data must be complete"):
            load_svmlight(path)


def test_binary_files_are_refused(write):
    with pytest.raises(DataError, match=r"data\.svm: must be text, .* byte 6 is zero"):
        load_svmlight(write(b"1 1:1\n\x00\x01\x02"))
    with pytest.raises(DataError, match=r"data\.svm: must be text, .* byte 3 is zero"):
        load_svmlight(write("1 1:1\n".encode("utf-16")))
    with pytest.raises(DataError, match=r"data\.svm:1: label must be a number"):
        load_svmlight(write(b"\x89PNG\xff\n"))


@given(st.lists(st.sampled_from([*b"01q:i d#.e-+,\n\r\t9\x0b\xff"]), max_size=80).map(bytes), st.integers(1, 9))
@QUICK
def test_any_text_is_read_or_refused(tmp_path_factory, content, block_bytes):
    path = tmp_path_factory.getbasetemp() / "any.svm"
    path.write_bytes(content)
    outcomes = []
    for size in (block_bytes, 1 << 20):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(svmlight_reader, "BLOCK_BYTES", size)
            try:
                X, y, qid = load_svmlight(path)
                X.check_format(full_check=True)
                outcomes.append((X.toarray().tolist() if X.shape[1] < 1000 else X.nnz, y.tolist(), qid is None))
            except DataError as error:
                outcomes.append(str(error))
    assert outcomes[0] == outcomes[1]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"zero_based": "yes"}, "zero_based must be"),
        ({"n_features": 0}, "n_features must be at least 1; got 0"),
        ({"dtype": np.int64}, "dtype must be float64 or float32; got int64"),
    ],
)
def test_settings_outside_their_domain_are_refused(tmp_path, settings, message):
    with pytest.raises(ParameterError, match=message):
        load_svmlight(tmp_path / "none.svm", **settings)
    with pytest.raises(ParameterError, match=message):
        iter_svmlight(tmp_path / "none.svm", chunk_rows=2, **settings)


def test_chunks_refuse_auto_and_empty_chunks(tmp_path):
    with pytest.raises(ParameterError, match=r"zero_based must be True or False .* got 'auto'"):
        iter_svmlight(tmp_path / "none.svm", chunk_rows=2, zero_based="auto")
    with pytest.raises(ParameterError, match="chunk_rows must be at least 1; got 0"):
        iter_svmlight(tmp_path / "none.svm", chunk_rows=0)
