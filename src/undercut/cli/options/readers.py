"""Values of options that are more than one word or number."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from undercut.errors import ParameterError

if TYPE_CHECKING:
    from undercut.maps.boltzmann import ContrastiveDivergence


def number_or_word(text: str) -> float | str:
    """What an option says that takes both.

    >>> number_or_word("0.5"), number_or_word("scale")
    (0.5, 'scale')
    """
    with suppress(ValueError):
        return float(text)
    return text


def sizes(text: str) -> tuple[int, ...]:
    """What ``--hidden`` says.

    >>> sizes("400,400")
    (400, 400)
    """
    with suppress(ValueError):
        found = tuple(int(part) for part in text.split(","))
        if min(found) > 0:
            return found
    raise ParameterError(f"--hidden must be sizes of layers, positive integers such as 400,400; got {text!r}")


def weights(text: str) -> tuple[float, ...]:
    """What ``--theta`` says.

    >>> weights("1,4,1")
    (1.0, 4.0, 1.0)
    """
    with suppress(ValueError):
        return tuple(float(part) for part in text.split(","))
    raise ParameterError(f"--theta must be three numbers such as 1,4,1; got {text!r}")


def pretraining(text: str) -> str | ContrastiveDivergence:
    """What ``--pretrain`` says.

    >>> pretraining("rbm"), pretraining("rbm:60").n_passes
    ('rbm', 60)
    """
    name, colon, passes = text.partition(":")
    if name == "rbm" and not colon:
        return name
    if name == "rbm" and passes.isdecimal() and int(passes) > 0:
        from undercut.maps.boltzmann import ContrastiveDivergence  # here: the table of options is read by every command

        return ContrastiveDivergence(n_passes=int(passes))
    raise ParameterError(f"--pretrain must be rbm, or rbm:60 for 60 passes over the data; got {text!r}")


def names(texts: list[str]) -> list[str]:
    """Names, also separated by commas.

    >>> names(["id, first name", "size"])
    ['id', 'first name', 'size']
    """
    return [name.strip() for text in texts for name in text.split(",") if name.strip()]


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


def memory(text: str) -> int:
    """What ``--memory`` says, in bytes.

    >>> memory("2GB")
    2000000000
    """
    from undercut.maps.streamed import memory_size  # slow to import

    return memory_size(text)


def numbers(text: str) -> list[float]:
    """Numbers with commas between them, or the first, the last and how many, evenly in logarithms.

    >>> numbers("1,0.1"), numbers("1e-2:1e-4:3")
    ([1.0, 0.1], [0.01, 0.001, 0.0001])
    """
    with suppress(ValueError):
        if ":" not in text:
            return [float(part) for part in text.split(",") if part.strip()]
        first, last, count = text.split(":")
        low, high, n = float(first), float(last), int(count)
        if low > 0.0 and high > 0.0 and n > 1:
            return [float(f"{low * (high / low) ** (at / (n - 1)):.12g}") for at in range(n)]
    raise ParameterError(f"a grid must be numbers such as 1e-2,1e-3, or a range such as 1e-2:1e-8:20; got {text!r}")


def numbers_or_words(text: str) -> list[float | str]:
    """What ``--gammas`` says.

    >>> numbers_or_words("scale,0.1")
    ['scale', 0.1]
    """
    if ":" in text:
        return list(numbers(text))
    return [number_or_word(part.strip()) for part in text.split(",")]
