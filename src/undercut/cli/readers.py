"""Values of options that are more than one word or number."""

from __future__ import annotations

from contextlib import suppress

from undercut.errors import ParameterError


def number_or_word(text: str) -> float | str:
    """What an option says that takes both.

    >>> number_or_word("0.5"), number_or_word("scale")
    (0.5, 'scale')
    """
    with suppress(ValueError):
        return float(text)
    return text


def balance(text: str) -> float | str | None:
    """What ``--balance`` says.

    >>> balance("labelled"), balance("none"), balance("0.25")
    ('labelled', None, 0.25)
    """
    if text == "none":
        return None
    value = number_or_word(text)
    if isinstance(value, str) and value != "labelled":
        raise ParameterError(f"--balance must be labelled, none, or a number; got {text!r}")
    return value


def class_weight(text: str) -> dict[int | float | str, float] | str:
    """What ``--class-weight`` says.

    >>> class_weight("balanced"), class_weight("1:5,-1:1")
    ('balanced', {1: 5.0, -1: 1.0})
    """
    if text == "balanced":
        return text
    pairs = [part.strip().rpartition(":") for part in text.split(",")]
    with suppress(ValueError):
        if all(colon for _, colon, _ in pairs):
            return {as_label(label): float(weight) for label, _, weight in pairs}
    raise ParameterError(f"--class-weight must be balanced, or label:weight pairs such as 1:5,-1:1; got {text!r}")


def as_label(text: str) -> int | float | str:
    """A label as files hold it: a whole number, a number, or a word."""
    with suppress(ValueError):
        number = float(text)
        return int(number) if number.is_integer() else number
    return text
