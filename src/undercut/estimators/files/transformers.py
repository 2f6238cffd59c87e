"""The parts of scikit-learn that a model file may hold: classes and functions by name, and their fitted attributes.

Nothing else of scikit-learn is ever made from a file, and nothing but data is put into it.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
import sklearn

MODULES = {
    "pipeline": ("Pipeline", "FeatureUnion"),
    "compose": ("ColumnTransformer", "make_column_selector"),
    "preprocessing": (
        "StandardScaler", "MinMaxScaler", "MaxAbsScaler", "RobustScaler", "Normalizer", "Binarizer", "OneHotEncoder",
        "OrdinalEncoder", "PolynomialFeatures", "FunctionTransformer", "QuantileTransformer", "PowerTransformer",
    ),
    "impute": ("SimpleImputer", "MissingIndicator"),
    "feature_extraction": ("DictVectorizer", "FeatureHasher"),
    "feature_extraction.text": ("CountVectorizer", "TfidfTransformer", "TfidfVectorizer", "HashingVectorizer"),
    "decomposition": ("PCA", "TruncatedSVD"),
    "feature_selection": ("SelectKBest", "SelectPercentile", "VarianceThreshold"),
}  # fmt: skip
CLASSES = {name: f"sklearn.{module}" for module, names in MODULES.items() for name in names}
FUNCTIONS = {
    **dict.fromkeys(("f_classif", "f_regression", "chi2", "r_regression"), "sklearn.feature_selection"),
    **dict.fromkeys(("mutual_info_classif", "mutual_info_regression"), "sklearn.feature_selection"),
    **dict.fromkeys(("log1p", "expm1", "log", "exp", "sqrt", "square", "absolute"), "numpy"),
}
SKIPPED = ("_stop_words_id", "_metadata_request")  # an address in memory; requests, which only a fit reads
CACHE = "memory"  # a folder of pickles, which a file must not name


def known(value: Any, table: dict[str, str]) -> bool:
    """Whether this very class or function is one of a table's."""
    name = getattr(value, "__name__", "")
    return name in table and named(name, table) is value


def named(name: str, table: dict[str, str]) -> Any:
    """The class or the function of a table; ``KeyError`` for any other."""
    return getattr(importlib.import_module(table[name]), name)


def fitted_of(transformer: Any) -> dict[str, Any]:
    """The attributes that a fit gave a transformer."""
    params = params_of(transformer)
    return {name: value for name, value in vars(transformer).items() if name not in (*params, *SKIPPED, CACHE)}


def params_of(transformer: Any) -> dict[str, Any]:
    """The arguments that make an equal transformer, not fitted."""
    params = transformer.get_params(deep=False) if hasattr(transformer, "get_params") else vars(transformer)
    return {name: value for name, value in params.items() if name != CACHE}


def made(name: str, params: dict[str, Any], fitted: dict[str, Any]) -> Any:
    """The transformer with these parameters and attributes; ``ValueError`` if they do not fit together."""
    kind = named(name, CLASSES)
    if CACHE in params:
        raise ValueError(f"a {name} in a file has no parameter {CACHE!r}")
    transformer = kind(**params)
    if hasattr(kind, "_parameter_constraints"):
        transformer._validate_params()
    for attribute, value in fitted.items():
        if hasattr(kind, attribute) or attribute in params:
            raise ValueError(f"a {name} has no fitted attribute {attribute!r}")
        setattr(transformer, attribute, value)
    if fitted and name in CHECKS:
        CHECKS[name](transformer)
    return transformer


def version() -> str:
    """The version of scikit-learn, without what a correction changes."""
    return ".".join(sklearn.__version__.split(".")[:2])


def check_version(saved: str) -> None:
    """Warn where the attributes of a pipeline were made by another scikit-learn."""
    if saved != version():
        warnings.warn(
            f"this pipeline was saved with scikit-learn {saved} and is used with {version()}, whose transformers may "
            "differ: compare predictions, or fit and save it again",
            UserWarning,
            stacklevel=2,
        )


def _check_vocabulary(vectorizer: Any) -> None:
    """Columns must be those of the matrix: scipy does not look."""
    columns = sorted(vectorizer.vocabulary_.values())
    if columns != list(range(len(columns))):
        raise ValueError("the columns of a vocabulary must be 0, 1, 2 ...")


def _check_categories(encoder: Any) -> None:
    """The widths must be those of the categories, for the same reason."""
    widths = list(encoder._compute_n_features_outs())
    dropped = encoder._drop_idx_after_grouping
    for at, (width, categories) in enumerate(zip(widths, encoder.categories_, strict=True)):
        drop = None if dropped is None else dropped[at]
        mapping = encoder._default_to_infrequent_mappings[at] if encoder._infrequent_enabled else None
        codes = np.arange(len(categories)) if mapping is None else np.asarray(mapping)
        n_codes = width + (drop is not None)
        if codes.shape != (len(categories),) or codes.min() < 0 or codes.max() >= n_codes:
            raise ValueError("the codes of an encoder do not fit its categories")
        if drop is not None and not 0 <= drop < n_codes:
            raise ValueError(f"an encoder of {n_codes} codes cannot drop number {drop}")
    if list(encoder._n_features_outs) != widths:
        raise ValueError("the widths of an encoder do not fit its categories")


def _check_powers(powers: Any) -> None:
    """What follows from the number of features is computed again."""
    vars(powers).update(vars(type(powers)(**powers.get_params()).fit(sp.csr_matrix((1, int(powers.n_features_in_))))))


def _check_scales(scaler: Any) -> None:
    """Statistics of every feature, or none."""
    for name, value in vars(scaler).items():
        if isinstance(value, np.ndarray) and value.shape != (scaler.n_features_in_,):
            raise ValueError(f"{name} of shape {value.shape} does not fit {scaler.n_features_in_} features")


CHECKS: dict[str, Callable[[Any], None]] = {
    "CountVectorizer": _check_vocabulary,
    "TfidfVectorizer": _check_vocabulary,
    "DictVectorizer": _check_vocabulary,
    "OneHotEncoder": _check_categories,
    "PolynomialFeatures": _check_powers,
    "StandardScaler": _check_scales,
    "MinMaxScaler": _check_scales,
    "MaxAbsScaler": _check_scales,
    "RobustScaler": _check_scales,
}
