"""Folding on the command line: train, predict, evaluate, info."""

from __future__ import annotations

import pytest

TABLE = (
    "#name\tfamily\tsequence\tstructure\n"
    "a\tF1\tGGGAAAUCCC\t(((....)))\n"
    "b\tF2\tCCGAAACGG\t(((...)))\n"
    "c\tF3\tAGGCUUUUGCCA\t.(((....))).\n"
)


@pytest.fixture
def files(tmp_path):
    (tmp_path / "rna.tsv").write_text(TABLE)
    return tmp_path


@pytest.fixture
def model(files, undercut):
    code, _, _ = undercut("train", files / "rna.tsv", "--task", "rna", "--lambda", "0.01", "-o", files / "rna.uc")
    assert code == 0
    return files / "rna.uc"


def test_a_file_is_learned_and_evaluated(model, files, undercut):
    code, printed, _ = undercut("evaluate", model, files / "rna.tsv")
    assert code == 0
    rows = dict(line.rsplit("  ", 1) for line in printed.splitlines() if "  " in line)
    values = {name.strip(): value.strip() for name, value in rows.items()}
    assert values["sequences"] == "3"
    assert float(values["F"]) == 1.0
    assert float(values["mean F"]) == 1.0


def test_predictions_are_dots_and_brackets(model, files, undercut):
    (files / "new.fa").write_text(">x\ngggaaatccc\n")
    code, printed, _ = undercut("predict", model, files / "new.fa")
    assert code == 0
    assert printed == ">x\ngggaaatccc\n(((....)))\n"


def test_scores_are_probabilities_of_pairs(model, files, undercut):
    code, printed, _ = undercut("predict", model, files / "rna.tsv", "--scores")
    assert code == 0
    header, *lines = printed.splitlines()
    assert header.startswith("#")
    name, i, j, probability = lines[0].split()
    assert (name, i, j) == ("a", "1", "10")
    assert 0.01 <= float(probability) <= 1.0


def test_a_model_tells_what_it_is(model, undercut):
    code, printed, _ = undercut("info", model)
    assert code == 0
    assert "RnaFolder" in printed
    assert "helix_stacking" in printed or "base_pair" in printed


def test_the_margin_and_its_options_are_taken(files, undercut):
    code, _, error = undercut(
        "train", files / "rna.tsv", "--task", "rna", "--loss", "margin", "--delta", "pairs", "--decode", "viterbi",
        "--lambda", "0.01", "-o", files / "margin.uc", "-q",
    )  # fmt: skip
    assert (code, error) == (0, "")


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--task", "rna", "--loss", "hinge"], 2, "--loss must be crf or margin with --task rna; got 'hinge'"),
        (["--task", "rna", "--decode", "best"], 2, "--decode"),
        (["--task", "rna", "--template", "window"], 2, "--template"),
        (["--decode", "mea"], 2, "--decode needs --task rna"),
        (["--task", "rna", "--kernel", "rbf"], 2, "--kernel"),
    ],
)
def test_options_that_do_not_fit_are_refused(options, code, message, files, undercut):
    got, _, error = undercut("train", files / "rna.tsv", *options, "-o", files / "m.uc")
    assert got == code
    assert message in error


def test_a_file_without_structures_cannot_be_learned(files, undercut):
    (files / "plain.fa").write_text(">x\nGGGAAAUCCC\n")
    code, _, error = undercut("train", files / "plain.fa", "--task", "rna", "-o", files / "m.uc")
    assert code == 1
    assert "must have a structure for every sequence" in error
