"""The one decorator of compiled functions: Numba's ``njit``, usable where no cache folder is writable.

Numba raises at decoration, which happens at import, if it finds no folder for compiled code: the package belongs to
another user and there is no home folder.  Such functions are then compiled anew in every process, with one warning.

The time of a first fit depends on the number of compiled functions more than on their length.  So a helper with one
caller is inlined (``inline="always"``); integer constants are passed on as ``np.int64(0)``, because Numba compiles the
called function once more for the literal 0; NumPy's sorts and arithmetic with whole arrays are avoided where loops do;
arrays have two dimensions, because an index of three takes half as long again; and a function with many arrays that
compiled code alone calls is ``INNER_ONLY``.  ``forceinline=True`` marks short functions of inner loops that LLVM would
call rather than inline, which costs up to a third of the time of a pass; their own options, such as ``fastmath``,
stay.  Python's garbage collector waits meanwhile: Numba makes millions of objects, nearly all of which live until it
is done.
"""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import cache
from typing import Any

import numba
from numba.core import event

INNER_ONLY = {"no_cpython_wrapper": True}  # cannot be called from Python; saves a sixth of the time of compilation

PACKAGE = __name__.partition(".")[0]


def njit(**options: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """``numba.njit(**options)``, without a cache where none can be written.

    The wrapper for calls from C is left out: no function is passed to another, which is all that Numba uses it for.
    """
    options["no_cfunc_wrapper"] = True

    def decorate(function):
        try:
            return numba.njit(**options)(function)
        except RuntimeError:  # "cannot cache function ...: no locator available"; any other is raised again below
            compiled = numba.njit(**(options | {"cache": False}))(function)
            _warn_of_no_cache()
            return compiled

    return decorate


@cache  # so that it is said once, whatever the warning filters are
def _warn_of_no_cache() -> None:
    warnings.warn(
        "no cache folder is writable, so that every process compiles anew, which takes seconds: "
        "set NUMBA_CACHE_DIR to a folder that is",
        RuntimeWarning,
        stacklevel=3,
    )


def on_compile(tell: Callable[[], object]) -> AbstractContextManager[object]:
    """Within it, call ``tell`` when a function is about to be compiled; not for one that is loaded from the cache."""
    return event.install_listener("numba:compile", _Teller(tell))


class _Uncollected(event.Listener):
    """Without garbage collection while functions of this package are compiled; calls of one another are nested."""

    def __init__(self) -> None:
        self._depth = 0  # Numba compiles one function at a time, whatever the thread
        self._was_enabled = False

    def on_start(self, event: Any) -> None:
        if self._depth == 0:
            module = getattr(event.data["dispatcher"].py_func, "__module__", None)
            if module is None or not module.startswith(f"{PACKAGE}."):
                return
            self._was_enabled = gc.isenabled()
            gc.disable()
        self._depth += 1

    def on_end(self, event: Any) -> None:
        if self._depth == 0:
            return
        self._depth -= 1
        if self._depth == 0 and self._was_enabled:
            gc.enable()


event.register("numba:compile", _Uncollected())


class _Teller(event.Listener):
    def __init__(self, tell: Callable[[], object]) -> None:
        self._tell = tell

    def on_start(self, event: Any) -> None:
        self._tell()

    def on_end(self, event: Any) -> None:
        """Ends are of no interest."""
