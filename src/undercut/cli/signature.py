"""The signature that typer reads, made from the table of options."""

from __future__ import annotations

from inspect import Parameter, Signature
from pathlib import Path
from typing import Annotated

import typer

from undercut.cli.names import NAMES
from undercut.cli.option import Option
from undercut.cli.options import OPTIONS

File = Annotated[
    Path,
    typer.Argument(help="LIBSVM / SVMlight file, with --task sequence also CoNLL columns; also .gz, .bz2, .xz"),
]


def train_signature() -> Signature:
    """``file`` and a keyword for every option; ``None`` is the value of one that was not typed."""
    file = Parameter("file", Parameter.POSITIONAL_OR_KEYWORD, annotation=File)
    return Signature([file, *map(_parameter, OPTIONS)])


def _parameter(option: Option) -> Parameter:
    text = option.text().format_map(NAMES)
    declared = typer.Option(
        None, *option.flags, help=text, rich_help_panel=option.panel, min=option.minimum, show_default=False
    )
    return Parameter(option.name, Parameter.KEYWORD_ONLY, default=declared, annotation=option.type | None)
