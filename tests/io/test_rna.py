"""Files of RNA: every format gives the same sequence and structure, and errors name the line."""

from __future__ import annotations

import gzip

import numpy as np
import pytest

from undercut.errors import DataError
from undercut.io import load_rna
from undercut.io.dot_bracket import bracketed, dot_bracket, partners

SEQUENCE, STRUCTURE = "GGGAAAUCCC", "(((....)))"
PARTNERS = [10, 9, 8, 0, 0, 0, 0, 3, 2, 1]
FORMATS = {
    "tsv": f"#name\tfamily\tsequence\tstructure\nx\tRF1\t{SEQUENCE}\t{STRUCTURE}\n",
    "fasta": f">x\n{SEQUENCE}\n{STRUCTURE}\n",
    "fasta in pieces": f">x\n{SEQUENCE[:4]}\n{SEQUENCE[4:]}\n{STRUCTURE[:5]}\n{STRUCTURE[5:]}\n\n",
    "fasta with an energy": f">x\n{SEQUENCE}\n{STRUCTURE} ( -1.20)\n",
    "bpseq": "Filename: x\n# a comment\n"
    + "".join(f"{i} {a} {j}\n" for i, (a, j) in enumerate(zip(SEQUENCE, PARTNERS, strict=True), 1)),
    "ct": f"{len(SEQUENCE)} x\n"
    + "".join(
        f" {i} {a} {i - 1} {(i + 1) % 11} {j} {i}\n" for i, (a, j) in enumerate(zip(SEQUENCE, PARTNERS, strict=True), 1)
    ),
}


def written(folder, text, name="file.txt"):
    (folder / name).write_text(text)
    return folder / name


@pytest.mark.parametrize("kind", FORMATS)
def test_every_format_gives_the_same(kind, tmp_path):
    data = load_rna(written(tmp_path, FORMATS[kind]))
    assert data.names == ["x"]
    assert data.sequences == [SEQUENCE]
    assert data.structures == [STRUCTURE]


def test_a_compressed_file_is_read(tmp_path):
    (tmp_path / "x.gz").write_bytes(gzip.compress(FORMATS["tsv"].encode()))
    data = load_rna(tmp_path / "x.gz")
    assert data.families == ["RF1"]


def test_several_structures_may_stand_in_one_ct_file(tmp_path):
    data = load_rna(written(tmp_path, FORMATS["ct"] + FORMATS["ct"]))
    assert data.sequences == [SEQUENCE, SEQUENCE]
    assert data.structures == [STRUCTURE, STRUCTURE]


def test_sequences_without_structures_are_read_for_predictions(tmp_path):
    data = load_rna(written(tmp_path, ">a\nACGU\n>b\nGGG\nAAA\n"))
    assert data.sequences == ["ACGU", "GGGAAA"]
    assert data.structures is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "holds no sequence"),
        (">a\nACGU\n(..\n", r":1: a structure must be as long as its sequence; 'a' has 3 for 4 letters"),
        (">a\nACGU\n....\n>b\nACGU\n", "either all sequences have a structure or none; 'b' has none"),
        (">a\n\n>b\nACGU\n", ":1: a sequence must have at least one letter; 'a' is empty"),
        (">a\nACGU\n....\nACGU\n", ":4: a structure must stand behind its sequence"),
        ("x\tRF1\tACGU\n", r":1: a line must be name, family, sequence, structure, separated by tabs; got 3 fields"),
        ("1 A 0\n3 C 0\n", ":2: positions must be 1, 2, 3, ...; got 3 for 2"),
        ("1 A 3\n2 C 0\n3 U 0\n", ":1: partners must agree; 1 names 3"),
        ("no RNA here", "a line must be name, family"),
    ],
)
def test_an_error_names_the_file_and_the_line(text, message, tmp_path):
    with pytest.raises(DataError, match=f"file.txt.*{message}"):
        load_rna(written(tmp_path, text))


def test_crossing_pairs_of_a_table_of_partners_get_brackets_of_their_own(tmp_path):
    data = load_rna(written(tmp_path, "1 A 3\n2 C 4\n3 U 1\n4 G 2\n"))
    assert data.structures == ["([)]"]


@pytest.mark.parametrize(
    ("structure", "message"),
    [
        ("((...)", r"every bracket must be closed; '\(' at position 1 is not"),
        ("(...))", r"every closing bracket must have been opened; '\)' at position 6 was not"),
        ("(..5)", "dots and brackets; got '5' at position 4"),
        ("(.[.).]", "pairs must be nested: 3-7 crosses 1-5, a pseudoknot; drop_pseudoknots=True leaves such pairs out"),
    ],
)
def test_a_wrong_structure_is_refused_with_its_place(structure, message):
    with pytest.raises(DataError, match=message):
        partners(structure)


def test_pseudoknots_may_be_dropped():
    assert dot_bracket(partners("((.[[..)).]]", drop_pseudoknots=True)) == "((.....))..."


def test_text_and_partners_are_inverse(rng):
    for _ in range(20):
        pairs, at = [], 0
        while at < 20:
            length = int(rng.integers(1, 5))
            pairs += [(at, at + length)] if rng.random() < 0.7 else []
            at += length + 1
        partner = np.full(30, -1)
        for i, j in pairs:
            partner[i], partner[j] = j, i
        assert np.array_equal(partners(dot_bracket(partner)), partner)
        assert bracketed(pairs, 30) == dot_bracket(partner)
