"""``-`` for standard input and output, and where the command line writes what it has to say."""

from __future__ import annotations

import logging
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import typer

from undercut.display import LOGGER, shown

STANDARD = Path("-")
INPUT_NAME = "standard input"
COPY = re.compile(rf"{re.escape(tempfile.gettempdir())}/\w+/{INPUT_NAME}(\.csv|\.parquet)?")
PRINTED = "printed"  # an attribute of lines that standard output has shown already
LINE = "%(asctime)s  %(message)s"


@contextmanager
def input_file(path: Path) -> Iterator[Path]:
    """The file itself, or one with what standard input holds: readers look at a file more than once."""
    if path != STANDARD:
        yield path
        return
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, INPUT_NAME)
        with open(copy, "wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        yield copy


def without_copies(text: str) -> str:
    """A message that names standard input in place of the file that holds a copy of it.

    >>> without_copies(f"{tempfile.gettempdir()}/tmpx1/standard input.csv:3: not a number")
    'standard input:3: not a number'
    """
    return COPY.sub(INPUT_NAME, text)


@contextmanager
def output_file(path: Path) -> Iterator[Path]:
    """The file itself, or one that goes to standard output at the end."""
    if path != STANDARD:
        yield path
        return
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, "standard output")
        yield copy
        sys.stdout.flush()
        with open(copy, "rb") as file:
            shutil.copyfileobj(file, sys.stdout.buffer)
        sys.stdout.buffer.flush()


def check_outputs(*paths: Path | None) -> None:
    """Check that files can be written, before the work that they are for."""
    from undercut.io.checkpoint import check_writable  # here: commands without files do not wait for its import

    for path in paths:
        if path is None or path == STANDARD:
            continue
        if path.is_dir() or not path.parent.is_dir():
            raise FileNotFoundError(f"cannot write to {path}: it is a folder, or its folder does not exist")
        check_writable(path, "results")


def write_model(model: Any, path: Path) -> None:
    """Save a model; ``-`` is standard output."""
    from undercut.io import save_model  # here: commands without models do not wait for its import

    with output_file(path) as file:
        save_model(model, file)


def note(text: str) -> None:
    """One line beside the results, on standard error and in the log."""
    LOGGER.warning(without_copies(text))


@contextmanager
def logged(*, quiet: bool = False, log_file: Path | None = None) -> Iterator[None]:
    """Within it, progress and notes go to standard error unless ``quiet``, and to the log file."""
    handlers: list[logging.Handler] = []
    level, propagate = LOGGER.level, LOGGER.propagate
    with ExitStack() as stack:
        if log_file is not None:
            handlers.append(_written(log_file))
            LOGGER.setLevel(logging.INFO)
        handlers.append(logging.NullHandler() if quiet else _Printed())
        stack.enter_context(shown("anywhere" if not quiet else "nowhere" if log_file is None else "log"))
        LOGGER.handlers, before = [*handlers], LOGGER.handlers
        LOGGER.propagate = not quiet
        try:
            yield
        finally:
            for handler in handlers:
                handler.close()
            LOGGER.handlers, LOGGER.propagate = before, propagate
            LOGGER.setLevel(level)


def _written(path: Path) -> logging.Handler:
    try:
        handler = logging.FileHandler(path, encoding="utf-8")
    except OSError as error:
        raise OSError(f"cannot write the log to {path}: {error.strerror}") from error
    handler.setFormatter(logging.Formatter(LINE))
    return handler


class _Printed(logging.Handler):
    """Notes as lines of the command; progress as it is, where there is no live line in its place."""

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno >= logging.WARNING:
            typer.echo(f"undercut: {record.getMessage()}", err=True)
        elif not (hasattr(record, PRINTED) or sys.stderr.isatty()):
            typer.echo(record.getMessage(), err=True)
