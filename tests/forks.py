"""Commands and runs in processes of their own that start at once, because they share what was imported and compiled."""

from __future__ import annotations

import os
import warnings

import pytest

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs processes that share what was compiled")


def forked(work):
    """The process id of a child that ends with the exit code that ``work`` raises or returns, if any."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads, which the child does not use
        child = os.fork()
    if child == 0:
        code = 1
        try:
            result = work()
            code = result if isinstance(result, int) else 0
        except SystemExit as ended:
            code = ended.code or 0
        finally:
            os._exit(code)
    return child


def exit_code(child):
    """How a child ended, once it has."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
