"""Callbacks that show a run: silent while it is short, visible when it is long, gone when it ends."""

from __future__ import annotations

import io
import threading
import time

import numba
import numpy as np
import pytest
from rich.console import Console

from undercut import L2, FunctionRisk, Progress, Status, Stop, minimize
from undercut.callbacks import LiveProgress, describe


def terminal():
    return Console(file=io.StringIO(), force_terminal=True, width=120)


def slow(w):
    time.sleep(0.02)
    return float(np.abs(w - 1.0).sum()), np.sign(w - 1.0)


def assert_no_thread_beyond(before):
    """Threads that were told to end need a moment."""
    for _ in range(100):
        if threading.active_count() <= before:
            return
        time.sleep(0.02)
    raise AssertionError(threading.enumerate())


def test_a_short_run_shows_nothing():
    console = terminal()
    with LiveProgress("training", after=60.0, console=console) as live:
        minimize(FunctionRisk(lambda w: (float(w @ w), 2.0 * w), n_params=2), L2(1.0), callbacks=[live])
    assert "training" not in console.file.getvalue()


def test_a_long_run_shows_title_and_numbers():
    console = terminal()
    with LiveProgress("training", after=0.0, console=console) as live:
        minimize(FunctionRisk(slow, n_params=20), L2(1e-3), stop=Stop(max_steps=20), callbacks=[live])
        live._bar.refresh()
    shown = console.file.getvalue()
    assert "training" in shown
    assert "gap" in shown


def test_it_says_that_a_function_is_being_compiled():
    console = terminal()
    with LiveProgress("training", after=0.0, console=console) as live:
        numba.njit(lambda x: x + 1)(1)
        live._bar.refresh()
    assert "training compiling, once on this machine" in console.file.getvalue()


def test_it_never_stops_a_run():
    with LiveProgress(after=0.0, console=terminal()) as live:
        result = minimize(FunctionRisk(lambda w: (float(w @ w), 2.0 * w), n_params=2), L2(1.0), callbacks=[live])
    assert result.status is Status.CONVERGED
    assert live(Progress(objective=1.0)) is None


def test_an_error_inside_passes_through_and_leaves_no_thread_behind():
    before = threading.active_count()
    with pytest.raises(ZeroDivisionError), LiveProgress(after=0.0, console=terminal()):
        raise ZeroDivisionError
    assert_no_thread_beyond(before)


def test_a_run_that_ends_before_it_is_shown_leaves_no_thread_behind():
    before = threading.active_count()
    with LiveProgress(after=60.0, console=terminal()) as live:
        live(Progress(step=1, objective=1.0, lower_bound=0.0))
    assert_no_thread_beyond(before)


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (Progress(step=3, objective=0.5, lower_bound=0.25), ["step 3", "objective 0.5", "bound 0.25", "gap 50.00 %"]),
        (Progress(step=0, objective=1.0), ["bound -inf", "gap inf %"]),
        (Progress(step=1, objective=0.0, lower_bound=0.0), ["objective 0", "gap 0.00 %"]),
        (Progress(step=1, objective=-2.0, lower_bound=-3.0), ["objective -2", "bound -3", "gap 50.00 %"]),
    ],
)
def test_a_row_is_described_in_one_line(row, words):
    line = describe(row)
    assert "\n" not in line
    for word in words:
        assert word in line
    assert "nan" not in line
