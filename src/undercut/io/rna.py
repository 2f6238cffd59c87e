"""Files of RNA sequences with their structures: tables, dots and brackets in FASTA, BPSEQ and CT.

| file | a sequence and its structure |
|---|---|
| ``.tsv`` | a line ``name, family, sequence, structure``, separated by tabs; the first line is a comment |
| FASTA | ``>name``, lines of letters, and lines of dots and brackets, which may be missing |
| BPSEQ | one per file: a line ``position letter partner`` for each letter, partner 0 for none |
| CT | a line with the length and the name, then ``position letter before after partner number`` for each letter |
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from undercut.errors import DataError
from undercut.io.dot_bracket import bracketed
from undercut.io.reading import open_decompressed, undamaged
from undercut.types import FilePath

FIELDS = ("name", "family", "sequence", "structure")
NUMBERED = re.compile(r"\s*\d+\s+[A-Za-z]\s+\d+\s*$")
CONNECTED = re.compile(r"\s*\d+\s+[A-Za-z]\s+\d+\s+\d+\s+\d+\s+-?\d+")
ENERGY = re.compile(r"\s+\(?\s*-?\d+(\.\d+)?\s*\)?\s*$")  # what folding programs write behind a structure
BRACKETS = re.compile(r"[.()\[\]{}<>]")

Line = tuple[int, str]


class RnaData(NamedTuple):
    """Sequences, and their structures as dots and brackets; no structures if the file has none."""

    names: list[str]
    families: list[str]  # empty where the file does not tell
    sequences: list[str]
    structures: list[str] | None


class _Record(NamedTuple):
    name: str
    family: str
    sequence: str
    structure: str | None


def load_rna(path: FilePath) -> RnaData:
    """Read a file of any of these formats, plain or compressed; ``DataError`` names the line that breaks a rule.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "hairpin.fa")
    ...     _ = path.write_text(">hairpin\\nGGGAAAUCCC\\n(((....))) (-1.2)\\n")
    ...     load_rna(path)
    RnaData(names=['hairpin'], families=[''], sequences=['GGGAAAUCCC'], structures=['(((....)))'])
    """
    name = os.fsdecode(path)
    lines = [(at, line) for at, line in enumerate(_lines(name), start=1) if line.strip()]
    records = list(_reader(lines)(name, lines))
    if not records:
        raise DataError(f"{name}: holds no sequence")
    structures = [record.structure for record in records if record.structure is not None]
    if structures and len(structures) != len(records):
        lacking = next(record.name for record in records if record.structure is None)
        raise DataError(f"{name}: either all sequences have a structure or none; {lacking!r} has none")
    names, families, sequences, _ = map(list, zip(*records, strict=True))
    return RnaData(names, families, sequences, structures or None)


def joined(parts: Sequence[RnaData]) -> RnaData:
    """The sequences of several files; their structures where all of them have structures."""
    names = [name for part in parts for name in part.names]
    families = [family for part in parts for family in part.families]
    sequences = [sequence for part in parts for sequence in part.sequences]
    known = [part.structures for part in parts if part.structures is not None]
    structures = [each for some in known for each in some] if len(known) == len(parts) else None
    return RnaData(names, families, sequences, structures)


def _lines(name: str) -> Iterator[str]:
    with open_decompressed(name) as stream, undamaged(name):
        for raw in stream:
            yield raw.decode("utf-8", errors="replace").rstrip("\r\n")


def _reader(lines: list[Line]) -> Callable[[str, list[Line]], Iterator[_Record]]:
    """What reads a file that begins like this one."""
    body = [line for _, line in lines if not line.startswith("#")]
    if body and body[0].startswith(">"):
        return _fasta
    if any("\t" in line and BRACKETS.search(line.split("\t")[-1]) for line in body[:1]):
        return _table
    if any(CONNECTED.match(line) for line in body[:2]):
        return _ct
    return _bpseq if any(NUMBERED.match(line) for line in body) else _table


def _table(name: str, lines: list[Line]) -> Iterator[_Record]:
    for at, line in lines:
        if line.startswith("#"):
            continue
        fields = line.split("\t")
        if len(fields) != len(FIELDS):
            raise DataError(
                f"{name}:{at}: a line must be {', '.join(FIELDS)}, separated by tabs; got {len(fields)} fields: other "
                "formats are FASTA, BPSEQ and CT"
            )
        yield _checked(f"{name}:{at}", _Record(*fields))


def _fasta(name: str, lines: list[Line]) -> Iterator[_Record]:
    title, where, sequence, structure = "", 0, "", ""
    for at, line in [*lines, (0, ">")]:
        if line.startswith(">"):
            if where:
                yield _checked(f"{name}:{where}", _Record(title, "", sequence, structure or None))
            title, where, sequence, structure = line[1:].strip(), at, "", ""
        elif BRACKETS.search(line):
            structure += ENERGY.sub("", line).strip()
        elif structure:
            raise DataError(f"{name}:{at}: a structure must stand behind its sequence; got {line!r}")
        else:
            sequence += line.strip()


def _bpseq(name: str, lines: list[Line]) -> Iterator[_Record]:
    rows = [(at, line.split()) for at, line in lines if NUMBERED.match(line)]
    title = next((line.partition(":")[2].strip() for _, line in lines if line.startswith("Filename:")), "")
    yield _connected(name, title or os.path.basename(name), [(at, row[0], row[1], row[2]) for at, row in rows])


def _ct(name: str, lines: list[Line]) -> Iterator[_Record]:
    title, rows = "", list[tuple[int, str, str, str]]()
    for at, line in lines:
        fields = line.split()
        if CONNECTED.match(line) and (not rows or int(fields[0]) == len(rows) + 1) and title:
            rows.append((at, fields[0], fields[1], fields[4]))
        elif not line.startswith("#"):
            if rows:
                yield _connected(name, title, rows)
            title, rows = " ".join(fields[1:]) or os.path.basename(name), []
    if rows:
        yield _connected(name, title, rows)


def _connected(name: str, title: str, rows: list[tuple[int, str, str, str]]) -> _Record:
    """A record of one line per letter."""
    pairs = set[tuple[int, int]]()
    partner = {int(position): int(other) for _, position, _, other in rows}
    for expected, (at, position, _, other) in enumerate(rows, start=1):
        if int(position) != expected:
            raise DataError(f"{name}:{at}: positions must be 1, 2, 3, ...; got {position} for {expected}")
        if int(other) and partner.get(int(other)) != expected:
            raise DataError(f"{name}:{at}: partners must agree; {position} names {other}, which does not name it")
        if int(other):
            pairs.add((min(expected, int(other)) - 1, max(expected, int(other)) - 1))
    sequence = "".join(letter for _, _, letter, _ in rows)
    return _checked(name, _Record(title, "", sequence, bracketed(sorted(pairs), len(sequence))))


def _checked(where: str, record: _Record) -> _Record:
    if not record.sequence:
        raise DataError(f"{where}: a sequence must have at least one letter; {record.name!r} is empty")
    if record.structure is not None and len(record.structure) != len(record.sequence):
        lengths = f"{len(record.structure)} for {len(record.sequence)}"
        raise DataError(f"{where}: a structure must be as long as its sequence; {record.name!r} has {lengths} letters")
    return record
