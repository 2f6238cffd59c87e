"""Data in parts: questions, names in errors, and what they weigh on the wire."""

from __future__ import annotations

import numpy as np
import pytest

from undercut.errors import DataError, NonfiniteError
from undercut.maps.design import as_design
from undercut.maps.parts import LocalParts, added, nbytes
from undercut.maps.sharded import ShardedDesign


def scaled(part, factor, item=0.0):
    return factor * part + item


def test_a_question_goes_to_every_part_or_to_some_of_them():
    parts = LocalParts([1.0, 2.0, 3.0])
    assert parts.each(scaled, 10.0) == [10.0, 20.0, 30.0]
    assert parts.each(scaled, 10.0, items=[1.0, 2.0], which=[2, 0]) == [31.0, 12.0]
    assert parts.total(scaled, 10.0, add=lambda a, b: a + b, items=[1.0, 1.0, 1.0]) == 63.0
    assert parts.made(scaled, 2.0).values == [2.0, 4.0, 6.0]


def test_sums_are_added_entry_by_entry_and_lists_are_joined():
    one, other = added(([1], 2.0, np.ones(2)), ([3], 4.0, np.ones(2)))[:2]
    assert one == [1, 3]
    assert other == 6.0


def fails(part, error):
    raise error


@pytest.mark.parametrize(
    ("error", "kind"), [(DataError("X"), DataError), (FileNotFoundError("X"), DataError), (NonfiniteError("X"),) * 2]
)
def test_an_error_names_the_part(error, kind):
    kind = kind if isinstance(kind, type) else type(kind)
    with pytest.raises(kind, match=r"a\.svm: X"):
        LocalParts([0], ["a.svm"]).each(fails, error)


def test_the_bytes_of_an_answer_are_those_of_its_numbers():
    assert nbytes((np.ones(3), 2.0, ["text", np.ones(2, np.float32)], None)) == 40


@pytest.fixture
def halves(rng):
    X = rng.standard_normal((9, 4))
    return X, ShardedDesign(LocalParts([X[:4], {"X": X[4:]}]))


def test_a_design_in_parts_multiplies_as_the_whole(halves, rng):
    X, design = halves
    whole, w, g = as_design(X), rng.standard_normal(4), rng.random(9)
    W, G = rng.standard_normal((2, 4)), rng.standard_normal((9, 2))
    assert design.shape == (9, 4)
    for name, given in {
        "matvec": (w,), "rmatvec": (g,), "matmat": (W,), "rmatmat": (G,), "weighted_gram": (g,),
        "gram_product": (g, w), "squared_rmatvec": (g,),
    }.items():  # fmt: skip
        assert np.allclose(getattr(design, name)(*given), getattr(whole, name)(*given), rtol=1e-13), name


def test_parts_of_another_width_are_refused_by_name():
    with pytest.raises(DataError, match="b has 3, and a has 2"):
        ShardedDesign(LocalParts([np.eye(2), np.eye(3)], ["a", "b"]))
