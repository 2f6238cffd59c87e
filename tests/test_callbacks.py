"""Callbacks that show a run: silent while it is short, visible when it is long, gone when it ends."""

from __future__ import annotations

import io
import logging
import threading
import time

import numba
import numpy as np
import pytest
from rich.console import Console

from undercut import L2, FunctionRisk, Progress, Status, Stop, minimize
from undercut.callbacks import LiveProgress, describe
from undercut.display import LOGGER, Display, Part, TimeLeft, is_live, print_lines, shown
from undercut.estimators import LinearClassifier


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
        live._display._bar.refresh()
    shown = console.file.getvalue()
    assert "training" in shown
    assert "gap" in shown


def test_it_says_that_a_function_is_being_compiled():
    console = terminal()
    with LiveProgress("training", after=0.0, console=console) as live:
        numba.njit(lambda x: x + 1)(1)
        live._display._bar.refresh()
    assert "training  compiling, once on this machine" in console.file.getvalue()


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


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_gap_and_the_gap_wanted_fit_into_any_width(width):
    console = Console(file=io.StringIO(), force_terminal=True, width=width)
    with LiveProgress("class 3 of 10 (7)", after=0.0, console=console, gap_rel=1e-3) as live:
        for step in range(3):
            live(Progress(step, 0.123456789, 0.1 + 0.01 * step, seconds=1.0 + step))
        live._display._bar.refresh()
    shown = console.file.getvalue()
    assert "class 3 of 10" in shown
    assert "gap 2.80 % (0.1 % wanted)" in shown
    assert "…" not in shown


def test_the_time_left_is_exact_for_a_gap_that_falls_geometrically():
    left = TimeLeft(wanted=1e-3)
    for step in range(1, 40):
        estimate = left.after(0.5 * step, 2.0**-step)
    assert estimate == 0.0
    left = TimeLeft(wanted=2.0**-40)
    estimates = [left.after(0.5 * step, 2.0**-step) for step in range(1, 30)]
    assert estimates[1:] == pytest.approx([0.5 * (40 - step) for step in range(2, 30)])


def test_a_gap_that_does_not_fall_has_no_time_left():
    left = TimeLeft(wanted=1e-3)
    assert [left.after(seconds, 0.5) for seconds in (0.0, 1.0, 2.0)] == [None] * 3


@pytest.fixture
def unconfigured():
    """The logger as it is before anybody used it."""
    level, handlers = LOGGER.level, LOGGER.handlers[:]
    yield
    LOGGER.setLevel(level)
    LOGGER.handlers[:] = handlers


def test_off_a_terminal_lines_of_the_logger_appear_every_few_seconds(caplog, unconfigured):
    quiet = Console(file=io.StringIO())
    with Display("reading", every=0.05, console=quiet) as display:
        for _ in range(20):
            display.show([Part("3 MB/s")], share=0.25)
            time.sleep(0.01)
    assert 1 <= len(caplog.messages) <= 5
    assert set(caplog.messages) == {"reading  25 %  3 MB/s"}
    assert quiet.file.getvalue() == ""


@pytest.mark.parametrize("installed", [True, False])
def test_a_notebook_shows_the_live_line_where_rich_can(monkeypatch, installed):
    notebook = Console(file=io.StringIO(), force_jupyter=True)
    monkeypatch.setattr("undercut.display.find_spec", lambda name: name if installed else None)
    assert is_live(notebook) is installed


def test_progress_is_shown_where_it_is_wanted(caplog, unconfigured):
    for where, n_lines in (("log", 1), ("nowhere", 0)):
        caplog.clear()
        LOGGER.setLevel(logging.INFO)
        console = terminal()
        with shown(where), Display("fit", after=0.0, every=0.0, console=console) as display:
            display.show([Part("step 1")])
        assert len(caplog.messages) == n_lines
        assert console.file.getvalue() == ""


@pytest.mark.filterwarnings("ignore::undercut.errors.ConstantModelWarning")  # random labels
def test_verbose_2_logs_every_step_of_a_fit_with_its_class(caplog, unconfigured):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((60, 3)), rng.integers(3, size=60)
    model = LinearClassifier(lam=1e-2, solver="line_search_bundle", verbose=2).fit(X, y)
    for at, result in enumerate(model.result_):
        lines = [line for line in caplog.messages if line.startswith(f"class {at + 1} of 3 ({at})") and "step" in line]
        assert len(lines) == len(result.trace)
        assert "(0.1 % wanted)" in lines[-1]


def test_lines_are_printed_where_nobody_configured_logging(capsys, unconfigured, monkeypatch):
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    LOGGER.handlers.clear()
    print_lines()
    print_lines()
    LOGGER.info("step 1")
    assert capsys.readouterr().err == "step 1\n"
