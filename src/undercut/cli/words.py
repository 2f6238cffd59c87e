"""Messages about parameters, in the words of the command line."""

from __future__ import annotations

import re

from undercut.cli.options.table import OPTIONS as TRAIN_OPTIONS, PATH_OPTIONS
from undercut.errors import nearest

OPTIONS = (*TRAIN_OPTIONS, *PATH_OPTIONS)
# Parameters and the names of options alike; a parameter that an option sets goes first.
BY_PARAMETER = {option.name: option for option in OPTIONS} | {option.sets: option for option in OPTIONS if option.sets}
NAMES = "|".join(BY_PARAMETER)
SETTING = re.compile(rf"`?\b({NAMES})=(?:'([^']*)'|\"([^\"]*)\"|([\w.@-]+))`?")  # loss="logistic"
QUOTED = re.compile(rf"`({NAMES})`")
COMPOUND = "|".join(name for name in BY_PARAMETER if "_" in name)  # no words of English
UNQUOTED = re.compile(rf"(?<![\w'/.-])({COMPOUND})(?![\w'/]|\.\w)")  # nor parts of a path
REJECTED = re.compile(rf"The '({NAMES})' parameter of \w+ must be (.*?)\. Got (.*) instead\.", re.DOTALL)
OBJECTS = re.compile(r",? (?:or )?(?:an instance of '[^']*'|a callable)")  # what no option can be
QUOTE = "'"
CHOICES = re.compile(r"a str among \{([^}]*)\}")


def in_options(message: str) -> str:
    """A message with options in place of the parameters that they set.

    >>> in_options('`multi_class="multinomial"` goes with loss="logistic"')
    '--multi-class multinomial goes with --loss logistic'
    >>> in_options("fit_intercept=False leaves none: use balance=None, or raise max_steps")
    '--no-intercept leaves none: use no --balance, or raise --max-steps'
    >>> in_options("cannot read max_steps.svm")
    'cannot read max_steps.svm'
    >>> in_options("The 'lam' parameter of LinearClassifier must be a float in the range (0.0, inf). Got 0.0 instead.")
    '--lambda must be a float in the range (0.0, inf); got 0.0'
    """
    message = REJECTED.sub(_rejected, message)
    message = SETTING.sub(_typed, message)
    message = QUOTED.sub(_flag, message)
    return UNQUOTED.sub(_flag, message)


def _rejected(found: re.Match[str]) -> str:
    """scikit-learn's words for a value outside a parameter's domain, and the nearest name inside it."""
    names: list[str] = []

    def listed(choices: re.Match[str]) -> str:
        names.extend(sorted(re.findall(r"'([^']*)'", choices[1])))
        return "one of " + ", ".join(names)

    rule = CHOICES.sub(listed, OBJECTS.sub("", found[2])).replace(" or None", "")
    return f"{_flag(found)} must be {rule}; got {found[3]}{nearest(found[3].strip(QUOTE), names)}"


def _flag(found: re.Match[str]) -> str:
    return BY_PARAMETER[found[1]].flag()


def _typed(found: re.Match[str]) -> str:
    """What a user types for ``name=value``."""
    option, value = BY_PARAMETER[found[1]], next(text for text in found.groups()[1:] if text is not None)
    if option.type is bool:
        return option.flag(value != "False")
    return f"no {option.flag()}" if value == "None" else f"{option.flag()} {value}"
