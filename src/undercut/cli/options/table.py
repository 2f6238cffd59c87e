"""The options of ``undercut train``, one record each.

Everything about an option follows from its record: the flag and the help panel (``cli.signature``), the combinations
that are refused before any data are read (``cli.given``), the parameter that it sets and the estimators without that
parameter, for which it is refused (``cli.models``).  Adding an option is adding a record.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from undercut.cli.options.option import Option
from undercut.cli.options.readers import (
    balance,
    class_weight,
    memory,
    names,
    number_or_word,
    numbers,
    numbers_or_words,
    pretraining,
    sizes,
    weights,
)

DATA, MODEL, PENALTY, KERNEL = "Data", "Model", "Penalty", "Kernel"
SEQUENCES, ONLINE, STOPPING, OUTPUT = "Sequences", "Online", "Stopping", "Output"
CHOICE, CLUSTER = "Choice", "Cluster"
ROWS, TABLES = "SVMlight files", "CSV, TSV and Parquet files"

POLY: Mapping[str, tuple[str, ...]] = {"kernel": ("poly",)}
SEQUENCE: Mapping[str, tuple[str, ...]] = {"task": ("sequence",)}
FOLDING: Mapping[str, tuple[str, ...]] = {"task": ("rna",)}
SPEECH: Mapping[str, tuple[str, ...]] = {"task": ("hmm", "connected")}
STREAM: Mapping[str, tuple[str, ...]] = {"online": ()}

ALONE = (
    "memory",
    "unlabelled",
    "weights",
    "valid",
    "chunk_rows",
    "classes",
)  # options that need the rows in this process

OPTIONS = [
    Option("task", DATA, "Label the tokens of sequences, fold RNA, classify spoken words, or recognize several words "
           "in each recording", choices=("sequence", "rna", "hmm", "connected")),
    Option("n_features", DATA, "Width of the data if the file does not show it", type=int,
           files=ROWS, online=True),
    Option("memory", DATA, "Leave the rows on disk and use at most this much memory, such as 2GB; the file is "
           "converted into a cache once", files=ROWS, reads=memory),
    Option("cache", DATA, "The folder of that cache", type=Path, usual="that of the file", files=ROWS,
           needs={"memory": ()}),
    Option("scheduler", CLUSTER, "Train on the workers of the Dask scheduler at this address, such as tcp://host:8786; "
           "workers read the files", excludes=ALONE, online=True),
    Option("workers", CLUSTER, "The same with this many new processes on this machine", type=int, minimum=1,
           excludes=("scheduler", *ALONE), online=True),
    Option("target", DATA, "Column of a table to predict", files=TABLES, online=True),
    Option("group", DATA, "Column of a table with the queries of a ranking", files=TABLES),
    Option("ignore", DATA, "Repeatable: columns of a table to leave out, such as id,name", type=list[str],
           files=TABLES, reads=names, online=True),
    Option("categorical", DATA, "Repeatable: columns of numbers that are categories, such as zip", type=list[str],
           files=TABLES, reads=names, online=True),
    Option("impute", DATA, "Fill in missing values of a table: the mean, or the most frequent category", type=bool,
           flags=("--impute",), files=TABLES, online=True),
    Option("unlabelled", DATA, "Learn from the samples of this file too, whatever labels it holds", type=Path,
           excludes=("measure", "nu", "kernel", "task")),
    Option("weights", DATA, "A file with the weight of each sample, one per line", type=Path, online=True),
    Option("test", DATA, "Evaluate the model on this file at the end", type=Path, online=True),
    Option("balance", DATA, "With --unlabelled: labelled, a share of the last class, or none", usual="labelled",
           sets="balance", reads=balance, needs={"unlabelled": ()}),

    Option("loss", MODEL, "{losses}; with --task sequence {sequence_losses}; with --task rna {rna_losses}; a setting "
           "behind a colon: quantile:0.9, huber:1.35, epsilon_insensitive:0.1",
           usual="hinge, m3n for sequences, crf for RNA", sets="loss", online=True),
    Option("measure", MODEL, "{measures}; not beside a loss",
           sets="measure", excludes=("loss",)),
    Option("nu", MODEL, "Detect novelty: the share of samples that may be novel", type=float,
           sets="nu", excludes=("loss", "measure")),
    Option("threshold", MODEL, "With --measure: own, that of the measure's bound; cv, by validation in folds; auto, cv "
           "for f1, f0.5, ..., mcc and balanced_error where each class has 20 samples", usual="auto",
           sets="threshold", needs={"measure": ()}),
    Option("surrogate", MODEL, "With --measure: own, the measure's own bound; squared_hinge; average_precision; auto, "
           "the one that is best on samples left out", usual="auto",
           sets="surrogate", needs={"measure": ()}),
    Option("weighting", MODEL, "Of queries in rankings by pairs: query (equal), root (of their pairs) or pair",
           usual="root", sets="weighting"),
    Option("intercept", MODEL, "Fit an intercept, which is not penalized", type=bool,
           flags=("--intercept/--no-intercept",), usual="--intercept", sets="fit_intercept", online=True),
    Option("class_weight", MODEL, "balanced, the same total weight for every class, or pairs such as 1:5,-1:1",
           sets="class_weight", reads=class_weight, online=True),
    Option("multi_class", MODEL, "ovr, crammer_singer (hinge) or multinomial (logistic)", usual="ovr",
           sets="multi_class"),
    Option("solver", MODEL, "auto, {solvers}; with --kernel {kernel_solvers}; with --online {online_solvers}",
           usual="auto, with --online optimistic_proximal", sets="solver", online=True),
    Option("start", MODEL, "Continue from this model", type=Path, online=True),
    Option("resume", MODEL, "Go on with the run of this checkpoint, as if it had not stopped", type=Path,
           excludes=("start",), online=True),

    Option("lam", PENALTY, "Lambda beside the mean loss", type=float, flags=("--lambda",),
           usual="1e-4, 1e-2 for ranking, --unlabelled and spoken words, 0.1 for RNA, 1 with --nu", sets="lam",
           online=True, remedy="use --C, which is 1 / (samples * lambda)"),
    Option("C", PENALTY, "In place of lambda, 1 / (samples * lambda): the weight of the summed loss", type=float,
           flags=("--C",), usual="1 with --kernel", excludes=("lam",), online=True),
    Option("penalty", PENALTY, "l2, l1 or elasticnet", usual="l2", sets="penalty"),
    Option("l1_ratio", PENALTY, "Share of l1 in elasticnet", type=float, usual="0.5",
           sets="l1_ratio", needs={"penalty": ("elasticnet",)}),

    Option("kernel", KERNEL, "{kernels}: a kernel machine, hinge loss", sets="kernel",
           excludes=("loss", "measure", "nu")),
    Option("gamma", KERNEL, "scale, auto or a number; with --unlabelled: the weight of those samples; with --task rna: "
           "of right pairs", usual="scale, with --unlabelled 1, with --task rna 6", sets="gamma", reads=number_or_word,
           needs={"kernel": (), "unlabelled": (), **FOLDING}),
    Option("degree", KERNEL, "Of the poly kernel", type=int, usual="3", sets="degree", needs=POLY),
    Option("coef0", KERNEL, "Of the poly and sigmoid kernels", type=float, usual="0",
           sets="coef0", needs={"kernel": ("poly", "sigmoid")}),
    Option("device", KERNEL, "Where the Gram matrix, a network, or the frames of spoken words are, such as cuda",
           sets="device", needs={"kernel": (), "hidden": (), **SPEECH}),

    Option("template", SEQUENCES, "Repeatable: window, spelling, a template such as 'word[-1] word[0]', or a file of "
           "them", type=list[str], usual="window", needs=SEQUENCE, files="CoNLL files"),
    Option("columns", SEQUENCES, "Names of the first columns of a CoNLL file, for templates", usual="word,pos",
           needs=SEQUENCE, files="CoNLL files"),
    Option("min_count", SEQUENCES, "Leave out rarer features of templates", type=int, minimum=1, default=1,
           needs=SEQUENCE, files="CoNLL files"),
    Option("folds", SEQUENCES, "Of letter.data, such as 0-7", needs=SEQUENCE, files="letter.data"),
    Option("decode", SEQUENCES, "RNA: mea, the structure of maximum expected accuracy, or viterbi, the highest score",
           usual="mea", sets="decode", needs=FOLDING),
    Option("delta", SEQUENCES, "RNA: the margin of a wrong structure: missed, pairs or hamming", usual="missed",
           sets="delta", needs=FOLDING),
    Option("outside", SEQUENCES, "RNA: drop or refuse true pairs that the model cannot score", usual="drop",
           sets="outside", needs=FOLDING),
    Option("drop_pseudoknots", SEQUENCES, "RNA: leave out true pairs that cross others", type=bool,
           flags=("--drop-pseudoknots",), sets="drop_pseudoknots", needs=FOLDING),
    Option("pairs", SEQUENCES, "Pairs of feature and label with a weight: all, or seen in the data",
           usual="seen for templates", sets="pairs", needs=SEQUENCE),
    Option("hidden", SEQUENCES, "Sizes of the hidden layers of a network, such as 400,400", usual="a linear model",
           sets="hidden", reads=sizes, needs=SEQUENCE),
    Option("activation", SEQUENCES, "Of hidden units: sigmoid or relu", usual="sigmoid", sets="activation",
           needs={"hidden": ()}),
    Option("pretrain", SEQUENCES, "rbm: hidden layers from stacked Boltzmann machines, for features in [0, 1]; "
           "rbm:60 for 60 passes over the data, not 20", usual="random layers", sets="pretrain", reads=pretraining,
           needs={"hidden": ()}),
    Option("seed", SEQUENCES, "Of the start of a network", type=int, sets="random_state", needs={"hidden": ()}),

    Option("states", SEQUENCES, "Words: states of each hidden Markov model", type=int, usual="5", sets="n_states",
           needs=SPEECH),
    Option("mixtures", SEQUENCES, "Words: Gaussians of each state", type=int, usual="2", sets="n_mixtures",
           needs=SPEECH),
    Option("covariance", SEQUENCES, "Words: diag or full", usual="diag", sets="covariance", needs=SPEECH),
    Option("theta", SEQUENCES, "Words: weights in the penalty, of slopes, squares and moves, such as 1,4,1",
           usual="1,1,1", sets="theta", reads=weights, needs=SPEECH),
    Option("margin", SEQUENCES, "Words: how much higher the score of the true one shall be, per frame", type=float,
           usual="1", sets="margin", needs=SPEECH),
    Option("normalize", SEQUENCES, "Words: utterance, to give each one features of mean 0 and variance 1",
           sets="normalize", needs=SPEECH),

    Option("online", ONLINE, "Stream the file in chunks with an online method", type=bool, flags=("--online",),
           online=True),
    Option("passes", ONLINE, "Times to read the file", type=int, minimum=1, default=1, needs=STREAM, online=True),
    Option("chunk_rows", ONLINE, "Rows at a time", type=int, minimum=1, default=10_000, needs=STREAM, online=True),
    Option("partitions", ONLINE, "With workers: the model visits partitions along one another, or its mean over all of "
           "them counts after each pass", choices=("along", "mean"), usual="along", needs=STREAM, online=True),
    Option("classes", ONLINE, "All labels, such as -1,1", needs=STREAM, online=True),

    Option("valid", STOPPING, "Stop once the loss on this file no longer falls, and keep the best solution", type=Path,
           online=True),
    Option("patience", STOPPING, "How many solutions, or passes, in a row may fail to lower it", type=int, minimum=1,
           default=5, needs={"valid": ()}, online=True),
    Option("gap", STOPPING, "Stop at this gap relative to the objective", type=float, usual="1e-3", sets="gap_rel"),
    Option("max_steps", STOPPING, "Limit for each problem", type=int, usual="10000", sets="max_steps"),
    Option("max_seconds", STOPPING, "Limit for a fit; in a path, for each one", type=float, sets="max_seconds"),
    Option("jobs", STOPPING, "Classes fitted at the same time; -1: one per core", type=int, usual="1", sets="n_jobs"),

    Option("output", OUTPUT, "Where to write the model, - for standard output", type=Path, flags=("--output", "-o"),
           default=Path("model.uc"), online=True),
    Option("trace", OUTPUT, "Write one JSON line per step to this file, at once", type=Path, online=True),
    Option("checkpoint", OUTPUT, "Keep the state of the run in this file, so that it can be resumed", type=Path,
           online=True),
    Option("every", OUTPUT, "Seconds from one checkpoint to the next", type=float, default=60.0,
           needs={"checkpoint": (), "resume": ()}, online=True),
    Option("json", OUTPUT, "Print the report as JSON", type=bool, flags=("--json",), online=True),
    Option("quiet", OUTPUT, "Print nothing but errors", type=bool, flags=("--quiet", "-q"), online=True),
    Option("log_file", OUTPUT, "Append progress and report to this file", type=Path, online=True),
    Option("config", OUTPUT, "Read options from this TOML file; those typed here count more", type=Path, online=True),
]  # fmt: skip


PATH_OPTIONS = [  # of ``undercut path``, beside those of ``SHARED``
    Option("lambdas", CHOICE, "Such as 1e-2,1e-3 or 1e-2:1e-8:20, from, to and how many",
           usual="from where nothing moves to where the training risk stops falling", sets="lams", reads=numbers,
           excludes=("kernel",)),
    Option("Cs", CHOICE, "With --kernel, in place of --lambdas", usual="1e-2:1e4:7", flags=("--Cs",),
           reads=numbers, needs={"kernel": ()}),
    Option("gammas", CHOICE, "With --kernel: some of them, or scale or auto", usual="scale", reads=numbers_or_words,
           needs={"kernel": ()}),
    Option("cv", CHOICE, "Choose by this many folds", type=int, minimum=2, sets="cv"),
    Option("scoring", CHOICE, "A score of scikit-learn such as roc_auc", usual="that of the model", sets="scoring",
           needs={"cv": ()}, excludes=("kernel",)),
    Option("rule", CHOICE, "best, or one_standard_error: the strongest lambda within that of the best",
           usual="best", sets="rule", needs={"cv": ()}, excludes=("kernel",)),
    Option("extend", CHOICE, "Go on beyond --lambdas where the best one is the last", type=bool, flags=("--extend",),
           sets="extend", needs={"cv": ()}, excludes=("kernel",)),
    Option("early", CHOICE, "evident, proved or never: when fits of hopeless lambdas end early", usual="evident",
           sets="early", needs={"cv": ()}, excludes=("kernel",)),
    Option("epsilon", CHOICE, "Without --cv: prove this relative gap for every lambda between the first and the last",
           type=float, excludes=("cv", "kernel")),
    Option("plot", OUTPUT, "Save a picture of the path here (.png, .pdf, .svg)", type=Path, excludes=("kernel",)),
]  # fmt: skip
SHARED = (  # options of ``undercut train`` that ``undercut path`` has too
    "task", "n_features", "target", "group", "ignore", "categorical", "impute", "weights", "loss", "measure",
    "threshold", "surrogate", "weighting", "intercept", "class_weight", "multi_class", "solver", "penalty", "l1_ratio",
    "kernel", "degree", "coef0", "template", "columns", "min_count", "folds", "pairs", "gap", "max_steps",
    "max_seconds", "jobs", "output", "json", "quiet", "log_file", "config",
)  # fmt: skip


def named(name: str) -> Option:
    """The record of an option."""
    return next(option for option in (*OPTIONS, *PATH_OPTIONS) if option.name == name)


def path_options() -> list[Option]:
    """All options of ``undercut path``."""
    return [*PATH_OPTIONS[:-1], *map(named, SHARED), PATH_OPTIONS[-1]]
