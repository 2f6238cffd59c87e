"""What a record of the table of options says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

from undercut.errors import ParameterError


@dataclass(frozen=True)
class Option:
    """One option of a command.

    >>> Option("l1_ratio", "Penalty", "Share of l1", needs={"penalty": ("elasticnet",)}).flag()
    '--l1-ratio'
    """

    name: str  # of its value; the flag follows from it unless ``flags`` are given
    panel: str  # of the help
    help: str  # {names} in braces are filled in from ``cli.options.names``
    _: KW_ONLY
    type: Any = str
    flags: tuple[str, ...] = ()
    default: Any = None  # where the command needs one
    usual: str = ""  # what the help calls the default where the estimator chooses it
    minimum: int | None = None
    choices: tuple[str, ...] = ()  # all values there are; empty: ``reads`` or the estimator checks
    reads: Callable[[Any], Any] | None = None  # the parameter's value for a text; raises ParameterError
    sets: str = ""  # the estimator's parameter; the option is refused for an estimator without it
    needs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # one of these options, at one of these values
    excludes: tuple[str, ...] = ()  # options that cannot be combined with it
    files: str = ""  # the kind of file that it is about, where it is about one
    online: bool = False  # whether it has a meaning with --online
    remedy: str = "drop it"  # where an estimator is without the parameter

    def flag(self, value: object = None) -> str:
        """The flag, in its negative form where the value is False."""
        if not self.flags:
            return "--" + self.name.replace("_", "-")
        yes, _, no = self.flags[0].partition("/")
        return no if no and value is False else yes

    def key(self) -> str:
        """Its name in a configuration and in reports: the flag without dashes before it."""
        return self.flag().lstrip("-")

    def text(self) -> str:
        """The line of the help, default included."""
        values = f"{' or '.join(self.choices)}: {self.help}" if self.choices else self.help
        usual = self.usual or ("" if self.default is None else str(self.default))
        return f"{values}; default {usual}" if usual else values

    def read(self, value: Any) -> Any:
        """The value in the form that its parameter takes."""
        if self.choices and value not in self.choices:
            raise ParameterError(f"{self.flag()} must be {' or '.join(self.choices)} or absent; got {value!r}")
        return value if self.reads is None else self.reads(value)

    def refusal(self, reason: str, value: object, remedy: str = "drop it") -> ParameterError:
        """The error that says why the option does not apply."""
        return ParameterError(f"{self.flag(value)} {reason}: {remedy}; got {value}")
