"""Features of tokens by templates: strings at some offsets around a token, alone or combined.

A template is a text like ``"word[-1] word[0]"``: views of tokens at offsets, all of which must lie in the sentence.
Each different combination in the data that a template is fitted on is a feature, with value 1 where it occurs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from undercut.errors import DataError, ParameterError, nearest, require
from undercut.io.sequences.conll import ConllData
from undercut.types import Array

WINDOW = (
    *(f"word[{at}]" for at in range(-2, 3)),
    "word[-1] word[0]",
    "word[0] word[1]",
    *(f"pos[{at}]" for at in range(-2, 3)),
    *(f"pos[{at}] pos[{at + 1}]" for at in range(-2, 2)),
    *(f"pos[{at}] pos[{at + 1}] pos[{at + 2}]" for at in range(-2, 1)),
)  # the usual ones for chunking: words and parts of speech in a window of five
SPELLING = (
    *(f"{affix}{size}[0]" for affix in ("prefix", "suffix") for size in (1, 2, 3, 4)),
    "shape[0]",
    "lower[0]",
)

TEMPLATES = {"window": WINDOW, "spelling": SPELLING}

Codes = NDArray[np.int64]

_PART = re.compile(r"([^\W\d]\w*?)(\d*)\[([+-]?\d+)\]")
_RUNS = ((re.compile("[A-Z]+"), "X"), (re.compile("[a-z]+"), "x"), (re.compile("[0-9]+"), "0"))


def shape(token: str) -> str:
    """Runs of capitals, small letters and digits, each as one character.

    >>> shape("McGraw-Hill's"), shape("1,500")
    ("XxXx-Xx'x", '0,0')
    """
    for pattern, mark in _RUNS:
        token = pattern.sub(mark, token)
    return token


@dataclass(frozen=True)
class Affix:
    """A function of a token: some of its characters."""

    characters: slice

    def __call__(self, token: str) -> str:
        return token[self.characters]


class View(NamedTuple):
    """A string for each token: a column of the file, or a function of one."""

    column: int
    function: Callable[[str], str] | None = None

    def of(self, data: ConllData) -> list[str]:
        tokens = data.columns[self.column]
        if self.function is None:
            return tokens
        seen = {token: self.function(token) for token in set(tokens)}
        return [seen[token] for token in tokens]


class Part(NamedTuple):
    """A view at an offset from the token."""

    view: str
    offset: int


class TemplateFeatures:
    """Templates, and the features found in the data they were fitted on; others are dropped.

    A template may also be the name of several, "window" or "spelling".  A view is one of ``columns``, the names of the
    file's first columns, or of the first column ``lower``, ``shape``, ``prefix1``, ``prefix2``, ..., ``suffix1``, ...;
    a token shorter than an affix is used whole.  Features that occur less than ``min_count`` times are left out.

    >>> data = ConllData((["the", "dog", "the"], ["DT", "NN", "DT"]), np.array([2, 1]))
    >>> features = TemplateFeatures(["word[0]", "pos[-1] word[0]"])
    >>> features.fit_transform(data).toarray()
    array([[1., 0., 0.],
           [0., 1., 1.],
           [1., 0., 0.]])
    >>> features.names()
    ['word[0]=the', 'word[0]=dog', 'pos[-1] word[0]=DT dog']
    """

    def __init__(
        self, templates: Iterable[str] = WINDOW, columns: Sequence[str] = ("word", "pos"), min_count: int = 1
    ) -> None:
        require(min_count >= 1, "`min_count` must be at least 1", min_count)
        each = [templates] if isinstance(templates, str) else templates
        self.templates = tuple(template for name in each for template in TEMPLATES.get(name, (name,)))
        self.columns, self.min_count = tuple(columns), min_count
        require(len(self.templates) > 0, "`templates` must hold at least one", self.templates)
        self._views: dict[str, View] = {}
        self._parts = [self._parsed(template) for template in self.templates]
        self._codes: dict[str, dict[str, int]] = {}  # by view, the number of each string
        self._known: list[Codes] = []  # by template, the combinations that are features, in increasing order

    @property
    def n_features(self) -> int:
        """The number of features found by ``fit``."""
        return sum(known.size for known in self._known)

    def fit(self, data: ConllData) -> TemplateFeatures:
        """Find the features of these sentences."""
        self._fitted(data)
        return self

    def fit_transform(self, data: ConllData) -> sp.csr_matrix:
        """``fit`` and ``transform`` in one."""
        return self._matrix(self._fitted(data))

    def transform(self, data: ConllData) -> sp.csr_matrix:
        """One row per token, one column per feature."""
        self._check_fitted()
        return self._matrix(self._combined(data))

    def __repr__(self) -> str:
        return f"TemplateFeatures({self.templates!r}, {self.columns!r}, min_count={self.min_count})"

    def names(self) -> list[str]:
        """The template and the strings of each feature."""
        self._check_fitted()
        strings = {view: list(codes) for view, codes in self._codes.items()}
        names = []
        for template, parts, known in zip(self.templates, self._parts, self._known, strict=True):
            digits = np.unravel_index(known, [len(strings[part.view]) for part in parts])
            columns = [[strings[part.view][code] for code in some] for part, some in zip(parts, digits, strict=True)]
            names += [f"{template}={' '.join(values)}" for values in zip(*columns, strict=True)]
        return names

    @property
    def is_fitted(self) -> bool:
        """Whether the features were found."""
        return bool(self._known)

    def _check_fitted(self) -> None:
        if not self.is_fitted:
            raise DataError("TemplateFeatures must be fitted before they are used: call fit on the training data")

    def settings(self) -> dict[str, Any]:
        """The arguments of the constructor."""
        return {"templates": list(self.templates), "columns": list(self.columns), "min_count": self.min_count}

    def to_arrays(self) -> dict[str, Array]:
        """The fitted state: the strings of all views as UTF-8, and the combinations that are features."""
        encoded = [string.encode() for codes in self._codes.values() for string in codes]
        return {
            "view_sizes": np.array([len(codes) for codes in self._codes.values()], np.int64),
            "string_sizes": np.array([len(string) for string in encoded], np.int64),
            "strings": np.frombuffer(b"".join(encoded), np.uint8),
            "known_sizes": np.array([known.size for known in self._known], np.int64),
            "known": np.concatenate(self._known),
        }

    def restore(self, arrays: dict[str, Array]) -> None:
        """Restore the state of ``to_arrays``; ``ValueError`` unless it fits the templates."""
        ends = np.cumsum(arrays["string_sizes"])
        if arrays["view_sizes"].size != len(self._views) or arrays["known_sizes"].size != len(self._parts):
            raise ValueError(f"strings of {arrays['view_sizes'].size} views do not fit the templates {self.templates}")
        blob = arrays["strings"].tobytes()
        texts = [blob[end - size : end].decode() for end, size in zip(ends, arrays["string_sizes"], strict=True)]
        views = np.split(np.array(texts, object), np.cumsum(arrays["view_sizes"])[:-1])
        self._codes = {
            name: {text: code for code, text in enumerate(view)} for name, view in zip(self._views, views, strict=True)
        }
        self._known = np.split(arrays["known"].astype(np.int64), np.cumsum(arrays["known_sizes"])[:-1])
        for template, parts, known in zip(self.templates, self._parts, self._known, strict=True):
            combinations = np.prod([float(len(self._codes[part.view])) for part in parts])
            if known.size and (known.min() < 0 or known.max() >= combinations or (np.diff(known) <= 0).any()):
                raise ValueError(f"the features of {template!r} are out of range or out of order")

    def _parsed(self, template: str) -> list[Part]:
        parts = []
        for text in template.split():
            match = _PART.fullmatch(text)
            if match is None:
                raise ParameterError(
                    f"a template must be {', '.join(TEMPLATES)}, or made of parts like word[-1]; got {text!r}"
                )
            name, size, offset = match.groups()
            self._views[name + size] = self._view(name, size)
            parts.append(Part(name + size, int(offset)))
        require(len(parts) > 0, "a template must have at least one part", template)
        return parts

    def _view(self, name: str, size: str) -> View:
        if name + size in self.columns:
            return View(self.columns.index(name + size))
        if name in ("prefix", "suffix") and size.isdigit() and int(size) > 0:
            return View(0, Affix(slice(int(size)) if name == "prefix" else slice(-int(size), None)))
        functions: dict[str, Callable[[str], str]] = {"lower": str.lower, "shape": shape}
        if name + size not in functions:
            known = [*self.columns, *functions, "prefix1", "suffix1"]
            raise ParameterError(
                f"a template looks at {', '.join(known)}, ...; got {name + size!r}: give a column that name, or change "
                f"the template{nearest(name + size, known)}"
            )
        return View(0, functions[name])

    def strings(self, data: ConllData) -> dict[str, list[str]]:
        """Of every view the different strings of some sentences, in the order in which they appear."""
        self._check(data)
        return {name: list(dict.fromkeys(view.of(data))) for name, view in self._views.items()}

    def number(self, found: Iterable[dict[str, list[str]]]) -> None:
        """Number the strings of several parts of the data: the first half of a fit."""
        parts = list(found)
        self._codes = {
            name: {string: code for code, string in enumerate(dict.fromkeys(s for part in parts for s in part[name]))}
            for name in self._views
        }
        for template, parts_of in zip(self.templates, self._parts, strict=True):
            if np.prod([float(len(self._codes[part.view])) for part in parts_of]) > np.iinfo(np.int64).max:
                raise DataError(
                    f"the combinations of a template must fit into 63 bits; {template!r} has too many parts"
                )

    def combinations(self, data: ConllData) -> list[tuple[Codes, Codes]]:
        """Of every template the combinations in some sentences, and how often each occurs."""
        return [_counted(codes) for codes in self._combined(data)]

    def choose(self, found: Iterable[list[tuple[Codes, Codes]]]) -> None:
        """Make features of the combinations in several parts of the data: the second half of a fit."""
        self._known = [self._frequent(each) for each in zip(*found, strict=True)]

    def _fitted(self, data: ConllData) -> list[Codes]:
        self.number([self.strings(data)])
        combined = self._combined(data)
        self.choose([[_counted(codes) for codes in combined]])
        return combined

    def _frequent(self, parts: Sequence[tuple[Codes, Codes]]) -> Codes:
        values, at = np.unique(np.concatenate([some for some, _ in parts]), return_inverse=True)
        counts = np.bincount(at, np.concatenate([counts for _, counts in parts]), values.size)
        return values[counts >= self.min_count]

    def _check(self, data: ConllData) -> None:
        needed = 1 + max(view.column for view in self._views.values())
        if len(data.columns) < needed:
            raise DataError(
                f"the templates need {needed} columns; the data have {len(data.columns)}: "
                "use templates that look at fewer, such as word[0]"
            )

    def _combined(self, data: ConllData) -> list[Codes]:
        """For each template the number of the combination at each token, -1 outside the sentence or if unknown."""
        self._check(data)
        numbers = {}
        for name, view in self._views.items():
            codes = self._codes[name]
            numbers[name] = np.array([codes.get(string, -1) for string in view.of(data)], np.int64)
        starts = np.repeat(np.cumsum(data.lengths) - data.lengths, data.lengths)
        ends = starts + np.repeat(data.lengths, data.lengths)
        shifted = {
            part: _shifted(numbers[part.view], part.offset, starts, ends) for parts in self._parts for part in parts
        }
        return [self._mixed(parts, shifted) for parts in self._parts]

    def _mixed(self, parts: list[Part], shifted: dict[Part, Codes]) -> Codes:
        combined, missing = np.zeros(1, np.int64), np.zeros(1, bool)
        for part in parts:
            codes = shifted[part]
            combined, missing = combined * len(self._codes[part.view]) + codes, missing | (codes < 0)
        return np.where(missing, -1, combined)

    def _matrix(self, combined: list[Codes]) -> sp.csr_matrix:
        """Columns increase within a row, because the templates have consecutive ranges of columns."""
        columns = np.full((combined[0].size, len(combined)), -1, np.int64)
        base = 0
        for k, (codes, known) in enumerate(zip(combined, self._known, strict=True)):
            at = np.minimum(np.searchsorted(known, codes), max(known.size - 1, 0))
            if known.size:
                columns[:, k] = np.where(known[at] == codes, base + at, -1)
            base += known.size
        met = columns >= 0
        indptr = np.concatenate([[0], np.cumsum(met.sum(axis=1))])
        indices = columns[met].astype(np.int32)
        X = sp.csr_matrix((np.ones(indices.size), indices, indptr), shape=(columns.shape[0], base))
        X.has_canonical_format = True
        return X


def _counted(codes: Codes) -> tuple[Codes, Codes]:
    """The different combinations, and how often each occurs."""
    values, counts = np.unique(codes[codes >= 0], return_counts=True)
    return values, counts


def _shifted(codes: Codes, offset: int, starts: Array, ends: Array) -> Codes:
    """The code ``offset`` tokens further on, -1 outside the sentence."""
    at = np.arange(codes.size) + offset
    inside = (at >= starts) & (at < ends)
    return np.where(inside, codes[np.clip(at, 0, codes.size - 1)], -1)
