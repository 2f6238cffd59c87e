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
