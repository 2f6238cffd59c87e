"""The options that a user typed, and whether they can be combined."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from undercut.cli.options.option import Option
from undercut.cli.options.table import OPTIONS, PATH_OPTIONS, named
from undercut.errors import ParameterError


class Given(dict[str, Any]):
    """Values by the options' names: ``in`` tells whether one was typed, ``[]`` gives its default where it was not.

    >>> given = Given.read({"online": True, "passes": None})
    >>> "passes" in given, given["passes"]
    (False, 1)
    """

    typed: Mapping[str, Any]  # the values before they were read

    @classmethod
    def read(cls, typed: Mapping[str, Any]) -> Given:
        """The values as their parameters take them; ``ParameterError`` for one that does not exist."""
        given = cls({name: named(name).read(value) for name, value in typed.items() if value is not None})
        given.typed = dict(typed)
        return given

    def __missing__(self, name: str) -> Any:
        return named(name).default

    def options(self) -> Iterator[tuple[Option, Any]]:
        """What was typed, in the order of the table."""
        every = (*OPTIONS, *PATH_OPTIONS)
        return ((option, self[option.name]) for option in every if option.name in self)

    def check(self) -> None:
        """Refuse options that do not go together: an option that would be ignored is an error."""
        for option, value in self.options():
            if "online" in self and not option.online:
                raise option.refusal("is not for --online", value)
            for other in option.excludes:
                if other in self:
                    raise ParameterError(
                        f"{named(other).flag()} and {option.flag()} exclude each other: give one of them"
                    )
            if option.needs and not any(self._meets(*need) for need in option.needs.items()):
                raise option.refusal(f"needs {_alternatives(option.needs)}", value)

    def check_file(self, kind: str) -> None:
        """Refuse options that are about another kind of file."""
        for option, value in self.options():
            if option.files not in ("", kind):
                raise option.refusal(f"is for {option.files}", value)

    def _meets(self, name: str, values: tuple[str, ...]) -> bool:
        return name in self and (not values or self[name] in values)


def _alternatives(needs: Mapping[str, tuple[str, ...]]) -> str:
    """``--kernel or --unlabelled``, ``--kernel poly or sigmoid``."""
    return " or ".join(f"{named(name).flag()} {' or '.join(values)}".rstrip() for name, values in needs.items())
