"""The signature that typer reads, made from the table of options."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from inspect import Parameter, Signature
from pathlib import Path
from typing import Annotated

import typer

from undercut.cli.options.names import NAMES
from undercut.cli.options.option import Option
from undercut.cli.options.table import OPTIONS, path_options

NAMED = re.compile(r"\{(\w+)\}")  # a table of names in the help of an option
FILE = typer.Argument(
    help="LIBSVM / SVMlight file, a table (.csv, .tsv, .parquet) with --target, with --task sequence also CoNLL "
    "columns, with --task rna FASTA, BPSEQ or CT, with spoken words .npz; also .gz, .bz2, .xz; a pattern such as "
    "'part-*.svm' for several; - for standard input",
    show_default=False,
)
File = Annotated[Path | None, FILE]


def train_signature() -> Signature:
    """``file`` and a keyword for every option; ``None`` is the value of one that was not typed."""
    return _signature(OPTIONS)


def path_signature() -> Signature:
    """The same for ``undercut path``."""
    return _signature(path_options())


def _signature(options: Iterable[Option]) -> Signature:
    file = Parameter("file", Parameter.POSITIONAL_OR_KEYWORD, default=None, annotation=File)
    return Signature([file, *map(_parameter, options)])


def _parameter(option: Option) -> Parameter:
    text = option.text().format_map(NAMES)
    declared = typer.Option(
        None, *(option.flags or (option.flag(),)), help=text, rich_help_panel=option.panel, min=option.minimum,
        show_default=False, autocompletion=_completion(option),
    )  # fmt: skip
    return Parameter(option.name, Parameter.KEYWORD_ONLY, default=declared, annotation=option.type | None)


def _completion(option: Option) -> Callable[[str], list[str]] | None:
    """The names that a shell offers for an option, where its values are names."""
    names = list(option.choices)
    names += [name for table in NAMED.findall(option.help) for name in NAMES[table].split(", ")]
    return (lambda incomplete: [name for name in names if name.startswith(incomplete)]) if names else None
