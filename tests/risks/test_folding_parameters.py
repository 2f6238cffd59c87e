"""Parameter files of folding."""

from __future__ import annotations

import numpy as np
import pytest

from undercut.errors import DataError
from undercut.risks import FoldingModel
from undercut.risks.structured.folding.parameters import load_parameters, save_parameters

NAMES = FoldingModel().parameter_names


def test_what_is_written_is_read(tmp_path, rng):
    w = rng.standard_normal(len(NAMES))
    save_parameters(w, tmp_path / "a.params")
    assert np.array_equal(load_parameters(tmp_path / "a.params"), w)


def test_the_order_and_the_strand_of_names_do_not_matter(tmp_path, rng):
    w = rng.standard_normal(len(NAMES))
    lines = [f"{name} {value}" for name, value in zip(NAMES, w, strict=True)]
    turned = [
        line.replace("base_pair_AU", "base_pair_UA").replace("helix_stacking_AUCG", "helix_stacking_GCUA")
        for line in lines
    ]
    (tmp_path / "a.params").write_text("# a comment\n" + "\n".join(turned[::-1]))
    assert load_parameters(tmp_path / "a.params") == pytest.approx(w)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("multi_base 0.0", "", "must have all 336 parameters; multi_base is missing"),
        (
            "multi_base 0.0",
            "multi_bass 0.0",
            r":\d+: must be the name of a parameter and a number; got 'multi_bass 0.0'",
        ),
        ("multi_base 0.0", "multi_base x", "must be the name of a parameter and a number"),
        ("multi_base 0.0", "multi_base nan", "must be the name of a parameter and a number"),
        ("multi_base 0.0", "multi_base", "must be the name of a parameter and a number"),
        ("dangle_left_AUC 0.0", "dangle_left_CUA 0.0", "must be the name of a parameter"),
    ],
)
def test_a_wrong_file_is_refused_with_the_line(old, new, message, tmp_path):
    save_parameters(np.zeros(len(NAMES)), tmp_path / "a.params")
    text = (tmp_path / "a.params").read_text()
    assert old in text
    (tmp_path / "a.params").write_text(text.replace(old, new))
    with pytest.raises(DataError, match=message):
        load_parameters(tmp_path / "a.params")
