"""Damaged and hostile model files end in an error: no crash, no large allocation, no code run, no wrong model.

Changes without a new checksum are accidents; those under a checksum that fits are somebody's intention.
"""

import json
import random
import struct
import tracemalloc
import warnings

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline
from tests.model_files import edited, resealed

from undercut import KernelClassifier, LinearClassifier, OnlineClassifier, SequenceLabeler, load_model, save_model
from undercut.errors import ModelFileError
from undercut.io import TableColumns, packing
from undercut.io.tables import Column
from undercut.maps.templates import TemplateFeatures

MEGABYTES = 32  # more than any of these small files may ask for
WORDS = [[(f"w{t % 40}", "DT"), (f"x{t}", "NN")] for t in range(40)]
ABSURD = [-1, 0, 1.5, 10**5, 2**31, 2**53, 2**63, 10**30, -(2**62), float("nan"), float("inf"), None, "x", [], {}, True]


def models():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((40, 3)), np.arange(40) % 3
    wide = np.zeros((40, 300))
    wide[np.arange(40), np.arange(40)] = 1.0
    texts = [f"word{t} word{t + 1} spam{t % 3}" for t in range(80)]
    yield "wide", LinearClassifier(penalty="l1", lam=1e-3).fit(wide, y)
    table = LinearClassifier().fit(X, y)
    table.table_ = TableColumns((Column("a"), Column("b", ("x", "y"), "x")), target="c")
    yield "table", table
    yield "kernel", KernelClassifier(class_weight={0: 1.0, 1: 2.0, 2: 1.0}).fit(X, y)
    yield "stream", OnlineClassifier().partial_fit(X, y, classes=[0, 1, 2])
    yield "words", SequenceLabeler(features=TemplateFeatures(["word[0]"]), max_steps=20).fit(WORDS, [["a", "b"]] * 40)
    yield "pipeline", make_pipeline(TfidfVectorizer(), LinearClassifier()).fit(texts, np.arange(80) % 3)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    contents = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, model in models():
            save_model(model, folder / "model.uc")
            contents[name] = (folder / "model.uc").read_bytes()
    return contents


@pytest.fixture
def load(tmp_path):
    """Load these bytes as a file."""

    def loaded(content):
        (tmp_path / "model.uc").write_bytes(content)
        return load_model(tmp_path / "model.uc")

    return loaded


@pytest.fixture
def little_memory():
    """Fail if Python and NumPy allocate much."""
    tracemalloc.start()
    yield
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < MEGABYTES << 20


def refused(load, content):
    with pytest.raises(ModelFileError, match=r"model\.uc is not a model file of undercut, or is damaged: "):
        load(content)


NAMES = ["wide", "table", "kernel", "stream", "words", "pipeline"]


@pytest.mark.parametrize("name", NAMES)
def test_every_flipped_bit_is_noticed(load, files, name):
    whole, rng = files[name], random.Random(0)
    for _ in range(400):
        damaged = bytearray(whole)
        for _ in range(rng.choice([1, 1, 1, 5])):
            damaged[rng.randrange(len(whole))] ^= 1 << rng.randrange(8)
        if damaged != whole:
            refused(load, damaged)


@pytest.mark.parametrize("name", NAMES)
def test_a_file_that_is_cut_or_longer_or_has_lost_its_middle_is_refused(load, files, name):
    whole, rng = files[name], random.Random(1)
    for _ in range(150):
        low, high = sorted(rng.sample(range(len(whole)), 2))
        refused(load, whole[:low])
        refused(load, whole[:low] + whole[high:])
    for more in (b"\0", whole, b"}" * 100):
        refused(load, whole + more)


def places(header, path=()):
    """Every place in a header."""
    items = header.items() if isinstance(header, dict) else enumerate(header) if isinstance(header, list) else ()
    for key, value in items:
        yield (*path, key)
        yield from places(value, (*path, key))


def put(header, path, value):
    for key in path[:-1]:
        header = header[key]
    header[path[-1]] = value


def predict(model, name):
    """Use a model that was let in; it may refuse."""
    X = {"words": WORDS, "pipeline": ["word1 spam2", "other"], "wide": np.zeros((2, 300))}.get(name, np.ones((2, 3)))
    try:
        with np.errstate(all="ignore"):
            model.predict(X)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        return


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.usefixtures("little_memory")
def test_a_header_with_absurd_values_is_refused_or_harmless(load, files, name):
    """Some values are settings that the rest of the file does not contradict, such as another ``lam``."""
    whole, rng = files[name], random.Random(2)
    header = header_of(whole)
    where = [path for path in places(header) if path[0] != "checksum"]
    n_refused = 0
    for _ in range(80):
        path, value = rng.choice(where), rng.choice(ABSURD)
        try:
            with warnings.catch_warnings(action="ignore"):  # another version of scikit-learn
                model = load(edited(whole, lambda header, path=path, value=value: put(header, path, value)))
        except ModelFileError:
            n_refused += 1
        else:
            predict(model, name)
    assert n_refused > 40


def header_of(content):
    (size,) = struct.unpack("<Q", content[:8])
    return json.loads(json.loads(content[8 : 8 + size])["__metadata__"]["undercut"])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.usefixtures("little_memory")
def test_arrays_that_were_changed_on_purpose_are_refused_or_harmless(load, files, name):
    whole, rng = files[name], random.Random(3)
    (size,) = struct.unpack("<Q", whole[:8])
    for _ in range(60):
        changed = bytearray(whole)
        for _ in range(rng.choice([1, 8])):
            changed[rng.randrange(8 + size, len(whole))] = rng.choice([0, 1, 127, 128, 255])
        try:
            model = load(resealed(bytes(changed)))
        except ModelFileError:
            continue
        predict(model, name)


def tables(content, change):
    """The bytes of a file whose table of arrays lies, under a checksum that fits."""
    (size,) = struct.unpack("<Q", content[:8])
    outer = json.loads(content[8 : 8 + size])
    for name, record in outer.items():
        if name != "__metadata__":
            change(record)
    text = json.dumps(outer, separators=(",", ":")).encode()
    return resealed(struct.pack("<Q", len(text)) + text + content[8 + size :])


@pytest.mark.parametrize(
    "change",
    [
        lambda record: record.update(shape=[2**40]),
        lambda record: record.update(shape=[2**63, 2**63]),
        lambda record: record.update(shape=[-1]),
        lambda record: record.update(data_offsets=[0, 2**50]),
        lambda record: record.update(data_offsets=[8, 0]),
        lambda record: record.update(dtype="F128"),
        lambda record: record.update(dtype="F16"),
        lambda record: record.clear(),
    ],
)
@pytest.mark.usefixtures("little_memory")
def test_arrays_of_absurd_shapes_are_refused(load, files, change):
    refused(load, tables(files["wide"], change))


@pytest.mark.parametrize(
    "record",
    [
        {"shape": [3, 10**12]},
        {"shape": [2**31, 2**31, 2**31]},
        {"shape": [-3, -300]},
        {"shape": [3, 299]},
        {"shape": "33"},
        {"dtype": "object"},
        {"dtype": "V8"},
        {"dtype": "float32"},
        {"as": "pickle"},
    ],
)
@pytest.mark.usefixtures("little_memory")
def test_packed_arrays_that_claim_more_than_the_file_holds_are_refused(load, files, record):
    assert "coef_" in header_of(files["wide"])["packed"]
    refused(load, edited(files["wide"], lambda header: header["packed"]["coef_"].update(record)))


def test_a_compressed_array_cannot_ask_for_much_memory(monkeypatch):
    monkeypatch.setattr(packing, "FREE_BYTES", 1 << 16)
    records, _ = packing.packed({"zeros": np.zeros(10**6, np.int64)})
    assert not records  # it would be refused later
    with pytest.raises(ValueError, match="too large for what the file holds"):
        packing.unpacked({"a": {"as": "bytes", "dtype": "int64", "shape": [10**9]}}, {"a|bytes": np.zeros(9, np.uint8)})


@pytest.mark.parametrize("depth", [100, 2_000, 100_000])
@pytest.mark.parametrize("tag", ["list", "object", "labels", "transformer"])
@pytest.mark.usefixtures("little_memory")
def test_deeply_nested_headers_are_refused(load, files, depth, tag):
    opening, closing = (b'{\\"%s\\": [' % tag.encode()), b"]}"
    (size,) = struct.unpack("<Q", files["wide"][:8])
    text, rest = files["wide"][8 : 8 + size], files["wide"][8 + size :]
    start = text.index(b'\\"classes_\\": ') + len(b'\\"classes_\\": ')
    end = text.index(b', \\"coef_')
    text = text[:start] + opening * depth + closing * depth + text[end:]
    refused(load, resealed(struct.pack("<Q", len(text)) + text + rest))


@pytest.mark.parametrize("content", [b"[" * 10**6, b'{"__metadata__":' * 10**5, b"{}", b'{"__metadata__":{}}', b"nul"])
@pytest.mark.usefixtures("little_memory")
def test_headers_that_are_not_ours_are_refused(load, content):
    refused(load, struct.pack("<Q", len(content)) + content)


def test_a_file_without_its_checksum_is_refused(load, files):
    whole = files["wide"]
    (size,) = struct.unpack("<Q", whole[:8])
    text = whole[8 : 8 + size].replace(b'\\"checksum\\"', b'\\"chequesum\\"')
    refused(load, struct.pack("<Q", len(text)) + text + whole[8 + size :])


@pytest.mark.usefixtures("little_memory")
def test_a_large_file_of_another_kind_is_refused_before_it_is_read(load, tmp_path):
    with (tmp_path / "model.uc").open("wb") as file:
        file.truncate(1 << 33)
    with pytest.raises(ModelFileError, match="no header"):
        load_model(tmp_path / "model.uc")
