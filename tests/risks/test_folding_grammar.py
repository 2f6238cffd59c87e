"""What is left of a structure that the model cannot score."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from undercut._jit.folding import MAX_LOOP
from undercut._jit.folding_structure import first_fault
from undercut.io.dot_bracket import dot_bracket, partners
from undercut.risks.structured.folding.grammar import check_structure, cleaned, letters, padded


def nested_pairs(n_pairs: int, rng: np.random.Generator) -> list[tuple[int, int]]:
    """Pairs of G and C with gaps between them: half of the gaps are long."""
    brackets: list[str] = []
    n_open = 0
    while len(brackets) < 2 * n_pairs:
        opens = brackets.count("(") < n_pairs and (n_open == 0 or rng.random() < 0.7)
        brackets.append("(" if opens else ")")
        n_open += 1 if opens else -1
    gaps = np.where(rng.random(len(brackets)) < 0.5, rng.integers(10, MAX_LOOP, len(brackets)), 3)
    y = partners("".join("." * gap + bracket for gap, bracket in zip(gaps, brackets, strict=True)))
    return [(i, int(j)) for i, j in enumerate(y) if j > i]


def structure_of(pairs, n):
    y = np.full(n, -1)
    for i, j in pairs:
        y[i], y[j] = j, i
    return y


@pytest.mark.parametrize("seed", range(12))
def test_as_few_pairs_as_possible_are_dropped_where_loops_are_too_long(seed):
    pairs = nested_pairs(8, np.random.default_rng(seed))
    n = max(j for _, j in pairs) + 1
    x = "".join("G" if i in dict(pairs) else "C" for i in range(n))
    clean = cleaned(x, structure_of(pairs, n))
    check_structure(x, clean.y)
    most = max(
        n_kept
        for n_kept in range(len(pairs) + 1)
        for kept in combinations(pairs, n_kept)
        if first_fault(letters(x), padded(structure_of(kept, n)))[0] == 0
    )
    assert (clean.y >= 0).sum() == 2 * most == 2 * (len(pairs) - clean.n_long_loops)
    assert set(np.flatnonzero(clean.y >= 0)) <= {i for pair in pairs for i in pair}


def test_a_long_helix_of_several_stems_is_kept_beside_a_short_one():
    stems = "((((.((((.((((" + "." * 16
    structure = stems + "(((((....)))))" + "." * 16 + stems[13::-1].replace("(", ")")
    x = structure.translate(str.maketrans("(.)", "GAC"))
    clean = cleaned(x, partners(structure))
    assert dot_bracket(clean.y) == stems[:14] + "." * 46 + stems[13::-1].replace("(", ")")
    assert clean.n_long_loops == 5


def test_pairs_of_other_letters_and_short_hairpins_are_told_apart():
    clean = cleaned("GGGAACAC", partners("(((..)))"))
    assert dot_bracket(clean.y) == "(......)"
    assert clean[1:] == (1, 1, 0)
