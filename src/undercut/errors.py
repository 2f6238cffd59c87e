"""The errors that users see; each message has the rule, the value and the remedy."""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Integral


class UndercutError(Exception):
    """The root of every error this library raises on purpose."""


class DataError(UndercutError, ValueError):
    """The data break a rule: a shape, a label, a NaN, a malformed line of a file."""


class ParameterError(UndercutError, ValueError):
    """A setting is outside its domain."""


class CapabilityError(UndercutError, TypeError):
    """A solver, a risk and a regularizer do not fit together."""


class ModelFileError(UndercutError, ValueError):
    """A model file is damaged, of an unknown version, or no model file at all."""


class CheckpointError(UndercutError, ValueError):
    """A checkpoint is damaged, of another version or of another problem, or a run cannot be saved."""


class ClusterError(UndercutError, RuntimeError):
    """A cluster cannot answer: its scheduler or all its workers are gone, or a partition cannot be read again."""


class ConstantModelWarning(UserWarning):
    """A fit has learned nothing: equal scores for all samples are as good as its solution, up to the gap."""


class NonfiniteError(UndercutError, ArithmeticError):
    """A risk returned NaN or infinity; the driver turns it into ``Status.NONFINITE``."""


class NonconvexError(UndercutError, ArithmeticError):
    """A plane or a declared lower bound lies above a value of the risk; the driver makes it ``Status.NONCONVEX``."""


def require(condition: bool, rule: str, value: object) -> None:
    """Refuse a setting: ``ParameterError`` with the rule, then the value."""
    if not condition:
        raise ParameterError(f"{rule}; got {value!r}")


def require_count(name: str, value: object) -> None:
    """Refuse a setting that is no integer of at least 1."""
    good = isinstance(value, Integral) and int(value) >= 1
    require(good, f"`{name}` must be an integer of at least 1", value)


def nearest(name: str, known: Iterable[str]) -> str:
    """What to add to an error about an unknown name: the known one that looks most like it, if any does.

    >>> nearest("logistc", ["hinge", "logistic"]), nearest("mse", ["hinge", "logistic"])
    ('; did you mean logistic?', '')
    """
    from difflib import get_close_matches  # here: it is needed for an error alone

    found = get_close_matches(name, list(known), n=1)
    return f"; did you mean {found[0]}?" if found else ""
