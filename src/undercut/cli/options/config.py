"""``--config run.toml``: options from a file, each under the name of its flag."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from undercut.cli.options.option import Option
from undercut.cli.options.table import named
from undercut.errors import DataError, ParameterError, nearest

FILE = "file"  # the data, which are no option


def with_config(
    file: Path | None, typed: dict[str, Any], command: str, options: Sequence[Option]
) -> tuple[Path, dict[str, Any]]:
    """The data and the options of a command as typed, completed by those of the configuration."""
    path = typed.get("config")
    configured = {} if path is None else _read(path, command, options)
    file = file or configured.pop(FILE, None)
    if file is None:
        raise ParameterError("FILE is missing: name the training data, or set file in --config")
    given = {name: value for name, value in typed.items() if value is not None}
    hidden = {other for name in given for other in named(name).excludes}  # what is typed counts more
    return Path(file), {name: value for name, value in configured.items() if name not in hidden} | given


def _read(path: Path, command: str, options: Sequence[Option]) -> dict[str, Any]:
    import tomllib  # here: most runs have no configuration

    try:
        content = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DataError(f"{path} must be a TOML file; got {error}") from error
    keys = {option.key(): option for option in options}
    values = {FILE: content.pop(FILE)} if FILE in content else {}
    for key, value in content.items():
        option = keys.get(key.replace("_", "-"), keys.get(key))
        if option is None:
            raise ParameterError(f"{path}: {key} is not an option of {command}{nearest(key, keys)}")
        values[option.name] = _typed(option, value, path)
    return values


def _typed(option: Option, value: Any, path: Path) -> Any:
    """The value in the type that the command line would give it."""
    if option.type == list[str]:
        return [str(item) for item in (value if isinstance(value, list) else [value])]
    if option.type is bool:
        fits = isinstance(value, bool)
    else:
        fits = isinstance(value, int | float | str) and not isinstance(value, bool)
    try:
        if fits and (option.type is not int or float(value) == int(value)):
            return option.type(value)
    except ValueError:
        pass
    kind = {bool: "true or false", int: "a whole number", float: "a number"}.get(option.type, "a text or a number")
    raise ParameterError(f"{path}: {option.key()} must be {kind}; got {value!r}")
