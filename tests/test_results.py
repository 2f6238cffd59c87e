"""The file of results: every benchmark has a block, and writing one leaves all else as it was."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
HELPERS = {
    "common", "conic", "limited", "multivariate_sets", "peers_found", "peers_jobs", "peers_made_up", "peers_rivals",
    "ranking_methods",    "ranking_sets", "results", "selection_methods", "speech_sets", "thousand_workers",
}  # fmt: skip


@pytest.fixture
def results(tmp_path):
    """The script, on a copy of the file."""
    spec = importlib.util.spec_from_file_location("results", BENCHMARKS / "results.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    copy = tmp_path / "RESULTS.md"
    copy.write_text(module.RESULTS.read_text(encoding="utf-8"), encoding="utf-8")
    module.RESULTS = copy
    return module


def test_every_benchmark_has_one_block(results):
    assert sorted(results.names()) == sorted({file.stem for file in BENCHMARKS.glob("*.py")} - HELPERS)


def test_writing_a_block_leaves_the_prose_and_the_other_blocks(results):
    before = results.RESULTS.read_text(encoding="utf-8")
    results.write("table6", "a new table")
    after = results.RESULTS.read_text(encoding="utf-8")
    assert "    python benchmarks/table6.py\n\na new table\n\n<!-- end -->" in after
    assert results.BLOCK.split(before)[::3] == results.BLOCK.split(after)[::3]
    blocks = [dict(match.groups() for match in results.BLOCK.finditer(text)) for text in (before, after)]
    assert {name for name in blocks[0] if blocks[0][name] != blocks[1][name]} == {"table6"}
