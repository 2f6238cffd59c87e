"""The options of ``undercut train``: their types and what the help says about them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from undercut.cli.models import DEFAULT_LOSS, LOSSES
from undercut.estimators.kernel_classifier import SOLVERS as KERNEL_SOLVERS
from undercut.maps.gram import KERNELS
from undercut.solvers import SOLVERS
from undercut.solvers.online import ONLINE_SOLVERS

File = Annotated[
    Path,
    typer.Argument(help="LIBSVM / SVMlight file, with --task sequence also CoNLL columns; also .gz, .bz2, .xz"),
]
Task = Annotated[str | None, typer.Option(help="sequence: label the tokens of sequences")]
Loss = Annotated[
    str | None,
    typer.Option(help=f"{', '.join(LOSSES)}; default {DEFAULT_LOSS}; with --task sequence m3n (default) or crf"),
]
Measure = Annotated[
    str | None, typer.Option(help="f1, precision@10, recall@10, prbep, roc_auc or balanced_error, not a loss")
]
Nu = Annotated[float | None, typer.Option(help="Detect novelty: the share of samples that may be novel")]
Kernel = Annotated[str | None, typer.Option(help=f"{', '.join(KERNELS)}: a kernel machine, hinge loss")]
C = Annotated[float | None, typer.Option("--C", help="With --kernel, in place of lambda; default 1")]
Gamma = Annotated[
    str | None,
    typer.Option(help="With --kernel: scale (default), auto or a number; with --unlabelled: what those samples count"),
]
Degree = Annotated[int | None, typer.Option(help="Of the poly kernel; default 3")]
Coef0 = Annotated[float | None, typer.Option(help="Of the poly and sigmoid kernels; default 0")]
Device = Annotated[str | None, typer.Option(help="With --kernel: where the Gram matrix is, such as cuda")]
Template = Annotated[
    list[str] | None,
    typer.Option(
        help="With --task sequence, repeatable: window (default), spelling, a template such as 'word[-1] word[0]', "
        "or a file of them"
    ),
]
Columns = Annotated[
    str | None, typer.Option(help="Names of the first columns of a CoNLL file, for templates; default word,pos")
]
MinCount = Annotated[int | None, typer.Option(min=1, help="Leave out rarer features of templates")]
Folds = Annotated[str | None, typer.Option(help="Of letter.data, such as 0-7")]
Pairs = Annotated[
    str | None,
    typer.Option(help="Pairs of feature and label with a weight: all, or seen in the data (default for templates)"),
]
Lambda = Annotated[
    float | None,
    typer.Option(
        "--lambda", help="Lambda beside the mean loss; default 1e-4, 1e-2 for ranking and --unlabelled, 1 with --nu"
    ),
]
Penalty = Annotated[str | None, typer.Option(help="l2, l1 or elasticnet; default l2")]
L1Ratio = Annotated[float | None, typer.Option(help="Share of l1 in elasticnet; default 0.5")]
MultiClass = Annotated[
    str | None, typer.Option(help="ovr, crammer_singer (hinge) or multinomial (logistic); default ovr")
]
Output = Annotated[Path, typer.Option("--output", "-o", help="Where to write the model")]
Gap = Annotated[float | None, typer.Option(help="Stop at this gap relative to the objective; default 1e-3")]
Solver = Annotated[
    str,
    typer.Option(
        help=f"auto, {', '.join(SOLVERS)}; with --kernel {', '.join(KERNEL_SOLVERS)}; "
        f"with --online {', '.join(ONLINE_SOLVERS)}"
    ),
]
Intercept = Annotated[bool, typer.Option(help="Fit an intercept, which is not penalized")]
ClassWeight = Annotated[str | None, typer.Option(help="balanced, or nothing")]
MaxSteps = Annotated[int | None, typer.Option(help="Limit for each problem; default 10000")]
MaxSeconds = Annotated[float | None, typer.Option(help="Limit for each problem")]
Unlabelled = Annotated[
    Path | None, typer.Option(help="Learn from the samples of this file too, whatever labels it holds")
]
Balance = Annotated[
    str | None,
    typer.Option(help="With --unlabelled: labelled (default), a share of the last class, or none"),
]
Start = Annotated[Path | None, typer.Option(help="Continue from this model")]
NFeatures = Annotated[int | None, typer.Option(help="Width of the data if the file does not show it")]
Online = Annotated[bool, typer.Option("--online", help="Stream the file in chunks with an online method")]
Passes = Annotated[int | None, typer.Option(min=1, help="With --online: times to read the file; default 1")]
ChunkRows = Annotated[int | None, typer.Option(min=1, help="With --online: rows at a time; default 10000")]
Classes = Annotated[str | None, typer.Option(help="With --online: all labels, such as -1,1")]
Trace = Annotated[Path | None, typer.Option(help="Write one JSON line per step to this file")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors")]
