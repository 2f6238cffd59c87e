"""The arithmetic of a thousand workers: the page holds what the model says, and the simulation agrees with it."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

FILE = Path(__file__).parent.parent / "benchmarks" / "thousand_workers.py"


@pytest.fixture(scope="module")
def model():
    spec = importlib.util.spec_from_file_location("thousand_workers", FILE)
    module = importlib.util.module_from_spec(spec)
    monkeypatched = pytest.MonkeyPatch()
    monkeypatched.setitem(sys.modules, "thousand_workers", module)  # dataclasses look their module up
    spec.loader.exec_module(module)
    monkeypatched.undo()
    return module


def test_the_page_holds_the_numbers_of_the_model(model):
    rows = {row.split(" | ")[0].lstrip("| "): row for row in model.PAGE.read_text(encoding="utf-8").splitlines()}
    for name, setting in model.CASES.items():
        parts = model.step(setting).values()
        assert " | ".join(f"{cell:.2f}" for cell in [*parts, sum(parts)]) in rows[name]


@pytest.mark.parametrize("name", ["1000 workers, 1e11 rows, 1e6 features", "a hundredth of the rows", "1e7 features"])
def test_the_simulation_agrees_with_the_model_to_a_tenth(model, name):
    setting = model.CASES[name]
    assert model.simulated(setting, 4) == pytest.approx(sum(model.step(setting).values()), rel=0.1)


def test_the_expected_slowest_worker_is_the_mean_of_the_largest_of_n(model):
    draws = np.random.default_rng(0).standard_normal((500, 1000)).max(axis=1)
    setting = replace(model.STEADY, spread=0.1)
    assert model.slowest(setting, 2.0) == pytest.approx(2.0 * np.exp(0.1 * draws).mean(), rel=0.01)
