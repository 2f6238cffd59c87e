"""Messages about parameters, in the words of the command line."""

from __future__ import annotations

import re

from undercut.cli.options import OPTIONS

BY_PARAMETER = {option.sets: option for option in OPTIONS if option.sets}
NAMES = "|".join(BY_PARAMETER)
SETTING = re.compile(rf"`?\b({NAMES})=['\"]?([\w.@]+)['\"]?`?")  # loss="logistic"
QUOTED = re.compile(rf"`({NAMES})`")
COMPOUND = "|".join(name for name in BY_PARAMETER if "_" in name)  # no words of English
UNQUOTED = re.compile(rf"(?<![\w'/.-])({COMPOUND})(?![\w'/]|\.\w)")  # nor parts of a path
REJECTED = re.compile(rf"'({NAMES})' parameter")  # scikit-learn's words


def in_options(message: str) -> str:
    """A message with options in place of the parameters that they set.

    >>> in_options('`multi_class="multinomial"` goes with loss="logistic"')
    '--multi-class multinomial goes with --loss logistic'
    >>> in_options("fit_intercept=False leaves none: use balance=None, or raise max_steps")
    '--no-intercept leaves none: use no --balance, or raise --max-steps'
    >>> in_options("cannot read max_steps.svm")
    'cannot read max_steps.svm'
    >>> in_options("The 'lam' parameter must be positive")
    "--lambda: The 'lam' parameter must be positive"
    """
    message = SETTING.sub(_typed, message)
    message = QUOTED.sub(_flag, message)
    message = UNQUOTED.sub(_flag, message)
    rejected = REJECTED.search(message)
    return f"{_flag(rejected)}: {message}" if rejected else message


def _flag(found: re.Match[str]) -> str:
    return BY_PARAMETER[found[1]].flag()


def _typed(found: re.Match[str]) -> str:
    """What a user types for ``name=value``."""
    option, value = BY_PARAMETER[found[1]], found[2]
    if option.type is bool:
        return option.flag(value != "False")
    return f"no {option.flag()}" if value == "None" else f"{option.flag()} {value}"
